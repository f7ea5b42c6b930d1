"""What numba does when it compiles a kernel of ours, without some of what takes most of its time.

* Numba optimises every kernel together with all that it calls and turns it into machine code, those that only other
  kernels call as well: one that is five calls down is optimised five times. A *part* is translated for its callers, and
  no more.
* Passes for what kernels have none of are left out: closures, expressions of whole arrays, ``with``, ``literally``.
* Numba compares its flags thousands of times, one by one: flags that were set alike are equal.
* Compiling makes millions of objects and few cycles: the garbage collector waits until it is over.

All this rests on internals of numba. Where a release no longer has them, kernels are compiled as numba does it.
"""

from __future__ import annotations

import gc
from types import SimpleNamespace
from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, Flags

__all__ = ["KernelCompiler", "PartCompiler"]

NEEDLESS = {
    "FindLiterallyCalls",
    "InlineClosureLikes",
    "InlineOverloads",
    "LiteralPropagationSubPipelinePass",
    "LiteralUnroll",
    "MakeFunctionToJitFunction",
    "NopythonRewrites",
    "RewriteDynamicRaises",
    "WithLifting",
}


class _Flags(Flags):
    """Flags that are compared at once if they were set alike."""

    __slots__ = ()
    _hash = hash(Flags())  # that of all flags

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self._values == getattr(other, "_values", None) or super().__eq__(other)


class KernelCompiler(Compiler):
    """Compiles a kernel."""

    def __init__(self, typing_context: Any, target_context: Any, library: Any, *rest: Any) -> None:
        super().__init__(typing_context, target_context, library, *rest)
        if hasattr(self.state.flags, "_values"):
            self.state.flags = _Flags(self.state.flags)

    def define_pipelines(self) -> Any:
        """Return what is done to a kernel."""
        managers = super().define_pipelines()
        for manager in managers:
            manager.passes = [step for step in manager.passes if step[0].__name__ not in NEEDLESS]
        return managers

    def compile_extra(self, function: Any) -> Any:
        """Compile a kernel."""
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            return super().compile_extra(function)
        finally:
            if was_enabled:
                gc.enable()


class _PartLibrary(JITCodeLibrary):
    """The code of a part, which never runs where it stands."""

    codegen = SimpleNamespace(set_env=lambda _name, _environment: None)  # kernels have no use for an environment

    def _optimize_functions(self, module: Any) -> None:
        module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, _name: str) -> int:
        return 0


class PartCompiler(KernelCompiler):
    """Translates a kernel that only other kernels call."""

    def __init__(self, typing_context: Any, target_context: Any, library: Any, *rest: Any) -> None:
        super().__init__(typing_context, target_context, library, *rest)
        if all(hasattr(JITCodeLibrary, name) for name in vars(_PartLibrary) if not name.startswith("__")):
            self.state.library = _PartLibrary(target_context.codegen(), "part")
