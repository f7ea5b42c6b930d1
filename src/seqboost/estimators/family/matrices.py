"""Windows as a matrix, one row per position, for classifiers that know nothing of sequences.

Two encodings::

    codes        dense: numbers as they are, categories as codes; beyond the end of the sequence numbers are NaN, and
                 categories have a code of their own. For histogram trees, which take NaN and know categories
    indicators   sparse: standardised numbers and indicators, every entry finite. For everything else
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from seqboost.core.offsets import position_bounds
from seqboost.features import CATEGORICAL, FeatureBinner, category_lookup
from seqboost.linear import LinearColumns, LinearRows
from seqboost.sequences import SequenceBatch

__all__ = ["CodeWindows", "IndicatorWindows", "WindowMatrix", "indicator_matrix", "neighbours", "with_columns"]

MAX_CODE = 252  # of categories: HistGradientBoosting takes 255 values, and "beyond the end" is one of them


def neighbours(offsets: NDArray[np.int64], shift: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return row t + shift for each row t, and whether it lies in the same sequence (if not: row t itself)."""
    rows = np.arange(offsets[-1])
    begin, stop = position_bounds(offsets)
    inside = (rows + shift >= begin) & (rows + shift < stop)
    return np.where(inside, rows + shift, rows), inside


def indicator_matrix(columns: LinearColumns, rows: LinearRows) -> sp.csr_array:
    """Return all features of a linear model as a matrix, (n_rows, n_features)."""
    n_pairs = np.diff(rows.indptr)
    row_of_pair = np.repeat(np.arange(rows.n_rows), n_pairs)
    known = rows.column >= 0
    at, feature, value = [], [], []
    for o, shift in enumerate(columns.offsets.tolist()):
        # Row r is what row r − shift sees at this offset.
        seer, inside = neighbours(rows.offsets, -shift)
        number = np.where(known, columns.feature_of[o, rows.column], -1)
        taken = (number >= 0) & inside[row_of_pair]
        at.append(seer[row_of_pair[taken]])
        feature.append(number[taken].astype(np.int64))
        value.append(rows.value[taken])
        if columns.boundary[o] >= 0:
            beyond = np.flatnonzero(~neighbours(rows.offsets, shift)[1])
            at.append(beyond)
            feature.append(np.full(len(beyond), columns.boundary[o], dtype=np.int64))
            value.append(np.ones(len(beyond), dtype=np.float32))
    shape = (rows.n_rows, columns.n_features)
    where = np.concatenate(at).astype(np.int32), np.concatenate(feature).astype(np.int32)  # trees take no others
    return sp.coo_array((np.concatenate(value), where), shape=shape).tocsr()


@dataclass(frozen=True, eq=False)
class CodeWindows:
    """Windows as numbers and codes of categories.

    Attributes
    ----------
    binner : FeatureBinner
        Knows the windows.
    codes : tuple of dict
        Code of each category of each categorical column; the rarest of very many have none, and count as missing.
    """

    binner: FeatureBinner
    codes: tuple[dict[Any, int], ...]

    @classmethod
    def fit(cls, batch: SequenceBatch, binner: FeatureBinner) -> CodeWindows:
        """Give codes to the categories of training sequences, in order of their frequency."""
        codes = []
        for j, values in enumerate(batch.categories):
            seen = batch.categorical[batch.categorical[:, j] >= 0, j]
            frequent = np.argsort(-np.bincount(seen, minlength=len(values)), kind="stable")[:MAX_CODE]
            codes.append({values[v]: code for code, v in enumerate(frequent.tolist())})
        return cls(binner, tuple(codes))

    @property
    def is_category(self) -> NDArray[np.bool_]:
        """Which columns of the matrix hold codes."""
        kinds, windows = self.binner.column_kinds, self.binner.windows
        dense = [np.full(len(w), kind == CATEGORICAL) for kind, w in zip(kinds, windows[:-1], strict=True)]
        n_sparse = len(self.binner.indicators.feature_of) * len(windows[-1])
        return np.concatenate([*dense, np.zeros(n_sparse, dtype=bool)])

    def transform(self, batch: SequenceBatch) -> NDArray[np.float64]:
        """Return the matrix, (n_rows, n_columns)."""
        binner, columns = self.binner, []
        numbers = iter(binner.numbers(binner.filled(batch)).T)
        categorical = 0
        for kind, window in zip(binner.column_kinds, binner.windows[:-1], strict=True):
            if kind == CATEGORICAL:
                known = self.codes[categorical]
                codes = category_lookup(batch.categories[categorical], known, missing=-1, unknown=-1)
                lookup = np.where(codes < 0, np.nan, codes)  # unknown categories count as missing
                values, beyond = lookup[batch.categorical[:, categorical]], float(len(known))
                categorical += 1
            else:
                values, beyond = next(numbers), np.nan
            for shift in window.tolist():
                row, inside = neighbours(batch.offsets, shift)
                columns.append(np.where(inside, values[row], beyond))
        parts = [np.column_stack(columns)] if columns else []
        if batch.sparse is not None:
            for shift in binner.windows[-1].tolist():
                row, inside = neighbours(batch.offsets, shift)
                parts.append(np.where(inside[:, None], batch.sparse[row].toarray(), 0.0))
        return np.hstack(parts) if parts else np.empty((batch.n_rows, 0))


@dataclass(frozen=True, eq=False)
class IndicatorWindows:
    """Windows as indicators and standardised numbers.

    Attributes
    ----------
    columns : LinearColumns
        The features.
    """

    columns: LinearColumns

    @property
    def is_category(self) -> NDArray[np.bool_]:
        """Which columns of the matrix hold codes: none."""
        return np.zeros(self.columns.n_features, dtype=bool)

    def transform(self, batch: SequenceBatch) -> sp.csr_array:
        """Return the matrix, (n_rows, n_columns)."""
        return indicator_matrix(self.columns, self.columns.transform(batch))


WindowMatrix = CodeWindows | IndicatorWindows


def with_columns(matrix: Any, extra: NDArray[np.float64]) -> Any:
    """Return a matrix with columns added at its end."""
    if sp.issparse(matrix):
        return sp.hstack([matrix, sp.csr_array(extra)]).tocsr()
    return np.hstack([matrix, extra])
