"""A site's summary: what it holds, the noise it states, and the file it travels in."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from tacit.errors import NotCertified, ParameterError, VerificationFailed
from tacit.mechanisms.noise import Noise
from tacit.privacy.certificate import Certificate
from tacit.privacy.events import ADD_REMOVE, REPLACE
from tacit.privacy.guarantee import Privacy
from tacit.published.alparslan2023 import ReadDesign, ThesisSummary
from tacit.regression.design import CONSTANT, Design
from tacit.regression.numerics.moments import Moments
from tacit.regression.rows import summarise
from tacit.regression.summary import SiteSummary, check_moments

ROWS = np.random.default_rng(5).uniform(-0.5, 0.5, (400, 4))


def design_of(neighbours=ADD_REMOVE, statistics="moments", kind=Design, **more):
    return kind((0.0,) * 4, (1.0,) * 4, neighbours=neighbours, statistics=statistics, **more)


def read_design_of(statistics, **more):
    return design_of(statistics=statistics, kind=ReadDesign, clip=1.0, intercept=False, **more)


def moments_of(design, mechanism, seed=None, rows=ROWS):
    total = summarise((rows[:, :-1], rows[:, -1]), design)
    # without the gate, which would account for hundreds of draws
    vector = mechanism.draw(
        design.vector(total.total, mechanism), Noise(mechanism.source, seed=seed)
    )
    known = float(total.count) if design.knows_rows else None
    return design.unpack(vector, math.sqrt(mechanism.variance()), known)


@pytest.mark.parametrize("statistics", ["moments", "Sz", "Szu"])
@pytest.mark.parametrize("neighbours", [ADD_REMOVE, REPLACE])
@pytest.mark.parametrize("intercept", [True, False])
def test_without_noise_the_moments_are_those_of_the_rows(statistics, neighbours, intercept):
    design = design_of(neighbours, statistics, intercept=intercept, clip=3.0)
    moments = moments_of(design, design.mechanism(None))
    x = np.column_stack([np.full(400, CONSTANT), ROWS[:, :3]]) if intercept else ROWS[:, :3]
    y = ROWS[:, 3]
    assert np.allclose(moments.gram, x.T @ x, atol=2e-3)
    assert np.allclose(moments.cross, x.T @ y, atol=2e-3)
    assert moments.rows == pytest.approx(400, abs=0.1)
    if statistics == "Sz":
        assert moments.square is None
    else:
        assert moments.square == pytest.approx(y @ y, abs=2e-3)
    assert moments.gram_sd == moments.cross_sd == moments.rows_sd == 0.0


@pytest.mark.parametrize("design", [
    design_of(), design_of(REPLACE), design_of(statistics="Sz"), design_of(REPLACE, "Szu"),
    design_of(intercept=False), read_design_of("Szu", norm=2.5),
], ids=lambda d: f"{d.statistics} {d.neighbours} {d.stretch}")  # fmt: skip
def test_the_noise_stated_is_the_noise_that_was_added(design):
    mechanism = design.mechanism(Privacy(1.0, 1e-6, neighbours=design.neighbours), "grid")
    exact = moments_of(design, design.mechanism(None))
    runs = [moments_of(design, mechanism, seed) for seed in range(300)]
    one = runs[0]

    def spread(values):
        """Return the standard deviation around the exact value over its stated one, ± 4 %."""
        return np.sqrt(np.mean(np.square(values)))

    grams = np.array([run.gram - exact.gram for run in runs])
    d = design.coefficients
    diagonal = grams[:, range(d), range(d)]
    assert spread(diagonal) / one.gram_sd == pytest.approx(1.0, abs=0.12)
    if design.off_diagonal == 2.0:
        above = grams[:, *np.triu_indices(d, 1)]
        assert spread(above) / one.gram_sd == pytest.approx(math.sqrt(0.5), abs=0.1)
    assert np.array_equal(grams, grams.transpose(0, 2, 1))
    crosses = np.array([run.cross - exact.cross for run in runs])
    assert spread(crosses) / one.cross_sd == pytest.approx(1.0, abs=0.12)
    if one.square is not None:
        squares = np.array([run.square - exact.square for run in runs])
        assert spread(squares) / one.square_sd == pytest.approx(1.0, abs=0.2)
    if one.rows_sd:
        counts = np.array([run.rows - exact.rows for run in runs])
        assert spread(counts) / one.rows_sd == pytest.approx(1.0, abs=0.2)


def test_equal_weights_or_split_ones_whichever_is_less_noise():
    for clip in (0.3, 1.0, 1.6, 5.0):
        for neighbours in (ADD_REMOVE, REPLACE):
            design = design_of(neighbours, "Sz", clip=clip)
            d = design.coefficients
            chosen = design.sensitivity**2 * (d * (d + 1) / 2 + d / design.cross_weight)
            joint = design._separate(1.0) * (d * (d + 1) / 2 + d)
            split = 2 * (design._separate(1e-300) * d * (d + 1) / 2)  # S alone at half the budget
            assert chosen <= joint * (1 + 1e-12)
            assert chosen <= 2.1 * split + joint
    assert design_of(statistics="Sz", clip=5.0).cross_weight != 1.0


def test_a_hundred_million_rows_do_not_fill_the_grid():
    design, corners = design_of(), np.sign(ROWS)
    one = summarise((corners[:, :-1], corners[:, -1]), design)
    many = replace(one.total, integers=one.total.integers * 250_000)
    for privacy in (None, Privacy(1.0, 1e-6)):
        mechanism = design.mechanism(privacy)
        vector = design.vector(many, mechanism).value()
        gram = design.unpack(vector, 0.0, None).gram
        assert np.allclose(gram, 250_000 * one.total.value()[:-1, :-1], rtol=1e-9)


def summary_of(seed=None):
    design = design_of()
    privacy = Privacy(1.0, 1e-6)
    mechanism = design.mechanism(privacy)
    noise = Noise("exact", seed=seed)
    columns = ("a", "b", "c", "y")
    assumptions = design.assumptions(columns) + noise.assumptions
    certificate = Certificate.issue(
        privacy, mechanism.event, assumptions=assumptions, holder="North"
    )
    return SiteSummary("North", columns, design, moments_of(design, mechanism, seed),
                       certificate)  # fmt: skip


def test_a_summary_survives_the_mail(tmp_path):
    summary = summary_of()
    found = SiteSummary.load(summary.save(tmp_path / "north.json"))
    assert found.design == summary.design and found.columns == summary.columns
    assert found.certificate == summary.certificate
    assert np.array_equal(found.moments.gram, summary.moments.gram)
    assert np.array_equal(found.moments.cross, summary.moments.cross)
    assert found.moments.square == summary.moments.square


def reseal(path, change):
    """Edit a summary and make its seal fit again: what is left is what the content says."""
    import hashlib

    body = path.read_text().rsplit("\n", 2)[0]
    data = json.loads(body)
    change(data)
    body = json.dumps(data)
    path.write_text(f"{body}\n{hashlib.sha256(body.encode()).hexdigest()}\n")


def skew(data):
    data["moments"]["gram"][0][1] += 1.0


def not_finite(data):
    data["moments"]["cross"][0] = float("nan")


def too_little_noise(data):
    data["moments"]["gram_sd"] /= 2
    data["moments"]["cross_sd"] /= 2
    data["moments"]["square_sd"] /= 2


def another_shape(data):
    data["moments"]["cross"] = data["moments"]["cross"][:-1]


def smaller_clip(data):
    data["design"]["clip"] = 9.0


def another_epsilon(data):
    data["certificate"]["epsilon"] = 0.1


def another_noise(data):
    data["moments"]["cross_sd"] *= 0.5


@pytest.mark.parametrize(("change", "words"), [
    (skew, "not symmetric"), (not_finite, "not finite"), (too_little_noise, "less than"),
    (another_shape, "another model"), (smaller_clip, "less than"),
    (another_epsilon, "certificate"), (another_noise, "fit together"),
])  # fmt: skip
def test_a_summary_that_does_not_hold_together_is_refused(tmp_path, change, words):
    path = summary_of().save(tmp_path / "north.json")
    reseal(path, change)
    with pytest.raises(VerificationFailed, match=words):
        SiteSummary.load(path)


def recertify(data, **changes):
    """Change a certificate and its digest: what is left is what it says."""
    from tacit.privacy.certificate import _digest

    data["certificate"].update(changes)
    del data["certificate"]["digest"]
    data["certificate"]["digest"] = _digest(data["certificate"])


def more_noise(data):
    for name in ("gram_sd", "cross_sd", "square_sd", "rows_sd"):
        data["moments"][name] *= 2


def more_noise_on_the_count(data):
    data["moments"]["rows_sd"] *= 10


def no_square(data):
    data["moments"]["square"] = None


def negative_rows(data):
    data["moments"]["rows"] = -5.0


def another_name(data):
    data["site"] = "South"


def fewer_columns(data):
    data["columns"] = ["a", "y"]


def one_column_twice(data):
    data["columns"] = ["a", "a", "b", "y"]


def another_middle(data):
    data["design"]["middle"][0] = 0.5


def not_a_middle(data):
    data["design"]["middle"][0] = "0"


def huge_number(data):
    data["moments"]["gram"][0][0] = 10**400


def published_design(data):
    data["design"].update(norm=2.0, statistics="Szu", intercept=False, clip=1.0)


def averaged(data):
    data["design"].update(rows_per_group=2)


def another_kind(data):
    data["what"] = ThesisSummary.what


@pytest.mark.parametrize("change", [
    more_noise, more_noise_on_the_count, no_square, negative_rows, another_name, fewer_columns,
    one_column_twice, another_middle, not_a_middle, huge_number, published_design, averaged,
    another_kind,
    lambda data: recertify(data, holder="South"),
    lambda data: recertify(data, unit="user"),
    lambda data: recertify(data, neighbours=REPLACE),
    lambda data: recertify(data, assumptions=[]),
    lambda data: recertify(data, assumptions=[*data["certificate"]["assumptions"],
                                              "seeded noise: not for release"]),
    lambda data: recertify(data, calibration="published", claimed_epsilon=0.5, claim="less"),
])  # fmt: skip
def test_a_forged_summary_must_still_fit_together(tmp_path, change):
    path = summary_of().save(tmp_path / "north.json")
    SiteSummary.load(path)
    reseal(path, change)
    with pytest.raises(VerificationFailed):
        SiteSummary.load(path)


@pytest.mark.parametrize("source", ["exact", "grid"])
@pytest.mark.parametrize("neighbours", [ADD_REMOVE, REPLACE])
def test_every_kind_of_release_survives_the_mail(tmp_path, source, neighbours):
    from tacit import PrivateLinearRegression, Site

    for epsilon, statistics, intercept in ((0.01, "Sz", True), (1.0, "Szu", False),
                                           (30.0, "moments", False)):  # fmt: skip
        fitted = PrivateLinearRegression(
            method="Bayes-fixedS-fast", bounds=[(-1, 1)] * 3, y_bounds=1.0, statistics=statistics,
            intercept=intercept, noise=source, chains=1, draws=10,
            privacy=Privacy(epsilon, 1e-6, neighbours=neighbours, trust="site"),
        ).fit([Site("North", (ROWS[:, :3], ROWS[:, 3]))])  # fmt: skip
        sent = fitted.summaries_["North"]
        found = SiteSummary.load(sent.save(tmp_path / f"{statistics}.json"))
        assert np.array_equal(found.moments.gram, sent.moments.gram)


def test_a_changed_byte_is_found(tmp_path):
    path = summary_of().save(tmp_path / "north.json")
    content = path.read_bytes()
    for place in range(0, len(content), 97):
        broken = bytearray(content)
        broken[place] ^= 1
        path.write_bytes(bytes(broken))
        with pytest.raises(VerificationFailed):
            SiteSummary.load(path)
    with pytest.raises(VerificationFailed, match="not a regression summary"):
        SiteSummary.load(tmp_path / "nowhere.json")


def test_seeded_noise_is_not_written(tmp_path):
    with pytest.raises(NotCertified, match="seeded"):
        summary_of(seed=1).save(tmp_path / "north.json")


def test_moments_from_elsewhere_are_checked():
    good = Moments(np.eye(4), np.zeros(4), 10.0)
    check_moments("A", design_of(), good)
    with pytest.raises(ParameterError, match="not symmetric"):
        check_moments("A", design_of(), Moments(np.triu(np.ones((4, 4))), np.zeros(4), 10.0))
    with pytest.raises(ParameterError, match="not finite"):
        check_moments("A", design_of(), Moments(np.full((4, 4), np.inf), np.zeros(4), 10.0))
