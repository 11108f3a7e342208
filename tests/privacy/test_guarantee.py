"""Certificates: recomputed, readable, and loud when touched."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.errors import NotCertified, ParameterError, TacitError, VerificationFailed
from tacit.privacy.certificate import Certificate
from tacit.privacy.events import (
    ADD_REMOVE,
    REPLACE,
    GaussianDpEvent,
    LaplaceDpEvent,
    NonPrivateDpEvent,
    PoissonSampledDpEvent,
    repeat,
)
from tacit.privacy.guarantee import Privacy, round_up

EVENT = repeat(PoissonSampledDpEvent(0.02, GaussianDpEvent(2.87)), 300)


@pytest.fixture
def certificate():
    return Certificate.issue(
        Privacy(epsilon=1.0, delta=1e-3, unit="user", trust="site"),
        EVENT,
        assumptions=("ratings lie in [1, 5]",),
        groups={"careful": LaplaceDpEvent(10.0), "free": EVENT},
        holder="North",
    )


def test_it_reads_as_one_sentence(certificate):
    text = str(certificate)
    for words in ("North", "ε = 0.263", "δ = 0.001", "everything about one user", "other sites",
                  "pld", "300 recorded", "ratings lie in [1, 5]", "2 groups"):  # fmt: skip
        assert words in text
    assert text.endswith(".")


def test_epsilon_is_recomputed_rounded_up_and_the_largest_of_the_groups(certificate):
    assert certificate.epsilon == max(epsilon for _, epsilon in certificate.groups.values())
    assert certificate.verify() is certificate
    stronger = Certificate.issue(
        Privacy(1.0), LaplaceDpEvent(10.0), groups={"a": LaplaceDpEvent(2.0)}
    )
    assert stronger.epsilon == 0.5


def test_json_round_trip(certificate):
    assert Certificate.from_json(certificate.to_json()) == certificate
    assert Certificate.from_json(certificate.to_json(indent=2)) == certificate


def test_every_changed_field_is_found(certificate):
    original = json.loads(certificate.to_json())
    for name in original:
        changed = json.loads(certificate.to_json())
        changed[name] = "x" if changed[name] != "x" else "y"
        with pytest.raises(VerificationFailed):
            Certificate.from_json(json.dumps(changed))


def test_a_smaller_epsilon_with_a_forged_digest_is_still_found(certificate):
    from tacit.privacy.certificate import _digest

    changed = json.loads(certificate.to_json())
    changed.pop("digest")
    changed["epsilon"] = 0.1
    changed["digest"] = _digest(changed)
    with pytest.raises(VerificationFailed, match="events give"):
        Certificate.from_json(json.dumps(changed)).verify()


def test_events_of_another_relation_are_refused():
    sampled = PoissonSampledDpEvent(0.1, GaussianDpEvent(2.0), REPLACE)
    with pytest.raises(NotCertified, match="replace-one"):
        Certificate.issue(Privacy(1.0, 1e-5, unit="row"), sampled)
    Certificate.issue(Privacy(1.0, 1e-5, unit="row", neighbours=REPLACE), sampled).verify()


def test_without_noise_it_says_so():
    certificate = Certificate.issue(Privacy(epsilon=math.inf), NonPrivateDpEvent())
    assert not certificate.is_private
    assert str(certificate).startswith("No privacy guarantee")
    assert Certificate.from_json(certificate.to_json()) == certificate


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", '{"digest": 1}', "\x00"])
def test_what_is_not_a_certificate_is_refused(text):
    with pytest.raises(VerificationFailed):
        Certificate.from_json(text)


def test_defaults_follow_from_the_unit():
    assert Privacy(1.0, unit="entry").neighbours == "replace-one"
    assert Privacy(1.0, unit="document").neighbours == "add-remove-one"
    assert Privacy(1.0, trust="local").against == "everyone but the person"


@pytest.mark.parametrize(
    "bad",
    [{"epsilon": -1}, {"epsilon": 0}, {"epsilon": math.nan}, {"epsilon": "1"},
     {"epsilon": 1, "delta": 1},
     {"epsilon": 1, "delta": -1e-9}, {"epsilon": 1, "unit": "person"},
     {"epsilon": 1, "trust": "me"},
     {"epsilon": 1, "neighbours": "next-door"}],
)  # fmt: skip
def test_bad_requests_are_refused(bad):
    with pytest.raises(ParameterError, match=list(bad)[-1]):
        Privacy(**bad)


@given(st.floats(1e-300, 1e300), st.integers(1, 15))
def test_rounding_up_never_rounds_down(value, digits):
    assert value <= round_up(value, digits) <= value * (1 + 10.0 ** (1 - digits) * 1.01)


def test_all_errors_are_ours():
    from tacit import errors

    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    assert all(issubclass(kind, TacitError) for kind in kinds)
    assert "pip install 'tacit[nn]'" in str(errors.MissingExtra("private dropout", "nn"))


def test_what_nobody_stated_is_filled_in_and_what_was_stated_stays():
    filled = Privacy(1.0, 1e-6).suiting("user", "site")
    assert (filled.unit, filled.trust, filled.neighbours) == ("user", "site", ADD_REMOVE)
    assert "coordinator" in str(filled.against)
    entry = Privacy(1.0, 1e-6).suiting("entry", "central")
    assert entry.neighbours == REPLACE
    stated = Privacy(1.0, 1e-6, unit="row", neighbours=REPLACE, trust="central")
    assert stated.suiting("user", "site", ADD_REMOVE) == stated
    assert Privacy(1.0).with_epsilon(2.0).suiting("user", "site").unit == "user"


def test_between_parties_a_request_stands_as_it_is():
    fixed = Privacy(1.0, 1e-6).fixed()
    assert fixed.suiting("entry", "aggregator") == fixed == Privacy(1.0, 1e-6)
