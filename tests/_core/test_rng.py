"""Named inference streams, and the word stream of privacy noise."""

from __future__ import annotations

import copy
import itertools
import os
import pickle
import sys
import threading

import numpy as np
import pytest
from scipy import stats

from tacit._core.rng import WordStream, generator, streams
from tacit.mechanisms.noise import Noise

# --- inference generators -----------------------------------------------------------------


def test_same_seed_and_name_give_the_same_stream():
    a, b = generator(1, "proposal"), generator(1, "proposal")
    np.testing.assert_array_equal(a.random(5), b.random(5))


@pytest.mark.parametrize("other", [(1, "accept"), (1, ""), (2, "proposal"), (1, "Proposal")])
def test_another_name_or_seed_gives_another_stream(other):
    assert not np.array_equal(generator(1, "proposal").random(5), generator(*other).random(5))


def test_adding_or_reordering_names_does_not_move_a_stream():
    (alone,) = streams(7, "b")
    _, between, _ = streams(7, "a", "b", "c")
    _, after = streams(7, "c", "b")
    expected = generator(7, "b").random(5)
    for stream in (alone, between, after):
        np.testing.assert_array_equal(stream.random(5), expected)


def test_drawing_from_one_stream_does_not_move_another():
    first, second = streams(7, "a", "b")
    first.random(1000)
    np.testing.assert_array_equal(second.random(5), generator(7, "b").random(5))


def test_named_streams_are_uncorrelated():
    a, b = (stream.standard_normal(100_000) for stream in streams(3, "a", "b"))
    assert abs(np.corrcoef(a, b)[0, 1]) < 5 / np.sqrt(100_000)


def test_a_seed_sequence_is_a_seed_and_its_children_differ():
    parent = np.random.SeedSequence(5)
    child = parent.spawn(1)[0]
    np.testing.assert_array_equal(generator(parent, "a").random(3), generator(5, "a").random(3))
    assert not np.array_equal(generator(child, "a").random(3), generator(parent, "a").random(3))


def test_no_seed_means_fresh_entropy():
    assert not np.array_equal(generator(None).random(3), generator(None).random(3))
    assert not np.array_equal(streams(None, "a")[0].random(3), streams(None, "a")[0].random(3))


# --- the word stream ----------------------------------------------------------------------


def test_keystream_is_chacha20(monkeypatch):
    """Words with an all-zero key are the published ChaCha20 keystream (RFC 8439, A.1)."""
    expected = bytes.fromhex(
        "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
        "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586"
    )
    monkeypatch.setattr(os, "urandom", bytes)
    assert WordStream().words(8).tobytes() == expected


@pytest.mark.parametrize("seed", [None, 5])
def test_a_long_stream_takes_a_fresh_key_before_the_cipher_runs_out(seed, monkeypatch):
    monkeypatch.setattr(WordStream, "_LIMIT", 16)
    stream = WordStream(seed)
    parts = [stream.words(10).tobytes() for _ in range(4)]
    assert len({part[:8] for part in parts}) == 4
    assert stream._used_keys == 4
    if seed is not None:
        again = WordStream(seed)
        assert [again.words(10).tobytes() for _ in range(4)] == parts


def test_no_words_are_no_array_of_any():
    assert WordStream(1).words(0).shape == (0,)


def test_seeded_words_are_reproducible():
    a, b = WordStream(1), WordStream(1)
    np.testing.assert_array_equal(a.words(10), b.words(10))
    assert [a.word() for _ in range(5)] == [b.word() for _ in range(5)]
    assert a.bits(300) == b.bits(300)


def test_seeds_and_the_absence_of_one_give_different_words():
    heads = [WordStream(seed).words(4).tobytes() for seed in (0, 1, 2**64, 2**100, None, None)]
    assert len(set(heads)) == len(heads)


def test_unseeded_keys_come_from_the_operating_system(monkeypatch):
    asked = []

    def urandom(count):
        asked.append(count)
        return bytes(range(count))

    monkeypatch.setattr(os, "urandom", urandom)
    WordStream()
    assert asked == [32]


def test_privacy_noise_does_not_share_the_inference_stream_of_its_seed():
    words = WordStream(1).words(4)
    assert not np.array_equal(words, generator(1).bit_generator.random_raw(4))
    assert not np.array_equal(words, generator(1, "privacy noise").bit_generator.random_raw(4))


def test_no_word_is_handed_out_twice():
    stream = WordStream()
    seen = [*stream.words(3).tolist(), *(stream.word() for _ in range(5000))]
    seen += [*stream.words(3).tolist(), stream.word()]
    assert len(set(seen)) == len(seen)


@pytest.mark.parametrize("count", [0, 1, 7, 63, 64, 65, 160, 192, 256])
def test_bits_stay_in_range_and_reach_its_ends(count):
    stream = WordStream(2)
    values = [stream.bits(count) for _ in range(200)]
    assert all(0 <= value < 2**count for value in values)
    if count:
        top = sum(value >> (count - 1) for value in values)
        low = sum(value & 1 for value in values)
        assert 60 < top < 140
        assert 60 < low < 140


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 64, 1000, 2**64, 2**64 + 1, 10**30])
def test_below_stays_below(limit):
    stream = WordStream(3)
    values = [stream.below(limit) for _ in range(300)]
    assert all(0 <= value < limit for value in values)
    assert max(values) >= (limit - 1) * 0.9


def test_below_is_uniform():
    stream = WordStream(4)
    counts = np.bincount([stream.below(5) for _ in range(50_000)], minlength=5)
    assert stats.chisquare(counts).pvalue > 1e-4


def test_threads_that_share_a_stream_never_get_the_same_word():
    stream, drawn = WordStream(), []

    def draw():
        drawn.append([stream.word() for _ in range(30_000)])

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=draw) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    words = list(itertools.chain.from_iterable(drawn))
    assert len(words) == 120_000
    assert len(set(words)) == len(words)


# --- copies ---------------------------------------------------------------------------------

COPIES = {
    "deepcopy": copy.deepcopy,
    "copy": copy.copy,
    "pickle": lambda original: pickle.loads(pickle.dumps(original)),
}


# With the same key and counter both would produce the same noise, and the difference of two
# releases would show the difference of the values. scikit-learn deep-copies parameters.
@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize("make", [WordStream, Noise], ids=["WordStream", "Noise"])
def test_a_copy_never_repeats_the_words_of_the_original(make, how):
    original = make()
    try:
        twin = COPIES[how](original)
    except TypeError:
        return  # refusing to be copied is an answer too
    a, b = (getattr(thing, "stream", thing) for thing in (original, twin))
    first = set(a.words(8).tolist()) | {a.word() for _ in range(8)}
    second = set(b.words(8).tolist()) | {b.word() for _ in range(8)}
    assert not first & second
