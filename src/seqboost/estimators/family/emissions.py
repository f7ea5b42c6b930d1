"""What labels emit: P(x_t | y_t), column by column, estimated by counting.

    P(x_t | k) = Π_j P(x_tj | k)
    category   P(v | k) = (n(k, v) + a) / (n(k) + a V)            V categories, a = smoothing
    number     normal, with mean and variance of the label        variances get a share of the column's largest one
    sparse     P(present | k) = (n(k, present) + a) / (n(k) + 2a)

These are scikit-learn's CategoricalNB, GaussianNB and BernoulliNB, with missing values left out of the product (as are
categories that training did not have).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from seqboost.core.exceptions import InputError
from seqboost.core.stored import Stored, part_of
from seqboost.features import FeatureBinner, category_lookup
from seqboost.sequences import SequenceBatch

__all__ = ["Emissions", "log_probabilities"]

VARIANCE_SHARE = 1e-9  # as GaussianNB's var_smoothing
LEAST_VARIANCE = 1e-12  # of columns that never change
LARGEST = 1e140  # its square, over the least variance and times any number of rows, is still a float
LARGEST_DISTANCE = 1e290  # from a mean, in variances
LEAST_LOG = -1e4  # log probability of a model file


@dataclass(frozen=True, eq=False)
class Emissions:
    """Laws of the columns given the label.

    Attributes
    ----------
    binner : FeatureBinner
        Knows the categories.
    category_scores : tuple of ndarray of float64, each (n_categories, K)
        log P(v | k) of each categorical column.
    mean, variance : ndarray of float64, shape (n_numeric, K)
        Of the numeric columns.
    present, absent : ndarray of float64, shape (n_sparse, K)
        log P(present | k) and log P(absent | k) of the sparse columns.
    """

    binner: FeatureBinner
    category_scores: tuple[NDArray[np.float64], ...]
    mean: NDArray[np.float64]
    variance: NDArray[np.float64]
    present: NDArray[np.float64]
    absent: NDArray[np.float64]

    @classmethod
    def fit(
        cls,
        batch: SequenceBatch,
        labels: NDArray[np.int32],
        row_weights: NDArray[np.float64],
        n_labels: int,
        smoothing: float,
    ) -> Emissions:
        """Count.

        Parameters
        ----------
        batch : SequenceBatch
            Training sequences.
        labels : ndarray of int32, shape (n_rows,)
            −1 = unobserved: such rows do not count.
        row_weights : ndarray of float64, shape (n_rows,)
        n_labels : int
            K.
        smoothing : float
            a, above 0.
        """
        _check_magnitude(batch)
        binner = FeatureBinner.fit(batch)
        seen = labels >= 0
        of_label = np.zeros((len(labels), n_labels))
        of_label[np.flatnonzero(seen), labels[seen]] = row_weights[seen]
        scores = []
        for j, known in enumerate(binner._category_codes):
            codes = _codes(batch, j, known)
            counts = np.zeros((len(known), n_labels))
            np.add.at(counts, codes[codes >= 0], of_label[codes >= 0])
            scores.append(_log_share(counts + smoothing, counts.sum(axis=0) + smoothing * len(known)))
        mean, variance = _moments(binner.numbers(batch), of_label)
        n_sparse = 0 if batch.sparse is None else batch.sparse.shape[1]
        present, absent = np.zeros((2, n_sparse, n_labels))
        if batch.sparse is not None:
            there = _presence(batch.sparse)
            count, total = there.T @ of_label, of_label.sum(axis=0)
            present = _log_share(count + smoothing, total + 2 * smoothing)
            absent = _log_share(np.maximum(total - count, 0.0) + smoothing, total + 2 * smoothing)
        return cls(binner, tuple(scores), mean, variance, present, absent)

    def scores(self, batch: SequenceBatch) -> NDArray[np.float64]:
        """Return log P(x_t | k), (n_rows, K)."""
        _check_magnitude(batch)
        total = np.zeros((batch.n_rows, self.mean.shape[1]))
        for j, (known, table) in enumerate(zip(self.binner._category_codes, self.category_scores, strict=True)):
            codes = _codes(batch, j, known)
            total[codes >= 0] += table[codes[codes >= 0]]
        for j, x in enumerate(self.binner.numbers(self.binner.filled(batch)).T):
            known_rows = ~np.isnan(x)
            with np.errstate(over="ignore"):
                distance = np.minimum((x[known_rows, None] - self.mean[j]) ** 2 / self.variance[j], LARGEST_DISTANCE)
            total[known_rows] -= 0.5 * (np.log(2 * np.pi) + np.log(self.variance[j]) + distance)
        if batch.sparse is not None:
            total += self.absent.sum(axis=0) + _presence(batch.sparse) @ (self.present - self.absent)
        return total

    def to_arrays(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return arrays and a header of plain values."""
        arrays, header = self.binner.to_arrays()
        arrays = {f"binner.{name}": array for name, array in arrays.items()}
        arrays |= {f"category_scores.{j}": table for j, table in enumerate(self.category_scores)}
        names = ("mean", "variance", "present", "absent")
        return arrays | {name: getattr(self, name) for name in names}, header

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]], header: dict[str, Any], n_labels: int) -> Emissions:
        """Rebuild; ModelFileError if the parts do not fit together."""
        binner = FeatureBinner.from_arrays(part_of(arrays, "binner."), header)
        stored = Stored("emissions", arrays)
        tables = tuple(
            log_probabilities(stored, f"category_scores.{j}", (len(values), n_labels), axis=0)
            for j, values in enumerate(binner.categories)
        )
        shape = (binner.threshold_start.size - 1, n_labels)
        mean = stored.array("mean", np.float64, shape)
        variance = stored.array("variance", np.float64, shape, low=0.5 * LEAST_VARIANCE)
        shape = (binner.indicators.feature_of.size, n_labels)
        present, absent = (stored.array(name, np.float64, shape, low=LEAST_LOG) for name in ("present", "absent"))
        stored.require(np.allclose(np.exp(present) + np.exp(absent), 1.0), "'present' and 'absent' do not sum to one")
        return cls(binner, tables, mean, variance, present, absent)


def log_probabilities(stored: Stored, name: str, shape: tuple[int, int], *, axis: int) -> NDArray[np.float64]:
    """Return an array of a model file that holds logarithms of probabilities, which sum to one along an axis."""
    table = stored.array(name, np.float64, shape, low=LEAST_LOG, high=1e-6)
    sums_to_one = not table.size or np.allclose(np.exp(table).sum(axis=axis), 1.0)
    stored.require(sums_to_one, f"the probabilities of {name!r} do not sum to one")
    return table


def _log_share(part: NDArray[np.float64], whole: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return log(part / whole), also where the ratio of huge and tiny numbers is not a float."""
    share: NDArray[np.float64] = np.log(part) - np.log(whole)
    return share


def _check_magnitude(batch: SequenceBatch) -> None:
    """Refuse numbers whose squares are no floats."""
    large = np.abs(batch.numeric) > np.float64(LARGEST)  # not NaN
    if large.any():
        row, j = np.unravel_index(int(np.argmax(large)), large.shape)
        name = [column.name for column in batch.schema.columns if column.kind == "numeric"][j]
        raise InputError(
            f"column {name!r} holds {batch.numeric[row, j]:.3g} at {batch.where(int(row))}, expected a number between "
            f"-{LARGEST:g} and {LARGEST:g}, since normal distributions square it; divide the column by a constant, "
            f"take logarithms, or pass NaN (missing)"
        )


def _codes(batch: SequenceBatch, j: int, known: dict[Any, int]) -> NDArray[np.int32]:
    """Return codes of a categorical column, −1 for missing and unknown categories."""
    return category_lookup(batch.categories[j], known, missing=-1, unknown=-1)[batch.categorical[:, j]]


def _presence(matrix: sp.csr_array) -> sp.csr_array:
    """Return 1 where a sparse matrix has an entry other than 0; a missing one counts as absent."""
    there = matrix.copy().astype(np.float64)
    there.data = ((there.data != 0) & ~np.isnan(there.data)).astype(np.float64)
    return there


def _moments(numeric: NDArray[np.float64], of_label: NDArray[np.float64]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return means and variances, (n_numeric, K); a label without a value has those of the column."""
    n_columns, n_labels = numeric.shape[1], of_label.shape[1]
    mean, variance = np.zeros((n_columns, n_labels)), np.ones((n_columns, n_labels))
    spread = 0.0
    for j in range(n_columns):
        x = numeric[:, j]
        known = ~np.isnan(x)
        if not known.any():
            continue
        weight, values = of_label[known], x[known]
        total = weight.sum(axis=0)
        spread = max(spread, float(values.var()))
        mean[j], variance[j] = values.mean(), values.var()
        used = total > 0
        mean[j, used] = (values @ weight)[used] / total[used]
        squares = ((values[:, None] - mean[j]) ** 2 * weight).sum(axis=0)
        variance[j, used] = squares[used] / total[used]
    return mean, np.maximum(variance + VARIANCE_SHARE * spread, LEAST_VARIANCE)
