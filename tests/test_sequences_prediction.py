"""What is read of a position at prediction depends on the position and on training, not on the positions beside it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from seqboost.exceptions import InputError
from seqboost.sequences import as_batch


def stored(batch, name):
    """Return rows and values of a sparse column."""
    column = batch.sparse[:, [batch.schema.sparse_names.index(name)]].tocoo()
    return dict(zip(column.coords[0].tolist(), column.data.tolist(), strict=True))


INDICATOR = as_batch([[{"a": True, "b": 0.5}, {"a": None, "b": 1.5}, {"b": 2.5}]]).schema
RARE = as_batch([[{f"k{i}": v, "all": i + v} for i in range(300) for v in (0.0, -2.5, 7.0)]]).schema


@pytest.mark.parametrize(("schema", "name"), [(INDICATOR, "a"), (RARE, "k7")], ids=["indicator", "rare number"])
@pytest.mark.parametrize("other", [True, False, 1, 2.0, None, np.nan], ids=str)
def test_a_missing_value_that_is_written_stays_in_any_company(schema, name, other):
    assert name in schema.sparse_names
    for missing in (None, np.nan, pd.NA):
        new = [[{name: missing}], [{name: other}], [{}]]
        found = stored(as_batch(new, schema=schema, allow_missing_columns=True), name)
        assert np.isnan(found.pop(0))
        np.testing.assert_equal(found, {1: np.nan if other is None else float(other)})


@pytest.mark.parametrize("huge", [10**400, -(10**400)], ids=["positive", "negative"])
def test_an_indicator_beyond_all_floats(huge):
    with pytest.raises(InputError, match="Column 'a' holds a number that is too large .*, at sequence 1, position 0"):
        as_batch([[{"a": True, "b": 1.0}], [{"a": huge}]], schema=INDICATOR)


def test_many_keys_that_training_did_not_have_take_no_dense_columns():
    X = [[{"a": True, **{f"new{i}": float(i + j) for j in range(3)}} for i in range(1000)]]
    batch = as_batch(X, schema=INDICATOR, allow_missing_columns=True)
    assert batch.schema == INDICATOR
    assert batch.numeric.shape == (1000, 1)
    assert batch.sparse.sum() == 1000


def test_empty_lists_alone():
    schema = as_batch([[{"suffix": ["at"]}, {"suffix": []}, {"suffix": ["at", "t"]}]]).schema
    for nothing in ({"suffix": []}, {"suffix": None}, {"suffix": ()}, {}):
        assert as_batch([[nothing]], schema=schema, allow_missing_columns=True).sparse.nnz == 0
        assert as_batch([[nothing], [{"suffix": ["t"]}]], schema=schema).sparse.toarray().tolist() == [[0, 0], [0, 1]]


@pytest.mark.parametrize(
    ("training", "new"),
    [
        ([[{"word": "u"}, {"word": "v"}]], [[{"wrd": "u"}, {"Word": "v"}]]),
        ([[{"word": "u"}, {"word": "v"}]], [[["u"], ["v"]]]),
        ([[{"word": "u"}, {"word": "v"}]], [pd.DataFrame({"Word": ["u", "v"]})]),
        ([[{"n": 1.5}, {"n": 2}]], [[{}, {"m": 1.5}]]),
        ([[{"u", "v"}, {"w"}]], [[{"x"}, set()]]),
        ([pd.DataFrame({"word": ["u", "v"]})], [[{"wrd": "u"}]]),
    ],
)
def test_not_a_single_known_name_is_warned_of(training, new):
    schema = as_batch(training).schema
    with pytest.warns(UserWarning, match="Labeler knows none of the names in X, '.*', so every position looks as if it "
                      "had no features: it was trained with '.*'. Rename"):  # fmt: skip
        as_batch(new, schema=schema, estimator_name="Labeler", allow_missing_columns=True)


def test_positions_without_known_names_beside_others_are_not_warned_of():  # warnings are errors here
    bags = as_batch([[{"u", "v"}, {"w"}]]).schema
    assert as_batch([[{"x"}], [{"y", "v"}], [set()]], schema=bags).sparse.nnz == 1
    lists = as_batch([[{"t": ["x"], "n": 0.5}, {"t": ["y"], "n": 2}]]).schema
    for new in ({"t": ["never"]}, {"t": "never"}, {"t": []}, {"t": None}, {}, {"n": None}):
        assert as_batch([[new]], schema=lists, allow_missing_columns=True).sparse.nnz == 0


def test_members_of_a_list_do_not_fill_a_column_of_that_name():
    schema = as_batch([[{"a=b": 7.0, "n": 1.5}, {"a=b": 2.0}]]).schema
    batch = as_batch([[{"a": ["b"], "n": 2}, {"a": []}]], schema=schema, allow_missing_columns=True)
    np.testing.assert_array_equal(batch.numeric, [[np.nan, 2], [np.nan, np.nan]])
    with pytest.raises(InputError, match=r"X lacks the column\(s\) 'a=b'"):
        as_batch([[{"a": ["b"], "n": 2}]], schema=schema)
    with pytest.warns(UserWarning, match="knows none of the names in X, 'a=b', 'a'"):
        assert np.isnan(as_batch([[{"a": ["b"]}]], schema=schema, allow_missing_columns=True).numeric).all()
