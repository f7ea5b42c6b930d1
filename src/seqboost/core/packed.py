"""Handing a named tuple of arrays to kernels by its address.

Numba takes a tuple apart: an array has seven words or more, so that a tuple of fifty arrays makes a call of hundreds of
arguments, from Python and from kernel to kernel. Moving them takes most of the time of short kernels, and most of what
is compiled. A packed tuple is one address, and a kernel reads from there what it uses::

    words    [ array: 0, 0, size, item size, data, shape …, strides … ][ number ][ fields of an inner tuple … ] …

Kernels read fields by name, ``work.nodes.state``, as those of the tuple itself; nothing else can be done with it. The
words never change, so that the compiler may keep what it has read.
"""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from typing import Any, TypeVar, cast

import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.core.typing.templates import AttributeTemplate
from numba.extending import NativeValue, infer_getattr, lower_getattr_generic, models, register_model, unbox

__all__ = ["Packer", "packed"]

T = TypeVar("T")


class Address(types.Type):
    """The address of the fields of a named tuple."""

    def __init__(self, named_tuple: type, fields: tuple[types.Type, ...]) -> None:
        self.named_tuple, self.fields = named_tuple, fields
        super().__init__(f"{named_tuple.__name__}({', '.join(map(str, fields))})")
        names = named_tuple._fields  # type: ignore[attr-defined]
        starts = np.concatenate([[0], np.cumsum([_n_words(field) for field in fields])]).tolist()
        self.places = dict(zip(names, zip(starts, fields, strict=False), strict=True))
        self.n_words = starts[-1]

    @property
    def mangling_args(self) -> tuple[str, tuple[()]]:
        """The type in the names of kernels, which would be thousands of letters long."""
        return f"{self.named_tuple.__name__}{sha256(self.name.encode()).hexdigest()[:8]}", ()


def _n_words(field: types.Type) -> int:
    """Return how many words a field takes."""
    if isinstance(field, Address):
        return cast("int", field.n_words)
    return 5 + 2 * field.ndim if isinstance(field, types.Array) else 1


@cache
def _array_type(dtype: np.dtype[Any], n_axes: int) -> types.Type:
    return types.Array(numba.from_dtype(dtype), n_axes, "C")


@cache
def _address_type(named_tuple: type, fields: tuple[types.Type, ...]) -> types.Type:
    return Address(named_tuple, fields)


def _pack(value: Any, words: list[int]) -> types.Type:
    """Append the words of a field, and return its type."""
    if isinstance(value, np.ndarray):
        if not value.flags.c_contiguous:
            raise ValueError("only contiguous arrays can be packed")
        words += (0, 0, value.size, value.itemsize, value.ctypes.data, *value.shape, *value.strides)
        return _array_type(value.dtype, value.ndim)
    if isinstance(value, tuple):
        return _address_type(type(value), tuple(_pack(field, words) for field in value))
    if isinstance(value, bool | int | np.integer | np.bool_):
        words.append(int(value))
        return types.boolean if isinstance(value, bool | np.bool_) else types.int64
    words.append(int(np.float64(value).view(np.int64)))
    return types.float64


class Packed:
    """A named tuple as kernels take it; its arrays live as long as it does."""

    __slots__ = ("_numba_type_", "_words", "address", "value")

    def __init__(self, value: Any) -> None:
        words: list[int] = []
        self.value, self._numba_type_ = value, _pack(value, words)
        self._words = np.array(words, dtype=np.int64)
        self.address = self._words.ctypes.data


def packed(value: T) -> T:
    """Return a named tuple of arrays, numbers and such tuples as kernels take it; of None, None.

    It holds the values of this moment: what a kernel writes goes to the tuple's arrays.
    """
    if value is None or numba.config.DISABLE_JIT:
        return value
    return cast("T", Packed(value))


class Packer:
    """Packs tuples, and keeps them packed until others come."""

    def __init__(self) -> None:
        self._last: list[tuple[Any, Any]] = []

    def __call__(self, *values: Any) -> list[Any]:
        """Return the tuples as kernels take them."""
        if [id(value) for value, _ in self._last] != [id(value) for value in values]:
            kept = {id(value): packed_value for value, packed_value in self._last}
            self._last = [(value, kept.get(id(value)) or packed(value)) for value in values]
        return [packed_value for _, packed_value in self._last]


@register_model(Address)
class _AddressModel(models.PrimitiveModel):
    def __init__(self, manager: Any, address: Address) -> None:
        super().__init__(manager, address, ir.IntType(64).as_pointer())


@unbox(Address)
def _unbox(_address: Address, value: Any, c: Any) -> NativeValue:
    number = c.pyapi.object_getattr_string(value, "address")
    place = c.pyapi.long_as_voidptr(number)
    c.pyapi.decref(number)
    return NativeValue(c.builder.bitcast(place, ir.IntType(64).as_pointer()))


@infer_getattr
class _Fields(AttributeTemplate):
    key = Address

    def generic_resolve(self, address: Address, name: str) -> types.Type | None:
        return address.places[name][1] if name in address.places else None


@lower_getattr_generic(Address)
def _read(context: Any, builder: Any, address: Address, place: Any, name: str) -> Any:
    start, field = address.places[name]
    place = builder.gep(place, [ir.Constant(ir.IntType(64), start)], inbounds=True)
    if isinstance(field, Address):
        return place
    kind = ir.IntType(64) if field is types.boolean else context.get_value_type(field)
    read = builder.load(builder.bitcast(place, kind.as_pointer()))
    read.set_metadata("invariant.load", builder.module.add_metadata([]))
    return builder.icmp_signed("!=", read, ir.Constant(ir.IntType(64), 0)) if field is types.boolean else read
