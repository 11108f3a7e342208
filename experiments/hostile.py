"""Hostile parties, played by processes: what each of them tried, and what it got.

Every attack is played twice: against a site as it is, where it may get nothing, and against one
with a check taken out, where it must get something: an attack that wins nowhere shows nothing.
Marks planted in values, columns, names and paths are looked for in everything that leaves.

Here a coordinator attacks a site over bytes. Parties that come by the engine (a rogue server's
commands, probes from inside of the sandbox, strangers at the TLS port), liars in secure sums and
forgers of keys are played in ``tests/federation``, each with its control; the long ones by
``make test-slow``.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from experiments._hostile import coordinator
from experiments.runner import Outcome


def run(quick: bool) -> Outcome:
    outcome = Outcome()
    total = got = blind = 0
    most = longest = 0.0
    for name, (attack, weakness) in coordinator.ATTACKS.items():
        if quick and name in coordinator.LONG:
            continue
        found = {}
        for weakened in ("", weakness):
            started = time.perf_counter()
            with tempfile.TemporaryDirectory() as folder:
                found[weakened] = attack(Path(folder), weakened)
            outcome.add(
                {
                    "party": "coordinator",
                    "attack": name,
                    "build": weakened or "as it is",
                    "attempts": found[weakened].attempts,
                    "won": found[weakened].won,
                    "seconds": round(time.perf_counter() - started, 1),
                }
            )
        total += found[""].attempts
        got += found[""].won
        blind += found[weakness].won == 0
        most = max(most, found[""].megabytes)
        longest = max(longest, found[""].seconds)
    outcome.check("attempts", total, "> 0", total > 0)
    outcome.check("attempts that got anything", got, "0", got == 0)
    outcome.check("attacks that a weakened site withstands", blind, "0", blind == 0)
    outcome.check("MB for a refused request", round(most, 1), "≤ 50", most <= 50.0)
    outcome.check("seconds for a refused request", round(longest, 2), "≤ 1", longest <= 1.0)
    return outcome
