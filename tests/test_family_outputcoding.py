"""Output coding: codes, cascades, decoding; and the counter-example that independent bits fail."""

from __future__ import annotations

import joblib
import numpy as np
import pandas as pd
import pytest
from family_data import EXPECTED_FAILURES, FLAT, NO_ARRAY_API, check_labeler, words
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks
from treecrf_data import all_equal, chains

from seqboost import HMM, OutputCoding, SlidingWindow, TreeCRF, VotedPerceptron, as_batch, load
from seqboost.datasets import make_cycle, make_hmm
from seqboost.estimators.family import codes, outputcoding
from seqboost.estimators.family.bits import Constant, bit_columns, plain_batch
from seqboost.exceptions import ParameterError

# ------------------------------------------------------------------------------------------------------------- codes


@given(n_labels=st.integers(2, 40), extra=st.integers(0, 30), seed=st.integers(0, 1000))
@settings(max_examples=60, deadline=None)
def test_random_codes_are_proper(n_labels, extra, seed):
    n_bits = int(min(np.ceil(np.log2(n_labels)) + extra, codes.n_columns(n_labels)))
    code = codes.random_code(n_labels, n_bits, np.random.default_rng(seed))
    assert code.shape == (n_labels, n_bits)
    assert len({tuple(row) for row in code.tolist()}) == n_labels
    columns = [tuple(column) for column in code.T.tolist()]
    complements = [tuple(1 - bit for bit in column) for column in columns]
    assert len(set(columns) | set(complements)) == 2 * n_bits
    assert all(0 < sum(column) < n_labels for column in columns)


@pytest.mark.parametrize("n_labels", [2, 3, 4, 7])
def test_exhaustive_codes_hold_every_column(n_labels):
    code = codes.exhaustive_code(n_labels)
    assert code.shape == (n_labels, 2 ** (n_labels - 1) - 1)
    assert codes.is_proper(code)


def test_one_vs_rest():
    np.testing.assert_array_equal(codes.one_vs_rest_code(3), np.eye(3))
    np.testing.assert_array_equal(codes.one_vs_rest_code(2), [[1], [0]])


def test_distances_are_l1():
    rng = np.random.default_rng(0)
    bits, code = rng.random((20, 6)), codes.random_code(5, 6, rng)
    by_hand = [[sum(abs(p - c) for p, c in zip(row, word, strict=True)) for word in code] for row in bits]
    np.testing.assert_allclose(codes.distances(bits, code), by_hand)


def test_confusing_columns_cut_what_is_confused():
    rng = np.random.default_rng(0)
    confusion = np.zeros((12, 12))
    pairs = [(0, 7), (1, 2), (3, 11), (5, 9)]
    for a, b in pairs:
        confusion[a, b] = 10
    code = codes.random_code(12, 4, rng)
    column = codes.confusing_column(confusion + 0.01, code, rng)
    assert all(column[a] != column[b] for a, b in pairs)
    assert codes.is_proper(np.column_stack([code, column]))


def test_confusing_columns_until_there_are_none():
    rng = np.random.default_rng(0)
    code = codes.exhaustive_code(3)[:, :2]
    code = np.column_stack([code, codes.confusing_column(np.ones((3, 3)), code, rng)])
    assert codes.is_proper(code)
    with pytest.raises(ParameterError, match="found no new column for a code of 3 labels and 3 bits"):
        codes.confusing_column(np.ones((3, 3)), code, rng)


def test_impossible_codes():
    with pytest.raises(ParameterError, match="a code of 5 labels has from 3 to 15 different columns, but n_bits=2"):
        codes.random_code(5, 2, np.random.default_rng(0))
    with pytest.raises(ParameterError, match="from 2 to 3 different columns, but n_bits=4"):
        codes.random_code(3, 4, np.random.default_rng(0))
    with pytest.raises(ParameterError, match="a row for each label, in the order of classes_; got 'abc'"):
        codes.check_code("abc", 3)
    with pytest.raises(ParameterError, match="different rows, and columns that hold both 0 and 1"):
        codes.check_code([[1, 0], [1, 0], [0, 1]], 3)


# ---------------------------------------------------------------------------------------------------------- cascades


def test_columns_of_earlier_bits():
    batch = as_batch([np.array([[1.0], [2.0], [3.0]]), np.array([[4.0]])])
    said = np.array([[0.9, 0.1], [0.2, 0.8], [0.5, 0.4], [1.0, 1.0]])
    found, names = bit_columns(plain_batch(batch), said, [0, 1], (-1, 1))
    assert names == ("bit 0 at -1", "bit 1 at -1", "bit 0 at +1", "bit 1 at +1")
    nan = np.nan
    expected = [[1, nan, nan, 0, 1], [2, 1, 0, 1, 0], [3, 0, 1, nan, nan], [4, nan, nan, nan, nan]]
    np.testing.assert_array_equal(found.numeric, expected)
    assert [column.name for column in found.schema.columns] == ["x0", *names]
    assert bit_columns(batch, said, [], (-1, 1)) == (batch, ())


class Recorder(HMM):
    """Remembers what it was trained on."""

    seen: list = []

    def fit(self, X, y, sample_weight=None):
        Recorder.seen.append((X, np.concatenate(y)))
        return super().fit(X, y, sample_weight)


@pytest.mark.parametrize(("cascade", "history"), [(0, 0), (1, 1), (2, 2), ("all", 5)])
def test_bits_see_as_many_bits_as_they_should(cascade, history):
    X, y = chains(12, n_labels=4)
    Recorder.seen = []
    model = OutputCoding(Recorder(), n_bits=5, cascade=cascade, random_state=0, n_jobs=1).fit(X, y)  # bits in order
    codes_of = np.searchsorted(model.classes_, np.concatenate(y))
    for b, (batch, bits) in enumerate(Recorder.seen):
        np.testing.assert_array_equal(bits, model.code_[codes_of, b])
        seen = range(max(0, b - history), b)
        names = [f"bit {j} at {o}" for o in ("-1", "+1") for j in seen]
        assert [column.name for column in batch.schema.columns] == ["x0", "x1", *names]
    # prediction, by hand
    said = np.zeros((sum(map(len, X)), 5))
    for b, bit in enumerate(model.estimators_):
        batch, _ = bit_columns(plain_batch(as_batch(X)), said, range(max(0, b - history), b), (-1, 1))
        said[:, b] = np.concatenate(bit.predict_proba(batch))[:, 1]
    guess = model.classes_[np.argmin(np.abs(said[:, None, :] - model.code_[None]).sum(axis=2), axis=1)]
    np.testing.assert_array_equal(np.concatenate(model.predict(X)), guess)


def test_out_of_sample_cascades():
    X, y = chains(12, n_labels=4)
    Recorder.seen = []
    OutputCoding(Recorder(), n_bits=3, cascade=1, n_folds=3, random_state=0).fit(X, y)
    # each bit but the last is trained on all sequences and on three folds
    assert [batch.n_sequences for batch, _ in Recorder.seen] == [12, 8, 8, 8, 12, 8, 8, 8, 12]
    whole, folds = Recorder.seen[4][0], [Recorder.seen[i][0] for i in (1, 2, 3)]
    order = np.random.default_rng(np.random.RandomState(0).randint(2**31)).permutation(12)
    said = np.empty(whole.n_rows)
    first = plain_batch(as_batch(X))
    bits = Recorder.seen[0][1]
    for fold, batch in zip(np.array_split(order, 3), folds, strict=True):
        assert batch.n_sequences == 8
        kept = np.setdiff1d(np.arange(12), fold)
        spans = [np.arange(*first.offsets[s : s + 2]) for s in range(12)]
        model = HMM().fit([X[s] for s in kept], [bits[spans[s]] for s in kept])
        for s in fold:
            said[spans[s]] = model.predict_proba([X[s]])[0][:, 1]
    expected, _ = bit_columns(first, said[:, None], [0], (-1, 1))
    np.testing.assert_array_equal(whole.numeric, expected.numeric)


def test_windows_leave_columns_of_bits_alone():
    X, y = words(20)
    y = ["".join(c if c in "ab" else "x" for c in word) for word in X]
    base = TreeCRF(window=1, max_iter=2, min_samples_leaf=1, early_stopping=False)
    model = OutputCoding(base, n_bits=3, cascade=2, random_state=0).fit(X, y)
    names = model.estimators_[2]._result.model.binner.layout.names
    assert set(names) == {"x0[-1]", "x0", "x0[+1]", *(f"bit {b} at {o}" for b in (0, 1) for o in ("-1", "+1"))}
    auto = OutputCoding(base.set_params(window="auto"), n_bits=3, cascade=1, random_state=0).fit(X, y)
    assert "bit 0 at -1[+1]" not in auto.estimators_[1]._result.model.binner.layout.names
    assert "x0[+6]" in auto.estimators_[1]._result.model.binner.layout.names


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_any_number_of_threads(n_jobs):
    X, y = chains(12, n_labels=4)
    base = TreeCRF(max_iter=3, min_samples_leaf=1, early_stopping=False)
    for cascade in (0, 2):
        one = OutputCoding(base, n_bits=4, cascade=cascade, random_state=0, n_jobs=2).fit(X, y)
        other = OutputCoding(base, n_bits=4, cascade=cascade, random_state=0, n_jobs=n_jobs).fit(X, y)
        assert all_equal(one.predict_proba(X), other.predict_proba(X))


def test_history_by_validation(monkeypatch):
    X, y = make_cycle(n_sequences=60, spacing=5, random_state=0)
    base = TreeCRF(window=0, max_iter=40, min_samples_leaf=5, random_state=0)
    model = OutputCoding(base, code="one_vs_rest", cascade="auto", random_state=0).fit(X, y)
    assert set(model.cascade_scores_) == {0, 1, "all"}  # 5 and 20 are more than there are bits
    assert model.cascade_ == 1
    assert model.cascade_scores_[1] > model.cascade_scores_[0] + 0.2
    with pytest.raises(ParameterError, match="cascade='auto' needs sequences to hold out"):
        OutputCoding(HMM(), cascade="auto").fit(X[:1], y[:1])


def test_growing_code():
    X, y = chains(40, n_labels=8, lengths=(4, 9))
    model = OutputCoding(HMM(), code="confusion", n_bits=12, random_state=0).fit(X, y)
    assert codes.is_proper(model.code_)
    assert model.code_.shape == (8, 12)
    few = OutputCoding(HMM(), code="confusion", n_bits=3, random_state=0).fit(X, y)
    np.testing.assert_array_equal(few.code_, model.code_[:, :3])  # columns are added, never changed
    assert model.score(X, y) > few.score(X, y)
    assert OutputCoding(HMM(), code="confusion", n_bits=12, cascade=2, random_state=0).fit(X, y).score(X, y) > 0.3


def test_the_counter_example():
    """Hao 2009, section 3.3: no code of independent bits can follow the cycle; cascades and the whole chain can.

    The input tells the label at every fifth position only. A bit of its own forgets within two positions where in the
    cycle it is; the next one takes it from there.
    """
    X, y = make_cycle(n_sequences=150, spacing=5, random_state=0)
    X_test, y_test = make_cycle(n_sequences=100, spacing=5, random_state=1)
    base = TreeCRF(window=0, random_state=0, max_iter=100, min_samples_leaf=5)

    def right(model):
        return model.fit(X, y).score(X_test, y_test)

    assert right(base) == 1.0
    assert right(OutputCoding(base, code="one_vs_rest")) < 0.6
    assert right(OutputCoding(base, code="exhaustive")) < 0.6
    for history in (1, 2):
        assert right(OutputCoding(base, code="one_vs_rest", cascade=history)) > 0.9


def test_order_0_is_iid():
    X, y = make_hmm("transition", n_sequences=60, n_labels=12, random_state=0)
    iid = OutputCoding(HMM(order=0), n_bits=20, random_state=0).fit(X, y)
    shuffled = [x[::-1] for x in X]
    assert all_equal([labels[::-1] for labels in iid.predict(shuffled)], iid.predict(X))  # positions do not matter
    assert OutputCoding(HMM(), n_bits=20, random_state=0).fit(X, y).score(X, y) > iid.score(X, y)


# ---------------------------------------------------------------------------------------------------------- contract


@pytest.mark.parametrize("cascade", [0, 1])
def test_contract(cascade, tmp_path):
    coded = OutputCoding(HMM(), code="one_vs_rest", cascade=cascade, random_state=0)
    model = check_labeler(coded, tmp_path=tmp_path)
    assert len(model.estimators_) == 3


def test_default_estimator_and_length():
    X, y = chains(12, n_labels=5, lengths=(2, 5))
    model = OutputCoding(code="one_vs_rest").fit(X, y)
    assert isinstance(model.estimators_[0], TreeCRF)
    assert OutputCoding(HMM()).fit(X, y).code_.shape == (5, 15)  # all there are; 10 log2 5 = 24


@pytest.mark.filterwarnings(FLAT, NO_ARRAY_API)
@parametrize_with_checks(
    [OutputCoding(HMM(), code="one_vs_rest")], expected_failed_checks=lambda estimator: EXPECTED_FAILURES
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("base", [TreeCRF(max_iter=2, early_stopping=False, min_samples_leaf=1), VotedPerceptron()])
def test_files(base, tmp_path):
    X, y = chains(12, n_labels=4)
    model = OutputCoding(base, n_bits=4, cascade=1, random_state=0).fit(X, y)
    model.estimators_[3] = Constant(1.0)
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert all_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert isinstance(loaded.estimators_[0], type(base))
    assert repr(loaded) == repr(model)


def test_bases_of_other_packages(tmp_path):
    X, y = chains(12, n_labels=4)
    model = OutputCoding(SlidingWindow(DecisionTreeClassifier(random_state=0)), n_bits=5, cascade=1, random_state=0)
    model.fit(X, y)
    assert model.score(X, y) > 0.9
    with pytest.raises(TypeError, match="cannot be written to a model file; keep it with joblib.dump"):
        model.save(tmp_path / "model")
    joblib.dump(model, tmp_path / "model.joblib")
    assert all_equal(joblib.load(tmp_path / "model.joblib").predict(X), model.predict(X))


def test_tables_weights_and_unobserved_labels():
    X, y = chains(12, n_labels=4)
    table = pd.DataFrame(np.vstack(X), columns=["a", "b"])
    table["who"] = np.repeat(np.arange(12), [len(x) for x in X])
    labels = np.concatenate(y)
    shuffled = np.random.default_rng(0).permutation(12)
    order = np.concatenate([np.flatnonzero(table["who"] == who) for who in shuffled])
    model = OutputCoding(HMM(), n_bits=5, cascade=1, random_state=0, sequence="who")
    model.fit(table.iloc[order], labels[order])
    plain = OutputCoding(HMM(), n_bits=5, cascade=1, random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.predict(table), np.concatenate(plain.predict(X)))
    weighted = OutputCoding(HMM(), n_bits=5, random_state=0).fit(X, y, sample_weight=[2] + [1] * 11)
    twice = OutputCoding(HMM(), n_bits=5, random_state=0).fit(X[:1] + X, y[:1] + y)
    assert all_equal(weighted.predict(X), twice.predict(X))
    with pytest.raises(TypeError, match="sample_weight was given, but VotedPerceptron.fit takes none"):
        OutputCoding(VotedPerceptron(), n_bits=3).fit(X, y, sample_weight=[2] + [1] * 11)
    hidden = [[None, *part[1:]] for part in y]
    assert OutputCoding(HMM(), n_bits=5, random_state=0).fit(X, hidden).score(X, y) > 0.5


def test_bits_that_cannot_be_learnt_are_no_news():
    X, y = ["xxxx"] * 30, ["abca"] * 30
    OutputCoding(TreeCRF(order=0, max_iter=3), code="one_vs_rest").fit(X, y)  # a warning would be an error here


def test_errors():
    X, y = chains(8, n_labels=4)
    for parameters, match in (
        ({"code": "best"}, "'code' parameter of OutputCoding must be one of 'random', 'confusion'.*Got 'best'"),
        ({"cascade": "some"}, "'cascade' parameter of OutputCoding must be an int of 0 or more, 'all' or 'auto'"),
        ({"cascade": -1}, "'cascade' parameter of OutputCoding"),
        ({"offsets": (-1, 0, 1)}, r"'offsets' parameter of OutputCoding must be a tuple of ints other than 0"),
        ({"offsets": ()}, "'offsets' parameter of OutputCoding"),
        ({"n_bits": 0}, "'n_bits' parameter of OutputCoding must be an int of 1 or more or None"),
        ({"estimator": "trees"}, "'estimator' parameter of OutputCoding must be a labeller of sequences"),
        ({"code": np.eye(3)}, "a code of 4 labels must be an array of 0 and 1"),
    ):
        with pytest.raises(ValueError, match=match):
            OutputCoding(**{"estimator": HMM()} | parameters).fit(X, y)
    many = [[f"{i}" for i in range(14)]]
    with pytest.raises(ValueError, match=r"an exhaustive code of 14 labels has 8.19e\+03 columns; use code='random'"):
        OutputCoding(HMM(), code="exhaustive").fit([np.zeros((14, 1))], many)


def test_a_file_whose_code_does_not_fit(tmp_path, monkeypatch):
    from seqboost.estimators import persistence

    OutputCoding(HMM(), code="one_vs_rest").fit(*chains(8)).save(tmp_path / "model")
    header, arrays = persistence.read_model(tmp_path / "model")
    monkeypatch.setattr(persistence, "read_model", lambda path: (header, {**arrays, "code": arrays["code"][:, :2]}))
    with pytest.raises(ValueError, match="the code of this model does not fit"):
        load(tmp_path / "model")


def test_few_validation_bits(monkeypatch):
    monkeypatch.setattr(outputcoding, "VALIDATION_BITS", 4)
    X, y = chains(30, n_labels=6)
    model = OutputCoding(HMM(), n_bits=10, cascade="auto", random_state=0).fit(X, y)
    assert set(model.cascade_scores_) == {0, 1, "all"}
    assert model.code_.shape == (6, 10)
