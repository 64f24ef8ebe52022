"""The extensions of an engine: terms, constraints, neighbourhoods and the policy, objects that its host gives it.

Settings choose among them by name, and give terms their weights.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from types import MappingProxyType
from typing import Any, TypeVar

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
    """Return a policy with other values of some of its options; None, the search of the engine, has none.

    If a policy is an attrs class, its options are the arguments of its constructor except the name; the constructor
    checks the values. Other policies have none. `name` is the name of the policy in the settings, for errors.
    """
    if not options:
        return policy
    names = _options_of(policy)
    if not names:
        raise InvalidValueError("PlbConfig", "policy_options", dict(options), f"{{}}, as {name} has no options")
    for option in options:
        check_known("option", option, names, f"policy {name}")
    try:
        return attrs.evolve(policy, **deepcopy(dict(options)))  # type: ignore[misc]
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

POLICIES: Mapping[str, PlacementPolicy] = MappingProxyType({policy.name: policy for policy in KNOWN_POLICIES})
"""The built-in policies by name."""
RESERVED = (ANNEALING, *POLICIES)
"""Reserved names of policies: the search of the engine, and the built-in ones."""


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


_PROTOCOLS: Mapping[str, type] = {
    TERM: EnergyTerm,
    CONSTRAINT: Constraint,
    NEIGHBOURHOOD: Neighbourhood,
    POLICY: PlacementPolicy,
}
"""What the objects of each kind have."""
_CHECKS: Mapping[str, Callable[[str, object], Any]] = {
    TERM: check_term,
    CONSTRAINT: check_constraint,
    NEIGHBOURHOOD: check_neighbourhood,
    POLICY: check_policy,
}
ANY_KIND = (
    "an object with a `name` and `total` (term), `refuses` and `broken` (constraint), `propose` or `choose` (policy)"
)
"""What errors say that an extension has to be."""


def check_extension(item: str, extension: object) -> None:
    """Raise an error that begins with `item` if an object is no extension of any kind, or has a built-in name."""
    kinds = [kind for kind, protocol in _PROTOCOLS.items() if isinstance(extension, protocol)]
    if isinstance(extension, type) or not kinds:
        raise InvalidValueError(item, "extension", extension, ANY_KIND)
    for kind in kinds:
        _CHECKS[kind](item, extension)


def _names_of(config: PlbConfig) -> dict[str, list[str]]:
    """Return the names of the extensions that settings choose, by kind, without the policy."""
    return {
        TERM: [*config.extension_terms],
        CONSTRAINT: [*config.extension_constraints],
        NEIGHBOURHOOD: [name for name in config.larger_neighbourhoods if name not in NEIGHBOURHOODS],
    }


def among(objects: Iterable[Any], config: PlbConfig) -> dict[str, Any]:
    """Return the extensions of an engine with these settings, as keyword arguments: the `objects` that they name.

    Raise `UnknownNameError` for a name that no object has, and `ConflictError` for one that two of a kind have.
    """
    given: list[Any] = list(objects)

    def named(kind: str, names: Iterable[str]) -> list[Any]:
        """Return the objects of a kind, such as TERM, with these names."""
        of_kind: list[Any] = [item for item in given if isinstance(item, _PROTOCOLS[kind])]
        known = Counter(item.name for item in of_kind)
        for name in names:
            check_known(kind, name, known, "PlbConfig")
            if known[name] > 1:
                raise ConflictError(f"extensions: {known[name]} objects of the kind {kind} have the name {name!r}")
        return [next(item for item in of_kind if item.name == name) for name in names]

    policies = [item.name for item in given if isinstance(item, PlacementPolicy)]
    _check_policy_name(config.policy, policies)
    chosen: dict[str, Any] = {_field_of(kind): named(kind, names) for kind, names in _names_of(config).items()}
    return {**chosen, "extension_policy": None if config.policy in RESERVED else named(POLICY, [config.policy])[0]}


def _check_policy_name(name: str, own: Iterable[str]) -> None:
    """Raise `UnknownNameError` unless a policy is built in, or one of the `own` ones of a host."""
    known = [*RESERVED, *own]
    if name not in known:
        raise UnknownNameError("placement policy", name, known, "PlbConfig")


def _field_of(kind: str) -> str:
    """Return the argument of an engine with the extensions of a kind, such as TERM."""
    return f"extension_{kind.split()[-1]}s"


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
        extension_terms: Iterable[object] = (),
        extension_constraints: Iterable[object] = (),
        extension_policy: object = None,
        extension_neighbourhoods: Iterable[object] = (),
    ) -> GivenExtensions:
        """Return copies of objects; refuse other objects, built-in names, and two of a kind with one name."""
        by_kind = {TERM: extension_terms, CONSTRAINT: extension_constraints, NEIGHBOURHOOD: extension_neighbourhoods}
        copies = {kind: _copies_by_name(kind, objects) for kind, objects in by_kind.items()}
        if extension_policy is None:
            return cls(copies, None)
        return cls(copies, copied(POLICY, check_policy("engine: extension_policy", extension_policy)))

    def known(self, kind: str, name: str) -> Any:
        """Return the object of a kind, such as TERM, with a name; raise `UnknownNameError` if none is given."""
        check_known(kind, name, self.by_kind[kind], "PlbConfig")
        return self.by_kind[kind][name]

    def new_policy(self, config: PlbConfig) -> PlacementPolicy | None:
        """Return a copy of the policy that settings name, with their options; None for the search of the engine."""
        own = {} if self.policy is None else {self.policy.name: self.policy}
        _check_policy_name(config.policy, own)
        policy = {**POLICIES, **own}.get(config.policy)
        copy = None if policy is None else copied(POLICY, policy)
        return with_options(config.policy, copy, config.policy_options)


NOTHING_GIVEN = GivenExtensions({TERM: {}, CONSTRAINT: {}, NEIGHBOURHOOD: {}}, None)
"""The extensions of a host that gives its engine none."""


@attrs.frozen(eq=False)
class EngineExtensions:
    """What an engine uses: copies of the objects that its host gives it, and the policy."""

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

    @classmethod
    def resolve(
        cls, config: PlbConfig, host_extensions: GivenExtensions = NOTHING_GIVEN, before: EngineExtensions | None = None
    ) -> EngineExtensions:
        """Return the extensions of an engine with these settings and objects of the host.

        `before`: the extensions with the earlier settings, whose policy is kept with its attributes if it is the same.
        Raise `UnknownNameError` if the settings name an extension that is not given.
        """
        config = _settings_naming_all(config, host_extensions)
        chosen = {
            kind: tuple(host_extensions.known(kind, name) for name in names)
            for kind, names in _names_of(config).items()
        }
        new_policy = host_extensions.new_policy(config)
        if before is not None and _policy_of(before.config) == _policy_of(config):
            policy = before.policy
        else:
            policy = None if new_policy is None else copied(POLICY, new_policy)
        return cls(host_extensions, config, chosen[TERM], chosen[CONSTRAINT], chosen[NEIGHBOURHOOD], policy, new_policy)

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
            return copied(POLICY, policy)
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


def _policy_of(config: PlbConfig) -> tuple[str, Mapping[str, Any]]:
    """Return the name and the options of the policy that settings choose."""
    return config.policy, config.policy_options


Extension = TypeVar("Extension", EnergyTerm, Constraint, AnyNeighbourhood, PlacementPolicy)


def copied(kind: str, source: Extension) -> Extension:
    """Return a deep copy of an extension of a kind, such as TERM, which an error of the copy names."""
    with errors_of(kind, source.name, "__deepcopy__"):
        return deepcopy(source)


def _copies_by_name(kind: str, objects: Iterable[object]) -> Mapping[str, Any]:
    """Return checked copies of a host's `objects` of one kind, such as TERM, by name."""
    field = _field_of(kind)
    copies: dict[str, Any] = {}
    for source in check_collection("engine", field, objects, f"a list of {kind}s"):
        copy = copied(kind, _CHECKS[kind](f"engine: {field}", source))
        if copy.name in copies:
            raise ConflictError(f"engine: {field} has two objects with the name {copy.name!r}")
        copies[copy.name] = copy
    return copies
