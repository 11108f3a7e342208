"""`CoupledFactorization`: fitting, predicting, resuming, folding in, keeping."""

from __future__ import annotations

import gc
import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from tacit import CoupledFactorization, CoupledModel, Relation
from tacit.errors import ParameterError, TacitError, VerificationFailed
from tacit.factorization.alone.inference import kernel_of
from tacit.factorization.alone.numerics.gibbs import GibbsSampler
from tacit.factorization.alone.numerics.multiplicative import MultiplicativeUpdates
from tacit.factorization.alone.numerics.variational import VariationalBayes
from tacit.factorization.alone.stated import READ_BY
from tacit.factorization.divergences import divergence
from tests.oracles.factors import factor_match_score

USERS, ITEMS, FEATURES = 25, 20, 12
FORMS = {"ratings": "user:k item:k", "profile": "user:k feature:k"}
PRIOR = {"prior": (3.0, 1.5)}
SAMPLING = {"burn_in": 150, "thin": 5, "iterations": 500}
METHODS = {
    "map": {"inference": "map"},
    "vb": {"inference": "vb", **PRIOR},
    "gibbs": {"inference": "gibbs", **PRIOR, **SAMPLING},
    "sgld": {"inference": "sgld", **PRIOR, **SAMPLING},
    "sgld real": {"inference": "sgld", **SAMPLING, "divergence": "euclidean"},
    "vb real": {"inference": "vb", "divergence": "euclidean"},
    "gibbs real": {"inference": "gibbs", **SAMPLING, "divergence": "euclidean"},
}


def planted(seed=0):
    """Return the expected ratings and profiles of a rank-2 model."""
    rng = np.random.default_rng(seed)
    user, item, feature = (rng.gamma(2.0, 1.0, (n, 2)) for n in (USERS, ITEMS, FEATURES))
    return user @ item.T, user @ feature.T


def noisy(method, seed=0):
    """Return (truth, data with a fifth of the ratings missing, where they are missing)."""
    rng = np.random.default_rng(seed + 100)
    ratings, profile = planted(seed)
    missing = rng.random(ratings.shape) < 0.2
    if method.endswith("real"):
        drawn = [truth + 0.5 * rng.normal(size=truth.shape) for truth in (ratings, profile)]
    else:
        drawn = [rng.poisson(truth).astype(float) for truth in (ratings, profile)]
    drawn[0][missing] = np.nan
    return ratings, dict(zip(FORMS, drawn, strict=True)), missing


def fitted(method, data=None, forms=FORMS, **options):
    """Fit with those options that the method's inference reads."""
    data = noisy(method)[1] if data is None else data
    given = {**METHODS[method], **options}
    given = {
        n: v for n, v in given.items() if given["inference"] in READ_BY.get(n, given["inference"])
    }
    return CoupledFactorization(forms, rank=2, random_state=0, **given).fit(data)


def everything(model, relation="ratings"):
    bound = model._relation(relation)
    shape = [model._bound.factors[n].rows for n in bound.factors[: bound.modes]]
    return np.argwhere(np.ones(shape))


@pytest.mark.parametrize("method", ["vb real", "gibbs real", "sgld real"])
@pytest.mark.parametrize("shift", [-40.0, 0.0])
def test_real_factors_learn_data_of_any_sign_and_their_noise(method, shift):
    rng = np.random.default_rng(5)
    truth = rng.normal(size=(40, 2)) @ rng.normal(size=(30, 2)).T + shift
    seen = truth + 0.3 * rng.normal(size=truth.shape)
    seen[::4, ::3] = np.nan
    options = {"iterations": 300, "burn_in": 100, "rank": 3} if method != "vb real" else {}
    given = {**METHODS[method], **options}
    model = CoupledFactorization("a:k b:k", random_state=0, **{"rank": 3, **given}).fit(seen)
    cells = np.argwhere(np.isnan(seen))
    errors = model.predict("data", cells) - truth[tuple(cells.T)]
    assert np.sqrt(np.mean(errors**2)) < 0.3
    assert model.dispersion_["data"] == pytest.approx(0.09, rel=0.25)
    if method != "vb real":
        assert model.mixing_.draws == (300 - 100) // 5
        assert model.converged_ == (model.mixing_.r_hat <= 1.1)
        assert "R-hat" in str(model.summary())


def test_a_prior_may_be_given_for_some_factors():
    data = noisy("gibbs")[1]
    near_zero = fitted("gibbs", data, prior={"feature": (1.0, 1e-6)})
    free = fitted("gibbs", data, prior={"feature": (1.0, 1.0)})
    assert near_zero.factors_["feature"].max() < 0.1 * free.factors_["feature"].max()
    with pytest.raises(ParameterError, match="prior names 'films', which is no factor"):
        fitted("map", data, prior={"films": (1.0, 1.0)})


def test_a_chain_that_is_not_finite_is_an_error(monkeypatch):
    step = GibbsSampler.step

    def broken(self, rng, state):
        state, info = step(self, rng, state)
        return state._replace(factors={n: v * np.nan for n, v in state.factors.items()}), info

    monkeypatch.setattr(GibbsSampler, "step", broken)
    with pytest.raises(ParameterError, match=r"after 1 iterations .*'user' was not finite"):
        fitted("gibbs")


# --- fitting and predicting -----------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_missing_cells_of_planted_data_are_predicted(method):
    truth, data, missing = noisy(method)
    model = fitted(method, data)
    predicted = model.predict("ratings", np.argwhere(missing))
    error = np.sqrt(np.mean((predicted - truth[missing]) ** 2))
    assert error < 0.5 * truth[missing].std()
    assert model.factors_["user"].shape == (USERS, 2)


@pytest.mark.parametrize("method", ["vb", "gibbs", "sgld", "sgld real", "gibbs real", "vb real"])
def test_bayesian_predictions_come_with_a_variance_that_fits_their_error(method):
    truth, data, missing = noisy(method)
    mean, variance = fitted(method, data).predict(
        "ratings", np.argwhere(missing), return_variance=True
    )
    assert (variance > 0).all()
    score = np.sqrt(np.mean((mean - truth[missing]) ** 2 / variance))
    assert 0.3 < score < 4.0


def test_a_point_estimate_has_no_variance():
    with pytest.raises(ParameterError, match="no posterior variance: use inference='vb'"):
        fitted("map").predict("ratings", [[0, 0]], return_variance=True)


def test_noiseless_data_are_found_exactly():
    ratings, profile = planted()
    data = {"ratings": ratings.copy(), "profile": profile}
    data["ratings"][::3, ::2] = np.nan
    model = fitted("map", data, prior="flat", iterations=5000, tolerance=1e-9)
    predicted = model.predict("ratings", everything(model)).reshape(ratings.shape)
    np.testing.assert_allclose(predicted, ratings, rtol=0.02)


def test_a_tucker_model_is_fitted_and_shaped():
    rng = np.random.default_rng(0)
    factors = [rng.gamma(1.0, 1.0, size) for size in ((6, 2), (5, 3), (4, 2), (2, 3, 2))]
    tensor = np.einsum("ik,jl,cm,klm->ijc", *factors)
    model = CoupledFactorization(
        "a:k b:l c:m core:klm", rank={"k": 2, "l": 3, "m": 2}, iterations=2000, tolerance=0.0,
        prior="flat", random_state=0,
    ).fit(tensor)  # fmt: skip
    shapes = {n: f.shape for n, f in model.factors_.items()}
    assert shapes == {"a": (6, 2), "b": (5, 3), "c": (4, 2), "core": (2, 3, 2)}
    rebuilt = np.einsum("ik,jl,cm,klm->ijc", *(model.factors_[n] for n in ("a", "b", "c", "core")))
    cells = np.argwhere(np.ones(tensor.shape))
    np.testing.assert_allclose(model.predict("data", cells), rebuilt.ravel())
    assert np.abs(rebuilt - tensor).mean() < 0.05 * tensor.mean()


def test_arrays_relations_and_a_single_matrix_are_the_same_data():
    data = noisy("map")[1]
    as_relations = {
        v: Relation.from_dense([t.split(":")[0] for t in FORMS[v].split()], array)
        for v, array in data.items()
    }
    first, second = fitted("map", data), fitted("map", as_relations)
    np.testing.assert_array_equal(first.factors_["user"], second.factors_["user"])
    single = [
        fitted("map", one, forms="user:k item:k").factors_["user"]
        for one in (data["ratings"], {"data": data["ratings"]}, as_relations["ratings"])
    ]
    np.testing.assert_array_equal(single[0], single[1])
    np.testing.assert_array_equal(single[0], single[2])


def test_a_coupled_model_can_be_passed_whole():
    data = noisy("map")[1]
    whole = CoupledModel(FORMS, rank=2, divergence={"profile": "euclidean"})
    first = CoupledFactorization(whole, random_state=0).fit(data)
    second = fitted("map", data, divergence={"profile": "euclidean"})
    np.testing.assert_array_equal(first.factors_["user"], second.factors_["user"])


def test_coupling_helps_users_without_ratings():
    ratings, profile = planted()
    data = {"ratings": ratings.copy(), "profile": profile}
    data["ratings"][:5] = np.nan
    cells = [cell for cell in np.argwhere(np.ones(ratings.shape)) if cell[0] < 5]
    model = fitted("map", data, prior="flat", iterations=3000, tolerance=0.0)
    predicted = model.predict("ratings", cells)
    np.testing.assert_allclose(predicted, ratings[:5].ravel(), rtol=0.1)


def test_the_labels_of_the_data_are_kept():
    table = {"user": ["b", "a"], "item": [7, 9], "n": [1.0, 2.0]}
    relation = Relation.from_frame(table, ("user", "item"), "n")
    model = CoupledFactorization("user:k item:k", rank=1, iterations=5).fit(relation)
    assert model.labels_ == {"user": ("a", "b"), "item": (7, 9)}


# --- the same again -------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_the_same_seed_gives_the_same_result_and_another_one_another(method):
    short = {"iterations": 30, "burn_in": 10}
    first, second = fitted(method, **short), fitted(method, **short)
    np.testing.assert_array_equal(first.factors_["user"], second.factors_["user"])
    third = fitted(method, **short).set_params(random_state=1).fit(noisy(method)[1])
    assert np.abs(first.factors_["user"] - third.factors_["user"]).max() > 1e-3


@pytest.mark.parametrize("method", ["map", "vb", "sgld"])
def test_permuting_cells_or_relations_gives_the_same_fit(method):
    rng = np.random.default_rng(3)
    data = noisy(method)[1]
    relations = {
        v: Relation.from_dense([t.split(":")[0] for t in FORMS[v].split()], array)
        for v, array in data.items()
    }
    shuffled = {}
    for v in reversed(relations):
        order = rng.permutation(relations[v].cells)
        shuffled[v] = relations[v].subset(order)
    short = {"iterations": 60, "burn_in": 30}
    first, second = fitted(method, relations, **short), fitted(method, shuffled, **short)
    for name in first.factors_:
        np.testing.assert_allclose(first.factors_[name], second.factors_[name], rtol=1e-8)


def test_transposing_a_relation_gives_the_same_fit():
    data = noisy("map")[1]
    first = fitted("map", data)
    flipped = {
        "ratings": Relation.from_dense(("item", "user"), data["ratings"].T),
        "profile": data["profile"],
    }
    second = fitted("map", flipped)
    for name in first.factors_:
        np.testing.assert_allclose(first.factors_[name], second.factors_[name], rtol=1e-8)
    np.testing.assert_allclose(
        first.predict("ratings", [[3, 4]]), second.predict("ratings", [[4, 3]]), rtol=1e-8
    )


def test_the_best_of_several_starts_is_kept():
    data = noisy("map")[1]
    short = {"iterations": 20, "tolerance": 0.0, "accelerate": False}
    many = fitted("map", data, restarts=6, **short)
    alone = fitted("map", data, **short)
    assert many.history_[-1] < alone.history_[-1]  # start 0 is among the six, and not the best
    assert many.n_iter_ == 20
    kernel = kernel_of(_engine(many, data), many.get_params())
    assert kernel.objective(many._state) == pytest.approx(many.history_[-1], rel=1e-10)


def _engine(model, data):
    from tacit.factorization.alone.numerics.sums import Engine
    from tacit.factorization.language.binding import as_relations

    relations = as_relations(model.coupled_model(), data)
    return Engine(model.coupled_model().bind(relations), relations)


@pytest.mark.parametrize("method", ["map", "vb"])
def test_history_is_monotone_and_the_tolerance_stops_the_fit(method):
    plain = {"accelerate": False}
    loose = fitted(method, tolerance=1e-2, **plain)
    tight = fitted(method, tolerance=1e-7, iterations=3000, **plain)
    assert loose.converged_ and tight.converged_
    assert loose.n_iter_ < tight.n_iter_ < 3000
    change = np.diff(tight.history_) * (1 if method == "map" else -1)
    assert (change <= 1e-9 * abs(tight.history_[0])).all()
    assert len(tight.history_) == tight.n_iter_ // 10
    assert not fitted(method, iterations=7).converged_


# --- going on -------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["map", "vb", "vb real"])
def test_a_warm_start_goes_on_where_the_fit_stopped(method):
    data = noisy(method)[1]
    plain = {"tolerance": 0.0, "accelerate": False}
    whole = fitted(method, data, iterations=40, **plain)
    parts = fitted(method, data, iterations=20, warm_start=True, **plain)
    first = parts.history_[-1]
    parts.fit(data)
    assert parts.n_iter_ == 40
    assert (parts.history_[-1] < first) == (method == "map")
    np.testing.assert_allclose(parts.history_, whole.history_, rtol=1e-12)
    np.testing.assert_allclose(parts.factors_["user"], whole.factors_["user"], rtol=1e-10)


@pytest.mark.parametrize("method", ["gibbs", "sgld"])
def test_a_warm_started_chain_adds_samples(method):
    data = noisy(method)[1]
    model = fitted(method, data, iterations=60, burn_in=20, thin=10, warm_start=True)
    earlier = [s["user"] for s in model._samples]
    model.fit(data)
    assert model.n_iter_ == 120
    assert len(earlier) == 4 and len(model._samples) == 10
    later = [s["user"] for s in model._samples]
    np.testing.assert_array_equal(earlier, later[:4])
    assert len({sample.tobytes() for sample in later}) == 10  # no sample is drawn twice


def test_a_warm_started_chain_does_not_repeat_its_noise():
    data = noisy("sgld real")[1]
    options = {"iterations": 5, "burn_in": 0, "thin": 1, "warm_start": True, "dispersion": 1e9}
    model = fitted("sgld real", data, **options).fit(data)  # data of no weight: only noise moves
    moves = np.diff([sample["user"].ravel() for sample in model._samples], axis=0)
    assert abs(np.corrcoef(moves[:4].ravel(), moves[5:].ravel())[0, 1]) < 0.5


def test_without_a_warm_start_a_fit_begins_anew():
    data = noisy("map")[1]
    model = fitted("map", data, iterations=20)
    once = model.factors_["user"].copy()
    model.fit(data)
    np.testing.assert_array_equal(model.factors_["user"], once)
    assert model.n_iter_ == 20


def test_a_warm_start_on_data_of_another_size_begins_anew():
    data = noisy("map")[1]
    model = fitted("map", data, iterations=20, warm_start=True)
    model.fit({v: array[:10] for v, array in data.items()})
    assert model.n_iter_ == 20
    assert model.factors_["user"].shape == (10, 2)


def test_a_warm_start_with_another_inference_begins_anew():
    data = noisy("map")[1]
    model = fitted("map", data, iterations=20, warm_start=True)
    model.set_params(inference="vb", **PRIOR).fit(data)
    assert model.n_iter_ == 20


KERNELS = {"map": MultiplicativeUpdates, "vb": VariationalBayes, "gibbs": GibbsSampler}


def interrupt(monkeypatch, method, at):
    """Let Ctrl-C arrive in the middle of iteration ``at``, once."""
    kernel = KERNELS[method]
    step, calls = kernel.step, []

    def interrupted(self, *arguments, **options):
        calls.append(1)
        if len(calls) == at:
            raise KeyboardInterrupt
        return step(self, *arguments, **options)

    monkeypatch.setattr(kernel, "step", interrupted)
    return calls


@pytest.mark.parametrize("at", [7, 27])
@pytest.mark.parametrize("method", KERNELS)
def test_an_interrupt_keeps_the_state_and_a_warm_start_resumes(monkeypatch, method, at):
    data = noisy(method)[1]
    options = {"tolerance": 0.0, "warm_start": True, "burn_in": 0, "thin": 1, "accelerate": False}
    short = fitted(method, data, **options, iterations=at - 1)
    interrupt(monkeypatch, method, at)
    model = fitted(method, data, **options, iterations=50)
    np.testing.assert_allclose(model.factors_["user"], short.factors_["user"], rtol=1e-10)
    assert not model.converged_
    model.set_params(iterations=20).fit(data)
    short.set_params(iterations=20).fit(data)
    np.testing.assert_allclose(model.factors_["user"], short.factors_["user"], rtol=1e-8)


@pytest.mark.parametrize("method", KERNELS)
def test_an_interrupted_iteration_does_not_count(monkeypatch, method):
    interrupt(monkeypatch, method, 27)
    model = fitted(method, tolerance=0.0, iterations=50, burn_in=0, accelerate=False)
    assert model.n_iter_ == 26


def test_an_interrupt_ends_a_fit_with_several_starts(monkeypatch):
    calls = interrupt(monkeypatch, "map", 7)
    fitted("map", tolerance=0.0, iterations=30, restarts=4)
    assert len(calls) < 30


@pytest.mark.parametrize("method", ["map", "vb"])
def test_the_objective_of_an_interrupted_fit_is_that_of_its_state(monkeypatch, method):
    data = noisy(method)[1]
    interrupt(monkeypatch, method, 7)
    model = fitted(method, data, tolerance=0.0)
    kernel = kernel_of(_engine(model, data), model.get_params())
    value = kernel.objective(model._state) if method == "map" else kernel.bound(model._state)
    assert model.history_[-1] == pytest.approx(value, rel=1e-10)


def test_a_state_from_the_burn_in_is_not_kept_as_a_sample(monkeypatch):
    data = noisy("gibbs")[1]
    interrupt(monkeypatch, "gibbs", 7)
    model = fitted("gibbs", data, iterations=40, burn_in=20, thin=10, warm_start=True)
    model.set_params(iterations=34).fit(data)
    assert model.n_iter_ == 40
    assert len(model._samples) == 2


def test_the_progress_bar_changes_nothing(capsys):
    data = noisy("map")[1]
    quiet = fitted("map", data, iterations=20)
    shown = fitted("map", data, iterations=20, progress=True)
    np.testing.assert_array_equal(quiet.factors_["user"], shown.factors_["user"])
    assert "factorizing" in capsys.readouterr().out


# --- top and fold-in ------------------------------------------------------------------------


def test_top_lists_the_highest_predictions_in_order():
    model = fitted("map")
    scores = model.predict("ratings", [[3, item] for item in range(ITEMS)])
    best = model.top("ratings", "item", {"user": 3}, n=5)
    assert [item for item, _ in best] == np.argsort(-scores)[:5].tolist()
    np.testing.assert_allclose([score for _, score in best], np.sort(scores)[::-1][:5])


def test_top_leaves_out_what_is_skipped_and_gives_what_there_is():
    model = fitted("map")
    first = [item for item, _ in model.top("ratings", "item", {"user": 3}, n=3)]
    rest = [item for item, _ in model.top("ratings", "item", {"user": 3}, n=100, skip=first)]
    assert len(rest) == ITEMS - 3
    assert not set(first) & set(rest)
    assert model.top("ratings", "item", {"user": 3}, skip=range(ITEMS)) == []


def test_top_needs_one_member_of_every_other_entity():
    model = fitted("map", iterations=5)
    for given in ({}, {"item": 0}, {"user": 1, "item": 2}):
        with pytest.raises(ParameterError, match=r"given must hold one member .*'user'"):
            model.top("ratings", "item", given)
    with pytest.raises(ParameterError, match="given must hold"):
        model.top("ratings", "feature", {"user": 0})
    with pytest.raises(ParameterError, match=f"user {USERS} is unknown.* within 0"):
        model.top("ratings", "item", {"user": USERS})


def new_user(data, user):
    """The relations of one user alone."""
    return {
        "ratings": Relation.from_dense(("user", "item"), data["ratings"][[user]]),
        "profile": Relation.from_dense(("user", "feature"), data["profile"][[user]]),
    }


@pytest.mark.parametrize("power", ["kl", "euclidean"])
def test_a_known_user_folds_in_to_the_row_of_the_fit(power):
    data = noisy("map")[1]
    model = fitted("map", data, divergence=power, iterations=10_000, tolerance=1e-8)
    for user in (0, 7):
        row = model.fold_in("user", new_user(data, user))
        assert row.shape == (1, 2)
        np.testing.assert_allclose(row[0], model.factors_["user"][user], rtol=0.02, atol=0.02)


@pytest.mark.parametrize("power", ["kl", "euclidean"])
def test_a_held_back_user_folds_in_to_nearly_the_row_of_the_full_fit(power):
    data = noisy("map")[1]
    full = fitted("map", data, divergence=power, iterations=1500, tolerance=1e-7)
    rest = {v: np.delete(array, 4, axis=0) for v, array in data.items()}
    part = fitted("map", rest, divergence=power, iterations=1500, tolerance=1e-7)
    row = part.fold_in("user", new_user(data, 4))[0]
    expected = full.predict("ratings", [[4, item] for item in range(ITEMS)])
    np.testing.assert_allclose(part.factors_["item"] @ row, expected, rtol=0.15, atol=0.3)


@pytest.mark.parametrize("method", ["vb", "gibbs", "sgld"])
def test_a_user_folds_in_to_a_bayesian_fit(method):
    truth, data, _ = noisy(method)
    row = fitted(method, data)
    predicted = row.factors_["item"] @ row.fold_in("user", new_user(data, 4))[0]
    assert np.corrcoef(predicted, truth[4])[0, 1] > 0.7
    assert predicted.mean() == pytest.approx(truth[4].mean(), rel=0.4)


def test_a_user_folds_in_to_real_factors():
    rng = np.random.default_rng(0)
    user, item = rng.normal(size=(USERS, 2)), rng.normal(size=(ITEMS, 2))
    truth = user @ item.T
    data = {
        "data": Relation.from_dense(("user", "item"), truth + 0.1 * rng.normal(size=truth.shape))
    }
    model = fitted("sgld real", data, forms="user:k item:k", dispersion=0.05)
    predicted = model.predict("data", everything(model, "data")).reshape(truth.shape)
    assert np.sqrt(np.mean((predicted - truth) ** 2)) < 0.3  # the fit itself is good
    errors = []
    for u in range(5):
        row = model.fold_in("user", {"data": Relation.from_dense(("user", "item"), truth[[u]])})
        errors.append(model.factors_["item"] @ row[0] - truth[u])
    assert np.sqrt(np.mean(np.square(errors))) < 0.3


def test_a_new_user_starts_cold_through_a_side_relation():
    ratings, profile = planted()
    rest = {"ratings": np.delete(ratings, 4, axis=0), "profile": np.delete(profile, 4, axis=0)}
    model = fitted("map", rest, prior="flat", iterations=3000, tolerance=0.0)
    side = {"profile": Relation.from_dense(("user", "feature"), profile[[4]])}
    predicted = model.factors_["item"] @ model.fold_in("user", side)[0]
    np.testing.assert_allclose(predicted, ratings[4], rtol=0.1)


def test_several_members_fold_in_at_once_each_on_its_own():
    data = noisy("map")[1]
    model = fitted("map", data)
    both = {
        v: Relation.from_dense([t.split(":")[0] for t in FORMS[v].split()], data[v][[2, 9]])
        for v in data
    }
    rows = model.fold_in("user", both)
    for k, user in enumerate((2, 9)):
        alone = model.fold_in("user", new_user(data, user))[0]
        np.testing.assert_allclose(rows[k], alone, rtol=1e-4, atol=1e-6)


def test_folding_in_uses_the_prior_of_the_fit():
    data = noisy("map")[1]
    model = fitted("map", data, prior=(1.0, 0.1), iterations=5000, tolerance=1e-10)
    row = model.fold_in("user", new_user(data, 3))[0]
    np.testing.assert_allclose(row, model.factors_["user"][3], rtol=0.02, atol=1e-3)


def test_folding_in_arrays_is_possible_or_refused():
    data = noisy("map")[1]
    model = fitted("map", data)
    try:
        row = model.fold_in("user", {v: array[[3]] for v, array in data.items()})
    except ParameterError:
        return
    np.testing.assert_allclose(row, model.fold_in("user", new_user(data, 3)))


def test_new_data_that_do_not_fit_the_model_are_refused():
    model = fitted("map", iterations=5)
    with pytest.raises(ParameterError, match="'profile' does not name the entity 'item'"):
        model.fold_in("item", {"profile": Relation.from_dense(("user", "feature"), [[1.0]])})
    with pytest.raises(ParameterError, match=f"'item' has {ITEMS} members, the new data 3"):
        model.fold_in("user", {"ratings": Relation.from_dense(("user", "item"), np.ones((1, 3)))})


def test_folding_in_an_unknown_relation_is_refused():
    model = fitted("map", iterations=5)
    with pytest.raises(ParameterError, match="clicks"):
        model.fold_in("user", {"clicks": Relation.from_dense(("user", "item"), [[1.0]])})


# --- keeping --------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_a_saved_model_predicts_the_same_and_uses_no_pickle(method, tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("pickle was used")

    model = fitted(method, iterations=30, burn_in=10)
    for name in ("dump", "dumps", "load", "loads", "Pickler", "Unpickler"):
        monkeypatch.setattr(pickle, name, refuse)
    model.save(tmp_path / "model.npz")
    again = CoupledFactorization.load(tmp_path / "model.npz")
    assert again.get_params() == model.get_params()
    assert (again.n_iter_, again.converged_) == (model.n_iter_, model.converged_)
    assert again.history_ == model.history_
    for relation in FORMS:
        cells = everything(model, relation)
        np.testing.assert_array_equal(
            model.predict(relation, cells), again.predict(relation, cells)
        )
    if method != "map":
        cells = everything(model)[:5]
        first, second = (
            m.predict("ratings", cells, return_variance=True)[1] for m in (model, again)
        )
        np.testing.assert_array_equal(first, second)
    for name in model.factors_:
        np.testing.assert_array_equal(model.factors_[name], again.factors_[name])


def test_the_saved_arrays_can_be_read_without_pickle(tmp_path):
    fitted("gibbs", iterations=20, burn_in=5).save(tmp_path / "model.npz")
    with np.load(tmp_path / "model.npz", allow_pickle=False) as archive:
        assert all(archive[name].dtype != object for name in archive.files)


@pytest.mark.parametrize("method", ["map", "vb", "vb real"])
def test_a_loaded_model_goes_on(method, tmp_path):
    data = noisy(method)[1]
    model = fitted(method, data, iterations=20, tolerance=0.0, warm_start=True)
    model.save(tmp_path / "model.npz")
    again = CoupledFactorization.load(tmp_path / "model.npz").fit(data)
    model.fit(data)
    assert again.n_iter_ == 40
    np.testing.assert_allclose(again.factors_["user"], model.factors_["user"], rtol=1e-10)


@pytest.mark.parametrize("method", ["gibbs", "sgld", "sgld real", "gibbs real"])
def test_a_loaded_chain_goes_on_from_its_last_state(method, tmp_path):
    data = noisy(method)[1]
    model = fitted(method, data, iterations=50, burn_in=49, thin=1, warm_start=True)
    model.save(tmp_path / "model.npz")
    again = CoupledFactorization.load(tmp_path / "model.npz")
    model.set_params(iterations=1).fit(data)
    again.set_params(iterations=1).fit(data)
    np.testing.assert_array_equal(model._samples[-1]["user"], again._samples[-1]["user"])


def test_parameters_of_numpy_types_are_saved(tmp_path):
    model = fitted("map", iterations=5).set_params(rank=np.int64(3)).fit(noisy("map")[1])
    model.save(tmp_path / "model.npz")
    again = CoupledFactorization.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(model.factors_["user"], again.factors_["user"])


def test_labels_are_saved(tmp_path):
    table = {"user": ["b", "a"], "item": [7, 9]}
    relation = Relation.from_frame(table, ("user", "item"))
    model = CoupledFactorization("user:k item:k", rank=1, iterations=5).fit(relation)
    model.save(tmp_path / "model.npz")
    again = CoupledFactorization.load(tmp_path / "model.npz")
    assert again.labels_ == {"user": ("a", "b"), "item": (7, 9)}


def test_labels_of_any_kind_do_not_keep_a_model_from_being_saved(tmp_path):
    days = np.array(["2020-01-01", "2020-01-02"], "datetime64[us]")
    relation = Relation.from_frame({"day": days, "item": [7, 9]}, ("day", "item"))
    model = CoupledFactorization("day:k item:k", rank=1, iterations=5).fit(relation)
    model.save(tmp_path / "model.npz")
    again = CoupledFactorization.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(again.factors_["day"], model.factors_["day"])


def test_a_loaded_model_knows_its_own_members_again(tmp_path):
    days = np.array(["2020-01-01", "2020-01-02"], "datetime64[us]")
    relation = Relation.from_frame({"day": days, "item": [7, 9]}, ("day", "item"))
    model = CoupledFactorization("day:k item:k", rank=1, iterations=5).fit(relation)
    model.save(tmp_path / "model.npz")
    assert CoupledFactorization.load(tmp_path / "model.npz").score(relation) == model.score(
        relation
    )


def test_a_whole_coupled_model_says_that_it_cannot_be_saved(tmp_path):
    model = CoupledFactorization(CoupledModel("a:k b:k"), iterations=5).fit(np.ones((2, 3)))
    with pytest.raises(ParameterError, match="pass the forms as text to save a model"):
        model.save(tmp_path / "model.npz")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "damage", ["missing", "text", "pickle", "another archive", "empty", "cut"]
)
def test_a_file_that_is_no_saved_model_is_refused(damage, tmp_path):
    path = tmp_path / "model.npz"
    fitted("map", iterations=5).save(path)
    if damage == "missing":
        path.unlink()
    elif damage == "text":
        path.write_text("not a model")
    elif damage == "pickle":
        path.write_bytes(pickle.dumps({"settings": 1}))
    elif damage == "another archive":
        np.savez(path, settings=np.arange(3))
    else:
        path.write_bytes(path.read_bytes()[: 0 if damage == "empty" else 400])
    outcome = None
    try:
        CoupledFactorization.load(path)
    except Exception as error:
        outcome = type(error), str(error)
    gc.collect()  # a file that was left open shows here, not in a later test
    assert outcome is not None
    assert outcome[0] is VerificationFailed
    assert "is not a saved factorization" in outcome[1]


# --- scikit-learn's habits ------------------------------------------------------------------


def test_init_only_stores_and_clone_copies():
    for method, options in METHODS.items():
        model = CoupledFactorization(FORMS, rank=2, random_state=0, **options)
        assert not [name for name in vars(model) if name.endswith("_")]
        copy = clone(model)
        assert copy.get_params() == model.get_params(), method
        assert copy is not model


def test_a_clone_of_a_fitted_model_is_not_fitted():
    copy = clone(fitted("map", iterations=5))
    assert not hasattr(copy, "factors_")


def test_what_needs_a_fit_says_so():
    model = CoupledFactorization(FORMS)
    with pytest.raises((NotFittedError, TacitError)):
        model.predict("ratings", [[0, 0]])


BAD_PARAMETERS = [
    (name, value)
    for name, constraint in CoupledFactorization._constraints.items()
    for value in constraint.bad_values()
]


@pytest.mark.parametrize(("name", "value"), BAD_PARAMETERS, ids=str)
def test_bad_parameters_are_refused_at_fit(name, value):
    model = CoupledFactorization(FORMS, rank=2, **{name: value})  # __init__ does not check
    with pytest.raises(ParameterError, match=f"{name} must be"):
        model.fit(noisy("map")[1])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rank": 0}, "rank of 'k' must be a whole number"),
        ({"divergence": "cosine"}, "divergence must be one of"),
        ({"dispersion": {"ratings": -1.0}}, "dispersion of 'ratings' must be"),
        ({"model": {"ratings": "user item"}}, "must read name:latents"),
        ({"inference": "vb", "divergence": 0.5}, "must have divergence='kl'"),
        ({"inference": "gibbs", "dispersion": 2.0}, "dispersion 1"),
        ({"inference": "sgld", "real_factors": True}, "real factors need divergence='euclidean'"),
        ({"prior": (0.5, 1.0)}, "shape must be a number in \\[1"),
    ],
    ids=str,
)
def test_settings_that_contradict_each_other_are_refused_at_fit(options, message):
    model = CoupledFactorization(**{"model": FORMS, "rank": 2, **options})
    with pytest.raises(ParameterError, match=message):
        model.fit(noisy("map")[1])


def test_all_parameters_but_the_model_are_constrained():
    free = {"model", "rank", "divergence", "dispersion"}  # checked by `CoupledModel`
    assert set(CoupledFactorization().get_params()) - free == set(
        CoupledFactorization._constraints
    )


@pytest.mark.parametrize(("name", "inferences"), READ_BY.items(), ids=READ_BY)
def test_a_parameter_that_an_inference_does_not_read_is_refused(name, inferences):
    value = {"adapt": True, "accelerate": False}.get(name, 7)
    value = 0.25 if name in ("tolerance", "step_size", "decay") else value
    for inference in ("map", "vb", "gibbs", "sgld"):
        model = CoupledFactorization(FORMS, rank=2, inference=inference, **{name: value})
        if inference not in inferences:
            with pytest.raises(ParameterError, match=f"{name} is not read by"):
                model.fit(noisy("map")[1])
        else:
            model._check_parameters()


@pytest.mark.parametrize("prior", [(1.0,), (1.0, 0.0), (-1.0, 2.0)])
def test_a_prior_is_a_positive_shape_and_mean(prior):
    with pytest.raises(ParameterError, match="prior must be"):
        CoupledFactorization(FORMS, rank=2, prior=prior).fit(noisy("map")[1])


# --- bad data and bad cells -----------------------------------------------------------------


def test_unknown_and_missing_relations_are_refused():
    data = noisy("map")[1]
    model = CoupledFactorization(FORMS, rank=2)
    with pytest.raises(ParameterError, match="the model has no relation 'clicks'"):
        model.fit({**data, "clicks": np.ones((2, 2))})
    with pytest.raises(ParameterError, match=r"the data \['ratings'\]"):
        model.fit({"ratings": data["ratings"]})
    with pytest.raises(ParameterError, match=r"data must name the relations \['profile', 'rat"):
        model.fit(data["ratings"])


@pytest.mark.parametrize(
    "cells",
    [[[USERS, 0]], [[0, ITEMS]], [[-1, 0]], [[0, 0], [0, 10**12]]],
    ids=str,
)
def test_cells_out_of_range_are_refused(cells):
    said = r"is unknown: .* within 0 … (24|19), .* \(in 'ratings'; fold new members in"
    with pytest.raises(ParameterError, match=said):
        fitted("map", iterations=5).predict("ratings", cells)


@pytest.mark.parametrize("cells", [[0, 1], [[0]], [[0, 1, 2]]], ids=str)
def test_cells_of_the_wrong_shape_are_refused(cells):
    with pytest.raises(ParameterError, match=r"cells must have shape \(cells, 2\).*'ratings'"):
        fitted("map", iterations=5).predict("ratings", cells)


def test_cells_that_are_no_whole_numbers_are_refused():
    with pytest.raises(ParameterError, match="whole numbers"):
        fitted("map", iterations=5).predict("ratings", [[0.7, 1.2]])


def test_an_unknown_relation_is_refused():
    with pytest.raises(ParameterError, match=r"no relation 'clicks': the model has \['ratings'"):
        fitted("map", iterations=5).predict("clicks", [[0, 0]])


def test_no_cells_give_no_predictions():
    assert fitted("vb", iterations=5).predict("ratings", np.empty((0, 2), int)).shape == (0,)


def test_an_array_with_too_few_modes_is_refused():
    with pytest.raises(ParameterError, match=r"column|modes"):
        CoupledFactorization("row:k column:k", rank=2).fit(np.ones(4))


def test_a_form_that_begins_with_its_core_takes_an_array():
    form, rank = "core:kl row:k column:l", {"k": 2, "l": 3}
    model = CoupledFactorization(form, rank=rank, iterations=5).fit(np.ones((4, 5)))
    assert {n: f.shape for n, f in model.factors_.items()} == {
        "core": (2, 3), "row": (4, 2), "column": (5, 3),
    }  # fmt: skip


def test_entities_over_several_latents_are_not_taken_for_cores():
    model = CoupledFactorization("row:kl column:kl core:kl", rank=2, iterations=5)
    try:
        shapes = {n: f.shape for n, f in model.fit(np.ones((4, 5))).factors_.items()}
    except ParameterError:  # saying that it is ambiguous is as good
        return
    assert shapes == {"row": (4, 2, 2), "column": (5, 2, 2), "core": (2, 2)}


def test_a_sparse_matrix_says_how_to_pass_it():
    with pytest.raises(ParameterError, match="from_scipy"):
        CoupledFactorization("row:k column:k", rank=1).fit(sparse.eye_array(3).tocsr())


# --- labels ---------------------------------------------------------------------------------


def labelled(user, items, values):
    table = {"user": [user] * len(items), "item": items, "n": values}
    return Relation.from_frame(table, ("user", "item"), "n")


@pytest.mark.parametrize("use", ["fold_in", "score"])
def test_data_whose_labels_differ_from_those_of_the_fit_are_refused(use):
    model = CoupledFactorization("user:k item:k", rank=1, iterations=20, random_state=0)
    model.fit(labelled("ann", ["p", "q"], [1.0, 9.0]))
    other = labelled("ann", ["q", "r"], [9.0, 1.0])
    with pytest.raises(ParameterError, match="item"):
        model.fold_in("user", {"data": other}) if use == "fold_in" else model.score(other)


def test_new_members_may_have_new_labels():
    model = CoupledFactorization("user:k item:k", rank=1, prior="flat", random_state=0)
    model.fit(labelled("ann", ["p", "q"], [1.0, 9.0]))
    row = model.fold_in("user", {"data": labelled("bob", ["p", "q"], [2.0, 18.0])})
    np.testing.assert_allclose(row, 2 * model.factors_["user"], rtol=1e-3)


def test_a_warm_start_on_other_members_begins_anew():
    model = CoupledFactorization("user:k item:k", rank=1, iterations=10, warm_start=True)
    model.fit(labelled("ann", ["p", "q"], [1.0, 9.0]))
    assert model.fit(labelled("bob", ["p", "q"], [1.0, 9.0])).n_iter_ == 10


# --- score ----------------------------------------------------------------------------------


@pytest.mark.parametrize("power", [0.0, 1.0, 1.5])
def test_the_score_is_minus_the_mean_divergence(power):
    ratings, profile = planted()
    data = {"ratings": ratings.copy(), "profile": profile}
    data["ratings"][0, :3] = np.nan
    model = fitted("map", data, divergence=power, iterations=20)
    total = count = 0
    for v, array in data.items():
        cells = np.argwhere(~np.isnan(array))
        total += divergence(array[tuple(cells.T)], model.predict(v, cells), power).sum()
        count += len(cells)
    assert model.score(data) == pytest.approx(-total / count)


def test_a_better_fit_scores_higher_on_new_data():
    _, data, missing = noisy("map")
    held_out = np.where(missing, np.random.default_rng(9).poisson(planted()[0]), np.nan)
    test = {"ratings": held_out, "profile": data["profile"]}
    assert fitted("vb", data).score(test) > fitted("vb", data, iterations=1).score(test)


def test_planted_factors_are_recovered():
    rng = np.random.default_rng(5)
    truth = {n: rng.gamma(0.5, 1.0, (size, 2)) for n, size in (("a", 15), ("b", 12), ("c", 9))}
    tensor = np.einsum("ik,jk,lk->ijl", *truth.values())
    model = CoupledFactorization(
        "a:k b:k c:k",
        rank=2,
        prior="flat",
        iterations=800,
        tolerance=0.0,
        restarts=2,
        random_state=0,
    ).fit(tensor)
    assert factor_match_score(model.factors_, truth) > 0.99


# --- accelerated fits -----------------------------------------------------------------------


@pytest.mark.parametrize("iterations", [1, 2, 3, 10, 29, 30])
def test_an_accelerated_fit_does_as_many_iterations_as_asked(iterations):
    model = fitted("map", iterations=iterations, tolerance=0.0)
    assert model.n_iter_ == iterations
    assert len(model.history_) >= 1


@pytest.mark.parametrize("divergence", ["euclidean", "kl", 1.5])
def test_acceleration_never_raises_the_objective_and_gets_further(divergence):
    data = {n: r for n, r in noisy("map")[1].items()}
    options = {"divergence": divergence, "iterations": 120, "tolerance": 0.0}
    quick, plain = (fitted("map", data, **options, accelerate=a) for a in (True, False))
    steps = np.diff(quick.history_)
    assert (steps <= 1e-9 * abs(quick.history_[0])).all()
    assert quick.history_[-1] <= plain.history_[-1] + 1e-6 * abs(plain.history_[-1])


def test_an_accelerated_warm_start_goes_on_in_whole_steps():
    data = noisy("map")[1]
    whole = fitted("map", data, iterations=24, tolerance=0.0)
    parts = fitted("map", data, iterations=12, tolerance=0.0, warm_start=True).fit(data)
    np.testing.assert_allclose(parts.factors_["user"], whole.factors_["user"], rtol=1e-10)


def test_an_interrupt_within_an_accelerated_step_keeps_the_last_whole_one(monkeypatch):
    data = noisy("map")[1]
    short = fitted("map", data, iterations=6, tolerance=0.0)
    interrupt(monkeypatch, "map", 8)  # the second update of the third step
    model = fitted("map", data, iterations=30, tolerance=0.0)
    assert model.n_iter_ == 6
    np.testing.assert_allclose(model.factors_["user"], short.factors_["user"], rtol=1e-10)
