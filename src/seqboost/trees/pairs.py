"""Two neighbouring numbers of a histogram, fetched, added to and stored as one."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numba.core import types
from numba.extending import intrinsic
from numpy.typing import NDArray

__all__ = ["add_pair"]

if numba.config.DISABLE_JIT:

    def add_pair(array: NDArray[np.int64], index: Any, first: int, second: int) -> None:
        """Add to ``array[index]`` and ``array[index + 1]``."""
        array[index] += first
        array[index + np.uint64(1)] += second

else:

    @intrinsic
    def add_pair(typing_context: Any, array: Any, index: Any, first: Any, second: Any) -> Any:
        """Add to ``array[index]`` and ``array[index + 1]``, both int64: half the stores, which bound a histogram."""

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
