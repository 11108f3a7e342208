"""What a file of `tacit new` leaves blank besides columns, in this family."""

from __future__ import annotations

from collections.abc import Mapping

from tacit.estimators.blanks import Blank

__all__ = ["TO_STATE"]

TO_STATE: Mapping[str, Blank] = {
    "parameters.target": Blank("the column to explain, one of [columns] below"),
    "parameters.rows": Blank("about how many rows all sites have together; it is public"),
    "parameters.training": Blank(
        "how it is trained, as in tacit.networks.Training", '{steps = "…"}', needed=False
    ),
}
