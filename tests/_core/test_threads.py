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
