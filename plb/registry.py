"""Terms, constraints, neighbourhoods and policies of users, by the names with which settings choose them.

A file of a scenario ends with ``register_term(MyTerm())``. After the import of that file,
``PlbConfig(extension_terms={"my_term": 1.0})`` uses it. An engine looks names up when it is made or gets other
settings, never later; a program that makes its own engines gives them the objects instead.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from itertools import count
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias, TypeVar
from uuid import uuid4

import attrs

from plb.errors import ConflictError, InvalidValueError, PlbError, UnknownNameError
from plb.extensions.constraints import CompiledConstraint, Constraint
from plb.extensions.energy_terms import CompiledTerm, EnergyTerm, missing_methods
from plb.extensions.kernel_data import CONSTRAINT, NEIGHBOURHOOD, POLICY, TERM, errors_of
from plb.extensions.neighbourhoods import AnyNeighbourhood, CompiledNeighbourhood, Neighbourhood
from plb.extensions.policies import PlacementPolicy, remembers
from plb.model.plan import Energy
from plb.model.rules import Rule
from plb.policies import KNOWN as KNOWN_POLICIES
from plb.settings.config import ANNEALING, NEIGHBOURHOODS, PlbConfig
from plb.validation import check_collection, check_known, check_name


def with_options(name: str, policy: PlacementPolicy | None, options: Mapping[str, Any]) -> PlacementPolicy | None:
    """Return a copy of a policy with other values of some of its options; None, the search of the engine, has none.

    If a policy is an attrs class, its options are the arguments of its constructor except the name; the constructor
    checks the values. Other policies have none. `name` is the name of the policy in the settings, for errors.
    """
    if not options:
        return deepcopy(policy)
    names = _options_of(policy)
    if not names:
        raise InvalidValueError("PlbConfig", "policy_options", dict(options), f"{{}}, as {name} has no options")
    for option in options:
        check_known("option", option, names, f"policy {name}")
    try:
        return attrs.evolve(deepcopy(policy), **deepcopy(dict(options)))  # type: ignore[misc]
    except PlbError:
        raise
    except (TypeError, ValueError) as error:
        allowed = f"values that policy {name} takes ({error})"
        raise InvalidValueError("PlbConfig", "policy_options", dict(options), allowed) from error


def path_options(policy: PlacementPolicy | None) -> list[str]:
    """Return the names of the options of a policy that are files."""
    return [str(field.alias) for field in _constructor_fields(policy) if field.metadata.get("path")]


def _options_of(policy: PlacementPolicy | None) -> list[str]:
    """Return the names of the options of a policy."""
    return [str(field.alias) for field in _constructor_fields(policy) if field.alias != "name"]


def _constructor_fields(policy: PlacementPolicy | None) -> list[attrs.Attribute[Any]]:
    """Return the fields that the constructor of a policy takes, if it is an attrs class; none for other policies."""
    kind: type[Any] = type(policy)
    return [field for field in attrs.fields(kind) if field.init] if attrs.has(kind) else []


BUILT_IN = tuple(field.name for field in attrs.fields(Energy) if field.name != "extension_terms")
"""Reserved: the names of the energy and its terms in plans."""

_registered: dict[str, dict[str, Any]] = {
    TERM: {},
    CONSTRAINT: {},
    NEIGHBOURHOOD: {},
    POLICY: {policy.name: policy for policy in KNOWN_POLICIES},
}
"""The extensions by kind and name, with the built-in policies."""
_origins: dict[tuple[str, str], tuple[str, str]] = {}
"""File and qualified name of the class of each registered object (`_origin_of`), by kind and name."""
_numbers: dict[tuple[str, str], int] = {}
"""Number of the registration of each registered object, from 1, by kind and name."""
_counter = count(1)
"""Counts the registrations of this process."""
_PROCESS = uuid4().hex
"""Identifies this process in registrations."""
RESERVED = (ANNEALING, *_registered[POLICY])
"""Reserved names of policies: the search of the engine, and the built-in ones."""


class Registration(NamedTuple):
    """A registration of an object with a name; copies and snapshots of an engine keep it."""

    process: str
    """The process, as `_PROCESS`."""
    number: int
    """Number of the registration in the process, from 1; 0 for a built-in policy."""

    def precedes(self, other: Registration) -> bool:
        """Return whether `other` registers another object in the same process; of two processes nothing is known."""
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
    _register(TERM, check_term("register_term", term))


def register_constraint(constraint: object) -> None:
    """Make a constraint known under its name; every engine that names it afterwards works on a copy of it.

    Raises
    ------
    InvalidValueError
        If it is a class, or lacks one of `name`, `refuses` (with a kernel: `test`) and `broken`.
    ConflictError
        If a constraint of another class, or a built-in rule, has this name.
    """
    _register(CONSTRAINT, check_constraint("register_constraint", constraint))


def register_neighbourhood(neighbourhood: object) -> None:
    """Make a neighbourhood known under its name; every engine that names it afterwards works on a copy of it.

    Raises
    ------
    InvalidValueError
        If it is a class, or has no `name` or no `propose`, or has sums.
    ConflictError
        If a neighbourhood of another class, or a built-in one, has this name.
    """
    _register(NEIGHBOURHOOD, check_neighbourhood("register_neighbourhood", neighbourhood))


def register_policy(policy: object) -> None:
    """Make a placement policy known under its name; every engine that names it afterwards works with a copy of it.

    Raises
    ------
    InvalidValueError
        If it is a class, or has no `name` or no `choose`.
    ConflictError
        If a policy of another class, or a built-in one, has this name.
    """
    _register(POLICY, check_policy("register_policy", policy))


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


_CHECKS: Mapping[str, Callable[[str, object], Any]] = {
    TERM: check_term,
    CONSTRAINT: check_constraint,
    NEIGHBOURHOOD: check_neighbourhood,
}


def registered(kind: str, name: str) -> Any:
    """Return the registered extension of a kind, such as TERM, with a name; raise an error for an unknown name."""
    check_known(kind, name, _registered[kind], "PlbConfig")
    return _registered[kind][name]


def extension_policy(name: str, options: Mapping[str, Any] = MappingProxyType({})) -> PlacementPolicy | None:
    """Return a copy of the policy with a name and other options, None for the search of the engine."""
    if name != ANNEALING and name not in _registered[POLICY]:
        raise UnknownNameError("placement policy", name, [ANNEALING, *_registered[POLICY]], "PlbConfig")
    return with_options(name, _registered[POLICY].get(name), options)


def registration(kind: str, name: str) -> Registration:
    """Return the present registration of the extension of a kind, such as TERM, with a name."""
    return Registration(_PROCESS, _numbers.get((kind, name), 0))


def policies() -> Mapping[str, PlacementPolicy]:
    """Return the built-in and the registered policies by name."""
    return MappingProxyType(_registered[POLICY])


def check_extensions(config: PlbConfig) -> None:
    """Refuse settings that choose an extension which is not registered, or options that their policy does not take."""
    for kind, names in _names_of(config).items():
        for name in names:
            registered(kind, name)
    extension_policy(config.policy, config.policy_options)


def _names_of(config: PlbConfig) -> dict[str, list[str]]:
    """Return the names of the extensions that settings choose, by kind, without the policy."""
    return {
        TERM: [*config.extension_terms],
        CONSTRAINT: [*config.extension_constraints],
        NEIGHBOURHOOD: [name for name in config.larger_neighbourhoods if name not in NEIGHBOURHOODS],
    }


def _register(kind: str, extension: Any) -> None:
    """Register an extension of a kind, such as TERM, also in place of one of its class and name after a new import."""
    origin = file, _ = _origin_of(type(extension))
    if extension.name in _registered[kind] and _origins[kind, extension.name] != origin:
        registered_file, class_name = _origins[kind, extension.name]
        hint = "" if registered_file == file else f" ({registered_file})"
        raise ConflictError(f"register_{kind.split()[-1]}: {class_name}{hint} has the name {extension.name!r} already")
    _registered[kind][extension.name], _origins[kind, extension.name] = extension, origin
    _numbers[kind, extension.name] = next(_counter)


def _origin_of(kind: type) -> tuple[str, str]:
    """Return the file of a class, or its module if it has no file, and its qualified name.

    A file that is imported again, also as another module, makes the same classes.
    """
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    return os.path.realpath(file) if file else kind.__module__, kind.__qualname__


Sources: TypeAlias = Mapping[tuple[str, str], Registration | None]
"""By kind and name of an extension: its registration, or None for an object of the host."""
DEFAULT_WEIGHT = 1.0
"""Weight of a term of the host that the settings do not name."""


@attrs.frozen(eq=False)
class GivenExtensions:
    """Copies of the objects that a host gives its engine."""

    by_kind: Mapping[str, Mapping[str, Any]]
    """Terms, constraints and neighbourhoods, by kind and name."""
    policy: PlacementPolicy | None
    """The placement policy; None: none is given."""

    @classmethod
    def of(
        cls,
        terms: Iterable[object],
        constraints: Iterable[object],
        policy: object,
        neighbourhoods: Iterable[object],
    ) -> GivenExtensions:
        """Return copies of objects; refuse other objects, built-in names, and two of a kind with one name."""
        by_kind = {TERM: terms, CONSTRAINT: constraints, NEIGHBOURHOOD: neighbourhoods}
        copies = {kind: _copies_by_name(kind, objects) for kind, objects in by_kind.items()}
        if policy is not None:
            policy = copied(POLICY, check_policy("engine: extension_policy", policy))
        return cls(copies, policy)


NOTHING_GIVEN = GivenExtensions({TERM: {}, CONSTRAINT: {}, NEIGHBOURHOOD: {}}, None)
"""The extensions of a host that gives its engine none."""


@attrs.frozen(eq=False)
class EngineExtensions:
    """What an engine uses: for each name the object of the host, else the one that was registered at that time."""

    host_extensions: GivenExtensions
    """The objects of the host."""
    config: PlbConfig
    """The settings of the engine. They also name all objects of the host."""
    terms: tuple[EnergyTerm, ...]
    """Energy terms in the order of the settings; searches work on copies."""
    constraints: tuple[Constraint, ...]
    """Constraints in the order of the settings; searches work on copies."""
    neighbourhoods: tuple[AnyNeighbourhood, ...]
    """Neighbourhoods in the order of the settings; searches work on copies."""
    policy: PlacementPolicy | None
    """It keeps its attributes from plan to plan. None: the search of the engine."""
    new_policy: PlacementPolicy | None
    """The policy as it was before its first plan."""
    sources: Sources
    """Where the copied objects come from."""

    @classmethod
    def resolve(
        cls, config: PlbConfig, host_extensions: GivenExtensions = NOTHING_GIVEN, before: EngineExtensions | None = None
    ) -> EngineExtensions:
        """Return the extensions of an engine with these settings and objects of the host.

        `before` are the extensions with the earlier settings: copies of the same objects are kept, and the policy with
        its attributes.
        """
        config = _settings_naming_all(config, host_extensions)
        sources = _sources(config, host_extensions)

        def chosen(kind: str) -> tuple[Any, ...]:
            """Return the copies of the objects of a kind, in the order of the settings."""
            own, names = host_extensions.by_kind[kind], _names_of(config)[kind]
            objects = [own[name] if name in own else registered(kind, name) for name in names]
            return tuple(_copy_of(before, sources, kind, source) for source in objects)

        with errors_of(POLICY, config.policy, "__deepcopy__"):
            if host_extensions.policy is None:
                new_policy = extension_policy(config.policy, config.policy_options)
            else:
                new_policy = with_options(config.policy, host_extensions.policy, config.policy_options)
            policy = deepcopy(new_policy)
        if before is not None and _same_policy(before, config, sources):
            policy = before.policy
        return cls(
            host_extensions,
            config,
            chosen(TERM),
            chosen(CONSTRAINT),
            chosen(NEIGHBOURHOOD),
            policy,
            new_policy,
            sources,
        )

    def is_same_as(self, other: EngineExtensions) -> bool:
        """Return whether each name that both have stands for the same object."""
        return all(
            _is_same_object(other.sources[key], source) for key, source in self.sources.items() if key in other.sources
        )

    @property
    def is_any(self) -> bool:
        """Whether there is an extension at all."""
        return bool(self.terms or self.constraints or self.neighbourhoods) or self.policy is not None

    def kept_policy(self) -> PlacementPolicy | None:
        """Return a copy of the policy as it is now, to which the engine returns if a plan ends with an error.

        A policy with a memory is made again from it, as that is smaller than a policy with large tables.
        """
        policy = self.policy
        if policy is None:
            return None
        if not remembers(policy):
            with errors_of(POLICY, policy.name, "__deepcopy__"):
                return deepcopy(policy)
        kept = deepcopy(self.new_policy)
        assert kept is not None
        assert remembers(kept)
        with errors_of(POLICY, policy.name, "memory"):
            memory = deepcopy(dict(policy.memory()))
        with errors_of(POLICY, policy.name, "recall"):
            kept.recall(memory)
        return kept


def _settings_naming_all(config: PlbConfig, host_extensions: GivenExtensions) -> PlbConfig:
    """Return settings that also name all objects of the host; new terms have `DEFAULT_WEIGHT`."""
    names = _names_of(config)
    unnamed = {kind: [name for name in own if name not in names[kind]] for kind, own in host_extensions.by_kind.items()}
    name = config.policy if host_extensions.policy is None else host_extensions.policy.name
    if config.policy not in (ANNEALING, name):
        raise ConflictError(f"engine: its policy {name} is given, but the settings name {config.policy}")
    if not any(unnamed.values()) and name == config.policy:
        return config
    return attrs.evolve(
        config,
        extension_terms={**config.extension_terms, **dict.fromkeys(unnamed[TERM], DEFAULT_WEIGHT)},
        extension_constraints=(*config.extension_constraints, *unnamed[CONSTRAINT]),
        larger_neighbourhoods=(*config.larger_neighbourhoods, *unnamed[NEIGHBOURHOOD]),
        policy=name,
    )


def _sources(config: PlbConfig, host_extensions: GivenExtensions) -> Sources:
    """Return the source of each extension that settings name; they name all objects of the host."""
    sources = {
        (kind, name): None if name in host_extensions.by_kind[kind] else registration(kind, name)
        for kind, names in _names_of(config).items()
        for name in names
    }
    policy = (POLICY, config.policy)
    return {**sources, policy: registration(*policy) if host_extensions.policy is None else None}


def _is_same_object(first: Registration | None, second: Registration | None) -> bool:
    """Return whether two sources of a name, None for an object of the host, are the same object."""
    return first is None or second is None or not first.precedes(second)


def _same_policy(before: EngineExtensions, config: PlbConfig, sources: Sources) -> bool:
    """Return whether settings name the same policy, with the same options, as the extensions `before`."""
    earlier = before.config
    same = (earlier.policy, earlier.policy_options) == (config.policy, config.policy_options)
    return same and _is_same_object(before.sources[POLICY, config.policy], sources[POLICY, config.policy])


def _copy_of(before: EngineExtensions | None, sources: Sources, kind: str, source: Any) -> Any:
    """Return a copy of the object `source`: the one in the extensions `before` if they have it, else a new one."""
    key = kind, source.name
    if before is not None and key in before.sources and _is_same_object(before.sources[key], sources[key]):
        copies: dict[str, tuple[Any, ...]] = {
            TERM: before.terms,
            CONSTRAINT: before.constraints,
            NEIGHBOURHOOD: before.neighbourhoods,
        }
        return next(item for item in copies[kind] if item.name == source.name)
    return copied(kind, source)


Extension = TypeVar("Extension", EnergyTerm, Constraint, AnyNeighbourhood, PlacementPolicy)


def copied(kind: str, source: Extension) -> Extension:
    """Return a deep copy of an extension of a kind, such as TERM, which an error of the copy names."""
    with errors_of(kind, source.name, "__deepcopy__"):
        return deepcopy(source)


def _copies_by_name(kind: str, objects: Iterable[object]) -> Mapping[str, Any]:
    """Return checked copies of a host's `objects` of one kind, such as TERM, by name."""
    field = f"extension_{kind.split()[-1]}s"
    copies: dict[str, Any] = {}
    for source in check_collection("engine", field, objects, f"a list of {kind}s"):
        copy = copied(kind, _CHECKS[kind](f"engine: {field}", source))
        if copy.name in copies:
            raise ConflictError(f"engine: {field} has two objects with the name {copy.name!r}")
        copies[copy.name] = copy
    return copies
