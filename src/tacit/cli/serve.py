"""`tacit serve`: a released model behind a small read-only HTTP API."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tacit.cli.output import Json, show

__all__ = ["serve"]


def serve(
    release: Annotated[Path, typer.Argument(help="The release folder.")],
    host: Annotated[
        str, typer.Option(help="The address to serve at; only this machine unless given.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; 0 takes a free one.")] = 8000,
    plugins: Annotated[
        list[str] | None, typer.Option("--plugin", help="A package with a family of its own.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Serve a release, which is verified first: a page to try it, and an HTTP API.

    Nothing is charged, written or kept: a release is public, and predictions from what somebody
    sends are that person's own.

    Example: tacit serve release/ --port 8080
    """
    from tacit.errors import MissingExtra

    try:
        from tacit.serve.run import LOOPBACK, run
    except ImportError as error:
        if error.name is not None and error.name.partition(".")[0] in ("starlette", "uvicorn"):
            raise MissingExtra("tacit serve", "serve") from None
        raise
    from tacit.serve.answers import Served

    served = Served(release, plugins or ())

    def ready(url: str) -> None:
        if host not in LOOPBACK:
            typer.echo(
                f"tacit: {host} can be reached by others, without a password and without "
                "encryption: put a server with TLS before it where what people send is sensitive",
                err=True,
            )
        words = f"{served.release.estimator} is served at {url} (end with Ctrl-C)."
        show({"url": url, "estimator": served.release.estimator}, words, as_json)

    run(served, host, port, ready)
