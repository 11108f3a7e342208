"""What is written to disk: releases and mailed summaries of every estimator.

Seeded noise is refused there, so certificates lose that note, and the ledger's random name, first.
"""

from __future__ import annotations

import dataclasses
import json
import tempfile
from pathlib import Path

import numpy as np

import tacit as tc
from tacit.factorization import Langevin
from tacit.networks import PrivateDropoutClassifier, Training
from tacit.posterior import NormalMean

from . import moments, networks, posterior, recommender, regression, sites, summary
from .cases import Results, case, cases, certificate

ROW = tc.Privacy(1.0, 1e-6, unit="row", trust="site")
ENTRY = tc.Privacy(1.0, 1e-6, unit="entry", trust="site")
DOCUMENT = tc.Privacy(10.0, 1e-6, unit="document", trust="site")
LINEAR = {"bounds": regression.PAIRS, "y_bounds": regression.RESPONSE, **regression.SHORT}

MODELS = {
    "summary": lambda: tc.PrivateSummary(summary.BOUNDS, bins=8, privacy=ROW, random_state=5).fit(
        summary.sites(2)
    ),
    "regression": lambda: tc.PrivateLinearRegression(
        **LINEAR, privacy=ROW, random_state=5
    ).fit(regression.sites(2)),
    "posterior": lambda: tc.PrivatePosterior(
        NormalMean(), "mean", bounds=(0, 10), **posterior.SHORT, random_state=5,
        privacy=tc.Privacy(1.0, 1e-5, neighbours="replace-one"),
    ).fit(posterior.numbers("normal")),
    "topics": lambda: tc.SingleTopicModel(
        2, vocabulary=moments.WORDS, privacy=DOCUMENT, random_state=5
    ).fit(moments.sites(moments.corpus)),
    "mixture": lambda: tc.GaussianMixture(
        2, radius=6.0, privacy=dataclasses.replace(ROW, epsilon=20.0), random_state=5
    ).fit(moments.sites(moments.points)),
    "orthogonal": lambda: tc.OrthogonalDecomposition(
        2, sensitivity=1.0, privacy=tc.Privacy(2.0), random_state=5
    ).fit(moments.tensor()),
    "factorization als": lambda: tc.PrivateFactorization(
        "user:k item:k", rank=3, bounds=(1, 5), privacy=ENTRY, random_state=5
    ).fit(sites.holders()),
    "factorization langevin": lambda: tc.PrivateFactorization(
        "user:k item:k", rank=3, bounds=(1, 5), method=Langevin(rounds=3), privacy=ENTRY,
        random_state=5,
    ).fit(sites.holders()),
    "recommender": lambda: tc.PrivateRecommender(
        (1, 5), rank=2, privacy=ENTRY, random_state=5
    ).fit(recommender.ratings()),
    "network": lambda: PrivateDropoutClassifier(
        (), bounds=(-1, 1), classes=("no", "yes"), rows=200, random_state=5,
        training=Training(steps=4, samples=2), privacy=networks.PRIVACY,
    ).fit(*networks.table()),
}  # fmt: skip


def cleared(found: tc.Certificate) -> tc.Certificate:
    notes = tuple(note for note in found.assumptions if not note.startswith("seeded"))
    return dataclasses.replace(found, assumptions=notes, ledger=None)


@cases("release", {name: {"fit": fit} for name, fit in MODELS.items()})
def released(fit) -> Results:
    model = fit()
    for name in ("certificate_", "certificates_"):
        found = getattr(model, name, None)
        if isinstance(found, dict):
            setattr(model, name, {site: cleared(one) for site, one in found.items()})
        elif found is not None:
            setattr(model, name, cleared(found))
    with tempfile.TemporaryDirectory() as folder:
        model.release(Path(folder) / "release")
        files = sorted(path.name for path in (Path(folder) / "release").iterdir())
        release = tc.read_release(Path(folder) / "release")
    return {
        "files": files,
        "estimator": release.estimator,
        "arrays": release.arrays,
        "certificates": {site: certificate(c) for site, c in release.certificates.items()},
        # settings name parameters, which may be called something else one day
        "settings": json.dumps(release.manifest["settings"], sort_keys=True, ensure_ascii=False),
    }


@case("release/mailed summary")
def mailed() -> Results:
    model = tc.PrivateLinearRegression(**LINEAR, privacy=ROW, random_state=5)
    other = tc.PrivateLinearRegression(**LINEAR, privacy=ROW, random_state=6)
    model.fit(regression.sites(2))
    with tempfile.TemporaryDirectory() as folder:
        paths = [
            dataclasses.replace(one, certificate=cleared(one.certificate)).save(
                Path(folder) / f"{site}.json"
            )
            for site, one in model.summaries_.items()
        ]
        written = [path.read_bytes() for path in paths]
        other.fit([tc.SiteSummary.load(path) for path in paths])
    return {"files": written, "coef": other.coef_, "sd": other.coef_sd_}


@case("release/device")
def device() -> Results:
    model = tc.PrivateRecommender((1, 5), rank=2, privacy=ENTRY, random_state=5)
    model.fit(recommender.ratings(), weights=tc.PrivacyWeights.drawn(
        recommender.USERS, recommender.ITEMS, np.random.default_rng(0)
    ))  # fmt: skip
    one = tc.Device(model.shared_, (1, 5), [1, 3], [4.0, 2.0])
    before = one.predict(np.arange(recommender.ITEMS))
    one.rate(5, 5.0)
    return {
        "before": before,
        "after": one.predict(np.arange(recommender.ITEMS)),
        "top": one.top(4),
    }
