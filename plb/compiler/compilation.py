"""From Python functions to machine code: parts, entries, and how entries are loaded or made.

Numba translates each kernel to LLVM once: a *part*. A kernel that Python calls, or that is called by its address, is an
*entry*: its module contains all parts that it calls, directly or not, and is optimised and translated as a whole. So no
function is optimised more than once for each entry, and small ones are inlined where they are used. A shared kernel is
an entry, too: other entries call it by its symbol. The machine code of an entry is kept on disk (`plb.compiler.cache`)
under its key (`plb.compiler.identity`).

Only imported once a kernel is needed, since ``import plb`` must load no Numba.
"""

from __future__ import annotations

import logging
import pickle
import sys
from collections.abc import Callable
from functools import cache
from types import MappingProxyType
from typing import Any

import attrs
import numba
from llvmlite.binding import ObjectFileRef
from numba._dynfunc import make_function
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import CPUDispatcher, cpu_target
from numba.core.sigutils import normalize_signature
from numba.core.utils import stream_list

from plb.compiler.cache import kernel_cache
from plb.compiler.clock import COMPILATION, NOTICE
from plb.compiler.identity import (
    compiled_with,
    has_changed,
    is_named_tuple,
    is_shared,
    key_of,
    name_of,
    overloads,
    text_of,
)
from plb.compiler.interrupts import interrupts_deferred
from plb.compiler.modules import EntryPasses, Late, PartPasses, SharedCall
from plb.errors import KernelError

OPTIONS = MappingProxyType(
    {
        "nopython": True,
        "nogil": True,
        "error_model": "numpy",
        "no_cfunc_wrapper": True,
        "_nrt": False,  # no reference counting
        "forceinline": False,
    }
)
"""Options of Numba for every kernel.

What is left out here, an entry takes from the kernel during whose compilation it is compiled.
"""
logger = logging.getLogger("plb")

_settings: Any = numba.config
_types: Any = numba.types


@attrs.frozen(eq=False)
class Stored:
    """What is kept of an entry: its object file, and what a process needs to use it."""

    object_file: bytes
    function: str
    """Symbol that kernels call."""
    wrapper: str
    """Symbol that Python calls."""
    returning: str
    """Type of its result."""
    descriptor: Late
    """How kernels call it; only needed where one of them is compiled."""
    environments: tuple[Any, ...]
    """Constants of Python objects that the code refers to; the object of the entry comes first."""
    preparations: tuple[Callable[[], None], ...]
    """What Numba has to do before the code runs."""
    calls: tuple[SharedCall, ...]
    """Shared kernels that have to be in memory before the code is."""


@attrs.frozen(eq=False)
class MachineCode:
    """An entry that can be called."""

    entry_point: Any
    """The function that Python calls."""
    address: int
    """Where kernels find it."""
    stored: Stored
    """What the cache keeps of the entry."""


def is_compiled() -> bool:
    """Return whether kernels are compiled at all."""
    return not _settings.DISABLE_JIT


@cache
def entry_of(function: Callable[..., Any]) -> Any:
    """Return what compiles a function for calls from Python; where nothing is compiled, the function."""
    return Entry(function) if is_compiled() else function


@cache
def part_of(function: Callable[..., Any], inline: bool) -> Any:
    """Return what translates a function for calls from other kernels."""
    return SharedPart(function) if is_shared(function) else TranslatedKernel(function, inline)


class Entry(CPUDispatcher):
    """A kernel as Python calls it: for new types of arguments its machine code is loaded or made."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function, targetoptions=dict(OPTIONS), pipeline_class=EntryPasses)

    def _compilation_chain_init_hook(self) -> None:
        """Do nothing: extensions of Numba are loaded for a compilation, not for code from the cache."""

    def compile(self, signature: Any) -> Any:
        """Return the function for these types of arguments.

        Raise `KernelError` if its result is a named tuple: Numba reads the class by Python code and does not expect an
        error there, so that Ctrl-C would crash the process.
        """
        arguments, _ = normalize_signature(signature)
        with global_compiler_lock:
            if arguments not in self.overloads:
                code = machine_code(self.py_func, arguments)
                if is_named_tuple(code.stored.returning):
                    raise KernelError(name_of(self.py_func), "it returns a named tuple, which only kernels can get")
                self._insert([kind._code for kind in arguments], code.entry_point, False)
                self.overloads[arguments] = code
            return self.overloads[arguments].entry_point


class TranslatedKernel(CPUDispatcher):
    """A kernel as other kernels call it: it has a signature and a module, and no machine code."""

    def __init__(self, function: Callable[..., Any], inline: bool) -> None:
        options = OPTIONS | {"forceinline": inline, "no_cpython_wrapper": True}
        super().__init__(function, targetoptions=options, pipeline_class=PartPasses)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Resolve a call; constants count by their type, or each would be translated for itself."""
        plain = _types.unliteral
        return super().get_call_template([plain(kind) for kind in args], {name: plain(kws[name]) for name in kws})

    def compile(self, signature: Any) -> Any:
        """Translate the function for these types of arguments; return what its callers call."""
        arguments, _ = normalize_signature(signature)
        if arguments not in self.overloads:
            self.overloads[arguments] = self.translated(arguments)
        return self.overloads[arguments].entry_point

    def translated(self, arguments: tuple[Any, ...]) -> Any:
        """Return the signature and the module for types of arguments, as Numba keeps them."""
        return self._compiler.compile(arguments, None)


class SharedPart(TranslatedKernel):
    """A shared kernel as its callers have it: an entry has its machine code, found by its symbol."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function, inline=False)

    def translated(self, arguments: tuple[Any, ...]) -> Any:
        """Compile the shared kernel by itself, and give Numba a stand-in by which its callers are linked to it."""
        stored = machine_code(self.py_func, arguments).stored
        descriptor = stored.descriptor.value()
        call = SharedCall(
            self.py_func.__module__,
            self.py_func.__qualname__,
            tuple(map(text_of, arguments)),
            stored.returning,
            Late(lambda: arguments),
        )
        stand_in = object()
        cpu_target.target_context.insert_user_function(stand_in, descriptor, [call])
        return _SharedSignature(stand_in, descriptor.restype(*descriptor.argtypes))


@attrs.frozen(eq=False)
class _SharedSignature:
    """The properties of a compiled function that Numba reads."""

    entry_point: object
    """Key under which the target of Numba has the function."""
    signature: Any
    """Types of the result and of the arguments."""
    objectmode: bool = False
    """Whether the function needs the interpreter."""


@cache
def machine_code(function: Callable[..., Any], arguments: tuple[Any, ...], returning: Any = None) -> MachineCode:
    """Load or make the code of a function for these types of arguments, and for a type of result if one is given."""
    with global_compiler_lock, COMPILATION.running(), interrupts_deferred():
        key = key_of(function, tuple(map(text_of, arguments)), str(returning))
        if has_changed(function):  # what is kept under the key was made with other values
            return _made(function, arguments, returning)
        if key not in _READY:
            _READY[key] = _load(function, key) or _make(function, arguments, returning, key)
        return _READY[key]


_READY: dict[str, MachineCode] = {}
"""The entries of this process by key."""


def _load(function: Callable[..., Any], key: str) -> MachineCode | None:
    """Return the machine code of a function that is kept under `key`; None if it or code that it calls is missing."""
    data = kernel_cache().load(name_of(function), key)
    stored = None if data is None else _read(data, name_of(function))
    if stored is None or not all(map(_is_available, stored.calls)):
        return None
    return _callable(function, stored)


def _read(data: bytes, name: str) -> Stored | None:
    """Return the kept data of an entry, or None if this process cannot read them."""
    try:
        stored = pickle.loads(data)
    except Exception as error:  # removed names and invalid pickles raise any exception
        logger.info("the machine code of %s cannot be read (%s) and is made again", name, error)
        return None
    return stored if isinstance(stored, Stored) else None


def _is_available(call: SharedCall) -> bool:
    """Load or make the shared kernel of a call; return whether it still is the one that the caller was compiled for."""
    try:
        function = call.function()
        if not is_shared(function):
            return False
        key = key_of(function, call.kinds, str(None))
        if key not in _READY:
            _READY[key] = _load(function, key) or _make(function, call.arguments.value(), None, key)
        return _READY[key].stored.returning == call.returning
    except Exception as error:  # removed names, and kernels with other arguments, raise any exception
        logger.info("%s.%s is no longer what it was for a caller: %s", call.module, call.name, error)
        return False


def _make(function: Callable[..., Any], arguments: tuple[Any, ...], returning: Any, key: str) -> MachineCode:
    """Compile a function for types of arguments and result, unless another process just has; keep it under `key`."""
    with kernel_cache().alone(name_of(function), key):
        return _load(function, key) or _made(function, arguments, returning, key)


def _made(
    function: Callable[..., Any], arguments: tuple[Any, ...], returning: Any, key: str | None = None
) -> MachineCode:
    """Compile a function for types of arguments and result; keep the machine code under `key`, if there is one."""
    NOTICE.announce(name_of(function), len(compiled_with(function)))
    overloaded = overloads()
    renew_readers()
    CPUDispatcher._compilation_chain_init_hook(entry_of(function))
    result = entry_of(function)._compiler.compile(arguments, returning)
    library, descriptor = result.library, result.fndesc
    library.finalize()
    descriptor.typemap = descriptor.calltypes = None  # types of local names, which only the translation needs
    referenced = result._find_referenced_environments()
    others = [more for more in referenced if more is not result.environment and more.consts]
    stored = Stored(
        library.object_file,
        descriptor.llvm_func_name,
        descriptor.llvm_cpython_wrapper_name,
        text_of(descriptor.restype),
        Late(lambda: descriptor),
        (result.environment, *others),
        tuple(library._reload_init),
        tuple(library.shared_calls()),
    )
    if key is None or has_changed(function) or overloads() != overloaded:
        logger.info(
            "the machine code of %s is not kept: a value that it froze has changed or is unknown", name_of(function)
        )
    else:
        _keep(stored, library, name_of(function), key)
    return _callable(function, stored)


def renew_readers() -> None:
    """Replace the readers of registries that an interrupt has ended; the new ones continue at the end.

    Numba reads a registry of functions through generators that yield what is new since the last time. An exception
    within one of them, such as Ctrl-C, ends it permanently, and every later compilation of the process would fail.
    """
    for context in (cpu_target.typing_context, cpu_target.target_context):
        for registry, loader in context._registries.items():
            for name, reader in loader._registrations.items():
                if reader.gi_frame is None:
                    renewed = stream_list(getattr(registry, name))
                    next(renewed)
                    loader._registrations[name] = renewed


def _keep(stored: Stored, library: Any, name: str, key: str) -> None:
    """Write the machine code of a kernel `name` under `key`, if another process can use it; `library`: its module."""
    if library._dynamic_globals:
        logger.info("the machine code of %s is not kept: it has addresses of this process, as of a large array", name)
        return
    try:
        data = pickle.dumps(stored)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        logger.info("the machine code of %s is not kept: %s", name, error)
        return
    kernel_cache().store(name, key, data)


def _callable(function: Callable[..., Any], stored: Stored) -> MachineCode:
    """Bring stored machine code into memory, and return it with an entry point for Python."""
    for prepare in stored.preparations:
        prepare()
    codegen = cpu_target.target_context.codegen()
    engine = codegen._engine._ee
    engine.add_object_file(ObjectFileRef.from_data(stored.object_file))
    engine.finalize_object()
    for environment in stored.environments:
        codegen.set_env(environment.env_name, environment)
    pointer = codegen._engine.get_function_address(stored.wrapper)
    module = sys.modules.get(function.__module__, sys.modules[__name__])
    environment = stored.environments[0]
    entry_point = make_function(module, function.__name__, function.__doc__ or "", pointer, environment, ())
    return MachineCode(entry_point, codegen._engine.get_function_address(stored.function), stored)
