"""Loaders of public files, checked by the facts that are known of them."""

import os
from pathlib import Path

import pytest

from experiments import datasets
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


# -- data sets that are not here: small files in their public formats --------------------------


def test_large_movielens_is_read(tmp_path):
    (tmp_path / "ratings.dat").write_text(
        "1::122::5::838985046\n1::185::4.5::838983525\n7::122::3::868246450\n"
    )
    ratings = datasets.movielens_large(tmp_path)
    assert ratings.shape == (2, 2) and ratings.entities == ("user", "item")
    assert ratings.indices.tolist() == [[0, 0], [0, 1], [1, 0]]
    assert ratings.values.tolist() == [5.0, 4.5, 3.0]


@pytest.mark.parametrize("combined", [True, False])
def test_netflix_is_read(tmp_path, combined):
    parts = ["1:\n1488844,3,2005-09-06\n822109,5,2005-05-13\n", "3:\n822109,4,2005-01-01\n"]
    if combined:
        (tmp_path / "combined_data_1.txt").write_text("".join(parts))
    else:
        (tmp_path / "training_set").mkdir()
        for number, text in zip((1, 3), parts, strict=True):
            (tmp_path / "training_set" / f"mv_{number:07d}.txt").write_text(text)
    ratings = datasets.netflix(tmp_path)
    assert ratings.shape == (2, 2)
    assert dict(zip(map(tuple, ratings.indices.tolist()), ratings.values, strict=True)) == {
        (1, 0): 3.0, (0, 0): 5.0, (0, 1): 4.0,
    }  # fmt: skip


@pytest.mark.parametrize("titled", [True, False])
def test_digg_is_read(tmp_path, titled):
    head = '"vote_date","voter_id","story_id"\n' if titled else ""
    (tmp_path / "digg_votes1.csv").write_text(
        head + '"1245656400","10","3"\n"1245656401","12","3"\n"1245656409","12","3"\n'
    )
    (tmp_path / "digg_friends.csv").write_text('"1","1245656400","10","11"\n')
    found = datasets.digg(tmp_path)
    assert found["diggs"].shape == (3, 1) and found["friends"].shape == (3, 3)
    assert found["diggs"].indices.tolist() == [[0, 0], [2, 0]]
    assert found["friends"].indices.tolist() == [[0, 1]]
    assert found["diggs"].zeros == "observed"


def test_digg_is_read_from_konect(tmp_path):
    (tmp_path / "out.digg-votes").write_text("% bip unweighted\n1 1 1 1245656400\n2 1 1 0\n")
    assert datasets.digg(tmp_path)["diggs"].indices.tolist() == [[0, 0], [1, 0]]


def test_flickr_is_read(tmp_path):
    (tmp_path / "tags.tsv").write_text(
        "2008-01-01\tanna\tp1\tsea\n2008-01-02\tbo\tp2\tsea\n2008-01-02\tbo\tp2\tsky\n"
    )
    (tmp_path / "features.tsv").write_text("p2\t0.5\t1.5\np9\t1\t1\n")
    found = datasets.flickr(tmp_path)
    assert found["tags"].shape == (2, 2, 2) and found["tags"].cells == 3
    assert found["features"].indices.tolist() == [[1, 0], [1, 1]]
    assert found["features"].values.tolist() == [0.5, 1.5]


@pytest.mark.parametrize("load", ["movielens_large", "netflix", "digg", "flickr"])
def test_a_folder_without_the_files_is_an_error(load, tmp_path):
    with pytest.raises(ParameterError, match="pass the folder that holds"):
        getattr(datasets, load)(tmp_path)
