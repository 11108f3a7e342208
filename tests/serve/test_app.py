"""The HTTP API of a released model: routes, refusals, headers; and a small load on a socket."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import numpy as np
import pytest
import uvicorn
from uvicorn.server import ServerState

import tacit as tc
from benchmarks import serve as benchmark
from tacit.serve import run
from tacit.serve.answers import MOST_ROWS, Served
from tacit.serve.app import MOST_BYTES, application
from tacit.serve.run import LOOPBACK

ITEMS = ["Alien", "Brazil", "<b>Cube</b>"]


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Any:
    model = benchmark.model()
    return model, model.release(tmp_path_factory.mktemp("serve") / "release", purpose="a <try>")


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Served:
    rng = np.random.default_rng(0)
    ratings = np.where(rng.random((30, 3)) < 0.7, rng.integers(1, 6, (30, 3)), np.nan)
    model = tc.PrivateRecommender((1, 5), items=ITEMS, rank=1, privacy=tc.Privacy(8.0, 1e-5))
    table = [(f"u{u}", ITEMS[i], ratings[u, i]) for u, i in np.argwhere(~np.isnan(ratings))]
    users, items, values = zip(*table, strict=True)
    model.fit({"user": list(users), "item": list(items), "rating": list(values)})
    return Served(model.release(tmp_path_factory.mktemp("films") / "release"))


class Web:
    """Asks an application without a socket."""

    def __init__(self, served: Served, hosts: tuple[str, ...] = ()) -> None:
        self.app = application(served, hosts)

    def ask(self, method: str, path: str, body: bytes = b"", **head: str) -> Any:
        """Return status, headers and content."""
        path, _, query = path.partition("?")
        headers = {"host": "127.0.0.1", "content-length": str(len(body)), **head}
        scope = {
            "type": "http", "method": method, "path": path, "raw_path": path.encode(),
            "query_string": query.encode(), "scheme": "http", "server": ("127.0.0.1", 80),
            "headers": [(k.replace("_", "-").encode(), v.encode()) for k, v in headers.items()],
            "http_version": "1.1", "root_path": "",
        }  # fmt: skip
        parts = [body[k : k + 65536] for k in range(0, max(len(body), 1), 65536)]
        told: list[Any] = []

        async def receive() -> Any:
            part = parts.pop(0)
            return {"type": "http.request", "body": part, "more_body": bool(parts)}

        async def send(message: Any) -> None:
            told.append(message)

        asyncio.run(self.app(scope, receive, send))
        start, *rest = told
        content = b"".join(part.get("body", b"") for part in rest)
        return start["status"], {k.decode(): v.decode() for k, v in start["headers"]}, content

    def get(self, path: str) -> Any:
        status, _, content = self.ask("GET", path)
        return status, json.loads(content)

    def post(self, path: str, data: Any) -> Any:
        body = data if isinstance(data, bytes) else json.dumps(data).encode()
        status, _, content = self.ask("POST", path, body, content_type="application/json")
        return status, json.loads(content)


@pytest.fixture(scope="module")
def web(fitted: Any) -> Web:
    return Web(Served(fitted[1]), LOOPBACK)


def test_it_predicts_what_the_fitted_model_predicts(web: Web, fitted: Any) -> None:
    rows = [{"age": 30, "dose": "2.5"}, {"age": 60.5, "dose": 1}]
    status, found = web.post("/v1/predict", {"rows": rows, "interval": 0.9})
    mean, (low, high) = fitted[0].predict({"age": [30, 60.5], "dose": [2.5, 1]}, interval=0.9)
    assert status == 200
    np.testing.assert_array_equal(found["columns"]["prediction"], mean)
    np.testing.assert_array_equal(found["columns"]["low"], low)
    np.testing.assert_array_equal(found["columns"]["high"], high)


def test_it_says_what_it_is_and_what_it_promises(web: Web) -> None:
    _, about = web.get("/v1/about")
    assert about["estimator"] == "PrivateLinearRegression"
    assert about["promises"] == ["the data: ε = 1, δ = 1e-06, per row (add-remove-one)"]
    assert "are your own" in about["note"]
    _, certificates = web.get("/v1/certificates")
    assert certificates["the data"]["certificate"]["epsilon"] <= 1.0
    _, table = web.get("/v1/tables/feature")
    assert table["columns"]["feature"] == ["age", "dose"]
    _, document = web.get("/openapi.json")
    assert document["openapi"] == "3.1.0"
    row = document["components"]["schemas"]["Rows"]["properties"]["rows"]["items"]
    assert set(row["properties"]) == {"age", "dose"}
    for path in document["paths"]:
        assert web.ask("GET", path.replace("{name}", "feature"))[0] in (200, 405)


def test_the_page_needs_no_other_machine_and_no_inline_script(web: Web) -> None:
    status, headers, content = web.ask("GET", "/")
    page = content.decode()
    assert status == 200 and headers["content-type"].startswith("text/html")
    assert "http://" not in page and "https://" not in page and "//" not in page.replace("</", "")
    assert "onclick" not in page and "<script>" not in page and "style=" not in page
    assert "a &lt;try&gt;" in page and "ε = 1" in page
    for file in ("/script.js", "/style.css"):
        assert web.ask("GET", file)[0] == 200


def test_every_answer_has_safe_headers(web: Web) -> None:
    for path in ("/", "/v1/about", "/nowhere", "/v1/predict"):
        _, headers, _ = web.ask("GET", path)
        assert headers["x-content-type-options"] == "nosniff", path
        assert headers["content-security-policy"].startswith("default-src 'none'")
        assert headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "not JSON"),
        (b"\xff", "not JSON"),
        (b'{"rows": [{"age": NaN}]}', "NaN is no JSON"),
        (b'{"rows": [{"age": 1e999}]}', "no number"),
        (b'{"rows": [{"age": 1, "age": 2}]}', "occurs twice"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "must be a JSON object"),
        (b'{"row": []}', "'row' is not known here"),
        (b'{"rows": {}}', "rows must be a list of objects"),
        (b'{"rows": [1]}', "rows must be a list of objects"),
        (b'{"rows": [{}]}', "1 to 1000 columns, got 0"),
        (b'{"rows": [{"age": {"a": 1}}]}', "row 1: 'age' must be a number"),
        (b'{"rows": [{"age": 1, "dose": "much"}]}', "row 1: 'much'"),
        (b'{"rows": [{"age": 1}]}', "dose"),
        (b'{"rows": [{"age": 1, "dose": null}]}', "row 1"),
        (b'{"rows": [{"age": 1, "dose": 1}], "interval": 1.5}', "interval"),
        (b'{"rows": [{"age": 1, "dose": 1}], "interval": "a"}', "interval"),
        (b'{"rows": [{"age": 100000000000000000000000000, "dose": 1}]}', "too large"),
    ],
)
def test_bad_input_is_refused_with_a_sentence(web: Web, body: bytes, words: str) -> None:
    status, found = web.post("/v1/predict", body)
    assert status == 400
    assert found["error"]["status"] == 400
    assert words in found["error"]["message"]
    assert "Traceback" not in found["error"]["message"]


def test_too_much_is_refused_before_it_is_read(web: Web) -> None:
    many = {"rows": [{"age": 1, "dose": 1}] * (MOST_ROWS + 1)}
    assert "at most 10000" in web.post("/v1/predict", many)[1]["error"]["message"]
    large = b" " * (MOST_BYTES + 1)
    assert web.post("/v1/predict", large)[0] == 413
    # a length that is not true
    told = web.ask(
        "POST", "/v1/predict", large, content_type="application/json", content_length="5"
    )
    assert told[0] == 413
    assert web.ask("POST", "/v1/predict", b"{}", content_type="text/plain")[0] == 415


def test_only_names_of_this_machine_are_answered(web: Web) -> None:
    """A page of somebody else cannot reach a loopback address by a name of its own."""
    assert web.ask("GET", "/v1/about", host="evil.example")[0] == 421
    assert web.ask("GET", "/v1/about", host="localhost:8000")[0] == 200


def test_a_mistake_of_ours_shows_nothing(fitted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    served = Served(fitted[1])

    def broken(*given: Any) -> Any:
        raise RuntimeError("secret path /home/somebody")

    monkeypatch.setattr(served.model, "_predict_table", broken)
    status, found = Web(served).post("/v1/predict", {"rows": [{"age": 1, "dose": 1}]})
    assert status == 500
    assert "secret" not in json.dumps(found)


def test_own_ratings_are_answered_with_items(films: Served) -> None:
    web = Web(films)
    status, found = web.post("/v1/recommend", {"ratings": {"Alien": 5}, "n": 2})
    assert status == 200
    assert sorted(found["columns"]["item"]) == sorted(ITEMS[1:])
    rows = [{"item": "Alien", "rating": 5}, {"item": "Brazil"}]
    status, told = web.post("/v1/predict", {"rows": rows})
    place = found["columns"]["item"].index("Brazil")
    assert told["columns"]["prediction"] == [found["columns"]["prediction"][place]]
    for ratings in ({"Dune": 3}, {"Alien": 9}, {"Alien": "good"}, [1]):
        assert web.post("/v1/recommend", {"ratings": ratings})[0] == 400
    assert web.post("/v1/recommend", {"n": 0})[0] == 400
    assert "<b>" not in web.ask("GET", "/")[2].decode()


def test_a_posterior_is_told_with_an_interval(tmp_path: Any) -> None:
    from tacit.posterior.numerics.populations.laws import Exponential

    model = tc.PrivatePosterior(
        Exponential(), bounds=(0, 30), privacy=tc.Privacy(4.0, 1e-5), chains=1, draws=40, warmup=4
    ).fit(np.random.default_rng(0).exponential(3.0, 200))
    web = Web(Served(model.release(tmp_path / "r")))
    status, found = web.get("/v1/posterior?level=0.5")
    assert status == 200
    assert found["columns"]["low"] == model.interval(0.5)[:, 0].tolist()
    for level in ("2", "x", "nan"):
        assert web.get(f"/v1/posterior?level={level}")[0] == 400


def test_what_predicts_nothing_says_so(tmp_path: Any) -> None:
    model = tc.PrivateSummary({"x": (0, 1)}, statistics=("mean",), privacy=tc.Privacy(1.0, 1e-6))
    web = Web(Served(model.fit({"x": [0.5, 0.7]}).release(tmp_path / "r")))
    status, found = web.post("/v1/predict", {"rows": [{"x": 1}]})
    assert status == 400 and "predicts nothing" in found["error"]["message"]
    assert "/v1/predict" not in web.get("/openapi.json")[1]["paths"]
    assert web.get("/v1/tables/numbers")[1]["columns"]["name"][0] == "mean/x"


def test_a_server_stands_a_small_load_and_ends_in_order() -> None:
    found = benchmark.run(quick=True)
    assert [check.what for check in found.checks if not check.ok] == []


@pytest.mark.parametrize("sent", [b"", b"GET /v1/about HT", b"POST /v1/predict HTTP/1.1\r\nHost:"])
def test_a_connection_without_a_request_is_closed(
    monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(run, "_PATIENCE", 0.05)

    async def tried() -> bytes:
        config = uvicorn.Config(None, log_level="error")  # type: ignore[arg-type]
        config.load()
        state = ServerState()
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: run.Patient(config, state, {}), "127.0.0.1", 0)
        async with server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(sent)
            found = await reader.read()  # until the server closes it
            writer.close()
        return found

    assert asyncio.run(asyncio.wait_for(tried(), 20)) == b""
