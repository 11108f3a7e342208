"""A coordinator that asks every site for what it likes, and tools to read what it gets."""

from __future__ import annotations

import numpy as np

from tacit.federation.secure import keys, shamir
from tacit.federation.secure.arrays import as_text, asked_digest, rows_of
from tacit.federation.secure.exchange import (
    ADVERT,
    BOX,
    EXCHANGES,
    SIGNATURE,
    add_mask,
    mask_context,
)
from tacit.federation.secure.site import SecureParticipant
from tacit.federation.secure.terms import Terms
from tacit.rounds.messages import Message
from tacit.rounds.sides import Participant
from tests.federation.identities import identity, pinned

__all__ = ["SIZE", "World", "vector"]

SIZE = 6


def vector(name: str) -> np.ndarray:
    """Return what a site holds."""
    return np.arange(SIZE) + 1000 * sum(name.encode())


class Holds(Participant):
    """Sends its vector times what it is asked for."""

    def __init__(self, name: str) -> None:
        self.name, self.asked = name, 0

    def respond(self, request: Message) -> Message:
        self.asked += 1
        return Message(request.round, {"x": vector(self.name) * request["times"][0]})


class World:
    """Sites that answer under masks, and everything that a coordinator can do to them.

    Parameters
    ----------
    names, threshold, colluding
        Who takes part, and the terms.
    known
        Whose identities the sites have pinned; all unless given.
    wrap
        What is put around every site's side.
    """

    def __init__(self, names="ABCDV", threshold=3, colluding=0, *, run=b"run", known=None,
                 kind=SecureParticipant, wrap=lambda site: site):  # fmt: skip
        self.terms = Terms(run, tuple(sorted(names)), threshold, colluding)
        partners = pinned(names) if known is None else known
        self.sites = {
            name: wrap(kind(Holds(name), self.terms, identity(name), partners))
            for name in self.terms.sites
        }
        self.round = 0
        self.sent = {}  # (site, exchange) → the last request

    def ask(self, name, exchange, arrays, attempt=0, step=0):
        """Ask one site; what it refuses is raised."""
        place = np.array([step, attempt, EXCHANGES.index(exchange)])
        request = Message(self.round, {"place": place, **arrays})
        self.round += 1
        self.sent[name, exchange] = request
        return self.sites[name].respond(request)

    # -- the exchanges, with whatever lists the coordinator tells --------------------------------

    def advertise(self, names, attempt=0, step=0, times=1):
        """Return the adverts of sites; ``times`` may differ by site."""
        found = {}
        for name in names:
            many = np.array([times if isinstance(times, int) else times[name]])
            digest = asked_digest(Message(step, {"times": many}), ["x"], np.array([0]))
            terms = self.terms.at(step, attempt, digest)
            arrays = {
                "terms": np.frombuffer(terms.digest, np.uint8), "names": as_text(["x"]),
                "grids": np.array([0]), "ask/times": many,
            }  # fmt: skip
            found[name] = self.ask(name, "advertise", arrays, attempt, step)["advert"].tobytes()
        self.now = terms  # of the last one
        return found

    def share(self, name, adverts, attempt=0, step=0):
        """Return a site's boxes for the others."""
        rows = rows_of([adverts[s] for s in sorted(adverts)], ADVERT)
        arrays = {"group": self.terms.marks(adverts), "adverts": rows}
        reply = self.ask(name, "share", arrays, attempt, step)
        return {s: reply["boxes"][k].tobytes() for k, s in enumerate(sorted(adverts))}

    def mask(self, name, boxes, attempt=0, step=0):
        """Return a site's masked vector; ``boxes`` are sender → receiver → box."""
        rows = [boxes[s][name] for s in sorted(boxes) if s != name]
        arrays = {"group": self.terms.marks({*boxes, name}), "boxes": rows_of(rows, BOX)}
        return self.ask(name, "mask", arrays, attempt, step)["masked"].view(np.uint64)

    def confirm(self, name, arrived, attempt=0, step=0):
        """Return a site's signature under a list."""
        arrays = {"group": self.terms.marks(arrived)}
        return self.ask(name, "confirm", arrays, attempt, step)["signature"].tobytes()

    def unmask(self, name, signatures, sharers, attempt=0, step=0):
        """Return the shares that a site shows."""
        rows = rows_of([signatures[s] for s in sorted(signatures)], SIGNATURE)
        arrays = {"group": self.terms.marks(signatures), "signatures": rows}
        reply = self.ask(name, "unmask", arrays, attempt, step)
        return {s: reply["shares"][k].tobytes() for k, s in enumerate(sorted(sharers))}

    def until_masked(self, names=None, **more):
        """Play an honest coordinator up to the masks: adverts, boxes and vectors."""
        names = names or self.terms.sites
        at = {k: v for k, v in more.items() if k in ("attempt", "step")}
        adverts = self.advertise(names, **more)
        boxes = {name: self.share(name, adverts, **at) for name in names}
        return adverts, boxes, {name: self.mask(name, boxes, **at) for name in names}

    def honest_sum(self, names=None, times=1, **at):
        """Play an honest coordinator to the end; return the sum."""
        adverts, boxes, masked = self.until_masked(names, times=times, **at)
        signatures = {name: self.confirm(name, list(masked), **at) for name in masked}
        shown = {n: self.unmask(n, signatures, boxes, **at) for n in masked}
        return self.strip(masked, adverts, boxes, shown, shown, masked)

    # -- what can be read ------------------------------------------------------------------------

    def secret(self, site, shown):
        """Return a site's seed or key of t shares."""
        helpers = sorted(h for h in shown if site in shown[h])[: self.terms.threshold]
        assert len(helpers) == self.terms.threshold
        parts = {self.terms.point(h): int.from_bytes(shown[h][site], "little") for h in helpers}
        return shamir.combine(parts).to_bytes(66, "little")[:32]

    def strip(self, masked, adverts, sharers, seeds, private, wanted):
        """Return the sum of the wanted vectors, all masks taken off that can be.

        ``seeds`` and ``private`` are helper → site → share of the seed, or of the key of those
        who are not wanted.
        """
        result = sum(masked[name] for name in wanted)
        bound = mask_context(self.now, adverts, sharers)
        for name in wanted:
            result = result - keys.stream(self.secret(name, seeds), SIZE, 64)
        for other in set(sharers) - set(wanted):
            key = keys.load_key(self.secret(other, private))
            for name in wanted:
                public = adverts[name][32:64]
                add_mask(result, self.now, key, other, public, name, bound)
        return result.astype(np.int64)
