"""The frozen forest: all trees of a model, laid end to end in flat arrays.

Trees stand in the order in which scoring adds them: by round, then by label::

    round        0           1           2
    label     0   1   2   0   1   2   0   2          (label 1 has no tree in round 2)
    tree      0   1   2   3   4   5   6   7
              │
              └── splits split_start[t]:split_start[t+1], leaves leaf_start[t]:leaf_start[t+1];
                  left, right: numbers within the tree, as in `Tree`; word_start: within the forest

A forest of shared trees has one tree for all labels in each round (label −1) and a row of K values for each leaf. A
forest is of one kind or the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqboost.core.exceptions import ModelFileError
from seqboost.core.offsets import starts_of
from seqboost.model.validation import check_forest, check_routes
from seqboost.trees import Routes
from seqboost.trees.tree import LAG, SPARSE, Tree

__all__ = ["Forest"]


@dataclass(frozen=True, eq=False)
class Forest:
    """All trees of a model in flat, read-only arrays.

    Attributes
    ----------
    n_labels : int
        Number of labels K.
    order : int
        Number of lags m that splits may test: the Markov order of a joint model, 0 for a factored one.
    n_rounds : int
        Number of boosting rounds.
    tree_round, tree_label : ndarray of int32, shape (n_trees,)
        Round and label of each tree, in increasing order of (round, label); label −1: all labels.
    split_start, leaf_start : ndarray of int64, shape (n_trees + 1,)
        First split and first leaf of each tree.
    kind, feature, left, right, gain, n_rows : ndarray, shape (n_splits,)
        As in `Tree`.
    word_start : ndarray of int64, shape (n_splits + 1,)
        The left set of split ``i`` is ``words[word_start[i]:word_start[i + 1]]``.
    words : ndarray of uint64, shape (n_words,)
        The left sets.
    value : ndarray of float32, shape (n_leaves,) or (n_leaves, n_labels)
        As in `Tree`.
    leaf_rows : ndarray of int32, shape (n_leaves,)
        As in `Tree`.
    routes : Routes or None
        Where rows go whose tested value is missing; None: as the left sets say.
    """

    n_labels: int
    order: int
    n_rounds: int
    tree_round: NDArray[np.int32]
    tree_label: NDArray[np.int32]
    split_start: NDArray[np.int64]
    leaf_start: NDArray[np.int64]
    kind: NDArray[np.uint8]
    feature: NDArray[np.int32]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    gain: NDArray[np.float32]
    n_rows: NDArray[np.int32]
    word_start: NDArray[np.int64]
    words: NDArray[np.uint64]
    value: NDArray[np.float32]
    leaf_rows: NDArray[np.int32]
    routes: Routes | None = None
    # Tables of the fast scorer, made at the first prediction, never part of a copy, pickle or file.
    _cache: dict[str, Any] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        """Make the arrays read-only."""
        for name, array in self._array_items():
            view = np.ascontiguousarray(array).view()
            view.flags.writeable = False
            object.__setattr__(self, name, view)

    def __getstate__(self) -> dict[str, Any]:
        """State for pickling: everything but the cache."""
        return {**self.__dict__, "_cache": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a pickled forest, its arrays read-only again."""
        self.__dict__.update(state)
        self.__post_init__()

    def _array_items(self) -> list[tuple[str, NDArray[Any]]]:
        return [(f.name, getattr(self, f.name)) for f in fields(self) if f.name in ARRAY_DTYPES]

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.tree_label)

    @property
    def is_shared(self) -> bool:
        """Whether each tree is one for all labels."""
        return self.value.ndim == 2

    @property
    def n_contexts(self) -> int:
        """Number of context slots C = K**m."""
        return int(self.n_labels**self.order)

    @classmethod
    def from_trees(cls, rounds: Sequence[Sequence[Tree | None]], n_labels: int, order: int) -> Forest:
        """Freeze trees.

        Parameters
        ----------
        rounds : sequence of sequences of Tree or None
            ``rounds[r][k]`` is the tree of round r for label k; ``None``: this label got no tree. Or ``rounds[r][0]``
            is the shared tree of round r.
        n_labels : int
            Number of labels K; every round has so many entries, or one for all.
        order : int
            Markov order of a joint model, 0 for a factored one.
        """
        is_shared = any(tree is not None and tree.value.ndim == 2 for row in rounds for tree in row)
        for r, trees_of_round in enumerate(rounds):
            if is_shared and not (len(trees_of_round) == 1 and _has_vectors(trees_of_round[0], n_labels)):
                raise ValueError(
                    f"round {r} is not one shared tree with a value for each of {n_labels} labels, but others are; a "
                    f"forest cannot hold both kinds"
                )
            if not is_shared and len(trees_of_round) != n_labels:
                raise ValueError(
                    f"round {r} has {len(trees_of_round)} trees, expected one (or None) for each of {n_labels} labels"
                )
        placed = [
            (r, -1 if is_shared else k, tree)
            for r, row in enumerate(rounds)
            for k, tree in enumerate(row)
            if tree is not None
        ]
        trees = [tree for _, _, tree in placed]
        n_words = np.concatenate([np.zeros(1, np.int64), *(np.diff(tree.word_start) for tree in trees)])

        def joined(name: str) -> NDArray[Any]:
            dtype = ARRAY_DTYPES[name]
            nothing = (0, n_labels) if is_shared and name == "value" else 0
            parts = [np.zeros(nothing, dtype), *(getattr(tree, name) for tree in trees)]
            return np.concatenate(parts).astype(dtype, copy=False)

        return cls(
            n_labels=int(n_labels),
            order=int(order),
            n_rounds=len(rounds),
            tree_round=np.array([r for r, _, _ in placed], dtype=np.int32),
            tree_label=np.array([k for _, k, _ in placed], dtype=np.int32),
            split_start=starts_of([len(tree.kind) for tree in trees]),
            leaf_start=starts_of([len(tree.value) for tree in trees]),
            word_start=np.cumsum(n_words, dtype=np.int64),
            routes=_joined_routes([(tree.routes, tree.n_splits) for tree in trees]),
            **{name: joined(name) for name in PER_SPLIT_OR_LEAF},
        )

    def tree(self, number: int) -> Tree:
        """Give tree ``number`` (in the forest's order) back as a `Tree`."""
        splits = slice(self.split_start[number], self.split_start[number + 1])
        leaves = slice(self.leaf_start[number], self.leaf_start[number + 1])
        word_start = self.word_start[splits.start : splits.stop + 1]
        return Tree(
            kind=self.kind[splits],
            feature=self.feature[splits],
            word_start=(word_start - word_start[0]).astype(np.int32),
            words=self.words[word_start[0] : word_start[-1]],
            left=self.left[splits],
            right=self.right[splits],
            value=self.value[leaves],
            gain=self.gain[splits],
            n_rows=self.n_rows[splits],
            leaf_rows=self.leaf_rows[leaves],
            routes=None if self.routes is None else self.routes.part(int(splits.start), int(splits.stop)),
        )

    def to_trees(self) -> list[list[Tree | None]]:
        """Give all trees back as ``rounds[r][k]``, ``None`` where a label has no tree; or ``rounds[r][0]`` for all."""
        if self.is_shared:
            return [[self.tree(number)] for number in range(self.n_trees)]
        rounds: list[list[Tree | None]] = [[None] * self.n_labels for _ in range(self.n_rounds)]
        for number, (r, k) in enumerate(zip(self.tree_round, self.tree_label, strict=True)):
            rounds[r][k] = self.tree(number)
        return rounds

    def extend(self, rounds: Sequence[Sequence[Tree | None]]) -> Forest:
        """Return a forest with further rounds at the end."""
        more = Forest.from_trees(rounds, self.n_labels, self.order)
        if self.n_rounds == 0 or more.n_rounds == 0:
            return more if self.n_rounds == 0 else self
        if self.is_shared != more.is_shared:
            raise ValueError("a forest cannot hold both shared trees and trees of single labels")

        def starts(ours: NDArray[np.int64], theirs: NDArray[np.int64]) -> NDArray[np.int64]:
            return np.concatenate([ours, theirs[1:] + ours[-1]])

        arrays = {name: np.concatenate([getattr(self, name), getattr(more, name)]) for name in PER_SPLIT_OR_LEAF}
        return Forest(
            n_labels=self.n_labels,
            order=self.order,
            n_rounds=self.n_rounds + more.n_rounds,
            tree_round=np.concatenate([self.tree_round, more.tree_round + np.int32(self.n_rounds)]),
            tree_label=np.concatenate([self.tree_label, more.tree_label]),
            split_start=starts(self.split_start, more.split_start),
            leaf_start=starts(self.leaf_start, more.leaf_start),
            word_start=starts(self.word_start, more.word_start),
            routes=_joined_routes([(part.routes, len(part.kind)) for part in (self, more)]),
            **arrays,
        )

    def truncate(self, n_rounds: int) -> Forest:
        """Return a forest of the first ``n_rounds`` rounds (all of them, if there are fewer)."""
        n_rounds = min(int(n_rounds), self.n_rounds)
        if n_rounds < 0:
            raise ValueError(f"n_rounds must be 0 or more, got {n_rounds}")
        n_trees = int(np.searchsorted(self.tree_round, n_rounds))
        n_splits, n_leaves = int(self.split_start[n_trees]), int(self.leaf_start[n_trees])
        lengths = {"words": int(self.word_start[n_splits]), "value": n_leaves, "leaf_rows": n_leaves}
        return Forest(
            n_labels=self.n_labels,
            order=self.order,
            n_rounds=n_rounds,
            tree_round=self.tree_round[:n_trees],
            tree_label=self.tree_label[:n_trees],
            split_start=self.split_start[: n_trees + 1],
            leaf_start=self.leaf_start[: n_trees + 1],
            word_start=self.word_start[: n_splits + 1],
            routes=None if self.routes is None else self.routes.part(0, n_splits),
            **{name: getattr(self, name)[: lengths.get(name, n_splits)] for name in PER_SPLIT_OR_LEAF},
        )

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Give the forest as a dictionary of plain arrays, for the model file."""
        shape = np.array([self.n_labels, self.order, self.n_rounds], dtype=np.int64)
        routes = {} if self.routes is None else {name: getattr(self.routes, name) for name in ROUTE_DTYPES}
        return {"shape": shape, **dict(self._array_items()), **routes}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Forest:
        """Rebuild a forest from `to_arrays`; every number is checked, so that no forged file can reach a kernel.

        Raises
        ------
        ModelFileError
            If an array is missing, of the wrong type or shape, or holds a number that makes no sense.
        """
        check_forest(arrays, ARRAY_DTYPES)
        n_labels, order, n_rounds = (int(number) for number in arrays["shape"])
        routes = None
        if any(name in arrays for name in ROUTE_DTYPES):
            check_routes(arrays, ROUTE_DTYPES)
            routes = Routes(**{name: arrays[name] for name in ROUTE_DTYPES})
        kept = {name: arrays[name] for name in ARRAY_DTYPES}
        return cls(n_labels=n_labels, order=order, n_rounds=n_rounds, routes=routes, **kept)

    def check_layout(self, n_dense: int, n_slots: NDArray[np.int64], n_offsets: int) -> None:
        """Refuse window features that the data do not have.

        Parameters
        ----------
        n_dense : int
            Number of dense window features.
        n_slots : ndarray of int64, shape (n_sparse,)
            Number of slots of each sparse feature.
        n_offsets : int
            Number of offsets at which sparse features are seen.

        Raises
        ------
        ModelFileError
            If a split tests a feature, or has a left set, that does not fit.
        """
        routes = Routes.none(0) if self.routes is None else self.routes
        tests = (
            ("split", self.kind, self.feature, self.word_start),
            ("surrogate", routes.surrogate_kind, routes.surrogate_feature, routes.surrogate_word_start),
        )
        for what, kind, feature, word_start in tests:
            _check_tests(what, kind, feature, np.diff(word_start), n_dense, n_slots, n_offsets)


def _check_tests(
    what: str,
    kind: NDArray[np.uint8],
    feature: NDArray[np.int32],
    n_words: NDArray[np.int64],
    n_dense: int,
    n_slots: NDArray[np.int64],
    n_offsets: int,
) -> None:
    """Refuse splits, or surrogates, of window features that the data do not have."""
    window, sparse, n_sparse = kind != LAG, kind == SPARSE, len(n_slots)
    limit = np.where(sparse, n_sparse * n_offsets, n_dense)
    if np.any(window & (feature >= limit)):
        first = int(np.argmax(window & (feature >= limit)))
        raise ModelFileError(
            f"{what} {first} of the forest tests window feature {feature[first]}, but the data have only "
            f"{limit[first]} of its kind; the forest and the features do not belong together, load the model anew"
        )
    if sparse.any():
        needed = -(-n_slots[feature[sparse] % n_sparse] // 64)
        if np.any(n_words[sparse] != np.maximum(needed, 1)):
            raise ModelFileError(
                f"a {what} of the forest holds a left set of another size than its sparse feature; "
                "the forest and the features do not belong together, load the model anew"
            )


def _joined_routes(parts: Sequence[tuple[Routes | None, int]]) -> Routes | None:
    """Lay routes end to end, with the number of splits of each part; None if no part has any."""
    if all(routes is None for routes, _ in parts):
        return None
    return Routes.concatenate([Routes.none(n) if routes is None else routes for routes, n in parts])


def _has_vectors(tree: Tree | None, n_labels: int) -> bool:
    return tree is not None and tree.value.shape == (tree.n_leaves, n_labels)


PER_SPLIT_OR_LEAF = ("kind", "feature", "left", "right", "gain", "n_rows", "words", "value", "leaf_rows")
ARRAY_DTYPES: dict[str, type[np.generic]] = {
    "tree_round": np.int32,
    "tree_label": np.int32,
    "split_start": np.int64,
    "leaf_start": np.int64,
    "kind": np.uint8,
    "feature": np.int32,
    "left": np.int32,
    "right": np.int32,
    "gain": np.float32,
    "n_rows": np.int32,
    "word_start": np.int64,
    "words": np.uint64,
    "value": np.float32,
    "leaf_rows": np.int32,
}
ROUTE_DTYPES: dict[str, type[np.generic]] = {
    "share": np.float32,
    "surrogate_start": np.int64,
    "surrogate_kind": np.uint8,
    "surrogate_feature": np.int32,
    "surrogate_word_start": np.int64,
    "surrogate_words": np.uint64,
}
