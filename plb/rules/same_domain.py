"""Replicas of a service only in domains that have a replica of another service (docs/constraints/ready_made.md).

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
from plb.validation import ReadOnlyMapping, check_mapping, check_name


class SameDomainData(NamedTuple):
    """The C services that depend on another one or are depended on, by number, and L domains."""

    member: Int
    """(M,) service of each row, or -1."""
    domain: Int
    """(N,) domain of each node."""
    needed: Int
    """(C,) the service that each one depends on, or -1."""
    first_dependent: Int
    """(C,) the first service that depends on each one, or -1."""
    next_dependent: Int
    """(C,) the next service that depends on the same one, or -1."""


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
    if service < 0 or domain == NOWHERE or data.needed[service] < 0:
        return False
    return replicas_after(sums, ends, data.needed[service], domain) == 0


@kernel
def leaves_dependents(data: SameDomainData, sums: SameDomainSums, ends: Ends, service: int, domain: int) -> bool:
    """Return whether a proposal takes the last replica of a service from a domain that dependent replicas are in."""
    if service < 0 or domain == NOWHERE or replicas_after(sums, ends, service, domain) > 0:
        return False
    dependent = data.first_dependent[service]
    while dependent >= 0:
        if replicas_after(sums, ends, dependent, domain) > 0:
            return True
        dependent = data.next_dependent[dependent]
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
        needed = data.needed[first]
        return bool(needed >= 0 and (sums.replicas[needed, here] == 0) != (sums.replicas[needed, there] == 0))
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
    """Each replica of a service is in a domain that has a replica of the service it depends on.

    Parameters
    ----------
    needs
        By name of a service, the name of the service that it depends on. It counts as soon as
        that service has replicas, placed or missing.
    level
        A depth of fault domains, 1 for the top level; ``"upgrade_domain"``; or ``"property:NAME"``, where nodes of one
        value of the property NAME are one domain.
    name
        Name of the constraint.

    Raises
    ------
    InvalidValueError
        If a parameter is of another kind or out of its range, or a service depends on itself, also through others.
    """

    test = separates
    count = count_member

    def __init__(self, needs: Mapping[str, str], *, level: Level = 1, name: str = "same_domain") -> None:
        item = f"constraint {check_name('constraint', name)}"
        given = check_mapping(item, "needs", needs, "a mapping of names of services to names of services")
        self.needs = ReadOnlyMapping(
            {
                check_name(item, service, field="service in needs"): check_name(item, other, field=f"needs[{service}]")
                for service, other in given.items()
            }
        )
        for service in self.needs:
            self._refuse_cycle(item, service)
        self.level = check_level(item, level)
        self.name = name

    def _refuse_cycle(self, item: str, service: str) -> None:
        """Raise `InvalidValueError` if a service depends on itself: none of its replicas could be placed first."""
        other: str | None = self.needs[service]
        passed = set()
        while other is not None and other not in passed:
            passed.add(other)
            other = self.needs.get(other)
        if service in passed:
            allowed = "a service that does not depend on this one, also not through others"
            raise InvalidValueError(item, f"needs[{service}]", self.needs[service], allowed)

    def new_data(self, configuration: Configuration) -> SameDomainData:
        """Return the services of rows, the domains of nodes, and the dependencies."""
        known = services_with_replicas(configuration)
        pairs = [pair for pair in self.needs.items() if pair[1] in known]
        numbers = {name: number for number, name in enumerate(dict.fromkeys(name for pair in pairs for name in pair))}
        needed, first, following = (np.full(len(numbers), -1) for _ in range(3))
        for one, other in pairs:
            service, on = numbers[one], numbers[other]
            needed[service], following[service], first[on] = on, first[on], service
        member = numbered_rows(configuration, numbers)
        return SameDomainData(member, domains_of_nodes(configuration, self.level), needed, first, following)

    def new_sums(self, configuration: Configuration) -> SameDomainSums:
        """Return the sums of the present placement."""
        data = self.new_data(configuration)
        return SameDomainSums(count_replicas(configuration, data.member, data.domain, len(data.needed)))

    def broken(self, configuration: Configuration) -> Collection[int]:
        """Return the replicas in domains without a replica of the service that theirs depends on."""
        data, sums = self.new_data(configuration), self.new_sums(configuration)
        rows = configuration.rows
        rows = rows[(data.member[rows] >= 0) & (configuration.solution.node[rows] != NOWHERE)]
        rows = rows[data.needed[data.member[rows]] >= 0]
        needed, domains = data.needed[data.member[rows]], data.domain[configuration.solution.node[rows]]
        return [int(row) for row in rows[sums.replicas[needed, domains] == 0]]
