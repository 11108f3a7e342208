"""The routes of a served model, and what every answer has in common.

Bodies are JSON and bounded, refusals are one sentence in one form, headers leave a browser no
freedom, and nothing of an unexpected mistake is shown. The host that a request names must be the
one that is served, so that no other site's page can reach a loopback address by a name of its own.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tacit.errors import TacitError
from tacit.estimators.release.plain import parsed
from tacit.serve.answers import Served, Unknown
from tacit.serve.described import described
from tacit.serve.page import SCRIPT, STYLE, page

__all__ = ["MOST_BYTES", "application"]

MOST_BYTES = 4 << 20  # of a body
_PATIENCE = 10.0  # seconds in which a body must have come
_LONGEST = 400  # characters of a refusal
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
Answering = Callable[[Request], Awaitable[Response]]


def application(served: Served, hosts: tuple[str, ...] = ()) -> Starlette:
    """Return the ASGI application.

    Parameters
    ----------
    served
        The model.
    hosts
        The names by which it may be called; empty: any.
    """
    document, html = described(served), page(served)
    about, certificates = served.about(), served.certificates()

    async def predict(request: Request) -> Response:
        return _json(await run_in_threadpool(served.predict, await _body(request)))

    async def recommend(request: Request) -> Response:
        return _json(await run_in_threadpool(served.recommend, await _body(request)))

    async def table(request: Request) -> Response:
        return _json(served.table(request.path_params["name"]))

    async def posterior(request: Request) -> Response:
        text = request.query_params.get("level", "0.9")
        try:
            level = float(text)
        except ValueError:
            raise HTTPException(400, "level must be a number between 0 and 1") from None
        return _json(await run_in_threadpool(served.posterior, level))

    routes = [
        ("/", "GET", _fixed(html, "text/html; charset=utf-8")),
        ("/style.css", "GET", _fixed(STYLE, "text/css; charset=utf-8")),
        ("/script.js", "GET", _fixed(SCRIPT, "text/javascript; charset=utf-8")),
        ("/openapi.json", "GET", _fixed(json.dumps(document, ensure_ascii=False))),
        ("/v1/about", "GET", _fixed(json.dumps(about, ensure_ascii=False))),
        ("/v1/certificates", "GET", _fixed(json.dumps(certificates, ensure_ascii=False))),
        ("/v1/tables/{name}", "GET", table),
        ("/v1/predict", "POST", predict),
    ]
    routes += [("/v1/recommend", "POST", recommend)] if served.recommends else []
    routes += [("/v1/posterior", "GET", posterior)] if served.draws else []
    return Starlette(
        routes=[
            Route(path, _careful(answer, hosts), methods=[method])
            for path, method, answer in routes
        ],
        exception_handlers={HTTPException: _refused},
    )


def _fixed(content: str, kind: str = "application/json") -> Answering:
    data = content.encode()

    async def answer(request: Request) -> Response:
        return Response(data, media_type=kind, headers=_HEADERS)

    return answer


def _json(content: Any, status: int = 200) -> Response:
    data = json.dumps(content, ensure_ascii=False, allow_nan=False).encode()
    return Response(data, status, media_type="application/json", headers=_HEADERS)


def _error(status: int, message: str) -> Response:
    short = message if len(message) <= _LONGEST else f"{message[: _LONGEST - 1]}…"
    return _json({"error": {"status": status, "message": short}}, status)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    words = {404: "there is nothing here: see /openapi.json", 405: "this is not done that way"}
    reply = _error(error.status_code, words.get(error.status_code, error.detail))
    reply.headers.update(dict(error.headers or {}))
    return reply


def _careful(answer: Answering, hosts: tuple[str, ...]) -> Answering:
    """Return an endpoint that refuses in words, and shows nothing of its own mistakes."""

    async def careful(request: Request) -> Response:
        if hosts and (request.url.hostname or "") not in hosts:
            return _error(421, "this is not served under that name")
        try:
            return await answer(request)
        except HTTPException:
            raise
        except Unknown as error:
            return _error(404, str(error))
        except TacitError as error:
            return _error(400, str(error))
        except Exception:  # whatever it was, it is not for strangers
            return _error(500, "this could not be answered; the fault is here, not in the request")

    return careful


async def _body(request: Request) -> Any:
    """Return the JSON of a body that is small enough and came in time."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise HTTPException(415, "send JSON, with Content-Type: application/json")
    stated = request.headers.get("content-length", "0")
    if not stated.isdecimal() or int(stated) > MOST_BYTES:
        raise HTTPException(413, f"a body may have {MOST_BYTES} bytes at most")
    try:
        content = await asyncio.wait_for(_read(request), _PATIENCE)
    except TimeoutError:
        raise HTTPException(408, f"the body did not come within {_PATIENCE:g} seconds") from None
    return parsed("the body", content)


async def _read(request: Request) -> bytes:
    parts, size = list[bytes](), 0
    async for part in request.stream():
        size += len(part)
        if size > MOST_BYTES:
            raise HTTPException(413, f"a body may have {MOST_BYTES} bytes at most")
        parts.append(part)
    return b"".join(parts)
