"""Torn sequences: splitters that cut a table by rows are warned of, and SequenceKFold is the remedy."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, cross_val_score, cross_validate

from seqboost import HMM, as_batch, load
from seqboost.evaluation import SequenceKFold
from seqboost.exceptions import InputError, ParameterError


def made(seed=0, n=40):
    """Return a table of sequences of 5 to 19 rows, numbered from 0, and its labels."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(5, 20, n)
    table = pd.DataFrame({"trial": np.repeat(np.arange(n), lengths), "speed": rng.normal(size=lengths.sum())})
    return table, pd.Series(np.where(table.speed > 0, "run", "rest"))


TABLE, LABELS = made()
ROWS = np.arange(len(TABLE))
HALVES = [(ROWS[::2], ROWS[1::2]), (ROWS[1::2], ROWS[::2])]


def n_torn(run):
    """Return how many warnings there are, all of torn sequences."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        run()
    assert all("Sequences are torn apart" in str(one.message) for one in found)
    return len(found)


# ------------------------------------------------------------------------------------------------ the warning


@pytest.mark.parametrize(
    ("cv", "pandas", "polars"),
    [
        (5, 5, 1),  # without an index, parts are known by their length: of two parts the shorter one
        (KFold(5, shuffle=True, random_state=0), 5, 5),
        (KFold(2, shuffle=True, random_state=0), 2, 0),
        (HALVES, 2, 0),
        (GroupKFold(5), 0, 0),
        (SequenceKFold(5, sequence="trial"), 0, 0),
        (SequenceKFold(5, sequence="trial", shuffle=True, random_state=0), 0, 0),
    ],
    ids=["plain", "shuffled", "shuffled halves", "every second row", "groups", "sequences", "shuffled sequences"],
)
def test_cross_validation(cv, pandas, polars):
    groups = TABLE.trial if isinstance(cv, GroupKFold) else None
    for table, labels, least in ((TABLE, LABELS, pandas), (pl.from_pandas(TABLE), LABELS.to_numpy(), polars)):
        found = n_torn(lambda table=table, labels=labels: cross_val_score(
            HMM(sequence="trial"), table, labels, cv=cv, groups=groups, error_score="raise"
        ))  # fmt: skip
        assert found >= least
        assert found == 0 or least or cv is HALVES or isinstance(cv, KFold)


def test_the_warning_names_sequence_and_remedy():
    model = HMM(sequence="trial").fit(TABLE, LABELS)
    for run in (model.predict, model.predict_proba, lambda X: model.score(X, LABELS[X.index])):
        with pytest.warns(UserWarning, match=r"1 sequence\(s\) that HMM was trained on; 0 has 3 rows here and had 17 "
                          r".* cv=SequenceKFold\(5, sequence='trial'\) of seqboost\.evaluation"):  # fmt: skip
            run(TABLE[:3])


def test_whole_and_new_sequences_are_not_warned_of(tmp_path):  # warnings are errors here
    model = HMM(sequence="trial").fit(TABLE, LABELS)
    one = TABLE[TABLE.trial == 7]
    longer = pd.concat([one, one.set_axis(one.index + 10_000)])
    anew, _ = made(1)  # other sequences, numbered from 0 as well
    for new in (TABLE, one, one.reset_index(drop=True), longer, anew, TABLE.assign(trial=TABLE.trial + 100)[3:]):
        model.predict(new)
        model.predict(pl.from_pandas(new))
    model.predict(as_batch(TABLE, sequence="trial")[3:9])
    model.save(tmp_path / "m.seqboost")
    for other in (load(tmp_path / "m.seqboost"), pickle.loads(pickle.dumps(model))):  # known in memory only
        assert other.predict(TABLE[:3]).tolist() == model.predict(TABLE)[:3].tolist()
    assert vars(clone(model)).keys() == model.get_params().keys()


def test_a_refit_forgets_the_earlier_table():
    model = HMM(sequence="trial").fit(TABLE, LABELS)
    late = TABLE[TABLE.trial > 20]
    model.fit(late, LABELS[late.index])
    model.predict(TABLE[:3])


# ------------------------------------------------------------------------------------------------ SequenceKFold


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize(
    "form",
    [pd.DataFrame, pl.from_pandas, pa.Table.from_pandas, lambda table: pl.from_pandas(table).lazy()],
    ids=["pandas", "polars", "pyarrow", "lazy"],
)
def test_rows_of_a_sequence_stay_together(form, shuffle):
    mixed = TABLE.sample(frac=1, random_state=0)
    splitter = SequenceKFold(4, sequence="trial", shuffle=shuffle, random_state=0 if shuffle else None)
    trials, seen = mixed.trial.to_numpy(), []
    sizes = []
    for train, test in splitter.split(form(mixed)):
        assert not set(trials[train]) & set(trials[test])
        assert np.array_equal(np.sort(np.concatenate([train, test])), ROWS)
        seen += test.tolist()
        sizes.append(len(test))
    assert sorted(seen) == ROWS.tolist()
    assert max(sizes) - min(sizes) <= TABLE.trial.value_counts().max()
    assert splitter.get_n_splits(mixed) == splitter.get_n_splits() == 4


def test_lists_and_batches():
    lists = [part.speed.tolist() for _, part in TABLE.groupby("trial")]
    expected = [test.tolist() for _, test in SequenceKFold(3).split(lists)]
    arrays = [np.array(part)[:, None] for part in lists]
    for X in (arrays, [sp.csr_array(part) for part in arrays], as_batch(lists), as_batch(TABLE, sequence="trial")):
        assert [test.tolist() for _, test in SequenceKFold(3).split(X)] == expected
    assert [test.tolist() for _, test in SequenceKFold(2).split(np.ones((4, 2)))] == [[0, 2], [1, 3]]
    assert [test.tolist() for _, test in SequenceKFold(2).split(["abc", "d", "ef"])] == [[0], [1, 2]]


def test_shuffled_folds_depend_on_the_seed_alone():
    def folds(seed):
        splitter = SequenceKFold(3, sequence="trial", shuffle=True, random_state=seed)
        return [test.tolist() for _, test in splitter.split(TABLE)]

    assert folds(1) == folds(1) != folds(2)
    assert folds(1) != [test.tolist() for _, test in SequenceKFold(3, sequence="trial").split(TABLE)]


def test_searches_take_it():
    cv = SequenceKFold(3, sequence="trial")
    search = GridSearchCV(HMM(sequence="trial"), {"order": [0, 1]}, cv=cv, return_train_score=True).fit(TABLE, LABELS)
    assert search.best_score_ > 0.9
    by_sequence = [part.tolist() for _, part in LABELS.groupby(TABLE.trial)]
    scores = cross_validate(HMM(), as_batch(TABLE, sequence="trial"), by_sequence, cv=SequenceKFold(3))["test_score"]
    np.testing.assert_allclose(scores.mean(), search.cv_results_["mean_test_score"][1])
    assert repr(cv) == "SequenceKFold(n_splits=3, random_state=None, sequence='trial', shuffle=False)"


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"n_splits": 1}, "n_splits must be an int of 2 or more. Got 1"),
        ({"n_splits": 2.5}, "n_splits must be an int"),
        ({"n_splits": True}, "n_splits must be an int"),
        ({"shuffle": "yes"}, "shuffle must be True or False"),
        ({"random_state": 0}, "random_state has no effect without shuffle"),
    ],
)
def test_parameters(parameters, match):
    with pytest.raises(ParameterError, match=match):
        SequenceKFold(**parameters)


def test_errors_of_split():
    with pytest.raises(InputError, match="n_splits=3 folds need at least as many sequences, but X has 2"):
        next(SequenceKFold(3, sequence="trial").split(TABLE[TABLE.trial < 2]))
    for name in (None, "id"):
        with pytest.raises(ParameterError, match=r"needs the column .*sequence=one of \['trial', 'speed'\]"):
            next(SequenceKFold(3, sequence=name).split(TABLE))
    with pytest.warns(UserWarning, match="SequenceKFold ignores groups"):
        next(SequenceKFold(3, sequence="trial").split(TABLE, groups=TABLE.trial))
