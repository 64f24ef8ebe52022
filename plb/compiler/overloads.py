"""The replacements of functions, operators and attributes within kernels by users, with `numba.extending`."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

_OPERATORS = frozenset(map(id, vars(operator).values()))


class Overload(NamedTuple):
    """A replacement that is compiled."""

    implementation: Callable[..., object]
    options: str
    """Options of its compilation."""


class Overloads(NamedTuple):
    """The overloads of this process, by what they replace."""

    of_functions: Mapping[int, Sequence[Overload]]
    """By the `id` of the function."""
    of_attributes: Mapping[str, Sequence[Overload]]
    """Overloads of attributes and methods, by name, of any type."""
    of_operators: Sequence[Overload]
    """Overloads of operators."""


NONE = Overloads({}, {}, ())


def overloads(is_of_library: Callable[[Any], bool]) -> Overloads:
    """Return the overloads that are registered now, those of libraries aside."""
    if "numba.extending" not in sys.modules:
        return NONE
    from plb.compiler.numba_api import builtin_registry

    return _among(is_of_library, len(builtin_registry.globals), len(builtin_registry.attributes))


@lru_cache(maxsize=1)
def _among(is_of_library: Callable[[Any], bool], functions: int, attributes: int) -> Overloads:
    from plb.compiler.numba_api import builtin_registry

    of_functions: dict[int, list[Overload]] = {}
    of_attributes: dict[str, list[Overload]] = {}
    of_operators: list[Overload] = []
    for function, kind in builtin_registry.globals[:functions]:
        for template in getattr(kind, "templates", ()):
            for one in _overload_of(template, is_of_library):
                of_functions.setdefault(id(function), []).append(one)
                if id(function) in _OPERATORS:
                    of_operators.append(one)
    for template in builtin_registry.attributes[:attributes]:
        for one in _overload_of(template, is_of_library):
            of_attributes.setdefault(template._attr, []).append(one)
    return Overloads(of_functions, of_attributes, of_operators)


def _overload_of(template: Any, is_of_library: Callable[[Any], bool]) -> Iterator[Overload]:
    implementation = getattr(template, "_overload_func", None)
    if implementation is not None and not is_of_library(implementation):
        yield Overload(implementation, repr(sorted(getattr(template, "_jit_options", {}).items())))
