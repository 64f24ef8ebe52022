"""What this project uses of Numba and llvmlite beyond their documented interfaces, each named once.

Such names may change with any release, so the supported versions are bounded in ``pyproject.toml`` and each
name is resolved here; for a missing one there is an error of one sentence. Everything else of Numba that
`plb.compiler` uses is documented: ``numba.types``, ``numba.typeof``, ``numba.config``, ``numba.extending`` and
``llvmlite``.
"""

from __future__ import annotations

import dis
import re
from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import version
from typing import Any

from plb.errors import UnsupportedNumbaError

SUPPORTED = "numba>=0.68,<0.69"
"""The tested versions, as in ``pyproject.toml``."""
_FROM, _BELOW = (0, 68), (0, 69)

NAMES = {
    "numba._dispatcher.compute_fingerprint": "a key of the types of a named tuple's members, without making the types",
    "numba._dynfunc.make_function": "a Python function over machine code that was read from the cache",
    "numba.core.cgutils": "helpers that emit instructions: branches, tuples, declarations of functions",
    "numba.core.codegen.JITCodeLibrary": "the module of one function, which is linked and optimised our way",
    "numba.core.compiler.Compiler": "the passes from Python to LLVM, with our modules and names of symbols",
    "numba.core.compiler_lock.global_compiler_lock": "the lock under which kernels are compiled and loaded",
    "numba.core.datamodel.models.OpaqueModel": "the data model of a type that is one pointer",
    "numba.core.errors.NumbaError": "what Numba raises for a function that it cannot compile",
    "numba.core.registry.CPUDispatcher": "the object that Python calls, which finds the code for types of arguments",
    "numba.core.registry.cpu_target": "the contexts in which types are resolved and code is made",
    "numba.core.sigutils.normalize_signature": "the types of arguments in a signature",
    "numba.core.typing.templates.AttributeTemplate": "the types of the members that a pointer leads to",
    "numba.core.typing.templates.builtin_registry": "which functions users have given an implementation for kernels",
    "numba.core.utils.stream_list": "the generator that reads a registry, which an interrupt may end",
}
"""What is imported, and what for."""

MEMBERS = {
    "numba.core.base.BaseContext": {
        "mangler": "the names of symbols",
    },
    "numba.core.codegen.JITCPUCodegen": {
        "_engine": "what holds the machine code of this process",
        "_tm": "the target machine, for which LLVM optimises",
        "magic_tuple": "the processor, as part of a key",
        "set_env": "constants of Python objects in machine code",
    },
    "numba.core.codegen.JitEngine": {
        "_ee": "the engine of LLVM, which loads object files",
    },
    "numba.core.codegen.JITCodeLibrary": {
        "_codegen": "the code generator of a module",
        "_dynamic_globals": "addresses of this process in the code, which forbid keeping it",
        "_final_module": "the module that is linked, optimised and translated",
        "_finalize_dynamic_globals": "finding addresses of this process in a module",
        "_finalized": "whether that has happened",
        "_get_module_for_linking": "the module of a function for the module of another one",
        "_linking_libraries": "the modules of the functions that a function calls",
        "_raise_if_finalized": "the check that a module is still open",
        "_reload_init": "functions that have to run before the code does",
    },
    "numba.core.compiler.CompileResult": {
        "_find_referenced_environments": "the constants of Python objects that the code refers to",
    },
    "numba.core.compiler.Compiler": {
        "_compile_bytecode": "the point at which the function is known and nothing is compiled yet",
    },
    "numba.core.registry.CPUDispatcher": {
        "_can_compile": "whether the types of arguments are still open",
        "_compilation_chain_init_hook": "loading extensions of Numba, which only a compilation needs",
        "_compiler": "what compiles the function for types of arguments",
        "_insert": "adding code for types of arguments to those that a call finds",
        "get_call_template": "the types with which one kernel calls another",
    },
    "numba.core.registry.cpu_target": {
        "typing_context": "what a name means within a kernel",
        "target_context": "how functions become machine code",
    },
    "numba.core.typing.context.BaseContext": {
        "_registries": "the registries of functions and their readers",
    },
    "numba.core.typing.templates.BaseRegistryLoader": {
        "_registrations": "the readers of one registry",
    },
    "numba.core.typing.templates._OverloadFunctionTemplate": {
        "_jit_options": "how that is compiled",
        "_overload_func": "the implementation that a user has given for kernels, whose code is part of a key",
    },
    "numba.core.typing.templates._OverloadAttributeTemplate": {
        "_attr": "the name of an attribute or a method with an implementation of a user",
    },
    "numba.core.types.abstract.Type": {
        "_code": "the number of a type, by which a call finds the code for its arguments",
    },
}
"""Members of these that are used although they are not documented, and what for."""
LEFT_TO_SUBCLASSES = {"_attr", "_jit_options", "_overload_func"}
"""Members that only subclasses have, and that the class reads."""


def check_version(installed: str) -> None:
    """Raise `UnsupportedNumbaError` for a version that is not tested."""
    numbers = re.match(r"(\d+)\.(\d+)", installed)
    if numbers is None or not _FROM <= (int(numbers[1]), int(numbers[2])) < _BELOW:
        raise UnsupportedNumbaError(installed, None, SUPPORTED)


def look_up(name: str) -> Any:
    """Return the object of a name of `NAMES`.

    Raises
    ------
    UnsupportedNumbaError
        This version of Numba does not have the name.
    """
    package, _, attribute = name.rpartition(".")
    try:
        try:
            return getattr(import_module(package), attribute)
        except AttributeError:
            return import_module(name)
    except (ImportError, AttributeError):
        raise UnsupportedNumbaError(version("numba"), name, SUPPORTED) from None


def check_members(name: str, members: Mapping[str, str]) -> None:
    """Raise `UnsupportedNumbaError` where a class or an object lacks a member that is used of it."""
    found = look_up(name)
    for member in members:
        # what methods set is no attribute of the class, nor is what it expects of its subclasses
        instruction = "LOAD_ATTR" if member in LEFT_TO_SUBCLASSES else "STORE_ATTR"
        if not hasattr(found, member) and not is_used_by_methods(found, member, instruction):
            raise UnsupportedNumbaError(version("numba"), f"{name}.{member}", SUPPORTED)


def is_used_by_methods(kind: Any, member: str, opname: str) -> bool:
    """Return whether a method of a class, or of its class, sets or reads a member of objects by this instruction."""
    classes = (*getattr(kind, "__mro__", ()), *type(kind).__mro__)
    methods = (value for one in classes for value in vars(one).values() if hasattr(value, "__code__"))
    return any(
        (instruction.opname, instruction.argval) == (opname, member)
        for method in methods
        if member in method.__code__.co_names
        for instruction in dis.get_instructions(method)
    )


check_version(version("numba"))
_found = {name: look_up(name) for name in NAMES}
for _name, _members in MEMBERS.items():
    check_members(_name, _members)

compute_fingerprint: Any = _found["numba._dispatcher.compute_fingerprint"]
make_function: Any = _found["numba._dynfunc.make_function"]
cgutils: Any = _found["numba.core.cgutils"]
JITCodeLibrary: Any = _found["numba.core.codegen.JITCodeLibrary"]
Compiler: Any = _found["numba.core.compiler.Compiler"]
global_compiler_lock: Any = _found["numba.core.compiler_lock.global_compiler_lock"]
OpaqueModel: Any = _found["numba.core.datamodel.models.OpaqueModel"]
NumbaError: Any = _found["numba.core.errors.NumbaError"]
CPUDispatcher: Any = _found["numba.core.registry.CPUDispatcher"]
cpu_target: Any = _found["numba.core.registry.cpu_target"]
normalize_signature: Any = _found["numba.core.sigutils.normalize_signature"]
AttributeTemplate: Any = _found["numba.core.typing.templates.AttributeTemplate"]
builtin_registry: Any = _found["numba.core.typing.templates.builtin_registry"]
stream_list: Any = _found["numba.core.utils.stream_list"]
