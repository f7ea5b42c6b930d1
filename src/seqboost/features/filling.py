"""Missing values that are filled in before anything else sees them: imputation and indicator features.

What stands for a missing value of a column, all of it learned from training sequences::

    policy         number                    category                sparse number (an explicit NaN)
    -----------    ----------------------    --------------------    -------------------------------
    impute         median                    most frequent one       median, absent entries being 0
    impute_mean    mean                      most frequent one       mean, absent entries being 0
    indicator      median, and column m      one of its own, and m   absent, and m

where m = 1 if the value is missing and 0 if not: a column of its own, with the window of its column. It exists if
training had missing values in the column; the trees could not learn anything from it otherwise.

Both work on the variables as the user has them, before categories become indicators and before windows: beyond the ends
of a sequence there is no row to fill, so the boundary is not missing. A column without any value in training stays
missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from seqboost.core.exceptions import InputError, ModelFileError
from seqboost.features.categories import NoValue, categories_from_json, categories_to_json, most_frequent
from seqboost.features.policies import DATA_POLICIES
from seqboost.sequences import SequenceBatch
from seqboost.sequences.batch import ColumnSchema
from seqboost.sequences.columns import narrowed

__all__ = ["Filler", "flag_name"]

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Filler:
    """What stands for missing values, column by column.

    Made by `fit` or `from_arrays`.

    Attributes
    ----------
    numbers : ndarray of shape (n_numeric,), dtype float64
        What missing numbers become; NaN = they stay missing.
    categories : tuple
        What missing values of each categorical column become; None = they stay missing.
    sparse_numbers : ndarray of shape (n_sparse,), dtype float64
        What explicit NaNs of each sparse column become; NaN = they stay missing.
    flagged : ndarray of shape (n_flagged,), dtype int32
        Columns, in the user's order, whose missing values are told by a column of their own; increasing.
    sparse_flagged : ndarray of shape (n_sparse_flagged,), dtype int32
        The same of sparse columns.
    """

    numbers: NDArray[np.float64]
    categories: tuple[Any, ...]
    sparse_numbers: NDArray[np.float64]
    flagged: NDArray[np.int32]
    sparse_flagged: NDArray[np.int32]

    @classmethod
    def fit(cls, batch: SequenceBatch, policies: Sequence[str]) -> Filler | None:
        """Learn from training sequences what stands for missing values; None if no column asks for it.

        Parameters
        ----------
        batch : SequenceBatch
            Training sequences.
        policies : sequence of str
            One of `POLICIES` for each column; one more for the sparse columns, if there are any.
        """
        if not set(policies) & set(DATA_POLICIES):
            return None
        numbers: list[float] = []
        categories: list[Any] = []
        flagged: list[int] = []
        for i, column in enumerate(batch.schema.columns):
            if column.kind == "categorical":
                codes = batch.categorical[:, len(categories)]
                missing = codes < 0
                categories.append(_category(policies[i], codes, batch.categories[len(categories)]))
            else:
                values = batch.numeric[:, len(numbers)]
                missing = np.isnan(values)
                numbers.append(_number(policies[i], values[~missing]))
            if policies[i] == "indicator" and missing.any():
                flagged.append(i)
        sparse_numbers, sparse_flagged = _sparse_numbers(batch.sparse, policies[-1])
        return cls(
            np.array(numbers, dtype=np.float64), tuple(categories), sparse_numbers, np.array(flagged, dtype=np.int32),
            sparse_flagged,
        )  # fmt: skip

    def fill(self, batch: SequenceBatch, *, exact: bool = True) -> SequenceBatch:
        """Return the batch with its missing values filled in and the columns that tell of them at its end.

        Unless ``exact``, what stands for missing values is rounded to float32 in a batch of float32.
        """
        self._check_columns(batch)
        n_numeric = len(self.numbers)
        dtype = np.result_type(batch.numeric, narrowed(self.numbers)) if exact else batch.numeric.dtype
        numeric = np.empty((batch.n_rows, n_numeric + len(self.flagged)), dtype=dtype)
        numeric[:, :n_numeric] = batch.numeric
        with np.errstate(over="ignore"):  # training may have had larger numbers than this batch's precision holds
            numbers = self.numbers.astype(numeric.dtype)
        for j in np.flatnonzero(~np.isnan(numbers)).tolist():
            column = numeric[:, j]
            column[np.isnan(column)] = numbers[j]
        numeric[:, n_numeric:] = self._flags(batch)
        codes, categories = batch.categorical.copy(), list(batch.categories)
        for j, value in enumerate(self.categories):
            missing = codes[:, j] < 0
            if value is not None and missing.any():
                codes[missing, j], categories[j] = _place(value, categories[j])
        sparse, names = self._fill_sparse(batch)
        added = tuple(ColumnSchema(flag_name(batch.schema.columns[i].name), "numeric") for i in self.flagged)
        schema = replace(batch.schema, columns=(*batch.schema.columns, *added), sparse_names=names)
        return replace(
            batch, numeric=numeric, categorical=codes, categories=tuple(categories), sparse=sparse,
            schema=schema,
        )  # fmt: skip

    def spread(self, of_columns: Sequence[T], flag: T | None = None) -> tuple[T, ...]:
        """Give what is said of each column, and last of the sparse ones, to the columns of a filled batch.

        Those that tell of missing values take ``flag``, or what their column has.
        """
        added = [of_columns[i] if flag is None else flag for i in self.flagged]
        return (*of_columns[:-1], *added, of_columns[-1])

    @property
    def n_columns(self) -> int:
        """Number of dense columns of the batches that are filled."""
        return len(self.numbers) + len(self.categories)

    def _flags(self, batch: SequenceBatch) -> NDArray[np.bool_]:
        """Where the flagged columns are missing, (n_rows, n_flagged)."""
        flags = np.zeros((batch.n_rows, len(self.flagged)), dtype=np.bool_)
        is_category = [column.kind == "categorical" for column in batch.schema.columns]
        for f, i in enumerate(self.flagged):
            j = is_category[:i].count(is_category[i])
            flags[:, f] = batch.categorical[:, j] < 0 if is_category[i] else np.isnan(batch.numeric[:, j])
        return flags

    def _fill_sparse(self, batch: SequenceBatch) -> tuple[sp.csr_array | None, tuple[str, ...]]:
        names, sparse = batch.schema.sparse_names, batch.sparse
        if sparse is None:
            return None, names
        missing = np.isnan(sparse.data)
        data = np.where(missing, self.sparse_numbers[sparse.indices], sparse.data)
        kept = ~missing | (data != 0)  # what becomes 0 is absent, unlike a 0 that was there
        indptr = np.concatenate([[0], np.cumsum(kept)])[sparse.indptr]
        filled = sp.csr_array((data[kept], sparse.indices[kept], indptr), shape=sparse.shape)
        if len(self.sparse_flagged) == 0:
            return filled, names
        flags = sp.csr_array((missing.astype(filled.dtype), sparse.indices, sparse.indptr), shape=sparse.shape)
        flags = flags[:, self.sparse_flagged]
        flags.eliminate_zeros()
        added = tuple(flag_name(names[column]) for column in self.sparse_flagged)
        return sp.csr_array(sp.hstack([filled, flags], format="csr")), (*names, *added)

    def _check_columns(self, batch: SequenceBatch) -> None:
        n_sparse = 0 if batch.sparse is None else batch.sparse.shape[1]
        came = (batch.numeric.shape[1], batch.categorical.shape[1], n_sparse)
        expected = (len(self.numbers), len(self.categories), len(self.sparse_numbers))
        if came != expected:
            raise InputError(
                f"X has {came[0]} numeric, {came[1]} categorical and {came[2]} indicator columns, but the model was "
                f"trained with {expected[0]}, {expected[1]} and {expected[2]}; make the batch with the schema of the "
                f"training data."
            )

    # ------------------------------------------------------------------------------------------------ model file

    def to_arrays(self, names: Sequence[str]) -> tuple[dict[str, NDArray[Any]], list[Any]]:
        """Return arrays by name, and what categories become as plain JSON values; `names`: of categorical columns."""
        arrays = {name: getattr(self, name) for name in ARRAYS}
        categories = [
            None if value is None else categories_to_json([value], name)[0]
            for value, name in zip(self.categories, names, strict=True)
        ]
        return arrays, categories

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]], categories: list[Any]) -> Filler:
        """Rebuild from what `to_arrays` gave; ModelFileError if something is lacking or makes no sense."""
        for name, dtype in ARRAYS.items():
            if name not in arrays or arrays[name].dtype != np.dtype(dtype) or arrays[name].ndim != 1:
                raise _damaged(f"{name!r} is not there, or is not one row of {np.dtype(dtype)}")
        if not isinstance(categories, list):
            raise _damaged(f"its categories are {categories!r:.60}, expected a list")
        values = tuple(None if value is None else categories_from_json([value])[0] for value in categories)
        filler = cls(categories=values, **{name: arrays[name] for name in ARRAYS})
        limits = ((filler.flagged, filler.n_columns), (filler.sparse_flagged, len(filler.sparse_numbers)))
        for flagged, n_columns in limits:
            if flagged.size and (flagged.min() < 0 or flagged.max() >= n_columns or (np.diff(flagged) <= 0).any()):
                raise _damaged("it tells of missing values in columns that there are not")
        if np.isinf(filler.numbers).any() or np.isinf(filler.sparse_numbers).any():
            raise _damaged("a number that stands for missing ones is infinite")
        return filler


ARRAYS: dict[str, type[np.generic]] = {
    "numbers": np.float64,
    "sparse_numbers": np.float64,
    "flagged": np.int32,
    "sparse_flagged": np.int32,
}


def flag_name(name: str) -> str:
    """Name of the column that tells where another is missing."""
    return f"{name} is missing"


def _damaged(complaint: str) -> ModelFileError:
    return ModelFileError(f"The model file's filling of missing values makes no sense: {complaint}; save it again.")


def _number(policy: str, present: NDArray[np.floating]) -> float:
    """Return what stands for a missing number, NaN for nothing."""
    if policy not in DATA_POLICIES or present.size == 0:
        return np.nan
    return _mean(present, present.size) if policy == "impute_mean" else _median(present)


def _median(values: NDArray[np.floating]) -> float:
    middle = np.sort(values)[[(values.size - 1) // 2, values.size // 2]].astype(np.float64)
    return float(0.5 * middle[0] + 0.5 * middle[1])  # halved first: the sum of two huge values would overflow


def _mean(values: NDArray[np.floating], count: int) -> float:
    """Sum of the values over `count`, which may be larger: zeros that are not there."""
    largest = float(np.abs(values).max(initial=0.0)) or 1.0
    return float((values.astype(np.float64) / largest).sum() / count) * largest  # a sum of huge values would overflow


def _category(policy: str, codes: NDArray[np.int32], categories: NDArray[Any]) -> Any:
    """Return what stands for a missing category, None for nothing."""
    if policy not in DATA_POLICIES:
        return None
    return NoValue.MISSING if policy == "indicator" else most_frequent(codes, categories)


def _sparse_numbers(sparse: sp.csr_array | None, policy: str) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    """Return what stands for missing sparse values, and which columns tell of them."""
    if sparse is None:
        return np.empty(0), np.empty(0, dtype=np.int32)
    n_rows, n_columns = sparse.shape
    fills = np.full(n_columns, np.nan if policy not in DATA_POLICIES else 0.0)
    missing = np.isnan(sparse.data)
    n_missing = np.bincount(sparse.indices[missing], minlength=n_columns)
    affected = np.flatnonzero(n_missing)
    if policy == "indicator":
        return fills, affected.astype(np.int32)
    if policy in DATA_POLICIES:
        # Columns without missing values in training take the number as well: there may be some at prediction.
        by_column = sparse.tocsc()
        for column in range(n_columns):
            stored = by_column.data[by_column.indptr[column] : by_column.indptr[column + 1]]
            present, n_present = stored[~np.isnan(stored)], n_rows - int(n_missing[column])
            if n_present > 0:
                of = _mean if policy == "impute_mean" else _sparse_median
                fills[column] = of(present, n_present)
    return fills, np.empty(0, dtype=np.int32)


def _sparse_median(stored: NDArray[np.floating], n_present: int) -> float:
    """Median of the stored values and as many zeros as make `n_present` of them."""
    if 2 * np.count_nonzero(stored) < n_present:
        return 0.0
    return _median(np.concatenate([stored, np.zeros(n_present - stored.size, dtype=stored.dtype)]))


def _place(value: Any, categories: NDArray[Any]) -> tuple[int, NDArray[Any]]:
    """Find a category's code, and the categories with it among them."""
    for code, known in enumerate(categories):
        if known == value:
            return code, categories
    longer = np.empty(len(categories) + 1, dtype=object)
    longer[:-1], longer[-1] = categories, value
    return len(categories), longer
