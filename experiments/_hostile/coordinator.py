"""A rogue coordinator against one site: policy, noise, what is said, order, arrays, resources.

Winning is what the law forbids (PRIVACY A10, A11). Each attack names the check without which it
has to win.
"""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np

from experiments._hostile import builds
from experiments._hostile.got import Got
from experiments._hostile.homes import BAD, RECOMMENDER, SETTINGS
from experiments._hostile.parties import Sites
from tacit.errors import TacitError
from tacit.federation import wire
from tacit.federation.computation import Computation
from tacit.federation.proposal import Proposal
from tacit.rounds.messages import Message

PRIVACY = {"epsilon": 1.0, "delta": 1e-6, "unit": "user", "trust": "site"}
IN_SHARES = {"epsilon": 1.0, "delta": 1e-6, "unit": "entry", "trust": "aggregator"}
MOST_MB = 50.0  # for any request that is refused


def honest(sites: Sites, run: str) -> Proposal:
    """Return a proposal that the policy allows."""
    return Proposal("factorization", SETTINGS, PRIVACY, sites.names, run)


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


def begin(sites: Sites, proposal: Proposal) -> None:
    """Open and begin an honest run."""
    assert not refused(sites.ask("open", opening(proposal)))
    assert not refused(sites.ask("begin", wire.ask(Message(0), proposal.run)))


def request(round: int, **arrays: Any) -> Message:
    """Return an honest request of a round, with other arrays where given."""
    return Message(round, {"factor/item": np.full((6, 2), 0.5), **arrays}, "round")


# -- the attacks ----------------------------------------------------------------------------------


def against_the_policy(sites: Sites) -> Got:
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
    wider += [{"privacy": None}, {"seed": 1}, {"sites": (sites.victim.name,)}]
    wider += [
        {"settings": SETTINGS | change}
        for change in (
            {"rank": 3}, {"bounds": [1.0, 5000.0]}, {"options": {"rounds": 4}},
            {"options": {"rounds": 3, "clip": 1e9}}, {"entities": {"item": 7}}, {"method": "als"},
            {"model": {"ratings": "user:k item:k", "other": "user:k item:k"}},
        )
    ]  # fmt: skip
    got, before = Got(len(wider)), sites.victim.spent
    for number, change in enumerate(wider):
        proposal = dataclasses.replace(honest(sites, f"wider {number}"), **change)
        got.other += not refused(sites.ask("open", opening(proposal)))
    got.other += sites.victim.spent > before
    return got


def against_the_noise(sites: Sites) -> Got:
    """Have the noise of a secure sum split among more sites than will add it.

    The headline is for noise in t − c shares, which needs t sites that are there, of whom c know
    their own: any other pair of numbers ends in a certificate whose ε is too small.
    """
    there = len(sites.names)
    with builds.taken("agreeing"):  # what an honest coordinator could not even write down
        proposals = [
            Proposal(
                "recommender", RECOMMENDER, IN_SHARES, sites.names, f"{t} {c}", t, colluding=c
            )
            for t, c in ((10**6, 1), (there + 1, 1), (2, 0), (there, 0), (10**6, 0))
        ]
        texts = [opening(proposal) for proposal in proposals]
    got = Got(len(texts))
    for text in texts:
        got.certificates += not refused(sites.ask("open", text))
    return got


def by_what_is_said(sites: Sites) -> Got:
    """Learn from refusals what is wrong with the data: any mark, or any two that differ.

    That a site cannot take part is one bit, and listed.
    """
    answers = set()
    for number, bad in enumerate(BAD):
        run = f"bad {number}"
        sites.victim.write_ratings(bad)
        assert not refused(sites.ask("open", opening(honest(sites, run))))
        answer = sites.ask("begin", wire.ask(Message(0), run))
        found = Message.from_bytes(answer[40:], sealed=False).arrays
        if set(found) != {"ready"}:
            answers.add(tuple((name, array.tobytes()) for name, array in found.items()))
    sites.victim.write_ratings()
    return Got(len(BAD), facts=max(0, len(answers) - 1))


def by_asking_again(sites: Sites) -> Got:
    """Get a second, different answer to one round: repeated, reordered, opened anew."""
    got, run = Got(), "again"
    proposal = honest(sites, run)
    begin(sites, proposal)
    first_request = wire.ask(request(0), run)
    first = sites.ask("respond", first_request)
    assert not refused(first)
    for asked in (
        request(0), request(0, **{"factor/item": np.ones((6, 2))}), request(2), request(1),
        request(0), request(1, **{"factor/item": np.ones((6, 2))}), request(-1), request(3),
    ):  # fmt: skip
        sent = wire.ask(asked, run)
        answer = sites.ask("respond", sent)
        got.attempts += 1
        fair = refused(answer) or (sent == first_request and answer == first)
        got.other += not (fair or asked.round == 1)
    for method in ("begin", "open"):  # neither goes back
        again = opening(proposal) if method == "open" else wire.ask(Message(0), run)
        sites.ask(method, again)
        answer = sites.ask("respond", first_request)
        got.other += not refused(answer) and answer != first
        got.attempts += 1
    other = dataclasses.replace(proposal, sites=(sites.victim.name, "West"))
    got.other += not refused(sites.ask("open", opening(other)))
    got.attempts += 1
    return got


def by_what_is_asked(sites: Sites) -> Got:
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
    got, run = Got(len(bad) + 3), "arrays"
    begin(sites, honest(sites, run))
    for arrays in bad:
        got.other += not refused(sites.ask("respond", wire.ask(request(0, **arrays), run)))
    for step in ("", "offsets", "x" * 1000):
        asked = Message(0, request(0).arrays, step)
        got.other += not refused(sites.ask("respond", wire.ask(asked, run)))
    return got


class _Leaves:
    """When unpickled, leaves a line in a file."""

    def __init__(self, line: str) -> None:
        self.line = line

    def __reduce__(self) -> Any:
        return exec, (self.line,)


def by_code_in_bytes(sites: Sites) -> Got:
    """Have the data process run what is in a message: pickled, or named as what to compute."""
    line = f"open({str(sites.victim.ran)!r}, 'a').write('ran\\n')"
    before, got, run = sites.victim.lines_run(), Got(), "code"
    named = dataclasses.replace(honest(sites, run), computation=line)
    pickled = pickle.dumps(_Leaves(line))
    calls = [("open", opening(named)), ("open", pickled)]
    begin(sites, honest(sites, run))
    arrays = {"factor/item": np.full((6, 2), 0.5), "more": np.frombuffer(pickled, np.uint8)}
    calls += [(method, pickled) for method in ("begin", "respond", "close")]
    calls += [("respond", wire.ask(Message(0, arrays, "round"), run))]
    for module in ("os:system", "tests.federation", "subprocess", "../plugin", "builtins.exec"):
        calls += [("open", opening(dataclasses.replace(named, computation=module)))]
    for method, data in calls:
        sites.ask(method, data)
        got.attempts += 1
    got.code = sites.victim.lines_run() - before
    return got


def by_exhaustion(sites: Sites) -> Got:
    """Make a refused request cost memory or time."""
    run = "room"
    proposal = honest(sites, run)
    sizes = (10**12, 2**63, [0] * 10**6)
    proposals = [
        dataclasses.replace(proposal, settings=SETTINGS | {"entities": {"item": n}}) for n in sizes
    ]
    proposals += [dataclasses.replace(proposal, settings=SETTINGS | {"rank": 10**9})]
    calls = [("open", opening(p, "0")) for p in proposals]
    texts = (np.full(1 << 26, 91, np.uint8), wire.text_array("[" * 60_000))
    calls += [
        ("open", wire.ask(Message(0, {"proposal": text, "digest": text[:64]}), "open"))
        for text in texts
    ]
    calls += [
        ("respond", wire.ask(request(0, more=np.ones(1 << 23)), run)),
        ("begin", wire.ask(Message(0, {"x": np.ones(1 << 22)}), run)),
        ("open", b""),
    ]
    got = Got(len(calls))
    begin(sites, proposal)  # what is loaded once is loaded
    for method, data in calls:
        megabytes, seconds = sites.costing(method, data)
        got.megabytes, got.seconds = max(got.megabytes, megabytes), max(got.seconds, seconds)
        got.other += megabytes > MOST_MB
    return got


ATTACKS: dict[str, tuple[Callable[[Sites], Got], str]] = {
    "propose more than was consented to": (against_the_policy, "agreeing"),
    "divide the noise": (against_the_noise, "agreeing"),
    "read the data from refusals": (by_what_is_said, "speaking"),
    "ask one round twice": (by_asking_again, "going back"),
    "ask with other arrays": (by_what_is_asked, "reading all"),
    "send code": (by_code_in_bytes, "unpickling"),
    "exhaust a site": (by_exhaustion, "reading all"),
}
