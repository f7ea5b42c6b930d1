"""The binner: learns bins, categories and slots from training sequences, and turns any batch into binned rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqboost.core.exceptions import InputError, ModelFileError, ParameterError
from seqboost.core.missing import DIRECTION, INSTANCE_WEIGHTING, SURROGATE
from seqboost.core.offsets import starts_of
from seqboost.core.stored import MAX_CELLS, Stored, part_of
from seqboost.core.threads import run_tasks
from seqboost.features.binning import (
    MAX_NUMERIC_BINS,
    encode_numeric,
    find_thresholds,
    first_rounded_to,
    last_rounded_to,
    not_in_single,
    rise_within,
    single_of,
    threshold_table,
)
from seqboost.features.categories import (
    MAX_DENSE_CATEGORIES,
    categories_from_json,
    categories_to_json,
    category_lookup,
    seen_categories,
)
from seqboost.features.filling import Filler
from seqboost.features.indicators import IndicatorCoder
from seqboost.features.layout import CATEGORICAL, NUMERIC, ORDERED, SUBSET, DenseColumn, FeatureLayout, SparseColumns
from seqboost.features.rows import BinnedRows, n_padded_rows, pad_rows
from seqboost.features.slots import RowSlots, padded_slots
from seqboost.features.windows import MAX_OFFSET, SPARSE_KEY, Offsets, parse_window
from seqboost.sequences import BatchSchema, SequenceBatch

__all__ = ["FeatureBinner"]

ROWS_PER_TASK = 16_384
FORMAT = 1  # of `to_arrays`
POLICIES = (DIRECTION, INSTANCE_WEIGHTING, SURROGATE)


@dataclass(frozen=True, eq=False)
class FeatureBinner:
    """Turns the columns of a batch into codes and slots.

    Made by `fit` or `from_arrays`.

    Attributes
    ----------
    column_names : tuple of str
        Columns, in the user's order.
    column_kinds : ndarray of shape (n_columns,), dtype uint8
        NUMERIC or CATEGORICAL.
    thresholds : ndarray, dtype float64
        Thresholds of all numeric columns, one column after the other.
    threshold_start : ndarray of shape (n_numeric + 1,), dtype int64
        Where those of each numeric column begin.
    categories : tuple of tuple
        Categories of each categorical column; a category's code is its place.
    indicators : IndicatorCoder
        Slots of the sparse columns.
    indicator_names : tuple of str
        Names of the sparse columns that were kept.
    windows : tuple of ndarray
        Offsets of each column, then those of the sparse columns.
    policies : ndarray of shape (n_columns + 1,), dtype uint8
        What trees do about missing values of each column, then of the sparse columns: DIRECTION, INSTANCE_WEIGHTING or
        SURROGATE.
    filler : Filler or None
        What stands for missing values; None if they stay missing. All else is said of the columns it gives.
    between : bool
        Whether thresholds lie where float32 and float64 agree, but for columns that need float64; those of models of
        earlier versions do not.
    """

    column_names: tuple[str, ...]
    column_kinds: NDArray[np.uint8]
    thresholds: NDArray[np.float64]
    threshold_start: NDArray[np.int64]
    categories: tuple[tuple[Any, ...], ...]
    indicators: IndicatorCoder
    indicator_names: tuple[str, ...]
    windows: tuple[Offsets, ...]
    policies: NDArray[np.uint8]
    filler: Filler | None = None
    between: bool = True

    # ------------------------------------------------------------------------------------------------- learning

    @classmethod
    def fit(
        cls,
        batch: SequenceBatch,
        *,
        max_bins: int = 255,
        window: Any = 0,
        min_count: int = 1,
        filler: Filler | None = None,
        n_threads: int = 1,
        missing: Sequence[int] | None = None,
    ) -> FeatureBinner:
        """Learn bins, categories and slots from training sequences.

        Parameters
        ----------
        batch : SequenceBatch
            Training sequences.
        max_bins : int, default=255
            Largest number of bins of a numeric column, 2..255; at most 254 are ever made, because "missing" and
            "boundary" have codes of their own. Does not touch categorical columns.
        window : int, tuple, list or dict, default=0
            Neighbouring positions to look at; see `parse_window`.
        min_count : int, default=1
            Indicators seen in fewer rows than this are dropped.
        filler : Filler or None, default=None
            What stands for missing values, fitted to the same sequences. Bins are those of the numbers that are there.
        n_threads : int, default=1
        missing : sequence of int, optional
            What trees do about missing values of each column (of the filled batch), then of the sparse columns (present
            or not): DIRECTION (all, by default), INSTANCE_WEIGHTING or SURROGATE.

        Returns
        -------
        FeatureBinner
        """
        _check_integer("max_bins", max_bins, 2, 255)
        _check_integer("min_count", min_count, 1, None)
        if batch.offsets[-1] == 0:
            raise InputError("X has no rows; at least one sequence with one position is needed to fit.")
        keys = [column.name for column in batch.schema.columns] + [SPARSE_KEY] * (batch.sparse is not None)
        windows = parse_window(window, keys)
        if batch.sparse is None:
            windows = (*windows, np.zeros(1, dtype=np.int32))
        numbers = list(batch.numeric.T)
        if filler is not None:
            batch, windows = filler.fill(batch), filler.spread(windows)
            numbers += list(batch.numeric.T[len(numbers) :])
        names = tuple(column.name for column in batch.schema.columns)
        kinds = [CATEGORICAL if column.kind == "categorical" else NUMERIC for column in batch.schema.columns]
        n_bins = min(max_bins, MAX_NUMERIC_BINS)
        cuts = run_tasks(find_thresholds, [(column, n_bins) for column in numbers], n_threads)
        indicators = IndicatorCoder.fit(batch.sparse, n_bins, min_count)
        policies = _policies(missing, len(names) + 1)
        return cls(
            column_names=names,
            column_kinds=np.array(kinds, dtype=np.uint8),
            thresholds=np.concatenate([np.empty(0), *cuts]),
            threshold_start=starts_of([cut.size for cut in cuts]),
            categories=tuple(
                seen_categories(batch.categorical[:, j], values) for j, values in enumerate(batch.categories)
            ),
            indicators=indicators,
            indicator_names=tuple(batch.schema.sparse_names[column] for column in indicators.kept),
            windows=windows,
            policies=policies,
            filler=filler,
        )

    # --------------------------------------------------------------------------------------------------- layout

    @cached_property
    def layout(self) -> FeatureLayout:
        """Where window features are found; shared by all rows this binner makes."""
        kinds, offsets = self.column_kinds, self.windows
        n_values = np.empty(kinds.size, dtype=np.int64)
        n_values[kinds == NUMERIC] = np.diff(self.threshold_start) + 1
        n_values[kinds == CATEGORICAL] = [max(len(values), 1) for values in self.categories]
        wide = (kinds == CATEGORICAL) & (n_values > MAX_DENSE_CATEGORIES)
        dense = [
            DenseColumn(self.column_names[i], int(kinds[i]), int(n_values[i]), offsets[i], int(self.policies[i]))
            for i in np.flatnonzero(~wide)
        ]
        n_wide, n_indicators = int(np.count_nonzero(wide)), self.indicators.n_features
        sparse = SparseColumns(
            names=(*(self.column_names[i] for i in np.flatnonzero(wide)), *self.indicator_names),
            n_slots=np.concatenate([n_values[wide] + 2, self.indicators.n_slots]).astype(np.int32),
            kind=np.repeat(np.array([SUBSET, ORDERED], dtype=np.uint8), [n_wide, n_indicators]),
            absent_rank=np.concatenate([np.zeros(n_wide, dtype=np.int32), self.indicators.n_negative]),
            missing=np.concatenate([n_values[wide], self.indicators.missing_slot]).astype(np.int32),
            wide_offsets=tuple(offsets[i] for i in np.flatnonzero(wide)),
            indicator_offsets=offsets[-1],
            policy=np.concatenate([self.policies[:-1][wide], np.repeat(self.policies[-1:], n_indicators)]),
        )
        return FeatureLayout.build(dense, sparse)

    @cached_property
    def _targets(self) -> NDArray[np.int64]:
        """Column of the codes that each column goes to; ~s for those that are sparse feature s instead."""
        target = np.empty(self.column_kinds.size, dtype=np.int64)
        n_dense = n_wide = categorical = 0
        for i, kind in enumerate(self.column_kinds):
            wide = False
            if kind == CATEGORICAL:
                wide = len(self.categories[categorical]) > MAX_DENSE_CATEGORIES
                categorical += 1
            target[i] = ~n_wide if wide else n_dense
            n_wide, n_dense = n_wide + wide, n_dense + (not wide)
        return target

    @cached_property
    def _table(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        return threshold_table(self.thresholds, self.threshold_start)

    @cached_property
    def _doubles(self) -> dict[int, NDArray[np.float64]]:
        """Thresholds of the numeric columns that need float64, by number among the numeric columns."""
        return not_in_single(self.thresholds, self.threshold_start) if self.between else {}

    @cached_property
    def _sparse_doubles(self) -> dict[int, NDArray[np.float64]]:
        """The same of sparse columns, by number among these."""
        coder, kept = self.indicators, self.indicators.kept
        doubles = not_in_single(coder.thresholds, coder.threshold_start) if self.between else {}
        return {int(kept[feature]): thresholds for feature, thresholds in doubles.items()}

    @cached_property
    def _category_codes(self) -> tuple[dict[Any, int], ...]:
        return tuple({value: code for code, value in enumerate(values)} for values in self.categories)

    @cached_property
    def _boundary_row(self) -> NDArray[np.uint8]:
        """Boundary codes, one per column of the codes (n_dense,)."""
        boundary = np.empty(self.layout.n_dense, dtype=np.uint8)
        boundary[self.layout.column] = self.layout.n_values + 1
        return boundary

    # ----------------------------------------------------------------------------------------------- transforming

    def filled(self, batch: SequenceBatch) -> SequenceBatch:
        """Return the batch with what stands for missing values: the columns that all else is said of.

        Numbers that may be wrong because they came as float32 are refused.
        """
        self._refuse_rounded(batch)
        return batch if self.filler is None else self.filler.fill(batch, exact=self.between)

    def numbers(self, batch: SequenceBatch) -> NDArray[np.float64]:
        """Return the numeric columns of a filled batch for models without bins, with the same answers for float32.

        They are rounded to float32, but for columns that need float64 and numbers beyond the range of float32.
        """
        numbers = batch.numeric.astype(np.float64)
        if self.between and batch.numeric.dtype != np.float32:
            for j in set(range(numbers.shape[1])).difference(self._doubles):
                rounded = single_of(numbers[:, j])
                numbers[:, j] = np.where(np.isinf(rounded), numbers[:, j], rounded)
        return numbers

    def transform(self, batch: SequenceBatch, *, n_threads: int = 1) -> BinnedRows:
        """Turn a batch into binned rows.

        Parameters
        ----------
        batch : SequenceBatch
            Sequences with the columns of the training data (made with its schema).
        n_threads : int, default=1
            The result does not depend on it.

        Returns
        -------
        BinnedRows
        """
        batch = self.filled(batch)
        self._check_columns(batch)
        layout = self.layout
        padded_row = pad_rows(batch.offsets, layout.margin)
        n_padded = n_padded_rows(padded_row.size, batch.offsets.size - 1, layout.margin)
        codes = np.empty((n_padded, layout.n_dense), dtype=np.uint8)
        codes[...] = self._boundary_row
        self._write_numeric(batch.numeric, padded_row, codes, n_threads)
        wide_slots = self._write_categorical(batch, padded_row, codes)
        slot_indptr, slot_indices = padded_slots(
            layout.slot_start, wide_slots, self._indicator_slots(batch), padded_row, n_padded
        )
        return BinnedRows(
            codes=codes,
            address=padded_row * layout.n_dense,
            padded_row=padded_row,
            offsets=np.array(batch.offsets, dtype=np.int64),
            slot_indptr=slot_indptr,
            slot_indices=slot_indices,
            layout=layout,
        )

    def _check_columns(self, batch: SequenceBatch) -> None:
        n_categorical = len(self.categories)
        expected = (self.column_kinds.size - n_categorical, n_categorical)
        came = (batch.numeric.shape[1], batch.categorical.shape[1])
        if came != expected:
            raise InputError(
                f"X has {came[0]} numeric and {came[1]} categorical columns, but the model was trained with "
                f"{expected[0]} and {expected[1]}; make the batch with the schema of the training data."
            )

    def _refuse_rounded(self, batch: SequenceBatch) -> None:
        """Refuse a float32 if the float64s that round to it are in different bins: it may be any of them."""
        numeric = [column for column in batch.schema.columns if column.kind == "numeric"]
        for j, thresholds in self._doubles.items():
            if j < len(numeric) and numeric[j].single:
                _refuse_unsure(batch, numeric[j].name, batch.numeric[:, j], thresholds, np.arange(batch.n_rows))
        if batch.sparse is not None and batch.schema.single:
            for column, thresholds in self._sparse_doubles.items():
                entries = batch.sparse[:, [column]].tocoo()
                _refuse_unsure(batch, batch.schema.sparse_names[column], entries.data, thresholds, entries.coords[0])

    def _write_numeric(
        self, values: NDArray[np.floating], padded_row: NDArray[np.int64], codes: NDArray[np.uint8], n_threads: int
    ) -> None:
        if values.shape[1] == 0:
            return
        dtype = np.float32 if values.dtype == np.float32 else np.float64
        values = np.ascontiguousarray(values, dtype=dtype)
        table, first_step = self._table
        missing = (np.diff(self.threshold_start) + 1).astype(np.uint8)
        target = self._targets[self.column_kinds == NUMERIC]
        n_rows = padded_row.size
        tasks = [
            (values, table, first_step, missing, target, padded_row, first, min(first + ROWS_PER_TASK, n_rows), codes)
            for first in range(0, n_rows, ROWS_PER_TASK)
        ]
        run_tasks(encode_numeric, tasks, n_threads)

    def _write_categorical(
        self, batch: SequenceBatch, padded_row: NDArray[np.int64], codes: NDArray[np.uint8]
    ) -> list[NDArray[np.int32]]:
        """Write codes of dense categorical columns; return slots of the wide ones (-1 = unknown category)."""
        wide_slots = []
        targets = self._targets[self.column_kinds == CATEGORICAL]
        for j, (target, known) in enumerate(zip(targets, self._category_codes, strict=True)):
            if target >= 0:
                missing = max(len(known), 1)
                lookup = category_lookup(batch.categories[j], known, missing=missing, unknown=missing + 2)
                codes[padded_row, target] = lookup.astype(np.uint8)[batch.categorical[:, j]]
            else:
                lookup = category_lookup(batch.categories[j], known, missing=len(known), unknown=-1)
                lookup[lookup >= 0] += self.layout.slot_start[~target]
                wide_slots.append(lookup[batch.categorical[:, j]])
        return wide_slots

    def _indicator_slots(self, batch: SequenceBatch) -> RowSlots | None:
        """Slots of the sparse columns; None if there are none."""
        if batch.sparse is None or not self.indicators.n_features:
            return None
        n_wide = self.layout.n_sparse - self.indicators.n_features
        return self.indicators.encode(batch.sparse, self.layout.slot_start[n_wide:])

    # ------------------------------------------------------------------------------------------------ model file

    def to_arrays(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Everything `from_arrays` needs: numeric arrays by name, and a header of plain JSON values.

        Raises
        ------
        InputTypeError
            If a category is neither str, int, float nor bool.
        """
        arrays: dict[str, NDArray[Any]] = {
            "column_kinds": self.column_kinds,
            "thresholds": self.thresholds,
            "threshold_start": self.threshold_start,
            "window_offsets": np.concatenate(self.windows).astype(np.int32),
            "window_start": starts_of([offsets.size for offsets in self.windows]),
            "policies": self.policies,
        }
        arrays |= {f"indicators_{name}": array for name, array in self.indicators.to_arrays().items()}
        names = [self.column_names[i] for i in np.flatnonzero(self.column_kinds == CATEGORICAL)]
        header = {
            "format": FORMAT,
            "column_names": list(self.column_names),
            "categories": [
                categories_to_json(values, name) for values, name in zip(self.categories, names, strict=True)
            ],
            "indicator_names": list(self.indicator_names),
            "between": self.between,
        }
        if self.filler is not None:
            filling, header["filling"] = self.filler.to_arrays(names)
            arrays |= {f"filling_{name}": array for name, array in filling.items()}
        return arrays, header

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]], header: dict[str, Any]) -> FeatureBinner:
        """Rebuild a binner from what `to_arrays` gave.

        Raises
        ------
        ModelFileError
            If something is lacking, or the parts do not fit together.
        """
        stored = Stored("features", {**_additions(arrays), **arrays}, header)
        if header.get("format") != FORMAT:
            raise ModelFileError(
                f"The model file's features have format {header.get('format')!r}; this version of seqboost reads "
                f"format {FORMAT}. Load it with a newer version."
            )
        kinds = stored.array("column_kinds", np.uint8, (None,), low=NUMERIC, high=CATEGORICAL)
        n_columns, n_numeric = kinds.size, int(np.count_nonzero(kinds == NUMERIC))
        thresholds = stored.array("thresholds", np.float64, (None,))
        threshold_start = stored.starts("threshold_start", n_numeric, thresholds.size)
        few = np.diff(threshold_start).max(initial=0) < MAX_NUMERIC_BINS
        stored.require(few, f"a column has more than {MAX_NUMERIC_BINS} bins")
        stored.require(rise_within(thresholds, threshold_start), "thresholds of a column do not rise")
        offsets = stored.array("window_offsets", np.int32, (None,), low=-MAX_OFFSET, high=MAX_OFFSET)
        window_start = stored.starts("window_start", n_columns + 1, offsets.size)
        windows = np.split(offsets, window_start[1:-1])
        stored.require(all(w.size and (np.diff(w) > 0).all() for w in windows), "a window is empty or does not rise")
        binner = cls(
            column_names=stored.texts("column_names"),
            column_kinds=kinds,
            thresholds=thresholds,
            threshold_start=threshold_start,
            categories=tuple(categories_from_json(values) for values in stored.field("categories", list)),
            indicators=IndicatorCoder.from_arrays(stored),
            indicator_names=stored.texts("indicator_names"),
            windows=tuple(windows),
            policies=stored.array("policies", np.uint8, (n_columns + 1,), low=min(POLICIES), high=max(POLICIES)),
            filler=_filler(arrays, header),
            between=header.get("between") is True,
        )
        fits = (
            len(binner.column_names) == n_columns
            and len(binner.categories) == n_columns - n_numeric
            and len(binner.indicator_names) == binner.indicators.n_features
            and (binner.filler is None or binner._fits(binner.filler))
        )
        stored.require(fits, "columns, their names and their categories differ in number")
        margin, n_offsets = int(np.abs(offsets).max()), int(np.unique(offsets).size)
        n_slots = sum(len(values) + 2 for values in binner.categories) + int(binner.indicators.n_slots.sum())
        small = margin * n_columns <= MAX_CELLS and n_offsets * n_slots <= MAX_CELLS
        stored.require(small, f"windows of {n_offsets} offsets, up to {margin}, are too large for these columns")
        return binner

    def check_schema(self, schema: BatchSchema, added: int = 0) -> None:
        """Refuse a model file whose features are not those of its columns, and of ``added`` numeric ones after them."""
        kinds = [CATEGORICAL if column.kind == "categorical" else NUMERIC for column in schema.columns]
        n_flags = n_sparse_flags = 0
        if self.filler is not None:
            n_flags, n_sparse_flags = len(self.filler.flagged), len(self.filler.sparse_flagged)
        same = np.array_equal(self.column_kinds, kinds + [NUMERIC] * (added + n_flags))
        if not same or self.indicators.feature_of.size != len(schema.sparse_names) + n_sparse_flags:
            raise ModelFileError(
                "the columns and the features of this model file do not fit together; save the model again"
            )

    def _fits(self, filler: Filler) -> bool:
        """Return whether the columns that a filler gives are those that this binner takes."""
        return (
            len(filler.categories) == len(self.categories)
            and filler.n_columns + len(filler.flagged) == self.column_kinds.size
            and len(filler.sparse_numbers) + len(filler.sparse_flagged) == self.indicators.feature_of.size
        )


def _refuse_unsure(
    batch: SequenceBatch,
    name: str,
    values: NDArray[np.floating],
    thresholds: NDArray[np.float64],
    rows: NDArray[np.integer],
) -> None:
    """Refuse numbers of a column, given as float32, whose bin is not certain."""
    given = single_of(values)
    low, high = first_rounded_to(given), last_rounded_to(given)
    unsure = ~np.isnan(given) & (np.searchsorted(thresholds, low) != np.searchsorted(thresholds, high))
    if unsure.any():
        at = int(np.argmax(unsure))
        raise InputError(
            f"Column {name!r} needs float64: training had values that float32 cannot tell apart. But X has it as "
            f"float32, and {batch.where(int(rows[at]))} holds {float(values[at])!r}, which may be any number from "
            f"{float(low[at])!r} to {float(high[at])!r}. Pass the column as float64 or as integers."
        )


def _filler(arrays: dict[str, NDArray[Any]], header: dict[str, Any]) -> Filler | None:
    """Read the filler of a model file, if it has one."""
    if "filling" not in header:
        return None
    return Filler.from_arrays(part_of(arrays, "filling_"), header["filling"])


def _additions(arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return what files of earlier versions do not have: they know no stored zeros, versions 1 and 2 no policies."""
    n_features, n_columns = (np.size(arrays.get(name, ())) for name in ("indicators_n_negative", "column_kinds"))
    return {
        "indicators_has_zero": np.zeros(n_features, dtype=np.uint8),
        "policies": np.full(n_columns + 1, DIRECTION, dtype=np.uint8),
    }


def _policies(missing: Sequence[int] | None, n: int) -> NDArray[np.uint8]:
    """Return the policies for missing values of ``n - 1`` columns and of the sparse ones."""
    codes = [DIRECTION] * n if missing is None else [int(code) for code in missing]
    if len(codes) != n or not set(codes) <= set(POLICIES):
        raise ParameterError(
            f"missing must hold a policy ({', '.join(map(str, POLICIES))}) for each of {n - 1} columns and one for the "
            f"sparse columns; got {missing!r}."
        )
    return np.array(codes, dtype=np.uint8)


def _check_integer(name: str, value: Any, low: int, high: int | None) -> None:
    if isinstance(value, Integral) and not isinstance(value, bool) and low <= int(value) <= (high or int(value)):
        return
    span = f"from {low} to {high}" if high is not None else f"of at least {low}"
    raise ParameterError(f"{name} must be an integer {span}; got {value!r}.")
