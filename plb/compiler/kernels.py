"""The decorator for compiled functions, and what kernels can take as arguments.

``import plb`` must load no Numba, so a kernel is compiled when it is first called: see `plb.compiler.compilation`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, update_wrapper
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar, Generic, ParamSpec, Self, TypeVar, cast, get_type_hints, overload

import numpy as np

from plb.compiler.clock import COMPILATION
from plb.compiler.identity import share
from plb.errors import InvalidValueError

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Members = TypeVar("Members")


@overload
def kernel(function: Callable[Arguments, Result], /) -> Kernel[Arguments, Result]: ...
@overload
def kernel(
    *, inline: bool = False, shared: bool = False
) -> Callable[[Callable[Arguments, Result]], Kernel[Arguments, Result]]: ...
def kernel(function: Any = None, /, *, inline: bool = False, shared: bool = False) -> Any:
    """Compile a function with Numba on its first call, without the interpreter lock, and keep the machine code.

    Kernels may call kernels. They have to allocate nothing, and may return only numbers, or tuples of these: Numba's
    reference counting is off, because it would cost more than the arithmetic. A kernel is compiled again if its code,
    the code of a kernel that it calls, a value that it reads of its module, a closure or a default, the version of
    Python, NumPy, Numba or llvmlite, or the processor has changed. ``PLB_CACHE_DIR`` sets the directory of the machine
    code. With ``NUMBA_DISABLE_JIT=1`` kernels run as plain Python.

    Parameters
    ----------
    inline
        True for a small function of the innermost loop that LLVM would not inline into its callers, if
        ``benchmarks/compiling.py`` shows an advantage.
    shared
        True for a larger function at the top level of a module that several kernels call. It is compiled once,
        separately. A change in it compiles its callers again only if its arguments, their defaults or the type of its
        result change. A kernel that is not shared is compiled into every kernel that Python calls and that needs
        it. A second shared kernel with the same name is compiled like one that is not shared.
    """
    if function is None:
        return lambda decorated: Kernel(decorated, inline=inline, shared=shared)
    return Kernel(function, inline=inline, shared=shared)


class ByPointer:
    """What kernels take by one pointer: a named tuple of arrays, see `plb.compiler.handles`, or a `Stream`."""

    @cached_property
    def handle(self) -> Any:
        """The pointer that kernels get."""
        from plb.compiler.handles import Handle

        return Handle(self)


def by_pointer(kind: type[Members]) -> type[Members]:
    """Let kernels take a named tuple of arrays by one pointer; its members must not be replaced."""
    return cast(
        "type[Members]",
        type(
            kind.__name__,
            (ByPointer, kind),
            {"__doc__": kind.__doc__, "__module__": kind.__module__, "__getstate__": _state_without_handle},
        ),
    )


def _state_without_handle(members: Any) -> dict[str, Any]:
    """Return the state of a copy of a tuple, which has a pointer of its own."""
    return {name: value for name, value in vars(members).items() if name != "handle"}


class Kernel(Generic[Arguments, Result]):
    """A function that is compiled when first needed; `py_func` is the plain Python one."""

    def __init__(self, function: Callable[Arguments, Result], *, inline: bool = False, shared: bool = False) -> None:
        update_wrapper(self, function)
        self.py_func = function
        if shared and function.__qualname__ != function.__name__:
            raise InvalidValueError(f"kernel {function.__qualname__}", "shared", shared, "False within a function")
        self.inline = inline
        # a second one of the same name, as when a module is loaded again, cannot have the same symbol
        self.shared = shared and share(function)

    def __call__(self, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        """Call the compiled function; arguments that go by pointer are handed over so."""
        dispatcher = self.dispatcher
        handed: Sequence[Any] = args
        if dispatcher is not self.py_func:
            handed = [value.handle if isinstance(value, ByPointer) else value for value in args]
        result: Result = dispatcher(*handed, **kwargs)
        return result

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
        """What compiles the kernel for calls from Python; where nothing is compiled, the plain function."""
        with COMPILATION.running():  # importing Numba takes longer than most calls
            from plb.compiler.compilation import entry_of

        return entry_of(self.py_func)

    def address(self, returning: type | None, *arguments: object) -> int:
        """Return the address under which a `CallByAddress` finds the kernel, compiled for these arguments.

        Parameters
        ----------
        returning
            float, bool or None.
        arguments
            Values of the kinds that the kernel will get.

        Raises
        ------
        KernelError
            The kernel cannot be compiled for these arguments.
        """
        if self.dispatcher is self.py_func:
            UNCOMPILED[id(self)] = self
            return id(self)
        from plb.compiler.intrinsics import compiled_address

        handed = tuple(value.handle if isinstance(value, ByPointer) else value for value in arguments)
        return compiled_address(self.py_func, returning, handed)

    @property
    def _numba_type_(self) -> Any:
        # Numba reads this attribute of a global, so that one kernel can call another before either is compiled.
        from plb.compiler.compilation import part_of

        return part_of(self.py_func, self.inline)._numba_type_


UNCOMPILED: dict[int, Kernel[..., Any]] = {}
"""Replaces addresses if nothing is compiled."""


if TYPE_CHECKING:

    class _NumPyRecord:
        """What type checkers see of `numpy.void`, from which they let no class inherit."""

        def copy(self) -> Self:
            """Return a record of its own with the same numbers."""
            return self

        def item(self) -> tuple[Any, ...]:
            """Return the numbers as numbers of Python, in order."""
            return ()

else:
    _NumPyRecord = np.void


def _number(name: str) -> property:
    """Return a property that reads and writes the number `name` of a record; it takes a fifth of NumPy's time."""

    def change(record: Any, value: float) -> None:
        record[name] = value

    return property(itemgetter(name), change)


_KINDS = {int: np.int64, float: np.float64, bool: np.bool_}


class Record(_NumPyRecord):
    """Base of a record; a subclass annotates its numbers as int, float or bool, of 64 bits each but bool.

    Raises
    ------
    InvalidValueError
        A number has the name of a method of NumPy, which would hide it.
    """

    _layout: ClassVar[Any]

    def __init_subclass__(cls) -> None:
        """Give each annotated number a place in memory and a property."""
        numbers = [(name, _KINDS[kind]) for name, kind in get_type_hints(cls).items() if kind in _KINDS]
        for name, _ in numbers:
            if hasattr(np.void, name):
                raise InvalidValueError(f"record {cls.__qualname__}", "name", name, "not that of a method of NumPy")
            setattr(cls, name, _number(name))
        cls._layout = np.dtype((cls, np.dtype(numbers, align=True)))

    @classmethod
    def new(cls) -> Self:
        """Return a record of zeros."""
        record: Self = np.zeros(1, cls._layout)[0]
        return record

    def __reduce__(self) -> tuple[Any, ...]:
        """Be pickled by class and numbers; a scalar that NumPy restores cannot be changed from Python."""
        return _with_numbers, (type(self), [getattr(self, name) for name in self.names()])

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Return the names of the numbers, in order."""
        names: tuple[str, ...] = cls._layout.names
        return names


def _with_numbers(kind: type[Record], numbers: list[Any]) -> Record:
    """Return a record with the given numbers."""
    record = kind.new()
    for name, number in zip(kind.names(), numbers, strict=True):
        setattr(record, name, number)
    return record
