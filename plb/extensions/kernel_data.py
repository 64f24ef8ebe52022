"""What the kernels of an extension get besides the arrays of the search: its own data and sums, by name.

Data are constant in a plan. Sums follow the replicas; they are whole numbers of 64 bits, so that they are exact. Both
are named tuples of arrays, which kernels take by pointers, so that a chain calls the kernels of any extension alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from inspect import signature
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from plb.array_types import Int
from plb.compiler import ByPointer, Kernel, by_pointer
from plb.errors import ExtensionError, InvalidValueError, KernelError, PlbError

if TYPE_CHECKING:
    from plb.extensions.configuration import Configuration
    from plb.state.arrays import Problem


@by_pointer
class Values(NamedTuple):
    """Data or sums of an extension that has none, or gives its sums as one array."""

    values: Int
    """(W,)"""


NO_VALUES: Any = Values(np.empty(0, np.int64))
"""Data or sums of an extension without any."""
DATA = "arrays of numbers or switches, or single ones, in a named tuple"
SUMS = "whole numbers of 64 bits"
"""What errors say that data and sums have to be."""


def data_of(item: str, data: object) -> Any:
    """Return the result of `new_data` as kernels get it; arrays of a common type and layout are not copied.

    `item` names the extension in errors.
    """
    fields = _fields_of(data)
    if fields is None:
        raise InvalidValueError(item, "new_data", data, DATA)
    return _by_pointer(data, [_constant(item, name, value) for name, value in fields.items()])


def sums_of(item: str, sums: object) -> Any:
    """Return the result of `new_sums` as kernels get it: a named tuple of arrays; one array becomes flat `Values`.

    `item` names the extension in errors.
    """
    fields = _fields_of(sums)
    if fields is None:
        return Values(_whole_numbers(item, "new_sums", sums).ravel())
    return _by_pointer(sums, [_whole_numbers(item, f"new_sums.{name}", value) for name, value in fields.items()])


def _fields_of(values: object) -> dict[str, object] | None:
    """Return the fields of a named tuple by name; None for another object."""
    names = getattr(values, "_fields", None)
    return dict(zip(names, values, strict=True)) if isinstance(values, tuple) and names else None


def _by_pointer(original: object, values: list[Any]) -> Any:
    """Return a named tuple of the class of `original`, taken by pointer, with other values."""
    kind: Any = type(original)
    return (kind if issubclass(kind, ByPointer) else _pointed(kind))(*values)


@cache
def _pointed(kind: type[tuple[Any, ...]]) -> type[tuple[Any, ...]]:
    """Return a class with the fields of a class of named tuples that kernels take by pointer."""
    return by_pointer(kind)


def _constant(item: str, name: str, value: object) -> object:
    """Return a field of data as kernels get it: whole numbers or floating-point numbers of 64 bits, or switches.

    `item` names the extension and `name` the field in errors.
    """
    numbers: npt.NDArray[Any] = np.asarray(value)
    for kind, kernel_type in ((np.bool_, np.bool_), (np.integer, np.int64), (np.floating, np.float64)):
        if np.issubdtype(numbers.dtype, kind) and _fits(numbers):
            converted = np.require(numbers, kernel_type, ["C_CONTIGUOUS", "ALIGNED", "WRITEABLE"])
            return converted if numbers.ndim else converted.item()
    raise InvalidValueError(item, f"new_data.{name}", value, DATA)


def _fits(values: npt.NDArray[Any]) -> bool:
    """Return whether the values, if unsigned whole numbers of 64 bits, fit into signed ones; true for other types."""
    return values.dtype != np.uint64 or bool(values.max(initial=0) <= np.iinfo(np.int64).max)


def _whole_numbers(item: str, field: str, values: object) -> Int:
    """Return a copy of values as 64-bit whole numbers; raise an error if the conversion is not exact.

    `item` names the extension and `field` the value in errors.
    """
    try:
        original = np.array(values)
        with np.errstate(invalid="ignore"):
            numbers: Int = np.ascontiguousarray(original.astype(np.int64))
    except (TypeError, ValueError, OverflowError):
        original, numbers = np.empty(1), np.empty(0, np.int64)
    if not np.array_equal(original, numbers):
        raise InvalidValueError(item, field, values, SUMS)
    return numbers


def difference(kept: Any, right: Any) -> tuple[str, int, int] | None:
    """Return where `kept` sums first differ from the `right` ones from scratch, as text, and both numbers; or None."""
    for name, present, correct in zip(type(kept)._fields, kept, right, strict=True):
        differing = np.argwhere(present != correct)
        if len(differing):
            index = tuple(differing[0].tolist())
            index_text = ", ".join(map(str, index))
            where = index_text if isinstance(kept, Values) else f"{name}[{index_text}]"
            return where, int(present[index]), int(correct[index])
    return None


class WithKernels:
    """Base of extensions with kernels: their data and sums."""

    name: str
    """The name with which settings choose the extension and plans report it."""
    kind: ClassVar[str]
    """Kind of the extension, such as `TERM`."""
    data: Any = NO_VALUES
    """`checked_data` of the configuration that was begun."""
    sums: Any = NO_VALUES
    """`checked_sums` of the configuration that was begun."""
    made: tuple[Problem, Any] | None = None
    """A problem and its `checked_data`, if they were made before."""

    def new_data(self, configuration: Configuration) -> Any:  # noqa: ARG002  # subclasses use it
        """Return what is constant in a plan: a named tuple of arrays and single numbers."""
        return NO_VALUES

    def new_sums(self, configuration: Configuration) -> Any:  # noqa: ARG002  # subclasses use it
        """Return sums from scratch: a named tuple of arrays of whole numbers, or one array, in kernels `values`."""
        return NO_VALUES.values

    @property
    def has_data(self) -> bool:
        """Whether the extension has data; without any, its kernels get `NO_VALUES`."""
        return type(self).new_data is not WithKernels.new_data

    @property
    def has_sums(self) -> bool:
        """Whether the extension has sums; without any, its kernels get `NO_VALUES`."""
        return type(self).new_sums is not WithKernels.new_sums

    def checked_data(self, configuration: Configuration) -> Any:
        """Return the data of a configuration; raise `InvalidValueError` if they have another form."""
        if self.made is not None and self.made[0] is configuration.problem:
            return self.made[1]
        return data_of(f"{self.kind} {self.name}", self.new_data(configuration)) if self.has_data else NO_VALUES

    def checked_sums(self, configuration: Configuration) -> Any:
        """Return the sums of a configuration; raise `InvalidValueError` if they are not whole numbers."""
        return sums_of(f"{self.kind} {self.name}", self.new_sums(configuration)) if self.has_sums else NO_VALUES

    def kernel_of(self, method: str) -> Kernel[..., Any]:
        """Return the kernel of a method; raise an error if it is none, or has other parameters than `PARAMETERS`."""
        function = getattr(self, method)
        if not isinstance(function, Kernel):
            raise InvalidValueError(self.name, method, function, "a function decorated with `plb.compiler.kernel`")
        parameters = PARAMETERS.get(method, OF_PROPOSAL)
        if parameter_count(function) != len(parameters):
            error = KernelError(function.py_func.__qualname__, f"it has to take {', '.join(parameters)}")
            raise ExtensionError(self.kind, self.name, method, str(error)) from error
        return function

    def address_of(self, method: str, returning: type | None, arguments: Sequence[Any]) -> int:
        """Return the address of the kernel of a method; `arguments`: examples of `PARAMETERS`.

        `returning`: type of the result.
        """
        try:
            return self.kernel_of(method).address(returning, *arguments)
        except KernelError as error:
            raise ExtensionError(self.kind, self.name, method, str(error)) from error


COUNT_METHOD = "count"
"""The method whose kernel counts one replica."""
PROPOSE_METHOD = "propose"
"""The method whose kernel proposes moves."""
OF_PROPOSAL = ("problem", "solution", "data", "sums", "proposal")
PARAMETERS: Mapping[str, tuple[str, ...]] = {
    COUNT_METHOD: ("problem", "data", "sums", "row", "node", "sign"),
    PROPOSE_METHOD: ("problem", "solution", "data", "row", "rng", "moves"),
    "node_cost": ("problem", "solution", "data", "sums", "node"),
}
"""Parameters of the kernel of a method; those of the other methods are `OF_PROPOSAL`."""


@cache
def parameter_count(function: Kernel[..., Any]) -> int:
    """Return the number of parameters of a kernel."""
    return len(signature(function.py_func).parameters)


TERM, CONSTRAINT, POLICY, NEIGHBOURHOOD = "energy term", "constraint", "policy", "neighbourhood"
"""Kinds of extensions."""


def named(error: BaseException, kind: str, name: str, method: str) -> BaseException:
    """Return an error in a method of an extension as an `ExtensionError` with the error as its cause.

    A `PlbError` is returned with the name of the extension before its text, an interrupt as it is.
    """
    if isinstance(error, PlbError) and not isinstance(error, ExtensionError):
        error.place(f"{kind} {name}: {method}")
    if isinstance(error, PlbError) or not isinstance(error, Exception):
        return error
    failure = ExtensionError(kind, name, method, f"{type(error).__name__}: {error}")
    failure.__cause__ = error
    return failure


@contextmanager
def errors_of(kind: str, name: str, method: str) -> Iterator[None]:
    """In the block, raise an error of a `method` of extension `name` as an `ExtensionError`, but for a `PlbError`."""
    try:
        yield
    except Exception as error:
        failure = named(error, kind, name, method)
        if failure is error:
            raise
        raise failure from error
