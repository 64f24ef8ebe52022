"""The LLVM modules of kernels: what is inlined, simplified and optimised, and which shared kernels they call."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from typing import Any

import attrs
import llvmlite
from llvmlite.binding import Linkage
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler

from plb.compiler.identity import digest, identity_of, is_shared, key_of, text_of

LEVEL = 3
"""Optimisation level of LLVM: at 2 a search is 2 % slower and compilation not faster, at 1 loops are not vectorised."""


@attrs.frozen(eq=False)
class Late:
    """A value that is pickled separately, and read only when it is needed."""

    value: Callable[[], Any]
    """Returns the value."""

    def __reduce__(self) -> Any:
        return _read_late, (pickle.dumps(self.value()),)


def _read_late(data: bytes) -> Late:
    """Return a value that is unpickled from `data` when it is first needed."""
    return Late(partial(pickle.loads, data))


@attrs.frozen(eq=False)
class SharedCall:
    """A shared kernel that an entry calls: enough to find its code, or to make it.

    It takes the place of the module of the kernel in its callers, which have only its symbol.
    """

    module: str
    name: str
    kinds: tuple[str, ...]
    """Types of its arguments."""
    returning: str
    """Type of its result; where that has changed, the caller is compiled again."""
    arguments: Late
    """The types of its arguments; only needed where the kernel has to be compiled."""

    def function(self) -> Callable[..., Any]:
        """Return the function of the kernel."""
        function: Callable[..., Any] = getattr(import_module(self.module), self.name).py_func
        return function


class _Module(JITCodeLibrary):
    """The LLVM module of one function, and its callees."""

    def add_llvm_module(self, module: Any) -> None:
        """Add the module that Numba made of the function, with each of its parts simplified once for all callers."""
        _simplify(module, self._codegen._tm)
        self._final_module.link_in(module)

    def add_linking_library(self, library: Any) -> None:
        """Record that the function calls another one."""
        self._linking_libraries.append(library)

    def parts(self) -> Iterator[Any]:
        """Yield the modules of all that is compiled into the function."""
        return (library for library in self.called() if not isinstance(library, SharedCall))

    def shared_calls(self) -> Iterator[SharedCall]:
        """Yield the calls of shared kernels."""
        return (library for library in self.called() if isinstance(library, SharedCall))

    def called(self) -> Iterator[Any]:
        """Yield the modules of all that is called, directly or not, each once."""
        seen = dict.fromkeys(self._linking_libraries)
        waiting = list(seen)
        while waiting:
            library = waiting.pop()
            yield library
            if isinstance(library, _Module):
                new = dict.fromkeys(callee for callee in library._linking_libraries if callee not in seen)
                seen |= new
                waiting += new


class _PartModule(_Module):
    """The module of a part; it stays as Numba made it."""

    def finalize(self) -> None:
        """End without machine code: callers link the module in."""
        self._raise_if_finalized()
        self._finalized = True

    def _get_module_for_linking(self) -> Any:
        """Return the module that callers of this one link in; Numba asks for it."""
        return self._final_module


class _EntryModule(_Module):
    """The module of an entry, with the modules of all parts that it calls."""

    object_file: bytes

    def finalize(self) -> None:
        """Add the parts, optimise, and translate.

        The object file is requested instead of received from the engine in a callback, in which an
        interrupt of the user would be lost.
        """
        self._raise_if_finalized()
        module = self._final_module
        exported = {function.name for function in module.functions if not function.is_declaration}
        linked: set[str] = set()
        for library in self.parts():
            self._reload_init.update(library._reload_init)
            if isinstance(library, _PartModule):
                if library.name in linked:  # the same code for the same types, though of another function
                    continue
                linked.add(library.name)
            module.link_in(library._get_module_for_linking(), preserve=True)
        for function in module.functions:
            # what only this module calls may be changed freely, and shares no name with another module
            if not function.is_declaration and function.name not in exported:
                function.linkage = Linkage.internal
        _optimise(module, self._codegen._tm)
        module.verify()
        self._finalize_dynamic_globals()
        self._finalized = True
        self.object_file = self._codegen._tm.emit_object(module)


def _simplify(module: Any, target_machine: Any) -> None:
    """Simplify functions one by one; without that LLVM judges their size wrongly when it inlines them."""
    for function in module.functions:
        builder = _pass_builder(target_machine, LEVEL)
        builder.getFunctionPassManager().run(function, builder)


def _optimise(module: Any, target_machine: Any) -> None:
    """Inline and simplify a module: first cheaply, which brings loops into the form that can be vectorised."""
    builder = _pass_builder(target_machine, 0)
    passes = builder.getModulePassManager()
    passes.add_loop_rotate_pass()
    passes.add_instruction_combine_pass()
    passes.add_jump_threading_pass()
    passes.run(module, builder)
    builder = _pass_builder(target_machine, LEVEL)
    builder.getModulePassManager().run(module, builder)


def _pass_builder(target_machine: Any, level: int) -> Any:
    """Return a builder of LLVM's passes for a processor, at an optimisation level."""
    options = llvmlite.binding.create_pipeline_tuning_options(level)
    options.loop_vectorization = level > 0
    options.slp_vectorization = False  # as Numba has it
    return llvmlite.binding.create_pass_builder(target_machine, options)


def _symbol(mangler: Any, tag: str, name: str, types: Any, *, abi_tags: Any = (), uid: Any = None) -> str:
    """Return the name of a symbol; a kernel has its tag there and no types, as Numba numbers some in each process."""
    symbol: str = mangler(name, () if uid == tag else types, abi_tags=abi_tags, uid=uid)
    return symbol


class _Passes(Compiler):
    """The passes of Numba, with our kind of module and names of symbols that are the same in every process."""

    module: type[_Module]

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        # Numba only needs a placeholder for the function; `_callable` loads an entry into memory
        self.state.targetctx.get_executable = lambda *_: object()

    def _compile_bytecode(self) -> Any:
        """Compile with the key of the code in all symbols; Numba has numbers there that differ between processes."""
        identity = self.state.func_id
        identity.unique_id = self.tag(identity.func)
        identity.unique_name = f"{identity.func_qualname}${identity.unique_id}"
        self.state.targetctx.mangler = partial(_symbol, self.state.targetctx.mangler, identity.unique_id)
        self.state.library = self.module(self.state.targetctx.codegen(), identity.unique_name)
        return super()._compile_bytecode()

    def tag(self, function: Callable[..., Any]) -> str:
        """Return the part of a name that distinguishes the function from others with its name."""
        raise NotImplementedError


class EntryPasses(_Passes):
    """The passes of an entry."""

    module = _EntryModule

    def tag(self, function: Callable[..., Any]) -> str:
        """Return the key of the entry; callers of a shared kernel are compiled for any version of it."""
        kinds = tuple(map(text_of, self.state.args))
        if is_shared(function):
            return f"shared{digest((*kinds, str(self.state.return_type)))}"
        return key_of(function, kinds, str(self.state.return_type))


class PartPasses(_Passes):
    """The passes of a part."""

    module = _PartModule

    def tag(self, function: Callable[..., Any]) -> str:
        """Return a digest of the code and the types of arguments."""
        return digest((identity_of(function), *map(text_of, self.state.args)))
