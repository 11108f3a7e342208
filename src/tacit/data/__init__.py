"""Data as it comes: tables, and generators with known truth."""

from tacit._core.lazy import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Holdout": "split",
        "hold_out_cells": "split",
        "hold_out_per_member": "split",
        "hold_out_slices": "split",
        "members_of": "split",
        "split_members": "split",
        "synthetic": "",
    },
)
