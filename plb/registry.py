"""Terms, constraints, neighbourhoods and policies of users, by the names with which settings choose them.

A file of a scenario ends with ``register_term(MyTerm())``. After the import of that file,
``PlbConfig(extension_terms={"my_term": 1.0})`` uses it. An engine looks names up when it is made or gets other
settings, never later (`plb.engine_extensions`); a program that makes its own engines gives them the objects instead.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from itertools import count
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar
from uuid import uuid4

import attrs

from plb.errors import ConflictError, InvalidValueError, UnknownNameError
from plb.extensions.constraints import CompiledConstraint, Constraint
from plb.extensions.energy_terms import CompiledTerm, EnergyTerm, missing_methods
from plb.extensions.failures import CONSTRAINT, NEIGHBOURHOOD, POLICY, TERM
from plb.extensions.neighbourhoods import AnyNeighbourhood, CompiledNeighbourhood, Neighbourhood
from plb.extensions.policies import PlacementPolicy
from plb.model.plan import Energy
from plb.model.rules import Rule
from plb.policies import KNOWN as KNOWN_POLICIES
from plb.policies.options import with_options
from plb.settings.config import PlbConfig
from plb.settings.extensions import ANNEALING, NEIGHBOURHOODS
from plb.validation import check_name

BUILT_IN = tuple(field.name for field in attrs.fields(Energy) if field.name != "extension_terms")
"""Reserved names: those of the energy and its terms in plans."""

_terms: dict[str, EnergyTerm] = {}
_constraints: dict[str, Constraint] = {}
_neighbourhoods: dict[str, AnyNeighbourhood] = {}
_policies: dict[str, PlacementPolicy] = {policy.name: policy for policy in KNOWN_POLICIES}
_origins: dict[tuple[str, str], tuple[str, str]] = {}
"""Of each registered object, by kind and name: the origin of its class."""
_numbers: dict[tuple[str, str], int] = {}
"""Of each registered object, by kind and name: the number of its registration, from 1."""
_counter = count(1)
_PROCESS = uuid4().hex
RESERVED = (ANNEALING, *_policies)
"""Reserved names of policies: the search of the engine, and the built-in ones."""
Item = TypeVar("Item", EnergyTerm, Constraint, AnyNeighbourhood, PlacementPolicy)


class Registration(NamedTuple):
    """One of all registrations of a process, which copies of an engine keep."""

    process: str
    number: int
    """0 for a built-in policy."""

    def precedes(self, other: Registration) -> bool:
        """Return whether another object was registered since; numbers of another process say nothing."""
        return self.process == other.process and self.number != other.number


def register_term(term: object) -> None:
    """Register an energy term with its name; every engine that names it afterwards works on a copy of it.

    Raises
    ------
    InvalidValueError
        If it is a class or has no `name` or no `total`, if it has only some of `begin`, `apply` and `undo`, or if its
        arithmetic is to be in kernels and it has no `change`.
    ConflictError
        If a term of another class, or a built-in one, has this name.
    """
    _enter(_terms, TERM, check_term("register_term", term))


def register_constraint(constraint: object) -> None:
    """Make a constraint known under its name; every engine that names it afterwards works on a copy of it.

    Raises
    ------
    InvalidValueError
        If it is a class, or lacks one of `name`, `refuses` (with a kernel: `test`) and `broken`.
    ConflictError
        If a constraint of another class, or a built-in rule, has this name.
    """
    _enter(_constraints, CONSTRAINT, check_constraint("register_constraint", constraint))


def register_neighbourhood(neighbourhood: object) -> None:
    """Make a neighbourhood known under its name; every engine that names it afterwards works on a copy of it.

    Raises
    ------
    InvalidValueError
        If it is a class, or has no `name` or no `propose`, or has sums.
    ConflictError
        If a neighbourhood of another class, or a built-in one, has this name.
    """
    _enter(_neighbourhoods, NEIGHBOURHOOD, check_neighbourhood("register_neighbourhood", neighbourhood))


def register_policy(policy: object) -> None:
    """Make a placement policy known under its name; every engine that names it afterwards works with a copy of it.

    Raises
    ------
    InvalidValueError
        If it is a class, or has no `name` or no `choose`.
    ConflictError
        If a policy of another class, or a built-in one, has this name.
    """
    _enter(_policies, POLICY, check_policy("register_policy", policy))


def check_term(item: str, term: object) -> EnergyTerm:
    """Return an energy term; raise an error that begins with `item` if it is none, or has a built-in name."""
    if isinstance(term, type) or not isinstance(term, EnergyTerm):
        raise InvalidValueError(item, "term", term, "an object with a `name` and a `total(configuration)`")
    if check_name(item, term.name) in BUILT_IN:
        raise ConflictError(f"{item}: {term.name!r} is the name of a built-in term")
    missing = ["change"] if isinstance(term, CompiledTerm) and not hasattr(term, "change") else missing_methods(term)
    if missing:
        raise InvalidValueError(item, f"term {term.name}", term, f"one that also has {', '.join(missing)}")
    return term


def check_constraint(item: str, constraint: object) -> Constraint:
    """Return a constraint; raise an error that begins with `item` if it is none, or has a built-in name."""
    lacks_test = isinstance(constraint, CompiledConstraint) and not hasattr(constraint, "test")
    if isinstance(constraint, type) or not isinstance(constraint, Constraint) or lacks_test:
        allowed = "an object with a `name`, `refuses(configuration, proposal)` or `test`, and `broken(configuration)`"
        raise InvalidValueError(item, "constraint", constraint, allowed)
    if check_name(item, constraint.name).upper() in Rule.__members__:
        raise ConflictError(f"{item}: {constraint.name!r} is the name of a built-in rule")
    return constraint


def check_neighbourhood(item: str, neighbourhood: object) -> AnyNeighbourhood:
    """Return a neighbourhood; raise an error that begins with `item` if it is none, or has a built-in name."""
    has_sums = isinstance(neighbourhood, CompiledNeighbourhood) and neighbourhood.has_sums
    if isinstance(neighbourhood, type) or not isinstance(neighbourhood, Neighbourhood):
        allowed = "an object with a `name` and a `propose(configuration, row, random)` or a kernel `propose`"
        raise InvalidValueError(item, "neighbourhood", neighbourhood, allowed)
    if check_name(item, neighbourhood.name) in NEIGHBOURHOODS:
        raise ConflictError(f"{item}: {neighbourhood.name!r} is the name of a built-in neighbourhood")
    if has_sums:
        allowed = "one without `new_sums`"
        raise InvalidValueError(item, f"neighbourhood {neighbourhood.name}", neighbourhood, allowed)
    return neighbourhood


def check_policy(item: str, policy: object) -> PlacementPolicy:
    """Return a placement policy; raise an error that begins with `item` if it is none, or has a built-in name."""
    if isinstance(policy, type) or not isinstance(policy, PlacementPolicy):
        allowed = "an object with a `name` and a `choose(configuration, row, nodes)`"
        raise InvalidValueError(item, "policy", policy, allowed)
    if check_name(item, policy.name) in RESERVED:
        raise ConflictError(f"{item}: {policy.name!r} is the name of a built-in policy")
    return policy


def extension_term(name: str) -> EnergyTerm:
    """Return the term of that name; refuse a name that nothing is registered under."""
    return _known(_terms, "energy term", name)


def extension_constraint(name: str) -> Constraint:
    """Return the constraint with a name; raise an error for an unknown name."""
    return _known(_constraints, "constraint", name)


def extension_neighbourhood(name: str) -> AnyNeighbourhood:
    """Return the neighbourhood with a name; raise an error for an unknown name."""
    return _known(_neighbourhoods, NEIGHBOURHOOD, name)


def extension_policy(name: str, options: Mapping[str, Any] = MappingProxyType({})) -> PlacementPolicy | None:
    """Return a copy of the policy with a name, None for the search of the engine; raise an error for an unknown name.

    Parameters
    ----------
    options
        Options that differ from those of the registered policy (`plb.policies.options`).
    """
    if name != ANNEALING and name not in _policies:
        raise UnknownNameError("placement policy", name, [ANNEALING, *_policies], "PlbConfig")
    return with_options(name, _policies.get(name), options)


def registration(kind: str, name: str) -> Registration:
    """Return which registration a name has now; `kind` as in `plb.extensions.failures`."""
    return Registration(_PROCESS, _numbers.get((kind, name), 0))


def policies() -> Mapping[str, PlacementPolicy]:
    """Return the policies that are known, by name: the built-in ones and those that are registered."""
    return MappingProxyType(_policies)


def check_extensions(config: PlbConfig) -> None:
    """Refuse settings that choose an extension which is not registered, or options that their policy does not take.

    Raises
    ------
    UnknownNameError
        If nothing is registered under a name, or the policy has no option of a name.
    InvalidValueError
        If the policy has no options, or refuses the value of one.
    """
    for name in config.extension_terms:
        extension_term(name)
    for name in config.extension_constraints:
        extension_constraint(name)
    for name in config.larger_neighbourhoods:
        if name not in NEIGHBOURHOODS:
            extension_neighbourhood(name)
    extension_policy(config.policy, config.policy_options)


def _enter(known: dict[str, Item], kind: str, item: Item) -> None:
    """Enter an item; one of the same class takes the place of the one before, as when a file is imported twice."""
    origin = file, _ = _origin_of(type(item))
    if item.name in known and _origins[kind, item.name] != origin:
        before, qualified = _origins[kind, item.name]
        where = "" if before == file else f" ({before})"
        raise ConflictError(f"register_{kind.split()[-1]}: {qualified}{where} has the name {item.name!r} already")
    known[item.name], _origins[kind, item.name] = item, origin
    _numbers[kind, item.name] = next(_counter)


def _origin_of(kind: type) -> tuple[str, str]:
    """Return the file of a class, or its module if it has no file, and its qualified name.

    A file that is imported again, also as another module, makes the same classes.
    """
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    return os.path.realpath(file) if file else kind.__module__, kind.__qualname__


def _known(known: Mapping[str, Item], kind: str, name: str) -> Item:
    if name not in known:
        raise UnknownNameError(kind, name, known, "PlbConfig")
    return known[name]
