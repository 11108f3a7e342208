"""`tacit plan`: what a wanted accuracy needs, before any data is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tacit.cli.output import Json, show

if TYPE_CHECKING:
    from tacit.planning import Facts
    from tacit.privacy.guarantee import Privacy

__all__ = ["plan"]

_FIND = ["epsilon", "rows", "sites", "rank", "levels"]


def _kinds() -> list[str]:
    from tacit.planning import kinds

    return kinds()


def plan(
    kind: Annotated[
        str,
        typer.Argument(
            help="The short name of an estimator, such as summary or regression.",
            autocompletion=lambda: _kinds(),
        ),
    ],
    find: Annotated[
        str,
        typer.Option(help="epsilon, rows, sites, rank or levels.", autocompletion=lambda: _FIND),
    ] = "epsilon",
    want: Annotated[float | None, typer.Option(help="The wanted error, see the guide.")] = None,
    rows: Annotated[int, typer.Option(help="Rows, members or documents of all sites.")] = 2000,
    sites: Annotated[int, typer.Option(help="How many sites.")] = 1,
    epsilon: Annotated[float, typer.Option(help="ε of each site.")] = 1.0,
    delta: Annotated[float, typer.Option(help="δ of each site.")] = 1e-6,
    features: Annotated[int, typer.Option(help="Features, items or words.")] = 5,
    rank: Annotated[int, typer.Option(help="Rank, or topics.")] = 3,
    per_row: Annotated[int, typer.Option(help="Ratings per member, words per document.")] = 10,
    ranks: Annotated[str, typer.Option(help="With --find rank: which to try.")] = "1,2,4,8",
    groups: Annotated[
        str, typer.Option(help="With --find levels: groups of every public level of items.")
    ] = "20",
    trust: Annotated[
        str, typer.Option(help="With --find levels: local, shuffler, aggregator or site.")
    ] = "local",
    repeats: Annotated[int, typer.Option(help="Simulations for each value.")] = 5,
    plugins: Annotated[
        list[str] | None, typer.Option("--plugin", help="A package with a family of its own.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Find the ε, rows or sites that a wanted error needs, or a rank, by simulation.

    No data is read and nothing is spent. With --find rank it also says what the same choice would
    cost on the private data. With --find levels it says of a recommender over people who trust
    nobody, or only a sum, what ε and how many people each level of a public hierarchy needs.

    Example: tacit plan regression --find rows --want 0.1 --epsilon 1 --features 4
    """
    from tacit.errors import ParameterError
    from tacit.planning import Facts
    from tacit.planning import plan as search
    from tacit.privacy.guarantee import Privacy

    facts = Facts(rows, sites, epsilon, delta, features, rank, per_row)
    if find == "rank":
        _rank(kind, ranks, facts, repeats, as_json)
        return
    if find == "levels":
        _levels(kind, groups, Privacy(epsilon, delta, unit="user", trust=trust), rows, as_json)
        return
    if want is None:
        raise ParameterError("want must be given: pass --want 0.1, the error to reach")
    found = search(kind, find, want, facts, repeats=repeats, plugins=plugins or ())
    show(
        {
            "find": find,
            "want": want,
            "value": found.value,
            "table": [list(row) for row in found.table],
        },
        str(found),
        as_json,
    )


def _rank(kind: str, ranks: str, facts: Facts, repeats: int, as_json: bool) -> None:
    """Choose a rank by simulated data."""
    from tacit.errors import ParameterError
    from tacit.planning import choose_rank, price_of_choosing
    from tacit.privacy.guarantee import Privacy

    try:
        tried = [int(number) for number in ranks.split(",")]
    except ValueError:
        raise ParameterError(f"ranks must be numbers such as 1,2,4: got {ranks!r}") from None
    chosen = choose_rank(kind, tried, facts, repeats=repeats)
    best, table = chosen.rank, [row[:3] for row in chosen.table]
    price = price_of_choosing(Privacy(facts.epsilon, facts.delta), len(tried))
    lines = [f"{kind}: rank {best} has the least error (simulated)"]
    lines += [f"  rank = {r}: error {e:.4g} ± {s:.2g}" for r, e, s in table]
    show(
        {
            "find": "rank",
            "value": best,
            "table": [list(row) for row in table],
            "choosing_on_private_data": {"total": price.total, "each": price.each},
        },
        "\n".join([*lines, str(price)]),
        as_json,
    )


def _levels(kind: str, groups: str, privacy: Privacy, people: int, as_json: bool) -> None:
    """Say what every level of a hierarchy needs."""
    from tacit.errors import ParameterError
    from tacit.recommender.local.groups import LocalGroups

    if kind != "recommender":
        raise ParameterError(f"levels are those of a recommender's items, not of {kind!r}")
    try:
        sizes = [int(number) for number in groups.split(",")]
    except ValueError:
        raise ParameterError(f"groups must be numbers such as 20,400: got {groups!r}") from None
    found = LocalGroups().needs(people, privacy, sizes)
    lines = [f"{people} people, ε = {privacy.epsilon:g}, trust {privacy.trust}"]
    lines += [f"  {one}" for one in found]
    show({"find": "levels", "levels": [one._asdict() for one in found]}, "\n".join(lines), as_json)
