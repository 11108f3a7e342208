"""What a file of `tacit new` leaves blank besides columns, in this family."""

from __future__ import annotations

from collections.abc import Mapping

from tacit.estimators.blanks import Blank

__all__ = ["TO_STATE"]

TO_STATE: Mapping[str, Blank] = {
    "parameters.population": Blank(
        'the law of the numbers: "Bernoulli", "Exponential", "NormalVariance", "Poisson", '
        '"UniformWidth", or {name = "NormalMean", sd = 2.0}'
    ),
    "columns.target": Blank("the column with one number for each person"),
}
