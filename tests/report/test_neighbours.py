"""What a report lets out: a function of what passed the gate, whatever data it came from.

The noisy numbers of one fit are replayed into a fit to neighbouring data; the pages must be the
same to the last letter.
"""

import dataclasses

import numpy as np
import pytest

import tacit as tc
from tacit.data.synthetic import topic_documents
from tacit.estimators import gate
from tacit.report.contents import gather
from tacit.report.page import render_report

REQUEST = tc.Privacy(1.0, 1e-6)
ROWS = np.random.default_rng(0).uniform(1, 9, (300, 2))
DOCUMENTS = topic_documents(400, 6, 2)[0]


def summary():
    return tc.PrivateSummary(
        {"age": (0, 10), "stay": (0, 10)}, statistics=("count", "mean", "histogram", "quantiles"),
        privacy=REQUEST, random_state=1,
    )  # fmt: skip


def regression():
    return tc.PrivateLinearRegression(
        bounds={"age": (0, 10)}, y_bounds=(0, 10), target="stay", method="Bayes-fixedS-fast",
        privacy=REQUEST, random_state=1,
    )  # fmt: skip


def topics():
    return tc.SingleTopicModel(2, vocabulary=6, privacy=REQUEST, random_state=1)


def table(rows):
    return {"age": rows[:, 0], "stay": rows[:, 1]}


CASES = {
    "summary": (summary, table(ROWS), table(ROWS[:-1])),
    "regression": (regression, table(ROWS), table(ROWS[:-1])),
    "topics": (topics, DOCUMENTS, DOCUMENTS[:399]),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_neighbouring_data_with_the_same_noisy_numbers_give_the_same_page(name, monkeypatch):
    make, data, neighbour = CASES[name]
    recorded, real = [], gate.privatize

    def recording(*given, **how):
        recorded.append(real(*given, **how))
        return recorded[-1]

    def replaying(*given, **how):
        real(*given, **how)
        return recorded.pop(0)

    monkeypatch.setattr(gate, "privatize", recording)
    ours = gather(make().fit(data))
    assert recorded
    monkeypatch.setattr(gate, "privatize", replaying)
    theirs = gather(make().fit(neighbour))
    assert not recorded

    def page(contents):  # the ledger of a fit in memory has a random name
        plain = {
            holder: dataclasses.replace(one, ledger=None, seal=None)
            for holder, one in contents.certificates.items()
        }
        found = dataclasses.replace(contents, certificates=plain)
        return render_report(found, facts={"Date": "2026-11-18"})

    assert page(ours) == page(theirs)
