"""A rogue coordinator against one site: policy, what is said, order, arrays, resources.

Each attack returns how often it tried and how often it won; winning is what the law forbids
(PRIVACY A10, A11). It is played against a site as it is and against a weakened one, where it has
to win.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from experiments._hostile.victim import BAD, SETTINGS, Victim, victim
from tacit.errors import TacitError
from tacit.federation import wire
from tacit.federation.computation import Computation
from tacit.federation.proposal import Proposal
from tacit.rounds.messages import Message

PRIVACY = {"epsilon": 1.0, "delta": 1e-6, "unit": "user", "trust": "site"}
HONEST = Proposal("factorization", SETTINGS, PRIVACY, ("North", "South"), "run")
MOST_MB, MOST_SECONDS = 50.0, 1.0  # for any request that is refused


class Won(NamedTuple):
    """What an attack got."""

    attempts: int
    won: int
    megabytes: float = 0.0
    seconds: float = 0.0


def opening(proposal: Proposal, digest: str | None = None) -> bytes:
    """Return the call that opens a run."""
    if digest is None:
        try:
            digest = Computation(proposal).digest
        except TacitError:
            digest = "0" * 64
    arrays = {
        "proposal": wire.text_array(proposal.to_json()),
        "digest": wire.text_array(digest),
    }
    return wire.ask(Message(0, arrays), "open")


def refused(answer: bytes) -> bool:
    """Whether an answer is a refusal."""
    return set(Message.from_bytes(answer[40:], sealed=False).arrays) == {"refused"}


def begin(site: Victim, proposal: Proposal = HONEST) -> None:
    """Open and begin an honest run."""
    assert not refused(site.call("open", opening(proposal)))
    assert not refused(site.call("begin", wire.ask(Message(0), proposal.run)))


def request(round: int, **arrays: Any) -> Message:
    """Return an honest request of a round, with other arrays where given."""
    return Message(round, {"factor/item": np.full((6, 2), 0.5), **arrays}, "round")


# -- the attacks --------------------------------------------------------------------------------


def against_the_policy(folder: Path, weakened: str) -> Won:
    """Propose more than was consented to, in every field."""
    wider: list[dict[str, Any]] = [
        {"privacy": PRIVACY | change}
        for change in (
            {"epsilon": 1.0001}, {"epsilon": 1e4}, {"epsilon": float("inf")}, {"delta": 2e-6},
            {"delta": 0.99}, {"unit": "entry"}, {"neighbours": "replace-one"}, {"trust": "local"},
            {"trust": "aggregator"}, {"trust": "shuffler"}, {"trust": "central"},
            {"against": "nobody"},
        )
    ]  # fmt: skip
    wider += [{"privacy": None}, {"seed": 1}, {"sites": ("North",)}]
    wider += [
        {"settings": SETTINGS | change}
        for change in (
            {"rank": 3}, {"bounds": [1.0, 5000.0]}, {"options": {"rounds": 4}},
            {"options": {"rounds": 3, "clip": 1e9}}, {"entities": {"item": 7}}, {"method": "als"},
            {"model": {"ratings": "user:k item:k", "other": "user:k item:k"}},
        )
    ]  # fmt: skip
    won = 0
    with victim(folder, weakened) as site:
        for number, change in enumerate(wider):
            proposal = dataclasses.replace(HONEST, run=f"run {number}", **change)
            won += not refused(site.call("open", opening(proposal)))
        return Won(len(wider), won + site.leaked() + (site.spent > 0.0))


def by_what_is_said(folder: Path, weakened: str) -> Won:
    """Learn from refusals what is wrong with the data: any mark, or any two that differ.

    That a site cannot take part is one bit, and listed.
    """
    answers, leaked = set(), 0
    for number, bad in enumerate(BAD):
        with victim(folder / str(number), weakened, bad) as site:
            assert not refused(site.call("open", opening(HONEST)))
            answer = site.call("begin", wire.ask(Message(0), HONEST.run))
            if set(Message.from_bytes(answer[40:], sealed=False).arrays) != {"ready"}:
                answers.add(answer)
            leaked += site.leaked()
    return Won(len(BAD), max(0, len(answers) - 1) + leaked)


def by_asking_again(folder: Path, weakened: str) -> Won:
    """Get a second, different answer to one round: repeated, reordered, after a restart."""
    won = tried = 0
    with victim(folder, weakened) as site:
        begin(site)
        honest = wire.ask(request(0), HONEST.run)
        first = site.call("respond", honest)
        assert not refused(first)
        for asked in (
            request(0), request(0, **{"factor/item": np.ones((6, 2))}), request(2), request(1),
            request(0), request(1, **{"factor/item": np.ones((6, 2))}), request(-1), request(3),
        ):  # fmt: skip
            sent = wire.ask(asked, HONEST.run)
            answer = site.call("respond", sent)
            tried += 1
            fair = refused(answer) or (sent == honest and answer == first)
            won += not (fair or asked.round == 1)
        for method in ("begin", "open"):  # neither goes back
            again = opening(HONEST) if method == "open" else wire.ask(Message(0), HONEST.run)
            site.call(method, again)
            won += not refused(site.call("respond", honest)) and site.said[-1] != first
            tried += 1
        other = dataclasses.replace(HONEST, settings=SETTINGS, run="run", sites=("North", "West"))
        won += not refused(site.call("open", opening(other)))
        return Won(tried + 1, won + site.leaked() + (site.spent > 1.0))


def by_what_is_asked(folder: Path, weakened: str) -> Won:
    """Ask with arrays that the step does not name, of other shapes, kinds and ranges."""
    bad: list[dict[str, Any]] = [
        {"factor/item": array}
        for array in (
            np.full((6, 2), 1e300), np.full((6, 2), -1e300), np.ones((7, 2)), np.ones((6, 3)),
            np.ones((6,)), np.ones((6, 2, 1)), np.ones((0, 2)), np.ones((6, 2), np.float32),
            np.ones((6, 2), np.int64), np.ones((6000, 2)),
        )
    ]  # fmt: skip
    bad += [{"more": np.ones(3)}, {"kind": np.array([0])}, {"user": np.ones((30, 2))}]
    won = 0
    with victim(folder, weakened) as site:
        begin(site)
        for arrays in bad:
            answer = site.call("respond", wire.ask(request(0, **arrays), HONEST.run))
            won += not refused(answer)
        for step in ("", "offsets", "x" * 1000):
            asked = Message(0, request(0).arrays, step)
            won += not refused(site.call("respond", wire.ask(asked, HONEST.run)))
        return Won(len(bad) + 3, won + site.leaked())


def by_exhaustion(folder: Path, weakened: str) -> Won:
    """Make a refused request cost memory or time."""
    sizes = (10**12, 2**63, [0] * 10**6)
    proposals = [
        dataclasses.replace(HONEST, settings=SETTINGS | {"entities": {"item": n}}) for n in sizes
    ]
    proposals += [dataclasses.replace(HONEST, settings=SETTINGS | {"rank": 10**9})]
    calls = [("open", opening(p, "0")) for p in proposals]
    texts = (np.full(1 << 27, 91, np.uint8), wire.text_array("[" * 60_000))
    calls += [
        ("open", wire.ask(Message(0, {"proposal": text, "digest": text}), "open"))
        for text in texts
    ]
    calls += [
        ("respond", wire.ask(request(0, more=np.ones(1 << 24)), HONEST.run)),
        ("begin", wire.ask(Message(0, {"x": np.ones(1 << 22)}), HONEST.run)),
        ("x" * 10**6, b""),
        ("open", b""),
    ]
    won, most, longest = 0, 0.0, 0.0
    with victim(folder, weakened) as site:
        site.call("open", opening(HONEST))  # what is loaded once is loaded
        for method, data in calls:
            _, cost = site.costing(method, data)
            # the pipe that brings a message here holds it once: not the site's own doing
            own = max(0.0, cost.megabytes - 2.2 * len(data) / 2**20)
            most, longest = max(most, own), max(longest, cost.seconds)
            won += own > MOST_MB
        return Won(len(calls), won + site.leaked(), most, longest)


ATTACKS: dict[str, tuple[Callable[[Path, str], Won], str]] = {
    "propose more than was consented to": (against_the_policy, "agreeing"),
    "read the data from refusals": (by_what_is_said, "speaking"),
    "ask one round twice": (by_asking_again, "going back"),
    "ask with other arrays": (by_what_is_asked, "reading all"),
    "exhaust a site": (by_exhaustion, "reading all"),
}
LONG = ("read the data from refusals", "exhaust a site")  # not in the quick form
