"""Sums of several numbers at once, which the compiler does not find by itself.

It cannot know that a histogram, the codes and the sums of rows never overlap, so it would ask, or fetch everything anew
after each store. These functions do not look where arrays end, and take contiguous ones of just the types they name.
Each has a twin for ``NUMBA_DISABLE_JIT``.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numba.core import types
from numba.core.errors import TypingError
from numba.extending import intrinsic
from numpy.typing import NDArray

from seqboost.trees.integers import HALF

__all__ = [
    "ADDENDS",
    "ADDRESS",
    "N_BLOCK",
    "add_eight_floats",
    "add_eight_integers",
    "add_four_floats",
    "add_four_integers",
    "add_one_float",
    "add_pair",
    "add_rows_to_context",
    "add_rows_to_four",
    "add_rows_to_two",
    "add_two_floats",
    "add_two_integers",
    "add_two_rows",
    "prefetch",
]

ADDRESS, ADDENDS, N_BLOCK = 0, 1, 3
"""Where a row of a block has its address and its two addends, and how many numbers it takes."""


def _require(expected: types.Type, *arrays: Any) -> None:
    """Refuse arrays that compiled code would take for others."""
    for array in arrays:
        if not isinstance(array, types.Array) or array.dtype != expected or array.layout != "C":
            raise TypingError(f"expected a contiguous array of {expected}, got {array}")


if numba.config.DISABLE_JIT:

    def add_pair(array: NDArray[np.int64], index: Any, first: int, second: int) -> None:
        """Add to ``array[index]`` and ``array[index + 1]``."""
        array[index] += first
        array[index + np.uint64(1)] += second

    def add_two_rows(
        array: NDArray[np.int64], starts: tuple[Any, ...], codes: NDArray[np.uint8], shift: Any, block: Any, row: Any
    ) -> None:
        """Add two rows of a block to the cells of neighbouring features."""
        for f, start in enumerate(starts):
            for address, first, second in block[int(row) : int(row) + 2]:
                code = codes[(int(address) + int(shift)) % 2**64 + f]  # negative shifts have come round from 2^64
                add_pair(array, start + np.uint64(2) * np.uint64(code), first, second)

    def _row_adder(name: str, width: int) -> Any:
        def add(by_context: Any, gradient: Any, curvature: Any, cells: Any, starts: Any, context: Any) -> None:
            for c in range(int(context), int(context) + width):
                for start in starts:
                    cell = int(cells[int(start) + c])
                    low = (cell + (1 << (HALF - 1))) % (1 << HALF) - (1 << (HALF - 1))
                    by_context[int(gradient) + c] += low
                    by_context[int(curvature) + c] += (cell - low) >> HALF

        return add

    def _adder(name: str, width: int, dtype: Any) -> Any:
        def add(sums: Any, ones: Any, others: Any, place: Any, other_place: Any) -> None:
            here, there = int(place), int(other_place)
            sums[here : here + width] = ones[here : here + width] + others[there : there + width]

        return add

    def prefetch(array: NDArray[Any], index: Any) -> None:
        """Have ``array[index]`` brought near: compiled code alone can."""

else:

    @intrinsic
    def add_pair(typing_context: Any, array: Any, index: Any, first: Any, second: Any) -> Any:
        """Add to ``array[index]`` and ``array[index + 1]``, both int64: half the stores, which bound a histogram."""
        _require(types.int64, array)

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            from llvmlite import ir

            pair = ir.VectorType(ir.IntType(64), 2)
            addend = ir.Constant(pair, ir.Undefined)
            for place in (0, 1):
                addend = builder.insert_element(addend, arguments[2 + place], ir.Constant(ir.IntType(32), place))
            data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
            address = builder.bitcast(builder.gep(data, [arguments[1]]), pair.as_pointer())
            builder.store(builder.add(builder.load(address, align=8), addend), address, align=8)
            return context.get_dummy_value()

        return types.void(array, types.uint64, types.int64, types.int64), generate

    @intrinsic
    def add_two_rows(typing_context: Any, array: Any, starts: Any, codes: Any, shift: Any, block: Any, row: Any) -> Any:
        """Add rows ``row`` and ``row + 1`` of a block to the cells of neighbouring features.

        Feature f has code ``codes[address + shift + f]`` at a row and its first cell at ``array[starts[f]]``; a row of
        the block is its address and what it adds to the two numbers of a cell. All codes and addends are fetched before
        the first sum is stored, the codes as words: each fetch after a store would have to wait for its address.
        """
        _require(types.int64, array, block)
        _require(types.uint8, codes)
        n_features = len(starts)

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            from llvmlite import ir

            long = ir.IntType(64)
            pair = ir.VectorType(long, 2)

            def data(place: int) -> Any:
                return context.make_array(signature.args[place])(context, builder, arguments[place]).data

            def at(pointer: Any, place: int) -> Any:
                return builder.gep(pointer, [ir.Constant(long, place)])

            def words(first: Any) -> list[Any]:
                """Fetch the codes of a row, four, two or one at a time; all machines of numba's are little-endian."""
                found: list[Any] = []
                while len(found) < n_features:
                    n = next(n for n in (4, 2, 1) if n <= n_features - len(found))
                    pointer = builder.bitcast(at(first, len(found)), ir.IntType(8 * n).as_pointer())
                    word = builder.zext(builder.load(pointer, align=1), long)
                    for byte in range(n):
                        shifted = builder.lshr(word, ir.Constant(long, 8 * byte))
                        found.append(builder.and_(shifted, ir.Constant(long, 255)))
                return found

            rows = builder.gep(data(4), [builder.mul(arguments[5], ir.Constant(long, N_BLOCK))])
            fetched = []
            for here in (rows, at(rows, N_BLOCK)):
                address = builder.add(builder.load(at(here, ADDRESS)), arguments[3])
                addend = builder.load(builder.bitcast(at(here, ADDENDS), pair.as_pointer()), align=8)
                fetched.append((words(builder.gep(data(2), [address])), addend))
            for f in range(n_features):
                first_cell = builder.gep(data(0), [builder.extract_value(arguments[1], f)])
                for found, addend in fetched:
                    cell = builder.gep(builder.bitcast(first_cell, pair.as_pointer()), [found[f]])
                    builder.store(builder.add(builder.load(cell, align=8), addend), cell, align=8)
            return context.get_dummy_value()

        return types.void(array, starts, codes, types.uint64, block, types.uint64), generate

    def _row_adder(name: str, width: int) -> Any:
        """Make a function that adds four rows to the sums of ``width`` neighbouring contexts, from ``context`` on.

        Cells and sums are flat: those of context c are ``cells[start + c]`` for the four rows, packed, and
        ``by_context[gradient + c]`` and ``by_context[curvature + c]``. The sums of two rows still fit the halves of a
        packed number.
        """

        def add(
            typing_context: Any, by_context: Any, gradient: Any, curvature: Any, cells: Any, starts: Any, context: Any
        ) -> Any:
            _require(types.int64, by_context, cells)

            def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
                from llvmlite import ir

                vector = ir.VectorType(ir.IntType(64), width)
                half = ir.Constant(vector, [HALF] * width)

                def place(array: int, start: Any) -> Any:
                    data = target.make_array(signature.args[array])(target, builder, arguments[array]).data
                    pointer = builder.gep(data, [builder.add(start, arguments[5])])
                    return builder.bitcast(pointer, vector.as_pointer())

                row = [builder.load(place(3, builder.extract_value(arguments[4], k)), align=8) for k in range(4)]
                pairs = [builder.add(row[0], row[1]), builder.add(row[2], row[3])]
                low = [builder.ashr(builder.shl(pair, half), half) for pair in pairs]
                high = [builder.ashr(builder.sub(*parts), half) for parts in zip(pairs, low, strict=True)]
                for start, parts in ((arguments[1], low), (arguments[2], high)):
                    sums = place(0, start)
                    builder.store(builder.add(builder.load(sums, align=8), builder.add(*parts)), sums, align=8)
                return target.get_dummy_value()

            return types.void(by_context, types.uint64, types.uint64, cells, starts, types.uint64), generate

        add.__name__ = name
        return intrinsic(add)

    def _adder(name: str, width: int, dtype: Any) -> Any:
        """Make a function that writes ``ones[place + q] + others[other_place + q]`` to ``sums[place + q]``.

        There are ``width`` of them, fetched before the first sum is stored; ``sums`` may be ``ones``.
        """

        def add(typing_context: Any, sums: Any, ones: Any, others: Any, place: Any, other_place: Any) -> Any:
            _require(dtype, sums, ones, others)

            def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
                from llvmlite import ir

                vector = ir.VectorType(context.get_data_type(dtype), width)

                def pointer(array: int, index: int) -> Any:
                    data = context.make_array(signature.args[array])(context, builder, arguments[array]).data
                    return builder.bitcast(builder.gep(data, [arguments[index]]), vector.as_pointer())

                addends = [builder.load(pointer(array, array + 2), align=4) for array in (1, 2)]
                total = builder.fadd(*addends) if isinstance(dtype, types.Float) else builder.add(*addends)
                builder.store(total, pointer(0, 3), align=4)
                return context.get_dummy_value()

            return types.void(sums, ones, others, types.uint64, types.uint64), generate

        add.__name__ = name
        return intrinsic(add)

    @intrinsic
    def prefetch(typing_context: Any, array: Any, index: Any) -> Any:
        """Have ``array[index]`` brought into the innermost cache without waiting for it."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            from llvmlite import ir

            byte, flag = ir.IntType(8).as_pointer(), ir.IntType(32)
            data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
            address = builder.bitcast(builder.gep(data, [arguments[1]]), byte)
            function = builder.module.declare_intrinsic(
                "llvm.prefetch", (byte,), ir.FunctionType(ir.VoidType(), (byte, flag, flag, flag))
            )
            to_read, to_all_levels, data_not_code = (ir.Constant(flag, value) for value in (0, 3, 1))
            builder.call(function, [address, to_read, to_all_levels, data_not_code])
            return context.get_dummy_value()

        return types.void(array, types.uint64), generate


add_rows_to_four = _row_adder("add_rows_to_four", 4)
add_rows_to_two = _row_adder("add_rows_to_two", 2)
add_rows_to_context = _row_adder("add_rows_to_context", 1)

add_eight_floats = _adder("add_eight_floats", 8, types.float32)
add_four_floats = _adder("add_four_floats", 4, types.float32)
add_two_floats = _adder("add_two_floats", 2, types.float32)
add_one_float = _adder("add_one_float", 1, types.float32)

add_eight_integers = _adder("add_eight_integers", 8, types.int32)
add_four_integers = _adder("add_four_integers", 4, types.int32)
add_two_integers = _adder("add_two_integers", 2, types.int32)
