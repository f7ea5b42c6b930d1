"""``transitions`` with names: tables matched by their labels, and dicts of the labels that may follow."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from treecrf_data import all_equal, small

from seqboost import MEMM, OutputCoding, load
from seqboost.exceptions import ParameterError

X = ["xyxyzz", "xxyz", "yzz", "xyz"] * 3
Y = ["abbccc", "aabc", "bcc", "abc"] * 3  # never back
ALLOWED = np.array([[1, 1, 0], [0, 1, 1], [0, 0, 1]], dtype=bool)  # in the order of classes_
FORWARD = {"a": ["a", "b"], "b": ("c", "b"), "c": {"c"}}


def table(rows="abc", columns="abc"):
    """Return what is allowed as a table, with rows and columns in any order."""
    return pd.DataFrame(ALLOWED, index=list("abc"), columns=list("abc")).loc[list(rows), list(columns)]


@pytest.mark.parametrize(
    "transitions",
    [FORWARD, table(), table("cab", "cab"), table("bca", "cba"), table("cba").astype(int), table().astype("boolean")],
    ids=["dict", "sorted", "another order", "two orders", "numbers", "nullable"],
)
@pytest.mark.parametrize("memm", [False, True])
def test_names_decide(tmp_path, transitions, memm):
    def made(transitions):
        return MEMM(max_iter=3, min_samples_leaf=1, transitions=transitions) if memm else small(transitions=transitions)

    expected = made(ALLOWED).fit(X, Y)
    assert np.array_equal(np.isinf(expected.transition_scores_), ~ALLOWED)
    model = clone(made(transitions)).fit(X, Y)
    assert np.array_equal(model.transition_scores_, expected.transition_scores_)
    assert all_equal(model.predict_proba(X), expected.predict_proba(X))
    assert model.get_params()["transitions"] is model.transitions
    assert all_equal(pickle.loads(pickle.dumps(model)).predict_proba(X), expected.predict_proba(X))
    model.save(tmp_path / "m.seqboost")
    loaded = load(tmp_path / "m.seqboost")
    assert {label: set(after) for label, after in loaded.transitions.items()} == {k: set(v) for k, v in FORWARD.items()}
    assert all_equal(clone(loaded).fit(X, Y).predict_proba(X), expected.predict_proba(X))


def test_a_warm_start_knows_a_table_again():
    model = small(transitions=table("cab", "cab"), warm_start=True).fit(X, Y)
    model.set_params(max_iter=6, transitions=table("cab", "cab")).fit(X, Y)
    with pytest.raises(ParameterError, match="'transitions' parameter was .* in the last fit"):
        model.set_params(transitions={**FORWARD, "c": ["a", "c"]}).fit(X, Y)


def test_labels_of_other_types(tmp_path):
    y = [[{"a": (0, 1), "b": (1, 1), "c": (2, 1)}[c] for c in word] for word in Y]
    pairs = pd.MultiIndex.from_tuples([(2, 1), (0, 1), (1, 1)])
    frame = pd.DataFrame(table("cab", "cab").to_numpy(), index=pairs, columns=pairs)
    model = small(transitions=frame).fit(X, y)
    assert np.array_equal(np.isinf(model.transition_scores_), ~ALLOWED)
    model.save(tmp_path / "m.seqboost")
    assert set(load(tmp_path / "m.seqboost").transitions) == set(pairs)
    flags = [[c == "a" for c in word] for word in Y]
    model = small(transitions={True: [True, False], False: [False]}).fit(X, flags)
    assert np.isinf(model.transition_scores_).tolist() == [[False, True], [False, False]]


def test_inside_another_labeller():
    bits = {0: [0, 1], 1: [0, 1]}
    coded = OutputCoding(small(transitions=bits), code="one_vs_rest").fit(X, Y)
    assert coded.score(X, Y) > 0.5


@pytest.mark.parametrize(
    ("transitions", "match"),
    [
        ({"a": ["a"], "b": ["b"]}, r"does not say what may follow 'c'\. Name every label: with \[\]"),
        ({**FORWARD, "d": []}, "names 'd', which y does not hold. Its labels are 'a', 'b', 'c'"),
        ({**FORWARD, "c": ["d", "e"]}, "names 'd', 'e', which y does not hold"),
        ({**FORWARD, "c": "c"}, "holds 'c' for 'c'; expected a list of the labels that may follow"),
        ({**FORWARD, "c": {"c": False}}, "expected a list of the labels"),
        ({**FORWARD, "c": 3}, "expected a list of the labels"),
        ({**FORWARD, "c": [["c"]]}, "expected labels in the list"),
        (table().rename(index={"b": "d"}), "index and the columns .* only one of them has 'b', 'd'"),
        (table("ab", "abc"), "only one of them has 'c'"),
        (table("ab", "ab"), "does not say what may follow 'c'"),
        (pd.DataFrame(ALLOWED), "names 0, 1, 2, which y does not hold"),
        (table("abca"), "index of 'transitions' hold 'a' more than once"),
        (table().astype(float).replace(0, np.nan), "must hold booleans, or 0 and 1, and no missing"),
        (table().astype("boolean").where(ALLOWED), "no missing values"),
        (pl.DataFrame(ALLOWED), "table without names for its rows"),
    ],
)
def test_unknown_and_missing_labels_are_named(transitions, match):
    with pytest.raises(ParameterError, match=match):
        small(transitions=transitions).fit(X, Y)


def test_a_mask_is_no_list_of_labels():
    y = [["abc".index(c) for c in word] for word in Y]
    with pytest.raises(ParameterError, match="names False, True, which y does not hold"):
        small(transitions={k: row.tolist() for k, row in enumerate(ALLOWED)}).fit(X, y)
