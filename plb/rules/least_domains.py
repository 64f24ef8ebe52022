"""A least number of distinct domains for the replicas of a service (docs/constraints/ready_made.md).

The spread constraint of the ROADEF/EURO challenge 2012, whose least number of locations is that of each service.
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
from plb.rules.levels import Level, check_level, count_replicas, domains_of_nodes, numbered_rows
from plb.state.arrays import Problem, Solution
from plb.state.proposal import Proposal
from plb.validation import LARGEST_COUNT, ReadOnlyMapping, check_count, check_mapping, check_name

SERVICE, PARTITION = "service", "partition"


class LeastDomainsData(NamedTuple):
    """Groups of replicas, G services or partitions, and L domains."""

    group: Int
    """(M,) group of each row, or -1."""
    domain: Int
    """(N,) domain of each node."""
    least: Int
    """(G,) least number of distinct domains."""


class LeastDomainsSums(NamedTuple):
    """Replicas of each group."""

    replicas: Int
    """(G, L) placed replicas by domain."""
    distinct: Int
    """(G,) domains with a replica."""
    placed: Int
    """(G,)"""
    missing: Int
    """(G,) new replicas that are not placed yet."""


@kernel
def is_short(data: LeastDomainsData, sums: LeastDomainsSums, group: int, distinct: int, placed: int, new: int) -> bool:
    """Return whether a group cannot reach its number, after changes of the sums by these numbers.

    Missing replicas may each reach one more domain. A group of fewer replicas needs a domain for each.
    """
    missing = sums.missing[group] + new
    reachable = sums.distinct[group] + distinct + missing
    return bool(reachable < min(data.least[group], sums.placed[group] + placed + missing))


@kernel
def breaks(
    problem: Problem, data: LeastDomainsData, sums: LeastDomainsSums, row: int, source: int, target: int
) -> bool:
    """Return whether the move of one replica breaks the rule for a replica, or leaves it broken for this one."""
    group = data.group[row]
    if group < 0:
        return False
    here = NOWHERE if source == NOWHERE else data.domain[source]
    there = NOWHERE if target == NOWHERE else data.domain[target]
    distinct, others = 0, 0
    if there != NOWHERE:
        others = sums.replicas[group, there] - (1 if here == there else 0)
    if here != there:
        if here != NOWHERE and sums.replicas[group, here] == 1:
            distinct -= 1
        if there != NOWHERE and others == 0:
            distinct += 1
    placed = (1 if there != NOWHERE else 0) - (1 if here != NOWHERE else 0)
    new = -placed if problem.origin[row] == NOWHERE else 0
    if not is_short(data, sums, group, distinct, placed, new):
        return False
    return others > 0 or not is_short(data, sums, group, 0, 0, 0)


@kernel
def reduces_domains(
    problem: Problem, _solution: Solution, data: LeastDomainsData, sums: LeastDomainsSums, proposal: Proposal
) -> bool:
    """Return whether a proposal breaks the rule for a replica, or moves one that stays broken.

    An exchange in one group leaves its domains as they are; it may only let another replica share a domain.
    """
    row, target, partner, source = proposal
    if partner == NOWHERE:
        return breaks(problem, data, sums, row, source, target)
    group = data.group[row]
    if group != data.group[partner]:
        found = breaks(problem, data, sums, row, source, target)
        return found or breaks(problem, data, sums, partner, target, source)
    if group < 0 or not is_short(data, sums, group, 0, 0, 0):
        return False
    alone_here = sums.replicas[group, data.domain[source]] == 1
    return bool(alone_here != (sums.replicas[group, data.domain[target]] == 1))


@kernel
def count_in_domain(
    problem: Problem, data: LeastDomainsData, sums: LeastDomainsSums, row: int, node: int, sign: int
) -> None:
    """Add a replica to the sums of its group `sign` times."""
    group = data.group[row]
    if group < 0:
        return
    domain = data.domain[node]
    before = sums.replicas[group, domain]
    sums.replicas[group, domain] = before + sign
    if before + sign == max(sign, 0):  # the first of the domain has come, or the last has left
        sums.distinct[group] += sign
    sums.placed[group] += sign
    if problem.origin[row] == NOWHERE:
        sums.missing[group] -= sign


class LeastDomains(CompiledConstraint):
    """The replicas of a service are in at least so many distinct domains.

    Parameters
    ----------
    least
        Number of domains, at least 1, by name of a service. Services need not exist.
    level
        A depth of fault domains, 1 for the top level; ``"upgrade_domain"``; ``"node"``; or ``"property:NAME"``, where
        nodes of one value of the property NAME are one domain.
    of
        ``"service"``: all replicas of the service are counted together; ``"partition"``: those of each partition.
    name
        Name of the constraint.

    Raises
    ------
    InvalidValueError
        If a parameter is of another kind or out of its range.
    """

    test = reduces_domains
    count = count_in_domain

    def __init__(
        self, least: Mapping[str, int], *, level: Level = 1, of: str = SERVICE, name: str = "least_domains"
    ) -> None:
        item = f"constraint {check_name('constraint', name)}"
        given = check_mapping(item, "least", least, "a mapping of names of services to whole numbers >= 1")
        self.least = ReadOnlyMapping(
            {
                check_name(item, service, field="service in least"): check_count(
                    item, f"least[{service}]", number, low=1, high=LARGEST_COUNT
                )
                for service, number in given.items()
            }
        )
        self.level = check_level(item, level)
        if of not in (SERVICE, PARTITION):
            raise InvalidValueError(item, "of", of, f"{SERVICE!r} or {PARTITION!r}")
        self.of, self.name = of, name

    def new_data(self, configuration: Configuration) -> LeastDomainsData:
        """Return the groups of rows, the domains of nodes and the least numbers."""
        group = numbered_rows(configuration, {name: number for number, name in enumerate(self.least)})
        least = np.array(list(self.least.values()), np.int64)
        if self.of == PARTITION:
            group, least = self._by_partition(configuration, group, least)
        return LeastDomainsData(group, domains_of_nodes(configuration, self.level), least)

    def new_sums(self, configuration: Configuration) -> LeastDomainsSums:
        """Return the sums of the present placement."""
        data = self.new_data(configuration)
        replicas = count_replicas(configuration, data.group, data.domain, len(data.least))
        rows = configuration.rows
        waits = (configuration.solution.node[rows] == NOWHERE) & (configuration.problem.origin[rows] == NOWHERE)
        groups = data.group[rows[waits]]
        missing = np.bincount(groups[groups >= 0], minlength=len(data.least))
        return LeastDomainsSums(replicas, (replicas > 0).sum(axis=1), replicas.sum(axis=1), missing)

    def broken(self, configuration: Configuration) -> Collection[int]:
        """Return the replicas that share a domain, of the groups that cannot reach their numbers."""
        data, sums = self.new_data(configuration), self.new_sums(configuration)
        needed = np.minimum(data.least, sums.placed + sums.missing)
        short = sums.distinct + sums.missing < needed
        rows = configuration.rows
        rows = rows[(data.group[rows] >= 0) & (configuration.solution.node[rows] != NOWHERE)]
        groups, domains = data.group[rows], data.domain[configuration.solution.node[rows]]
        return [int(row) for row in rows[short[groups] & (sums.replicas[groups, domains] > 1)]]

    def _by_partition(self, configuration: Configuration, of_service: Int, least: Int) -> tuple[Int, Int]:
        """Return the groups of rows and their numbers where each partition is one."""
        numbers: dict[str, int] = {}
        group, found = np.full_like(of_service, -1), []
        for row in np.flatnonzero(of_service >= 0).tolist():
            name = configuration.partition_of(row)
            if name not in numbers:
                numbers[name] = len(numbers)
                found.append(least[of_service[row]])
            group[row] = numbers[name]
        return group, np.array(found, np.int64)
