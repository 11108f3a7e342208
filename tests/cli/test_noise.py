"""`tacit certify` and `tacit calibrate`: what is printed holds, and odd numbers are answered."""

import json
import math
import re
import sys

import pytest

from tacit.cli.main import main
from tacit.privacy.accounting.accountants import epsilon_of
from tacit.privacy.catalogue import CATALOGUE, Query


def call(capsys, *arguments):
    before, sys.argv = sys.argv, ["tacit", *map(str, arguments)]
    try:
        main()
        code = 0
    except SystemExit as stop:
        code = int(stop.code or 0)
    finally:
        sys.argv = before
    found = capsys.readouterr()
    return code, found.out, found.err


@pytest.mark.parametrize("sigma", [0.7, 1.3, 2.0, 3.3, 17.1])
@pytest.mark.parametrize("delta", [1e-3, 1.2345678e-7])
def test_what_certify_prints_is_never_below_what_was_computed(capsys, sigma, delta):
    exact = epsilon_of(CATALOGUE["gaussian"].event(sigma, Query()), delta)
    _, out, _ = call(capsys, "certify", "gaussian", "--sigma", sigma, "--delta", delta)
    epsilon, printed = (float(part) for part in re.findall(r"[εδ] = (\S+)", out))
    assert epsilon >= exact
    assert printed >= delta
    _, out, _ = call(capsys, "certify", "gaussian", "--sigma", sigma, "--delta", delta, "--json")
    assert json.loads(out)["epsilon"] >= exact


@pytest.mark.parametrize("mechanism", sorted(CATALOGUE))
@pytest.mark.parametrize("epsilon", [0.1, 0.7777777, 3.0])
def test_what_calibrate_prints_meets_its_target_when_typed_in_again(capsys, mechanism, epsilon):
    facts = ("--delta", 1e-5, "--steps", 3, "--neighbours", "replace-one")
    code, out, _ = call(capsys, "calibrate", mechanism, "--epsilon", epsilon, *facts)
    assert code == 0
    parameter = CATALOGUE[mechanism].parameter
    value = re.search(rf"{parameter} = ([^ ,]+)", out).group(1)
    _, out, _ = call(capsys, "certify", mechanism, f"--{parameter}", value, *facts, "--json")
    assert epsilon * 0.99 < json.loads(out)["epsilon"] <= epsilon * (1 + 1e-6)
    typed = CATALOGUE[mechanism].event(
        float(value), Query(neighbours="replace-one", steps=3, delta=1e-5)
    )
    assert epsilon_of(typed, 1e-5) <= epsilon


@pytest.mark.parametrize(
    "arguments",
    [
        ("gaussian", "--sigma", 1, "--delta", 1e-5, "--steps", 10**9),
        ("gaussian", "--sigma", 1, "--delta", 1e-5, "--steps", 10**9, "--rate", 1e-3),
        ("gaussian", "--sigma", 1e-9, "--delta", 1e-320, "--rate", 0.5),
        ("gaussian", "--sigma", 1e300, "--sensitivity", 1e-300),
        ("k-norm", "--scale", 1e-3, "--delta", 1e-5),
        ("k-norm", "--scale", 1e-100, "--delta", 1e-5, "--steps", 10**400),
        ("hybrid", "--deviation", 2),
        ("hybrid", "--deviation", 1e140),
        ("hybrid", "--scale", 2),
        ("geometric", "--scale", 5, "--sensitivity", 1e300),
        ("geometric", "--scale", 5, "--sensitivity", 1e9, "--delta", 1e-6),
        ("randomized-response", "--lie", 1e-140, "--categories", 10**12),
        ("randomized-response", "--lie", 0.5, "--categories", 10**400),
        ("laplace", "--scale", 1e-9, "--rate", 1e-9, "--delta", 1e-9),
    ],
    ids=lambda arguments: " ".join(map(str, arguments))[:60],
)
@pytest.mark.parametrize("accountant", ["pld", "rdp", "zcdp", "advanced", "basic"])
def test_extreme_numbers_get_an_answer_or_an_error_of_tacit(capsys, arguments, accountant):
    code, out, err = call(capsys, "certify", *arguments, "--accountant", accountant)
    assert (code == 0 and "ε = " in out) or (code == 1 and err.startswith("tacit: "))


@pytest.mark.parametrize(
    "arguments",
    [
        ("gaussian", "--epsilon", 1, "--delta", 1e-9, "--steps", 10**12, "--rate", 1e-3),
        ("k-norm", "--epsilon", 1e-9, "--delta", 1e-5, "--steps", 10**9),
        ("randomized-response", "--epsilon", 1e9),
        ("hybrid", "--epsilon", 1e9),
        ("laplace", "--epsilon", 1e300),
        ("laplace", "--epsilon", 1e-200, "--delta", 0.5, "--steps", 10),
    ],
    ids=lambda arguments: " ".join(map(str, arguments))[:60],
)
def test_extreme_targets_get_noise_or_an_error_of_tacit(capsys, arguments):
    code, out, err = call(capsys, "calibrate", *arguments)
    assert (code == 0 and "needs" in out) or (code == 1 and err.startswith("tacit: "))


def test_replacing_one_moves_utilities_twice(capsys):
    found = [
        json.loads(call(capsys, "certify", "exponential", "--scale", 4, "--neighbours", how,
                        "--json")[1])["epsilon"]
        for how in ("add-remove-one", "replace-one")
    ]  # fmt: skip
    assert found == pytest.approx([0.5, 1.0])
    assert math.isfinite(found[1])
