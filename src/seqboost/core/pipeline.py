"""What numba does when it compiles a kernel of ours, with two things changed that take most of its time.

* Numba optimises every kernel together with all that it calls and turns it into machine code, those that only other
  kernels call as well: one that is five calls down is optimised five times. A *part* is translated for its callers, and
  no more.
* Compiling makes millions of objects and few cycles: the garbage collector waits until it is over.

The first rests on internals of numba. Where a release no longer has them, parts are compiled as other kernels are.
"""

from __future__ import annotations

import gc
from types import SimpleNamespace
from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler

__all__ = ["KernelCompiler", "PartCompiler"]


class KernelCompiler(Compiler):
    """Compiles a kernel without collecting garbage."""

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
