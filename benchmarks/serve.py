"""`tacit serve` under many requests from many connections, good and bad, on loopback.

A regression is fitted with privacy, released and served by ``tacit serve`` in a process of its
own. Clients keep their connections and send, in turns: rows to predict, one to twenty at a time;
what is there to read; and bad input of a dozen kinds. Every reply is checked: predictions against
those of the model that was released, refusals for a 4xx status and a sentence. Memory is that of
the server's process after a tenth of the requests, and at the end.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import tacit as tc
from experiments.runner import Outcome

REQUESTS, CONNECTIONS = 10_000, 50
QUICK = 600, 10
PATIENCE = 900.0  # seconds for all requests
_TYPE = "Content-Type: application/json\r\n"
READ = ["/", "/openapi.json", "/v1/about", "/v1/certificates", "/v1/tables/feature", "/style.css"]
# what is sent, and the status of the refusal
BAD: list[tuple[str, str, str, bytes, int]] = [
    ("POST", "/v1/predict", _TYPE, b"", 400),
    ("POST", "/v1/predict", _TYPE, b"{", 400),
    ("POST", "/v1/predict", _TYPE, b"[]", 400),
    ("POST", "/v1/predict", _TYPE, b'{"rows": []}', 400),
    ("POST", "/v1/predict", _TYPE, b'{"rows": [{"age": NaN, "dose": 1}]}', 400),
    ("POST", "/v1/predict", _TYPE, b'{"rows": [{"age": "old", "dose": 1}]}', 400),
    ("POST", "/v1/predict", _TYPE, b'{"rows": [{"dose": 1}]}', 400),
    ("POST", "/v1/predict", _TYPE, b'{"rows": [{"age": [1], "dose": 1}]}', 400),
    ("POST", "/v1/predict", _TYPE, b'{"rows": [{"age": 1, "dose": 1}], "interval": 2}', 400),
    ("POST", "/v1/predict", _TYPE, b'{"rows": ' + b"[" * 50_000, 400),
    ("POST", "/v1/predict", "", b'{"rows": [{"age": 1, "dose": 1}]}', 415),
    ("GET", "/v1/predict", "", b"", 405),
    ("GET", "/v1/tables/..%2f..%2fetc", "", b"", 404),
    ("GET", "/v2", "", b"", 404),
    ("DELETE", "/v1/about", "", b"", 405),
]


def model() -> Any:
    """Return a regression of made-up patients."""
    rng = np.random.default_rng(0)
    age, dose = rng.uniform(20, 90, 2000), rng.uniform(0, 5, 2000)
    rows = {"age": age, "dose": dose, "pressure": 100 + 0.5 * age - 3 * dose}
    return tc.PrivateLinearRegression(
        bounds={"age": (20, 90), "dose": (0, 5)}, y_bounds=(60, 220), target="pressure",
        method="Bayes-fixedS-fast", privacy=tc.Privacy(1.0, 1e-6),
    ).fit(rows)  # fmt: skip


class Client:
    """One connection that stays open, and what went wrong on it."""

    def __init__(self, port: int, fitted: Any) -> None:
        self.port, self.fitted = port, fitted
        self.wrong: list[str] = []
        self.refused = 0
        self.seconds: list[float] = []

    async def work(self, numbers: range) -> None:
        """Send the requests of some numbers, one after the other."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            for number in numbers:
                began = time.perf_counter()
                await self._one(number, reader, writer)
                self.seconds.append(time.perf_counter() - began)
        finally:
            writer.close()

    async def _one(self, number: int, reader: Any, writer: Any) -> None:
        kind = number % 10
        if kind == 0:
            method, path, head, body, expected = BAD[number // 10 % len(BAD)]
            status, content = await _sent(reader, writer, method, path, head, body)
            message = json.loads(content).get("error", {}).get("message", "")
            if status != expected or len(message) < 10 or "Traceback" in message:
                self.wrong.append(f"{method} {path} {body[:40]!r}: {status} {content[:80]!r}")
            self.refused += 1
            return
        if kind == 1:
            path = READ[number // 10 % len(READ)]
            status, content = await _sent(reader, writer, "GET", path, "", b"")
            if status != 200 or not content:
                self.wrong.append(f"GET {path}: {status}")
            return
        rng = np.random.default_rng(number)
        ages, doses = rng.uniform(20, 90, 1 + number % 20), rng.uniform(0, 5, 1 + number % 20)
        rows = [{"age": a, "dose": d} for a, d in zip(ages.tolist(), doses.tolist(), strict=True)]
        body = json.dumps({"rows": rows}).encode()
        status, content = await _sent(reader, writer, "POST", "/v1/predict", _TYPE, body)
        found = json.loads(content).get("columns", {}).get("prediction", [])
        wanted = self.fitted.intercept_ + np.column_stack([ages, doses]) @ self.fitted.coef_
        if status != 200 or not np.allclose(found, wanted):
            self.wrong.append(f"predict: {status} {content[:80]!r}")


async def _sent(
    reader: Any, writer: Any, method: str, path: str, head: str, body: bytes
) -> tuple[int, bytes]:
    """Send one request and return status and content."""
    text = (
        f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{head}Content-Length: {len(body)}\r\n\r\n"
    )
    writer.write(text.encode() + body)
    await writer.drain()
    first = await reader.readuntil(b"\r\n\r\n")
    lines = first.decode("latin-1").lower().split("\r\n")
    length = next(int(line[15:]) for line in lines if line.startswith("content-length:"))
    return int(lines[0].split()[1]), await reader.readexactly(length)


def memory(process: int) -> float:
    """Return the resident memory of a process, in MB."""
    text = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    line = next(line for line in text.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024.0


def load(port: int, process: int, fitted: Any, requests: int, connections: int) -> dict[str, Any]:
    """Return what happened under a number of requests.

    Parameters
    ----------
    port, process
        Of the server.
    fitted
        The model that was released.
    requests, connections
        How many.
    """
    clients = [Client(port, fitted) for _ in range(connections)]
    before = 0.0

    async def everybody() -> None:
        nonlocal before
        warm = requests // 10
        await asyncio.gather(*(c.work(range(k, warm, connections)) for k, c in enumerate(clients)))
        before = memory(process)
        await asyncio.gather(
            *(c.work(range(warm + k, requests, connections)) for k, c in enumerate(clients))
        )

    began = time.perf_counter()
    asyncio.run(asyncio.wait_for(everybody(), PATIENCE))
    seconds = np.concatenate([client.seconds for client in clients])
    return {
        "requests": len(seconds),
        "connections": connections,
        "wrong": [line for client in clients for line in client.wrong],
        "refused": sum(client.refused for client in clients),
        "seconds": time.perf_counter() - began,
        "median ms": float(np.median(seconds)) * 1e3,
        "99 % ms": float(np.quantile(seconds, 0.99)) * 1e3,
        "MB before": before,
        "MB after": memory(process),
    }


def run(quick: bool) -> Outcome:
    outcome = Outcome()
    requests, connections = QUICK if quick else (REQUESTS, CONNECTIONS)
    with tempfile.TemporaryDirectory() as place:
        fitted = model()
        folder = fitted.release(Path(place, "release"), purpose="a benchmark")
        tacit = [sys.executable, "-m", "tacit"]
        command = [*tacit, "serve", str(folder), "--port", "0", "--json"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            assert server.stdout is not None and server.stderr is not None
            port = int(json.loads(server.stdout.readline())["url"].rpartition(":")[2])
            found = load(port, server.pid, fitted, requests, connections)
        finally:
            server.terminate()
            _, said = server.communicate(timeout=60)
    grown = found["MB after"] - found["MB before"]
    outcome.add({**found, "wrong": len(found["wrong"]), "first wrong": found["wrong"][:1]})
    answered, refused, ended = found["requests"], found["refused"], server.returncode
    outcome.check("requests answered", answered, f"{requests}", answered == requests)
    outcome.check("wrong answers", len(found["wrong"]), "0", not found["wrong"])
    outcome.check("bad input refused with a sentence", refused, "all", refused == requests // 10)
    outcome.check("memory grown, MB", grown, "at most 8", grown <= 8.0)
    outcome.check("said on stderr", len(said), "0 bytes", not said)
    outcome.check("ended in order", ended, "0 or by the signal", ended in (0, -15))
    return outcome
