"""The two ends of the federation benchmark: a bare echo, and tacit's rounds beside it."""

from __future__ import annotations

import json
import statistics
import time
from pathlib import Path

import numpy as np
from nvflare.collab import collab

from tacit.federation import wire
from tacit.federation.coordinate import Caller, run_proposal
from tacit.federation.engine.client import carried, carry
from tacit.federation.engine.nvflare import CollabTransport
from tacit.federation.files import SiteConfig
from tacit.federation.proposal import Proposal
from tacit.federation.service import SiteService
from tacit.rounds.messages import ArraySpec, Message
from tacit.rounds.run import drive
from tacit.rounds.sides import Coordinator

RUN = "benchmark"


class BenchmarkSite:
    """Echoes an array as it is, echoes a message of tacit, or is a whole site."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._service = None

    @collab.publish
    def echo(self, value):
        return value

    @collab.publish
    def call(self, method: str, data):
        name, data = collab.site_name, carried(data)
        if method == "echo":
            request = wire.read_request(data, RUN)
            return carry(wire.answer(Message(request.round, request.arrays), data, RUN, name))
        if self._service is None:
            self._service = SiteService(SiteConfig.read(Path(self.folder) / name / "site.toml"))
        return carry(self._service.call(method, data))


class Echo(Coordinator):
    """Sends numbers and gets them back, some rounds long."""

    def __init__(self, value, rounds: int) -> None:
        self.value, self.rounds = value, rounds

    @property
    def replies(self):
        return {"x": ArraySpec(self.value.shape)}

    def request(self, round: int):
        return Message(round, {"x": self.value}) if round < self.rounds else None

    def absorb(self, round: int, collected) -> None:
        assert len(collected.sites) == len(collab.clients)


class BenchmarkServer:
    """Measures, and writes what it found."""

    def __init__(self, folder: str, sizes: list, repeats: int, proposal: str) -> None:
        self.folder, self.sizes, self.repeats, self.proposal = folder, sizes, repeats, proposal

    @collab.main
    def run(self) -> None:
        found = []
        for size in self.sizes:
            value = np.random.default_rng(0).normal(size=size)
            bare, rounds = [], []
            self._bare(value, bare, 2)
            self._tacit(value, 2)
            bare.clear()
            for _ in range(self.repeats):  # in turns, so that other load hits both alike
                self._bare(value, bare, 2)
                rounds += self._tacit(value, 2)
            found.append({"floats": size, "sites": len(collab.clients),
                          "bare s": statistics.median(bare),
                          "tacit s": statistics.median(rounds)})  # fmt: skip
        if self.proposal:
            proposal = Proposal.from_json(self.proposal)
            result = run_proposal(proposal, CollabTransport(), timeout=120.0)
            found.append({"rounds": result.record.rounds, "sites": len(result.record.sites),
                          "tacit s": statistics.median(result.record.seconds),
                          "whole s": sum(result.record.seconds)})  # fmt: skip
        Path(self.folder, "found.json").write_text(json.dumps(found))

    def _bare(self, value, times: list, count: int) -> None:
        for _ in range(count):
            started = time.perf_counter()
            replies = collab.clients(timeout=120.0).echo(value)
            assert sum(1 for _, back in replies if back.shape == value.shape) == len(
                collab.clients
            )
            times.append(time.perf_counter() - started)

    def _tacit(self, value, count: int) -> list:
        caller = Caller(CollabTransport(), RUN, 120.0)
        names = [proxy.name for proxy in collab.clients]
        record = drive(Echo(value, count), names, lambda q, left: caller("echo", q, left))
        return record.seconds
