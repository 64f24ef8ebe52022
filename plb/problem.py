"""From the state to the arrays of a search: the one place where what users said becomes what kernels run on."""

from __future__ import annotations

import numpy as np

from plb.arrays import TENTHS, Bool, Int, Problem, Solution
from plb.constraints import Rule
from plb.energy.fresh import fresh_solution
from plb.energy.score import weights_of
from plb.errors import InvalidValueError
from plb.model import MoveCost
from plb.outlook import Outlook
from plb.state import ClusterState
from plb.steps import UNLIMITED

MOVE_COST = {MoveCost.ZERO: 0, MoveCost.LOW: 1, MoveCost.MEDIUM: 15, MoveCost.HIGH: 40}
"""Move costs in units of one low-cost move (MoveCostZeroValue … MoveCostHighValue)."""
SWAP_COST_TENTHS = 1
"""SwapCost 0.1, in tenths."""
NO_BUDGET = 2**31
"""Stands for a budget without limit."""


def build_problem(state: ClusterState, outlook: Outlook) -> Problem:
    """Return the arrays of a search over the present state; most are views of the state's own.

    Parameters
    ----------
    outlook
        The sampled demand of every row; without history it has no repetitions.
    """
    config, table = state.config, state.rows
    up = state.up()
    limit, threshold = state.limits()
    leaving_load = np.zeros_like(state.capacity)
    leaving = np.flatnonzero(table.leaving)
    np.add.at(leaving_load, table.node[leaving], table.load[leaving])
    domain, parent, siblings, rule = domain_levels(state, up)
    room = table.room
    movable = table.used & ~table.leaving & ~table.pinned
    tenths = np.full(room, TENTHS, np.int64)
    return Problem(
        limit=limit,
        threshold=threshold,
        inverse_capacity=_inverse(state.capacity),
        leaving_load=leaving_load,
        counted=up,
        targets=np.flatnonzero(up),
        held_out=held_out_nodes(state, up),
        domain=domain,
        parent=parent,
        siblings=siblings,
        domain_rule=rule,
        fits_expression=fitting_nodes(state),
        load=table.load,
        sibling=table.sibling,
        role=table.role,
        leaving=table.leaving,
        service=table.service,
        expression=_by_service(state, state.service_expression, np.int64),
        movable=movable,
        move_cost=_move_costs(state) if config.use_move_cost_reports else tenths,
        unit_cost=tenths,
        origin=table.node.copy(),
        peak=outlook.peak,
        peak_ceiling=outlook.peak_ceiling,
        metric_weight=np.array([metric.weight for metric in config.metrics]),
        weights=weights_of(
            config,
            replicas=int((table.used & ~table.leaving).sum()),
            repetitions=outlook.peak.shape[2],
            counted_nodes=int(up.sum()),
        ),
        swap_cost=SWAP_COST_TENTHS if config.use_move_cost_reports else TENTHS,
        add_cost=0 if config.use_move_cost_reports else TENTHS,
        max_moves=NO_BUDGET if config.max_moves is None else config.max_moves,
        max_node_moves=NO_BUDGET if config.max_moves_per_node is None else config.max_moves_per_node,
        max_service_moves=np.array(
            [NO_BUDGET if s.max_moves is None else s.max_moves for s in state.services] or [NO_BUDGET], np.int64
        ),
    )


def start_solution(problem: Problem) -> Solution:
    """Return the solution in which every replica stands where it stands now.

    Raises
    ------
    InvalidValueError
        If n·load² could leave 64 bits.
    """
    solution = fresh_solution(problem, problem.origin.copy())
    _check_range(problem, solution)
    return solution


def _check_range(problem: Problem, solution: Solution) -> None:
    """Refuse loads whose sums of squares could overflow (design section 14)."""
    nodes = len(problem.limit)
    everything = problem.load.sum(axis=0)
    for metric in range(problem.limit.shape[1]):
        limits = problem.limit[:, metric]
        bounded = limits[limits < UNLIMITED]
        highest = max(int(solution.node_load[:, metric].max(initial=0)), int(bounded.max(initial=0)))
        if len(bounded) < nodes:
            highest = max(highest, int(everything[metric]))
        if nodes * highest**2 >= 2**63:
            raise InvalidValueError(
                f"metric {metric}", "load of a node in steps", highest, "n·load² < 2^63: a coarser step"
            )


def _inverse(capacity: Int) -> np.ndarray:
    inverse = np.zeros(capacity.shape)
    real = (capacity > 0) & (capacity < UNLIMITED)
    inverse[real] = 1.0 / capacity[real]
    return inverse


def _by_service(state: ClusterState, values: list[int], dtype: type) -> np.ndarray:
    """Return a value of each row's service."""
    return np.array(values or [0], dtype)[state.rows.service]


def _move_costs(state: ClusterState) -> Int:
    return _by_service(state, [TENTHS * MOVE_COST[s.move_cost] for s in state.services], np.int64)


def fitting_nodes(state: ClusterState) -> Bool:
    """Return which nodes satisfy each placement expression, (X, N)."""
    return np.array(
        [[expression.holds(node.properties) for node in state.nodes] for expression in state.expressions], np.bool_
    ).reshape(len(state.expressions), len(state.nodes))


def held_out_nodes(state: ClusterState, up: Bool) -> Int:
    """Return the M nodes that are up and of least W_Max = max over metrics of load/capacity ([1] equation (4))."""
    if not state.config.held_out_nodes:
        return np.zeros(0, np.int64)
    node_load = np.zeros(state.capacity.shape)
    standing = np.flatnonzero((state.rows.node >= 0) & ~state.rows.leaving)
    np.add.at(node_load, state.rows.node[standing], state.rows.load[standing])
    fullest = (node_load * _inverse(state.capacity)).max(axis=1)
    order = np.argsort(fullest[up], kind="stable")
    return np.sort(np.flatnonzero(up)[order[: state.config.held_out_nodes]])


def domain_levels(state: ClusterState, up: Bool) -> tuple[Int, Int, Int, Int]:
    """Return domain, parent, usable siblings, each (D, N), and the rule of each level, (D,).

    A tree in which every node has a top-level domain of its own constrains nothing and is left out.
    """
    levels: list[tuple[list[tuple[str, ...]], Rule]] = []
    paths = [node.fault_domain_path for node in state.nodes]
    if state.config.fault_domain_priority >= 0 and len({path[0] for path in paths}) < len(paths):
        deepest = max(len(path) for path in paths)
        levels += [([path[:depth] for path in paths], Rule.FAULT_DOMAIN) for depth in range(1, deepest + 1)]
    upgrade: list[tuple[str, ...]] = [(node.upgrade_domain_name,) for node in state.nodes]
    if state.config.upgrade_domain_priority >= 0 and len(set(upgrade)) < len(upgrade):
        levels.append((upgrade, Rule.UPGRADE_DOMAIN))
    domain = np.zeros((len(levels), len(paths)), np.int64)
    parent, siblings = np.zeros_like(domain), np.zeros_like(domain)
    for level, (names, _) in enumerate(levels):
        above = [name[:-1] if len(name) > level else name for name in names]
        if levels[level][1] is Rule.UPGRADE_DOMAIN:
            above = [()] * len(names)
        domain[level] = _codes(names)
        parent[level] = _codes(above)
        for group in np.unique(parent[level]):
            inside = parent[level] == group
            siblings[level, inside] = len(np.unique(domain[level, inside & up]))
    return domain, parent, siblings, np.array([rule for _, rule in levels], np.int64)


def _codes(names: list[tuple[str, ...]]) -> Int:
    index = {name: code for code, name in enumerate(dict.fromkeys(names))}
    return np.array([index[name] for name in names], np.int64)
