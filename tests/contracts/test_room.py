"""64-bit sums cannot overflow: what would not fit is refused before anybody is charged."""

import numpy as np
import pytest

import tacit as tc
from tacit.errors import ParameterError
from tacit.estimators.gate import Gate
from tacit.estimators.shards import Holder, merged
from tacit.mechanisms.grid import Grid, GridSum, wide_sum
from tacit.mechanisms.noise import Noise
from tests.contracts.hostile import examples

EXAMPLES = dict(examples())


def sums(agreement):
    """Return the mechanisms that have a finite room and draw on sums, by step and kind."""
    found = {}
    for step in agreement.steps:
        for kind in ("", *step.kinds):
            drawn = step.mechanism_of(kind)
            room = getattr(getattr(drawn, "mechanism", drawn), "room", None)
            if room is not None and step.merge_of(kind) == "sum":
                found[step.name, kind] = room
    return found


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_holder_knows_how_many_parts_its_sums_have(name, monkeypatch):
    agreement = EXAMPLES[name]
    rooms = sums(agreement)
    data = agreement.worst_case().data
    holder = agreement.holder("A", data, Gate(None, Noise(agreement.source, seed=1)), 1)
    if not rooms or not isinstance(holder, Holder):
        return
    assert all(holder.contributions(shard) > 0 for shard in holder.shards)
    holder.check_room()
    monkeypatch.setattr(holder, "contributions", lambda shard: min(rooms.values()) + 1)
    with pytest.raises(ParameterError, match="has room for"):
        holder.check_room()


def test_too_many_rows_cost_nothing(monkeypatch):
    from tacit.summary.sides import Rows

    monkeypatch.setattr(Rows, "contributions", lambda self, shard: 1 << 40)
    ledger = tc.Ledger.memory(epsilon=2e6, delta=1e-5, unit="row")
    privacy = tc.Privacy(1e6, 1e-6, unit="row", trust="site")
    site = tc.Site("A", {"x": np.array([0.5, 0.25])}, ledger)
    with pytest.raises(ParameterError, match="has room for"):
        tc.PrivateSummary({"x": (0, 1)}, privacy=privacy).fit([site])
    assert ledger.spent.epsilon == 0.0


# without noise a number has 2^40 steps, and eight million of them wrapped around in 64 bits
MANY = 9_000_000


def test_sums_without_noise_hold_as_many_rows_as_there_are(monkeypatch):
    table = {"x": np.full(MANY, 0.75)}
    found = tc.PrivateSummary({"x": (0, 1)}, statistics=("count", "mean")).fit(table)
    assert found.count_ == MANY
    assert found.mean_["x"] == pytest.approx(0.75, abs=1e-9)


def test_wide_sums_are_those_of_python():
    rng = np.random.default_rng(0)
    parts = [rng.integers(-(2**62), 2**62, 5) for _ in range(9)]
    exact = sum(part.astype(object) for part in parts)
    assert wide_sum(parts).tolist() == exact.tolist()
    assert wide_sum(parts[:1]).dtype == np.int64
    back = wide_sum([np.array([2**61]), np.array([2**61]), np.array([-(2**61)])])
    assert back.dtype == np.int64 and back.tolist() == [2**61]


def test_shards_merge_beyond_64_bits():
    grid = Grid(0)
    parts = [GridSum(np.array([2**61 + k]), grid) for k in range(12)]
    assert merged("sum", parts).integers.tolist() == [12 * 2**61 + 66]
    assert float(merged("sum", parts).value()[0]) == 12.0 * 2.0**61
