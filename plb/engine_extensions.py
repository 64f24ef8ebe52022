"""The extensions of one engine: objects that its host gives, and those that its settings name.

Names are resolved when an engine is made or gets other settings. What is registered later changes no engine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Any, TypeAlias, TypeVar

import attrs

from plb.errors import ConflictError
from plb.extensions.constraints import Constraint
from plb.extensions.energy_terms import EnergyTerm
from plb.extensions.failures import CONSTRAINT, NEIGHBOURHOOD, POLICY, TERM, errors_of
from plb.extensions.neighbourhoods import AnyNeighbourhood
from plb.extensions.policies import PlacementPolicy, remembers
from plb.policies.options import with_options
from plb.registry import (
    Registration,
    check_constraint,
    check_neighbourhood,
    check_policy,
    check_term,
    extension_constraint,
    extension_neighbourhood,
    extension_policy,
    extension_term,
    registration,
)
from plb.settings.config import PlbConfig
from plb.settings.extensions import ANNEALING, NEIGHBOURHOODS
from plb.validation import check_collection

Sources: TypeAlias = Mapping[tuple[str, str], Registration | None]
Item = TypeVar("Item", EnergyTerm, Constraint, AnyNeighbourhood)
WEIGHT = 1.0
"""Weight of a term of the host that the settings do not name."""


@attrs.frozen(eq=False)
class GivenExtensions:
    """Copies of the objects that a host gives its engine, by name."""

    terms: Mapping[str, EnergyTerm]
    constraints: Mapping[str, Constraint]
    policy: PlacementPolicy | None
    neighbourhoods: Mapping[str, AnyNeighbourhood]

    @classmethod
    def of(
        cls,
        terms: Iterable[object],
        constraints: Iterable[object],
        policy: object,
        neighbourhoods: Iterable[object],
    ) -> GivenExtensions:
        """Return copies of objects.

        Raises
        ------
        InvalidValueError
            If one of them is no such extension.
        ConflictError
            If two of a kind have one name, or one has that of a built-in.
        """
        terms = check_collection("engine", "extension_terms", terms, "a list of energy terms")
        constraints = check_collection("engine", "extension_constraints", constraints, "a list of constraints")
        allowed = "a list of neighbourhoods"
        neighbourhoods = check_collection("engine", "extension_neighbourhoods", neighbourhoods, allowed)
        of_terms = [copied(TERM, check_term("engine: extension_terms", one)) for one in terms]
        of_constraints = [
            copied(CONSTRAINT, check_constraint("engine: extension_constraints", one)) for one in constraints
        ]
        of_neighbourhoods = [
            copied(NEIGHBOURHOOD, check_neighbourhood("engine: extension_neighbourhoods", one))
            for one in neighbourhoods
        ]
        if policy is not None:
            known = check_policy("engine: extension_policy", policy)
            with errors_of(POLICY, known.name, "__deepcopy__"):
                policy = deepcopy(known)
        return cls(
            _by_name("extension_terms", of_terms),
            _by_name("extension_constraints", of_constraints),
            policy,
            _by_name("extension_neighbourhoods", of_neighbourhoods),
        )


NOTHING_GIVEN = GivenExtensions({}, {}, None, {})


@attrs.frozen(eq=False)
class EngineExtensions:
    """What an engine uses: for each name the object of the host, else the one that was registered at that time.

    Parameters
    ----------
    given
        The objects of the host.
    config
        The settings of the engine. They also name all objects of the host.
    terms, constraints, neighbourhoods
        In the order of the settings; searches work on copies.
    policy
        It keeps its attributes from plan to plan. None: the search of the engine.
    new_policy
        The policy as it was before its first plan.
    sources
        By kind and name: the registration of the object that was copied, or None for an object of the host.
    """

    given: GivenExtensions
    config: PlbConfig
    terms: tuple[EnergyTerm, ...]
    constraints: tuple[Constraint, ...]
    neighbourhoods: tuple[AnyNeighbourhood, ...]
    policy: PlacementPolicy | None
    new_policy: PlacementPolicy | None
    sources: Sources

    @classmethod
    def resolve(
        cls, config: PlbConfig, given: GivenExtensions = NOTHING_GIVEN, before: EngineExtensions | None = None
    ) -> EngineExtensions:
        """Return the extensions of an engine with these settings.

        Parameters
        ----------
        before
            Those of the engine so far: the copies of the same objects are kept, and the policy with all that it keeps.

        Raises
        ------
        UnknownNameError
            If nothing is registered or given under a name, or the policy has no option of a name.
        InvalidValueError
            If the policy has no options, or refuses the value of one.
        ConflictError
            If the host gives a policy, and the settings name another one; or if a neighbourhood has no part of the
            budget.
        """
        config = _naming(config, given)
        terms = [given.terms[name] if name in given.terms else extension_term(name) for name in config.extension_terms]
        constraints = [
            given.constraints[name] if name in given.constraints else extension_constraint(name)
            for name in config.extension_constraints
        ]
        of_users = [name for name in config.larger_neighbourhoods if name not in NEIGHBOURHOODS]
        neighbourhoods = [
            given.neighbourhoods[name] if name in given.neighbourhoods else extension_neighbourhood(name)
            for name in of_users
        ]
        sources = _sources(config, given)
        with errors_of(POLICY, config.policy, "__deepcopy__"):
            if given.policy is None:
                new_policy = extension_policy(config.policy, config.policy_options)
            else:
                new_policy = with_options(config.policy, given.policy, config.policy_options)
            policy = deepcopy(new_policy)
        if before is not None and _same_policy(before, config, sources):
            policy = before.policy
        return cls(
            given,
            config,
            tuple(_kept(before, sources, TERM, one) for one in terms),
            tuple(_kept(before, sources, CONSTRAINT, one) for one in constraints),
            tuple(_kept(before, sources, NEIGHBOURHOOD, one) for one in neighbourhoods),
            policy,
            new_policy,
            sources,
        )

    def is_same_as(self, other: EngineExtensions) -> bool:
        """Return whether the objects behind equal names are the same."""
        return all(_is_same(other.sources[key], source) for key, source in self.sources.items() if key in other.sources)

    @property
    def is_any(self) -> bool:
        """Whether there is an extension at all."""
        return bool(self.terms or self.constraints or self.neighbourhoods) or self.policy is not None

    def kept_policy(self) -> PlacementPolicy | None:
        """Return the policy as it is, to go on with if a plan ends with an error.

        A policy with a memory is made again from it: that of a policy with large tables is smaller than the policy.
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


def _naming(config: PlbConfig, given: GivenExtensions) -> PlbConfig:
    """Return settings that name all objects of the host."""
    weights = {name: WEIGHT for name in given.terms if name not in config.extension_terms}
    others = [name for name in given.constraints if name not in config.extension_constraints]
    neighbourhoods = [name for name in given.neighbourhoods if name not in config.larger_neighbourhoods]
    name = config.policy if given.policy is None else given.policy.name
    if config.policy not in (ANNEALING, name):
        raise ConflictError(f"engine: its policy {name} is given, but the settings name {config.policy}")
    if not weights and not others and not neighbourhoods and name == config.policy:
        return config
    return attrs.evolve(
        config,
        extension_terms={**config.extension_terms, **weights},
        extension_constraints=(*config.extension_constraints, *others),
        larger_neighbourhoods=(*config.larger_neighbourhoods, *neighbourhoods),
        policy=name,
    )


def _sources(config: PlbConfig, given: GivenExtensions) -> Sources:
    """Return where each object comes from."""
    keys = [(TERM, name) for name in config.extension_terms]
    keys += [(CONSTRAINT, name) for name in config.extension_constraints]
    keys += [(NEIGHBOURHOOD, name) for name in config.larger_neighbourhoods if name not in NEIGHBOURHOODS]
    of_host = {(TERM, name) for name in given.terms} | {(CONSTRAINT, name) for name in given.constraints}
    of_host |= {(NEIGHBOURHOOD, name) for name in given.neighbourhoods}
    if given.policy is not None:
        of_host.add((POLICY, config.policy))
    return {key: None if key in of_host else registration(*key) for key in [*keys, (POLICY, config.policy)]}


def _is_same(one: Registration | None, other: Registration | None) -> bool:
    """Return whether two sources of one name are the same object; those of the host do not change."""
    return one is None or other is None or not one.precedes(other)


def _same_policy(before: EngineExtensions, config: PlbConfig, sources: Sources) -> bool:
    """Return whether settings name the policy of before, with the same options."""
    one, other = before.config, config
    same = (one.policy, one.policy_options) == (other.policy, other.policy_options)
    return same and _is_same(before.sources[POLICY, config.policy], sources[POLICY, config.policy])


def _kept(before: EngineExtensions | None, sources: Sources, kind: str, source: Item) -> Item:
    """Return the copy of an object, made now unless it was made before."""
    key = kind, source.name
    if before is not None and key in before.sources and _is_same(before.sources[key], sources[key]):
        of_kinds = {TERM: before.terms, CONSTRAINT: before.constraints, NEIGHBOURHOOD: before.neighbourhoods}
        known: Sequence[Any] = of_kinds[kind]
        found: Item = next(one for one in known if one.name == source.name)
        return found
    return copied(kind, source)


def copied(kind: str, source: Item) -> Item:
    """Return a copy of a term, a constraint or a neighbourhood."""
    with errors_of(kind, source.name, "__deepcopy__"):
        return deepcopy(source)


def _by_name(field: str, items: Iterable[Item]) -> Mapping[str, Item]:
    found: dict[str, Item] = {}
    for one in items:
        if one.name in found:
            raise ConflictError(f"engine: {field} has two objects with the name {one.name!r}")
        found[one.name] = one
    return found
