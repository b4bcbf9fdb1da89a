"""Code of kernels on its way through the compiler: optimised and translated once, not at each call.

Numba optimises each function and translates it to machine code before a caller links it, and does
both again for the caller, with all that the compiler inlines. Of a function that only kernels
call, this is the compiler's whole work, repeated at each level of calls and thrown away.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from llvmlite.binding import Linkage, create_new_module_pass_manager
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.targetconfig import ConfigStack
from numba.core.typed_passes import NopythonRewrites
from numba.core.typing.templates import _OverloadFunctionTemplate

from weft.kernels.inference import EnteredFlags, KernelFlags


class _NoEngine:
    """Stands for the engine that runs machine code, where there is none."""

    def set_env(self, name: str, env: object) -> None:
        """Do nothing: the callers' code has the variable."""


class PartLibrary(JITCodeLibrary):  # type: ignore[misc]
    """Code of a function that only kernels call: their libraries optimise and translate it."""

    @property
    def codegen(self) -> Any:
        """What sets variables of machine code, of which this library has none."""
        return _NoEngine()

    def get_pointer_to_function(self, name: str) -> int:
        """Return 0, Numba's value for a function without machine code."""
        return 0

    def _optimize_functions(self, module: Any) -> None:
        # Only what makes the code short.
        module.data_layout = self._codegen._data_layout
        passes = create_new_module_pass_manager()
        passes.add_sroa_pass()
        passes.add_simplify_cfg_pass()
        passes.add_instruction_combine_pass()
        passes.add_refprune_pass()
        passes.run(module, self._codegen._pass_builder())

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True


class KernelLibrary(JITCodeLibrary):  # type: ignore[misc]
    """Code of a kernel that Python calls, with that of the parts that it calls."""

    def _optimize_final_module(self) -> None:
        # What no other module can call may be inlined and removed as LLVM sees fit.
        for function in self._final_module.functions:
            if function.linkage == Linkage.linkonce_odr and function.name.startswith("_ZN"):
                function.linkage = Linkage.internal
        self._optimize()

    def _optimize(self) -> None:
        super()._optimize_final_module()


class LeanLibrary(KernelLibrary):
    """Code of a kernel that counts no references: one pass of optimisation is enough."""

    def _optimize(self) -> None:
        # Numba's first pass inlines calls for the removal of counts of references.
        passes, builder = self._codegen._module_pass_manager()
        with self._recorded_timings.record("Module passes", builder):
            passes.run(self._final_module, builder)


class _Pipeline(Compiler):  # type: ignore[misc]
    """Numba's compiler with a library of another class."""

    library_class: type[JITCodeLibrary]

    def __init__(self, *arguments: Any):
        *others, flags, local_types = arguments
        super().__init__(*others, KernelFlags(flags), local_types)

    def define_pipelines(self) -> Any:
        """Return Numba's pipelines, without the search for operations on whole arrays if it can."""
        if self.state.library is None:
            codegen = self.state.targetctx.codegen()
            library = self.library_class(codegen, self.state.func_id.func_qualname)
            library.enable_object_caching()
            self.state.library = library
        pipelines = super().define_pipelines()
        if not self.state.flags.nrt:  # no array can be created
            for each in pipelines:
                each.passes = [step for step in each.passes if step[0] is not NopythonRewrites]
        return pipelines


class PartCompiler(_Pipeline):
    """Compiler of functions that only kernels call."""

    library_class = PartLibrary


class KernelCompiler(_Pipeline):
    """Compiler of kernels that Python calls."""

    library_class = KernelLibrary


class LeanCompiler(_Pipeline):
    """Compiler of kernels that count no references."""

    library_class = LeanLibrary


def _as_parts(decorator_of: Any) -> Any:
    """Compile as parts the functions of Numba's library that a kernel calls."""

    def get_jit_decorator(template: Any) -> Any:
        decorator = decorator_of(template)
        if isinstance(ConfigStack.top_or_none(), EnteredFlags):
            return partial(decorator, pipeline_class=PartCompiler)
        return decorator

    return get_jit_decorator


_Template: Any = _OverloadFunctionTemplate
_Template._get_jit_decorator = _as_parts(_Template._get_jit_decorator)
