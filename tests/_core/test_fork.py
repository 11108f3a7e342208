"""Worker processes: neither a crash nor a shared noise stream, however they were started."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from tacit._core import kernels, threads
from tacit._core.rng import WordStream
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.noise import Noise

# Python 3.12 warns about every fork of a process with threads, OpenMP's among them
pytestmark = pytest.mark.filterwarnings(
    "ignore:This process .* is multi-threaded, use of fork:DeprecationWarning"
)

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
METHODS = [pytest.param("fork", marks=needs_fork), "spawn"]


def _in_worker(connection, noise, mechanism):
    """Draw words and a release."""
    release = mechanism.draw(np.zeros(4), noise)
    connection.send((noise.stream.words(4).tolist(), noise.stream.word(), release.tolist()))
    connection.close()


def drawn_in_workers(method, noise, workers=2):
    """Start workers one after the other; return (words, word, release) of each."""
    context = multiprocessing.get_context(method)
    mechanism = Gaussian(1.0, 1.0, (4,))
    results = []
    for _ in range(workers):
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_in_worker, args=(theirs, noise, mechanism))
        process.start()
        theirs.close()
        try:
            results.append(ours.recv())
        except EOFError:
            results.append(None)
        process.join()
        assert process.exitcode == 0, f"a {method}ed worker died with {process.exitcode}"
    return results


def words_of(result):
    words, word, release = result
    return {*words, word, *release}


@pytest.mark.parametrize("method", METHODS)
def test_workers_do_not_share_a_noise_stream(method):
    noise = Noise()
    noise.stream.word()  # leaves buffered words that a child must not use
    results = drawn_in_workers(method, noise)
    parent = {*noise.stream.words(4).tolist(), *(noise.stream.word() for _ in range(50))}
    parent |= set(Gaussian(1.0, 1.0, (4,)).draw(np.zeros(4), noise).tolist())
    seen = [parent, *map(words_of, results)]
    assert len(set().union(*seen)) == sum(map(len, seen))


@needs_fork
def test_workers_of_a_seeded_test_do_not_share_a_stream_either():
    noise = Noise(seed=1)
    results = drawn_in_workers("fork", noise)
    parent = {*noise.stream.words(4).tolist(), noise.stream.word()}
    assert not parent & words_of(results[0])
    assert not words_of(results[0]) & words_of(results[1])


@needs_fork
def test_buffered_words_are_not_inherited():
    stream = WordStream()
    stream.word()
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:  # pragma: no cover - the child
        os.write(write, json.dumps([stream.word() for _ in range(20)]).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        child = json.load(pipe)
    assert os.waitpid(pid, 0)[1] == 0
    assert not set(child) & {stream.word() for _ in range(20)}


@needs_fork
def test_a_forked_child_knows_that_it_is_one():
    pid = os.fork()
    if pid == 0:  # pragma: no cover - the child
        os._exit(0 if threads.in_forked_child() else 1)
    assert os.waitpid(pid, 0)[1] == 0
    assert not threads.in_forked_child()


# --- after a kernel on several threads ----------------------------------------------------------
#
# These run in processes of their own, with a fresh cache of compiled code: what another test
# compiled before must not decide the outcome.

KERNEL = """
def invert_each(first, last, values, out):
    for i in range(first, last):
        out[i] = 1.0 / values[i]
"""

ASK = """
import sys
import threading
import numpy as np
import kernel_under_test
from tacit._core import kernels, threads

def run(start=1.0, **options):
    values, out = np.arange(start, 1000.0), np.zeros(1000 - int(start))
    kernel = kernels.compiled(kernel_under_test.invert_each, **options)
    threads.over_range(kernel, len(values), values, out)
    assert (out[1:] == 1.0 / values[1:]).all()

def started_threads():
    return any(thread.name.startswith("tacit") for thread in threading.enumerate())
"""


def run_script(tmp_path, body, *arguments):
    """Run a script that can `run` the kernel; return what it printed."""
    (tmp_path / "kernel_under_test.py").write_text(KERNEL)
    script = tmp_path / "script.py"
    script.write_text(ASK + textwrap.dedent(body))
    environment = {
        **os.environ,
        "PYTHONPATH": f"{tmp_path}{os.pathsep}{Path(kernels.__file__).parents[2]}",
        "NUMBA_CACHE_DIR": str(tmp_path / "cache"),
        "NUMBA_NUM_THREADS": "2",
        "PYTHONWARNINGS": "ignore:This process:DeprecationWarning",
    }
    done = subprocess.run(
        [sys.executable, str(script), *arguments], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("method", METHODS)
def test_workers_survive_threads_in_their_parent(tmp_path, method):
    printed = run_script(
        tmp_path,
        """
        import json
        import multiprocessing
        from tacit.mechanisms.noise import Noise

        def work(connection, noise):
            run()
            assert started_threads() == (sys.argv[1] == "spawn")
            connection.send(noise.gaussian(4, 2.0**20).tolist())

        if __name__ == "__main__":
            run()
            assert started_threads()
            noise, drawn = Noise(), []
            context = multiprocessing.get_context(sys.argv[1])
            for _ in range(2 if sys.argv[1] == "fork" else 1):
                ours, theirs = context.Pipe(duplex=False)
                process = context.Process(target=work, args=(theirs, noise))
                process.start()
                theirs.close()
                try:
                    drawn.append(ours.recv())
                except EOFError:
                    pass
                process.join()
                assert process.exitcode == 0, f"the worker died with {process.exitcode}"
            run()
            print(json.dumps([*drawn, noise.gaussian(4, 2.0**20).tolist()]))
        """,
        method,
    )
    streams = json.loads(printed)
    assert len(streams) > 1
    assert len({number for stream in streams for number in stream}) == 4 * len(streams)


# Numba's cache on disk knows a function by name and signature, not by its options. Two processes
# share one cache; each asks for one form and says what a division by zero did.
@pytest.mark.parametrize("order", [("checked", "unchecked"), ("unchecked", "checked")])
def test_forms_of_a_kernel_do_not_replace_each_other_in_the_cache(tmp_path, order):
    ask = """
    try:
        run(0.0, unchecked=sys.argv[1] == "unchecked")
        print("unchecked")
    except ZeroDivisionError:
        print("checked")
    """
    assert tuple(run_script(tmp_path, ask, form) for form in order) == order
