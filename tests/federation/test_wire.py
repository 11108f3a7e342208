"""Messages on the wire: bound to run, site and request; checked before they are read."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.errors import (
    BudgetExceeded,
    NothingReleased,
    ParameterError,
    PolicyRefused,
    RequestRefused,
    SiteFailure,
)
from tacit.federation import wire
from tacit.federation.proposal import Proposal
from tacit.federation.refusals import SENTENCES
from tacit.rounds.messages import Message

ASKED = Message(2, {"x": np.arange(3.0)})


def test_a_reply_comes_back_as_it_was_sent():
    request = wire.ask(ASKED, "run")
    assert wire.read_request(request, "run")["x"].tolist() == [0.0, 1.0, 2.0]
    reply = wire.answer(Message(2, {"y": np.array([1, 2])}), request, "run", "A")
    assert wire.read_answer(reply, request, "run", "A")["y"].tolist() == [1, 2]


@pytest.mark.parametrize(("run", "site"), [("other", "A"), ("run", "B")])
def test_a_message_of_another_run_or_site_is_refused(run, site):
    request = wire.ask(ASKED, "run")
    with pytest.raises(SiteFailure, match="another run, site or request"):
        wire.read_request(request, "other")
    reply = wire.answer(Message(2), request, "run", "A")
    with pytest.raises(SiteFailure, match="another run, site or request"):
        wire.read_answer(reply, request, run, site)


def test_a_reply_to_another_request_is_refused():
    first, second = wire.ask(ASKED, "run"), wire.ask(Message(3), "run")
    reply = wire.answer(Message(2), first, "run", "A")
    with pytest.raises(SiteFailure, match="replayed"):
        wire.read_answer(reply, second, "run", "A")


def test_a_request_is_no_reply():
    request = wire.ask(ASKED, "run")
    with pytest.raises(SiteFailure, match="another run, site or request"):
        wire.read_answer(request, request, "run", "A")


def test_what_is_too_long_is_refused_before_it_is_read():
    request = wire.ask(ASKED, "run")
    with pytest.raises(SiteFailure, match="too long"):
        wire.read_request(request, "run", largest=len(request) - 1)


def test_numbers_that_are_not_finite_are_refused_on_either_end():
    with pytest.raises(SiteFailure, match="not finite"):
        wire.read_request(wire.ask(Message(0, {"x": np.array([np.inf])}), "r"), "r")


def test_a_refusal_says_what_follows_from_the_request_and_nothing_else():
    request = wire.ask(ASKED, "run")
    for error, said in (
        (RequestRefused("array 'x' has 7 rows"), SENTENCES["request"]),
        (PolicyRefused("ε is above 1", "epsilon"), SENTENCES["epsilon"]),
        (PolicyRefused("ε is above 1", "patient 7"), SENTENCES["silent"]),
        (BudgetExceeded("0.3 is left"), SENTENCES["budget"]),
        (SiteFailure("row 57 has no dose"), SENTENCES["silent"]),
        (NothingReleased("the largest is 12"), SENTENCES["silent"]),
        (ParameterError("patient 7 has HIV"), SENTENCES["silent"]),
        (KeyError("secret"), SENTENCES["silent"]),
    ):
        with pytest.raises(SiteFailure) as caught:
            wire.read_answer(wire.refusal(error, request, "run", "A"), request, "run", "A")
        assert str(caught.value) == said


def test_all_refusals_are_of_one_length():
    request = wire.ask(ASKED, "run")
    lengths = {
        len(wire.refusal(PolicyRefused("", about), request, "run", "A")) for about in SENTENCES
    }
    assert len(lengths) == 1


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=300), st.integers(0, 200), st.integers(0, 255))
def test_no_bytes_do_anything_but_be_refused(noise, place, value):
    request = wire.ask(ASKED, "run")
    changed = bytearray(request)
    changed[place % len(changed)] ^= value or 1
    for data in (noise, bytes(changed), request[: place % len(request)]):
        with pytest.raises(SiteFailure):
            wire.read_request(data, "run")


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"sites": []}', '{"computation": 1, "sites": ["A"]}', "null", "[" * 10_000],
)
def test_what_is_no_proposal_is_refused(text):
    with pytest.raises(ParameterError):
        Proposal.from_json(text)
