"""Hostile parties, played by processes: what each of them tried, and what it got.

A rogue server and a rogue site send every message that the engine knows; whoever holds the root
key mints a role and ships code; a rogue coordinator goes against policy, noise, order, lists, keys
and resources; rogue sites poison, forge, crash and collude; strangers knock. Every attack is
played twice: against tacit as it is, where it may get nothing, and against a build with the check
taken out that stops it, where it must get something: one that wins nowhere shows nothing.

The full form plays all of it over the engine: five sites behind their walls, a server and a sixth
site that were taken over; then the same with controls. The quick form plays what comes by the
engine with one site and one control, and a coordinator at the door of a site's data process.

Marks are planted in values, columns, names and paths. Everything that leaves is searched for
them: answers, refusals, replies of the engine, releases, whatever lies in the folders of the
coordinator, of its server and of the rogue site.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from experiments._hostile import coordinator, liars, masked, messages, shipped, strangers, sums
from experiments._hostile.engine import Federation, Puppet, free_port
from experiments._hostile.got import Got
from experiments._hostile.homes import files_below
from experiments._hostile.parties import AtTheDoor, Sites
from experiments.runner import Outcome
from tacit.federation.coordinate import run_proposal
from tacit.federation.engine.kit import prepare, server_command
from tacit.federation.provision import init_federation

Row = tuple[str, str]  # party and attack
Found = dict[Row, Got]


def run(quick: bool) -> Outcome:
    outcome = Outcome()
    found, control = _quickly() if quick else _over_the_engine()
    total = Got()
    for (party, attack), got in found.items():
        against = control[party, attack]
        outcome.add(
            {
                "party": party,
                "attack": attack,
                "attempts": got.attempts,
                "won": got.won,
                "control won": against.won,
            }
        )
        total += got
    blind = [attack for (_, attack), got in control.items() if got.won == 0]
    outcome.check("attempts", total.attempts, "> 0", total.attempts > 0)
    for what, value in (
        ("bytes of a site's files", total.files),
        ("lines of foreign code run at the data process", total.code),
        ("sums of fewer than the threshold", total.sums),
        ("certificates with ε below the truth", total.certificates),
        ("private facts in anything that leaves", total.facts),
        ("other gains", total.other),
    ):
        outcome.check(what, value, "0", value == 0)
    outcome.check("MB for a refused request", round(total.megabytes, 1), "≤ 50",
                  total.megabytes <= 50.0)  # fmt: skip
    outcome.check("seconds for a refused request", round(total.seconds, 2), "≤ 1",
                  total.seconds <= 1.0)  # fmt: skip
    outcome.check("attacks that a weakened build withstands", ", ".join(blind) or "none", "none",
                  not blind)  # fmt: skip
    return outcome


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="tacit-", ignore_cleanup_errors=True) as place:
        yield Path(place)


def _quickly() -> tuple[Found, Found]:
    """Play the short attacks: one site, one control."""
    found: Found = {}
    control: Found = {}
    with _folder() as place, Federation(place, ("A", "V"), ("V",)) as federation:
        for weakened, into in ((False, found), (True, control)):
            with AtTheDoor(place / f"{weakened}", sums.ALL, ("V",), control=weakened) as sites:
                _play(sites, "rogue coordinator", coordinator.ATTACKS, into)
                into["everybody", "search what left"] = _searched(sites, [])
        _ = federation.session  # all are connected
        for into, name in ((found, "A"), (control, "V")):
            _send_messages(federation, name, into, long=False)
        _knock(federation, "A", found, control)
    return found, control


def _over_the_engine() -> tuple[Found, Found]:
    """Play everything: five sites as they are, then five controls."""
    both: tuple[Found, Found] = ({}, {})
    for weakened, into in enumerate(both):
        controls = sums.ALL if weakened else ()
        with _folder() as place, Federation(place, sums.ALL, controls) as federation:
            name = federation.victim.name
            _play(federation, "rogue coordinator", coordinator.ATTACKS, into)
            federation.weaken("")
            assert masked.honest(federation)
            for attack, (action, build) in sums.ATTACKS.items():
                federation.weaken(build)
                into["rogue coordinator", attack] = masked.play(federation, action, build)
            _play(federation, "rogue sites", liars.ATTACKS, into)
            federation.weaken("")
            _release(federation)
            into["minted super role", "read files and ship code"] = shipped.play(
                federation, (name,)
            )[name]
            if not weakened:
                _knock(federation, name, *both)
            _send_messages(federation, name, into, long=True)  # which ends its engine
            left = files_below(federation.whole) + [
                log.read_bytes() for log in place.glob("*.log")
            ]
            into["everybody", "search what left"] = _searched(federation, left)
        with (
            _folder() as place,
            AtTheDoor(place, sums.ALL, sums.ALL[:4], control=bool(weakened)) as sites,
        ):
            into["rogue sites", "be killed"] = liars.crash(sites)
    return both


def _play(
    sites: Sites,
    party: str,
    attacks: dict[str, tuple[Callable[[Sites], Got], str]],
    into: Found,
) -> None:
    """Play attacks, each against the build that it is for."""
    for attack, (action, build) in attacks.items():
        sites.weaken(build)
        into[party, attack] = action(sites)


def _send_messages(federation: Federation, target: str, into: Found, *, long: bool) -> None:
    """Have the server and another site send all messages of the engine at one site."""
    for party, who in (("rogue server", federation.server), ("rogue site", federation.rogue)):
        last = long and who is federation.rogue
        got = messages.play(federation, who, target, long=last)
        into[party, "every message of the engine"] = got


def _release(federation: Federation) -> None:
    """Make an honest release, for the search."""
    result = run_proposal(coordinator.honest(federation, "release"), federation)
    result.model.release(federation.whole / "coordinator" / "release")


def _knock(federation: Federation, name: str, found: Found, control: Found) -> None:
    """Have strangers knock at the server, and at one that lets anybody in."""
    place, port = federation.place, free_port()
    other = init_federation(place / "theirs", [name], port=port)
    kit = other / "coordinator" / "server"
    prepare(kit)
    puppet = Puppet(place, "welcoming", server_command(kit), kit)
    try:
        _ = puppet.orders  # it is up
        member = federation.homes[name].folder / "kit" / "startup"
        assert strangers.turned_away(federation.port, strangers.credentials(member), name).won
        for who, shown in strangers.strangers(federation.whole, other, name, place).items():
            row = ("stranger", who)
            found[row] = strangers.turned_away(federation.port, shown, name)
            control[row] = strangers.turned_away(port, shown, name)
    finally:
        puppet.close()


def _searched(sites: Sites, more: list[bytes]) -> Got:
    """Look for marks of every site in all that it said, and in what else there is."""
    got = Got()
    for name, home in sites.homes.items():
        left = sites.said[name] + more
        got.attempts += len(left)
        got.facts += home.facts(left)
    return got
