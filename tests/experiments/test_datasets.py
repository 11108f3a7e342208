"""Loaders of public files, checked by the facts that are known of them."""

import os
from pathlib import Path

import pytest

from experiments.datasets import (
    bike_sharing,
    filmtrust,
    kos,
    lastfm_tags,
    movielens,
    power_plant,
    topic_moments,
    uclaf,
)
from tacit.errors import ParameterError

DATA = Path(os.environ.get("TACIT_DATA", Path(__file__).parents[3] / "shared" / "data"))
needs_data = pytest.mark.skipif(not DATA.exists(), reason="the public data sets are not here")


@needs_data
def test_uclaf_has_its_sizes():
    arrays = uclaf(DATA / "uclaf")
    assert arrays["visits"].shape == (164, 168, 5)
    assert (arrays["visits"] != 0).sum() == 1436
    assert (arrays["gps"] != 0).sum() == 2355
    assert (arrays["poi"] != 0).sum() == 508


@needs_data
def test_lastfm_has_its_sizes():
    relations = lastfm_tags(DATA / "lastfm-2k")
    assert relations["tags"].shape == (1892, 12523, 9749)
    assert relations["tags"].cells == 186_478
    assert relations["plays"].shape == (1892, 12523)


def test_a_missing_file_says_what_to_pass(tmp_path):
    with pytest.raises(ParameterError, match=r"aaai10\.uclaf\.data\.mat"):
        uclaf(tmp_path)
    with pytest.raises(ParameterError, match="user_taggedartists"):
        lastfm_tags(tmp_path)


@needs_data
def test_the_power_plant_has_its_sizes():
    features, output, names = power_plant(DATA / "uci-ccpp")
    assert features.shape == (9568, 4) and names == ["AT", "V", "AP", "RH"]
    assert 420.0 < output.min() < output.max() < 496.0


@needs_data
def test_the_bike_rentals_have_their_sizes():
    features, total, names = bike_sharing(DATA / "uci-bike-sharing")
    assert features.shape == (17_379, 14) and total.sum() == 3_292_679
    assert (features[:, names.index("casual")] + features[:, names.index("registered")]
            == total).all()  # fmt: skip


@needs_data
def test_ratings_have_their_sizes():
    ratings = movielens(DATA / "ml-100k")
    assert ratings.shape == (943, 1682) and ratings.cells == 100_000
    assert ratings.values.var() == pytest.approx(1.2671, abs=1e-4)
    trust = filmtrust(DATA / "filmtrust")
    assert trust.shape == (1508, 2071) and trust.cells == 35_494  # three pairs were rated twice
    assert trust.values.min() == 0.5 and trust.values.max() == 4.0


@needs_data
def test_kos_has_its_documents():
    documents, words = kos(DATA / "uci-kos")
    assert (len(documents), documents.vocabulary, len(words)) == (3430, 6906, 6906)
    assert len(documents.words) == 353_160
    assert documents.counts.sum() == 467_714


@needs_data
def test_topic_moments_have_their_truth():
    data = topic_moments(DATA / "topic-moments")
    assert [len(site) for site in data["sites"]] == [20_000] * 5
    assert data["topics"].shape == (5, 10)
    assert data["second"].sum() == pytest.approx(1.0)
    assert data["third"].sum() == pytest.approx(1.0)
