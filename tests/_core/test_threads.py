"""Ranges over threads: everything once, errors reach the caller, the environment decides."""

import os
import threading

import numpy as np
import pytest

from tacit._core import threads


@pytest.mark.parametrize("workers", [None, 1, 2, 3, 7])
@pytest.mark.parametrize("count", [0, 1, 2, 5, 100])
def test_every_part_is_done_once(count, workers):
    done = np.zeros(count, int)

    def kernel(first, last, out):
        out[first:last] += 1

    threads.over_range(kernel, count, done, workers=workers)
    assert (done == 1).all()


def test_several_threads_take_part():
    seen, both = set(), threading.Barrier(2, timeout=30)

    def kernel(first, last):
        if threading.get_ident() not in seen:
            seen.add(threading.get_ident())
            both.wait()

    threads.over_range(kernel, 8, workers=2)
    assert len(seen) == 2


@pytest.mark.parametrize("where", [0, 99])
def test_an_error_in_any_thread_reaches_the_caller(where):
    def kernel(first, last):
        if first <= where < last:
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        threads.over_range(kernel, 100, workers=2)


@pytest.mark.parametrize(
    ("stated", "expected"), [({}, len(os.sched_getaffinity(0))), ({"NUMBA_NUM_THREADS": "3"}, 3),
                             ({"NUMBA_NUM_THREADS": "3", "TACIT_NUM_THREADS": "5"}, 5),
                             ({"TACIT_NUM_THREADS": "0"}, 1)],
)  # fmt: skip
def test_the_environment_limits_threads(monkeypatch, stated, expected):
    for name in ("NUMBA_NUM_THREADS", "TACIT_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in stated.items():
        monkeypatch.setenv(name, value)
    assert threads.threads() == expected


@pytest.mark.parametrize("workers", ["1", "2", "3"])
def test_things_come_back_in_their_order_and_few_are_made_ahead(monkeypatch, workers):
    monkeypatch.setenv("TACIT_NUM_THREADS", workers)
    made, seen = [], []

    def things():
        for k in range(20):
            made.append(k)
            yield k

    for found in threads.each(lambda k: k * k, things()):
        seen.append(found)
        assert len(made) - len(seen) <= int(workers)
    assert seen == [k * k for k in range(20)]


def test_what_runs_in_a_thread_does_not_wait_for_the_pool(monkeypatch):
    monkeypatch.setenv("TACIT_NUM_THREADS", "2")
    out = np.zeros((6, 8))

    def kernel(first, last, row):
        row[first:last] += 1

    def fill(k):
        threads.over_range(kernel, 8, out[k])
        return sum(threads.each(lambda one: one, range(3))) + threads.threads()

    assert list(threads.each(fill, range(6))) == [4] * 6
    assert (out == 1).all() and threads.threads() == 2


def test_an_error_about_a_thing_reaches_the_caller(monkeypatch):
    monkeypatch.setenv("TACIT_NUM_THREADS", "2")
    done = []

    def work(k):
        if k == 3:
            raise ValueError("no")
        done.append(k)

    with pytest.raises(ValueError, match="no"):
        list(threads.each(work, range(100)))
    assert len(done) < 10


def test_a_range_within_a_range_waits_for_nobody():
    done, seen = np.zeros((8, 50), int), []

    def inner(first, last, row):
        done[row, first:last] += 1

    def outer(first, last):
        seen.append(threads.threads())
        for row in range(first, last):
            threads.over_range(inner, 50, row, workers=2)

    threads.over_range(outer, 8, workers=2)
    assert (done == 1).all() and set(seen) == {1}
