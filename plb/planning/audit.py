"""Which nodes are overloaded and which constraints are broken in a solution, with names and numbers.

The verdicts follow docs/service-fabric.md and do not depend on whether a replica may move, as in
`plb.search.breaches`. Vectorised over the replicas; names are used only for violations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cached_property

import numpy as np

from plb.array_types import NOWHERE, Bool, Int
from plb.compiler import kernel
from plb.constraints.affinity import FREE, parts_from_parent
from plb.constraints.domains import ANY, EVEN
from plb.model import Role
from plb.model.quanta import UNLIMITED
from plb.model.rules import Rule
from plb.model.violations import Apart, Breach, BrokenConstraint, Misplaced, NodeViolation, UnevenSpread
from plb.state.arrays import Problem, Solution, siblings_of
from plb.state.cluster_state import ClusterState


class Audit:
    """Finds the violations of a solution.

    Parameters
    ----------
    priorities
        Priority of every rule that may be broken; one below 0 is off.
    """

    def __init__(
        self, state: ClusterState, problem: Problem, solution: Solution, priorities: Mapping[Rule, int]
    ) -> None:
        self.state, self.problem, self.solution, self.priorities = state, problem, solution, priorities
        self._beside: dict[tuple[int, int, int], list[tuple[int, int]]] = {}

    def breaches(self, *, up_to: int) -> list[Breach]:
        """Return the broken constraints other than capacity, rule by rule.

        Parameters
        ----------
        up_to
            The largest priority that counts: 0 for hard rules only.
        """
        requested = {rule for rule, priority in self.priorities.items() if 0 <= priority <= up_to}
        found: list[Breach] = []
        if Rule.PLACEMENT in requested:
            found += [self.misplaced(row) for row in np.flatnonzero(self._misplaced_rows()).tolist()]
        for level, rule in enumerate(self.problem.domain_rule.tolist()):
            if rule in requested:
                for row in self._rows_of_uneven_groups(level):
                    found += self.uneven(level, row)
        if Rule.AFFINITY in requested and (self.problem.affinity != FREE).any():
            apart = np.zeros(len(self.solution.node), np.bool_)
            _mark_apart(self.problem, self.solution, apart)
            found += [self.apart(row) for row in np.flatnonzero(apart).tolist()]
        return found

    def overloads(self) -> list[NodeViolation]:
        """Return the nodes in the statistics whose load has reached a violation threshold, by metric."""
        problem, load, quanta = self.problem, self.solution.node_load, self.state.quanta
        limited = problem.limit < UNLIMITED
        found = np.argwhere((load >= problem.threshold) & limited & problem.counted[:, None])
        metrics = self.state.config.metric_names
        return [
            NodeViolation(
                self.state.nodes[node].name,
                metrics[metric],
                quanta.to_user(metrics[metric], int(load[node, metric])),
                quanta.to_user(metrics[metric], int(problem.threshold[node, metric])),
                quanta.to_user(metrics[metric], int(problem.limit[node, metric])),
            )
            for node, metric in found.tolist()
        ]

    # one verdict for each row that breaks the rule

    def misplaced(self, row: int) -> Misplaced:
        """Return the verdict on a replica on a node that its service does not allow."""
        node = self.state.nodes[int(self.solution.node[row])].name
        service = int(self.problem.service[row])
        feasibility_class = self.state.feasibility_classes[self.state.service_feasibility_class[service]]
        return Misplaced(
            partition=self.state.row_partition[row],
            role=Role(int(self.problem.role[row])),
            node=node,
            service=self.state.services[service].name,
            constraint=None if node in feasibility_class.blocked else feasibility_class.expression.text,
            priority=self.priorities[Rule.PLACEMENT],
        )

    def uneven(self, level: int, row: int) -> list[UnevenSpread]:
        """Return the domains besides that of `row` with too many or too few replicas of its partition."""
        least, most, replicas = self.share(level, row)
        rule = Rule(int(self.problem.domain_rule[level]))
        return [
            UnevenSpread(
                rule=rule.name.lower(),
                partition=self.state.row_partition[row],
                domain=self.domain_name(level, node),
                level=level + 1 - int(np.flatnonzero(self.problem.domain_rule == rule)[0]),
                replicas=count,
                least=least,
                most=most,
                priority=self.priorities[rule],
            )
            for node, count in replicas.items()
            if not least <= count <= most
        ]

    def apart(self, row: int) -> Apart:
        """Return the verdict on a child that is not on a node of its parent."""
        parent, partitions, together_on = self.parent_of(row)
        return Apart(
            partition=self.state.row_partition[row],
            role=Role(int(self.problem.role[row])),
            node=self.state.nodes[int(self.solution.node[row])].name,
            parent=parent,
            parent_partitions=partitions,
            together_on=together_on,
            priority=self.priorities[Rule.AFFINITY],
        )

    def broken(self, name: str, row: int) -> BrokenConstraint:
        """Return the verdict on a replica that breaks an extension constraint."""
        return BrokenConstraint(
            rule=name,
            partition=self.state.row_partition[row],
            role=Role(int(self.problem.role[row])),
            node=self.state.nodes[int(self.solution.node[row])].name,
            index=row,
        )

    # the parts of the verdicts

    def domain_name(self, level: int, node: int) -> str:
        """Return the name of the domain of a node at a level."""
        if self.problem.domain_rule[level] == Rule.UPGRADE_DOMAIN:
            return self.state.nodes[node].upgrade_domain_name
        return "fd:/" + "/".join(self.state.nodes[node].fault_domain_path[: level + 1])

    def share(self, level: int, row: int) -> tuple[int, int, dict[int, int]]:
        """Return the allowed range of the number of replicas in a domain, and the number in each other usable one.

        The domains are given by one node of each; `row` is placed.
        """
        problem = self.problem
        at = int(self.solution.node[row])
        by_domain = self.replicas_by_domain(level, row)
        beside = self._domains_beside(level, int(problem.feasibility_class[row]), int(problem.parent[at, level]))
        replicas = {node: by_domain[domain] for node, domain in beside}
        allowed = int(problem.most_in_domain[problem.service[row], level])
        if allowed != EVEN:
            return 0, allowed, replicas
        floor, rest = divmod(sum(replicas.values()), len(replicas))
        return floor, floor + (rest > 0), replicas

    def _domains_beside(self, level: int, feasibility_class: int, parent: int) -> list[tuple[int, int]]:
        """Return a node of each usable domain under a parent, and the domain; computed once for all partitions."""
        key = (level, feasibility_class, parent)
        if key not in self._beside:
            problem = self.problem
            inside = np.flatnonzero(
                (problem.parent[:, level] == parent) & (problem.siblings[feasibility_class, :, level] > 0)
            )
            domain, first = np.unique(problem.domain[inside, level], return_index=True)
            self._beside[key] = list(zip(inside[first].tolist(), domain.tolist(), strict=True))
        return self._beside[key]

    def replicas_by_domain(self, level: int, row: int) -> Counter[int]:
        """Return how many replicas of the partition of `row` count in each domain of a level."""
        problem, node = self.problem, self.solution.node
        siblings = problem.siblings[problem.feasibility_class[row], :, level]
        standing = [one for one in siblings_of(self.problem, row) if node[one] != NOWHERE and not problem.unspread[one]]
        return Counter(int(problem.domain[node[one], level]) for one in standing if siblings[node[one]] > 0)

    def parent_of(self, row: int) -> tuple[str, int, tuple[str, ...]]:
        """Return the parent service of a child, its number of partitions, and the nodes that affinity allows."""
        parent = str(self.state.services[int(self.problem.service[row])].affinity_to)
        head = int(self.problem.parent_row[row])
        if head == NOWHERE:
            return parent, self._partitions[self.state.service_index[parent]], ()
        problem, node = self.problem, self.solution.node
        aligned = bool(problem.aligned[row]) and self._has_primary(head) and self._has_primary(row)
        nodes = [
            self.state.nodes[int(node[one])].name
            for one in siblings_of(problem, head)
            if node[one] != NOWHERE
            and not problem.unspread[one]
            and (not aligned or (problem.role[one] == Role.PRIMARY) == (problem.role[row] == Role.PRIMARY))
        ]
        return parent, 1, tuple(nodes)

    def _has_primary(self, row: int) -> bool:
        return any(self.problem.role[one] == Role.PRIMARY for one in siblings_of(self.problem, row))

    @cached_property
    def _partitions(self) -> Counter[int]:
        """Number of partitions of each service."""
        return Counter(record.service for record in self.state.partitions.values())

    def _misplaced_rows(self) -> Bool:
        """Return the rows on nodes that their service does not allow, (M,)."""
        problem, node = self.problem, self.solution.node
        wrong: Bool = (
            (node != NOWHERE) & ~problem.unspread & ~problem.feasibility_classes[problem.feasibility_class, node]
        )
        return wrong

    def _rows_of_uneven_groups(self, level: int) -> list[int]:
        """Return a row of each partition and parent domain whose replicas are unevenly spread below it."""
        problem, node = self.problem, self.solution.node
        siblings = np.where(node == NOWHERE, 0, problem.siblings[problem.feasibility_class, node, level])
        allowed = problem.most_in_domain[problem.service, level]
        rows = np.flatnonzero((siblings > 0) & ~problem.unspread & (allowed != ANY))
        partition, at = self._partition_of_row[rows], node[rows]
        first, _, count = _grouped(partition, problem.domain[at, level])
        head, of_parent, _ = _grouped(partition[first], problem.parent[at[first], level])
        groups = len(head)
        replicas, fullest, emptiest = np.zeros(groups, np.int64), np.zeros(groups, np.int64), np.full(groups, len(node))
        np.add.at(replicas, of_parent, count)
        np.maximum.at(fullest, of_parent, count)
        np.minimum.at(emptiest, of_parent, count)
        heads = rows[first[head]]
        domains, most = siblings[heads], allowed[heads]
        emptiest[np.bincount(of_parent, minlength=groups) < domains] = 0
        uneven = (fullest > -(-replicas // np.maximum(1, domains))) | (emptiest < replicas // np.maximum(1, domains))
        broken = np.where(most == EVEN, uneven, fullest > most)
        return [int(row) for row in heads[broken]]

    @cached_property
    def _partition_of_row(self) -> Int:
        """The index of the partition of each row, (M,)."""
        number = np.full(len(self.solution.node), NOWHERE)
        for index, record in enumerate(self.state.partitions.values()):
            number[record.rows] = index
        return number


def _grouped(first: Int, second: Int) -> tuple[Int, Int, Int]:
    """Return where each distinct pair occurs first, which pair each element is, and how often each occurs."""
    width = int(second.max(initial=0)) + 1
    _, where, inverse, count = np.unique(
        first * width + second, return_index=True, return_inverse=True, return_counts=True
    )
    return where, inverse, count


@kernel
def _mark_apart(problem: Problem, solution: Solution, apart: Bool) -> None:
    for row in range(apart.shape[0]):
        at = solution.node[row]
        apart[row] = at != NOWHERE and not problem.unspread[row] and parts_from_parent(problem, solution, row, at)
