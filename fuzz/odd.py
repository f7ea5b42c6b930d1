"""Odd values, and objects made odd: what users pass by mistake, and worse.

Fair are all values of Python, NumPy, SciPy, pandas, polars and pyarrow, in any nesting, and objects whose methods raise
:class:`HostileError`. That error may escape: it is the user's own. Objects that lie (a length that is not that of the
iteration) are fair as well: they must be read or refused.
"""

from __future__ import annotations

import array
import collections
import datetime
import decimal
import enum
import fractions
import pathlib
import types
import uuid
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import scipy.sparse as sp

__all__ = ["HostileError", "mutated", "odd_value"]

Rng = np.random.Generator


class HostileError(Exception):
    """Raised by hostile objects; the one foreign exception that may escape."""


def _raises(self: Any, *args: Any, **options: Any) -> Any:
    raise HostileError


_METHODS = ("__len__", "__iter__", "__getitem__", "__array__", "__eq__", "__hash__", "__float__", "__str__", "__repr__",
            "__bool__", "__contains__", "keys", "items", "tolist", "shape", "dtype", "columns", "__lt__")  # fmt: skip


def _hostile(rng: Rng) -> Any:
    """Make an object some of whose methods raise."""
    base = _pick(rng, (object, list, dict, str, float, int, tuple, np.ndarray, set))
    chosen = {str(name): _raises for name in rng.choice(_METHODS, size=rng.integers(1, 4), replace=False)}
    for name in ("shape", "dtype", "columns"):
        if name in chosen:
            chosen[name] = property(_raises)  # type: ignore[assignment]
    if "__eq__" in chosen:
        chosen.setdefault("__hash__", base.__hash__)
    kind = type("Hostile", (base,), chosen)
    if base is np.ndarray:
        return np.zeros((2, 2)).view(kind)
    return kind({"x": 1.0} if base is dict else "ab") if base in (dict, list, tuple, str, set) else kind()


class _Liar(list[Any]):
    """A list whose length is not that of its iteration."""

    def __len__(self) -> int:
        return 3

    def __eq__(self, other: object) -> Any:
        return np.array([True, False])

    __hash__ = None


class _Colour(enum.Enum):
    RED = 1


class _Text(str):
    pass


class _Number(float):
    pass


_Point = collections.namedtuple("_Point", "x y")


def _recursive() -> list[Any]:
    items: list[Any] = [1.0]
    items.append(items)
    return items


_NUMBERS: tuple[Callable[[], Any], ...] = (
    lambda: float("nan"), lambda: float("inf"), lambda: -float("inf"), lambda: 1e308, lambda: -1e308, lambda: 5e-324,
    lambda: -0.0, lambda: 0, lambda: -1, lambda: True, lambda: 2**53 + 1, lambda: 2**63, lambda: 2**64, lambda: 10**400,
    lambda: -(10**400), lambda: 1 + 2j, lambda: np.complex64(1j), lambda: np.float16(6e4), lambda: np.float32(3e38),
    lambda: np.longdouble("1e4000"), lambda: np.longdouble(1), lambda: np.int8(-128), lambda: np.uint64(2**64 - 1),
    lambda: np.bool_(True), lambda: decimal.Decimal("1e9999"), lambda: decimal.Decimal("NaN"),
    lambda: decimal.Decimal("sNaN"), lambda: fractions.Fraction(1, 3), lambda: fractions.Fraction(10**400, 3),
    lambda: _Number(0.5), lambda: np.array(5.0), lambda: np.array([1.0]), lambda: pa.scalar(2), lambda: 1e39,
    lambda: pa.scalar(None, pa.float64()), lambda: 0.5, lambda: 1.5, lambda: np.float64("nan"),
)  # fmt: skip
_OTHERS: tuple[Callable[[], Any], ...] = (
    lambda: None, lambda: pd.NA, lambda: pd.NaT, lambda: np.datetime64("NaT"), lambda: np.datetime64("2020-01-01"),
    lambda: np.timedelta64(3, "D"), lambda: datetime.datetime(2020, 1, 1), lambda: datetime.date(2020, 1, 1),
    lambda: datetime.timedelta(1), lambda: pd.Timestamp("2020-01-01", tz="UTC"), lambda: pd.Period("2020"),
    lambda: pd.Interval(0, 1), lambda: b"x", lambda: bytearray(b"ab"), lambda: memoryview(b"ab"), lambda: "",
    lambda: "a", lambda: "\x00", lambda: "\ud800", lambda: "é" * 300, lambda: "nan", lambda: "3", lambda: np.str_("a"),
    lambda: np.bytes_(b"a"), lambda: _Colour.RED, lambda: _Text("a"), lambda: _Point(1.0, "a"), lambda: (1, 2),
    lambda: (), lambda: [], lambda: [1.0, "a"], lambda: ["a", "b"], lambda: [[]], lambda: [None], lambda: {},
    lambda: {"a": {"b": 1}}, lambda: {1: 2, "1": 3}, lambda: {None: 1}, lambda: {(1, 2): 3.0}, lambda: set(),
    lambda: {"a", "b"}, lambda: {1, 2}, lambda: frozenset({"a"}), lambda: (x for x in (1.0, 2.0)), lambda: iter([]),
    lambda: range(3), lambda: range(0), lambda: len, lambda: object(), lambda: int, lambda: ..., lambda: slice(3),
    lambda: NotImplemented, lambda: np.void(b"ab"), lambda: np.ma.masked, lambda: np.array([]),
    lambda: np.array([{"a": 1}, None], dtype=object), lambda: np.array([[1.0, 2.0]]), lambda: np.zeros((2, 2, 2, 2)),
    lambda: np.zeros(2, dtype=[("a", "f4"), ("b", "U2")]), lambda: np.ma.array([1.0, 2.0], mask=[True, False]),
    lambda: np.matrix([[1.0, 2.0]]), lambda: pa.scalar("a"), lambda: pa.array([1, None]), lambda: pa.array(["a", None]),
    lambda: pa.table({"a": [1.0]}), lambda: pa.array([[1], None]), lambda: pl.Series("s", [1, None]), lambda: pl.Null,
    lambda: pl.Series(["a"], dtype=pl.Categorical), lambda: pl.DataFrame({"a": [1]}).lazy(), lambda: pl.col("a"),
    lambda: pd.Series(["a", None], dtype="category"), lambda: pd.DataFrame(), lambda: pd.Index([1, 2]),
    lambda: pd.DataFrame({"a": [1, 2]}).groupby("a"), lambda: sp.csr_array((0, 3)), lambda: sp.coo_array([[1.0, 0]]),
    lambda: uuid.UUID(int=7), lambda: pathlib.PurePath("a"), lambda: array.array("d", [1.0, 2.0]),
    lambda: collections.deque([1.0]), lambda: collections.OrderedDict(a=1.0), lambda: collections.Counter("aab"),
    lambda: collections.defaultdict(list), lambda: collections.UserDict(a=1.0), lambda: collections.ChainMap({"a": 1}),
    lambda: types.MappingProxyType({"a": 1.0}), lambda: types.SimpleNamespace(a=1), _recursive, lambda: _Liar("abc"),
    lambda: collections.UserList([1.0, 2.0]), lambda: collections.UserString("ab"), lambda: ValueError("a"),
)  # fmt: skip


def _pick(rng: Rng, options: Any) -> Any:
    """Draw one of several objects."""
    return options[int(rng.integers(len(options)))]


def odd_value(rng: Rng) -> Any:
    """Draw a value."""
    kind = rng.random()
    if kind < 0.06:
        return _hostile(rng)
    return _pick(rng, _NUMBERS if kind < 0.5 else _OTHERS)()


def mutated(rng: Rng, item: Any) -> Any:
    """Return the object with something about it changed, at a random depth; the object itself stays as it is."""
    if isinstance(item, (list, tuple)):
        return _mutated_list(rng, item)
    if isinstance(item, dict):
        return _mutated_dict(rng, item)
    if isinstance(item, str):
        others = (item.encode(errors="replace"), list(item), np.array(list(item)), 3 * item)
        return _pick(rng, (item + "\x00", item[:1], "", *others))
    if sp.issparse(item):
        return _mutated_sparse(rng, item)
    if isinstance(item, pd.DataFrame):
        return _mutated_table(rng, item)
    if isinstance(item, np.ndarray):
        return _mutated_array(rng, item)
    return odd_value(rng)


def _mutated_list(rng: Rng, item: Any) -> Any:
    items = list(item)
    i = int(rng.integers(max(len(items), 1)))
    what = rng.random()
    if what < 0.55 and items:
        items[i] = odd_value(rng) if rng.random() < 0.25 else mutated(rng, items[i])
        return type(item)(items) if type(item) in (list, tuple) else items
    changes: tuple[Callable[[], Any], ...] = (
        lambda: items[:i], lambda: items[i:] * 2, lambda: [*items[:i], odd_value(rng), *items[i:]], lambda: [items],
        lambda: items[i], list, lambda: [[]], lambda: tuple(items), lambda: iter(items), lambda: (x for x in items),
        lambda: map(_same, items), lambda: collections.deque(items), lambda: _objects(items), lambda: _Liar(items),
        lambda: np.array(items), lambda: pd.Series(items), lambda: _polars(items), lambda: _arrow(items),
        lambda: dict(enumerate(items)), lambda: dict.fromkeys(map(str, range(len(items))), items), lambda: set(items),
        lambda: zip(items, items, strict=True), lambda: collections.UserList(items),
        lambda: pa.chunked_array([_arrow(items)]),
        lambda: items[::-1], lambda: [odd_value(rng) for _ in items], lambda: pd.Index(items), lambda: reversed(items),
        lambda: np.ma.array(items), lambda: [np.array(x) for x in items], lambda: [tuple(x) for x in items],
        lambda: [pd.Series(x) for x in items], lambda: [_polars(x) for x in items], lambda: [iter(x) for x in items],
        lambda: [_objects(x) for x in items], lambda: [_arrow(x) for x in items], lambda: dict.fromkeys(items),
        lambda: [pd.DataFrame(x) for x in items], lambda: [pl.DataFrame({"a": _polars(x)}) for x in items],
        lambda: [sp.csr_array(x) for x in items], lambda: pd.DataFrame(items), lambda: pd.Categorical(items),
        lambda: [_either(rng, x) for x in items],
    )  # fmt: skip
    return _tried(_pick(rng, changes), items)


def _either(rng: Rng, item: Any) -> Any:
    return mutated(rng, item) if rng.random() < 0.5 else item


def _same(item: Any) -> Any:
    return item


def _plain(items: Any) -> list[Any]:
    """Return a list of plain values; of others than these polars and pyarrow make crashes of their own."""
    flat = [x for item in items for x in (item if isinstance(item, list) else [item])]
    if not all(type(x) in (int, float, str, bool, type(None)) and len(str(x)) < 18 for x in flat):
        raise TypeError
    return list(items)


def _polars(items: Any) -> pl.Series:
    return pl.Series(_plain(items), strict=False)


def _arrow(items: Any) -> pa.Array:
    return pa.array(_plain(items))


def _objects(items: Any) -> np.ndarray:
    array = np.empty(len(items), dtype=object)
    for i, item in enumerate(items):
        array[i] = item
    return array


def _tried(change: Callable[[], Any], otherwise: Any) -> Any:
    """Make a change that other libraries may refuse."""
    try:
        return change()
    except Exception:
        return otherwise


def _mutated_dict(rng: Rng, item: dict[Any, Any]) -> Any:
    items = dict(item)
    keys = list(items)
    key = _pick(rng, keys) if keys else "x"
    changes: tuple[Callable[[], Any], ...] = (
        lambda: items | {key: odd_value(rng)}, lambda: items | {key: odd_value(rng)}, lambda: items | {"": 1.0},
        lambda: items | {odd_value(rng): 1.0}, lambda: items | {odd_value(rng): odd_value(rng)}, dict,
        lambda: {k: v for k, v in items.items() if k != key}, lambda: list(items.items()), lambda: list(items),
        lambda: collections.UserDict(items), lambda: types.MappingProxyType(items), lambda: tuple(items.values()),
        lambda: collections.Counter(items), lambda: items | {1: 1.0, "1": 2.0}, lambda: items | {key: [items[key]]},
        lambda: pd.Series(items), lambda: items | {key: {key: 1.0}}, lambda: set(items),
        lambda: items | {_Text(key): 1}, lambda: items | {str(k): odd_value(rng) for k in range(5)},
        lambda: items | {key: {items[key]}},
    )  # fmt: skip
    return _tried(_pick(rng, changes), items)


def _mutated_array(rng: Rng, item: np.ndarray) -> Any:
    def with_value() -> Any:
        changed = item.astype(object)
        changed.flat[int(rng.integers(max(item.size, 1)))] = odd_value(rng)
        return changed

    def with_number() -> Any:
        changed = item.astype(np.float64)
        changed.flat[int(rng.integers(max(item.size, 1)))] = _pick(rng, (np.nan, np.inf, -np.inf, 1e308, 1e39, -1e308))
        return changed

    changes: tuple[Callable[[], Any], ...] = (
        with_value, with_value, with_number, with_number, lambda: item[:0], lambda: item[:, :0], lambda: item[:, 1:],
        lambda: item.T, lambda: item.ravel(), lambda: item[None], lambda: item[..., None], lambda: item[0],
        lambda: np.asfortranarray(item), lambda: item[::-1], lambda: item[:, ::-1],
        lambda: np.ma.array(item, mask=item > 0), lambda: np.ma.masked_all_like(item), lambda: np.matrix(item),
        lambda: item.astype(_pick(rng, _DTYPES)), lambda: item.tolist(), lambda: pd.DataFrame(item),
        lambda: pl.DataFrame(item), lambda: sp.csr_array(item), lambda: np.repeat(item, 2, axis=1),
        lambda: np.hstack([item, item[:, :1]]), lambda: item.data, lambda: np.broadcast_to(item[:1], item.shape),
        lambda: item.view(np.recarray), lambda: item.view(_Array), lambda: np.full_like(item, np.nan),
        lambda: item * 1e300 * 1e10, lambda: _arrow(item[0].tolist()), lambda: item.view("V8"),
        lambda: list(map(tuple, item)),
        lambda: [dict(enumerate(row)) for row in item], lambda: item.item(0),
    )  # fmt: skip
    with np.errstate(all="ignore"):
        return _tried(_pick(rng, changes), item)


class _Array(np.ndarray):
    """A subclass of NumPy's array that changes nothing."""


_DTYPES = ("f2", ">f8", "longdouble", "i1", ">i4", "u8", "?", "c8", "O", "U3", "S3", "M8[s]", "m8[D]", "V8", "T")


def _mutated_sparse(rng: Rng, item: Any) -> Any:
    def with_data(value: Any) -> Any:
        changed = item.tocsr(copy=True)
        changed.data[:1] = value
        return changed

    def unsorted() -> Any:
        coo = item.tocoo()
        parts = [np.concatenate([part, part[::-1]]) for part in (coo.data, coo.row, coo.col)]
        return sp.coo_array((parts[0], (parts[1], parts[2])), shape=item.shape)

    formats = ("csr", "csc", "coo", "lil", "dok", "dia", "bsr")
    changes: tuple[Callable[[], Any], ...] = (
        lambda: item.asformat(_pick(rng, formats)), lambda: item.asformat(_pick(rng, formats)), unsorted,
        lambda: sp.csr_matrix(item), lambda: sp.dok_matrix(item), lambda: with_data(np.nan), lambda: with_data(np.inf),
        lambda: with_data(0.0), lambda: with_data(1e308), lambda: item[:0], lambda: item[:, :0], lambda: item[:, :1],
        lambda: sp.hstack([item, item]), lambda: item.astype(_pick(rng, ("?", "i1", "c8", "f4", "longdouble"))),
        lambda: item.astype(object), lambda: item.toarray(), lambda: item.T, lambda: list(item.tocsr()),
        lambda: sp.coo_array(item.toarray()[0]), lambda: pd.DataFrame.sparse.from_spmatrix(item),
        lambda: item.tocsr()[::-1],
    )  # fmt: skip
    return _tried(_pick(rng, changes), item)


def _mutated_table(rng: Rng, item: pd.DataFrame) -> Any:
    name = _pick(rng, list(item.columns)) if len(item.columns) else "x"
    dtypes = (
        "category", "string", "Int64", "Float64", "boolean", "object", "datetime64[ns]", "timedelta64[ns]", "float32",
        "Sparse[float]", "string[pyarrow]", "int64[pyarrow]", "period[D]", "complex128", "uint8", "bool",
    )  # fmt: skip

    def with_value(value: Any) -> Any:
        changed = item.astype({name: object})
        changed.iat[int(rng.integers(len(item))), list(item.columns).index(name)] = value
        return changed

    def arrow(kind: Any) -> Any:
        table = pa.Table.from_pandas(item, preserve_index=False)
        place = table.column_names.index(name)
        return table.set_column(place, name, table[name].cast(kind))

    def nested() -> Any:
        table = pa.Table.from_pandas(item, preserve_index=False)
        return table.append_column("n", pa.array([[1.0, 2.0]] * len(item)))

    changes: tuple[Callable[[], Any], ...] = (
        lambda: with_value(odd_value(rng)), lambda: with_value(odd_value(rng)),
        lambda: with_value(_pick(rng, _NUMBERS)()), lambda: item.astype({name: _pick(rng, dtypes)}),
        lambda: item.astype({name: _pick(rng, dtypes)}), lambda: item.drop(columns=[name]),
        lambda: item.rename(columns={name: odd_value(rng)}), lambda: item.iloc[:0],
        lambda: pd.concat([item, item[[name]]], axis=1), lambda: item.iloc[:, :0], lambda: item.assign(extra=1.0),
        lambda: item.set_index(name), lambda: item.set_index([name, item.columns[0]], drop=False), lambda: item.T,
        lambda: item.set_axis(pd.MultiIndex.from_product([["a"], item.columns]), axis=1), lambda: item[name],
        lambda: item.sample(frac=1.0, random_state=int(rng.integers(99))), lambda: item.iloc[::-1],
        lambda: item.to_dict(), lambda: item.to_dict("records"), lambda: item.to_numpy(), lambda: item.to_records(),
        lambda: item.groupby(name), lambda: pl.from_pandas(item), lambda: pl.from_pandas(item).lazy(),
        lambda: pa.Table.from_pandas(item),
        lambda: pl.from_pandas(item).with_columns(pl.col(name).cast(pl.String).cast(pl.Categorical)), nested,
        lambda: pl.from_pandas(item).with_columns(pl.struct(pl.all()).alias("n")), lambda: item.assign(**{name: None}),
        lambda: pa.RecordBatch.from_pandas(item), lambda: arrow(pa.dictionary(pa.int8(), pa.string())),
        lambda: arrow(_pick(rng, (pa.float16(), pa.decimal128(20, 3), pa.large_string(), pa.binary(), pa.date32()))),
        lambda: [group for _, group in item.groupby(item.columns[0])],
        lambda: item.assign(**{name: [odd_value(rng)] * len(item)}), lambda: [item], lambda: item.style,
        lambda: item.assign(**{name: range(len(item))}), lambda: pa.table({}),
        lambda: item.set_axis([_pick(rng, _OTHERS)() for _ in item.columns], axis=1),
        lambda: item.set_axis([0] * len(item)), lambda: item.reindex(range(-2, len(item))),
        lambda: pd.concat([item, item]), lambda: item.convert_dtypes(),
    )  # fmt: skip
    return _tried(_pick(rng, changes), item)
