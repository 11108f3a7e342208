"""`tacit plan`: what a wanted accuracy needs, before any data is read."""

from __future__ import annotations

from typing import Annotated

import typer

from tacit.cli.output import Json, show

__all__ = ["plan"]

_FIND = ["epsilon", "rows", "sites", "rank"]


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
        str, typer.Option(help="epsilon, rows, sites or rank.", autocompletion=lambda: _FIND)
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
    repeats: Annotated[int, typer.Option(help="Simulations for each value.")] = 5,
    plugins: Annotated[
        list[str] | None, typer.Option("--plugin", help="A package with a family of its own.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Find the ε, rows or sites that a wanted error needs, or a rank, by simulation.

    No data is read and nothing is spent. With --find rank it also says what the same choice would
    cost on the private data.

    Example: tacit plan regression --find rows --want 0.1 --epsilon 1 --features 4
    """
    from tacit.errors import ParameterError
    from tacit.planning import Facts, choose_rank, price_of_choosing
    from tacit.planning import plan as search
    from tacit.privacy.guarantee import Privacy

    facts = Facts(rows, sites, epsilon, delta, features, rank, per_row)
    if find == "rank":
        try:
            tried = [int(number) for number in ranks.split(",")]
        except ValueError:
            raise ParameterError(f"ranks must be numbers such as 1,2,4: got {ranks!r}") from None
        chosen = choose_rank(kind, tried, facts, repeats=repeats)
        best, table = chosen.rank, [row[:3] for row in chosen.table]
        price = price_of_choosing(Privacy(epsilon, delta), len(tried))
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
