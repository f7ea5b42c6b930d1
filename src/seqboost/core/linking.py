"""Calling a compiled kernel from another one by its address.

Numba compiles a kernel together with all that it calls. One that is called by its address is compiled and cached apart,
so that two processes can compile the two at the same time, and other callers need not compile it again.
"""

from __future__ import annotations

from typing import Any

import numba
from numba.core import cgutils, types
from numba.core.typing import signature
from numba.extending import intrinsic

__all__ = ["address_of", "call"]

if numba.config.DISABLE_JIT:

    def address_of(kernel: Any, *values: Any) -> Any:
        """Return what `call` calls: the kernel itself."""
        return kernel

    def call(address: Any, arguments: tuple[Any, ...]) -> None:
        """Call a kernel."""
        address(*arguments)

else:

    def address_of(kernel: Any, *values: Any) -> Any:
        """Compile a kernel that returns nothing for arguments of the types of these; return its address."""
        wanted = tuple(map(numba.typeof, values))
        kernel.compile(wanted)
        compiled = kernel.overloads[wanted]
        return compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name)

    @intrinsic
    def call(typing_context: Any, address: Any, arguments: Any) -> Any:
        """Call a kernel, whose address is given, with arguments of the types that it was compiled for."""

        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            from llvmlite import ir

            kinds, convention = list(signature.args[1].types), context.call_conv
            place = convention.get_function_type(types.none, kinds)
            result, _error = (cgutils.alloca_once(builder, kind.pointee) for kind in place.args[:2])
            packed = convention._get_arg_packer(kinds).as_arguments(builder, cgutils.unpack_tuple(builder, values[1]))
            builder.store(ir.Constant(result.type.pointee, None), result)
            builder.call(builder.inttoptr(values[0], place.as_pointer()), [result, _error, *packed])
            return context.get_dummy_value()

        return signature(types.none, types.int64, arguments), generate
