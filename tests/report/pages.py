"""Pages to look at: every kind of picture, hostile names, numbers that are none."""

import numpy as np

import tacit as tc
from tacit._core.answers import Answer, Table
from tacit._core.pictures import Bars, HeatMap, Histogram, Intervals, Lines
from tacit.privacy.certificate import Certificate
from tacit.privacy.events import GaussianDpEvent
from tacit.privacy.guarantee import Privacy
from tacit.report import Accuracy
from tacit.report.contents import Contents
from tacit.report.page import render_report

HOSTILE = "<script>alert(1)</script>\u202eevil\x00" + '"><b' + "x" * 10_000


def certificate(epsilon=1.0, holder="North", **changes):
    """Return a certificate of about an ε."""
    privacy = Privacy(epsilon, 1e-6, unit="row", trust=changes.pop("trust", "site"))
    stated = ("age lies in [0, 110]", "the sites hold different rows", *changes.pop("notes", ()))
    event = GaussianDpEvent(5.0 / epsilon)
    return Certificate.issue(privacy, event, assumptions=stated, holder=holder, **changes)


def pictures(name="age"):
    """Return one picture of each kind."""
    rng = np.random.default_rng(0)
    tests = ["LDL", "HDL", "TSH", "CRP", "sodium", "potassium"]
    return {
        "means": Intervals("Means with 90 % intervals", "years", [name, "stay"], [58.2, 4.1],
                           [57.7, 3.2], [58.7, 5.0], reference=0.0),
        "histogram": Histogram(f"Histogram of {name}", "years", list(range(0, 101, 10)),
                               [12, 60, 140, 220, 310, 420, 510, 330, 120, 20], [12.0] * 10,
                               {"median": 58.0, "10 %": 29.0, "90 %": 80.0}),
        "shares": Bars("Rows of every ward", "rows", ["surgery", name, "intensive care"],
                       [820, 1220, 90], [800, 1190, 60], [840, 1250, 120]),
        "fit": Lines("Stay against age", name, "days",
                     {"women": [(20, 2.0), (50, 3.5), (80, 6.0)],
                      "men": [(20, 2.4), (50, 3.1), (80, 5.2)]}, {"mean": 4.1}),
        "loadings": HeatMap("How tests go together", "loading", tests,
                            [f"component {k}" for k in range(1, 5)],
                            rng.normal(0, 1, (6, 4)).round(2).tolist()),
    }  # fmt: skip


def answer(name="age", **changes):
    """Return an answer with tables and every kind of picture."""
    means = Table(
        "means", "Means", {"column": [name, "stay"], "mean": [58.21, 4.13],
                           "standard error": [0.31, 0.55], "from": [57.7, 3.2], "to": [58.7, 5.0]},
    )  # fmt: skip
    wide = Table("quantiles", "Quantiles", {"column": [name, "stay"]} | {
        f"{k} %": [k * 0.9, k * 0.1] for k in (1, 5, 10, 25, 50, 75, 90, 95, 99)})  # fmt: skip
    parts = {
        "title": "Patients of three hospitals",
        "headline": f"The mean {name} is 58.2 years (90 % interval 57.7 to 58.7).",
        "tables": (means, wide),
        "warnings": ("The mean of stay is mostly noise: its standard error is 13 % of it.",),
        "pictures": pictures(name),
    } | changes
    return Answer(**parts)


def contents(**changes):
    """Return what a page of three hospitals that agree is about."""
    parts = {
        "estimator": "PrivateSummary",
        "answer": answer(),
        "certificates": {n: certificate(holder=n) for n in ("North", "South", "West")},
        "diagnostics": (
            Intervals("R-hat of every parameter", "1 where chains agree", ["age", "sex"],
                      [1.002, 1.03], [1.002, 1.03], [1.002, 1.03], 1.01),
            Bars("Effective draws", "independent draws", ["age", "sex"], [1800, 420]),
        ),
        "training": (3.0, 2.0, 1.5),
        "settings": {"statistics": ["mean", "quantiles"], "bins": 10},
        "versions": {"tacit": "0.1.0", "numpy": "2.0"},
    } | changes  # fmt: skip
    return Contents(**parts)


def accuracy(source="simulated"):
    """Return an accuracy at three ε."""
    return Accuracy("RMSE of held-out tests", {"private": [(0.5, 1.0), (1.0, 0.8), (5.0, 0.5)],
                    "private averages (trivial)": [(0.5, 1.05), (1.0, 1.0), (5.0, 0.98)]},
                    {"own mean (free)": 0.95}, "The private model wins from ε = 1 on.",
                    source=source)  # fmt: skip


def ledger(epsilon=3.0, charges=(1.0, 0.5)):
    """Return a ledger with charges."""
    found = tc.Ledger.memory(epsilon=epsilon, delta=1e-5)
    for cost in charges:
        tc.PrivateSummary({"age": (0, 110)}, statistics=("mean",), ledger=found,
                          privacy=tc.Privacy(cost, 1e-6)).fit({"age": [40.0, 50.0]})  # fmt: skip
    return found


def everything(**changes):
    """Return a page with every section."""
    facts = {"Purpose": "to plan beds", "Contact": "data@hospitals.example", "Date": "2026-11-18"}
    return render_report(contents(**changes), facts=facts, accuracy=accuracy(),
                         ledgers={"North": ledger(), "South": ledger()})  # fmt: skip
