"""Labels known as one of a set: from what the user gives to codes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from seqboost import as_batch, as_labels
from seqboost.exceptions import InputError
from seqboost.sequences import LabelCoder

BATCH = as_batch(["abc", "de"])


def test_sets_are_numbered_and_their_labels_are_classes():
    coder = LabelCoder()
    codes = coder.fit([["a", {"a", "b"}, None], [frozenset("bc"), {"b", "a"}]], BATCH, sets=True)
    assert coder.classes_.tolist() == ["a", "b", "c"]
    assert codes.tolist() == [0, -3, -1, -4, -3]
    assert coder.sets_.tolist() == [[True, True, False], [False, True, True]]


def test_sets_of_one_and_of_all_labels():
    coder = LabelCoder()
    codes = coder.fit([["a", {"b"}, {"a", "b"}], [frozenset("a"), "b"]], BATCH, sets=True)
    assert codes.tolist() == [0, 1, -1, 0, 1]
    assert coder.sets_ is None
    assert coder.encode([["a", {"b"}, {"a", "b"}], [None, {None}]], BATCH, sets=True).tolist() == [0, 1, -1, -1, -1]


def test_a_coder_keeps_no_sets_of_earlier_labels():
    coder = LabelCoder()
    coder.fit([["a", {"a", "b"}, None], ["c", "b"]], BATCH, sets=True)
    assert coder.encode(["abc", "ab"], BATCH, sets=True).tolist() == [0, 1, 2, 0, 1]
    assert coder.sets_ is None


def test_labels_of_any_kind():
    numbers = [[1, {np.int64(2), 3}, None], [frozenset([1, 2]), np.int64(1)]]
    coder = LabelCoder()
    assert coder.fit(numbers, BATCH, sets=True).tolist() == [0, -3, -1, -4, 0]
    assert coder.classes_.dtype.kind == "i"
    assert coder.classes_.tolist() == [1, 2, 3]
    tuples = [[("N", 1), {("N", 1), ("V", 2)}, None], [("A", 0), ("V", 2)]]
    assert coder.fit(tuples, BATCH, sets=True).tolist() == [1, -3, -1, 0, 2]
    mixed = [np.array([1, 2, 1]), [{1, 3}, 2]]
    assert coder.fit(mixed, BATCH, sets=True).tolist() == [0, 1, 0, -3, 1]
    nested = [[("a", frozenset("b")), "x", "y"], ["x", "y"]]  # a tuple is a label, whatever it holds
    assert len(LabelCoder().fit(nested, BATCH)) == 5


def test_tables():
    table = as_batch(pd.DataFrame({"s": [0, 0, 1], "x": [1.0, 2.0, 3.0]}), sequence="s")
    coder = LabelCoder()
    for y in (["a", {"b", "c"}, "b"], pd.Series(["a", {"b", "c"}, "b"]), np.array(["a", {"b", "c"}, "b"], object)):
        assert coder.fit(y, table, sets=True).tolist() == [0, -3, 1]


@pytest.mark.parametrize(
    ("label", "match"),
    [
        (set(), r"The label at sequence 0, position 1 is an empty set: no label is allowed there\. Use None"),
        ({"a", None}, r"position 1 is \{.*\}, a set that holds None; expected a set of labels"),
        ({"a", float("nan")}, r"position 1 is \{.*\}, a set that holds nan"),
        ({"a", frozenset("b")}, r"a set that holds frozenset"),
        ({1, 0.5}, r"Labels must be classes, but the label at sequence 0, position 1 is 0\.5"),
    ],
)
def test_strange_sets_are_refused(label, match):
    with pytest.raises(InputError, match=match):
        LabelCoder().fit([["a", label, "b"], ["a", "b"]], BATCH, sets=True)


def test_sets_are_refused_where_they_have_no_meaning():
    match = r"The label at sequence 1, position 0 is \{.*\}, a set of labels: one of them.*TreeCRF.*trains on sets"
    with pytest.raises(InputError, match=match):
        LabelCoder().fit([list("abc"), [{"a", "b"}, "a"]], BATCH)
    with pytest.raises(InputError, match=match):
        LabelCoder.from_classes(list("abc")).encode([list("abc"), [{"a", "b"}, "a"]], BATCH)


def test_unknown_labels_in_sets():
    coder, y = LabelCoder.from_classes(list("abc")), [["a", {"b", "z"}, "y"], [{"a", "b"}, None]]
    match = r"the label 'z' at sequence 0, position 1, which was not seen in training\. Known labels: 'a', 'b', 'c'"
    with pytest.raises(InputError, match=match):
        coder.encode(y, BATCH, sets=True)
    assert coder.encode(y, BATCH, "mark", sets=True).tolist() == [0, -1, -2, -3, -1]
    assert coder.encode(y, BATCH, "ignore", sets=True).tolist() == [0, -1, -1, -3, -1]


def test_scores_of_labels_pass_over_sets():
    assert as_labels([["a", {"b"}, {"a", "b"}], [None, "c"]]) == [["a", "b", None], [None, "c"]]
