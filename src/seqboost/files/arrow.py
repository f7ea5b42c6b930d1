"""Parquet and Arrow files, through pyarrow (the extra ``tables``), a batch of rows at a time.

A file may be damaged, or made to do damage: it is never mapped into memory, where a file that is cut short ends the
process, and every batch is validated before anything looks into it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqboost.core.exceptions import DataFileError, MissingExtraError
from seqboost.files.building import PIECE_ROWS, Codes, Rows, TextColumn
from seqboost.files.delimited import Chosen, added_names, choose_columns, sequence_keys
from seqboost.files.output import refuse_sparse
from seqboost.files.reading import Answers, Reading, SequenceData, tabled
from seqboost.files.source import Source
from seqboost.files.times import TimeColumn

__all__ = ["answer_arrow", "answer_parquet", "read_arrow", "read_parquet", "write_arrow", "write_parquet"]


def _pyarrow() -> Any:
    try:
        import pyarrow as pa
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtraError(
            'Parquet and Arrow files need pyarrow, which is not installed: pip install "seqboost[tables]"'
        ) from error
    return pa


class _ArrowColumn(TextColumn):
    """A column that has a type of its own."""

    def parse(self, cells: Any) -> tuple[NDArray[Any], dict[int, tuple[str, str]]]:
        """Return the values of an arrow array, and what is wrong with which of them."""
        pa = _pyarrow()
        kind = cells.type
        is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
        is_number = is_number or pa.types.is_decimal(kind)
        if pa.types.is_temporal(kind) or pa.types.is_nested(kind) or pa.types.is_binary(kind):
            what = "dates or times" if pa.types.is_temporal(kind) else f"values of type {kind}"
            raise DataFileError(
                f"column {self.name!r} holds {what}, which are neither numbers nor categories. Drop it "
                f"(--drop {self.name}), or turn it into numbers (seconds since the start, hour of the day). Times that "
                f"order the positions of a sequence have an option of their own (--time {self.name})."
            )
        if pa.types.is_null(kind):
            return super().parse([""] * len(cells))
        if self.kind == "auto":
            self.kind = "numeric" if is_number else "categorical"
        if self.kind == "numeric" and is_number:
            is_single = pa.types.is_float32(kind) or pa.types.is_float16(kind)  # as which they may be rounded
            values = cells.cast(pa.float64()).to_numpy(zero_copy_only=False)
            values = values.astype(np.float32 if is_single else np.float64)
            return values, self._infinite(values, [str(v) for v in values] if np.isinf(values).any() else [])
        return super().parse(_texts(cells))


class _ArrowTimes(TimeColumn):
    """A column of times that has a type of its own."""

    def parse(self, cells: Any) -> tuple[NDArray[Any], dict[int, tuple[str, str]]]:
        """Return the times of an arrow array, and what is wrong with which of them."""
        pa = _pyarrow()
        kind = cells.type
        if pa.types.is_date(kind):
            kind = pa.timestamp("us")
            cells = cells.cast(kind)
        if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
            self.settle(f"times of type {kind}", {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[kind.unit])
        elif pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
            self.settle("numbers", 1)
            cells = cells.cast(pa.float64())
        elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
            return super().parse(_texts(cells))
        else:
            raise DataFileError(
                f"the time column {self.name!r} holds values of type {kind}; expected numbers, or dates and times"
            )
        missing = np.asarray(cells.is_null(nan_is_null=True))
        bad = dict.fromkeys(np.flatnonzero(missing).tolist(), self.empty())
        if self.form == "numbers":
            values = cells.to_numpy(zero_copy_only=False)
            return values, bad | self._infinite(values, [str(v) for v in values] if np.isinf(values).any() else [])
        return cells.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False), bad


def _texts(cells: Any) -> list[str]:
    """Return the values of an arrow array as text; null is empty."""
    pa = _pyarrow()
    if pa.types.is_floating(cells.type) and cells.null_count < len(cells):
        numbers = cells.to_numpy(zero_copy_only=False)
        return ["" if v != v else str(int(v)) if float(v).is_integer() else repr(float(v)) for v in numbers]
    texts = ["" if text is None else text for text in cells.cast(pa.string()).to_pylist()]
    return [text.capitalize() for text in texts] if pa.types.is_boolean(cells.type) else texts  # as pandas writes them


def read_parquet(sources: Sequence[Source], reading: Reading, labels: str) -> SequenceData:
    """Read Parquet files; see :func:`seqboost.files.read_sequences`."""
    return _read(sources, reading, labels, _parquet_batches)


def read_arrow(sources: Sequence[Source], reading: Reading, labels: str) -> SequenceData:
    """Read Arrow files and streams; see :func:`seqboost.files.read_sequences`."""
    return _read(sources, reading, labels, _arrow_batches)


def _parquet_batches(source: Source) -> tuple[list[str], Iterator[Any]]:
    pa = _pyarrow()
    with _complaints_of(source, "Parquet"):
        file = pa.parquet.ParquetFile(source.name)
        return list(file.schema_arrow.names), _validated(source, file.iter_batches(batch_size=PIECE_ROWS))


def _arrow_batches(source: Source) -> tuple[list[str], Iterator[Any]]:
    pa = _pyarrow()
    with _complaints_of(source, "Arrow"):
        opened = pa.OSFile(source.name)
        try:
            file = pa.ipc.open_file(opened)
            return list(file.schema.names), _validated(source, map(file.get_batch, range(file.num_record_batches)))
        except pa.ArrowInvalid:
            opened.seek(0)
        stream = pa.ipc.open_stream(opened)
        return list(stream.schema.names), _validated(source, stream)


def _validated(source: Source, batches: Any) -> Iterator[Any]:
    """Give batches in which every offset, index and string is what it should be."""
    with _complaints_of(source, "a table"):
        batches = iter(batches)
    while True:
        with _complaints_of(source, "a table"):
            batch = next(batches, None)
            if batch is not None:
                batch.validate(full=True)
        if batch is None:
            return
        yield batch


@contextmanager
def _complaints_of(source: Source, what: str) -> Iterator[None]:
    """Turn whatever pyarrow raises into an error that names the file."""
    try:
        yield
    except Exception as error:  # a damaged file can make it raise nearly anything, SystemError included
        is_foreign = isinstance(error, _pyarrow().ArrowException) or not isinstance(error, MemoryError)
        if isinstance(error, DataFileError) or not is_foreign:
            raise
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise source.stop(f"it cannot be read as {what} ({reason:.120}); copy it anew, or name the format") from None


def _read(sources: Sequence[Source], reading: Reading, labels: str, opened: Any) -> SequenceData:
    pa = _pyarrow()
    rows: Rows | None = None
    chosen = Chosen([], None)
    names: list[str] = []
    n_sequences = 0
    for source in sources:
        found, batches = opened(source)
        if rows is None:
            names = found
            chosen = choose_columns(source, names, reading, labels)
            columns = [_ArrowColumn(names[j], reading.kind_of(names[j]), reading.missing) for j in chosen.features]
            rows = Rows(columns, reading.missing, None if chosen.time is None else _ArrowTimes(names[chosen.time]))
        elif found != names:
            raise source.stop(f"its columns are {found}, but those of {sources[0].name} are {names}")
        ids, first = Codes(), 1
        for batch in batches:
            if batch.num_rows == 0:
                continue
            with _complaints_of(source, "a table"):
                numbers = np.zeros(batch.num_rows, np.int64)
                for j in chosen.sequences:
                    cells = batch.column(j)
                    if cells.null_count:
                        raise source.stop(
                            f"row {first + int(np.argmax(cells.is_null()))} has nothing in the sequence column "
                            f"{names[j]!r}; every row must belong to a sequence"
                        )
                if chosen.sequences:
                    keys = sequence_keys([_texts(batch.column(j)) for j in chosen.sequences])
                    numbers = ids.parse(keys).astype(np.int64)
                label_cells = None if chosen.label is None else _texts(batch.column(chosen.label))
                lines = range(first, first + batch.num_rows)
                features = [batch.column(j) for j in chosen.parsed]
                rows.add(source, lines, features, label_cells, numbers + n_sequences)
            first += batch.num_rows
            if source.watch is not None:
                source.watch(first - 1, None)
        n_sequences += max(len(ids.index), 1)
    assert rows is not None
    pa.default_memory_pool().release_unused()  # what pages were decompressed into is kept otherwise: training needs it
    reading = replace(reading, label=names[chosen.label] if chosen.label is not None else reading.label)
    origin = "table" if chosen.sequences else "list"
    return tabled(rows, sources, reading, origin=origin, has_labels=chosen.label is not None, typed=True)


def answer_parquet(source: Source, data: SequenceData, answers: Answers, path: str) -> None:
    """Write the table again with further columns: ``predicted``, ``p(label)``, ``path1`` and so on."""
    pa = _pyarrow()
    _answer(source, data, answers, _parquet_batches, lambda schema: pa.parquet.ParquetWriter(path, schema))


def answer_arrow(source: Source, data: SequenceData, answers: Answers, path: str) -> None:
    """Write the table again with further columns: ``predicted``, ``p(label)``, ``path1`` and so on."""
    pa = _pyarrow()
    _answer(source, data, answers, _arrow_batches, lambda schema: pa.ipc.new_file(path, schema))


def _answer(source: Source, data: SequenceData, answers: Answers, opened: Any, make_writer: Any) -> None:
    pa = _pyarrow()
    _, batches = opened(source)
    added, row, number, writer = set(answers.names()), 0, 1, None
    for batch in batches:
        keep = np.array([n not in data.bad_lines for n in range(number, number + batch.num_rows)], dtype=bool)
        number += batch.num_rows
        table = pa.Table.from_batches([batch])
        if not keep.all():
            with _complaints_of(source, "a table"):
                table = table.filter(pa.array(keep))
        table = table.drop_columns([name for name in table.column_names if name in added])
        for name, values in _added(answers, slice(row, row + table.num_rows)):
            table = table.append_column(name, pa.array(values) if isinstance(values, np.ndarray) else values)
        row += table.num_rows
        writer = writer or make_writer(table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def _added(answers: Answers, span: slice) -> Iterator[tuple[str, Any]]:
    known = answers.originals.values()
    yield "predicted", _label_array([answers.original(label) for label in answers.labels[span]], known)
    if answers.proba is not None:
        for k, label in enumerate(answers.classes):
            yield f"p({label})", answers.proba[span, k]
    for i, (path, scores) in enumerate(zip(answers.paths, answers.path_scores, strict=True), start=1):
        yield f"path{i}", _label_array([answers.original(label) if label else None for label in path[span]], known)
        yield f"path{i}_logp", scores[span]


def _label_array(values: Sequence[Any], known: Iterable[Any]) -> Any:
    """Return labels as an array of the one type that holds all known ones: else of text, as integers beyond 64 bits."""
    pa = _pyarrow()
    try:
        kind = pa.array(list(known)).type
    except (pa.ArrowException, OverflowError):
        kind = pa.string()
    if pa.types.is_null(kind) or pa.types.is_nested(kind):
        kind = pa.string()
    if pa.types.is_string(kind):
        values = [None if value is None else str(value) for value in values]
    return pa.array(values, kind)


def write_parquet(data: SequenceData, path: str) -> None:
    """Write sequences as a Parquet table."""
    _pyarrow().parquet.write_table(_table(data), path)


def write_arrow(data: SequenceData, path: str) -> None:
    """Write sequences as an Arrow file."""
    table = _table(data)
    with _pyarrow().ipc.new_file(path, table.schema) as writer:
        writer.write_table(table)


def _table(data: SequenceData) -> Any:
    """Return the batch as one arrow table, rows in the order of the sequences."""
    pa = _pyarrow()
    refuse_sparse(data, "tables")
    batch = data.batch
    label, sequence = added_names([column.name for column in batch.schema.columns], data.reading)
    arrays: dict[str, Any] = {sequence: pa.array(np.repeat(np.arange(batch.n_sequences), batch.lengths))}
    n_numeric = n_categorical = 0
    for column in batch.schema.columns:
        if column.kind == "numeric":
            arrays[column.name] = pa.array(batch.numeric[:, n_numeric], from_pandas=True)
            n_numeric += 1
        else:
            codes = batch.categorical[:, n_categorical]
            words = pa.array([str(c) for c in batch.categories[n_categorical]], pa.string())
            arrays[column.name] = pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), words)
            n_categorical += 1
    if data.label_codes is not None:
        codes = data.label_codes if batch.origin.user_rows is None else data.label_codes[batch.origin.user_rows]
        arrays[label] = _label_array(data.label_names, data.label_names).take(pa.array(codes, mask=codes < 0))
    return pa.table(arrays)
