"""Topics of a column of text: documents over a stated vocabulary, read one by one."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import tacit as tc
from tacit.cli.build import estimator_of, sites_of
from tacit.cli.config import read_config
from tacit.data.free_text import Text
from tacit.data.problems import BadTable
from tacit.errors import ParameterError, UnboundedData
from tacit.mechanisms.grid import Grid, GridSum
from tacit.moments.numerics.multisets import joint_sums
from tacit.moments.numerics.sums import FINE
from tacit.moments.texts import TextColumn

WORDS = ["fever", "cough", "bone", "x-ray", "blood pressure"]
NOTES = tc.Columns(age=tc.number(0, 99), note=tc.text(WORDS))


def notes(rows=600, seed=0):
    """Notes about a cold (fever and cough) or about a fall (bones and x-rays)."""
    rng = np.random.default_rng(seed)
    texts = []
    for kind in rng.integers(0, 2, rows):
        own = ["Fever", "cough;"] if kind else ["bone,", "X-ray"]
        texts.append(" ".join(["the patient:", *rng.choice(own, 6), "(unlisted)"]))
    return pd.DataFrame({"note": texts, "age": 40, "id": np.arange(rows) // 2})


def model(**more):
    return tc.SingleTopicModel(2, **{"columns": NOTES, "random_state": 0, **more})


def test_words_are_found_by_the_vocabulary_alone_text_by_text():
    kind = Text(("fever", "Blood pressure", "x-ray", "u"))
    texts = ["FEVER, fever! blood  pressure", "bloodpressure; X ray. U", "blood and pressure", ""]
    found = kind.counts(texts).toarray().tolist()
    assert found == [[2, 1, 0, 0], [0, 0, 1, 1], [0, 0, 0, 0], [0, 0, 0, 0]]
    for text, row in zip(texts, found, strict=True):
        assert kind.counts([text]).toarray().tolist() == [row]
    with pytest.raises(UnboundedData, match="vocabulary must be stated"):
        tc.text(["x-ray", "X ray"])
    with pytest.raises(ParameterError, match="is no word"):
        tc.text(["fever", "…"])


@pytest.mark.parametrize("made", [lambda f: f, pl.from_pandas, "csv", "parquet"])
def test_every_table_gives_the_topics_that_its_words_give(made, tmp_path):
    frame = notes()
    if isinstance(made, str):
        data = tmp_path / f"n.{made}"
        getattr(frame, f"to_{made}")(data, index=False)
    else:
        data = made(frame)
    found = model().fit(data)
    assert sorted(map(sorted, found.top_words(2))) == [["bone", "x-ray"], ["cough", "fever"]]
    assert found.vocabulary_ == tuple(WORDS)
    words = [[w for w in Text(tuple(WORDS))._spelled for _ in range(n.lower().count(w))]
             for n in frame.note.str.replace("-", " ")]  # fmt: skip
    plain = tc.SingleTopicModel(2, vocabulary=[*Text(tuple(WORDS))._spelled], random_state=0)
    assert np.allclose(plain.fit(words).topics_, found.topics_)


def test_predictions_go_by_the_name_of_the_column():
    found = model().fit(notes())
    cold = {"note": ["Fever and cough", "bone"], "other": [1, 2]}
    by_name, by_text = found.predict(cold), found.predict(["Fever and cough", "bone"])
    assert by_name.tolist() == by_text.tolist() and by_name[0] != by_name[1]
    shares = found.transform(pd.DataFrame(cold)[["other", "note"]])
    assert shares.argmax(axis=1).tolist() == by_name.tolist()
    with pytest.raises(ParameterError, match="no column 'note'"):
        found.predict({"text": ["fever"]})
    with pytest.raises(BadTable, match="'note', missing: the table, row 2"):
        found.predict({"note": ["fever", None]})


def test_a_release_with_columns_is_read_back(tmp_path):
    first = model(random_state=None, privacy=tc.Privacy(50.0, 1e-4)).fit(notes(3000))
    back = tc.SingleTopicModel.from_release(first.release(tmp_path / "r"))
    assert back.predict(notes(5)).tolist() == first.predict(notes(5)).tolist()
    assert back.vocabulary_ == first.vocabulary_
    notes_of = first.certificate_.assumptions
    assert first.certificate_.unit == "document"
    assert "words outside the vocabulary are left out" in notes_of


def test_missing_texts_go_by_the_rule_for_them():
    data = {"note": ["fever cough fever", None, "", "bone bone bone"]}
    with pytest.raises(BadTable, match="row 2: ''; the table, row 3"):
        TextColumn(tc.Columns(note=tc.text(WORDS))).read(data)
    dropped = TextColumn(tc.Columns(note=tc.text(WORDS), missing="drop")).read(data)
    assert dropped.lengths.tolist() == [3, 3]
    filled = TextColumn(tc.Columns(note=tc.text(WORDS), missing="impute")).read(data)
    assert filled.lengths.tolist() == [3, 0, 0, 3]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"vocabulary": WORDS}, "leave vocabulary out"),
        ({"duplicates": "sum"}, r"pass Columns\(key="),
        ({"columns": tc.Columns(age=(0, 9))}, "must have one column of text"),
        ({"columns": tc.Columns(a=tc.text(["x"]), b=tc.text(["y"]))}, "must have one column"),
        ({"columns": tc.Columns(a=tc.text(["x"]), person="id", per_person="average")},
         "no average"),
        ({"privacy": tc.Privacy(1, 1e-6, unit="user")}, "must be 'document'.*name the person"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(change, words):
    with pytest.raises(ParameterError, match=words):
        model(**change).price()


def test_it_is_fitted_from_a_file(tmp_path):
    notes().to_csv(tmp_path / "n.csv", index=False)
    (tmp_path / "c.toml").write_text(
        'estimator = "SingleTopicModel"\nparameters = {topics = 2}\n'
        'privacy = {epsilon = 9.0, delta = 1e-3}\n[columns]\nperson = "id"\nrows_per_person = 2\n'
        f'note = {{kind = "text", vocabulary = {WORDS}}}\n'
        '[[site]]\nname = "North"\ndata = "n.csv"\n'
    )
    config = read_config(tmp_path / "c.toml")
    found, facts = estimator_of(config)
    (site,) = sites_of(config, found, facts)
    found.fit([site])
    assert found.certificate_.unit == "user" and len(found.topics_) == 2
    assert "at most 2 rows of one person count" in found.certificate_.assumptions


def test_no_person_moves_the_moments_by_more_than_the_certificate_says():
    """An attacker brings hundreds of notes that repeat one word."""
    people = tc.Columns(note=tc.text(WORDS), person="id", rows_per_person=3)
    found = model(columns=people, privacy=tc.Privacy(1, 1e-5))
    agreement = found._agree([None])
    assert agreement.sensitivity == 3.0
    others = notes(40)
    evil = pd.DataFrame({"note": ["fever fever fever"] * 300, "id": "evil"})

    mechanism = agreement.mechanisms[1]

    def moments(frame, own=found):
        documents = own._read(frame, agreement)
        total = joint_sums(documents, agreement.places, 5, (1.0, 1.0), agreement.share)
        return GridSum(total, Grid(-FINE)).onto(mechanism.grid)

    far = mechanism.distance(moments(pd.concat([others, evil])), moments(others))
    assert 0.99 < far <= 1.0
    twin = model()  # bounds nobody's documents
    broken = mechanism.distance(moments(pd.concat([others, evil]), twin), moments(others, twin))
    assert broken > 50
