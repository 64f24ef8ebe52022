"""Terms of the load of nodes: the balance of two metrics, and safety capacities, load above which costs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from numbers import Real
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from plb.array_types import NOWHERE, Float, Int
from plb.compiler import by_pointer, kernel
from plb.errors import InvalidValueError
from plb.extensions.configuration import Configuration
from plb.extensions.energy_terms import CompiledTerm
from plb.extensions.kernel_data import Values
from plb.model import Node
from plb.state.arrays import Problem, Proposal, Solution
from plb.validation import check_collection, check_mapping, check_metrics, check_name, check_number


@by_pointer
class BalanceOfTwo(NamedTuple):
    """Data of the kernel: on each node target · free(first) − free(second) = offset + Σ slope · load in quanta."""

    first: int
    """Index of the first metric."""
    second: int
    """Index of the second metric."""
    offset: Float
    """(N,) the difference of an empty node, in units of the second metric; −∞ where a capacity is missing."""
    first_slope: float
    """What a quantum of the first metric adds to the difference."""
    second_slope: float
    """What a quantum of the second metric adds to the difference."""


@kernel
def _shortage(data: BalanceOfTwo, node: int, first: int, second: int) -> float:
    """Return the shortage of the second metric on a node with loads `first` and `second` of the metrics, in quanta."""
    return float(max(0.0, data.offset[node] + data.first_slope * first + data.second_slope * second))


@kernel
def change_of_metric_balance(
    problem: Problem, solution: Solution, data: BalanceOfTwo, _sums: Values, proposal: Proposal
) -> float:
    """Return the change of the shortages by a proposal; O(1)."""
    row, target, partner, source = proposal
    first_gain = problem.load[row, data.first] - problem.load[partner, data.first]  # the row of NOWHERE is zero
    second_gain = problem.load[row, data.second] - problem.load[partner, data.second]
    change = 0.0
    if target != NOWHERE:
        first, second = solution.node_load[target, data.first], solution.node_load[target, data.second]
        change += _shortage(data, target, first + first_gain, second + second_gain)
        change -= _shortage(data, target, first, second)
    if source != NOWHERE:
        first, second = solution.node_load[source, data.first], solution.node_load[source, data.second]
        change += _shortage(data, source, first - first_gain, second - second_gain)
        change -= _shortage(data, source, first, second)
    return change


@kernel
def shortage_of_node(_problem: Problem, solution: Solution, data: BalanceOfTwo, _sums: Values, node: int) -> float:
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
        """Return the indices of the two metrics in the engine; raise `UnknownNameError` if it lacks one."""
        names = [metric.name for metric in configuration.description.metrics]
        for field in ("first", "second"):
            check_metrics(f"energy term {self.name}", field, [getattr(self, field)], names)
        return [names.index(self.first), names.index(self.second)]

    def new_data(self, configuration: Configuration) -> BalanceOfTwo:
        """Return the shortage of each node as a linear function of its loads of both metrics, in quanta."""
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


Steps: TypeAlias = Sequence[tuple[float, float]]
"""Points (x, slope) in ascending order: from the load x to the next point, a unit of load costs `slope`."""
STEPS = "a number, or pairs of a number and a slope"
"""What errors say that steps may be."""


@by_pointer
class SafetySteps(NamedTuple):
    """Data of the kernel: where the slope of the cost rises, for C metrics and up to K steps."""

    metric: Int
    """(C,) index of each metric that has a cost."""
    start: Float
    """(N, C, K) quanta above which a step adds to the cost; infinite where there is no step."""
    rise: Float
    """(N, C, K) what the step adds to the cost of each quantum above it."""


@kernel
def _cost_change(data: SafetySteps, node: int, column: int, load: int, gain: int) -> float:
    """Return by how much the cost of a node rises if its `load` of the column's metric grows by `gain`, in quanta."""
    change = 0.0
    for step in range(data.start.shape[2]):
        above = load - data.start[node, column, step]
        change += data.rise[node, column, step] * (max(0.0, above + gain) - max(0.0, above))
    return change


@kernel
def change_of_safety_capacity(
    problem: Problem, solution: Solution, data: SafetySteps, _sums: Values, proposal: Proposal
) -> float:
    """Return `safety_change`."""
    return safety_change(problem, solution, data, proposal)


@kernel
def safety_change(problem: Problem, solution: Solution, data: SafetySteps, proposal: Proposal) -> float:
    """Return the change of the cost by a proposal; O(C·K)."""
    row, target, partner, source = proposal
    change = 0.0
    for column in range(data.metric.shape[0]):
        metric = data.metric[column]
        gain = problem.load[row, metric] - problem.load[partner, metric]  # the last row, of NOWHERE, is zero
        if gain == 0:
            continue
        if target != NOWHERE:
            change += _cost_change(data, target, column, solution.node_load[target, metric], gain)
        if source != NOWHERE:
            change += _cost_change(data, source, column, solution.node_load[source, metric], -gain)
    return change


@kernel
def safety_cost_of_node(_problem: Problem, solution: Solution, data: SafetySteps, _sums: Values, node: int) -> float:
    """Return the cost of the loads of a node; O(C·K)."""
    cost = 0.0
    for column in range(data.metric.shape[0]):
        load = solution.node_load[node, data.metric[column]]
        cost += _cost_change(data, node, column, 0, load)  # a load of 0 costs nothing
    return cost


class SafetyCapacity(CompiledTerm):
    """The cost of the load above safety capacities.

    The total is Σ over nodes n and metrics r of w(r) · c(load(n, r)). With one safety capacity s, c(x) = max(0, x − s).
    With steps (s1, a1), (s2, a2), …, a unit of load between s1 and s2 costs a1, one between s2 and s3 costs a2, and so
    on: c(x) = Σ over k of (ak − ak−1) · max(0, x − sk), with a0 = 0. Loads are in user units, and so is the total if
    weights and slopes are 1.

    Source: ROADEF/EURO challenge 2012, "Google machine reassignment", problem statement, load cost.

    Parameters
    ----------
    shares
        By metric the safety capacity as a share of the capacity, at least 0; or steps, pairs of a share and a slope of
        at least 0, with ascending shares. A node without a capacity for the metric has no such cost.
    loads
        By name of a node and by metric the safety capacity as a load in user units, or steps of loads; these replace
        the shares there. Names of nodes that the cluster does not have are ignored.
    weights
        By metric the cost of a unit above the safety capacity at slope 1; 1 where none is given.
    name
        Name of the term in settings and plans.

    Raises
    ------
    InvalidValueError
        If a value is out of range.
    UnknownNameError
        In the first search, if the engine has no metric of a name.
    """

    name = "safety_capacity"
    change = change_of_safety_capacity
    node_cost = safety_cost_of_node

    def __init__(
        self,
        shares: Mapping[str, float | Steps] | None = None,
        *,
        loads: Mapping[str, Mapping[str, float | Steps]] | None = None,
        weights: Mapping[str, float] | None = None,
        name: str = name,
    ) -> None:
        super().__init__()
        self.name = check_name("energy term", name)
        item = f"energy term {name}"
        self.shares = _checked(item, "shares", {} if shares is None else shares)
        by_node = check_mapping(item, "loads", {} if loads is None else loads, "a mapping of nodes to loads by metric")
        self.loads = {node: _checked(item, f"loads[{node}]", steps) for node, steps in by_node.items()}
        checked = check_mapping(item, "weights", {} if weights is None else weights, "a mapping of metrics to numbers")
        self.weights = {metric: check_number(item, f"weights[{metric}]", weight) for metric, weight in checked.items()}

    @property
    def _metrics(self) -> list[str]:
        """The metrics with a safety capacity on any node."""
        return list(dict.fromkeys([*self.shares, *(metric for load in self.loads.values() for metric in load)]))

    def _steps(self, node: Node, metric: str, capacity: float) -> Steps:
        """Return the steps of a metric on a node with a `capacity` for it, in user units."""
        own_steps = self.loads.get(node.name, {})
        if metric in own_steps:
            return own_steps[metric]
        if not math.isfinite(capacity):
            return ()
        return [(share * capacity, slope) for share, slope in self.shares.get(metric, ())]

    def _check_metrics(self, configuration: Configuration) -> list[str]:
        """Return the names of the engine's metrics; raise `UnknownNameError` if they lack a metric of the term."""
        metrics = [metric.name for metric in configuration.description.metrics]
        check_metrics(f"energy term {self.name}", "shares and loads", self._metrics, metrics)
        check_metrics(f"energy term {self.name}", "weights", self.weights, metrics)
        return metrics

    def new_data(self, configuration: Configuration) -> SafetySteps:
        """Return where the steps of each node and metric begin, in quanta, and by how much each raises the slope."""
        names, capacities = self._check_metrics(configuration), configuration.capacities
        columns = [(names.index(metric), metric) for metric in self._metrics]
        steps = {
            (node, column): self._steps(configuration.node(node), metric, float(capacities[node, index]))
            for node in range(configuration.nodes)
            for column, (index, metric) in enumerate(columns)
        }
        most_steps = max(map(len, steps.values()), default=0)
        start = np.full((configuration.nodes, len(columns), most_steps), np.inf)
        rise = np.zeros(start.shape)
        for (node, column), node_steps in steps.items():
            index, metric = columns[column]
            quantum = float(configuration.description.quanta[index])
            slope_before = 0.0
            for step, (load, slope) in enumerate(node_steps):
                start[node, column, step] = load / quantum
                rise[node, column, step] = self.weights.get(metric, 1.0) * (slope - slope_before) * quantum
                slope_before = slope
        return SafetySteps(np.array([index for index, _ in columns], np.int64), start, rise)

    def total(self, configuration: Configuration) -> float:
        """Return the cost: for each step the load within it, times its slope."""
        names, capacities, loads = self._check_metrics(configuration), configuration.capacities, configuration.loads
        cost = 0.0
        for node in range(configuration.nodes):
            for metric in self._metrics:
                index = names.index(metric)
                steps = self._steps(configuration.node(node), metric, float(capacities[node, index]))
                if not steps:
                    continue
                starts, slopes = np.array(steps, np.float64).T
                within = np.clip(loads[node, index], starts, np.append(starts[1:], np.inf)) - starts
                cost += self.weights.get(metric, 1.0) * float(slopes @ within)
        return cost


def _checked(item: str, field: str, steps: object) -> dict[str, Steps]:
    """Return the steps of each metric; `item` and `field` name the argument in errors."""
    by_metric = check_mapping(item, field, steps, f"a mapping of metrics to {STEPS}")
    return {metric: _checked_steps(item, f"{field}[{metric}]", original) for metric, original in by_metric.items()}


def _checked_steps(item: str, field: str, original: object) -> Steps:
    """Return `original` as steps, a number as one step of slope 1; `item` and `field` name the argument in errors."""
    if isinstance(original, Real):
        load: Any = original
        return ((check_number(item, field, load), 1.0),)
    steps = []
    for index, pair in enumerate(check_collection(item, field, original, STEPS)):
        members = check_collection(item, f"{field}[{index}]", pair, "a pair of a number and a slope")
        if len(members) != 2:
            raise InvalidValueError(item, f"{field}[{index}]", pair, "a pair of a number and a slope")
        start, slope = (check_number(item, f"{field}[{index}]", member) for member in members)
        steps.append((start, slope))
    if not steps:
        raise InvalidValueError(item, field, original, "at least one step")
    if any(step[0] >= next_step[0] for step, next_step in pairwise(steps)):
        raise InvalidValueError(item, field, original, "steps in ascending order")
    return tuple(steps)
