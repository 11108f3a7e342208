"""A holder's data in shards: the same bits however they are cut, each unit in one of them."""

import pickle

import numpy as np
import polars as pl
import pytest

import tacit as tc
from tacit.data.problems import BadTable
from tacit.data.shards import Piece
from tacit.data.spooling import by_unit
from tacit.errors import NothingReleased, ParameterError, SiteFailure
from tacit.estimators.executors import Executor, Here, executor_of
from tacit.estimators.loading import held_by
from tacit.posterior.numerics.populations.laws import Exponential

ROWS = 3_000
RNG = np.random.default_rng(3)
TABLE = {
    "age": RNG.normal(50, 12, ROWS),
    "dose": RNG.uniform(0, 5, ROWS),
    "sex": RNG.choice(["f", "m"], ROWS),
    "ward": RNG.choice([f"w{k}" for k in range(5)], ROWS),
}
TABLE["pressure"] = 100 + 0.5 * TABLE["age"] + 4 * TABLE["dose"] + RNG.normal(0, 5, ROWS)
ASKED = tc.Privacy(1, 1e-6)
COLUMNS = tc.Columns(
    age=tc.number(0, 100), dose=tc.number(0, 5), sex=tc.category("f", "m"), outside="clip"
)


def cut(table, parts):
    places = np.array_split(np.arange(len(next(iter(table.values())))), parts)
    return tc.Shards([{name: column[at] for name, column in table.items()} for at in places])


def summary(**more):
    settings = {"privacy": ASKED, "random_state": 1, "noise": "grid"} | more
    return tc.PrivateSummary(settings.pop("columns", COLUMNS), **settings)


def regression(**more):
    ranges = {"age": (0, 100), "dose": (0, 5)}
    return tc.PrivateLinearRegression(
        bounds=ranges, y_bounds=(60, 200), target="pressure", privacy=ASKED, random_state=1,
        chains=1, draws=20, warmup=20, **more,
    )  # fmt: skip


def without_draws(model):
    return {name: array for name, array in model.shared_.items() if "draws" not in name}


MODELS = {
    "summary": summary,
    "groups": lambda: summary(by="sex"),
    "many rows": lambda: summary(privacy=tc.Privacy(20, 1e-6), statistics=("quantiles",)),
    "keys": lambda: summary(
        columns=tc.Columns(age=tc.number(0, 100), ward=tc.keys(at_most=10), outside="clip"),
        privacy=tc.Privacy(5, 1e-4),
    ),
    "without noise": lambda: summary(privacy=None),
    "regression": regression,
    "normal equations": lambda: regression(statistics="Szu", noise="grid"),
}


@pytest.mark.parametrize("name", MODELS)
def test_any_cut_gives_the_same_bits(name):
    whole = MODELS[name]().fit(TABLE)
    for parts in (1, 2, 7, 64):
        found = MODELS[name]().fit(cut(TABLE, parts))
        assert found.shared_.keys() == whole.shared_.keys()
        for key, array in without_draws(whole).items():
            assert np.array_equal(found.shared_[key], array), (parts, key)
    assert found.certificate_.epsilon == whole.certificate_.epsilon


def test_files_are_read_in_parts_and_let_go(tmp_path):
    pl.DataFrame(TABLE).write_parquet(tmp_path / "a.parquet")
    shards = tc.Shards.parquet(tmp_path / "*.parquet", rows=500)
    assert len(shards) == 6
    assert summary().fit(shards).mean_ == summary().fit(TABLE).mean_


class Counted(Piece):
    """A piece that counts how many are in memory."""

    alive, most = 0, 0

    def __init__(self, table):
        self.table = table

    def read(self):
        cls = type(self)
        cls.alive += 1
        cls.most = max(cls.most, cls.alive)

        class Let(dict):
            def __del__(self):
                cls.alive -= 1

        return Let(self.table)


def test_no_more_than_so_many_are_in_memory():
    pieces = [Counted(piece.data) for piece in cut(TABLE, 12)]
    summary().fit(tc.Shards(pieces, at_once=2))
    assert Counted.most <= 3  # one that is worked on, one that is read, one that is being let go


# -- units ---------------------------------------------------------------------------------------


def test_a_person_in_all_shards_counts_as_one():
    table = {"who": ["p"] * 64 + [f"q{k}" for k in range(64)], "x": [1.0] * 64 + [0.0] * 64}
    columns = tc.Columns(x=tc.number(0, 1), person="who", rows_per_person=3)
    turned = {name: np.array(column)[np.argsort(np.arange(128) % 64)] for name, column in
              table.items()}  # fmt: skip
    for parts in (1, 2, 8, 64):
        found = summary(columns=columns, privacy=None).fit(cut(turned, parts))
        assert found.count_ == 64 + 3
        assert found.sum_["x"] == pytest.approx(3.0)


def test_a_record_in_several_shards_counts_once():
    table = {"visit": np.arange(60) % 20, "x": np.ones(60)}
    columns = tc.Columns(x=tc.number(0, 1), key="visit", duplicates="first")
    for parts in (1, 4, 30):
        assert summary(columns=columns, privacy=None).fit(cut(table, parts)).count_ == 20


def test_twins_of_a_unit_go_to_one_shard_whatever_their_type():
    pieces = [{"who": ["1", "2"]}, {"who": np.array([1, 2])}, {"who": [" 1", "2"]}]
    found = [piece.read()["who"].tolist() for piece in by_unit(tc.Shards(pieces), ["who"])]
    names = [{str(name).strip() for name in part} for part in found]
    assert sorted(len(part) for part in found if part) in ([3, 3], [6])
    assert sum(map(len, names)) == 2


def test_what_was_laid_out_anew_is_wiped():
    shards = by_unit(cut({"who": np.arange(100) % 9, "x": np.ones(100)}, 5), ["who"])
    folder = shards.pieces[0].kept.path
    assert folder.stat().st_mode & 0o777 == 0o700
    del shards
    assert not folder.exists()


# -- what is wrong -------------------------------------------------------------------------------


def test_everything_that_is_wrong_is_said_at_once_with_its_place(tmp_path):
    pl.DataFrame({"age": ["40", "x", "50"], "sex": ["f", "m", "f"]}).write_csv(tmp_path / "a.csv")
    pl.DataFrame({"age": ["", "60", "y"], "sex": ["f", "q", "f"]}).write_csv(tmp_path / "b.csv")
    columns = tc.Columns(age=tc.number(0, 100), sex=tc.category("f", "m"))
    shards = tc.Shards.files(tmp_path)
    model = summary(columns=columns, ledger=tc.Ledger.memory(epsilon=1, delta=1e-6))
    with pytest.raises(BadTable) as error:
        model.fit(shards)
    text = str(error.value)
    assert "a.csv, row 2: 'x'; b.csv, row 3: 'y'" in text
    assert "b.csv, row 1" in text and "b.csv, row 2: 'q'" in text
    assert str(model.check(shards)).replace("the data: ", "") == text
    assert model.ledger.remaining.epsilon == 1


def test_places_are_told_of_rows_that_were_moved(tmp_path):
    frame = pl.DataFrame({"who": ["a", "b"] * 20, "age": ["40"] * 39 + ["x"]})
    frame.write_parquet(tmp_path / "a.parquet")
    columns = tc.Columns(age=tc.number(0, 100), person="who", rows_per_person=40)
    with pytest.raises(BadTable, match=r"a\.parquet, row 40: 'x'"):
        summary(columns=columns).fit(tc.Shards.parquet(tmp_path / "a.parquet", rows=7))


class Growing(Piece):
    """A file that somebody writes to during a run."""

    def __init__(self):
        self.times = 0

    def read(self):
        self.times += 1
        return {"age": np.full(10 * self.times, 50.0)}


def test_data_that_change_during_a_run_are_not_released():
    columns = tc.Columns(age=tc.number(0, 100))
    pieces = [Growing(), Growing(), Growing()]
    with pytest.raises((SiteFailure, NothingReleased)):
        summary(columns=columns).fit(tc.Shards(pieces))


def test_what_takes_no_shards_says_so():
    asked = tc.Privacy(1, 1e-5, neighbours="replace-one")
    chosen = tc.posterior.StatisticSelector(
        Exponential(), ["mean"], bounds=(0, 9), privacy=asked, size=40
    )
    with pytest.raises(ParameterError, match="shards"):
        chosen.fit(tc.Shards([np.ones(20)] * 2))


CELLS = {
    "user": np.array([f"u{k % 40}" for k in range(400)]),
    "item": np.array([f"i{k // 40}" for k in range(400)]),
    "rating": RNG.integers(1, 6, 400).astype(float),
}
ITEMS = [f"i{k}" for k in range(10)]


def test_a_site_predicts_with_cells_that_are_adopted_after_shards_were_let_go():
    asked = tc.Privacy(9, 1e-5, unit="user", trust="site")
    site = tc.Site("North", cut(CELLS, 4))
    model = tc.PrivateFactorization(
        "user:k item:k", rank=2, bounds=(1, 5), entities={"item": ITEMS}, privacy=asked
    )
    model.fit([site])
    with pytest.raises(ParameterError, match="adopt"):
        model.predict("North", [["u3", "i4"]])
    own = {name: [value for value, user in zip(column, CELLS["user"], strict=True)
                  if user == "u3"] for name, column in CELLS.items()}  # fmt: skip
    assert 1 <= model.adopt(tc.Site("North", own)).predict("North", [["u3", "i4"]])[0] <= 5


def test_a_device_ranks_after_ratings_were_let_go():
    films = tc.PrivateRecommender((1, 5), items=ITEMS, privacy=tc.Privacy(2, 1e-5), rank=2)
    films.fit(cut(CELLS, 4))
    assert "40 users" in " ".join(films.certificate_.assumptions)
    with pytest.raises(ParameterError, match="device"):
        films.recommend("u3", 2)
    assert len(films.device({"i3": 5, "i4": 1}).top(2)) == 2


def test_what_follows_from_no_single_shard_must_be_stated():
    model = tc.PrivateFactorization("user:k item:k", rank=2, bounds=(1, 5))
    with pytest.raises(ParameterError, match="entities="):
        model.fit(cut(CELLS, 4))
    with pytest.raises(ParameterError, match="items="):
        tc.PrivateRecommender((1, 5), rank=2).fit(cut(CELLS, 4))
    waits = tc.PrivatePosterior(
        Exponential(), "mean", bounds=(0, 9), size=41,
        privacy=tc.Privacy(1, 1e-5, neighbours="replace-one"),
    )  # fmt: skip
    with pytest.raises(ParameterError, match="41 people"):
        waits.fit(tc.Shards([np.ones(20)] * 2))


@pytest.mark.parametrize("trust", ["site", "aggregator"])
def test_sites_in_shards_and_in_tables_learn_together(trust):
    asked = tc.Privacy(9, 1e-5, unit="user", trust=trust, by_site={"South": 3.0})
    other = {**CELLS, "user": np.array([f"v{k % 40}" for k in range(400)])}

    def fitted(north, south):
        model = tc.PrivateFactorization(
            "user:k item:k", rank=2, bounds=(1, 5), entities={"item": ITEMS}, privacy=asked,
            random_state=3,
        )  # fmt: skip
        return model.fit([tc.Site("North", north), tc.Site("South", south)])

    whole, parted = fitted(CELLS, other), fitted(CELLS, cut(other, 3))
    assert list(parted.parts_) == ["North"]
    for name, array in whole.shared_.items():
        assert np.array_equal(parted.shared_[name], array), name


def test_people_who_count_at_one_site_are_assigned_in_shards_too():
    asked = tc.Privacy(9, 1e-5, unit="user", trust="site")

    def fitted(south):
        model = tc.PrivateFactorization(
            "user:k item:k", rank=2, bounds=(1, 5), entities={"item": ITEMS}, privacy=asked,
            random_state=3, sites_per_person="assigned",
        )  # fmt: skip
        key = b"a key that both of the sites have"
        return model.fit([tc.Site("North", CELLS, key=key), tc.Site("South", south, key=key)])

    whole, parted = fitted(CELLS), fitted(cut(CELLS, 3))
    for name, array in whole.shared_.items():
        assert np.array_equal(parted.shared_[name], array), name


def test_pieces_must_be_pieces(tmp_path):
    with pytest.raises(ParameterError, match="list of pieces"):
        tc.Shards({"age": [1]})
    with pytest.raises(ParameterError, match="at least one"):
        tc.Shards([])
    with pytest.raises(ParameterError, match="no file fits"):
        tc.Shards.files(tmp_path / "*.parquet")
    with pytest.raises(ParameterError, match="executor"):
        summary().fit([tc.Site("North", TABLE, executor="dask://")])
    with pytest.raises(ParameterError, match="executor must be"):
        executor_of(7, 2)


# -- elsewhere -----------------------------------------------------------------------------------


class Posted(Executor):
    """Everything that travels is pickled, as to another machine, and kept."""

    def __init__(self):
        self.sent = []
        self._inside = Here(1)

    def post(self, thing):
        self.sent.append(pickle.dumps(thing))
        return pickle.loads(self.sent[-1])

    def load(self, loads, look):
        return self._inside.load([self.post(load) for load in loads], self.post(look))

    def each(self, work, given):
        return self._inside.each(self.post(work), given)

    @property
    def size(self):
        return self._inside.size

    def close(self):
        self._inside.close()


@pytest.mark.parametrize("make", [summary, regression])
def test_no_noise_ledger_or_gate_travels_to_a_worker(make):
    posted, ledger = Posted(), tc.Ledger.memory(epsilon=1, delta=1e-6)
    model = make().fit([tc.Site("the data", cut(TABLE, 3), ledger, executor=posted)])
    whole = make().fit(TABLE)
    for key, array in without_draws(whole).items():
        assert np.array_equal(model.shared_[key], array)
    everything = b"".join(posted.sent)
    for secret in (b"Ledger", b"Reservation", b"WordStream", b"tacit.estimators.gate",
                   b"tacit.mechanisms.noise"):  # fmt: skip
        assert secret not in everything, secret


def test_a_contribution_needs_nothing_that_a_hand_does_not_have():
    model = summary()
    agreement = model._agreed([tc.Site("North", TABLE)])
    loaded = held_by(model, tc.Site("North", cut(TABLE, 2)), agreement)
    assert [units for units, _ in loaded.sizes] == [ROWS // 2] * 2


TOML = """
estimator = "summary"

[privacy]
epsilon = 1.0
delta = 1e-6

[columns]
age = {kind = "number", low = 0, high = 100}
outside = "clip"

[[site]]
name = "North"
data = {shards = "north/*.csv", separator = ";"}
ledger = "north.db"
ledger_epsilon = 8.0
ledger_delta = 1e-5

[output]
release = "release"
"""


def test_a_file_of_settings_names_shards(tmp_path):
    from typer.testing import CliRunner

    from tacit.cli import app

    (tmp_path / "north").mkdir()
    for k, part in enumerate(np.array_split(TABLE["age"], 3)):
        pl.DataFrame({"age": part}).write_csv(tmp_path / f"north/{k}.csv", separator=";")
    (tmp_path / "fit.toml").write_text(TOML)
    done = CliRunner().invoke(app, ["fit", str(tmp_path / "fit.toml")])
    assert done.exit_code == 0, done.output
    read = tc.PrivateSummary.from_release(tmp_path / "release")
    assert read.mean_["age"] == pytest.approx(50, abs=3)
    assert (tmp_path / "north/_.csv.ledger").exists()
    (tmp_path / "fit.toml").write_text(TOML.replace("north/*", "south/*"))
    done = CliRunner().invoke(app, ["check", str(tmp_path / "fit.toml")])
    assert done.exit_code and "file fits" in done.output
