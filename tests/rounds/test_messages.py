"""Messages survive the wire byte for byte, and nothing else is accepted."""

import hashlib
import json
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from tacit.errors import SiteFailure
from tacit.rounds.messages import _DTYPES, _MAGIC, ArraySpec, Message, check_reply

any_array = st.sampled_from(_DTYPES).flatmap(
    lambda dtype: arrays.arrays(
        np.dtype(dtype), arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)
    )
)
messages = st.builds(
    Message, st.integers(0, 10**9), st.dictionaries(st.text(max_size=8), any_array, max_size=4)
)
EXAMPLE = Message(
    7,
    {
        "sum": np.array([1.5, -2.25, np.nan]),
        "rows": np.array(12),
        "none": np.zeros((0, 3), np.float32),
        "flags": np.array([[True, False]]),
    },
)


def same(first, second):
    """Whether two messages agree in everything, bit by bit."""
    return (
        first.round == second.round
        and list(first.arrays) == list(second.arrays)
        and all(
            (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())
            for a, b in zip(first.arrays.values(), second.arrays.values(), strict=True)
        )
    )


def crafted(header, body=b""):
    """Return a message with a correct digest around any header and body."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    data = _MAGIC + len(text).to_bytes(8, "little") + text + body
    return data + hashlib.sha256(data).digest()


@given(messages)
def test_a_message_survives_the_wire(message):
    data = message.to_bytes()
    again = Message.from_bytes(data)
    assert same(message, again)
    assert again.to_bytes() == data
    assert again.size == message.size == sum(a.nbytes for a in message.arrays.values())


@pytest.mark.parametrize("dtype", _DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (0, 2), (2, 3), (1, 1, 1)])
def test_every_dtype_and_shape_survives_the_wire(dtype, shape):
    message = Message(0, {"a": np.ones(shape, dtype)})
    assert same(message, Message.from_bytes(message.to_bytes()))


def test_the_layout_in_memory_does_not_matter():
    plain = np.arange(12.0).reshape(3, 4)
    for array in (np.asfortranarray(plain), plain.astype(">f8"), np.arange(24.0)[::2]):
        again = Message.from_bytes(Message(0, {"a": array}).to_bytes())["a"]
        np.testing.assert_array_equal(again.reshape(3, -1), array.reshape(3, -1))
        assert again.dtype == np.float64
    assert Message(0, {"a": np.asfortranarray(plain)}).to_bytes() == (
        Message(0, {"a": plain}).to_bytes()
    )


def test_arrays_of_a_message_cannot_be_exchanged():
    with pytest.raises(TypeError):
        EXAMPLE.arrays["sum"] = np.zeros(3)
    with pytest.raises(AttributeError):
        EXAMPLE.round = 8


def test_any_flipped_byte_is_refused():
    data = EXAMPLE.to_bytes()
    for position in range(len(data)):
        for flip in (0x01, 0x80, 0xFF):
            broken = bytearray(data)
            broken[position] ^= flip
            with pytest.raises(SiteFailure, match="cannot be read"):
                Message.from_bytes(bytes(broken))


def test_any_truncated_or_extended_message_is_refused():
    data = EXAMPLE.to_bytes()
    for length in range(len(data)):
        with pytest.raises(SiteFailure, match="cannot be read"):
            Message.from_bytes(data[:length])
    with pytest.raises(SiteFailure, match="cannot be read"):
        Message.from_bytes(data + b"\0")
    with pytest.raises(SiteFailure, match="cannot be read"):
        Message.from_bytes(data + data)


def test_a_crafted_message_with_a_true_digest_is_read():
    """The attacker below does compute digests that fit."""
    data = crafted({"round": 3, "arrays": [["a", "uint8", [2]]]}, b"\1\2")
    assert Message.from_bytes(data)["a"].tolist() == [1, 2]


@pytest.mark.parametrize(
    "data",
    [
        crafted({"round": 0, "arrays": [["a", "uint8", [2]]]}, b"\1\2\3"),
        crafted({"round": 0, "arrays": [["a", "uint8", [3]]]}, b"\1\2"),
        crafted({"round": 0, "arrays": [["a", "uint8", [-1]]]}, b"\1\2"),
        crafted({"round": 0, "arrays": [["a", "uint8", [2**70, 0]]]}),
        crafted({"round": 0, "arrays": [["a", "float64", [2**62, 2**62, 0]]]}),
        crafted({"round": 0, "arrays": [["a", "uint8", [1] * 100]]}, b"\1"),
        crafted({"round": 0, "arrays": [["a", "uint8", [1.0]]]}, b"\1"),
        crafted({"round": 0, "arrays": [["a", "uint8", ["1"]]]}, b"\1"),
        crafted({"round": 0, "arrays": [["a", "uint8", None]]}, b"\1"),
        crafted({"round": 0, "arrays": [["a", "uint8"]]}, b"\1"),
        crafted({"round": 0, "arrays": [[["a"], "uint8", [1]]]}, b"\1"),
        crafted({"round": 0, "arrays": [["a", "object", [1]]]}, b"\0" * 8),
        crafted({"round": 0, "arrays": [["a", "<U2", [1]]]}, b"\0" * 8),
        crafted({"round": 0}),
        crafted({"arrays": []}),
        crafted({"round": None, "arrays": []}),
        crafted({"round": "first", "arrays": []}),
        crafted([]),
        crafted(b"\xff\xfe"),
        crafted(b""),
        crafted(b'{"round": Infinity, "arrays": []}'),
        crafted(b'{"round": NaN, "arrays": []}'),
        crafted(b"[" * 100_000),
        crafted(b" " * (1 << 20) + b'{"round": 0, "arrays": []}'),
        _MAGIC + (2**63).to_bytes(8, "little"),
    ],
    ids=[f"message {index}" for index in range(25)],
)
def test_a_crafted_message_that_makes_no_sense_is_refused(data):
    with pytest.raises(SiteFailure, match="cannot be read"):
        Message.from_bytes(data)


class Bomb:
    """Fails the test if it is ever unpickled."""

    def __reduce__(self):
        return pytest.fail, ("a message was unpickled",)


@pytest.mark.parametrize("dtype", ["object", "O", "|O"])
def test_nothing_is_ever_unpickled(dtype):
    load = pickle.dumps(Bomb())
    for data in (
        load,
        crafted(load),
        crafted({"round": 0, "arrays": [["a", dtype, [1]]]}, load),
        _MAGIC + load,
    ):
        with pytest.raises(SiteFailure, match="cannot be read"):
            Message.from_bytes(data)


@pytest.mark.parametrize(
    "array",
    [
        np.array([object()]),
        np.array(["text"]),
        np.array([1 + 2j]),
        np.zeros(2, np.float16),
        np.zeros(2, [("a", "f8")]),
        np.array(["2020-01-01"], "datetime64[D]"),
    ],
    ids=lambda array: array.dtype.name,
)
def test_arrays_of_other_kinds_are_not_sent(array):
    with pytest.raises(SiteFailure, match=r"array 'a' has dtype .* cannot be sent"):
        Message(0, {"a": array})


# -- what a reply must look like --------------------------------------------------------------

SPECS = {"sum": ArraySpec((2, None), low=-1.0, high=1.0), "rows": ArraySpec((), "int64", low=0)}


def reply(round=4, **changes):
    arrays = {"sum": np.zeros((2, 3)), "rows": np.array(5), **changes}
    return Message(round, {name: array for name, array in arrays.items() if array is not None})


def test_a_reply_that_fits_is_accepted():
    check_reply(reply(), 4, SPECS)
    check_reply(reply(sum=np.zeros((2, 0))), 4, SPECS)
    check_reply(reply(sum=np.array([[1.0], [-1.0]])), 4, SPECS)


@pytest.mark.parametrize(
    ("message", "match"),
    [
        (reply(round=3), "answered for round 3 in round 4"),
        (reply(rows=None), r"sent \['sum'\] where"),
        (reply(more=np.zeros(1)), r"sent \['more', 'rows', 'sum'\] where"),
        (reply(sum=np.zeros((3, 3))), r"'sum' has shape \(3, 3\)"),
        (reply(sum=np.zeros(6)), r"'sum' has shape \(6,\)"),
        (reply(rows=np.array([5])), r"'rows' has shape \(1,\)"),
        (reply(sum=np.zeros((2, 3), np.float32)), "'sum' has dtype float32, not float64"),
        (reply(rows=np.array(5.0)), "'rows' has dtype float64, not int64"),
        (reply(sum=np.full((2, 3), np.nan)), "'sum' holds numbers that are not finite"),
        (reply(sum=np.array([[0.0], [np.inf]])), "'sum' holds numbers that are not finite"),
        (reply(sum=np.array([[0.0], [1.0000001]])), r"'sum' holds numbers outside \[-1, 1\]"),
        (reply(rows=np.array(-1)), r"'rows' holds numbers outside \[0, inf\]"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_reply_that_does_not_fit_is_refused(message, match):
    with pytest.raises(SiteFailure, match=match):
        check_reply(message, 4, SPECS)
