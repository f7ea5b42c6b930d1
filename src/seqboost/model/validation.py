"""Checks of a forest's arrays, so that no forged file can lead a kernel out of bounds or round in circles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqboost.core.exceptions import ModelFileError
from seqboost.core.stored import LARGEST_SCORE
from seqboost.trees.tree import DENSE, LAG, SPARSE

__all__ = ["check_forest", "check_routes"]

DENSE_WORDS = 4  # a dense code is one byte: 256 bits
MAX_CONTEXTS = MAX_ROUNDS = 2**31 - 1
MAX_LEAVES = 2**24  # of a tree: scoring counts leaves in single precision
Arrays = Mapping[str, NDArray[Any]]


def check_forest(arrays: Arrays, dtypes: Mapping[str, type[np.generic]]) -> None:
    """Check every array of a forest.

    Parameters
    ----------
    arrays : mapping of str to ndarray
        The arrays as read.
    dtypes : mapping of str to dtype
        Expected arrays, besides ``shape`` (n_labels, order, n_rounds). All are of one dimension, but ``value`` has two
        in a forest of shared trees.

    Raises
    ------
    ModelFileError
        At the first array that does not make sense.
    """
    _check_dtypes(arrays, {"shape": np.int64, **dtypes})
    _require(len(arrays["shape"]) == 3, "the shape does not hold three numbers")
    n_labels, order, n_rounds = (int(number) for number in arrays["shape"])
    possible = 1 <= n_labels <= MAX_CONTEXTS and 0 <= order <= 31 and 0 <= n_rounds <= MAX_ROUNDS
    _require(possible, "impossible numbers of labels or rounds")
    _require(n_labels**order <= MAX_CONTEXTS, "more contexts than can be counted")
    _check_extent(arrays, n_labels, n_rounds)
    _check_left_sets(arrays, n_labels, order)
    _check_topology(arrays)
    _check_values(arrays, n_labels)


def _check_dtypes(arrays: Arrays, dtypes: Mapping[str, type[np.generic]]) -> None:
    """Check that arrays are there and of the right type."""
    for name, dtype in dtypes.items():
        array = arrays.get(name)
        if not isinstance(array, np.ndarray):
            raise _error(f"the array {name!r} is missing")
        if array.dtype != np.dtype(dtype) or array.ndim != (2 if name == "value" and array.ndim == 2 else 1):
            expected = f"one dimension of {np.dtype(dtype)}"
            raise _error(f"the array {name!r} has {array.ndim} dimension(s) of {array.dtype}, expected {expected}")


def check_routes(arrays: Arrays, dtypes: Mapping[str, type[np.generic]]) -> None:
    """Check the arrays that tell where a forest sends rows with missing values; the others have been checked.

    Raises
    ------
    ModelFileError
        At the first array that does not make sense.
    """
    _check_dtypes(arrays, dtypes)
    kind, share, n_splits = arrays["kind"], arrays["share"], len(arrays["kind"])
    _require(len(share) == n_splits, "'share' does not have one entry for each split")
    _require(bool(np.all((share >= 0) & (share < 1))), "a share does not lie between 0 and 1")
    n_surrogates = len(arrays["surrogate_kind"])
    _require(len(arrays["surrogate_feature"]) == n_surrogates, "'surrogate_feature' does not have an entry for each")
    _check_starts(arrays["surrogate_start"], "surrogate_start", n_splits, n_surrogates)
    _check_starts(arrays["surrogate_word_start"], "surrogate_word_start", n_surrogates, len(arrays["surrogate_words"]))
    of_kind, n_words = arrays["surrogate_kind"], np.diff(arrays["surrogate_word_start"])
    detour = (share > 0) | (np.diff(arrays["surrogate_start"]) > 0)
    _require(not bool(np.any(detour & (kind == LAG))), "a lag split has a share or surrogates")
    _require(bool(np.isin(of_kind, (DENSE, SPARSE)).all()), "a surrogate is of an unknown kind")
    _require(bool((arrays["surrogate_feature"] >= 0).all()), "a surrogate tests a feature of negative number")
    _require(
        bool(np.all(n_words[of_kind == DENSE] == DENSE_WORDS)), "a dense surrogate's left set is of the wrong size"
    )
    _require(bool(np.all(n_words[of_kind == SPARSE] >= 1)), "a sparse surrogate's left set is empty")


def _check_extent(arrays: Arrays, n_labels: int, n_rounds: int) -> None:
    """Check where trees begin and end, and in which order they stand."""
    tree_round, tree_label = arrays["tree_round"].astype(np.int64), arrays["tree_label"].astype(np.int64)
    n_trees, n_splits, n_leaves = len(tree_label), len(arrays["kind"]), len(arrays["value"])
    _require(len(tree_round) == n_trees, "labels and rounds of the trees differ in number")
    if arrays["value"].ndim == 2:
        _require(bool(np.all(tree_label == -1)), "a tree of one label has values for all")
        _require(arrays["value"].shape[1] == n_labels, "a leaf does not have one value for each label")
        _require(n_trees == n_rounds, "a round does not have one shared tree")
    else:
        exist = (tree_label >= 0) & (tree_label < n_labels)
        _require(bool(np.all(exist)), "a tree belongs to a label that does not exist")
    _require(bool(np.all((tree_round >= 0) & (tree_round < n_rounds))), "a tree belongs to a round that does not exist")
    place = tree_round * n_labels + tree_label
    _require(bool((place[:-1] < place[1:]).all()), "the trees do not stand in the order of rounds and labels")
    for name in ("feature", "left", "right", "gain", "n_rows"):
        _require(len(arrays[name]) == n_splits, f"{name!r} does not have one entry for each split")
    _require(len(arrays["leaf_rows"]) == n_leaves, "'leaf_rows' does not have one entry for each leaf")
    for name, count, total in (("split_start", n_trees, n_splits), ("leaf_start", n_trees, n_leaves)):
        _check_starts(arrays[name], name, count, total)
    _check_starts(arrays["word_start"], "word_start", n_splits, len(arrays["words"]))
    same = np.array_equal(np.diff(arrays["leaf_start"]), np.diff(arrays["split_start"]) + 1)
    _require(same, "a tree does not have one leaf more than splits")
    most = int(np.diff(arrays["leaf_start"]).max(initial=0))
    _require(most <= MAX_LEAVES, f"a tree has {most} leaves, expected at most {MAX_LEAVES}")


def _check_values(arrays: Arrays, n_labels: int) -> None:
    """Check that the trees of a label cannot add up to a score without digits, and what only people read."""
    value = np.abs(arrays["value"])
    _require(bool(np.isfinite(value).all()), "a leaf's value is not finite")
    if len(value):
        of_tree = np.maximum.reduceat(value, arrays["leaf_start"][:-1]).astype(np.float64)
        shared = value.ndim == 2
        total = of_tree.sum(axis=0) if shared else np.bincount(arrays["tree_label"], of_tree, minlength=n_labels)
        _require(bool(total.max() <= LARGEST_SCORE), f"the trees of a label add up to more than {LARGEST_SCORE:g}")
    _require(bool(np.isfinite(arrays["gain"]).all()), "a gain is not finite")
    for name in ("n_rows", "leaf_rows"):
        _require(bool((arrays[name] >= 0).all()), f"{name!r} holds a negative number")


def _check_left_sets(arrays: Arrays, n_labels: int, order: int) -> None:
    """Check that each split tests something that exists with a set of the right size."""
    kind, feature, n_words = arrays["kind"], arrays["feature"], np.diff(arrays["word_start"])
    _require(bool(np.isin(kind, (DENSE, SPARSE, LAG)).all()), "a split is of an unknown kind")
    _require(bool((feature >= 0).all()), "a split tests a feature of negative number")
    lag = kind == LAG
    _require(bool(np.isin(feature[lag], np.arange(1, order + 1)).all()), "a split tests a lag beyond the model's order")
    _require(bool(np.all(n_words[lag] == n_labels // 64 + 1)), "a lag split's left set is of the wrong size")
    _require(bool(np.all(n_words[kind == DENSE] == DENSE_WORDS)), "a dense split's left set is of the wrong size")
    _require(bool(np.all(n_words[kind == SPARSE] >= 1)), "a sparse split's left set is empty")


def _check_topology(arrays: Arrays) -> None:
    """Check that every tree is one: each leaf and each split but the root has one parent, and the root is above all."""
    split_start, leaf_start = arrays["split_start"], arrays["leaf_start"]
    n_splits = len(arrays["kind"])
    if n_splits == 0:
        return
    sizes = np.diff(split_start)
    first_split, first_leaf = np.repeat(split_start[:-1], sizes), np.repeat(leaf_start[:-1], sizes)
    own_splits, own_leaves = np.repeat(sizes, sizes), np.repeat(sizes + 1, sizes)
    parent = np.full(n_splits, -1, dtype=np.int64)
    n_parents = np.zeros(n_splits, dtype=np.int64)
    n_leaf_parents = np.zeros(len(arrays["value"]), dtype=np.int64)
    for side in ("left", "right"):
        child = arrays[side].astype(np.int64)
        _require(bool(np.all((child < own_splits) & (~child < own_leaves))), f"a {side} child does not exist")
        inner = child >= 0
        parent[(first_split + child)[inner]] = np.flatnonzero(inner)
        n_parents += np.bincount((first_split + child)[inner], minlength=n_splits)
        n_leaf_parents += np.bincount((first_leaf + ~child)[~inner], minlength=len(n_leaf_parents))
    is_root = np.zeros(n_splits, dtype=bool)
    is_root[split_start[:-1][sizes > 0]] = True
    _require(bool(np.all(n_parents == ~is_root)), "a split has no parent, or two")
    grown = np.repeat(sizes > 0, sizes + 1)
    _require(bool(np.all(n_leaf_parents == grown)), "a leaf has no parent, or two")
    ancestor = np.where(is_root, np.arange(n_splits), parent)
    for _ in range(int(sizes.max()).bit_length()):  # doubles the distance looked up: 1, 2, 4, ... generations
        ancestor = ancestor[ancestor]
    _require(bool(is_root[ancestor].all()), "splits lead round in a circle")


def _check_starts(starts: NDArray[np.int64], name: str, count: int, total: int) -> None:
    _require(len(starts) == count + 1, f"{name!r} has {len(starts)} entries, expected {count + 1}")
    ordered = starts[0] == 0 and starts[-1] == total and bool((starts[1:] >= starts[:-1]).all())
    _require(ordered, f"{name!r} does not rise from 0 to {total}")


def _require(condition: bool, complaint: str) -> None:
    if not condition:
        raise _error(complaint)


def _error(complaint: str) -> ModelFileError:
    return ModelFileError(f"the forest of this model makes no sense: {complaint}; save the model again with seqboost")
