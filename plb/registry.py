"""Energy terms, constraints and placement policies of users, by the names with which settings choose them.

An extension is one file that ends with ``register_term(MyTerm())``. After the import of that file,
``PlbConfig(extension_terms={"my_term": 1.0})`` uses it.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from types import MappingProxyType
from typing import Any, TypeVar

import attrs

from plb.errors import ConflictError, InvalidValueError, UnknownNameError
from plb.extensions.constraints import CompiledConstraint, Constraint
from plb.extensions.energy_terms import CompiledTerm, EnergyTerm, missing_methods
from plb.extensions.policies import PlacementPolicy
from plb.model.plan import Energy
from plb.policies import KNOWN as KNOWN_POLICIES
from plb.policies.options import with_options
from plb.settings.config import PlbConfig
from plb.settings.extensions import ANNEALING
from plb.validation import check_name

BUILT_IN = tuple(field.name for field in attrs.fields(Energy) if field.name != "extension_terms")
"""Reserved names: those of the energy and its terms in plans."""

_terms: dict[str, EnergyTerm] = {}
_constraints: dict[str, Constraint] = {}
_policies: dict[str, PlacementPolicy] = {policy.name: policy for policy in KNOWN_POLICIES}
RESERVED = (ANNEALING, *_policies)
"""Reserved names of policies: the search of the engine, and the built-in ones."""
Item = TypeVar("Item", EnergyTerm, Constraint, PlacementPolicy)


def register_term(term: object) -> None:
    """Register an energy term with its name; every search works on a copy of it.

    Raises
    ------
    InvalidValueError
        If it is a class or has no `name` or no `total`, if it has only some of `begin`, `apply` and `undo`, or if its
        arithmetic is to be in kernels and it has no `change`.
    ConflictError
        If another term, or a built-in one, has this name.
    """
    if isinstance(term, type) or not isinstance(term, EnergyTerm):
        raise InvalidValueError("register_term", "term", term, "an object with a `name` and a `total(configuration)`")
    if check_name("register_term", term.name) in BUILT_IN:
        raise ConflictError(f"register_term: {term.name!r} is the name of a built-in term")
    missing = ["change"] if isinstance(term, CompiledTerm) and not hasattr(term, "change") else missing_methods(term)
    if missing:
        raise InvalidValueError("register_term", f"term {term.name}", term, f"one that also has {', '.join(missing)}")
    _enter(_terms, "term", term)


def register_constraint(constraint: object) -> None:
    """Make a constraint known under its name; every plan works on a copy of it.

    Raises
    ------
    InvalidValueError
        If it is a class, or lacks one of `name`, `refuses` (with a kernel: `test`) and `broken`.
    ConflictError
        If another constraint, or a built-in rule, has this name.
    """
    from plb.model.rules import Rule

    lacks_test = isinstance(constraint, CompiledConstraint) and not hasattr(constraint, "test")
    if isinstance(constraint, type) or not isinstance(constraint, Constraint) or lacks_test:
        allowed = "an object with a `name`, `refuses(configuration, proposal)` or `test`, and `broken(configuration)`"
        raise InvalidValueError("register_constraint", "constraint", constraint, allowed)
    if check_name("register_constraint", constraint.name).upper() in Rule.__members__:
        raise ConflictError(f"register_constraint: {constraint.name!r} is the name of a built-in rule")
    _enter(_constraints, "constraint", constraint)


def register_policy(policy: object) -> None:
    """Make a placement policy known under its name; every engine works with a copy of it.

    Raises
    ------
    InvalidValueError
        If it is a class, or has no `name` or no `choose`.
    ConflictError
        If another policy, or a built-in one, has this name.
    """
    if isinstance(policy, type) or not isinstance(policy, PlacementPolicy):
        allowed = "an object with a `name` and a `choose(configuration, row, nodes)`"
        raise InvalidValueError("register_policy", "policy", policy, allowed)
    if check_name("register_policy", policy.name) in RESERVED:
        raise ConflictError(f"register_policy: {policy.name!r} is the name of a built-in policy")
    _enter(_policies, "policy", policy)


def extension_term(name: str) -> EnergyTerm:
    """Return a copy of the term of that name; refuse a name that nothing is registered under."""
    return deepcopy(_known(_terms, "energy term", name))


def extension_constraint(name: str) -> Constraint:
    """Return a copy of the constraint with a name; raise an error for an unknown name."""
    return deepcopy(_known(_constraints, "constraint", name))


def extension_policy(name: str, options: Mapping[str, Any] = MappingProxyType({})) -> PlacementPolicy | None:
    """Return a copy of the policy with a name, None for the search of the engine; raise an error for an unknown name.

    Parameters
    ----------
    options
        Options that differ from those of the registered policy (`plb.policies.options`).
    """
    check_policy(name)
    return with_options(name, _policies.get(name), options)


def check_policy(name: str) -> None:
    """Raise an error for a name of neither a policy nor the search of the engine."""
    if name != ANNEALING and name not in _policies:
        raise UnknownNameError("placement policy", name, [ANNEALING, *_policies], "PlbConfig")


def extension_terms() -> Mapping[str, EnergyTerm]:
    """Return the registered terms by name."""
    return MappingProxyType(_terms)


def extension_constraints() -> Mapping[str, Constraint]:
    """Return the constraints that are registered, by name."""
    return MappingProxyType(_constraints)


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
        _known(_terms, "energy term", name)
    for name in config.extension_constraints:
        _known(_constraints, "constraint", name)
    extension_policy(config.policy, config.policy_options)


def _enter(known: dict[str, Item], kind: str, item: Item) -> None:
    """Enter an item; one of the same class takes the place of the one before, as when a file is imported twice."""
    before = known.get(item.name)
    if before is not None and type(before).__qualname__ != type(item).__qualname__:
        raise ConflictError(f"register_{kind}: {type(before).__qualname__} has the name {item.name!r} already")
    known[item.name] = item


def _known(known: Mapping[str, Item], kind: str, name: str) -> Item:
    if name not in known:
        raise UnknownNameError(kind, name, known, "PlbConfig")
    return known[name]
