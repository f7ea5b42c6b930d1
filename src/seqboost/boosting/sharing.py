"""One tree for all labels in a round, instead of one per label."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from seqboost.boosting.ensemble import TreeFitter, Trees
from seqboost.boosting.outputs import Outputs, SharedOutputs
from seqboost.boosting.sampling import Everything, Examples, Sample, Sampler
from seqboost.objectives import Derivatives
from seqboost.trees import DenseColumns, SharedGrower, Space, SparseColumns

__all__ = ["SharedTreeFitter"]


class SharedTreeFitter(TreeFitter):
    """Fits one tree for all labels to the derivatives; parameters as in :class:`TreeFitter`."""

    def _make_growers(self, dense: DenseColumns, sparse: SparseColumns, space: Space) -> None:
        self._grower = SharedGrower(dense, sparse, space, self.limits, self.n_threads)

    def n_trees(self, n_labels: int) -> int:
        """Return 1."""
        return 1

    def draw(
        self, sampler: Sampler, derivatives: Derivatives, examples: Examples, seeds: Sequence[int]
    ) -> list[Sample]:
        """Draw the one sample of a round, whose derivatives are (n_labels, n_rows, n_contexts).

        A sampler sees a position's cells of all labels side by side, like contexts, and no label.
        """
        gradient, hessian = derivatives.gradient, derivatives.hessian
        if isinstance(sampler, Everything):
            return [sampler.draw(gradient, hessian, -1, examples, np.random.default_rng(seeds[0]))]
        n_labels, n_rows, n_contexts = gradient.shape
        shape = (n_rows, n_labels * n_contexts)
        flat = np.moveaxis(gradient, 0, 1).reshape(shape)
        flat_hessian = np.moveaxis(hessian, 0, 1).reshape(shape)
        drawn = sampler.draw(flat, flat_hessian, -1, examples, np.random.default_rng(seeds[0]))
        if drawn.gradient is flat:
            return [drawn._replace(gradient=gradient, hessian=hessian)]
        weighted = [cells.reshape(n_rows, n_labels, n_contexts) for cells in (drawn.gradient, drawn.hessian)]
        gradient, hessian = (np.ascontiguousarray(np.moveaxis(cells, 1, 0)) for cells in weighted)
        return [drawn._replace(gradient=gradient, hessian=hessian)]

    def fit(self, samples: Sequence[Sample], seeds: Sequence[int]) -> tuple[Trees, tuple[Outputs, ...]]:
        """Grow the tree of one round, or of one of its bags: one sample and one seed."""
        (sample,) = samples
        tree, partition = self._grower.grow(
            sample.gradient, sample.hessian, sample.rows, sample.n_fitted, self.value, seeds[0]
        )
        return (tree,), (SharedOutputs(partition),)
