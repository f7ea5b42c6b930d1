"""Everything prediction needs, and nothing else: how to bin, the linear part, the forest, the table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqboost.chain import Chain, DurationPotentials, Potentials, SeenContexts, SeenPotentials
from seqboost.core.contexts import ContextSpace
from seqboost.core.exceptions import ModelFileError, ParameterError
from seqboost.core.stored import MAX_ORDER, Stored, part_of
from seqboost.features import BinnedRows, FeatureBinner
from seqboost.linear import LinearRows, LinearWeights
from seqboost.model.forest import Forest
from seqboost.model.scoring import forest_scores
from seqboost.trees.tree import DENSE, SPARSE

__all__ = ["FrozenModel"]


@dataclass(frozen=True, eq=False)
class FrozenModel:
    """A fitted chain; immutable, so any number of threads may predict with it.

    Attributes
    ----------
    binner : FeatureBinner
        From columns to bin codes.
    forest : Forest
        The trees of all labels.
    table : ndarray of float64 of shape (n_extended, n_labels)
        Baseline (joint) or transition scores (factored); −inf = forbidden. Of seen contexts: (n_parameters,).
    end : ndarray of float64 of shape (n_labels,)
        Scores of closing a sequence.
    order : int
        Markov order of the chain.
    contexts : SeenContexts or None
        The contexts that were seen, with the forbidden transitions; None if all contexts are used.
    linear : LinearWeights or None
        What the trees are added to: a linear function of the columns, or nothing.
    durations : ndarray of int64 of shape (n_labels,) or None
        Smallest number of positions of a run of each label; None: any.
    """

    binner: FeatureBinner
    forest: Forest
    table: NDArray[np.float64]
    end: NDArray[np.float64]
    order: int
    contexts: SeenContexts | None = None
    linear: LinearWeights | None = None
    durations: NDArray[np.int64] | None = None

    @property
    def is_constrained(self) -> bool:
        """Whether some transition is forbidden, or some run of a label too short."""
        if self.durations is not None:
            return True
        if self.contexts is not None:
            return self.contexts.is_constrained or bool(np.isinf(self.end).any())
        return bool(np.isinf(self.table).any() or np.isinf(self.end).any())

    def constrained(self, scores: NDArray[np.float32], offsets: NDArray[np.int64]) -> Potentials:
        """Return a chain of these scores whose table holds the constraint alone: 0 where allowed, −inf elsewhere."""
        if self.contexts is not None:
            return Potentials(scores, self.contexts.constraints(), offsets, 1, self.end)
        return self._chain(scores, np.where(np.isinf(self.table), self.table, 0.0), offsets)

    def scored(self, binned: BinnedRows, n_threads: int = 1, rows: LinearRows | None = None) -> Chain:
        """Score binned positions; a model with a linear part needs its rows as well."""
        if (rows is None) != (self.linear is None):
            raise ParameterError("rows of the linear part must be given if the model has one, and only then")
        start = None if self.linear is None or rows is None else self.linear.scores(rows, n_threads)
        scores = forest_scores(self.forest, binned, n_threads, start=start)
        if self.contexts is not None:
            return SeenPotentials(scores, self.table, binned.offsets, self.contexts, self.end)
        return self._chain(scores, self.table, binned.offsets)

    def _chain(self, scores: NDArray[np.float32], table: NDArray[np.float64], offsets: NDArray[np.int64]) -> Potentials:
        if self.durations is None:
            return Potentials(scores, table, offsets, self.order, self.end)
        return DurationPotentials(scores, table, offsets, self.order, self.end, self.durations)

    def column_gains(self) -> dict[str, float]:
        """Return the gain of all splits on each column, its window taken together; labels before are no column."""
        layout, forest = self.binner.layout, self.forest
        names = (*layout.column_names, *layout.sparse_names)
        column = np.full(len(forest.kind), -1, dtype=np.int64)
        dense, sparse = forest.kind == DENSE, forest.kind == SPARSE
        column[dense] = layout.column[forest.feature[dense]]
        if sparse.any():
            column[sparse] = len(layout.column_names) + forest.feature[sparse].astype(np.int64) % layout.n_sparse
        tested = column >= 0
        gains = np.bincount(column[tested], weights=forest.gain[tested].astype(np.float64), minlength=len(names))
        return dict(zip(names, gains.tolist(), strict=True))

    def to_arrays(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return arrays and a JSON header."""
        binner_arrays, binner_header = self.binner.to_arrays()
        arrays = {f"binner.{name}": array for name, array in binner_arrays.items()}
        arrays |= {f"forest.{name}": array for name, array in self.forest.to_arrays().items()}
        if self.contexts is not None:
            arrays |= {f"seen.{name}": array for name, array in self.contexts.to_arrays().items()}
        if self.linear is not None:
            arrays |= {f"linear.{name}": array for name, array in self.linear.to_arrays().items()}
        if self.durations is not None:
            arrays["durations"] = self.durations
        return arrays | {"table": self.table, "end": self.end}, {"order": self.order, "binner": binner_header}

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]], header: dict[str, Any]) -> FrozenModel:
        """Rebuild a model; ModelFileError if the parts do not fit together."""
        stored = Stored("parts", arrays, header)
        binner = FeatureBinner.from_arrays(part_of(arrays, "binner."), stored.field("binner", dict))
        forest, order = Forest.from_arrays(part_of(arrays, "forest.")), stored.integer("order", 0, MAX_ORDER)
        stored.require(forest.order in (0, order), f"the forest has order {forest.order}, the model {order}")
        seen, n_labels = part_of(arrays, "seen."), forest.n_labels
        try:
            contexts = SeenContexts.from_arrays(seen, n_labels, order) if seen else None
        except KeyError as error:
            raise ModelFileError(f"the model file lacks {error}; save the model again") from error
        except ParameterError as error:
            raise ModelFileError(f"{error}; save the model again") from error
        if contexts is None:
            shape = (ContextSpace(n_labels, order).n_extended, n_labels)
            table = stored.scores("table", shape, forbids=True)
        else:
            stored.require(forest.order == 0, "the trees test labels, but the contexts are those that were seen")
            table = stored.scores("table", (contexts.n_parameters,))
        end = stored.scores("end", (n_labels,), forbids=True)
        layout = binner.layout
        n_slots = np.diff(layout.slot_start).astype(np.int64)
        forest.check_layout(layout.n_dense_features, n_slots, len(layout.sparse_offsets))
        of_linear = part_of(arrays, "linear.")
        linear = LinearWeights.from_arrays(of_linear, binner, n_labels) if of_linear else None
        durations = None
        if "durations" in arrays:
            stored.require(order == 1 and contexts is None, "durations need order 1 and all contexts")
            durations = stored.array("durations", np.int64, (n_labels,), low=1, high=2**31 - 1)
        return cls(binner, forest, table, end, order, contexts, linear, durations)
