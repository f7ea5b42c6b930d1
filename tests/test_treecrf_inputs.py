"""Every form of input through TreeCRF, end to end, and answers that agree with one another."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from treecrf_data import all_equal, chains, labellings, small

from seqboost import TreeCRF, as_batch

LENGTHS = (3, 1, 4, 2)
LETTERS = ["uvu", "v", "uuvv", "vu"]
TARGETS = ["010", "1", "0011", "10"]


def split(rows):
    """Cut rows into sequences of the test's lengths."""
    ends = np.cumsum(LENGTHS).tolist()
    return [rows[end - length : end] for end, length in zip(ends, LENGTHS, strict=True)]


def forms():
    """Return the same sequences in every form; u = 0, v = 1, and the label is v."""
    codes = np.array([letter == "v" for letter in "".join(LETTERS)], dtype=float)
    dicts = [[{"letter": letter, "odd": letter == "v"} for letter in word] for word in LETTERS]
    return {
        "arrays": split(codes[:, None]),
        "3-D array": np.array([[[0.0], [1.0]], [[1.0], [0.0]]]),
        "dicts": dicts,
        "numbers": [codes.tolist() for codes in split(codes)],
        "letters": [list(word) for word in LETTERS],
        "strings": LETTERS,
        "tuples": [[(letter, 1.0) for letter in word] for word in LETTERS],
        "sets": [[{letter, "bias"} for letter in word] for word in LETTERS],
        "sparse": split(sp.csr_array(np.column_stack([codes, 1 - codes, np.ones_like(codes)]))),
        "tables": [pd.DataFrame({"letter": list(word)}) for word in LETTERS],
        "iterator": LETTERS,
    }


@pytest.mark.parametrize("form", forms())
@pytest.mark.parametrize("potentials", ["joint", "factored"])
def test_every_form_of_sequences(form, potentials):
    X = forms()[form]
    y = ["01", "10"] if form == "3-D array" else TARGETS
    lengths = [len(labels) for labels in y]
    model = small(window=1, potentials=potentials).fit(iter(X) if form == "iterator" else X, y)
    predicted = model.predict(X)
    assert ["".join(labels) for labels in predicted] == y
    assert model.score(X, y) == 1.0
    probabilities = model.predict_proba(X)
    assert [p.shape for p in probabilities] == [(length, 2) for length in lengths]
    assert all(np.allclose(p.sum(axis=1), 1, atol=1e-5) for p in probabilities)
    assert [labels.shape for labels in predicted] == [(length,) for length in lengths]
    assert [len(best) for best in model.predict_kbest(X, 2)] == [2] * len(y)
    assert model.log_prob(X, y).shape == (len(y),)
    batch = as_batch(X)
    assert all_equal(small(window=1, potentials=potentials).fit(batch, y).predict_proba(batch), probabilities)


def table_of(kind):
    data = {
        "series": ["s", "t", "s", "t", "s", "r"],  # rows of sequences interleaved
        "size": [0.0, 1.0, 1.0, 0.0, 0.0, 1.0],
        "kind": ["u", "v", "v", "u", "u", "v"],
    }
    return {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}[kind](data), list("011001")


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_one_table_with_a_sequence_column(kind):
    table, labels = table_of(kind)
    model = small(sequence="series").fit(table, labels)
    predicted = model.predict(table)
    assert isinstance(predicted, np.ndarray)
    assert predicted.tolist() == labels  # in the order of the table's rows
    assert model.predict_proba(table).shape == (6, 2)
    assert model.predict_marginals(table).shape == (6, 2, 2)
    assert model.score(table, labels) == 1.0
    assert model.log_prob(table, labels).shape == (3,)  # a number per sequence, in order of appearance
    rows = [[{"size": 0.0, "kind": "u"}, {"size": 1.0, "kind": "v"}, {"size": 0.0, "kind": "u"}]]
    assert np.allclose(model.predict_proba(rows)[0], model.predict_proba(table)[[0, 2, 4]])
    shuffled = table.iloc[[5, 0, 1, 2, 3, 4]] if kind == "pandas" else table
    if kind == "pandas":
        assert np.allclose(model.predict_proba(shuffled)[1:], model.predict_proba(table)[:-1])


def test_labels_of_a_table_as_column_or_by_sequence():
    table, labels = table_of("pandas")
    expected = small(sequence="series").fit(table, labels).predict_proba(table)
    series = pd.Series(labels)
    by_sequence = [["0", "1", "0"], ["1", "0"], ["1"]]
    frame = pd.DataFrame({"label": labels})
    for y in (series, np.array(labels), pl.Series(labels), pa.chunked_array([labels]), by_sequence):
        assert np.array_equal(small(sequence="series").fit(table, y).predict_proba(table), expected)
    with pytest.warns(Warning, match="column-vector y"):
        found = small(sequence="series").fit(table, frame).predict_proba(table)
    assert np.array_equal(found, expected)


def test_columns_of_a_table_are_found_by_name():
    table, labels = table_of("pandas")
    model = small(sequence="series").fit(table, labels)
    turned = table[["kind", "series", "size"]].assign(other=3)
    assert np.array_equal(model.predict_proba(turned), model.predict_proba(table))


@pytest.mark.parametrize("y", [[["a", None, "b"]], [np.array(["a", np.nan, "b"], dtype=object)], [["a", pd.NA, "b"]]])
def test_unobserved_labels_are_summed_over(y):
    X = [np.array([[0.0], [5.0], [9.0]])]
    model = small().fit(X, y)
    assert model.classes_.tolist() == ["a", "b"]
    total = np.logaddexp(*model.log_prob(X * 2, [["a", "a", "b"], ["a", "b", "b"]]))
    assert model.log_prob(X, y)[0] == pytest.approx(total)
    assert model.score(X, y) == 1.0  # the unobserved position does not count
    assert model.log_prob(X, [[None] * 3])[0] == pytest.approx(0.0, abs=1e-6)
    assert model.history_["train_score"][-1] == pytest.approx(total / 2)  # per observed position


def test_unobserved_numbers():
    X, _ = chains(6, seed=1)
    y = [np.where(np.arange(len(x)) % 3 == 1, np.nan, np.arange(len(x)) % 2) for x in X]
    model = small().fit(X, y)
    assert model.classes_.tolist() == [0.0, 1.0]
    assert model.predict(X)[0].dtype == float


def test_sequences_without_any_label_change_nothing():
    X, y = chains(6)
    model = small(min_samples_leaf=3).fit(X, y)
    more = small(min_samples_leaf=3).fit([X[0] * 10, *X, X[1] - 5], [[None] * len(y[0]), *y, [None] * len(y[1])])
    assert all_equal(model.predict_proba(X), more.predict_proba(X))


def test_unlabelled_sequences_are_not_held_out():
    X, y = chains(6)
    blank = [[None] * len(labels) for labels in y]
    model = small(early_stopping=True, n_iter_no_change=3).fit(X * 10, y + blank * 9)
    assert model.best_iteration_ > 0


def test_weight_zero_is_absence():
    X, y = chains(12)
    kept = [i for i in range(12) if i not in (0, 3)]
    model = small().fit([X[i] for i in kept], [y[i] for i in kept])
    weighted = small().fit(X, y, sample_weight=np.isin(np.arange(12), kept))
    assert weighted.classes_.tolist() == model.classes_.tolist() == ["a", "b", "c"]
    assert all_equal(weighted.predict_proba(X), model.predict_proba(X))


def test_score_with_weights():
    X, y = chains(5)
    model = small(max_iter=1).fit(X[:2], y[:2])
    right = [np.mean(labels == np.array(truth)) for labels, truth in zip(model.predict(X), y, strict=True)]
    lengths = np.array([len(labels) for labels in y])
    weights = np.array([1.0, 0, 3, 0.5, 2])
    assert model.score(X, y, sample_weight=weights) == pytest.approx(np.average(right, weights=weights * lengths))


def test_score_warns_if_no_label_is_known():
    X, y = chains(5)
    model = small(max_iter=1).fit(X, [[ord(label) for label in labels] for labels in y])
    match = r"no label of y is one that TreeCRF was trained with, .* it knows 97, 98, 99 \(int\). Pass labels"
    with pytest.warns(UserWarning, match=match):
        assert model.score(X, [[None, *labels[1:]] for labels in y]) == 0.0
    some = [[97, *labels[1:]] for labels in y]
    assert 0 <= model.score(X, some) < 1  # unknown labels beside known ones are wrong, and that is all


def test_class_weights_multiply_the_odds_of_independent_positions():
    rng = np.random.default_rng(0)
    X = [rng.integers(2, size=(1, 1)).astype(float) for _ in range(200)]
    y = [["rare" if rng.random() < 0.1 + 0.2 * x[0, 0] else "often"] for x in X]
    plain = small(max_iter=30, order=0).fit(X, y).predict_proba(X)
    heavy = small(max_iter=30, order=0, class_weight={"rare": 5.0}).fit(X, y).predict_proba(X)
    odds = [np.array([p[0, 1] / p[0, 0] for p in probabilities]) for probabilities in (plain, heavy)]
    assert np.allclose(odds[1], 5 * odds[0], rtol=0.05)
    start = [small(max_iter=1, order=0, learning_rate=1e-9, class_weight=weights).fit(X, y).predict_proba(X)[0][0]
             for weights in (None, {"rare": 5.0})]  # fmt: skip
    assert start[1][1] / start[1][0] == pytest.approx(5 * start[0][1] / start[0][0], rel=1e-4)
    n_rare = sum(labels == ["rare"] for labels in y)
    by_hand = {"rare": 200 / (2 * n_rare), "often": 200 / (2 * (200 - n_rare))}
    balanced = small(order=0, class_weight="balanced").fit(X, y).predict_proba(X)
    assert all_equal(balanced, small(order=0, class_weight=by_hand).fit(X, y).predict_proba(X))


def test_categories():
    words = [list("uvwu"), list("wwvu")]
    labels = ["0110", "1110"]
    model = small(order=0, window=0, learning_rate=0.5).fit(words, labels)
    assert ["".join(found) for found in model.predict(words)] == labels
    unseen = model.predict_proba([["never", None, "u"]])[0]
    assert np.isfinite(unseen).all()
    numbers = [[[ord(c)] for c in word] for word in words]
    as_categories = small(order=0, window=0, learning_rate=0.5, categorical_features=[0]).fit(numbers, labels)
    assert np.allclose(np.concatenate(as_categories.predict_proba(numbers)), np.concatenate(model.predict_proba(words)))
    single = small(order=0, window=0, learning_rate=0.5, categorical_splits="one_vs_rest").fit(words, labels)
    assert ["".join(found) for found in single.predict(words)] == labels


def test_more_categories_than_a_byte_holds():
    names = [f"w{i}" for i in range(300)]
    X = [names[i : i + 6] for i in range(0, 300, 6)] * 6  # words seen fewer than 5 times are not divided
    y = [[str(int(name[1:]) % 2) for name in sequence] for sequence in X]
    model = small(order=0, max_iter=5, learning_rate=1.0, potentials="factored").fit(X, y)
    assert model.score(X, y) == 1.0
    assert np.isfinite(model.predict_proba([["w1", "never", None]])[0]).all()


def test_a_column_without_a_single_value():
    X, y = chains(6)
    empty = [np.column_stack([x, np.full(len(x), np.nan)]) for x in X]
    model = small().fit(empty, y)
    assert all_equal(model.predict_proba(empty), small().fit(X, y).predict_proba(X))
    assert np.isfinite(model.predict_proba([np.ones((2, 3))])[0]).all()


def test_missing_values_may_tell():
    X = [np.array([[np.nan], [1.0], [np.nan], [2.0]]), np.array([[3.0], [np.nan]])]
    y = ["1010", "01"]
    assert small(order=0).fit(X, y).score(X, y) == 1.0


@pytest.mark.parametrize("n_keys", [200, 300])
def test_a_key_with_the_value_zero_may_tell(n_keys, tmp_path):
    rng = np.random.default_rng(0)
    rows = [{f"k{i}": float(rng.normal())} for i in range(n_keys) for _ in range(3)]
    chosen = rng.random(len(rows)) < 0.06  # rare enough for the sparse part
    for row, seen in zip(rows, chosen, strict=True):
        if seen:
            row["event"] = float(rng.choice([0.0, 0.0, 1.0, -1.0]))
    labels = ["yes" if row.get("event") == 0 else "no" for row in rows]
    model = small(order=0, window=0, init="labels", learning_rate=1.0).fit([rows], [labels])
    assert ("event" in model._schema.sparse_names) == (n_keys == 300)
    assert model.score([rows], [labels]) == 1.0
    model.save(tmp_path / "model")
    for same in (model, TreeCRF.load(tmp_path / "model")):
        assert same.predict([[{"event": 0.0}, {}, {"event": None}, {"event": 1}]])[0].tolist() == ["yes"] + ["no"] * 3


@pytest.mark.parametrize(
    ("labels", "kind"),
    [([0, 1, 2], "i"), ([0.0, 1.0, 2.0], "f"), ([True, False, True], "b"), (["x", "yy", "zzz"], "U"),
     ([("a", 1), ("b", 2), ("a", 1)], "O"), ([1, "a", ("t",)], "O"), (["None", "nan", ""], "U"),
     ([10**30, 10**31, 10**30], "O"), ([np.int64(3), np.int64(4), np.int64(3)], "i"), ([True, 0, 2], "O")],
    ids=str,
)  # fmt: skip
def test_labels_of_any_hashable_kind(labels, kind, tmp_path):
    X = [[0.0, 5.0, 9.0]]
    model = small(order=0, max_iter=10, learning_rate=1.0).fit(X, [labels])
    assert model.classes_.dtype.kind == kind
    predicted = model.predict(X)[0]
    assert predicted.dtype.kind == kind
    assert predicted.tolist() == labels
    assert [type(label) for label in predicted.tolist()] == [type(np.asarray(v).item()) if kind in "iufb" else type(v)
                                                             for v in labels]  # fmt: skip
    model.save(tmp_path / "model")
    again = TreeCRF.load(tmp_path / "model")
    assert again.classes_.dtype == model.classes_.dtype
    assert again.predict(X)[0].tolist() == labels


VALUES = {
    "number": [0.0, -0.0, 1, 2.5, None, float("nan"), True, False, 2**40 + 1],
    "indicator": [True, 1, 1.0, None, float("nan")],
    "truth": [True, False, None],
    "word": ["u", "v", "", "nan", None],
    "list": [["p"], ["p", "q"], [], "q", None, {"r"}, ("p", "r")],
    **{f"rare{i}": [0.0, 1.0, -1.5, None] for i in range(300)},
}


@st.composite
def positions(draw):
    """Draw a dict of values of any kind, most of them of a few keys."""
    keys = draw(st.sets(st.sampled_from(list(VALUES)[:5]), max_size=5) | st.sets(st.sampled_from(list(VALUES))))
    return {key: draw(st.sampled_from(VALUES[key])) for key in sorted(keys)}


@pytest.fixture(scope="module")
def model_of_dicts():
    rng = np.random.default_rng(0)
    rows = [{key: VALUES[key][int(rng.integers(len(VALUES[key])))] for key in [*list(VALUES)[:5], f"rare{i % 300}"]
             if rng.random() < 0.7} for i in range(1500)]  # fmt: skip
    labels = ["n" if "indicator" in row and row["indicator"] != 1 else "r" if len(row) > 5 else "o" for row in rows]
    X, y = [rows[i : i + 5] for i in range(0, 1500, 5)], [labels[i : i + 5] for i in range(0, 1500, 5)]
    model = small(max_iter=10, learning_rate=0.5).fit(X, y)
    assert {"indicator", "list=p", "rare7"} <= set(model._schema.sparse_names)
    return model


@given(st.lists(st.lists(positions(), min_size=1, max_size=3), min_size=1, max_size=4))
@settings(max_examples=60, deadline=None)
def test_a_sequence_has_the_same_answer_alone_and_in_company(model_of_dicts, X):
    alone = [model_of_dicts.predict_proba([sequence])[0] for sequence in X]
    assert all_equal(model_of_dicts.predict_proba(X), alone)


@pytest.mark.parametrize("other", [True, False, None, 1])
def test_a_missing_indicator_tells_the_same_beside_any_other(other):
    rng = np.random.default_rng(0)
    kinds = rng.integers(3, size=(20, 6))
    X = [[[{"a": True}, {"a": None}, {}][k] | {"b": float(rng.normal())} for k in row] for row in kinds]
    model = small(window=0).fit(X, [["TMO"[k] for k in row] for row in kinds])
    assert model.predict([[{"a": None, "b": 0.0}], [{"a": other, "b": 0.0}]])[0].tolist() == ["M"]


def test_predicting_positions_without_features():
    dicts = small(order=0).fit([[{"w": "u", "f": True}, {"w": "v"}, {}, {"w": "u"}]], ["abca"])
    sets = small(order=0).fit([[{"u", "f"}, {"v"}, set(), {"u"}]], ["abca"])
    for model, rich in ((dicts, {"w": "u"}), (sets, {"u"})):
        wanted = model.predict_proba([[rich], [type(rich)()]])[1]
        for nothing in ({}, None, set(), []):
            assert np.array_equal(model.predict_proba([[nothing]])[0], wanted)


@pytest.mark.parametrize("names", [{"w", "v"}, frozenset(["w"]), {0}, pd.Index(["w"]), np.array(["w"]), range(1)])
def test_any_container_of_names_is_saved(names, tmp_path):
    X = [[{"w": 1, "v": 2}, {"w": 2, "v": 2}, {"w": 3, "v": 1}]]
    model = small(order=0, categorical_features=names).fit(X, ["aba"])
    model.save(tmp_path / "model")
    again = TreeCRF.load(tmp_path / "model")
    assert sorted(again.categorical_features) == sorted(names)
    assert all_equal(again.predict_proba(X), model.predict_proba(X))


def test_numpy_scalars_inside_labels_are_saved(tmp_path):
    labels = [("a", np.int64(1)), ("b", np.float32(2)), ("a", np.int64(1))]
    model = small(order=0, max_iter=10, learning_rate=1.0).fit([[0.0, 5.0, 1.0]], [labels])
    model.save(tmp_path / "model")
    assert TreeCRF.load(tmp_path / "model").predict([[0.0, 5.0, 1.0]])[0].tolist() == labels


@st.composite
def batches(draw):
    """Draw ragged batches with labels, some of them unobserved, and the parameters of a model."""
    lengths = draw(st.lists(st.integers(1, 4), min_size=1, max_size=6))
    n_labels = draw(st.integers(2, 3))
    seed = draw(st.integers(0, 2**16))
    order = draw(st.integers(0, 3))
    potentials = draw(st.sampled_from(["joint", "factored"]))
    rng = np.random.default_rng(seed)
    X = [np.where(rng.random((length, 2)) < 0.1, np.nan, rng.normal(size=(length, 2)).round(1)) for length in lengths]
    y = [rng.integers(n_labels, size=length).astype(object) for length in lengths]
    for labels in y:
        labels[rng.random(len(labels)) < 0.2] = None
    if len({label for label in itertools.chain(*y) if label is not None}) < 2:
        y[0] = np.array([0] * lengths[0], dtype=object)
        X.append(np.zeros((1, 2)))
        y.append(np.array([1], dtype=object))
    window = draw(st.sampled_from([0, 1, (2, 0), [-1, 1]]))
    return X, y, {"order": order, "potentials": potentials, "window": window, "max_iter": 2}


@pytest.mark.filterwarnings("ignore:TreeCRF keeps no round of boosting")  # there may be nothing to learn
@settings(max_examples=25, deadline=None)
@given(batches())
def test_answers_agree_with_enumeration(drawn):
    X, y, parameters = drawn
    model = small(**parameters).fit(X, y)
    lengths = [len(x) for x in X]
    n_labels, order = len(model.classes_), parameters["order"]
    assert [len(labels) for labels in model.predict(X)] == lengths
    probabilities, marginals = model.predict_proba(X), model.predict_marginals(X)
    kbest = model.predict_kbest(X, 7)
    for i, (x, length) in enumerate(zip(X, lengths, strict=True)):
        assert probabilities[i].shape == (length, n_labels)
        assert marginals[i].shape == (length, n_labels**order, n_labels)
        assert np.allclose(marginals[i].sum(axis=1), probabilities[i], atol=1e-5)
        assert np.allclose(probabilities[i].sum(axis=1), 1, atol=1e-5)
        paths = labellings(model.classes_, length)
        log_p = model.log_prob([x] * len(paths), paths)
        p = np.exp(log_p)
        assert p.sum() == pytest.approx(1, abs=1e-5)
        codes = np.searchsorted(model.classes_, np.array(paths))
        by_hand = np.array([[p[codes[:, t] == k].sum() for k in range(n_labels)] for t in range(length)])
        assert np.allclose(probabilities[i], by_hand, atol=1e-5)
        assert np.all(marginals[i] >= 0)
        for t in range(length):
            context = sum(codes[:, t - lag] * n_labels ** (lag - 1) for lag in range(1, min(t, order) + 1))
            pair = np.bincount(context * n_labels + codes[:, t], weights=p, minlength=n_labels ** (order + 1))
            assert np.allclose(marginals[i][t].ravel(), pair, atol=1e-5)
        scores = [score for _, score in kbest[i]]
        assert scores == sorted(scores, reverse=True)
        assert np.allclose(scores, np.sort(log_p)[::-1][:7], atol=1e-5)
        assert len({tuple(labels.tolist()) for labels, _ in kbest[i]}) == min(7, len(paths)) == len(scores)
        assert np.allclose(scores, model.log_prob([x] * len(scores), [labels for labels, _ in kbest[i]]), atol=1e-5)


@pytest.mark.parametrize("potentials", ["joint", "factored"])
@pytest.mark.parametrize("order", [1, 2, 3])
def test_viterbi_is_the_best_and_posterior_the_likeliest(potentials, order):
    X, y = chains(8, lengths=(1, 6))
    model = small(order=order, potentials=potentials).fit(X, y)
    assert model.potentials_ == potentials
    best = [found[0][0] for found in model.predict_kbest(X, 1)]
    likeliest = [model.classes_[p.argmax(axis=1)] for p in model.predict_proba(X)]
    assert all_equal(model.predict(X), likeliest)
    assert all_equal(model.set_params(decoding="viterbi").predict(X), best)


def allowed_only(model, sequences, allowed):
    return all(allowed[model.classes_.tolist().index(a), model.classes_.tolist().index(b)]
               for labels in sequences for a, b in itertools.pairwise(labels.tolist()))  # fmt: skip


@pytest.mark.parametrize("potentials", ["joint", "factored"])
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("transitions", ["seen", "matrix"])
def test_no_forbidden_transition_is_predicted(potentials, order, transitions):
    rng = np.random.default_rng(3)
    allowed = np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1]], dtype=bool)  # round and round: a b c a
    y = []
    for _ in range(10):
        labels = [int(rng.integers(3))]
        while len(labels) < 6:
            labels.append(int(rng.choice(np.flatnonzero(allowed[labels[-1]]))))
        y.append(labels)
    X = [np.array(labels)[:, None] + rng.normal(size=(6, 1)) for labels in y]
    model = small(
        order=order, potentials=potentials, transitions="seen" if transitions == "seen" else allowed, learning_rate=1.0
    ).fit(X, y)
    noise = [rng.normal(size=(20, 1)) * 4 for _ in range(20)]
    free = [model.classes_[p.argmax(axis=1)] for p in model.predict_proba(noise)]
    assert not allowed_only(model, free, allowed)  # the constraint has something to do
    for decoding in ("posterior", "viterbi"):
        assert allowed_only(model.set_params(decoding=decoding), model.predict(noise), allowed)
    assert allowed_only(model, [path for found in model.predict_kbest(noise, 4) for path, _ in found], allowed)
    assert model.log_prob([np.zeros((2, 1))] * 2, [[0, 2], [0, None]])[0] == -np.inf
    pairs = [model.log_prob([np.zeros((2, 1))], [[a, b]])[0] for a in range(3) for b in range(3)]
    assert np.exp(pairs).sum() == pytest.approx(1, abs=1e-5)


def test_posterior_decoding_under_constraints_expects_the_most_correct_labels():
    rng = np.random.default_rng(0)
    y = [[0, 0, 1, 2], [1, 2, 0, 0], [0, 1, 2, 2], [1, 2, 2, 0]]
    X = [np.array(labels)[:, None] + rng.normal(size=(4, 1)) for labels in y]
    model = small(transitions="seen", learning_rate=1.0).fit(X, y)
    noise = [rng.normal(size=(5, 1)) * 3 for _ in range(10)]
    for x, found, p in zip(noise, model.predict(noise), model.predict_proba(noise), strict=True):
        paths = np.array(labellings(model.classes_, 5))
        possible = np.isfinite(model.log_prob([x] * len(paths), paths))
        expected = np.array([p[np.arange(5), path].sum() for path in paths])
        assert p[np.arange(5), found].sum() == pytest.approx(expected[possible].max(), abs=1e-5)
        assert possible[paths.tolist().index(found.tolist())]
        assert 1 < possible.sum() < len(paths)


@pytest.mark.parametrize("decoding", ["posterior", "viterbi"])
def test_a_scheme_of_chunks(decoding):
    X = ["xyyzxz", "zxyxyy", "xz"]
    y = [["B-N", "I-N", "I-N", "O", "B-N", "O"], ["O", "B-N", "I-N", "B-V", "I-V", "I-V"], ["B-V", "O"]]
    model = small(transitions="IOB2", decoding=decoding, window=1).fit(X, y)
    rng = np.random.default_rng(0)
    noise = ["".join(rng.choice(list("xyz"), 12)) for _ in range(20)]
    for labels in model.predict(noise):
        for before, label in zip(["O", *labels[:-1]], labels, strict=True):
            assert not label.startswith("I") or before[1:] == label[1:]


@pytest.mark.parametrize("potentials", ["joint", "factored"])
@pytest.mark.parametrize("order", [1, 2])
def test_a_wide_beam_is_exact_and_a_narrow_one_still_answers(potentials, order):
    X, y = chains(6, lengths=(2, 9))
    model = small(order=order, potentials=potentials).fit(X, y)
    exact, labels = model.predict_proba(X), model.predict(X)
    assert all_equal(model.predict_proba(X, beam=3**order), exact)
    assert all_equal(model.predict(X, beam=3**order), labels)
    narrow = model.predict_proba(X, beam=1)
    assert [p.shape for p in narrow] == [p.shape for p in exact]
    assert all(np.allclose(p.sum(axis=1), 1, atol=1e-5) for p in narrow)
    assert [len(found) for found in model.set_params(decoding="viterbi").predict(X, beam=1)] == [
        len(found) for found in labels
    ]


def test_auto_is_joint_for_few_labels_and_factored_for_many():
    X, y = chains(6)
    assert small(max_iter=1).fit(X, y).potentials_ == "joint"
    many = [[f"l{(7 * i + t) % 30}" for t in range(6)] for i in range(30)]
    model = small(max_iter=2, window=1).fit([[[t] for t in range(6)]] * 30, many)
    assert model.potentials_ == "factored"
    assert len(model.classes_) == 30
    assert model.predict_proba([[[0.0]]])[0].shape == (1, 30)


def test_windows_see_neighbours_and_the_boundary():
    rng = np.random.default_rng(0)
    X = [rng.integers(2, size=(12, 1)).astype(float) for _ in range(8)]
    y = [np.concatenate([[2], x[:-1, 0].astype(int)]) for x in X]  # the label is the value before; 2 at the start
    assert small(window=[-1], order=0, learning_rate=1.0, max_iter=10).fit(X, y).score(X, y) == 1.0
    assert small(window=[1], order=0, learning_rate=1.0, max_iter=10).fit(X, y).score(X, y) < 0.9


def test_a_thousand_columns_and_a_long_sequence():
    rng = np.random.default_rng(0)
    wide = [rng.normal(size=(3, 1000)) for _ in range(3)]
    assert small(max_iter=2).fit(wide, ["aba", "bab", "abb"]).n_features_in_ == 1000
    labels = np.repeat(rng.integers(2, size=2000), 100)
    long = [labels[:, None] + rng.normal(size=(200_000, 1))]
    model = small(max_iter=2, max_bins=16).fit(long, [labels])
    assert np.isfinite(model.log_prob(long, [labels])).all()
    assert model.score(long, [labels]) > 0.7
    assert model.set_params(decoding="viterbi").predict(long)[0].shape == (200_000,)
