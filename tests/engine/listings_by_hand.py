"""What is broken, and why a replica fits nowhere, in plain Python: counted row by row, from the definitions.

The numbers are those of clusters whose quanta are 1, so that quanta are user units.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction

import attrs
import numpy as np

from plb import (
    Apart,
    NodeViolation,
    OverApplicationCapacity,
    PlacementAndLoadBalancing,
    ReservationViolation,
    Role,
    SharedNode,
    TooManyNodes,
    UnevenSpread,
)
from plb.array_types import NOWHERE
from plb.constraints.description import NamedSolution
from plb.constraints.domains import ANY, EVEN
from plb.extensions.configuration import Configuration
from plb.model.quanta import UNLIMITED
from plb.model.rules import ALL_RULES, Rule
from plb.planning.rule_priorities import rule_priorities
from plb.state.arrays import Problem

from .applications_by_hand import kept_free, load_of, members, nodes_in_use, standing
from .oracle import ring
from .refusals_by_hand import Places, by_hand


@attrs.frozen
class Situation:
    """An engine, and a configuration of its replicas."""

    engine: PlacementAndLoadBalancing
    configuration: Configuration

    @property
    def named(self) -> NamedSolution:
        """The configuration as the rules see it."""
        state, configuration = self.engine._state, self.configuration
        return NamedSolution(state, configuration.problem, configuration.solution, rule_priorities(self.engine.config))

    @property
    def problem(self) -> Problem:
        """The arrays of the cluster."""
        return self.configuration.problem

    @property
    def places(self) -> Places:
        """The node of each row, or NOWHERE."""
        return self.configuration.solution.node.tolist()

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of the metrics."""
        return self.engine.config.metric_names

    def node(self, index: int) -> str:
        """Return the name of a node."""
        return self.configuration.node(index).name

    def application(self, index: int) -> str:
        """Return the name of an application."""
        return self.engine._state.applications.name_of(index)

    def partitions(self) -> Iterator[tuple[str, list[int]]]:
        """Yield the name and the rows of each partition."""
        for row, name in self.engine._state.row_partition.items():
            rows = [row, *ring(self.problem, row)]
            if row == min(rows):
                yield name, sorted(rows)

    def counting(self, rows: list[int]) -> list[int]:
        """Return the placed ones of some rows that neither leave nor are standbys."""
        return [row for row in rows if self.places[row] != NOWHERE and not self.problem.unspread[row]]


def shared_nodes(situation: Situation) -> list[SharedNode]:
    return [
        SharedNode(name, situation.node(node), count)
        for name, rows in situation.partitions()
        for node, count in Counter(situation.places[row] for row in situation.counting(rows)).items()
        if count > 1
    ]


# domains


def levels_of(problem: Problem, rule: Rule) -> list[int]:
    return [level for level, of in enumerate(problem.domain_rule.tolist()) if of == rule]


def domain_name(situation: Situation, level: int, node: int) -> str:
    """Return the name of the domain of a node, from the description of the node."""
    described = situation.configuration.node(node)
    if situation.problem.domain_rule[level] == Rule.UPGRADE_DOMAIN:
        return str(described.upgrade_domain)
    depth = levels_of(situation.problem, Rule.FAULT_DOMAIN).index(level) + 1
    return "fd:/" + "/".join(str(described.fault_domain)[4:].split("/")[:depth])


def open_nodes(problem: Problem, row: int, level: int) -> set[int]:
    """Return the nodes on which the replicas of a partition count at a level: in usable domains, or allowed."""
    feasibility_class = problem.feasibility_class[row]
    found = set(np.flatnonzero(problem.siblings[feasibility_class, :, level] > 0).tolist())
    if problem.most_in_domain[problem.service[row], level] == EVEN:
        return found
    return found | set(np.flatnonzero(problem.feasibility_classes[feasibility_class]).tolist())


def uneven_domains(situation: Situation, name: str, rows: list[int], level: int, rule: Rule) -> list[UnevenSpread]:
    """Return the domains of one level with too many or too few replicas of a partition."""
    problem, places = situation.problem, situation.places
    most = int(problem.most_in_domain[problem.service[rows[0]], level])
    if most == ANY:
        return []
    domain, parent = problem.domain[:, level], problem.parent[:, level]
    counts_on = open_nodes(problem, rows[0], level)
    at = [places[row] for row in situation.counting(rows) if places[row] in counts_on]
    found = []
    for above in {int(parent[node]) for node in at}:
        among = counts_on if most == EVEN else range(situation.configuration.nodes)
        beside = {int(domain[node]): node for node in among if parent[node] == above}
        inside = Counter(int(domain[node]) for node in at if parent[node] == above)
        mean = Fraction(inside.total(), len(beside))
        least, largest = (math.floor(mean), math.ceil(mean)) if most == EVEN else (0, most)
        depth = levels_of(problem, rule).index(level) + 1
        found += [
            UnevenSpread(
                rule=rule.name.lower(),
                partition=name,
                domain=domain_name(situation, level, node),
                level=depth,
                replicas=inside[one],
                least=least,
                most=largest,
                priority=situation.named.priorities[rule],
            )
            for one, node in beside.items()
            if not least <= inside[one] <= largest
        ]
    return found


def uneven_spreads(situation: Situation, rule: Rule) -> list[UnevenSpread]:
    levels = levels_of(situation.problem, rule)
    return [
        one
        for name, rows in situation.partitions()
        for level in levels
        for one in uneven_domains(situation, name, rows, level, rule)
    ]


# capacity and applications


def loads_of_nodes(situation: Situation) -> Iterator[tuple[int, int, int, int]]:
    """Yield node, metric, load and what is kept free for applications, in this order."""
    for node in range(situation.configuration.nodes):
        rows = standing(situation.problem, situation.places, node)
        sums = load_of(situation.problem, rows).tolist(), kept_free(situation.problem, rows).tolist()
        yield from ((node, metric, load, kept) for metric, (load, kept) in enumerate(zip(*sums, strict=True)))


def full_nodes(situation: Situation) -> list[NodeViolation | ReservationViolation]:
    """Return the nodes in the statistics at or above their threshold, then those that reservations lift above it."""
    problem, reached, lifted = situation.problem, [], []
    for node, metric, load, kept in loads_of_nodes(situation):
        threshold, limit = int(problem.threshold[node, metric]), int(problem.limit[node, metric])
        name = situation.node(node), situation.metrics[metric]
        if not problem.counted[node] or limit >= UNLIMITED:
            continue
        if load >= threshold:
            reached.append(NodeViolation(*name, load, threshold, limit))
        elif kept and load + kept > limit:
            applications = applications_with_reservation(situation, node, metric)
            lifted.append(ReservationViolation(*name, load, kept, limit, applications))
    return [*reached, *lifted]


def applications_with_reservation(situation: Situation, node: int, metric: int) -> tuple[str, ...]:
    """Return the applications on a node with less load there than it reserves for them."""
    problem, found = situation.problem, []
    for application in range(len(problem.most_nodes)):
        rows = members(problem, situation.places, application, node)
        if rows and load_of(problem, rows)[metric] < problem.reservation[application, metric]:
            found.append(situation.application(application))
    return tuple(found)


def overfull_applications(situation: Situation) -> list[OverApplicationCapacity]:
    """Return the applications with more load than they may have, in all and then by node."""
    problem, places, found = situation.problem, situation.places, []
    applications = range(len(problem.most_nodes))
    for node in (None, *range(situation.configuration.nodes)):
        limits = problem.application_limit if node is None else problem.application_node_limit
        for application in applications:
            load = load_of(problem, members(problem, places, application, node))
            for metric, (value, limit) in enumerate(zip(load.tolist(), limits[application].tolist(), strict=True)):
                if value > limit:
                    names = situation.application(application), situation.metrics[metric]
                    where = None if node is None else situation.node(node)
                    priority = situation.named.priorities[Rule.APPLICATION_CAPACITY]
                    found.append(OverApplicationCapacity(*names, where, value, limit, priority))
    return found


def nodes_of_application(situation: Situation, application: int) -> tuple[str, ...]:
    """Return the names of the nodes that an application uses."""
    used = nodes_in_use(situation.problem, situation.places, application)
    return tuple(situation.node(node) for node in sorted(used))


def wide_applications(situation: Situation) -> list[TooManyNodes]:
    found = []
    for application, most in enumerate(situation.problem.most_nodes.tolist()):
        nodes = nodes_of_application(situation, application)
        if len(nodes) > most:
            priority = situation.named.priorities[Rule.SCALE_OUT]
            found.append(TooManyNodes(situation.application(application), nodes, most, priority))
    return found


# affinity


def parent_of(situation: Situation, row: int) -> tuple[str, int, tuple[str, ...]]:
    """Return the parent service of a child, its number of partitions, and the nodes that the child may join."""
    problem, state = situation.problem, situation.engine._state
    parent = str(state.services[int(problem.service[row])].affinity_to)
    head = int(problem.parent_row[row])
    if head == NOWHERE:
        services = Counter(state.services[record.service].name for record in state.partitions.values())
        return parent, services[parent], ()
    families = [[one, *ring(problem, one)] for one in (head, row)]
    both = all(any(problem.role[one] == Role.PRIMARY for one in rows) for rows in families)
    joined = situation.counting(families[0])
    if problem.aligned[row] and both:
        joined = [one for one in joined if (problem.role[one] == Role.PRIMARY) == (problem.role[row] == Role.PRIMARY)]
    return parent, 1, tuple(situation.node(situation.places[one]) for one in joined)


def apart_of(situation: Situation, row: int) -> Apart:
    name = situation.configuration.partition_of(row), situation.configuration.role_of(row)
    node, priority = situation.node(situation.places[row]), situation.named.priorities[Rule.AFFINITY]
    return Apart(*name, node, *parent_of(situation, row), priority)


def children_apart(situation: Situation) -> list[Apart]:
    right, places = by_hand(situation.configuration, ALL_RULES), situation.places
    rows = [row for _, rows in situation.partitions() for row in situation.counting(rows)]
    return [apart_of(situation, row) for row in sorted(rows) if right.apart(places, row, places[row])]
