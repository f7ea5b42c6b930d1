"""Everything prediction needs, and nothing else: how to bin, the linear part, the forest, the table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqboost.chain import ContextSpace, Potentials, SeenContexts, SeenPotentials
from seqboost.exceptions import ModelFileError, ParameterError
from seqboost.features import BinnedRows, FeatureBinner, LinearRows, LinearWeights
from seqboost.model.forest import Forest
from seqboost.model.scoring import forest_scores

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
    """

    binner: FeatureBinner
    forest: Forest
    table: NDArray[np.float64]
    end: NDArray[np.float64]
    order: int
    contexts: SeenContexts | None = None
    linear: LinearWeights | None = None

    @property
    def is_constrained(self) -> bool:
        """Whether some transition is forbidden."""
        if self.contexts is not None:
            return self.contexts.is_constrained or bool(np.isinf(self.end).any())
        return bool(np.isinf(self.table).any() or np.isinf(self.end).any())

    def constrained(self, scores: NDArray[np.float32], offsets: NDArray[np.int64]) -> Potentials:
        """Return a chain of these scores whose table holds the constraint alone: 0 where allowed, −inf elsewhere."""
        if self.contexts is not None:
            return Potentials(scores, self.contexts.constraints(), offsets, 1, self.end)
        return Potentials(scores, np.where(np.isinf(self.table), self.table, 0.0), offsets, self.order, self.end)

    def scored(
        self, binned: BinnedRows, n_threads: int = 1, rows: LinearRows | None = None
    ) -> Potentials | SeenPotentials:
        """Score binned positions; a model with a linear part needs its rows as well."""
        if (rows is None) != (self.linear is None):
            raise ParameterError("rows of the linear part must be given if the model has one, and only then")
        start = None if self.linear is None or rows is None else self.linear.scores(rows, n_threads)
        scores = forest_scores(self.forest, binned, n_threads, start=start)
        if self.contexts is not None:
            return SeenPotentials(scores, self.table, binned.offsets, self.contexts, self.end)
        return Potentials(scores, self.table, binned.offsets, self.order, self.end)

    def to_arrays(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return arrays and a JSON header."""
        binner_arrays, binner_header = self.binner.to_arrays()
        arrays = {f"binner.{name}": array for name, array in binner_arrays.items()}
        arrays |= {f"forest.{name}": array for name, array in self.forest.to_arrays().items()}
        if self.contexts is not None:
            arrays |= {f"seen.{name}": array for name, array in self.contexts.to_arrays().items()}
        if self.linear is not None:
            arrays |= {f"linear.{name}": array for name, array in self.linear.to_arrays().items()}
        return arrays | {"table": self.table, "end": self.end}, {"order": self.order, "binner": binner_header}

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]], header: dict[str, Any]) -> FrozenModel:
        """Rebuild a model; ModelFileError if the parts do not fit together."""
        try:
            binner = FeatureBinner.from_arrays(_part(arrays, "binner."), header["binner"])
            forest = Forest.from_arrays(_part(arrays, "forest."))
            table, end, order = arrays["table"], arrays["end"], header["order"]
            seen = _part(arrays, "seen.")
            contexts = SeenContexts.from_arrays(seen, forest.n_labels, int(order)) if seen else None
        except KeyError as error:
            raise ModelFileError(f"the model file lacks {error}; save the model again") from error
        except ParameterError as error:
            raise ModelFileError(f"{error}; save the model again") from error
        space = ContextSpace(forest.n_labels, order) if isinstance(order, int) and 0 <= order <= 64 else None
        if (
            space is None
            or forest.order not in (0, order)
            or table.shape != _table_shape(space, contexts)
            or end.shape != (space.n_labels,)
            or np.isnan(table).any()
            or np.isnan(end).any()
            or (contexts is not None and (forest.order > 0 or np.isinf(table).any()))
        ):
            raise ModelFileError("the parts of the model file do not fit together; save the model again")
        layout = binner.layout
        n_slots = np.diff(layout.slot_start).astype(np.int64)
        forest.check_layout(layout.n_dense_features, n_slots, len(layout.sparse_offsets))
        of_linear = _part(arrays, "linear.")
        linear = LinearWeights.from_arrays(of_linear, binner, forest.n_labels) if of_linear else None
        return cls(binner, forest, table.astype(np.float64), end.astype(np.float64), order, contexts, linear)


def _table_shape(space: ContextSpace, contexts: SeenContexts | None) -> tuple[int, ...]:
    return (space.n_extended, space.n_labels) if contexts is None else (contexts.n_parameters,)


def _part(arrays: dict[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
