"""Policies that choose among the offered nodes: first, best and worst fit, and others ([1] section 8.3)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import attrs
import numpy as np

from plb.array_types import NOWHERE, Bool, Float, Int
from plb.extensions.configuration import Configuration
from plb.validation import check_count, check_member, check_name, check_number


class Weighting(StrEnum):
    """Combination of the shares of several metrics to one number."""

    SUM = "sum"
    """Equation (3), FFDSum: the sum over metrics of w_j·share, w_j being the mean usage of all placed replicas,
    each as a share of the capacity of its node. As printed, (3) has node load in the unit of the metric, so that the
    metric with the largest numbers would decide; FFDSum comes from bins of capacity 1, so that here it is a share."""
    MAX = "max"
    """Equation (4): the largest share."""


def not_deactivated(configuration: Configuration, nodes: Int) -> Int:
    """Return the `nodes`, (n,), that are not being deactivated, or all if every one of them is."""
    counted = nodes[configuration.problem.counted[nodes]]
    return counted if len(counted) else nodes


def weighted(weighting: Weighting, configuration: Configuration, shares: Float) -> Float:
    """Return W, (n,), the combined load of n nodes from `shares`, (n, R), their loads as shares of the capacities."""
    if weighting is Weighting.MAX:
        return np.asarray(shares.max(axis=1), np.float64)
    return np.asarray((shares * metric_weights(configuration)).sum(axis=1), np.float64)


def metric_weights(configuration: Configuration) -> Float:
    """Return w_j of equation (3), (R,), times the number of placed replicas, which is the same for all metrics."""
    return np.asarray(configuration.shares.sum(axis=0), np.float64)


def shares_with(configuration: Configuration, row: int, nodes: Int) -> Float:
    """Return the loads of `nodes` after replica `row` is placed there, (n, R), as shares of the capacities."""
    problem, solution = configuration.problem, configuration.solution
    return np.asarray((solution.node_load[nodes] + problem.load[row]) * problem.inverse_capacity[nodes], np.float64)


class BestFit:
    """Chooses the node with the largest W after placement; of equal ones the lowest index."""

    def __init__(self, weighting: Weighting) -> None:
        self.name, self._weighting = f"best_fit_{weighting.value}", weighting

    def choose(self, configuration: Configuration, row: int, nodes: Int) -> int:
        """Return the first of feasible `nodes`, (n,), with the largest combined load W with replica `row` there."""
        return fullest(self._weighting, configuration, row, nodes)


class WorstFit:
    """Takes the node with the smallest W after placement; ties go to the lowest index."""

    def __init__(self, weighting: Weighting) -> None:
        self.name, self._weighting = f"worst_fit_{weighting.value}", weighting

    def choose(self, configuration: Configuration, row: int, nodes: Int) -> int:
        """Return the first of feasible `nodes`, (n,), with the smallest combined load W with replica `row` there."""
        return emptiest(self._weighting, configuration, row, nodes)


def fullest(weighting: Weighting, configuration: Configuration, row: int, nodes: Int) -> int:
    """Return the first of `nodes`, (n,), with the largest combined load W with replica `row` placed there."""
    return int(nodes[_combined_loads_with(weighting, configuration, row, nodes).argmax()])


def emptiest(weighting: Weighting, configuration: Configuration, row: int, nodes: Int) -> int:
    """Return the first of `nodes`, (n,), with the smallest combined load W with replica `row` placed there."""
    return int(nodes[_combined_loads_with(weighting, configuration, row, nodes).argmin()])


def _combined_loads_with(weighting: Weighting, configuration: Configuration, row: int, nodes: Int) -> Float:
    """Return W, the combined load by `weighting`, of each of `nodes`, (n,), after replica `row` is placed there."""
    return weighted(weighting, configuration, shares_with(configuration, row, nodes))


class FirstFit:
    """Takes the node that the engine has known for longest."""

    name = "first_fit"

    def choose(self, configuration: Configuration, row: int, nodes: Int) -> int:
        """Return the first of the feasible `nodes`, (n,), for `row`; the engine got them in this order."""
        return int(nodes[0])


class InnerProduct:
    """Chooses the node with the largest weighted inner product of demand and free capacity, else the lowest index.

    It is the alignment score of Grandl et al., "Multi-Resource Packing for Cluster Schedulers", SIGCOMM 2014, section
    3.2: the sum over metrics of w_j·demand·free, both as shares of the capacity of the node. [1] does not state
    the weights; here they are the weights of its equation (3). Free is the free capacity before the placement. A
    metric of which a node has no capacity does not count there.
    """

    name = "inner_product"

    def choose(self, configuration: Configuration, row: int, nodes: Int) -> int:
        """Return the first of feasible `nodes`, (n,), with the largest product of `row`'s load and free capacity."""
        problem = configuration.problem
        demand = problem.load[row] * problem.inverse_capacity[nodes]
        free = 1.0 - configuration.shares[nodes]
        return int(nodes[np.asarray(metric_weights(configuration) * demand * free).sum(axis=1).argmax()])


class StandardDeviation:
    """Takes the node that leaves the least sum over metrics of the standard deviation of node load.

    Load is a share of the capacity of the node itself, over all nodes that are up; one without a capacity of a metric
    counts with 0, as in `Configuration.shares`. A node that is being deactivated comes last; ties go to the lowest
    index.
    """

    name = "standard_deviation"

    def choose(self, configuration: Configuration, row: int, nodes: Int) -> int:
        """Return the first of the feasible `nodes`, (n,), with the least sum of deviations with replica `row` there."""
        nodes = not_deactivated(configuration, nodes)
        problem, source = configuration.problem, configuration.node_of(row)
        shares, counted = configuration.shares, problem.counted
        if source != NOWHERE:
            shares[source] -= problem.load[row] * problem.inverse_capacity[source]
        counted_nodes = max(1, int(counted.sum()))
        # distances from the mean without the replica; what it adds to them follows for all nodes at once
        distance = (shares - shares[counted].sum(axis=0) / counted_nodes) * counted[:, None]
        added = problem.load[row] * problem.inverse_capacity[nodes] * counted[nodes, None]
        squares = (distance**2).sum(axis=0) + (2 * distance[nodes] + added) * added - added**2 / counted_nodes
        return int(nodes[np.sqrt(np.maximum(squares, 0.0)).sum(axis=1).argmin()])


class Random:
    """Samples the node with the generator of the search."""

    name = "random"

    def begin(self, configuration: Configuration, rng: np.random.Generator) -> None:
        """Keep `rng`, from which `choose` draws."""
        self._rng = rng

    def choose(self, configuration: Configuration, row: int, nodes: Int) -> int:
        """Return one of the feasible `nodes`, (n,), for `row`, each with the same probability."""
        return int(self._rng.choice(nodes))

    def memory(self) -> Mapping[str, Any]:
        """Return nothing: each search has its own generator."""
        return {}

    def recall(self, memory: Mapping[str, Any]) -> None:
        """Change nothing: the memory is empty."""


@attrs.frozen(kw_only=True)
class PrvBestFit:
    """The fullest node after placement among those where a violation is less likely than theta (algorithm 2).

    Where there is none, the node where the placement raises the probability least; ties go to the fullest, then to the
    lowest index.
    """

    theta: float = 0.01
    """Probability from which on a violation is too likely, in [0, 1] ([1] section 8.3: 0.01)."""
    weighting: Weighting = Weighting.MAX
    """Which W the fit compares ([1] section 8.3: W_Max)."""
    name: str = "prv_best_fit"
    """Name of the policy."""

    def __attrs_post_init__(self) -> None:
        item = f"policy {check_name('policy', self.name)}"
        object.__setattr__(self, "theta", check_number(item, "theta", self.theta, high=1.0))
        object.__setattr__(self, "weighting", check_member(item, "weighting", self.weighting, Weighting))

    def choose(self, configuration: Configuration, row: int, nodes: Int) -> int:
        """Return the fullest of feasible `nodes`, (n,), where a violation with `row` is less likely than theta.

        Without any, return the fullest node of the nodes where the probability rises least.
        """
        nodes = not_deactivated(configuration, nodes)
        probability = configuration.violation_probabilities_with(row)[nodes]
        candidates = nodes[probability < self.theta]
        if not len(candidates):
            candidates = _least_raised(configuration, nodes, probability)
        return fullest(self.weighting, configuration, row, candidates)


@attrs.frozen(kw_only=True)
class PrvWorstFit(PrvBestFit):
    """The emptiest node after placement among the nodes with a probability of a violation below theta (algorithm 3).

    Held-out nodes come after all others with a probability below theta: the M nodes of least W among those up,
    computed for each placement. `PlbConfig.held_out_nodes`, part of the energy, are not used. If the probability
    is too high on every node, the node with the least increase is chosen; ties go to the emptiest, then to the first.
    """

    name: str = "prv_worst_fit"
    held_out: int = 3
    """M, the number of held-out nodes ([1] section 8.3: 3)."""

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        object.__setattr__(self, "held_out", check_count(f"policy {self.name}", "held_out", self.held_out))

    def choose(self, configuration: Configuration, row: int, nodes: Int) -> int:
        """Return the emptiest of feasible `nodes`, (n,), where a violation with `row` is less likely than theta.

        Held-out nodes come last; without any node, return the emptiest node of the nodes where the probability rises
        least.
        """
        nodes = not_deactivated(configuration, nodes)
        probability = configuration.violation_probabilities_with(row)[nodes]
        acceptable = probability < self.theta
        for preferred in (acceptable & ~self._held_out(configuration)[nodes], acceptable):
            if preferred.any():
                return emptiest(self.weighting, configuration, row, nodes[preferred])
        return emptiest(self.weighting, configuration, row, _least_raised(configuration, nodes, probability))

    def _held_out(self, configuration: Configuration) -> Bool:
        """Return whether each node is held out, (N,); ties go to the lowest index."""
        counted_nodes = np.flatnonzero(configuration.problem.counted)
        combined_loads = weighted(self.weighting, configuration, configuration.shares[counted_nodes])
        held_out = np.zeros(configuration.nodes, np.bool_)
        held_out[counted_nodes[combined_loads.argsort(kind="stable")[: self.held_out]]] = True
        return held_out


def _least_raised(configuration: Configuration, nodes: Int, probability: Float) -> Int:
    """Return the `nodes`, (n,), where a replica raises the probability of a violation least.

    `probability`: (n,) the probability of a violation of each of `nodes` with the replica.
    """
    # equal differences of multiples of 1/K need not be equal floats
    increase = (probability - configuration.violation_probabilities[nodes]).round(12)
    return np.asarray(nodes[increase == increase.min()], np.int64)
