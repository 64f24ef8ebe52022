"""A solution with the names of its nodes, services and partitions: what the words of rules are made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np

from plb.array_types import NOWHERE, Int
from plb.model import Role
from plb.model.move import Phase, Reason
from plb.model.rules import Rule
from plb.model.violations import Breach
from plb.state.arrays import Problem, Solution
from plb.state.cluster_state import ClusterState, FeasibilityClass


class NamedSolution:
    """A solution, and the cluster that it belongs to.

    Parameters
    ----------
    priorities
        Priority of every rule that may be soft; one below 0 is off.

    Attributes
    ----------
    kept
        What a rule computes once for all partitions, under keys that begin with the rule.
    """

    def __init__(
        self, state: ClusterState, problem: Problem, solution: Solution, priorities: Mapping[Rule, int]
    ) -> None:
        self.state, self.problem, self.solution, self.priorities = state, problem, solution, priorities
        self.kept: dict[tuple[Any, ...], Any] = {}

    def node_of(self, row: int) -> str:
        """Return the name of the node of a placed row."""
        return self.state.nodes[int(self.solution.node[row])].name

    def names(self, nodes: Int) -> tuple[str, ...]:
        """Return the names of nodes."""
        return tuple(self.state.nodes[node].name for node in nodes.tolist())

    def role_of(self, row: int) -> Role:
        """Return the role of a row."""
        return Role(int(self.problem.role[row]))

    def feasibility_class_of(self, row: int) -> FeasibilityClass:
        """Return what the service of a row requires of nodes."""
        return self.state.feasibility_class_of(int(self.problem.service[row]))

    def reason(self, phase: Phase, row: int, breach: Breach) -> Reason:
        """Return the reason of a move that ends a breach."""
        return Reason(phase, breach.rule, self.node_of(row), numbers=breach.numbers, breach=breach)

    @cached_property
    def partitions_of_service(self) -> Counter[int]:
        """Number of partitions of each service."""
        return Counter(record.service for record in self.state.partitions.values())

    @cached_property
    def partition_of_row(self) -> Int:
        """The index of the partition of each row, (M,)."""
        number = np.full(len(self.solution.node), NOWHERE)
        rows = [record.rows for record in self.state.partitions.values()]
        number[[*chain.from_iterable(rows)]] = np.repeat(np.arange(len(rows)), [*map(len, rows)])
        return number
