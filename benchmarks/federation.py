"""Rounds over NVFLARE against a bare Collab echo, 100 private rounds, 50 sites, secure sums."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from experiments.runner import Outcome
from tacit.federation.files import SiteConfig
from tacit.federation.proposal import Proposal
from tacit.federation.secure import keys
from tacit.federation.secure.coordinator import SecureCoordinator
from tacit.federation.secure.exchange import Member
from tacit.federation.secure.gatherer import Gatherer
from tacit.federation.secure.site import SecureParticipant
from tacit.federation.secure.terms import Terms
from tacit.federation.secure.threshold import default_threshold
from tacit.rounds.messages import ArraySpec, Message
from tacit.rounds.run import run as drive_rounds
from tacit.rounds.sides import Coordinator, Participant

ITEMS, USERS, ROUNDS = 200, 300, 100
SETTINGS = {
    "model": {"ratings": "user:k item:k"}, "rank": 5, "bounds": [1.0, 5.0], "method": "sgld",
    "options": {"rounds": ROUNDS, "sampling_rate": 0.2}, "entities": {"item": ITEMS},
}  # fmt: skip
PRIVACY = {"epsilon": 1.0, "delta": 1e-6, "unit": "user", "trust": "site"}


def run(quick: bool) -> Outcome:
    outcome = Outcome()
    with tempfile.TemporaryDirectory() as place:
        rows = simulate(Path(place), 3, [1_000, 1_000_000], 3 if quick else 10, not quick)
    for row in rows:
        if "bare s" in row:
            row["ratio"] = row["tacit s"] / row["bare s"]
            outcome.check(f"overhead at {row['floats']:,} floats, three sites", row["ratio"],
                          "≤ 1.5", row["ratio"] <= 1.5)  # fmt: skip
        outcome.add({"what": "round"} | row)
    if not quick:
        with tempfile.TemporaryDirectory() as place:
            for row in simulate(Path(place), 50, [1_000], 2, False):
                outcome.add({"what": "round"} | row)
    sites, size = (20, 20_000) if quick else (100, 100_000)
    for bits in (32, 64):
        for gone in (0, sites // 3):
            seconds = secure_sum(sites, size, bits, gone)
            outcome.add({"what": f"secure sum, {bits} bits, {gone} drop out", "sites": sites,
                         "floats": size, "tacit s": seconds})  # fmt: skip
            if gone == 0:
                outcome.check(f"secure sum of {sites} × {size:,}, {bits} bits", seconds,
                              "< 10 s", seconds < 10.0)  # fmt: skip
    added = {n: bytes_per_site(n) for n in (10, 50, 100)}
    for count, found in added.items():
        outcome.add({"what": "secure sum, bytes a site", "sites": count, "bytes": found})
    slope = (added[100] - added[50]) / (added[50] - added[10]) / (50 / 40)
    outcome.check("bytes a site of a secure sum, growth from 50 to 100 sites over that from 10",
                  slope, "≤ 1.05", slope <= 1.05)  # fmt: skip
    return outcome


def bytes_per_site(sites: int) -> float:
    """Return the bytes that one site sends and receives in a secure sum of one number."""
    names = tuple(f"{k:03d}" for k in range(sites))
    moved = dict.fromkeys(names, 0)

    class Counts(SecureParticipant):
        def respond(self, request: Message) -> Message:
            reply = super().respond(request)
            moved[self.name] += len(request.to_bytes()) + len(reply.to_bytes())
            return reply

    terms = Terms(b"benchmark", names, default_threshold(sites))
    identities = {name: keys.fresh_identity() for name in names}
    pinned = {name: keys.identity_public(key) for name, key in identities.items()}
    members = [Counts(One(name), terms, identities[name], pinned) for name in names]
    drive_rounds(SecureCoordinator(Once(), terms, pinned), members)
    return max(moved.values())


class One(Participant):
    """Has one number."""

    def __init__(self, name: str) -> None:
        self.name = name

    def respond(self, request: Message) -> Message:
        """Send it."""
        return Message(request.round, {"x": np.ones(1, np.int64)})


class Once(Coordinator):
    """Asks for it once."""

    @property
    def replies(self):
        """One number."""
        return {"x": ArraySpec((1,), "int64")}

    def request(self, round: int):
        """Ask in the first round."""
        return Message(0) if round == 0 else None

    def absorb(self, round: int, collected) -> None:
        """Count who is in the sum."""
        assert collected.total["x"].tolist() == [len(collected.sites)]


def simulate(place: Path, sites: int, sizes: list, repeats: int, private: bool) -> list:
    """Run the engine's simulator; return what the server measured."""
    from nvflare.collab import CollabRecipe
    from nvflare.recipe.sim_env import SimEnv

    from benchmarks._federation_objects import BenchmarkServer, BenchmarkSite

    names = [f"site-{k + 1}" for k in range(sites)]
    proposal = ""
    if private:
        for k, name in enumerate(names):
            write_site(place / name, name, k)
        proposal = Proposal("factorization", SETTINGS, PRIVACY, tuple(names), "run").to_json()
    recipe = CollabRecipe(
        job_name="benchmark", min_clients=sites, client=BenchmarkSite(str(place)),
        server=BenchmarkServer(str(place), sizes, repeats, proposal), sync_task_timeout=300,
    )  # fmt: skip
    logging.disable(logging.CRITICAL)
    os.environ["PYTHONPATH"] = os.pathsep.join([os.getcwd(), os.environ.get("PYTHONPATH", "")])
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            recipe.execute(
                SimEnv(
                    clients=names, num_threads=sites, workspace_root=str(place), log_config="error"
                )
            )
    finally:
        logging.disable(logging.NOTSET)
    return json.loads((place / "found.json").read_text())


def write_site(folder: Path, name: str, seed: int) -> None:
    """Write simulated ratings and a site's file."""
    rng = np.random.default_rng(seed)
    user, item = np.nonzero(rng.random((USERS, ITEMS)) < 0.1)
    folder.mkdir()
    rows = [f"u{u},{i},{r}" for u, i, r in zip(user, item, rng.integers(1, 6, len(user)),
                                                strict=True)]  # fmt: skip
    (folder / "ratings.csv").write_text("\n".join(["user,item,rating", *rows]) + "\n")
    settings = json.dumps(SETTINGS["options"])[1:-1].replace('":', '" =')
    (folder / "site.toml").write_text(
        f'name = "{name}"\nledger = {{file = "ledger.db", epsilon = 2.0, delta = 1e-5}}\n'
        'data = {ratings = {file = "ratings.csv", value = "rating"}}\n'
        '[[allow]]\ncomputation = "factorization"\nepsilon = 1.0\ndelta = 1e-6\nunit = "user"\n'
        f"rounds = {ROUNDS}\n[allow.settings]\n"
        'model = {ratings = "user:k item:k"}\nrank = 5\nbounds = [1, 5]\nmethod = "sgld"\n'
        f"options = {{{settings}}}\nentities = {{item = {ITEMS}}}\n"
    )
    SiteConfig.read(folder / "site.toml").create_ledger()


# -- secure sums ----------------------------------------------------------------------------------


def _each(work: tuple) -> list:
    """Have some members take one exchange, in a process of its own."""
    what, members, arguments = work
    return [
        (getattr(member, what)(*found), member)
        for member, found in zip(members, arguments, strict=True)
    ]


def secure_sum(sites: int, size: int, bits: int, gone: int) -> float:
    """Return the seconds of one aggregation, all sites and the coordinator on two cores."""
    names = tuple(f"{k:03d}" for k in range(sites))
    terms = Terms(b"benchmark", names, default_threshold(sites), bits=bits)
    identities = {name: keys.fresh_identity() for name in names}
    pinned = {name: keys.identity_public(key) for name, key in identities.items()}
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        list(pool.map(abs, range(4)))  # processes are up
        started = time.perf_counter()
        members = {name: Member(name, terms, identities[name], pinned) for name in names}
        gatherer = Gatherer(terms, pinned)

        def each(what: str, arguments: dict) -> dict:
            halves = (list(arguments)[::2], list(arguments)[1::2])
            work = [(what, [members[n] for n in h], [arguments[n] for n in h]) for h in halves]
            replies = {}
            for half, found in zip(halves, pool.map(_each, work), strict=True):
                for name, (reply, member) in zip(half, found, strict=True):
                    replies[name], members[name] = reply, member
            return {name: replies[name] for name in arguments}

        gatherer.take_adverts({name: m.advertise() for name, m in members.items()})
        for name, advert in gatherer.adverts.items():
            gatherer.check_advert(name, advert)
        gatherer.take_shares(each("share", dict.fromkeys(names, (gatherer.adverts,))))
        left = names[gone:]
        boxes = {name: gatherer.boxes_for(name) for name in left}
        masked = each("mask", {name: (boxes[name], np.arange(size)) for name in left})
        gatherer.take_masked(*({n: found[k] for n, found in masked.items()} for k in (0, 1)))
        signatures = {name: members[name].confirm(left) for name in left}
        for name, signature in signatures.items():
            gatherer.check_signature(name, signature)
        gatherer.take_signatures(signatures)
        shown = each("unmask", dict.fromkeys(left, (gatherer.signatures,)))
        for name, shares in shown.items():
            gatherer.check_shares(name, shares)
        total = gatherer.total(shown)
        seconds = time.perf_counter() - started
    assert (total == len(left) * np.arange(size)).all()
    return seconds
