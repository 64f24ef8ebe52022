"""Replicas of a service only in domains that have replicas of other services (docs/constraints/ready_made.md).

The dependency constraint of the ROADEF/EURO challenge 2012, whose domains are neighbourhoods.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np

from plb.array_types import NOWHERE, Int
from plb.compiler import kernel
from plb.errors import InvalidValueError
from plb.extensions.configuration import Configuration
from plb.extensions.constraints import CompiledConstraint
from plb.rules.levels import Level, check_level, count_replicas, domains_of_nodes, numbered_rows, services_with_replicas
from plb.state.arrays import Problem, Solution
from plb.state.proposal import Proposal
from plb.validation import ReadOnlyMapping, check_collection, check_mapping, check_name


class SameDomainData(NamedTuple):
    """The C services that depend on another one or are depended on, by number, and L domains."""

    member: Int
    """(M,) service of each row, or -1."""
    domain: Int
    """(N,) domain of each node."""
    needed: Int
    """(D,) the services that each one depends on, service after service."""
    first_needed: Int
    """(C+1,) where those of each service begin, and the end."""
    dependent: Int
    """(D,) the services that depend on each one, service after service."""
    first_dependent: Int
    """(C+1,) where those of each service begin, and the end."""


class SameDomainSums(NamedTuple):
    """Placed replicas."""

    replicas: Int
    """(C, L) by service and domain."""


class Ends(NamedTuple):
    """One or two replicas that change nodes: their services and domains, each or -1."""

    first: int
    """Service of the replica that goes from `here` to `there`."""
    second: int
    """Service of the replica that goes from `there` to `here`."""
    here: int
    there: int


@kernel
def replicas_after(sums: SameDomainSums, ends: Ends, service: int, domain: int) -> int:
    """Return how many replicas of a service a domain has after a proposal."""
    gained = (1 if domain == ends.there else 0) - (1 if domain == ends.here else 0)
    found = int(sums.replicas[service, domain])
    if service == ends.first:
        found += gained
    if service == ends.second:
        found -= gained
    return found


@kernel
def lacks_needed(data: SameDomainData, sums: SameDomainSums, ends: Ends, service: int, domain: int) -> bool:
    """Return whether a replica that a proposal brings into a domain breaks the rule there."""
    if service < 0 or domain == NOWHERE:
        return False
    for place in range(data.first_needed[service], data.first_needed[service + 1]):
        if replicas_after(sums, ends, data.needed[place], domain) == 0:
            return True
    return False


@kernel
def lacks_any(data: SameDomainData, sums: SameDomainSums, service: int, domain: int) -> bool:
    """Return whether a domain has no replica of a service that this one depends on."""
    for place in range(data.first_needed[service], data.first_needed[service + 1]):
        if sums.replicas[data.needed[place], domain] == 0:
            return True
    return False


@kernel
def leaves_dependents(data: SameDomainData, sums: SameDomainSums, ends: Ends, service: int, domain: int) -> bool:
    """Return whether a proposal takes the last replica of a service from dependent ones that lack none so far."""
    if service < 0 or domain == NOWHERE or replicas_after(sums, ends, service, domain) > 0:
        return False
    for place in range(data.first_dependent[service], data.first_dependent[service + 1]):
        dependent = data.dependent[place]
        if replicas_after(sums, ends, dependent, domain) > 0 and not lacks_any(data, sums, dependent, domain):
            return True
    return False


@kernel
def separates(
    _problem: Problem, _solution: Solution, data: SameDomainData, sums: SameDomainSums, proposal: Proposal
) -> bool:
    """Return whether a proposal breaks the rule for a replica, or moves one that stays broken.

    An exchange in one service leaves its domains as they are; it may only bring another replica into a bad one.
    """
    row, target, partner, source = proposal
    first = data.member[row]
    second = -1 if partner == NOWHERE else data.member[partner]
    if first < 0 and second < 0:
        return False
    here = NOWHERE if source == NOWHERE else data.domain[source]
    there = NOWHERE if target == NOWHERE else data.domain[target]
    if first == second:
        return bool(lacks_any(data, sums, first, here) != lacks_any(data, sums, first, there))
    ends = Ends(first, second, here, there)
    if lacks_needed(data, sums, ends, first, there) or lacks_needed(data, sums, ends, second, here):
        return True
    return leaves_dependents(data, sums, ends, first, here) or leaves_dependents(data, sums, ends, second, there)


@kernel
def count_member(_problem: Problem, data: SameDomainData, sums: SameDomainSums, row: int, node: int, sign: int) -> None:
    """Add a replica to those of its service and domain `sign` times."""
    if data.member[row] >= 0:
        sums.replicas[data.member[row], data.domain[node]] += sign


class SameDomain(CompiledConstraint):
    """Each replica of a service is in a domain that has a replica of each service that it depends on.

    Parameters
    ----------
    needs
        By name of a service, the name of the service that it depends on, or a collection of names. Each counts as soon
        as that service has replicas, placed or missing. Of services that need each other, also through others, no
        replica can be the first: some have to be described with their places.
    level
        A depth of fault domains, 1 for the top level; ``"upgrade_domain"``; ``"node"``; or ``"property:NAME"``, where
        nodes of one value of the property NAME are one domain.
    name
        Name of the constraint.

    Raises
    ------
    InvalidValueError
        If a parameter is of another kind or out of its range, or a service needs itself.
    """

    test = separates
    count = count_member

    def __init__(
        self, needs: Mapping[str, str | Collection[str]], *, level: Level = 1, name: str = "same_domain"
    ) -> None:
        item = f"constraint {check_name('constraint', name)}"
        services = check_mapping(item, "needs", needs, "a mapping of names of services to names of services")
        self.needs = ReadOnlyMapping(
            {
                check_name(item, service, field="service in needs"): _checked_needs(item, service, needed)
                for service, needed in services.items()
            }
        )
        self.level = check_level(item, level)
        self.name = name

    def new_data(self, configuration: Configuration) -> SameDomainData:
        """Return the services of rows, the domains of nodes, and the dependencies."""
        present = services_with_replicas(configuration)
        pairs = [(service, name) for service, names in self.needs.items() for name in names if name in present]
        numbers = {name: number for number, name in enumerate(dict.fromkeys(name for pair in pairs for name in pair))}
        edges = np.array([(numbers[service], numbers[name]) for service, name in pairs], np.int64).reshape(-1, 2)
        return SameDomainData(
            numbered_rows(configuration, numbers),
            domains_of_nodes(configuration, self.level),
            *_grouped(edges[:, 1], edges[:, 0], len(numbers)),
            *_grouped(edges[:, 0], edges[:, 1], len(numbers)),
        )

    def new_sums(self, configuration: Configuration) -> SameDomainSums:
        """Return the sums of the present placement."""
        return self._sums(configuration, self.new_data(configuration))

    def broken(self, configuration: Configuration) -> Collection[int]:
        """Return the replicas in domains without a replica of a service that theirs depends on."""
        data = self.new_data(configuration)
        absent = self._sums(configuration, data).replicas == 0
        lacking = np.zeros_like(absent)
        dependents = np.repeat(np.arange(len(absent)), np.diff(data.first_needed))
        np.logical_or.at(lacking, dependents, absent[data.needed])
        rows = configuration.rows
        rows = rows[(data.member[rows] >= 0) & (configuration.solution.node[rows] != NOWHERE)]
        domains = data.domain[configuration.solution.node[rows]]
        broken: list[int] = rows[lacking[data.member[rows], domains]].tolist()
        return broken

    @staticmethod
    def _sums(configuration: Configuration, data: SameDomainData) -> SameDomainSums:
        services = len(data.first_needed) - 1
        return SameDomainSums(count_replicas(configuration, data.member, data.domain, services))


def _checked_needs(item: str, service: str, needed: object) -> tuple[str, ...]:
    """Return the names of the services that a service needs, each once."""
    field = f"needs[{service}]"
    names = (needed,) if isinstance(needed, str) else check_collection(item, field, needed, "names of services")
    checked = tuple(dict.fromkeys(check_name(item, name, field=field) for name in names))
    if service in checked:
        raise InvalidValueError(item, field, service, "another service")
    return checked


def _grouped(values: Int, groups: Int, count: int) -> tuple[Int, Int]:
    """Return the values by group, group after group, and where each group begins, with the end."""
    order = np.argsort(groups, kind="stable")
    return values[order], np.searchsorted(groups[order], np.arange(count + 1))
