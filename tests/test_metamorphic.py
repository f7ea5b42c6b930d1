"""The same sequences in another form: every change gives the same bits, or is refused by an error of seqboost."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier

from seqboost import (
    HMM,
    IOHMM,
    MEMM,
    FutureFeatureMEMM,
    LinearCRF,
    OutputCoding,
    RecurrentSlidingWindow,
    SlidingWindow,
    TreeCRF,
    VotedPerceptron,
    load,
)
from seqboost.exceptions import InputError, SeqboostError
from seqboost.files import Reading, read_sequences

REFUSED = "refused"
SMALL = {"max_iter": 5, "min_samples_leaf": 2, "max_leaf_nodes": 6, "random_state": 0}
TREES = SMALL | {"early_stopping": False}
WINDOWED = HistGradientBoostingClassifier(max_iter=3, min_samples_leaf=2, random_state=0)
CATEGORIES = {"categorical_features": ["code", "part"]}
POLICIES = ("direction", "impute", "impute_mean", "indicator", "instance_weighting", "surrogate")
LABELLERS = {
    **{policy: TreeCRF(missing=policy, sequence="who", **TREES, **CATEGORIES) for policy in POLICIES},
    "window": TreeCRF(window=2, max_bins=16, sequence="who", **TREES, **CATEGORIES),
    "factored": TreeCRF(potentials="factored", trees="per_label", sequence="who", **TREES, **CATEGORIES),
    "linear start": TreeCRF(init="linear", sequence="who", **TREES, **CATEGORIES),
    "early stopping": TreeCRF(sequence="who", **SMALL, **CATEGORIES),
    "MEMM": MEMM(sequence="who", **TREES, **CATEGORIES),
    "future": FutureFeatureMEMM(max_patterns=1, sequence="who", **SMALL, **CATEGORIES),
    "HMM": HMM(sequence="who"),
    "IOHMM": IOHMM(sequence="who", max_iter=3, random_state=0),
    "LinearCRF": LinearCRF(sequence="who", max_iter=5),
    "perceptron": VotedPerceptron(sequence="who", random_state=0),
    "sliding window": SlidingWindow(WINDOWED, sequence="who"),
    "recurrent": RecurrentSlidingWindow(WINDOWED, sequence="who"),
    "output coding": OutputCoding(TreeCRF(**TREES), sequence="who", random_state=0),
}


def recording(n, seed):
    """Return a table with columns of every kind, and its labels."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 14, n)
    hidden = np.concatenate([np.cumsum(rng.random(length) < 0.3) % 3 for length in lengths])
    rows = len(hidden)
    table = pd.DataFrame({
        "who": np.repeat([f"{seed}.{i}" for i in range(n)], lengths),
        "x": np.where(rng.random(rows) < 0.1, np.nan, rng.normal(size=rows) + hidden),
        "n": rng.integers(0, 5, rows) + hidden,
        "flag": rng.random(rows) < 0.3 + 0.2 * hidden,
        "word": np.where(rng.random(rows) < 0.1, None, np.array(list("pqrs"))[(rng.integers(0, 3, rows) + hidden) % 4]),
        "time": 1_700_000_000 + rng.integers(0, 300, rows) + 40 * hidden,
        "code": rng.choice([7, 8, 16_777_217, 16_777_219], rows),
        "part": np.array([0.1, 0.2, 1.5, 0.7])[(rng.integers(0, 2, rows) + hidden) % 4],
    })  # fmt: skip
    return table, np.array(["one", "two", "three"])[hidden]


TRAIN, LABELS = recording(30, 0)
TEST, _ = recording(12, 1)
IDS = TEST.who.drop_duplicates().tolist()
TURNS = np.lexsort((np.arange(len(TEST)), TEST.groupby("who").cumcount()))  # first positions first
INTS = ["n", "time", "code"]


def same(table):
    return table


def parts_of(table):
    return [part.drop(columns="who") for _, part in table.groupby("who", sort=False)]


def records(table):
    return [part.to_dict("records") for part in parts_of(table)]


def without_missing(table):
    return [[{k: v for k, v in row.items() if not pd.isna(v)} for row in part] for part in records(table)]


def numpy_scalars(table):
    return [[{key: part[key].iloc[t] for key in part} for t in range(len(part))] for part in parts_of(table)]


# How the table is changed, and whether it must come through (True), must be refused (REFUSED), or may be (None).
TABLES = {
    "columns in another order": (lambda t: t[t.columns[::-1]], True),
    "another column": (lambda t: t.assign(other=1.0), True),
    "index of strings": (lambda t: t.set_axis([f"r{i:05}" for i in range(len(t))]), True),
    "index that repeats": (lambda t: t.set_axis([0] * len(t)), True),
    "index of two levels": (lambda t: t.set_axis(pd.MultiIndex.from_arrays([t.who, range(len(t))])), True),
    "nullable": (lambda t: t.convert_dtypes(), True),
    "backed by pyarrow": (lambda t: t.convert_dtypes(dtype_backend="pyarrow"), True),
    "objects": (lambda t: t.astype(object), True),
    "polars": (pl.from_pandas, True),
    "lazy polars": (lambda t: pl.from_pandas(t).lazy(), True),
    "pyarrow": (lambda t: pa.Table.from_pandas(t, preserve_index=False), True),
    "int32": (lambda t: t.astype(dict.fromkeys(INTS, "int32")), True),
    "uint64": (lambda t: t.astype(dict.fromkeys(INTS, "uint64")), True),
    "int8": (lambda t: t.astype({"n": "int8"}), True),
    "whole numbers as floats": (lambda t: t.astype(dict.fromkeys(INTS, "float64")), True),
    "truth values as ints": (lambda t: t.astype({"flag": "int64"}), None),
    "float32": (lambda t: t.astype(dict.fromkeys(["x", "n"], "float32")), True),
    "float16": (lambda t: t.astype({"n": "float16"}), True),
    "categories as float32": (lambda t: t.astype({"part": "float32"}), True),
    "times as float32": (lambda t: t.astype({"time": "float32"}), REFUSED),
    "large categories as float32": (lambda t: t.astype({"code": "float32"}), None),
    "pandas' categories": (lambda t: t.astype({"word": "category", "who": "category"}), True),
    "pandas' categories of numbers": (lambda t: t.astype({"code": "category"}), None),
    "truth values as words": (lambda t: t.assign(flag=t.flag.astype(str)), REFUSED),
    "numbers as words": (lambda t: t.assign(n=t.n.astype(str)), REFUSED),
}  # fmt: skip
LISTS = {
    "tables": (parts_of, True),
    "tables of polars": (lambda t: [pl.from_pandas(part) for part in parts_of(t)], True),
    "dicts": (records, True),
    "dicts with keys in another order": (lambda t: records(t[t.columns[::-1]]), True),
    "dicts without missing values": (without_missing, True),
    "dicts of NumPy's scalars": (numpy_scalars, True),
    "dicts with float32": (lambda t: numpy_scalars(t.astype(dict.fromkeys(["x", "n"], "float32"))), True),
    "dicts with times as float32": (lambda t: numpy_scalars(t.astype({"time": "float32"})), REFUSED),
}


def answers(model, X):
    """Return what a labeller says of sequences, row by row in the order of the table, or REFUSED."""
    ask = model.predict if isinstance(model, VotedPerceptron) else model.predict_proba
    try:
        found = ask(X)
    except SeqboostError:
        return REFUSED
    return np.concatenate(found) if isinstance(found, list) else found


def assert_alike(found, expected, must, words):
    if must is REFUSED:
        assert found is REFUSED, f"{words}: not refused"
    elif must or found is not REFUSED:
        assert found is not REFUSED, f"{words}: refused"
        assert np.array_equal(found, expected), f"{words}: other answers"


@pytest.fixture(scope="module")
def fitted():
    models = {}

    def of(name):
        if name not in models:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message=".*keeps no round of boosting")
                models[name] = clone(LABELLERS[name]).fit(TRAIN, LABELS)
        return models[name]

    return of


@pytest.mark.parametrize("name", LABELLERS)
def test_forms_of_a_table(fitted, name):
    model = fitted(name)
    expected = answers(model, TEST)
    for words, (change, must) in (TABLES | LISTS).items():
        assert_alike(answers(model, change(TEST)), expected, must, words)


@pytest.mark.parametrize("name", LABELLERS)
def test_rows_and_pieces_of_a_table(fitted, name, tmp_path):
    model = fitted(name)
    expected = answers(model, TEST)
    mixed = answers(model, TEST.iloc[TURNS].reset_index(drop=True))
    assert np.array_equal(mixed, expected[TURNS])
    for size in (1, 5):
        pieces = [TEST[TEST.who.isin(IDS[i : i + size])] for i in range(0, len(IDS), size)]
        assert np.array_equal(np.concatenate([answers(model, piece) for piece in pieces]), expected)
    if "n_jobs" in model.get_params():
        for n_jobs in (2, None):
            model.set_params(n_jobs=n_jobs)
            assert np.array_equal(answers(model, TEST), expected)
    if name in ("sliding window", "recurrent"):  # they hold a model of scikit-learn, which is not saved
        return
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert np.array_equal(answers(loaded, TEST), expected)
    for words in ("float32", "times as float32", "categories as float32"):
        assert_alike(answers(loaded, TABLES[words][0](TEST)), expected, TABLES[words][1], words)


@pytest.mark.parametrize("name", ["direction", "indicator", "HMM", "LinearCRF"])
def test_files(fitted, name, tmp_path):
    model = fitted(name)
    expected = answers(model, TEST)
    TEST.to_parquet(tmp_path / "a.parquet", index=False)
    arrow = pa.Table.from_pandas(TEST, preserve_index=False)
    with pa.OSFile(str(tmp_path / "a.arrow"), "wb") as sink, pa.ipc.new_file(sink, arrow.schema) as writer:
        writer.write_table(arrow)
    TEST.to_csv(tmp_path / "a.csv", index=False)  # in which truth values are words
    TEST.astype({"flag": int}).to_csv(tmp_path / "b.csv", index=False)
    TABLES["float32"][0](TEST).to_parquet(tmp_path / "c.parquet", index=False)
    TABLES["times as float32"][0](TEST).to_parquet(tmp_path / "refused.parquet", index=False)
    for path in sorted(tmp_path.iterdir()):
        batch = read_sequences(path, Reading(sequence="who")).batch
        must = {"refused": REFUSED, "a.csv": None}.get(path.stem if path.stem == "refused" else path.name, True)
        assert_alike(answers(model, batch), expected, must, path.name)


# Of all changes that leave the values as they are, training may see any: the model is the same.
@pytest.mark.parametrize("name", ["direction", "impute_mean", "linear start", "HMM", "sliding window"])
def test_forms_of_a_table_in_training(fitted, name):
    expected = answers(fitted(name), TEST)
    names = ("index of strings", "index that repeats", "nullable", "backed by pyarrow", "polars", "pyarrow", "int32")
    for words in (*names, "whole numbers as floats", "pandas' categories"):
        model = clone(LABELLERS[name]).fit(TABLES[words][0](TRAIN), LABELS)
        assert np.array_equal(answers(model, TEST), expected), words
    turns = np.lexsort((np.arange(len(TRAIN)), TRAIN.groupby("who").cumcount()))
    model = clone(LABELLERS[name]).fit(TRAIN.iloc[turns].reset_index(drop=True), LABELS[turns])
    assert np.array_equal(answers(model, TEST), expected)


# ------------------------------------------------------------------------------------------------------------- arrays


def matrices(n=40, seed=0, n_columns=3):
    rng = np.random.default_rng(seed)
    y = [np.cumsum(rng.random(length) < 0.3) % 3 for length in rng.integers(1, 30, n)]
    X = [rng.normal(size=(len(labels), n_columns)) + 0.5 * labels[:, None] for labels in y]
    return X, y


ARRAYS = {
    "plain": TreeCRF(**TREES),
    "few bins": TreeCRF(max_bins=8, window=(1, 2), **TREES),
    "linear start": TreeCRF(init="linear", **TREES),
    "imputed": TreeCRF(missing="impute_mean", **TREES),
    "MEMM": MEMM(**TREES),
    "future": FutureFeatureMEMM(max_patterns=1, **SMALL),
    "HMM": HMM(),
    "IOHMM": IOHMM(max_iter=3, random_state=0),
    "LinearCRF": LinearCRF(max_iter=5),
    "sliding window": SlidingWindow(WINDOWED),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_precision_of_arrays(name):
    X, y = matrices()
    model = ARRAYS[name].fit(X, y)
    others = X + matrices(n=60, seed=1)[0]
    others += [np.full((2, 3), value) for value in (0.0, -0.0, 1e-40, 5e-324, -1e-46, np.nan)]
    if name != "HMM":  # whose densities end long before
        others += [np.full((2, 3), 3e38), np.array([[1e300, 0.0, 0.0]])]
    expected = answers(model, others)
    forms = {
        "float32": [x.astype(np.float32) if (np.abs(x) < 1e39).all() or np.isnan(x).any() else x for x in others],
        "Fortran order": [np.asfortranarray(x) for x in others],
        "lists": [x.tolist() for x in others],
        "rows of float32": [list(x.astype(np.float32)) for x in others[:100]],
        "objects": [x.astype(object) for x in others],
        "some float32": [x.astype(np.float32) if i % 2 else x for i, x in enumerate(others[:100])],
        "long double": [x.astype(np.longdouble) for x in others],
        "masked": [np.ma.masked_invalid(x) for x in others],
    }
    for words, form in forms.items():
        found = answers(model, form)
        assert_alike(found, expected[: len(found)], True, words)
    with np.errstate(over="ignore"):
        assert answers(model, [np.array([[1e300, 0.0, 0.0]]).astype(np.float32)]) is REFUSED


@pytest.mark.parametrize("name", ["plain", "few bins", "linear start", "imputed", "MEMM", "HMM", "sliding window"])
def test_a_model_of_exact_values_is_the_same_in_both_precisions(name):
    X, y = matrices()
    X = [np.where(np.abs(x) > 2.5, np.nan, x).astype(np.float32) for x in X]
    others, _ = matrices(n=10, seed=1)
    labeller = ARRAYS[name]
    single = answers(labeller.fit(X, y), others)
    double = answers(labeller.fit([x.astype(np.float64) for x in X], y), others)
    assert np.array_equal(single, double)


def test_many_values_and_few_bins_in_both_precisions():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 2)).cumsum(axis=0)
    y = (np.sin(X[:, 0]) + 0.3 * rng.normal(size=3000) > 0).astype(int)
    for max_bins in (255, 32, 2):
        model = TreeCRF(max_bins=max_bins, window=1, **TREES).fit([X[:1500], X[1500:]], [y[:1500], y[1500:]])
        assert np.array_equal(answers(model, [X]), answers(model, [X.astype(np.float32)]))
    flat = TreeCRF(**TREES)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X is one 2-D table of rows")
        flat.fit(X, y)
        assert np.array_equal(answers(flat, X), answers(flat, X.astype(np.float32)))


# ------------------------------------------------------------------------------------------------------ sparse, words


def test_sparse_rows():
    X, y = matrices(n_columns=6)
    X = [np.where(np.abs(x) < 0.8, 0.0, x) for x in X]
    model = TreeCRF(window=1, **TREES).fit([sp.csr_array(x) for x in X], y)
    others = [np.where(np.abs(x) < 0.8, 0.0, x) for x in matrices(n=20, seed=1, n_columns=6)[0]]
    expected = answers(model, [sp.csr_array(x) for x in others])
    forms = {
        "csc": [sp.csc_array(x) for x in others],
        "coo": [sp.coo_array(x) for x in others],
        "lil matrix": [sp.lil_matrix(x) for x in others],
        "float32": [sp.csr_array(x.astype(np.float32)) for x in others],
        "dense": others,
        "dense float32": [x.astype(np.float32) for x in others],
    }
    for words, form in forms.items():
        assert_alike(answers(model, form), expected, True, words)
    counts = [np.rint(x) for x in others]
    expected = answers(model, [sp.csr_array(x) for x in counts])
    for dtype in (np.int8, np.int32, np.int64, np.float32):
        assert np.array_equal(answers(model, [sp.csr_array(x.astype(dtype)) for x in counts]), expected), dtype


def test_sparse_times():
    rng = np.random.default_rng(0)
    X = [np.column_stack([1.7e9 + rng.integers(0, 99, 8), rng.normal(size=8)]) for _ in range(20)]
    y = [(x[:, 0] % 99 > 50).astype(int) for x in X]
    model = TreeCRF(**TREES).fit([sp.csr_array(x) for x in X], y)
    expected = answers(model, [sp.csr_array(x) for x in X])
    assert np.array_equal(answers(model, X), expected)
    words = "Column 'x0' needs float64: .*sequence 0, position 0 holds 1700000128.0, which may be any number from"
    for form in ([sp.csr_array(x.astype(np.float32)) for x in X], [x.astype(np.float32) for x in X]):
        with pytest.raises(InputError, match=words):
            model.predict(form)


def test_bags_and_words():
    rng = np.random.default_rng(0)
    drawn = [rng.integers(0, 6, (int(length), 3)) for length in rng.integers(2, 12, 30)]
    y = [(rows.sum(axis=1) > 7).astype(int) for rows in drawn]
    bags = [[[f"w{i}" for i in row] for row in rows] for rows in drawn]
    model = TreeCRF(window=1, **TREES).fit(bags, y)
    expected = answers(model, bags)
    forms = {
        "other order": [[row[::-1] for row in rows] for rows in bags],
        "sets": [[set(row) for row in rows] for rows in bags],
        "dicts": [[dict.fromkeys(row, True) for row in rows] for rows in bags],
        "dicts of ones": [[dict.fromkeys(row[::-1], 1.0) for row in rows] for rows in bags],
        "dicts of NumPy's ones": [[dict.fromkeys(row, np.float32(1)) for row in rows] for rows in bags],
    }
    for words, form in forms.items():
        assert_alike(answers(model, form), expected, True, words)
    assert np.array_equal(np.concatenate([answers(model, [rows]) for rows in bags]), expected)
    letters = ["".join("abcdef"[i] for i in rows[:, 0]) for rows in drawn]
    model = TreeCRF(window=1, **TREES).fit(letters, y)
    expected = answers(model, letters)
    for words, form in {
        "lists": [list(word) for word in letters],
        "arrays": [np.array(list(word)) for word in letters],
        "objects": [np.array(list(word), dtype=object) for word in letters],
        "series": [pd.Series(list(word), dtype="category") for word in letters],
    }.items():
        assert_alike(answers(model, form), expected, True, words)


def test_categories_that_are_fractions():
    rng = np.random.default_rng(0)
    X = [rng.choice([0.1, 0.25, 1 / 3, 2.0], (int(length), 1)) for length in rng.integers(2, 12, 30)]
    y = [(x[:, 0] > 0.3).astype(int) for x in X]
    single = [x.astype(np.float32) for x in X]
    for kind, (train, other) in itertools.product(
        (TreeCRF(categorical_features=[0], **TREES), TreeCRF(categorical_features=[0], init="linear", **TREES)),
        ((X, single), (single, X)),
    ):
        model = kind.fit(train, y)
        assert model.score(train, y) == 1.0
        assert np.array_equal(answers(model, other), answers(model, train))
    near = [np.where(x == 0.25, 0.1 + 1e-12, x) for x in X]
    model = TreeCRF(categorical_features=[0], **TREES).fit(near, y)
    assert answers(model, [x.astype(np.float32) for x in near]) is REFUSED
    large = [np.where(x < 0.3, 1.0, 16_777_217.0) for x in X]
    model = TreeCRF(categorical_features=[0], **TREES).fit(large, y)
    words = "Column 'x0' holds categories as float32, .* beyond 16,777,216 apart: sequence 0, position 0 holds 16777218"
    with pytest.raises(InputError, match=words):
        model.predict([np.array([[16_777_218.0]], dtype=np.float32)])


@pytest.mark.parametrize("name", ["direction", "indicator", "HMM", "LinearCRF"])
def test_models_of_dicts(name):
    y = [LABELS[TRAIN.who == who].tolist() for who in TRAIN.who.unique()]
    model = clone(LABELLERS[name]).set_params(sequence=None).fit(records(TRAIN), y)
    expected = answers(model, records(TEST))
    turned = [
        [dict([*row.items()][t % 7 :] + [*row.items()][: t % 7]) for t, row in enumerate(part)]
        for part in records(TEST)
    ]
    assert_alike(answers(model, turned), expected, True, "keys of each position in another order")
    for words, (change, must) in LISTS.items():
        assert_alike(answers(model, change(TEST)), expected, must, words)
    pieces = [answers(model, [part]) for part in records(TEST)]
    assert np.array_equal(np.concatenate(pieces), expected)
