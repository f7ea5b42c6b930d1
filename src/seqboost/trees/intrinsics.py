"""Vector instructions that the compiler does not find by itself.

The compiler cannot know that a histogram, the codes and the vectors of rows never overlap, so it would ask, or fetch
everything anew after each store. These functions do not look where arrays end, and take contiguous arrays of just the
types they name. Each has a twin for ``NUMBA_DISABLE_JIT``.
"""

from __future__ import annotations

from typing import Any

import numba
from numba.core import cgutils, types
from numba.core.errors import TypingError
from numba.extending import intrinsic

__all__ = [
    "add_eight_floats",
    "add_lanes",
    "add_one_float",
    "add_rows_of_lanes",
    "add_to_cells_of_eight",
    "add_to_cells_of_four",
    "add_to_cells_of_sixteen",
    "add_to_cells_of_twelve",
    "subtract_lanes",
    "sum_prefixes",
    "sum_prefixes_of_line",
]


AHEAD = 8  # rows whose codes are fetched


def _require(expected: types.Type, *arrays: Any) -> None:
    """Refuse arrays that compiled code would take for others."""
    for array in arrays:
        if not isinstance(array, types.Array) or array.dtype != expected or array.layout != "C":
            raise TypingError(f"expected a contiguous array of {expected}, got {array}")


if numba.config.DISABLE_JIT:

    def _lane_adder(name: str, sign: int, n_vectors: int) -> Any:
        def add(sums: Any, vectors: Any, at: Any, places: Any, n: Any) -> None:
            a, n = int(at), int(n)
            for place in places if n_vectors > 1 else (places,):
                sums[a : a + n] += sign * vectors[int(place) : int(place) + n]

        return add

    def _cell_adder(name: str, width: int) -> Any:
        def add(cells: Any, vectors: Any, rows: Any, codes: Any, address: Any, start: Any, span: Any) -> None:
            first, last, begin, stop, shift, by_row, _ = (int(x) for x in span)
            for p in range(first, last):
                i = int(rows[p])
                place = width * (i if by_row else p - first)
                for f in range(begin, stop):
                    cell = width * (int(start[f]) + int(codes[int(address[i]) + shift + f]))
                    cells[cell : cell + width] += vectors[place : place + width]

        return add

    def _float_adder(name: str, width: int) -> Any:
        def add(new: Any, old: Any, added: Any, at: Any, place: Any) -> None:
            a, b = int(at), int(place)
            new[a : a + width] = old[a : a + width] + added[b : b + width]

        return add

    def _prefix_adder(name: str, on_line: bool) -> Any:
        def add(cells: Any, line: Any, n: Any, shape: Any, running: Any, prefix: Any, stride: Any) -> None:
            start, width, lane = (int(x) for x in shape)
            for r in range(int(n)):
                for w in range(lane, lane + 4):
                    running[w] += cells[(start + (int(line[r]) if on_line else r)) * width + w]
                    prefix[w * int(stride) + r] = running[w]

        return add

else:

    def _pointer(context: Any, builder: Any, signature: Any, arguments: Any, array: int, index: Any, lane: Any) -> Any:
        """Return the address of ``array[index]`` as that of a vector."""
        data = context.make_array(signature.args[array])(context, builder, arguments[array]).data
        return builder.bitcast(builder.gep(data, [index]), lane.as_pointer())

    def _lane_adder(name: str, sign: int, n_vectors: int) -> Any:
        """Make a function that adds ``vectors[place + q]`` to ``sums[at + q]``, or subtracts it, for q below an even n.

        With several vectors there is a tuple of places, and the sums are fetched and stored once.
        """

        def add(typing_context: Any, sums: Any, vectors: Any, at: Any, places: Any, n: Any) -> Any:
            _require(types.int32, sums, vectors)

            def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
                from llvmlite import ir

                long = ir.IntType(64)
                starts = [arguments[3]]
                if n_vectors > 1:
                    starts = [builder.extract_value(arguments[3], r) for r in range(n_vectors)]

                def add_part(width: int, offset: Any) -> None:
                    lanes = ir.VectorType(ir.IntType(32), width)

                    def pointer(array: int, start: Any) -> Any:
                        index = builder.add(start, offset)
                        return _pointer(context, builder, signature, arguments, array, index, lanes)

                    total = builder.load(pointer(1, starts[0]), align=4)
                    for start in starts[1:]:
                        total = builder.add(total, builder.load(pointer(1, start), align=4))
                    here = pointer(0, arguments[2])
                    old = builder.load(here, align=4)
                    builder.store(builder.add(old, total) if sign > 0 else builder.sub(old, total), here, align=4)

                offset = builder.and_(arguments[4], ir.Constant(long, -16))
                step = ir.Constant(long, 16)
                with cgutils.for_range_slice(builder, ir.Constant(long, 0), offset, step, long) as (q, _):
                    add_part(16, q)
                for width in (8, 4, 2):
                    part = builder.and_(arguments[4], ir.Constant(long, width))
                    with builder.if_then(builder.icmp_unsigned("!=", part, ir.Constant(long, 0))):
                        add_part(width, offset)
                    offset = builder.add(offset, part)
                return context.get_dummy_value()

            where = types.uint64 if n_vectors == 1 else places
            return types.void(sums, vectors, types.uint64, where, types.uint64), generate

        add.__name__ = name
        return intrinsic(add)

    def _cell_adder(name: str, width: int) -> Any:
        """Make a function that adds the vectors of rows to one cell of each of some features.

        With ``first, last, begin, stop, shift, by_row, is_far = span``, the rows are ``rows[first:last]``. The vector
        of row i begins at ``vectors[width · i]``, or unless ``by_row``, that of ``rows[p]`` at
        ``vectors[width · (p − first)]``. Feature f, from ``begin`` to ``stop``, has code
        ``codes[address[i] + shift + f]`` and its first cell at ``cells[width · start[f]]``. If ``is_far``, what coming
        rows need is fetched ahead.
        """

        def add(
            typing_context: Any, cells: Any, vectors: Any, rows: Any, codes: Any, address: Any, start: Any, span: Any
        ) -> Any:
            _require(types.int32, cells, vectors, rows)
            _require(types.uint8, codes)
            _require(types.int64, address, start)

            def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
                from llvmlite import ir

                long, parts = ir.IntType(64), [n for n in (16, 8, 4) if width & n]
                data = [context.make_array(signature.args[x])(context, builder, arguments[x]).data for x in range(6)]
                sums, addends, rows_, codes_, addresses, starts = data
                first, last, begin, stop, shift, by_row, is_far = (
                    builder.extract_value(arguments[6], x) for x in range(7)
                )
                none, one, factor = (ir.Constant(long, x) for x in (0, 1, width))

                def load(pointer: Any, index: Any) -> Any:
                    return builder.load(builder.gep(pointer, [index]))

                def pointers(pointer: Any, index: Any) -> list[Any]:
                    """Return the addresses of the parts of a vector."""
                    found = []
                    for n in parts:
                        place = builder.gep(pointer, [index])
                        found.append(builder.bitcast(place, ir.VectorType(ir.IntType(32), n).as_pointer()))
                        index = builder.add(index, ir.Constant(long, n))
                    return found

                with cgutils.for_range_slice(builder, first, last, one, long) as (p, _):
                    row = builder.zext(load(rows_, p), long)
                    turn = builder.select(builder.icmp_signed("!=", by_row, none), row, builder.sub(p, first))
                    vector = [builder.load(x, align=4) for x in pointers(addends, builder.mul(turn, factor))]
                    here = builder.add(load(addresses, row), shift)
                    with builder.if_then(builder.icmp_signed("!=", is_far, none)):
                        coming, end = builder.add(p, ir.Constant(long, AHEAD)), builder.sub(last, one)
                        coming = builder.select(builder.icmp_signed("<", coming, end), coming, end)
                        coming = builder.zext(load(rows_, coming), long)
                        there = builder.add(builder.add(load(addresses, coming), shift), begin)
                        _fetch(builder, builder.gep(codes_, [there]))
                        _fetch(builder, builder.gep(addends, [builder.mul(coming, factor)]))
                    with cgutils.for_range_slice(builder, begin, stop, one, long) as (f, _):
                        code = builder.zext(load(codes_, builder.add(here, f)), long)
                        cell = builder.mul(builder.add(load(starts, f), code), factor)
                        for place, addend in zip(pointers(sums, cell), vector, strict=True):
                            builder.store(builder.add(builder.load(place, align=4), addend), place, align=4)
                return context.get_dummy_value()

            return types.void(cells, vectors, rows, codes, address, start, span), generate

        add.__name__ = name
        return intrinsic(add)

    def _fetch(builder: Any, pointer: Any) -> None:
        """Have memory brought into the innermost cache without waiting for it."""
        from llvmlite import ir

        byte, flag = ir.IntType(8).as_pointer(), ir.IntType(32)
        function = builder.module.declare_intrinsic(
            "llvm.prefetch", (byte,), ir.FunctionType(ir.VoidType(), (byte, flag, flag, flag))
        )
        to_read, to_all_levels, data_not_code = (ir.Constant(flag, value) for value in (0, 3, 1))
        builder.call(function, [builder.bitcast(pointer, byte), to_read, to_all_levels, data_not_code])

    def _float_adder(name: str, width: int) -> Any:
        """Make a function that writes ``old[at + q] + added[place + q]`` to ``new[at + q]``; both may be one array."""

        def add(typing_context: Any, new: Any, old: Any, added: Any, at: Any, place: Any) -> Any:
            _require(types.float32, new, old, added)

            def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
                from llvmlite import ir

                vector = ir.VectorType(ir.FloatType(), width)
                there, here, plus = (
                    _pointer(context, builder, signature, arguments, array, arguments[index], vector)
                    for array, index in ((0, 3), (1, 3), (2, 4))
                )
                builder.store(builder.fadd(builder.load(here, align=4), builder.load(plus, align=4)), there, align=4)
                return context.get_dummy_value()

            return types.void(new, old, added, types.uint64, types.uint64), generate

        add.__name__ = name
        return intrinsic(add)

    def _prefix_adder(name: str, on_line: bool) -> Any:
        """Make a function that adds cells, one after another, to four running sums, and writes each of the sums.

        With ``start, width, lane = shape``, the lanes of value r begin at ``cells[(start + line[r])·width + lane]``, or
        without a line at ``cells[(start + r)·width + lane]``, the running sums at ``running[lane]``. Sum w after value
        r is written to ``prefix[(lane + w)·stride + r]``: four values of four lanes are transposed in registers. The
        number of values is a multiple of four.
        """

        def add(
            typing_context: Any, cells: Any, line: Any, n: Any, shape: Any, running: Any, prefix: Any, stride: Any
        ) -> Any:
            _require(types.int32, cells, running, prefix)
            _require(types.int64, line)

            def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
                from llvmlite import ir

                long, vector = ir.IntType(64), ir.VectorType(ir.IntType(32), 4)
                start, width, lane = (builder.extract_value(arguments[3], x) for x in range(3))

                def data(array: int) -> Any:
                    return context.make_array(signature.args[array])(context, builder, arguments[array]).data

                def at(pointer: Any, index: Any) -> Any:
                    return builder.bitcast(builder.gep(pointer, [index]), vector.as_pointer())

                def pick(one: Any, other: Any, *places: int) -> Any:
                    mask = ir.Constant(ir.VectorType(ir.IntType(32), 4), list(places))
                    return builder.shuffle_vector(one, other, mask)

                sums, values, written, state = data(0), data(1), data(5), at(data(4), lane)
                total = cgutils.alloca_once_value(builder, builder.load(state, align=4))
                lines = [builder.mul(builder.add(lane, ir.Constant(long, w)), arguments[6]) for w in range(4)]
                none, four = ir.Constant(long, 0), ir.Constant(long, 4)
                with cgutils.for_range_slice(builder, none, arguments[2], four, long) as (r, _):
                    after = []
                    for x in range(4):
                        value = builder.add(r, ir.Constant(long, x))
                        if on_line:
                            value = builder.load(builder.gep(values, [value]))
                        index = builder.add(builder.mul(builder.add(start, value), width), lane)
                        builder.store(builder.add(builder.load(total), builder.load(at(sums, index), align=4)), total)
                        after.append(builder.load(total))
                    low, high = pick(after[0], after[1], 0, 4, 1, 5), pick(after[0], after[1], 2, 6, 3, 7)
                    low2, high2 = pick(after[2], after[3], 0, 4, 1, 5), pick(after[2], after[3], 2, 6, 3, 7)
                    rows = [
                        pick(low, low2, 0, 1, 4, 5), pick(low, low2, 2, 3, 6, 7),
                        pick(high, high2, 0, 1, 4, 5), pick(high, high2, 2, 3, 6, 7),
                    ]  # fmt: skip
                    for row, first in zip(rows, lines, strict=True):
                        builder.store(row, at(written, builder.add(first, r)), align=4)
                builder.store(builder.load(total), state, align=4)
                return context.get_dummy_value()

            word = types.uint64
            return types.void(cells, line, word, shape, running, prefix, word), generate

        add.__name__ = name
        return intrinsic(add)


add_lanes, subtract_lanes = _lane_adder("add_lanes", 1, 1), _lane_adder("subtract_lanes", -1, 1)
add_rows_of_lanes = _lane_adder("add_rows_of_lanes", 1, 4)

add_to_cells_of_four = _cell_adder("add_to_cells_of_four", 4)
add_to_cells_of_eight = _cell_adder("add_to_cells_of_eight", 8)
add_to_cells_of_twelve = _cell_adder("add_to_cells_of_twelve", 12)
add_to_cells_of_sixteen = _cell_adder("add_to_cells_of_sixteen", 16)

add_eight_floats = _float_adder("add_eight_floats", 8)
add_one_float = _float_adder("add_one_float", 1)

sum_prefixes, sum_prefixes_of_line = _prefix_adder("sum_prefixes", False), _prefix_adder("sum_prefixes_of_line", True)
