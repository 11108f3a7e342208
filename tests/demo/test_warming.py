"""Small fits that fill the cache of kernels: one of each kind, and the command that runs them."""

import json

import pytest
from typer.testing import CliRunner

from tacit.cli import app
from tacit.demo.warming import FITS, warm_up
from tacit.estimators.families import estimator_names

SHORT = {"network": "network-regressor", "coupled factorization": "factorization"}


def test_there_is_a_fit_of_every_family():
    kinds = {SHORT.get(name.split(":")[0], name.split(":")[0]) for name in FITS}
    others = {"network-classifier", "selector"}  # the same kernels as regressors and posteriors
    assert kinds == set(estimator_names()) - others


@pytest.mark.parametrize("name", ["summary", "factorization: als, entries", "mixture"])
def test_a_small_fit_runs(name):
    assert list(warm_up(name)) == [name]


def test_the_command_says_what_it_did():
    done = CliRunner().invoke(app, ["warm-up", "--only", "mixture", "--json"])
    assert done.exit_code == 0, done.output
    assert list(json.loads(done.stdout)["seconds"]) == ["mixture"]


@pytest.mark.slow
@pytest.mark.parametrize("name", FITS)
def test_every_small_fit_runs(name):
    assert name in list(warm_up(name))
