"""A rogue coordinator against secure sums: lists, keys, order and numbers of its own choice.

A `World` asks every site for what it likes, and takes off the masks that it can. Each attack
returns what it could read: the vector of V alone, or of V and A, which are fewer than three of
five sites. What a site refuses is raised. `experiments.hostile` plays them against real processes,
``tests/federation/secure/test_active.py`` against sides in one process.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from tacit.federation.secure import exchange, keys, shamir
from tacit.federation.secure.arrays import as_text, asked_digest, rows_of
from tacit.federation.secure.exchange import ADVERT, BOX, EXCHANGES, SIGNATURE
from tacit.federation.secure.terms import Terms
from tacit.rounds.messages import Message

ALL = ("A", "B", "C", "D", "V")
# Whom each site is told to have arrived. Every list has three names and the site's own; together
# they give three shares of the keys of B, C and D, and five of the seeds of V and A.
SPLIT = {"V": "ABV", "A": "ACV", "B": "ABV", "C": "ACV", "D": "ADV"}
Texts = dict[str, bytes]


class World:
    """Sites that answer under masks, and everything that a coordinator can do to them.

    Parameters
    ----------
    terms
        Those of the run.
    respond
        Asks a site; what it refuses is raised.
    asked
        From a number to the arrays that a site is asked with; other numbers, other arrays.
    layout
        The names of what is summed, and the exponents of its grids.
    size
        How many numbers that is.
    step
        What the computation calls its step.
    """

    def __init__(
        self,
        terms: Terms,
        respond: Callable[[str, Message], Message],
        asked: Callable[[int], dict[str, Any]],
        layout: tuple[list[str], list[int]],
        size: int,
        step: str = "",
    ) -> None:
        self.terms, self.respond, self.asked = terms, respond, asked
        self.layout, self.size, self.step = layout, size, step
        self.rounds = dict.fromkeys(terms.sites, 0)
        self.sent: dict[tuple[str, str], Message] = {}  # (site, exchange) → the last request
        self.now = terms

    def ask(
        self, name: str, kind: str, arrays: Mapping[str, Any], attempt: int = 0, step: int = 0
    ) -> Message:
        """Ask one site for an exchange."""
        place = np.array([step, attempt, EXCHANGES.index(kind)])
        named = self.step if kind == "advertise" else ""
        request = Message(self.rounds[name], {"place": place, **arrays}, named)
        self.rounds[name] += 1
        self.sent[name, kind] = request
        return self.respond(name, request)

    # -- the exchanges, with whatever lists the coordinator tells ---------------------------------

    def advertise(
        self,
        names: Collection[str],
        attempt: int = 0,
        step: int = 0,
        times: int | Mapping[str, int] = 1,
    ) -> Texts:
        """Return the adverts of sites; ``times`` may differ by site."""
        found, (summed, grids) = {}, self.layout
        for name in names:
            asked = self.asked(times if isinstance(times, int) else times[name])
            digest = asked_digest(Message(step, asked, self.step), summed, np.array(grids))
            terms = self.terms.at(step, attempt, digest)
            arrays = {
                "terms": np.frombuffer(terms.digest, np.uint8),
                "names": as_text(summed),
                "grids": np.array(grids),
                **{f"ask/{n}": a for n, a in asked.items()},
            }
            found[name] = self.ask(name, "advertise", arrays, attempt, step)["advert"].tobytes()
            self.now = terms  # of the last one
        return found

    def share(self, name: str, adverts: Texts, attempt: int = 0, step: int = 0) -> Texts:
        """Return a site's boxes for the others."""
        rows = rows_of([adverts[s] for s in sorted(adverts)], ADVERT)
        arrays = {"group": self.terms.marks(adverts), "adverts": rows}
        reply = self.ask(name, "share", arrays, attempt, step)
        return {s: reply["boxes"][k].tobytes() for k, s in enumerate(sorted(adverts))}

    def mask(self, name: str, boxes: Mapping[str, Texts], attempt: int = 0, step: int = 0) -> Any:
        """Return a site's masked vector; ``boxes`` are sender → receiver → box."""
        rows = [boxes[s][name] for s in sorted(boxes) if s != name]
        arrays = {"group": self.terms.marks({*boxes, name}), "boxes": rows_of(rows, BOX)}
        return self.ask(name, "mask", arrays, attempt, step)["masked"].view(np.uint64)

    def confirm(
        self, name: str, arrived: Collection[str], attempt: int = 0, step: int = 0
    ) -> bytes:
        """Return a site's signature under a list."""
        arrays = {"group": self.terms.marks(arrived)}
        return self.ask(name, "confirm", arrays, attempt, step)["signature"].tobytes()

    def unmask(
        self,
        name: str,
        signatures: Texts,
        sharers: Collection[str],
        attempt: int = 0,
        step: int = 0,
    ) -> Texts:
        """Return the shares that a site shows."""
        rows = rows_of([signatures[s] for s in sorted(signatures)], SIGNATURE)
        arrays = {"group": self.terms.marks(signatures), "signatures": rows}
        reply = self.ask(name, "unmask", arrays, attempt, step)
        return {s: reply["shares"][k].tobytes() for k, s in enumerate(sorted(sharers))}

    def until_masked(self, names: Collection[str] | None = None, **more: Any) -> Any:
        """Play an honest coordinator up to the masks: adverts, boxes and vectors."""
        names = names or self.terms.sites
        at = {k: v for k, v in more.items() if k in ("attempt", "step")}
        adverts = self.advertise(names, **more)
        boxes = {name: self.share(name, adverts, **at) for name in names}
        return adverts, boxes, {name: self.mask(name, boxes, **at) for name in names}

    def honest_sum(self, names: Collection[str] | None = None, times: Any = 1, **at: int) -> Any:
        """Play an honest coordinator to the end; return the sum."""
        adverts, boxes, masked = self.until_masked(names, times=times, **at)
        signatures = {name: self.confirm(name, list(masked), **at) for name in masked}
        shown = {n: self.unmask(n, signatures, boxes, **at) for n in masked}
        return self.strip(masked, adverts, boxes, shown, shown, masked)

    # -- what can be read -------------------------------------------------------------------------

    def secret(self, site: str, shown: Mapping[str, Texts]) -> bytes:
        """Return a site's seed or key of t shares."""
        helpers = sorted(h for h in shown if site in shown[h])[: self.terms.threshold]
        assert len(helpers) == self.terms.threshold
        parts = {self.terms.point(h): int.from_bytes(shown[h][site], "little") for h in helpers}
        return shamir.combine(parts).to_bytes(66, "little")[:32]

    def strip(
        self,
        masked: Mapping[str, Any],
        adverts: Texts,
        sharers: Collection[str],
        seeds: Mapping[str, Texts],
        private: Mapping[str, Texts],
        wanted: Collection[str],
    ) -> Any:
        """Return the sum of the wanted vectors, all masks taken off that can be.

        ``seeds`` and ``private`` are helper → site → share of the seed, or of the key of those
        who are not wanted.
        """
        result = sum(masked[name] for name in wanted)
        bound = exchange.mask_context(self.now, adverts, sharers)
        for name in wanted:
            result = result - keys.stream(self.secret(name, seeds), self.size, 64)
        for other in set(sharers) - set(wanted):
            key = keys.load_key(self.secret(other, private))
            for name in wanted:
                public = adverts[name][32:64]
                exchange.add_mask(result, self.now, key, other, public, name, bound)
        return result.astype(np.int64)

    def bare(
        self, masked: Any, adverts: Texts, sharers: Collection[str], seeds: Any, private: Any
    ) -> Any:
        """Return the vector of V, of whom both seed and key are known."""
        result = masked["V"] - keys.stream(self.secret("V", seeds), self.size, 64)
        key = keys.load_key(self.secret("V", private))
        bound = exchange.mask_context(self.now, adverts, sharers)
        for other in set(sharers) - {"V"}:  # with its key, V's own masks can be made and taken off
            taken = np.zeros_like(result)
            exchange.add_mask(taken, self.now, key, "V", adverts[other][32:64], other, bound)
            result = result - taken
        return result.astype(np.int64)


Make = Callable[..., World]  # of names, threshold, colluding, run

# -- different lists for different sites ----------------------------------------------------------


def split_lists(make: Make, signatures: Callable[..., Texts] | None = None) -> Any:
    """Tell every site something else about who arrived."""
    world = make()
    adverts, boxes, masked = world.until_masked()
    signed = {name: world.confirm(name, SPLIT[name]) for name in ALL}
    shown = {}
    for name in ALL:
        same = {other: signed[other] for other in SPLIT[name] if SPLIT[other] == SPLIT[name]}
        known = same if signatures is None else signatures(name, same)
        shown[name] = world.unmask(name, known, boxes)
    private = {n: {s: v for s, v in shown[n].items() if s not in SPLIT[n]} for n in ALL}
    return world.strip(masked, adverts, boxes, shown, private, ["A", "V"])


def stale_confirmations(make: Make) -> Any:
    """Collect signatures under every list in runs of their own, then show them in another."""
    collected = {}
    for number, arrived in enumerate(sorted(set(SPLIT.values()))):
        world = make(run=f"run {number}")
        world.until_masked()
        collected[arrived] = {name: world.confirm(name, arrived) for name in arrived}
    return split_lists(make, lambda name, same: collected[SPLIT[name]])


def split_sharers(make: Make) -> Any:
    """Tell V that A and B share with it, and the others that all do; then drop A and B."""
    world = make()
    adverts = world.advertise(ALL)
    boxes = {name: world.share(name, adverts) for name in ALL}
    few = {name: boxes[name] for name in "ABV"}
    masked = {name: world.mask(name, few if name == "V" else boxes) for name in ALL}
    arrived = ("C", "D", "V")
    signed = {name: world.confirm(name, arrived) for name in arrived}
    shown = {n: world.unmask(n, signed, few if n == "V" else boxes) for n in arrived}
    return world.strip(masked, adverts, few, shown, shown, ["V"])


# -- keys and partners that the coordinator made --------------------------------------------------


def _own_adverts(world: World, names: str, identity: Callable[[str], bytes]) -> Any:
    """Return adverts of the coordinator's own making, and the keys behind them."""
    sealing, masking = ({name: keys.fresh_key() for name in names} for _ in range(2))
    adverts = {}
    for name in names:
        public = keys.public_key(sealing[name]) + keys.public_key(masking[name])
        adverts[name] = public + keys.sign(identity(name), world.now.about("keys", name) + public)
    return adverts, sealing, masking


def swapped_keys(make: Make) -> Any:
    """Show V keys of the coordinator's own as those of its partners."""
    world = make()
    adverts = world.advertise(ALL)
    false, sealing, masking = _own_adverts(world, "ABCD", lambda name: keys.fresh_identity())
    return _read_alone(world, false | {"V": adverts["V"]}, sealing, masking)


def invented_partners(
    make: Make, identity: Callable[[str], bytes] = lambda name: keys.fresh_identity()
) -> Any:
    """Propose a run of V with partners that do not exist."""
    world = make(("V", "W", "X", "Y"))
    adverts = world.advertise("V")
    false, sealing, masking = _own_adverts(world, "WXY", identity)
    return _read_alone(world, false | adverts, sealing, masking)


def _read_alone(world: World, adverts: Texts, sealing: Any, masking: Any) -> Any:
    """Read V, all of whose partners are the coordinator's own."""
    boxes, seeds = world.share("V", adverts), {}
    for name in sealing:
        digests = boxes[name][: 2 * exchange.SHORT]
        context = world.now.about("share", "V", name, digests)
        key = keys.agree(sealing[name], adverts["V"][:32], context)
        text = keys.open_sealed(key, boxes[name][2 * exchange.SHORT :], context)
        seeds[name] = {"V": text[66:]}
    own = {name: {"V": bytes(BOX)} for name in adverts}  # V cannot open them: no matter
    masked = world.mask("V", own | {"V": boxes})
    result = masked - keys.stream(world.secret("V", seeds), masked.size, 64)
    bound = exchange.mask_context(world.now, adverts, adverts)
    for name in adverts:
        if name != "V":
            private = keys.load_key(masking[name])
            public = adverts["V"][32:64]
            exchange.add_mask(result, world.now, private, name, public, "V", bound)
    return result.astype(np.int64)


# -- going back -----------------------------------------------------------------------------------


def rolled_back(make: Make) -> Any:
    """Unmask the whole list, repeat the masking request, then unmask a list without V."""
    world = make()
    adverts, boxes, masked = world.until_masked()
    repeated = {name: world.sent[name, "mask"] for name in ALL}
    shown = []
    for arrived in (ALL, ("A", "B", "C", "D")):
        signed = {name: world.confirm(name, arrived) for name in arrived}
        shown.append({name: world.unmask(name, signed, boxes) for name in arrived})
        for name in ALL:
            world.respond(name, repeated[name])
    return world.bare(masked, adverts, boxes, *shown)


def shorter_list(make: Make) -> Any:
    """Have a list confirmed, then try again without V."""
    world = make()
    first = world.honest_sum()
    return first - world.honest_sum(("A", "B", "C", "D"), attempt=1)


# -- what is asked, and of how many ---------------------------------------------------------------


def different_requests(make: Make) -> Any:
    """Ask V for its vector, and the others for nothing times theirs."""
    return make().honest_sum(times={name: int(name == "V") for name in ALL})


def low_threshold(make: Make) -> Any:
    """Two lists of two: one gives V's seed, the other V's key."""
    world = make(threshold=2)
    adverts, boxes, masked = world.until_masked()
    lists = {"A": "ABV", "B": "ABV", "V": "ABV", "C": "CD", "D": "CD"}
    signed = {name: world.confirm(name, lists[name]) for name in ALL}
    shown = {name: world.unmask(name, {n: signed[n] for n in lists[name]}, boxes) for name in ALL}
    seeds, private = ({name: shown[name] for name in some} for some in ("AB", "CD"))
    return world.bare(masked, adverts, boxes, seeds, private)


ATTACKS: dict[str, tuple[Callable[[Make], Any], str]] = {
    "split lists": (split_lists, "unconfirmed"),
    "confirmations of another run": (stale_confirmations, "unbound confirmations"),
    "split lists of who shared": (split_sharers, "unconfirmed sharers"),
    "keys of its own": (swapped_keys, "unsigned keys"),
    "invented partners": (invented_partners, "unpinned"),
    "roll back": (rolled_back, "rolling back"),
    "a shorter list later": (shorter_list, "retrying"),
    "another request for one": (different_requests, "unbound requests"),
    "a threshold that two lists reach": (low_threshold, "low threshold"),
}
