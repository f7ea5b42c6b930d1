"""Labels <-> segments: stretches of positions that have one label, in positions or in time.

In positions a segment ends *before* ``end``, as slices do; in time, ``start`` and ``end`` are the times of its first
and its last position::

    labels    rest rest run run run rest        times    0.0 0.5 1.0 1.5 2.0 2.5
    segments  (0, 2, rest) (2, 5, run) (5, 6, rest)      (0.0, 0.5, rest) (1.0, 2.0, run) (2.5, 2.5, rest)
"""

from __future__ import annotations

import numbers
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqboost.core.exceptions import InputError, InputTypeError, ParameterError
from seqboost.sequences.columns import is_missing, number
from seqboost.sequences.labels import label_array
from seqboost.sequences.tables import as_frame, is_table
from seqboost.sequences.targets import as_labels

__all__ = ["Segment", "from_segments", "to_segments"]


class Segment(NamedTuple):
    """A stretch of positions that have one label.

    Attributes
    ----------
    sequence : object
        Number or id of its sequence.
    start, end : int, or times
        Its first position and the one after its last; or the times of its first and of its last position.
    label : object
        The label.
    """

    sequence: Any
    start: Any
    end: Any
    label: Any


class _Part(NamedTuple):
    """A sequence: its id, the rows of the user's data that are its positions, and their times."""

    id: Any
    rows: list[int]
    times: list[Any] | None


def to_segments(labels: Any, *, times: Any = None, sequences: Any = None, outside: Any = None) -> list[Segment]:
    """Turn labels into segments: one for each longest stretch of positions with one label.

    Parameters
    ----------
    labels : list of label sequences, or series or array of labels
        What ``predict`` returns: a sequence of labels for each sequence, or a label for each row of a table.
    times : as labels, optional
        Times of the positions: dates and times, or numbers. Rows of a table are sorted by them within their sequences.
    sequences : sequence, optional
        Ids of the sequences: one for each of them, or one for each row of a table (tuples if there are several sequence
        columns). Default: numbers from 0 on; all rows of a table are one sequence.
    outside : object, default=None
        Label of positions outside of segments. Positions without a label (None, NaN) always are.

    Returns
    -------
    list of Segment
        In the order of sequences and positions; ``pandas.DataFrame(segments)`` makes a table of them.

    Examples
    --------
    >>> to_segments(["aabb", "OOb"], outside="O")[1:]
    [Segment(sequence=0, start=2, end=4, label='b'), Segment(sequence=1, start=2, end=3, label='b')]
    >>> to_segments(np.array(["a", "b", "a"]), times=[2.5, 7.0, 0.0], sequences=["x", "x", "x"])
    [Segment(sequence='x', start=0.0, end=2.5, label='a'), Segment(sequence='x', start=7.0, end=7.0, label='b')]
    """
    _check_containers(times=times, sequences=sequences)
    is_flat = _is_flat(labels)
    given = as_labels([labels] if is_flat else labels, name="labels")
    flat = [label for part in given for label in part]
    if is_flat:
        parts = _parts_of_rows(len(flat), times, sequences)
    else:
        parts = _parts_of_list([len(part) for part in given], times, sequences)
    return [segment for part in parts for segment in _runs(part, [flat[row] for row in part.rows], outside)]


def _runs(part: _Part, labels: list[Any], outside: Any) -> Iterable[Segment]:
    """Give the segments of a sequence."""
    start = 0
    for end in range(1, len(labels) + 1):
        label = labels[start]
        if end < len(labels) and _is_same(labels[end], label):
            continue
        if label is not None and not _is_same(label, outside):
            if part.times is None:
                yield Segment(part.id, start, end, label)
            else:
                yield Segment(part.id, part.times[start], part.times[end - 1], label)
        start = end


def _is_same(one: Any, other: Any) -> bool:
    """Return whether two labels are the same; True is not 1."""
    return one is other or (isinstance(one, bool) == isinstance(other, bool) and bool(one == other))


def from_segments(
    segments: Any, *, lengths: Any = None, times: Any = None, sequences: Any = None, outside: Any = None
) -> Any:
    """Turn segments into labels: the way back from :func:`to_segments`.

    What positions there are is told by one of ``lengths``, ``times`` and ``sequences``.

    Parameters
    ----------
    segments : list of Segment, of tuples or of dicts; or table
        Sequence, start, end and label of each, in any order; a table with columns of these names.
    lengths : sequence of int, optional
        Length of each sequence.
    times : list of sequences of times, or series or array of times, optional
        Times of the positions of each sequence, or of the rows of a table; starts and ends of segments are times then,
        and a position belongs to the segment if its time is neither before the start nor after the end.
    sequences : sequence, optional
        Ids of the sequences: one for each of them, or one for each row of a table. Default: as in ``to_segments``.
    outside : object, default=None
        Label of positions that no segment covers.

    Returns
    -------
    list of ndarray, or ndarray
        Labels of each sequence; one array, in the order of the rows, if ``times`` or ``sequences`` are those of rows.

    Examples
    --------
    >>> from_segments([(0, 2, 4, "b"), (1, 0, 1, "a")], lengths=[4, 2], outside="O")
    [array(['O', 'O', 'b', 'b'], dtype='<U1'), array(['a', 'O'], dtype='<U1')]
    >>> from_segments([("x", 0.0, 3.0, "a")], times=np.array([2.5, 7.0, 0.0]), sequences=["x", "x", "x"], outside="O")
    array(['a', 'O', 'a'], dtype='<U1')
    """
    if lengths is not None and times is not None:
        raise ParameterError("give lengths or times, not both: there are as many positions as there are times")
    if lengths is None and times is None and sequences is None:
        raise ParameterError(
            "from_segments needs to know what positions there are: give lengths=[...] (of the sequences), times=... or "
            "sequences=... (of the rows of a table)"
        )
    _check_containers(lengths=lengths, times=times, sequences=sequences)
    is_flat = lengths is None and (times is None or _is_flat(times) or _is_list_of_scalars(times))
    if is_flat:
        parts = _parts_of_rows(len(_listed(sequences if times is None else times)), times, sequences)
    else:
        parts = _parts_of_list(_checked_lengths(lengths, times), times, sequences)
    owner = _owners(parts, found := _read(segments))
    values = label_array([outside if i < 0 else found[i].label for i in owner.tolist()])
    if is_flat:
        return values
    return [values[part.rows[0] : part.rows[0] + len(part.rows)] for part in parts]


def _owners(parts: list[_Part], segments: list[Segment]) -> NDArray[np.int64]:
    """Return the number of the segment that covers each row, −1 for none; refuse what lies outside or overlaps."""
    by_id = {part.id: part for part in parts}
    owner = np.full(sum(len(part.rows) for part in parts), -1, dtype=np.int64)
    ordered = {part.id: _in_order(part) for part in parts if part.times is not None}
    for i, segment in enumerate(segments):
        try:
            part = by_id.get(segment.sequence)
        except TypeError as error:
            raise InputTypeError(
                f"segment {i}, {tuple(segment)}, is of the sequence {segment.sequence!r}, which cannot be an id "
                f"({error}); use strings, numbers or tuples"
            ) from None
        if part is None:
            shown = ", ".join(map(repr, list(by_id)[:10])) + (", ..." if len(by_id) > 10 else "")
            raise InputError(
                f"segment {i}, {tuple(segment)}, is of the sequence {segment.sequence!r}, which is not there; the "
                f"sequences are {shown}"
            )
        if part.times is None:
            rows = np.array(part.rows[slice(*_positions(i, segment, len(part.rows)))], dtype=np.int64)
        else:
            rows = _rows_between(i, segment, *ordered[part.id])
        taken = owner[rows] >= 0
        if taken.any():
            row = int(rows[np.argmax(taken)])
            other = int(owner[row])
            raise InputError(
                f"segments {other}, {tuple(segments[other])}, and {i}, {tuple(segment)}, overlap: both cover position "
                f"{part.rows.index(row)} of sequence {segment.sequence!r}. Shorten or drop one of them."
            )
        owner[rows] = i
    return owner


def _positions(i: int, segment: Segment, length: int) -> tuple[int, int]:
    """Return start and end of a segment in positions."""
    for value in (segment.start, segment.end):
        is_number = isinstance(value, numbers.Real) and not isinstance(value, (bool, np.bool_))
        if not is_number or not (isinstance(value, numbers.Integral) or float(value).is_integer()):
            raise InputTypeError(
                f"segment {i}, {tuple(segment)}, begins or ends at {value!r}, which is no position; expected whole "
                "numbers, or give times=..."
            )
    start, end = int(segment.start), int(segment.end)
    if not 0 <= start < end <= length:
        raise InputError(
            f"segment {i}, {tuple(segment)}, does not lie in its sequence, which has {length} positions; expected "
            f"0 <= start < end <= {length} (end is the position after the last)"
        )
    return start, end


def _in_order(part: _Part) -> tuple[list[Any], NDArray[np.int64]]:
    """Return the times of a sequence, sorted, and their rows."""
    assert part.times is not None
    order = sorted(range(len(part.rows)), key=part.times.__getitem__)
    return [part.times[t] for t in order], np.array([part.rows[t] for t in order], dtype=np.int64)


def _rows_between(i: int, segment: Segment, times: list[Any], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the rows whose times are neither before the start of a segment nor after its end."""
    try:
        is_forward = bool(segment.start <= segment.end)
        covered = rows[bisect_left(times, segment.start) : bisect_right(times, segment.end)]
    except TypeError as error:
        raise InputTypeError(
            f"segment {i}, {tuple(segment)}, and the times of its sequence, such as {times[0]!r}, cannot be compared "
            f"({error}); give both in the same form and time zone"
        ) from None
    if not is_forward or len(covered) == 0:
        raise InputError(
            f"segment {i}, {tuple(segment)}, covers no position of its sequence, whose times go from {times[0]!r} to "
            f"{times[-1]!r}; expected start <= end, and at least one time between them"
        )
    return covered


def _read(segments: Any) -> list[Segment]:
    """Read segments given as tuples, dicts or a table."""
    names = Segment._fields
    if is_table(segments):
        frame = as_frame(segments, "segments")
        lacking = [name for name in names if name not in frame.columns]
        if lacking:
            raise InputError(f"the table of segments lacks {lacking}; expected the columns {list(names)}")
        rows: Iterable[Any] = zip(*(frame.get_column(name).to_list() for name in names), strict=True)
    elif isinstance(segments, (str, bytes, Mapping)) or not isinstance(segments, Iterable):
        raise InputTypeError(f"segments is a {type(segments).__name__}; expected a list of segments, or a table")
    else:
        rows = segments
    found = []
    for i, row in enumerate(rows):
        if isinstance(row, Mapping) and all(name in row for name in names):
            row = [row[name] for name in names]
        if isinstance(row, (str, bytes, Mapping)) or not isinstance(row, Iterable) or len(row := tuple(row)) != 4:
            raise InputTypeError(
                f"segment {i} is {row!r:.80}; expected (sequence, start, end, label), or a dict of these"
            )
        for name, value in zip(names, row, strict=True):
            if is_missing(value):
                raise InputError(f"segment {i}, {row}, has no {name}; fill it in, or drop the segment")
        found.append(Segment(*row))
    return found


def _check_containers(**arguments: Any) -> None:
    """Refuse single values, where one for each sequence or position is needed."""
    for name, value in arguments.items():
        is_single = isinstance(value, (str, bytes, Mapping)) or not (
            hasattr(value, "__len__") or hasattr(value, "to_list")
        )
        if value is not None and (is_single or getattr(value, "ndim", 1) == 0):
            raise InputTypeError(f"{name} is {value!r:.80}; expected a list, an array or a series")


def _is_flat(values: Any) -> bool:
    """Return whether values are those of rows: an array or series, not of sequences."""
    if isinstance(values, (list, tuple, str)) or not (hasattr(values, "__array__") or hasattr(values, "to_list")):
        return False
    if getattr(values, "ndim", 1) != 1:
        return False
    return not any(isinstance(value, (list, np.ndarray)) for value in values[:1])


def _is_list_of_scalars(values: Any) -> bool:
    is_list = isinstance(values, (list, tuple)) and len(values) > 0
    return is_list and (isinstance(values[0], (str, bytes)) or not hasattr(values[0], "__len__"))


def _listed(values: Any) -> list[Any]:
    """Return the members of a list, an array or a series; times stay what they are."""
    for method in ("to_pylist", "to_list"):
        if hasattr(values, method):
            return list(getattr(values, method)())
    if isinstance(values, np.ndarray) and values.dtype.kind not in "mM":
        return list(values.tolist())
    return list(values)


def _checked_lengths(lengths: Any, times: Any) -> list[int]:
    if lengths is None:
        return [len(part) for part in times]
    found = _listed(lengths)
    for i, length in enumerate(found):
        if not isinstance(length, (int, np.integer)) or isinstance(length, bool) or length < 1:
            raise ParameterError(f"lengths[{i}] is {length!r}; expected an int of 1 or more for each sequence")
    return [int(length) for length in found]


def _parts_of_list(lengths: list[int], times: Any, sequences: Any) -> list[_Part]:
    """Return the sequences of a list, whose rows lie end to end."""
    ids = list(range(len(lengths))) if sequences is None else _listed(sequences)
    if len(ids) != len(lengths):
        raise InputError(f"sequences has {len(ids)} ids, but there are {len(lengths)} sequences")
    if len(number(_hashable(ids))[0]) < len(ids):
        raise InputError("sequences has an id twice; each sequence needs one of its own")
    if times is not None and len(times) != len(lengths):
        raise InputError(f"times are those of {len(times)} sequences, but there are {len(lengths)} sequences")
    parts, start = [], 0
    for i, (name, length) in enumerate(zip(ids, lengths, strict=True)):
        own = None if times is None else _checked_times(_listed(times[i]), f"times[{i}]", length)
        if own is not None:
            back = next((t for t in range(1, length) if own[t] < own[t - 1]), None)
            if back is not None:
                raise InputError(
                    f"times[{i}] decrease: position {back} has {own[back]!r} after {own[back - 1]!r}. Sort the "
                    "positions of each sequence by time, and their labels with them."
                )
        parts.append(_Part(name, list(range(start, start + length)), own))
        start += length
    return parts


def _parts_of_rows(n_rows: int, times: Any, sequences: Any) -> list[_Part]:
    """Return the sequences of a table, in order of first appearance, each sorted by time."""
    ids = [0] * n_rows if sequences is None else _listed(sequences)
    if len(ids) != n_rows:
        raise InputError(f"sequences has {len(ids)} ids, but there are {n_rows} rows; expected one for each row")
    missing = next((row for row, name in enumerate(ids) if is_missing(name)), None)
    if missing is not None:
        raise InputError(f"sequences has no id in row {missing}; every row must belong to a sequence")
    own = None if times is None else _checked_times(_listed(times), "times", n_rows)
    rows_of: dict[Any, list[int]] = {}
    for row, name in enumerate(_hashable(ids)):
        rows_of.setdefault(name, []).append(row)
    parts = []
    for name, rows in rows_of.items():
        if own is not None:
            rows = sorted(rows, key=own.__getitem__)
        parts.append(_Part(name, rows, None if own is None else [own[row] for row in rows]))
    return parts


def _hashable(ids: list[Any]) -> list[Any]:
    try:
        set(ids)
    except TypeError as error:
        raise InputTypeError(
            f"sequences holds an id that cannot be one ({error}); use strings, numbers or tuples"
        ) from None
    return ids


def _checked_times(times: list[Any], name: str, length: int) -> list[Any]:
    """Refuse times that are missing, or not one for each position."""
    if len(times) != length:
        raise InputError(f"{name} has {len(times)} times, but there are {length} positions; expected one for each")
    missing = next((t for t, value in enumerate(times) if is_missing(value) or _is_nat(value)), None)
    if missing is not None:
        raise InputError(f"{name} has no time at position {missing}; every position needs one")
    for one, other in pairwise(times):
        try:
            bool(one < other)
        except TypeError as error:
            raise InputTypeError(
                f"{name} holds {one!r} and {other!r}, which cannot be compared ({error}); give all times in one form"
            ) from None
    return times


def _is_nat(value: Any) -> bool:
    return isinstance(value, (np.datetime64, np.timedelta64)) and bool(np.isnat(value))
