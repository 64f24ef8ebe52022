"""The term metric balance: what is free of one metric should be matched by what is free of another one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from plb.array_types import NOWHERE, Float
from plb.compiler import by_pointer, kernel
from plb.errors import InvalidValueError
from plb.extensions.configuration import Configuration
from plb.extensions.energy_terms import CompiledTerm
from plb.state.arrays import Problem, Solution
from plb.state.proposal import Proposal
from plb.validation import check_metrics, check_name, check_number


@by_pointer
class BalanceOfTwo(NamedTuple):
    """Data of the kernel: on each node target · free(first) − free(second) = offset + slope · loads."""

    first: int
    """Index of the first metric."""
    second: int
    """Index of the second metric."""
    offset: Float
    """(N,) the difference of an empty node, in units of the second metric; −∞ where a capacity is missing."""
    first_slope: float
    """What a quantum of the first metric adds."""
    second_slope: float
    """What a quantum of the second metric adds."""


@kernel
def _shortage(data: BalanceOfTwo, node: int, first: int, second: int) -> float:
    """Return what a node with these loads, in quanta, has too little of the second metric."""
    return float(max(0.0, data.offset[node] + data.first_slope * first + data.second_slope * second))


@kernel
def change_of_metric_balance(problem: Problem, solution: Solution, data: BalanceOfTwo, proposal: Proposal) -> float:
    """Return the change of the shortages by a proposal; O(1)."""
    row, target, partner, source = proposal
    first = problem.load[row, data.first] - problem.load[partner, data.first]  # the row of NOWHERE is zero
    second = problem.load[row, data.second] - problem.load[partner, data.second]
    change = 0.0
    if target != NOWHERE:
        one, other = solution.node_load[target, data.first], solution.node_load[target, data.second]
        change += _shortage(data, target, one + first, other + second) - _shortage(data, target, one, other)
    if source != NOWHERE:
        one, other = solution.node_load[source, data.first], solution.node_load[source, data.second]
        change += _shortage(data, source, one - first, other - second) - _shortage(data, source, one, other)
    return change


@kernel
def shortage_of_node(_problem: Problem, solution: Solution, data: BalanceOfTwo, node: int) -> float:
    """Return the shortage of a node; O(1)."""
    return _shortage(data, node, solution.node_load[node, data.first], solution.node_load[node, data.second])


class MetricBalance(CompiledTerm):
    """The shortage of one metric beside another one, summed over nodes.

    The total is Σ over nodes of max(0, target · free(first) − free(second)), with free = capacity − load, in units of
    the second metric: what a node with free capacity of the first metric is short of in the second one.

    Source: ROADEF/EURO challenge 2012, "Google machine reassignment", problem statement, balance cost.

    Parameters
    ----------
    first, second
        Names of two metrics.
    target
        Units of the second metric that should be free for each free unit of the first one; above 0.
    name
        Name of the term in settings and plans. Two balances of one engine need two names.

    Raises
    ------
    InvalidValueError
        If a value is out of range.
    UnknownNameError
        In the first search, if the engine has no metric of a name.
    """

    name = "metric_balance"
    change = change_of_metric_balance
    node_cost = shortage_of_node

    def __init__(self, first: str, second: str, target: float = 1.0, *, name: str = name) -> None:
        super().__init__()
        self.name = check_name("energy term", name)
        item = f"energy term {name}"
        self.first = check_name(item, first, field="first")
        self.second = check_name(item, second, field="second")
        if first == second:
            raise InvalidValueError(item, "second", second, "another metric than the first one")
        self.target = check_number(item, "target", target, low_open=True)

    def _indices(self, configuration: Configuration) -> list[int]:
        known = [metric.name for metric in configuration.description.metrics]
        for field in ("first", "second"):
            check_metrics(f"energy term {self.name}", field, [getattr(self, field)], known)
        return [known.index(self.first), known.index(self.second)]

    def new_data(self, configuration: Configuration) -> BalanceOfTwo:
        """Return capacities and quanta as the numbers of a linear function of both loads."""
        first, second = self._indices(configuration)
        capacities, quanta = configuration.capacities, configuration.description.quanta
        bounded = np.isfinite(capacities[:, [first, second]]).all(axis=1)
        offset = np.full(configuration.nodes, -np.inf)
        offset[bounded] = self.target * capacities[bounded, first] - capacities[bounded, second]
        return BalanceOfTwo(first, second, offset, -self.target * float(quanta[first]), float(quanta[second]))

    def total(self, configuration: Configuration) -> float:
        """Return the sum of the shortages."""
        indices = self._indices(configuration)
        capacities, loads = configuration.capacities[:, indices], configuration.loads[:, indices]
        bounded = np.isfinite(capacities).all(axis=1)
        free = capacities[bounded] - loads[bounded]
        return float(np.maximum(0.0, self.target * free[:, 0] - free[:, 1]).sum())
