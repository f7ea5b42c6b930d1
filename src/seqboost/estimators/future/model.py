"""The fitted model of future features: everything prediction needs, and its arrays in a model file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqboost.chain import Potentials, locally_normalised
from seqboost.core.contexts import ContextSpace
from seqboost.core.parameters import Rule, integer, one_of, real
from seqboost.core.stored import Stored
from seqboost.features import FeatureBinner, FeatureLayout
from seqboost.model import Forest, forest_scores
from seqboost.objectives import Bags
from seqboost.sequences import BatchSchema, SequenceBatch
from seqboost.trees.tree import SPARSE

__all__ = ["LASTING", "FutureModel", "FuturePattern"]

LASTING: dict[str, Rule] = {
    "order": integer(0, 8),
    "bag_size": integer(1, 2**31 - 1, none=True),
    "direction": one_of("future", "past", "both"),
    "pattern_start": real(-30.0, 0.0),
}
"""Of these parameters the model is made: prediction asks for them."""


@dataclass(frozen=True)
class FuturePattern:
    """What a pattern is, for people.

    Attributes
    ----------
    effect : dict
        η of each label: what a bag that surely holds the pattern adds to the label's score.
    importances : dict of str to float
        Window features that tell the pattern, by the gain of their splits; the largest first.
    """

    effect: dict[Any, float]
    importances: dict[str, float] = field(repr=False)


@dataclass(frozen=True, eq=False)
class FutureModel:
    """Both levels, as they were after the last round.

    Attributes
    ----------
    binner : FeatureBinner
        Of the user's columns, which patterns look at.
    level_binner : FeatureBinner
        Of the user's columns and the patterns'.
    forest : Forest
        Trees of level 1.
    table : ndarray of float64, shape (n_extended, n_labels)
        Scores of labels after contexts.
    patterns : tuple of Forest
        G of each pattern.
    effects : ndarray of float64, shape (n_patterns, n_labels)
        η of each pattern.
    names : tuple of str
        Of the columns of level 1 that are kept for patterns, found patterns first.
    fitted : dict
        Parameters that prediction rests on, as they were in fit: those of ``LASTING``.
    """

    binner: FeatureBinner
    level_binner: FeatureBinner
    forest: Forest
    table: NDArray[np.float64]
    patterns: tuple[Forest, ...]
    effects: NDArray[np.float64]
    names: tuple[str, ...]
    fitted: dict[str, Any]

    def pattern_scores(self, batch: SequenceBatch, n_threads: int) -> NDArray[np.float32]:
        """Return G of all patterns at all positions, (n_rows, n_patterns)."""
        binned = self.binner.transform(batch, n_threads=n_threads)
        start = np.full((1, binned.n_rows, 1), self.fitted["pattern_start"], dtype=np.float32)
        scores = [forest_scores(forest, binned, n_threads, start=start).reshape(-1) for forest in self.patterns]
        return np.stack(scores, axis=1) if scores else np.zeros((binned.n_rows, 0), dtype=np.float32)

    def future_features(self, batch: SequenceBatch, n_threads: int) -> NDArray[np.float64]:
        """Return Q of all patterns at all positions, (n_rows, n_patterns)."""
        scores = self.pattern_scores(batch, n_threads)
        bags = Bags(batch.offsets, self.fitted["bag_size"], self.fitted["direction"])
        found = [bags.probabilities(scores[:, i]) for i in range(scores.shape[1])]
        return np.stack(found, axis=1) if found else np.zeros(scores.shape)

    def potentials(self, batch: SequenceBatch, n_threads: int) -> Potentials:
        """Return log P(y_t | context, X) of all labels and contexts."""
        features = self.future_features(batch, n_threads)
        columns = np.zeros((batch.n_rows, len(self.names)))
        columns[:, : features.shape[1]] = features
        binned = self.level_binner.transform(batch.with_numbers(self.names, columns), n_threads=n_threads)
        start = (features @ self.effects).T[:, :, None].astype(np.float32)
        scores = forest_scores(self.forest, binned, n_threads, start=start)
        return locally_normalised(Potentials(scores, self.table, batch.offsets, self.fitted["order"]))

    def described(self, classes: list[Any]) -> list[FuturePattern]:
        """Return the patterns, for people."""
        return [
            FuturePattern(dict(zip(classes, effect.tolist(), strict=True)), _importances(forest, self.binner.layout))
            for forest, effect in zip(self.patterns, self.effects, strict=True)
        ]

    def to_arrays(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return the model as arrays and a header of plain values."""
        arrays, header = {"table": self.table, "effects": self.effects}, {}
        parts: dict[str, Any] = {"binner": self.binner, "level_binner": self.level_binner}
        for name, binner in parts.items():
            found, header[name] = binner.to_arrays()
            arrays |= {f"{name}.{key}": array for key, array in found.items()}
        forests = {"forest": self.forest} | {f"pattern{i}": forest for i, forest in enumerate(self.patterns)}
        for name, forest in forests.items():
            arrays |= {f"{name}.{key}": array for key, array in forest.to_arrays().items()}
        return arrays, {**header, "names": list(self.names), "fitted": self.fitted}

    @classmethod
    def from_arrays(
        cls, arrays: dict[str, NDArray[Any]], header: dict[str, Any], schema: BatchSchema, n_labels: int
    ) -> FutureModel:
        """Rebuild what :meth:`to_arrays` gave; ValueError if its parts do not fit together."""
        stored = Stored("patterns", arrays, header)
        names = stored.texts("names")
        binner, level_binner = (
            FeatureBinner.from_arrays(_part(arrays, name), stored.field(name, dict))
            for name in ("binner", "level_binner")
        )
        binner.check_schema(schema)
        level_binner.check_schema(schema, len(names))
        effects = stored.scores("effects", (None, n_labels))
        stored.require(len(effects) <= len(names), f"there are {len(effects)} of them, but {len(names)} columns")
        stored.require(f"pattern{len(effects)}.shape" not in arrays, "one has no effect")
        forest = Forest.from_arrays(_part(arrays, "forest"))
        patterns = tuple(Forest.from_arrays(_part(arrays, f"pattern{i}")) for i in range(len(effects)))
        fitted = {name: stored.field("fitted", dict)[name] for name in LASTING}
        shape = (ContextSpace(n_labels, fitted["order"]).n_extended, n_labels)
        table = stored.scores("table", shape)
        same = forest.n_labels == n_labels and forest.order in (0, fitted["order"])
        stored.require(same, "the trees are those of other labels")
        one_score = all(trees.n_labels == 1 and trees.order == 0 and not trees.is_shared for trees in patterns)
        stored.require(one_score, "the trees of a pattern have more than one score")
        for trees, layout in [(forest, level_binner.layout), *((trees, binner.layout) for trees in patterns)]:
            n_slots = np.diff(layout.slot_start).astype(np.int64)
            trees.check_layout(layout.n_dense_features, n_slots, len(layout.sparse_offsets))
        return cls(binner, level_binner, forest, table, patterns, effects, names, fitted)


def _part(arrays: dict[str, NDArray[Any]], name: str) -> dict[str, NDArray[Any]]:
    """Return the arrays of one part of a model file."""
    found = {key.partition(".")[2]: array for key, array in arrays.items() if key.partition(".")[0] == name}
    if not found:
        raise ValueError(f"there is no {name}")
    return found


def _importances(forest: Forest, layout: FeatureLayout) -> dict[str, float]:
    """Return the gain of each window feature that is used, largest first."""
    place = forest.feature + np.where(forest.kind == SPARSE, layout.n_dense_features, 0)
    used, of_split = np.unique(place, return_inverse=True)
    gains = np.bincount(of_split, weights=forest.gain, minlength=len(used))
    return {layout.feature_name(int(used[i])): float(gains[i]) for i in np.argsort(-gains, kind="stable")}
