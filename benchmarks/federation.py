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
from tacit.federation.secure.exchange import Gatherer, Member, Terms

ITEMS, USERS, ROUNDS = 200, 300, 100
SETTINGS = {
    "model": {"ratings": "user:k item:k"}, "rank": 5, "bounds": [1.0, 5.0], "method": "sgld",
    "options": {"rounds": ROUNDS, "rate": 0.2}, "entities": {"item": ITEMS},
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
    return outcome


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


def _shared(work: tuple) -> list:
    """Let some members share their secrets, in a process of its own."""
    members, adverts = work
    return [(member.share(adverts), member) for member in members]


def _masked(work: tuple) -> list:
    """Mask the vectors of some members, in a process of its own."""
    members, boxes, size = work
    return [
        (member.mask(found, np.arange(size)), member)
        for member, found in zip(members, boxes, strict=True)
    ]


def secure_sum(sites: int, size: int, bits: int, gone: int) -> float:
    """Return the seconds of one aggregation, all sites and the coordinator on two cores."""
    names = tuple(f"{k:03d}" for k in range(sites))
    terms = Terms(b"benchmark", names, sites - sites // 3, bits)
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        list(pool.map(abs, range(4)))  # processes are up
        started = time.perf_counter()
        members = {name: Member(name, terms) for name in names}
        gatherer = Gatherer(terms)
        gatherer.take_adverts({name: m.advertise() for name, m in members.items()})
        halves = (names[::2], names[1::2])
        work = [([members[n] for n in half], gatherer.adverts) for half in halves]
        shares = {}
        for half, found in zip(halves, pool.map(_shared, work), strict=True):
            for name, (share, member) in zip(half, found, strict=True):
                shares[name], members[name] = share, member
        gatherer.take_shares(shares)
        left = names[gone:]
        halves = (left[::2], left[1::2])
        work = [
            ([members[n] for n in half], [gatherer.boxes_for(n) for n in half], size)
            for half in halves
        ]
        for half, found in zip(halves, pool.map(_masked, work), strict=True):
            for name, (vector, member) in zip(half, found, strict=True):
                gatherer.masked[name], members[name] = vector, member
        total = gatherer.total({n: members[n].unmask(list(gatherer.masked)) for n in left})
        seconds = time.perf_counter() - started
    assert (total == len(left) * np.arange(size)).all()
    return seconds
