"""Errors in the reader's language: what somebody with one table hears knows no sites or rounds."""

import re

import numpy as np
import pytest

import tacit as tc


class Broken(tc.PrivateSummary):
    """A summary whose sums fail once data are looked at."""

    def _read(self, data, agreement):
        found = super()._read(data, agreement)
        return {name: ["?"] * len(x) for name, x in found.items()}  # nothing that adds up


def test_a_fit_of_one_table_that_fails_names_no_site_and_no_round():
    model = Broken({"x": (0, 1)}, statistics=("mean",), privacy=tc.Privacy(1.0))
    with pytest.raises(tc.errors.TacitError, match="the fit stopped") as caught:
        model.fit({"x": np.array([0.5])})
    assert not re.search(r"\bsite\b|\bround\b|the data'", str(caught.value))


def test_rounds_of_sites_count_from_one():
    sites = [tc.Site(name, {"x": np.array([0.5])}) for name in ("North", "South")]
    privacy = tc.Privacy(1.0, trust="site")
    with pytest.raises(tc.errors.SiteFailure, match="site 'North' failed in round 1: "):
        Broken({"x": (0, 1)}, statistics=("mean",), privacy=privacy).fit(sites)
