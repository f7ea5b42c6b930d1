"""remove_values: at random, at the rate asked for, whole variables, in every form of input."""

from contextlib import nullcontext

import numpy as np
import pytest
import scipy.sparse as sp

from seqboost import as_batch
from seqboost.datasets import remove_values
from seqboost.exceptions import InputTypeError, ParameterError


def flat(X):
    return [value for x in X for value in x]


def test_rate_seed_and_nesting():
    words = ["".join(chr(97 + (i * j) % 26) for j in range(40)) for i in range(1, 60)]
    low, high = (remove_values(words, rate, random_state=7) for rate in (0.1, 0.4))
    n = sum(map(len, words))
    for X, rate in ((low, 0.1), (high, 0.4)):
        removed = sum(value is None for value in flat(X))
        assert abs(removed - rate * n) < 4 * np.sqrt(n * rate * (1 - rate))
        assert all(value in (None, true) for value, true in zip(flat(X), "".join(words), strict=True))
    assert all(b is None for a, b in zip(flat(low), flat(high), strict=True) if a is None)
    assert remove_values(words, 0.4, random_state=7) == high
    assert remove_values(words, 0.4, random_state=8) != high
    assert remove_values(words, 0, random_state=0) == [list(word) for word in words]
    assert set(flat(remove_values(words, 1, random_state=0))) == {None}


def test_values_are_removed_whatever_they_are():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(5000, 3))]
    holes = np.isnan(remove_values(X, 0.3, random_state=1)[0])
    assert abs(np.corrcoef(holes[:, 0], X[0][:, 0])[0, 1]) < 0.05
    assert abs(np.corrcoef(holes[:, 0], holes[:, 1])[0, 1]) < 0.05
    assert abs(np.corrcoef(holes[1:, 0], holes[:-1, 0])[0, 1]) < 0.05


@pytest.mark.parametrize(
    "X",
    [
        [np.arange(60).reshape(20, 3), np.arange(9.0).reshape(3, 3)],
        [np.arange(40.0)],
        np.arange(80).reshape(40, 2),
        [np.array([["a", "b"], ["c", "d"]] * 10)],
        [list("abcdefghij") * 3],
        [[(i, str(i)) for i in range(30)]],
        [[[i, i + 1] for i in range(30)]],
        [[{"w": str(i), "n": i} for i in range(30)], [None, {"w": "a"}]],
        [[np.array([i, i]) for i in range(30)]],
    ],
    ids=["2-D", "1-D", "flat", "strings", "scalars", "tuples", "lists", "dicts", "rows"],
)
def test_every_form_stays_what_it_is(X):
    before = repr(X)
    damaged = remove_values(X, 0.5, random_state=0)
    assert repr(X) == before
    assert type(damaged) is type(X)
    assert len(damaged) == len(X)
    with pytest.warns(UserWarning, match="one 2-D table") if isinstance(X, np.ndarray) else nullcontext():
        one, two = as_batch(X), as_batch(damaged)
    assert one.offsets.tolist() == two.offsets.tolist()
    n_missing = np.isnan(two.numeric).sum() + (two.categorical < 0).sum()
    assert 0.2 < n_missing / (two.numeric.size + two.categorical.size) < 0.8


def test_columns_of_one_variable_go_together():
    X = [np.ones((200, 4))]
    holes = np.isnan(remove_values(X, 0.5, random_state=0, together=[[0, 2], [1, 3]])[0])
    assert (holes[:, 0] == holes[:, 2]).all()
    assert (holes[:, 1] == holes[:, 3]).all()
    assert (holes[:, 0] != holes[:, 1]).any()
    rows = remove_values([[{"a": 1, "b": 2, "c": 3}] * 50], 0.5, random_state=0, together=[["a", "c"], ["d"]])[0]
    assert all((row["a"] is None) == (row["c"] is None) for row in rows)
    assert any((row["a"] is None) != (row["b"] is None) for row in rows)


@pytest.mark.parametrize("kind", [sp.csr_array, sp.csr_matrix, sp.coo_array])
def test_sparse_values_are_missing_whether_stored_or_not(kind):
    dense = np.where(np.random.default_rng(0).random((200, 10)) < 0.2, 2.0, 0.0)
    damaged = remove_values([kind(dense)], 0.3, random_state=0)[0]
    values = damaged.toarray()
    holes = np.isnan(values)
    assert np.array_equal(values[~holes], dense[~holes])
    assert abs(holes[dense == 0].mean() - holes[dense != 0].mean()) < 0.1
    assert as_batch([damaged]).sparse.shape == (200, 10)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_tables_keep_their_sequence_column(library):
    module = pytest.importorskip(library)
    columns = {"id": [0] * 50 + [1] * 50, "kept": list(range(100)), "word": [*"abcde"] * 20, "x": [0.5] * 100}
    table = module.table(columns) if library == "pyarrow" else module.DataFrame(columns)
    damaged = remove_values(table, 0.5, random_state=0, sequence="id")
    assert type(damaged) is type(table)
    batch = as_batch(damaged, sequence="id")
    assert batch.lengths.tolist() == [50, 50]
    assert 0.3 < (np.isnan(batch.numeric).mean() + (batch.categorical < 0).mean()) / 2 < 0.7
    assert [column.kind for column in batch.schema.columns] == ["numeric", "categorical", "numeric"]
    with pytest.raises(ParameterError, match="sequence='no' is not a column of X; it has id, kept"):
        remove_values(table, 0.5, sequence="no")


def test_batches():
    batch = as_batch([[{"w": "ab"[i % 2], "n": i, "tag": True} for i in range(100)], [{"n": 3}]])
    damaged = remove_values(batch, 0.5, random_state=0)
    assert 0.3 < np.isnan(damaged.numeric).mean() < 0.7
    assert 0.3 < (damaged.categorical < 0).mean() < 0.7
    assert 0.3 < np.isnan(damaged.sparse.toarray()).mean() < 0.7
    together = remove_values(batch, 0.5, random_state=0, together=[["w", "n"]])
    assert np.array_equal(np.isnan(together.numeric)[:-1, 0], together.categorical[:-1, 0] < 0)


def test_refusals():
    for rate in (-0.1, 1.5, "half", True, np.nan):
        with pytest.raises(ParameterError, match="expected the share of values to remove, a number from 0 to 1"):
            remove_values(["abc"], rate)
    with pytest.raises(InputTypeError, match=r"X\[0\]\[1\] is a set.*Give the variables names"):
        remove_values([[{"a": 1}, {"b"}]], 0.5)
    with pytest.raises(InputTypeError, match="X is of type str"):
        remove_values("abc", 0.5)
    with pytest.raises(ParameterError, match="together names the column 9, which X does not have; it has 0, 1"):
        remove_values([np.ones((2, 2))], 0.5, together=[[0, 9]])
