"""The one decorator for compiled functions.

``import plb`` must load no Numba, so a kernel is compiled when it is first called. Numba keys its own cache by the file
of a function alone and so misses that a *called* function changed; here the key is a hash of every source file of plb
and, for a kernel of a user's own, of all that its machine code is made of (`plb.kernel_identity`).
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Sequence
from functools import cache, cached_property, partial, update_wrapper
from pathlib import Path
from typing import Any, Generic, ParamSpec, TypeVar, cast, overload

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Members = TypeVar("Members")


@overload
def kernel(function: Callable[Arguments, Result], /) -> Kernel[Arguments, Result]: ...
@overload
def kernel(*, inline: bool) -> Callable[[Callable[Arguments, Result]], Kernel[Arguments, Result]]: ...
def kernel(function: Any = None, /, *, inline: bool = False) -> Any:
    """Compile a function with Numba on its first call, without the interpreter lock, and cache the machine code.

    Kernels may call kernels. They allocate nothing and return numbers: Numba's reference counting is off, because it
    would cost more than the arithmetic. Set ``PLB_CACHE_DIR`` to choose where the machine code is kept; where no
    directory is writable, each process compiles anew.

    Parameters
    ----------
    inline
        True for a small function of the innermost loop: it is compiled into its callers, since handing over the many
        arrays of a search would cost more than the function itself.
    """
    if function is None:
        return lambda decorated: Kernel(decorated, inline)
    return Kernel(function, inline)


class ByPointer:
    """What kernels take by one pointer: a named tuple of arrays, see `plb.handles`, or a `plb.uniform.Stream`."""

    @cached_property
    def handle(self) -> Any:
        """The pointer that kernels get."""
        from plb.handles import Handle

        return Handle(self)


def by_pointer(kind: type[Members]) -> type[Members]:
    """Let kernels take a named tuple of arrays by one pointer; its members must not be replaced."""
    return cast(
        "type[Members]",
        type(kind.__name__, (ByPointer, kind), {"__doc__": kind.__doc__, "__module__": kind.__module__}),
    )


class Kernel(Generic[Arguments, Result]):
    """A function that is compiled when first needed; `py_func` is the plain Python one."""

    def __init__(self, function: Callable[Arguments, Result], inline: bool) -> None:
        self.py_func = function
        self.inline = inline
        update_wrapper(self, function)

    def __call__(self, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        """Call the compiled function; arguments that go by pointer are handed over so."""
        dispatcher = self.dispatcher
        handed: Sequence[Any] = args
        if dispatcher is not self.py_func:
            handed = [value.handle if isinstance(value, ByPointer) else value for value in args]
        return cast("Result", dispatcher(*handed, **kwargs))

    def __repr__(self) -> str:
        return f"<kernel {self.py_func.__qualname__}>"

    def __deepcopy__(self, _: object) -> Kernel[Arguments, Result]:
        """Return the kernel itself: like a function, it is the same wherever it is."""
        return self

    def __reduce__(self) -> str:
        """Be pickled by name, like a function."""
        return self.py_func.__qualname__

    @cached_property
    def dispatcher(self) -> Any:
        """The Numba dispatcher for calls from Python, made when first asked for."""
        return _dispatcher(self.py_func)

    def address(self, returning: type | None, *arguments: object) -> int:
        """Return the address under which a `CallByAddress` finds the kernel, compiled for these arguments."""
        if self.dispatcher is self.py_func:
            _UNCOMPILED[id(self)] = self
            return id(self)
        from plb.addresses import compiled_address

        handed = tuple(value.handle if isinstance(value, ByPointer) else value for value in arguments)
        return compiled_address(_dispatcher(self.py_func, f"returning {returning}"), returning, handed)

    @property
    def _numba_type_(self) -> Any:
        # Numba asks a global for this attribute, so that one kernel can call another before either is compiled.
        return _part(self.py_func, self.inline)._numba_type_


_UNCOMPILED: dict[int, Kernel[..., Any]] = {}
"""What stands for addresses where nothing is compiled."""


class CallByAddress:
    """A call, within a kernel, of a kernel that is known by its address only.

    Parameters
    ----------
    returning
        float, bool or None.
    """

    def __init__(self, returning: type | None) -> None:
        self.returning = returning

    def __call__(self, address: int, *arguments: object) -> Any:
        """Call the kernel where nothing is compiled."""
        return _UNCOMPILED[int(address)](*arguments)

    @property
    def _numba_type_(self) -> Any:
        from plb.addresses import type_of_call

        return type_of_call(self.returning)


@cache
def _dispatcher(function: Callable[..., Any], form: str = "") -> Any:
    """Return the dispatcher that Python calls; its machine code, with that of all it calls, is cached.

    Parameters
    ----------
    form
        Tells apart dispatchers that compile one function differently, such as for another kind of result.
    """
    import numba

    settings: Any = numba.config
    if settings.DISABLE_JIT:
        return function
    dispatcher = _compiler()(function)
    _widen_literals(dispatcher)
    directory = _cache_directory()
    if directory is not None:
        dispatcher._cache = _source_keyed_cache(function, directory, form)
    return dispatcher


@cache
def _part(function: Callable[..., Any], inline: bool) -> Any:
    """Return the dispatcher that other kernels call: a part of their machine code, with none of its own."""
    dispatcher = _compiler()(function, forceinline=inline, no_cpython_wrapper=True)
    _widen_literals(dispatcher)
    _leave_out_machine_code(dispatcher)
    return dispatcher


def _compiler() -> Any:
    import numba

    compiler: Any = numba.njit  # its stubs do not know the options that turn reference counting off and inlining on
    return partial(compiler, nogil=True, error_model="numpy", _nrt=False)


def _leave_out_machine_code(dispatcher: Any) -> None:
    """Keep Numba from translating a part by itself: that would cost as much as translating it where it is used."""
    from numba.core.registry import cpu_target

    compiler = dispatcher._compiler
    compile_whole = compiler.compile

    def compile_part(*signature: Any) -> Any:
        context = cpu_target.target_context
        translate = context.get_executable
        context.get_executable = lambda *_: [].append  # any built-in will do, but no two parts may share one
        try:
            return compile_whole(*signature)
        finally:
            context.get_executable = translate

    compiler.compile = compile_part


def _widen_literals(dispatcher: Any) -> None:
    """Keep Numba from compiling a kernel once more for every constant that another kernel passes to it."""
    from numba.core import types

    plain: Callable[[Any], Any] = types.unliteral
    specialised = dispatcher.get_call_template

    def widened(args: Any, kws: Any) -> Any:
        return specialised([plain(kind) for kind in args], {name: plain(kind) for name, kind in kws.items()})

    dispatcher.get_call_template = widened


def _source_keyed_cache(function: Callable[..., Any], directory: Path, form: str) -> Any:
    import numpy as np
    from numba.core import caching

    from plb.kernel_identity import identity_of

    stamp = _source_hash()
    name = f"{function.__module__}.{function.__code__.co_firstlineno}{form}{identity_of(function)}"

    class Locator(caching._CacheLocator):
        """Keeps the machine code of one version of the sources in one folder."""

        def get_cache_path(self) -> str:
            return str(directory / stamp[:16])

        def get_source_stamp(self) -> str:
            return stamp

        def get_disambiguator(self) -> str:
            return name

        @classmethod
        def from_function(cls, _function: object, _file: object) -> Locator:
            locator = cls()
            directory.joinpath(stamp[:16]).mkdir(exist_ok=True)
            return locator

    class Implementation(caching.CompileResultCacheImpl):
        def __init__(self, py_func: Callable[..., object]) -> None:
            self._locator_classes = [cast("type[object]", Locator)]
            start: Callable[..., None] = super().__init__
            start(py_func)

    class SourceKeyedCache(caching.FunctionCache):
        _impl_class = Implementation

        def _index_key(self, sig: object, codegen: Any) -> object:
            return sig, codegen.magic_tuple(), np.__version__  # kernels step the state of its generators

    make: Callable[..., object] = SourceKeyedCache
    return make(function)


@cache
def _cache_directory() -> Path | None:
    """Return where machine code is kept, or None where that cannot be written, or the user has no home."""
    chosen = os.environ.get("PLB_CACHE_DIR")
    caches = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    try:
        directory = Path(chosen) if chosen else Path(caches).expanduser() / "plb"
        directory.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=directory).close()
    except (OSError, RuntimeError):  # the latter where there is no home
        return None
    return directory


@cache
def _source_hash() -> str:
    """Hash all sources of plb, by content."""
    digest = hashlib.sha256()
    root = Path(__file__).parent
    for file in sorted(root.rglob("*.py")):
        digest.update(str(file.relative_to(root)).encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()
