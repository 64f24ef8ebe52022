"""What this project uses of Numba and llvmlite beyond their documented interfaces, each named once.

Such names may change with any release, so the versions that are supported are bounded in ``pyproject.toml`` and each
name is looked up here, where a missing one ends in one sentence. Everything else of Numba that `plb.compiler` uses is
documented: ``numba.types``, ``numba.typeof``, ``numba.config``, ``numba.extending`` and ``llvmlite``.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import Any

from plb.errors import UnsupportedNumbaError

SUPPORTED = "numba>=0.68,<0.69"
"""The versions that are tested, as ``pyproject.toml`` asks for them."""
_FROM, _BELOW = (0, 68), (0, 69)

NAMES = {
    "numba._dispatcher.compute_fingerprint": "a key of the types of a named tuple's members, without forming the types",
    "numba._dynfunc.make_function": "a Python function over machine code that was read from the cache",
    "numba.core.cgutils": "helpers that emit instructions: branches, tuples, declarations of functions",
    "numba.core.codegen.JITCodeLibrary": "the module of one function, which is linked and optimised our way",
    "numba.core.compiler.Compiler": "the passes from Python to LLVM, with our modules and names of symbols",
    "numba.core.compiler_lock.global_compiler_lock": "the lock under which kernels are compiled and loaded",
    "numba.core.datamodel.models.OpaqueModel": "the data model of a type that is one pointer",
    "numba.core.errors.NumbaError": "what Numba raises for a function that it cannot compile",
    "numba.core.llvm_bindings.create_pass_builder": "LLVM's passes at a level of optimisation",
    "numba.core.registry.CPUDispatcher": "the object that Python calls, which finds the code for types of arguments",
    "numba.core.registry.cpu_target": "the contexts in which types are resolved and code is made",
    "numba.core.sigutils.normalize_signature": "the types of arguments in a signature",
    "numba.core.typing.templates.AttributeTemplate": "the types of the members that a pointer leads to",
}
"""What is imported, and what for."""

MEMBERS = {
    "JITCodeLibrary": {
        "_codegen": "the target machine and the engine of a module",
        "_compiled_object": "the machine code that the engine made of a module",
        "_final_module": "the module that is linked, optimised and translated",
        "_finalized": "whether that has happened",
        "_finalize_final_module": "handing the module to the engine",
        "_linking_libraries": "the modules of the functions that a function calls",
        "_raise_if_finalized": "the check that a module is still open",
        "_reload_init": "functions that have to run before the code does",
        "_dynamic_globals": "addresses of this process in the code, which forbid keeping it",
    },
    "CPUDispatcher": {
        "_can_compile": "whether the types of arguments are still open",
        "_compilation_chain_init_hook": "loading extensions of Numba, which only a compilation needs",
        "_compiler": "what compiles the function for types of arguments",
        "_insert": "adding code for types of arguments to those that a call finds",
        "get_call_template": "the types with which one kernel calls another",
    },
    "Compiler": {
        "_compile_bytecode": "the point at which the function is known and nothing is compiled yet",
    },
    "cpu_target": {
        "typing_context": "what a name means within a kernel",
        "target_context": "how functions become machine code",
    },
}
"""Members of these that are used although they are not documented, and what for."""


def check_version(installed: str) -> None:
    """Raise `UnsupportedNumbaError` for a version that is not tested."""
    major, minor, *_ = installed.split(".")
    if not _FROM <= (int(major), int(minor)) < _BELOW:
        raise UnsupportedNumbaError(installed, None, SUPPORTED)


def look_up(name: str) -> Any:
    """Return what a name of `NAMES` stands for.

    Raises
    ------
    UnsupportedNumbaError
        If this version of Numba has no such name.
    """
    package, _, attribute = name.rpartition(".")
    try:
        try:
            return getattr(import_module(package), attribute)
        except AttributeError:
            return import_module(name)
    except (ImportError, AttributeError):
        raise UnsupportedNumbaError(version("numba"), name, SUPPORTED) from None


def _checked(found: Any, members: dict[str, str], name: str) -> Any:
    """Return `found` if it has the members that are used of it."""
    for member in members:
        # what a method sets is no attribute of the class; the names in its code tell
        if not hasattr(found, member) and not _sets(found, member):
            raise UnsupportedNumbaError(version("numba"), f"{name}.{member}", SUPPORTED)
    return found


def _sets(kind: Any, member: str) -> bool:
    methods = (value for base in getattr(kind, "__mro__", ()) for value in vars(base).values())
    return any(member in method.__code__.co_names for method in methods if hasattr(method, "__code__"))


check_version(version("numba"))
_found = {name: look_up(name) for name in NAMES}
for _name, _value in _found.items():
    _checked(_value, MEMBERS.get(_name.rpartition(".")[2], {}), _name)

compute_fingerprint: Any = _found["numba._dispatcher.compute_fingerprint"]
make_function: Any = _found["numba._dynfunc.make_function"]
cgutils: Any = _found["numba.core.cgutils"]
JITCodeLibrary: Any = _found["numba.core.codegen.JITCodeLibrary"]
Compiler: Any = _found["numba.core.compiler.Compiler"]
global_compiler_lock: Any = _found["numba.core.compiler_lock.global_compiler_lock"]
OpaqueModel: Any = _found["numba.core.datamodel.models.OpaqueModel"]
NumbaError: Any = _found["numba.core.errors.NumbaError"]
create_pass_builder: Any = _found["numba.core.llvm_bindings.create_pass_builder"]
CPUDispatcher: Any = _found["numba.core.registry.CPUDispatcher"]
cpu_target: Any = _found["numba.core.registry.cpu_target"]
normalize_signature: Any = _found["numba.core.sigutils.normalize_signature"]
AttributeTemplate: Any = _found["numba.core.typing.templates.AttributeTemplate"]
