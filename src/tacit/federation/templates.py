"""The two files that people fill in, as they are written first, and safe changes to them."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["coordinator_file", "site_file", "with_partners", "with_sites"]

_SITES = re.compile(r"^sites = \[[^\]\n]*\]", re.MULTILINE)
_MINIMUM = re.compile(r"^minimum = \d+", re.MULTILINE)


def site_file(name: str, public: Mapping[str, str], coordinator: str = "") -> str:
    """Return a site's file that allows nothing yet.

    Parameters
    ----------
    name
        The site.
    public
        Sites → their public identities, in hexadecimal.
    coordinator
        The public identity of whose proposals are read.
    """
    hub = f'hub = "{coordinator}"' if coordinator else '# hub = "its public key, in hexadecimal"'
    partners = "\n".join(f'{site} = "{key}"' for site, key in public.items())
    return f"""# {name}: what this site holds, pays and consents to. It never leaves the site.
name = "{name}"
kit = "kit"
state = "state"            # replies that were paid for; keep it
identity = "identity.key"  # signs keys of secure aggregation; secret

[ledger]                   # the site's whole budget, for ever
file = "ledger.db"
epsilon = 4.0
delta = 1e-5

[limits]                   # what a coordinator may start within a period
runs = 10
epsilon = 4.0
days = 30

[coordinators]             # only what they have signed is read
{hub}

# engine = "isolated"      # or "user:NAME" with socket = "PATH", see deploy/README.txt
# [network]                # what the process with the data may reach: nothing, unless named here
# allow = ["db.example.org:5432"]

# Where the data is: a file (.csv, .parquet), or a url and a query (SQLite, PostgreSQL).
# [data.patients]
# file = "patients.csv"
# url = "postgresql+psycopg://reader:$DB_PASSWORD@db/clinic"
# query = "select age, dose, pressure from visits"

# What may be computed. Nothing, until you say so; see `tacit site --policy site.toml`.
# [[allow]]
# computation = "regression"
# epsilon = 1.0
# delta = 1e-6
# unit = "row"
# rounds = 1
# partners = {max(2, len(public))}
# [allow.settings]
# bounds = {{age = [18, 100], dose = [0, 10]}}
# y_bounds = [0, 200]
# target = "pressure"

[partners]                 # public signing keys of all sites: compare them by telephone
{partners}
"""


def coordinator_file(names: Sequence[str]) -> str:
    """Return a coordinator's file that proposes nothing yet to these sites."""
    return f"""# What the coordinator proposes, and to whom.
kit = "server"
admin = "admin"
output = "result"
identity = "identity.key"  # signs proposals; secret
sites = {json.dumps(list(names))}
timeout = 60               # seconds for each call
on_failure = "stop"        # or "exclude"
minimum = {max(1, len(names))}

# [[computation]]
# computation = "regression"
# privacy = {{epsilon = 1.0, delta = 1e-6, unit = "row", trust = "site"}}
# [computation.settings]
# bounds = {{age = [18, 100], dose = [0, 10]}}
# y_bounds = [0, 200]
# target = "pressure"
"""


def with_partners(text: str, public: Mapping[str, str]) -> str | None:
    """Return a site's file with these partners; None where it is written too freely to change.

    Parameters
    ----------
    text
        The file, whose table ``[partners]`` is found by its header.
    public
        Sites → their public identities, in hexadecimal.
    """
    lines = text.splitlines(keepends=True)
    table = [f'{name} = "{key}"\n' for name, key in public.items()]
    heads = [k for k, line in enumerate(lines) if re.match(r"[ \t]*\[partners\]", line)]
    if heads:
        start = heads[0] + 1
        following = (k for k in range(start, len(lines)) if re.match(r"[ \t]*\[", lines[k]))
        end = next(following, len(lines))
        kept = [line for line in lines[start:end] if not re.match(r"[^#\n]*=", line)]
        changed = [*lines[:start], *table, *kept, *lines[end:]]
    else:
        changed = [text.rstrip("\n"), "\n\n[partners]\n", *table]
    return _if_only(text, "".join(changed), {"partners": dict(public)})


def with_sites(text: str, names: Sequence[str]) -> str | None:
    """Return a coordinator's file with these sites; None where it is written too freely.

    ``minimum`` follows where it was the number of all sites.

    >>> with_sites('sites = ["A"]', ["A", "B"])
    'sites = ["A", "B"]'
    """
    try:
        before = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None
    old = before.get("sites", [])
    wanted: dict[str, Any] = {"sites": list(names)}
    changed = _SITES.sub("sites = " + json.dumps(list(names)), text, count=1)
    minimum = before.get("minimum")
    if minimum is not None and (minimum == max(1, len(old)) or minimum > len(names)):
        wanted["minimum"] = max(1, len(names))
        changed = _MINIMUM.sub(f"minimum = {wanted['minimum']}", changed, count=1)
    return _if_only(text, changed, wanted)


def _if_only(before: str, after: str, wanted: Mapping[str, Any]) -> str | None:
    """Return the changed file if it says what is wanted, and else what it said before."""
    try:
        same = tomllib.loads(after) == {**tomllib.loads(before), **wanted}
    except tomllib.TOMLDecodeError:
        return None
    return after if same else None
