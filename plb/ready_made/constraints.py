"""Constraints on services: a least number of domains, and domains that have replicas of other services.

Both are of the ROADEF/EURO challenge 2012, the spread and the dependency constraint (docs/constraints/extensions.md).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple, TypeAlias

import numpy as np

from plb.array_types import NOWHERE, Int
from plb.compiler import by_pointer, kernel
from plb.errors import InvalidValueError
from plb.extensions.configuration import Configuration
from plb.extensions.constraints import CompiledConstraint
from plb.model import Node
from plb.state.arrays import Problem, Proposal, Solution
from plb.validation import LARGEST_COUNT, ReadOnlyMapping, check_collection, check_count, check_mapping, check_name

Level: TypeAlias = int | str
"""What makes nodes one domain: a depth of fault domains, `UPGRADE_DOMAIN`, `NODE`, or `PROPERTY` and a name."""
UPGRADE_DOMAIN, NODE = "upgrade_domain", "node"
PROPERTY = "property:"
"""Beginning of a level that is a property of nodes; its name follows."""
ALLOWED = f"a depth of fault domains >= 1, {UPGRADE_DOMAIN!r}, {NODE!r}, or '{PROPERTY}' and the name of a property"
"""What errors say that a level may be."""


def check_level(item: str, level: Level) -> Level:
    """Return a level, or raise `InvalidValueError`; `item` names the constraint in the error."""
    if isinstance(level, str):
        if level in (UPGRADE_DOMAIN, NODE) or (level.startswith(PROPERTY) and level.removeprefix(PROPERTY).strip()):
            return level
    else:
        try:
            return check_count(item, "level", level, low=1)
        except InvalidValueError:
            pass  # the error below names all levels
    raise InvalidValueError(item, "level", level, ALLOWED)


def domains_of_nodes(configuration: Configuration, level: Level) -> Int:
    """Return the number of the domain of each node at a level, (N,), from 0.

    A node without one is a domain of its own; one whose fault domain is less deep is in the domain that it has.
    """
    if level == NODE:
        return np.arange(configuration.nodes)
    numbers: dict[object, int] = {}
    names = [_domain_of(configuration.node(index), level) for index in range(configuration.nodes)]
    return np.array([numbers.setdefault(name, len(numbers)) for name in names], np.int64)


def _domain_of(node: Node, level: Level) -> object:
    """Return a value that is equal for the nodes of one domain at a level."""
    if isinstance(level, int):
        return node.fault_domain_path[:level] if node.fault_domain is not None else (None, node.name)
    if level == UPGRADE_DOMAIN:
        return node.upgrade_domain if node.upgrade_domain is not None else (None, node.name)
    return node.placement_properties.get(level.removeprefix(PROPERTY), (None, node.name))


def services_with_replicas(configuration: Configuration) -> set[str]:
    """Return the names of the services with placed or missing replicas; a removed service has none."""
    indices = np.unique(configuration.problem.service[configuration.rows]).tolist()
    return {configuration.description.services[index].name for index in indices}


def numbered_rows(configuration: Configuration, numbers: Mapping[str, int]) -> Int:
    """Return the entry of each row's service in `numbers`, (M,); -1 for departing rows and other services."""
    by_service = np.array([numbers.get(service.name, -1) for service in configuration.description.services], np.int64)
    present = configuration.rows
    rows = np.full(len(configuration.problem.service), -1)
    rows[present] = by_service[configuration.problem.service[present]]
    return rows


def count_replicas(configuration: Configuration, number: Int, domain: Int, size: int) -> Int:
    """Return how many replicas of each number are placed in each domain, (size, domains).

    `number`: (M,) of each row, below `size`, or -1; `domain`: (N,) of each node.
    """
    rows = configuration.rows
    node = configuration.solution.node[rows]
    placed = (number[rows] >= 0) & (node >= 0)
    counts = np.zeros((size, int(domain.max(initial=-1)) + 1), np.int64)
    np.add.at(counts, (number[rows[placed]], domain[node[placed]]), 1)
    return counts


SERVICE, PARTITION = "service", "partition"
"""Whose replicas `LeastDomains` counts together."""


@by_pointer
class LeastDomainsData(NamedTuple):
    """Groups of replicas, G services or partitions, and domains, L in all."""

    group: Int
    """(M,) group of each row, or -1."""
    domain: Int
    """(N,) domain of each node."""
    least: Int
    """(G,) least number of distinct domains."""


@by_pointer
class LeastDomainsSums(NamedTuple):
    """Replicas of each group."""

    replicas: Int
    """(G, L) placed replicas by domain."""
    distinct: Int
    """(G,) domains with a replica."""
    placed: Int
    """(G,) placed replicas."""
    missing: Int
    """(G,) new replicas that are not placed yet."""


@kernel
def is_short(data: LeastDomainsData, sums: LeastDomainsSums, group: int, distinct: int, placed: int, new: int) -> bool:
    """Return whether a group cannot reach its least number of domains after changes of its sums.

    `distinct`, `placed`, `new`: by how much `LeastDomainsSums.distinct`, `placed` and `missing` rise. A missing replica
    may add a domain.
    """
    missing = sums.missing[group] + new
    reachable = sums.distinct[group] + distinct + missing
    return bool(reachable < min(data.least[group], sums.placed[group] + placed + missing))


@kernel
def breaks(
    problem: Problem, data: LeastDomainsData, sums: LeastDomainsSums, row: int, source: int, target: int
) -> bool:
    """Return whether a move of `row` from `source` to `target` breaks the rule, or keeps it broken in a shared domain.

    Each node may be NOWHERE.
    """
    group = data.group[row]
    if group < 0:
        return False
    old_domain = NOWHERE if source == NOWHERE else data.domain[source]
    new_domain = NOWHERE if target == NOWHERE else data.domain[target]
    distinct, beside = 0, 0
    if new_domain != NOWHERE:
        beside = sums.replicas[group, new_domain] - (1 if old_domain == new_domain else 0)
    if old_domain != new_domain:
        if old_domain != NOWHERE and sums.replicas[group, old_domain] == 1:
            distinct -= 1
        if new_domain != NOWHERE and beside == 0:
            distinct += 1
    placed = (1 if new_domain != NOWHERE else 0) - (1 if old_domain != NOWHERE else 0)
    new = -placed if problem.origin[row] == NOWHERE else 0
    if not is_short(data, sums, group, distinct, placed, new):
        return False
    return beside > 0 or not is_short(data, sums, group, 0, 0, 0)


@kernel
def reduces_domains(
    problem: Problem, _solution: Solution, data: LeastDomainsData, sums: LeastDomainsSums, proposal: Proposal
) -> bool:
    """Return whether a proposal breaks the rule for a replica, or moves one that stays broken."""
    row, target, partner, source = proposal
    if partner == NOWHERE:
        return breaks(problem, data, sums, row, source, target)
    group = data.group[row]
    if group != data.group[partner]:
        broken = breaks(problem, data, sums, row, source, target)
        return broken or breaks(problem, data, sums, partner, target, source)
    if group < 0 or not is_short(data, sums, group, 0, 0, 0):
        return False
    is_alone = sums.replicas[group, data.domain[source]] == 1
    return bool(is_alone != (sums.replicas[group, data.domain[target]] == 1))


@kernel
def count_in_domain(
    problem: Problem, data: LeastDomainsData, sums: LeastDomainsSums, row: int, node: int, sign: int
) -> None:
    """Add a replica on `node` (`sign` 1) to the sums of its group, or take it away (-1)."""
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
        ``"service"``: all replicas of the service count together; ``"partition"``: the replicas of each partition.
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
        numbers = check_mapping(item, "least", least, "a mapping of names of services to whole numbers >= 1")
        self.least = ReadOnlyMapping(
            {
                check_name(item, service, field="service in least"): check_count(
                    item, f"least[{service}]", number, low=1, high=LARGEST_COUNT
                )
                for service, number in numbers.items()
            }
        )
        self.level = check_level(item, level)
        if of not in (SERVICE, PARTITION):
            raise InvalidValueError(item, "of", of, f"{SERVICE!r} or {PARTITION!r}")
        self.of, self.name = of, name

    def new_data(self, configuration: Configuration) -> LeastDomainsData:
        """Return the group of each row, the domain of each node and the least number of domains of each group."""
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
        is_missing = (configuration.solution.node[rows] == NOWHERE) & (configuration.problem.origin[rows] == NOWHERE)
        groups = data.group[rows[is_missing]]
        missing = np.bincount(groups[groups >= 0], minlength=len(data.least))
        return LeastDomainsSums(replicas, (replicas > 0).sum(axis=1), replicas.sum(axis=1), missing)

    def broken(self, configuration: Configuration) -> Collection[int]:
        """Return the rows that share a domain, of groups that cannot reach their least number of domains."""
        data, sums = self.new_data(configuration), self.new_sums(configuration)
        needed = np.minimum(data.least, sums.placed + sums.missing)
        short = sums.distinct + sums.missing < needed
        rows = configuration.rows
        rows = rows[(data.group[rows] >= 0) & (configuration.solution.node[rows] != NOWHERE)]
        groups, domains = data.group[rows], data.domain[configuration.solution.node[rows]]
        return [int(row) for row in rows[short[groups] & (sums.replicas[groups, domains] > 1)]]

    def _by_partition(self, configuration: Configuration, service: Int, least: Int) -> tuple[Int, Int]:
        """Return the partition number of each row, (M,), and each partition's `least`, from the `least` of services."""
        numbers: dict[str, int] = {}
        group, partition_least = np.full_like(service, -1), []
        for row in np.flatnonzero(service >= 0).tolist():
            name = configuration.partition_of(row)
            if name not in numbers:
                numbers[name] = len(numbers)
                partition_least.append(least[service[row]])
            group[row] = numbers[name]
        return group, np.array(partition_least, np.int64)


@by_pointer
class SameDomainData(NamedTuple):
    """The C services with D dependencies between them, by number from 0, and domains, L in all."""

    member: Int
    """(M,) number of each row's service, or -1."""
    domain: Int
    """(N,) domain of each node."""
    needed: Int
    """(D,) the services that each service depends on, service after service."""
    first_needed: Int
    """(C+1,) where the entries of each service in `needed` begin, and the end."""
    dependent: Int
    """(D,) the services that depend on each service, service after service."""
    first_dependent: Int
    """(C+1,) where the entries of each service in `dependent` begin, and the end."""


@by_pointer
class SameDomainSums(NamedTuple):
    """Sums of the kernels."""

    replicas: Int
    """(C, L) placed replicas by service and domain."""


class Ends(NamedTuple):
    """One or two replicas that change nodes: the numbers of their services and domains, each perhaps -1."""

    first: int
    """Service of the replica that goes from `source` to `target`."""
    second: int
    """Service of the replica that goes from `target` to `source`."""
    source: int
    """Domain of the source node."""
    target: int
    """Domain of the target node."""


@kernel
def replicas_after(sums: SameDomainSums, ends: Ends, service: int, domain: int) -> int:
    """Return how many replicas of a service a domain has after a proposal."""
    gained = (1 if domain == ends.target else 0) - (1 if domain == ends.source else 0)
    replicas = int(sums.replicas[service, domain])
    if service == ends.first:
        replicas += gained
    if service == ends.second:
        replicas -= gained
    return replicas


@kernel
def lacks_needed(data: SameDomainData, sums: SameDomainSums, ends: Ends, service: int, domain: int) -> bool:
    """Return whether a domain lacks a service that `service`, of a replica that joins it, needs, after a proposal."""
    if service < 0 or domain == NOWHERE:
        return False
    for index in range(data.first_needed[service], data.first_needed[service + 1]):
        if replicas_after(sums, ends, data.needed[index], domain) == 0:
            return True
    return False


@kernel
def lacks_any(data: SameDomainData, sums: SameDomainSums, service: int, domain: int) -> bool:
    """Return whether a domain has no replica of some service that `service` depends on."""
    for index in range(data.first_needed[service], data.first_needed[service + 1]):
        if sums.replicas[data.needed[index], domain] == 0:
            return True
    return False


@kernel
def leaves_dependents(data: SameDomainData, sums: SameDomainSums, ends: Ends, service: int, domain: int) -> bool:
    """Return whether a proposal takes the last replica of `service` from dependents in `domain` that lack none now."""
    if service < 0 or domain == NOWHERE or replicas_after(sums, ends, service, domain) > 0:
        return False
    for index in range(data.first_dependent[service], data.first_dependent[service + 1]):
        dependent = data.dependent[index]
        if replicas_after(sums, ends, dependent, domain) > 0 and not lacks_any(data, sums, dependent, domain):
            return True
    return False


@kernel
def separates(
    _problem: Problem, _solution: Solution, data: SameDomainData, sums: SameDomainSums, proposal: Proposal
) -> bool:
    """Return whether a proposal breaks the rule for a replica, or moves one that stays broken."""
    row, target, partner, source = proposal
    first = data.member[row]
    second = -1 if partner == NOWHERE else data.member[partner]
    if first < 0 and second < 0:
        return False
    source_domain = NOWHERE if source == NOWHERE else data.domain[source]
    target_domain = NOWHERE if target == NOWHERE else data.domain[target]
    if first == second:
        return bool(lacks_any(data, sums, first, source_domain) != lacks_any(data, sums, first, target_domain))
    ends = Ends(first, second, source_domain, target_domain)
    if lacks_needed(data, sums, ends, first, target_domain) or lacks_needed(data, sums, ends, second, source_domain):
        return True
    if leaves_dependents(data, sums, ends, first, source_domain):
        return True
    return leaves_dependents(data, sums, ends, second, target_domain)


@kernel
def count_member(_problem: Problem, data: SameDomainData, sums: SameDomainSums, row: int, node: int, sign: int) -> None:
    """Add a replica on `node` (`sign` 1) to the sum of its service and domain, or take it away (-1)."""
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
        """Return the sums of the present placement, with `data` of the configuration."""
        services = len(data.first_needed) - 1
        return SameDomainSums(count_replicas(configuration, data.member, data.domain, services))


def _checked_needs(item: str, service: str, needed: object) -> tuple[str, ...]:
    """Return the names in `needed` of the services that a service needs, each once, or refuse them.

    `item` names the constraint in errors.
    """
    field = f"needs[{service}]"
    names = (needed,) if isinstance(needed, str) else check_collection(item, field, needed, "names of services")
    checked = tuple(dict.fromkeys(check_name(item, name, field=field) for name in names))
    if service in checked:
        raise InvalidValueError(item, field, service, "another service")
    return checked


def _grouped(values: Int, groups: Int, count: int) -> tuple[Int, Int]:
    """Return `values`, (d,), group after group, and where each of `count` groups begins, with the end, (count + 1,).

    `groups`: (d,) group of each value.
    """
    order = np.argsort(groups, kind="stable")
    return values[order], np.searchsorted(groups[order], np.arange(count + 1))
