"""The commands that form a federation: `tacit federation init`, `join`, `approve`, `accept`, …."""

from __future__ import annotations

import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tacit.cli.output import Json, show
from tacit.errors import ParameterError

if TYPE_CHECKING:
    from tacit.federation.members.identity import Confirm

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Form a federation of institutions.")

Federation = Annotated[Path, typer.Argument(help="The federation's folder, at its authority.")]
Home = Annotated[Path, typer.Argument(help="The site's folder, where site.toml is.")]
Days = Annotated[int, typer.Option(min=1, help="How long the certificates last.")]
Pins = Annotated[
    list[str] | None,
    typer.Option("--pin", help="NAME=FINGERPRINT, as it was told by telephone; once for each."),
]
Unseen = Annotated[
    bool, typer.Option("--yes", help="Confirm every fingerprint unseen: for demonstrations only.")
]


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(help="Where to; must not exist.")],
    host: Annotated[str, typer.Option(help="Where sites reach the coordinator.")] = "localhost",
    port: Annotated[int, typer.Option(help="And at which port.")] = 8002,
    site: Annotated[
        list[str] | None,
        typer.Option(help="For a demonstration on one machine: a site's name, once for each."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Make a federation: authority, server, and an invitation for sites.

    Example: tacit federation init ours --host fed.example.org
    """
    if site:
        _init_here(folder, site, host, port, as_json)
        return
    from tacit.federation.members.authority import init_authority

    invitation = init_authority(folder, host=host, port=port)
    show(
        {
            "authority": str(folder / "authority"),
            "coordinator": str(folder / "coordinator"),
            "invitation": str(folder / "invitation.json"),
            "fingerprint": invitation.fingerprint,
        },
        f"Send {folder}/invitation.json to every site, and tell them its fingerprint by "
        f"telephone:\n\n  {invitation.fingerprint}\n\nSites run `tacit federation join "
        f"invitation.json NAME` and send a request; sign it with `tacit federation approve "
        f"{folder} NAME.request.json`.\nWhoever holds {folder}/authority can let members in: "
        "keep it offline when you do not use it.",
        as_json,
    )


def _init_here(folder: Path, sites: list[str], host: str, port: int, as_json: bool) -> None:
    from tacit.federation.provision import init_federation

    init_federation(folder, sites, host=host, port=port)
    show(
        {
            "coordinator": str(folder / "coordinator"),
            "sites": {name: str(folder / "sites" / name) for name in sites},
        },
        f"A demonstration: all keys were made on this machine, and nobody compared fingerprints. "
        f"Between institutions, leave out --site.\nFill in {folder}/sites/NAME/site.toml and "
        f"{folder}/coordinator/coordinator.toml, run `tacit site site.toml` for every site, and "
        f"`tacit coordinate coordinator.toml`.",
        as_json,
    )


@app.command()
def join(
    invitation: Annotated[Path, typer.Argument(help="The file that the authority sent.")],
    name: Annotated[str, typer.Argument(help="What this site is called.")],
    folder: Annotated[
        Path | None, typer.Option(help="Where to; must not exist. NAME unless given.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Make this site's keys, its file, and a request to be let in.

    Example: tacit federation join invitation.json North
    """
    from tacit.federation.members.site import join as join_federation

    made = join_federation(invitation, name, folder)
    home = made.request.parent
    show(
        {
            "request": str(made.request),
            "fingerprint": made.fingerprint,
            "invitation_fingerprint": made.invitation,
        },
        f"Send {made.request} to the authority.\nTell the authority and every partner, by "
        f"telephone, the fingerprint of {name}:\n\n  {made.fingerprint}\n\nand compare with the "
        f"authority that of the invitation:\n\n  {made.invitation}\n\nThe private keys in {home} "
        f"never leave this machine. When the answer comes: `tacit federation accept {home} "
        f"{name}.approval.json`.",
        as_json,
    )


@app.command()
def approve(
    folder: Federation,
    request: Annotated[list[Path], typer.Argument(help="The files that sites sent.")],
    pin: Pins = None,
    days: Days = 365,
    revoke_older: Annotated[
        bool,
        typer.Option(help="Refuse their older certificates at once: where a key may be stolen."),
    ] = False,
    yes: Unseen = False,
    as_json: Json = False,
) -> None:
    """Sign requests of sites whose fingerprints were told by telephone.

    Example: tacit federation approve ours North.request.json
    """
    from tacit.federation.members.authority import approve as approve_requests

    approved, left = approve_requests(
        folder, request, _confirm(pin, yes), days=days, replace=revoke_older
    )
    lines = [
        f"{one.name}  {one.fingerprint}  until {one.ends.date()}: send {one.file} to {one.name}"
        for one in approved
    ]
    lines.append(f"Send {folder}/roster.json to all earlier members.")
    show(
        {
            "approved": {
                one.name: {
                    "fingerprint": one.fingerprint,
                    "file": str(one.file),
                    "ends": one.ends.isoformat(),
                }
                for one in approved
            },
            "by_hand": left,
        },
        "\n".join([*lines, *(f"BY HAND: {what}" for what in left)]),
        as_json,
    )


@app.command()
def accept(
    folder: Home,
    file: Annotated[Path, typer.Argument(help="An approval, or a newer roster.")],
    pin: Pins = None,
    yes: Unseen = False,
    as_json: Json = False,
) -> None:
    """Take over the authority's answer, and pin partners whose fingerprints were told.

    Example: tacit federation accept North North.approval.json
    """
    from tacit.federation.members.site import accept as accept_answer

    found = accept_answer(folder, file, _confirm(pin, yes))
    lines = [f"{name} is pinned." for name in found.pinned]
    lines += [f"{name} was revoked and is no partner any more." for name in found.unpinned]
    lines += [
        f"{name} IS NOT PINNED: ask {name} for its fingerprint and pass --pin {name}=…; "
        f"what came has {shown}."
        for name, shown in found.waiting.items()
    ]
    if found.ends is not None:
        lines.append(f"The certificate lasts until {found.ends.date()}.")
    show(
        {
            "pinned": found.pinned,
            "unpinned": found.unpinned,
            "waiting": found.waiting,
            "ends": None if found.ends is None else found.ends.isoformat(),
        },
        "\n".join(lines),
        as_json,
    )


@app.command()
def renew(
    folder: Annotated[Path, typer.Argument(help="A site's folder, or the federation's.")],
    days: Days = 365,
    as_json: Json = False,
) -> None:
    """Make new keys of TLS before certificates end; identities stay.

    At a site this writes a request for the authority; at the authority it renews the server.

    Example: tacit federation renew North
    """
    if (folder / "site.toml").exists():
        from tacit.federation.members.site import renew as renew_site

        made = renew_site(folder)
        show(
            {"request": str(made.request), "fingerprint": made.fingerprint},
            f"Send {made.request} to the authority. The identity is the same: {made.fingerprint}\n"
            "The old certificate works until the answer is accepted.",
            as_json,
        )
        return
    from tacit.federation.members.authority import renew_server

    ends = renew_server(folder, days=days)
    show({"ends": ends.isoformat()}, f"Server and admin are renewed until {ends.date()}.", as_json)


@app.command()
def revoke(
    folder: Federation,
    name: Annotated[str, typer.Argument(help="The site.")],
    as_json: Json = False,
) -> None:
    """Take a site off the roster, and have the server refuse its certificates.

    Example: tacit federation revoke ours North
    """
    from tacit.federation.members.authority import revoke as revoke_member

    left = revoke_member(folder, name)
    show(
        {"revoked": name, "by_hand": left},
        "\n".join(
            [
                f"{name} is revoked: the server refuses it, a running one within a second.",
                f"Send {folder}/roster.json to all others: `tacit federation accept` unpins it.",
                *(f"BY HAND: {what}" for what in left),
            ]
        ),
        as_json,
    )


@app.command()
def status(
    folder: Annotated[Path, typer.Argument(help="A site's folder, or the federation's.")],
    as_json: Json = False,
) -> None:
    """Show fingerprints and when certificates end; warn from thirty days before.

    Example: tacit federation status North
    """
    if (folder / "site.toml").exists():
        from tacit.federation.files import SiteConfig
        from tacit.federation.members.standing import certificate_ends, identities, identities_page

        config = SiteConfig.read(folder / "site.toml")
        ends = certificate_ends(config.kit)
        show(
            {
                "site": config.name,
                "fingerprints": identities(config),
                "ends": None if ends is None else ends.isoformat(),
            },
            identities_page(config),
            as_json,
        )
        return
    from tacit.federation.members.authority import members
    from tacit.federation.members.standing import expiry

    rows = members(folder)
    lines = []
    for row in rows:
        what = expiry("The certificate", datetime.fromisoformat(row["ends"]))
        told = f"REVOKED on {row['revoked']}." if row["revoked"] else what
        lines.append(f"{row['name']:<12} {row['fingerprint'] or '':<49}  {told}")
    show({"members": rows}, "\n".join(lines), as_json)


def _confirm(pins: list[str] | None, yes: bool) -> Confirm:
    """Return what confirms fingerprints: those given, then questions where somebody can answer."""
    from tacit.federation.members.identity import as_told, everybody

    if yes:
        typer.echo("--yes: fingerprints are accepted unseen. For demonstrations only.", err=True)
        return everybody
    told = {}
    for pin in pins or []:
        name, _, shown = pin.partition("=")
        if not name or not shown:
            raise ParameterError(f"--pin must be NAME=FINGERPRINT, got {pin!r}")
        told[name] = shown

    def ask(name: str) -> str:
        question = f"The fingerprint of {name}, as {name} told it (empty: not now)"
        return str(typer.prompt(question, default="", show_default=False, err=True))

    return as_told(told, ask if sys.stdin.isatty() else None)
