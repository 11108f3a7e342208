"""The first and the second fit of every estimator, and of commands, in an empty cache of kernels.

Every fit runs twice in a process of its own, whose cache of compiled kernels is empty, and every
command in two processes, the second with the cache that the first left. Processor time counts, as
a machine may be busy with other things. What is imported is in the first of both.

Bars: the first takes at most 5 s longer than the second, and all of them together 20 s, where all
fits run one after the other in one empty cache (as on a new machine, on which kernels are shared);
``import tacit`` takes at most 50 ms, and ``tacit certify`` 1 s. A second table says which kernels
compile, with how many types, in how many seconds. The quick form has every third fit.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from typing import Any

from experiments.runner import Outcome

EACH, ALL, IMPORT, CERTIFY = 5.0, 20.0, 0.05, 1.0
COMMANDS = {
    "certify": ["certify", "gaussian", "--sigma", "1", "--delta", "1e-5"],
    "calibrate": ["calibrate", "gaussian", "--epsilon", "1", "--delta", "1e-5"],
    "demo": ["demo", "--folder", "{folder}"],
}

_TWICE = """
import json, sys, time, warnings
warnings.simplefilter("ignore")
from tacit.demo.warming import FITS
found, kernels = {}, []
from numba.core import event
class Seen(event.Listener):
    began = []
    def on_start(self, event): self.began.append(time.process_time())
    def on_end(self, event):
        spent = time.process_time() - self.began.pop()
        kernels.append([event.data["dispatcher"].__qualname__, spent])
event.register("numba:compile", Seen())
for name in json.loads(sys.argv[1]):
    times = []
    for _ in range(2):
        began = time.process_time()
        FITS[name]()
        times.append(time.process_time() - began)
    found[name] = times
print(json.dumps([found, kernels]))
"""


def fitted(names: list[str], cache: str) -> tuple[dict[str, list[float]], list[Any]]:
    """Fit twice each, in one process with a cache; return seconds and what was compiled."""
    call = [sys.executable, "-c", _TWICE, json.dumps(names)]
    done = subprocess.run(call, capture_output=True, text=True, env=_with(cache), check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    found, kernels = json.loads(done.stdout.splitlines()[-1])
    return found, kernels


def called(command: list[str], cache: str) -> float:
    """Run a process and return its processor time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, capture_output=True, env=_with(cache), check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _with(cache: str) -> dict[str, str]:
    return {**os.environ, "NUMBA_CACHE_DIR": cache, "TACIT_QUIET": "1"}


def run(quick: bool) -> Outcome:
    """Measure fits, all of them in one cache, and commands."""
    from tacit.demo.warming import FITS

    outcome, names = Outcome(), list(FITS)[:: 3 if quick else 1]
    for name in names:
        with tempfile.TemporaryDirectory() as cache:
            (found, kernels) = fitted([name], cache)
        first, second = found[name]
        more = first - second
        outcome.add({"fit": name, "first": first, "second": second, "compiled": len(kernels),
                     "compiling": sum(seconds for _, seconds in kernels)})  # fmt: skip
        outcome.check(f"{name}: first − second, s", more, f"≤ {EACH:g}", more <= EACH)
    with tempfile.TemporaryDirectory() as cache:
        found, kernels = fitted(names, cache)
    for name, seconds in sorted(kernels, key=lambda one: -one[1])[:15]:
        outcome.add({"kernel": name, "seconds": seconds})
    whole = sum(first - second for first, second in found.values())
    outcome.check("all in one cache: first − second, s", whole, f"≤ {ALL:g}", whole <= ALL)
    _commands(outcome)
    return outcome


def _commands(outcome: Outcome) -> None:
    """Measure commands twice, and the import."""
    bare = min(called([sys.executable, "-c", "pass"], "") for _ in range(3))
    for name, words in COMMANDS.items():
        with tempfile.TemporaryDirectory() as cache, tempfile.TemporaryDirectory() as folder:
            times = []
            for k in range(2):
                own = [word.format(folder=f"{folder}/{k}") for word in words]
                times.append(called([sys.executable, "-m", "tacit", *own], cache))
        outcome.add({"command": f"tacit {name}", "first": times[0], "second": times[1]})
        more = times[0] - times[1]
        outcome.check(f"tacit {name}: first − second, s", more, f"≤ {EACH:g}", more <= EACH)
        if name == "certify":
            outcome.check("tacit certify, s", times[1], f"≤ {CERTIFY:g}", times[1] <= CERTIFY)
    each = min(called([sys.executable, "-c", "import tacit"], "") for _ in range(3)) - bare
    outcome.check("import tacit, s", each, f"≤ {IMPORT:g}", each <= IMPORT)
