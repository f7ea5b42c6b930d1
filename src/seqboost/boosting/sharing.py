"""One tree for all labels in a round, instead of one per label."""

from __future__ import annotations

from collections.abc import Sequence

from seqboost.boosting.ensemble import TreeFitter, Trees
from seqboost.boosting.outputs import Outputs, SharedOutputs
from seqboost.boosting.sampling import Examples, Sample, Sampler
from seqboost.core.compiler import wait
from seqboost.core.contexts import Space
from seqboost.objectives import Derivatives
from seqboost.trees import DenseColumns, SharedSampleGrower, SparseColumns, shared_grower

__all__ = ["SharedTreeFitter"]


class SharedTreeFitter(TreeFitter):
    """Fits one tree for all labels to the derivatives; parameters as in :class:`TreeFitter`."""

    def _make_growers(self, dense: DenseColumns, sparse: SparseColumns, space: Space) -> None:
        grower = shared_grower(dense, sparse, space, self.limits, self.policies, self.n_threads)
        self._grower = SharedSampleGrower(grower)

    def n_trees(self, n_labels: int) -> int:
        """Return 1."""
        return 1

    def draw(
        self, sampler: Sampler, derivatives: Derivatives, examples: Examples, seeds: Sequence[int]
    ) -> list[Sample]:
        """Draw the one sample of a round, whose derivatives are (n_labels, n_rows, n_contexts).

        A sampler sees the cells of all labels, and none that the tree is for.
        """
        return [sampler.draw(derivatives.gradient, derivatives.hessian, -1, examples, seeds[0])]

    def fit(self, samples: Sequence[Sample], seeds: Sequence[int]) -> tuple[Trees, tuple[Outputs, ...]]:
        """Grow the tree of one round, or of one of its bags: one sample and one seed."""
        wait()  # for the kernels of the first fit of all
        (sample,) = samples
        tree, partition = self._grower.grow(*sample, self.value, seeds[0])
        return (tree,), (SharedOutputs(partition),)
