"""A holder's cluster: shards stay with the workers, and a worker that dies changes no bit."""

import os
import signal
import warnings

import numpy as np
import polars as pl
import pytest

import tacit as tc

distributed = pytest.importorskip("distributed")
from tests.estimators.test_sharded_data import (  # noqa: E402
    CELLS,
    ITEMS,
    TABLE,
    cut,
    regression,
    summary,
    without_draws,
)

pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture(scope="module")
def client():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cluster = distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None,
            host="127.0.0.1", silence_logs=50,
        )  # fmt: skip
        with cluster, distributed.Client(cluster) as found:
            yield found


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shards")
    pl.DataFrame(TABLE).write_parquet(folder / "a.parquet")
    return folder / "a.parquet"


@pytest.mark.parametrize("make", [summary, regression])
def test_workers_give_the_same_bits_as_one_process(client, files, make):
    site = tc.Site("the data", tc.Shards.parquet(files, rows=400), executor=client)
    found, whole = make().fit([site]), make().fit(TABLE)
    for key, array in without_draws(whole).items():
        assert np.array_equal(found.shared_[key], array), key


def test_members_cells_stay_with_workers_and_give_the_same_bits(client):
    asked = tc.Privacy(9, 1e-5, unit="user", trust="site")

    def fitted(data, **how):
        model = tc.PrivateFactorization(
            "user:k item:k", rank=2, bounds=(1, 5), entities={"item": ITEMS}, privacy=asked,
            random_state=3,
        )  # fmt: skip
        return model.fit([tc.Site("North", data, **how)]).shared_

    whole, parted = fitted(CELLS), fitted(cut(CELLS, 5), executor=client)
    for name, array in whole.items():
        assert np.array_equal(parted[name], array), name


def test_partitions_of_a_frame_are_shards(client):
    frames = pytest.importorskip("dask.dataframe")
    pandas = pytest.importorskip("pandas")
    frame = frames.from_pandas(pandas.DataFrame(TABLE), npartitions=5)
    site = tc.Site("the data", tc.Shards.dask(frame), executor=client)
    assert summary().fit([site]).mean_ == summary().fit(TABLE).mean_


def test_people_are_brought_together_by_the_cluster(client):
    frames = pytest.importorskip("dask.dataframe")
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"who": [f"p{k % 30}" for k in range(600)], "x": np.ones(600)})
    columns = tc.Columns(x=tc.number(0, 1), person="who", rows_per_person=3)
    shards = tc.Shards.dask(frames.from_pandas(table, npartitions=6))
    found = summary(columns=columns, privacy=None).fit([tc.Site("A", shards, executor=client)])
    assert found.count_ == 90


def test_a_worker_that_dies_is_replaced_and_nothing_is_charged_again(client, files):
    ledger, killed = tc.Ledger.memory(epsilon=3, delta=1e-5), []

    class Killing:
        """A client whose cluster loses a worker after some tasks."""

        def __init__(self):
            self.tasks = 0

        def submit(self, *what, **how):
            self.tasks += 1
            if self.tasks in (9, 25):
                victim = next(iter(client.run(os.getpid).values()))
                os.kill(victim, signal.SIGKILL)
                killed.append(victim)
            return client.submit(*what, **how)

        def scatter(self, *what, **how):
            raise AssertionError("data that are sent once are lost with their worker")

    shards = tc.Shards.parquet(files, rows=400)
    found = summary(random_state=None).fit([tc.Site("A", shards, ledger, executor=Killing())])
    assert len(killed) == 2
    assert ledger.remaining.epsilon == pytest.approx(2.0)
    assert found.certificate_.epsilon <= 1
    again = tc.Site("the data", shards, executor=client)
    assert summary().fit([again]).mean_ == summary().fit(TABLE).mean_
