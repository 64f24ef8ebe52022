"""Oracles: results of the engine, computed by another method in plain Python and NumPy.

They compute sums of a configuration row by row from the arrays, and check plans against the user's input, in user units
and exact fractions.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import attrs
import numpy as np

from plb import MoveKind, Node, PlacementAndLoadBalancing, Plan, PlbConfig, Role
from plb.array_types import NOWHERE
from plb.extensions.configuration import Configuration
from plb.state.arrays import Problem
from plb.testing import CONSTRAINTS, Cluster

from .applications_by_hand import sums_of_applications

# sums of a configuration


def sums_from_scratch(problem: Problem, node: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Return every accumulator of the placement `node`, computed row by row."""
    nodes, metrics = problem.limit.shape
    repetitions = problem.peak.shape[2]
    load = [[0] * metrics for _ in range(nodes)]
    aggregate = np.zeros((nodes, metrics, repetitions), object)
    ceiling = [[0] * metrics for _ in range(nodes)]
    for row, at in enumerate(node.tolist()):
        if at == NOWHERE or problem.leaving[row]:
            continue
        for metric in range(metrics):
            load[at][metric] += int(problem.load[row, metric])
            peaks = [int(peak) for peak in problem.peak[row, metric]]
            ceiling[at][metric] += max(peaks, default=0)
            for repetition, peak in enumerate(peaks):
                aggregate[at, metric, repetition] += peak
    up = [n for n in range(nodes) if problem.counted[n]]
    columns, thresholds = range(repetitions), problem.threshold
    reached = [
        [any(aggregate[n, metric, k] >= thresholds[n, metric] for metric in range(metrics)) for k in columns]
        for n in range(nodes)
    ]
    violating = [bad_windows_by_hand(reached[n], *problem.windows.tolist()) if n in up else 0 for n in range(nodes)]
    overload = [
        sum(overload_by_hand(aggregate[n, r], int(problem.threshold[n, r])) for r in range(metrics))
        if n in up and problem.weights.expected_overload > 0 and repetitions
        else 0
        for n in range(nodes)
    ]
    displaced = [
        row
        for row, at in enumerate(node.tolist())
        if NOWHERE not in (at, problem.origin[row]) and at != problem.origin[row]
    ]
    ends = Counter(int(n) for row in displaced for n in (node[row], problem.origin[row]))
    moved = Counter(int(problem.service[row]) for row in displaced)
    return {
        "node_load": load,
        "total": [sum(load[n][r] for n in range(nodes) if problem.counted_for[n, r]) for r in range(metrics)],
        "squares": [sum(load[n][r] ** 2 for n in range(nodes) if problem.counted_for[n, r]) for r in range(metrics)],
        "aggregate": aggregate,
        "ceiling": ceiling,
        "violating": violating,
        "overload": overload,
        "displaced": set(displaced),
        "node_moves": [ends[n] for n in range(nodes)],
        "service_moves": [moved[s] for s in range(len(problem.max_service_moves))],
        "movement": movement(problem, node, displaced, problem.move_cost, problem.swap_cost, problem.add_cost),
        "moves": movement(problem, node, displaced, problem.unit_cost, 10, 0),
    }


def bad_windows_by_hand(reached: list[bool], length: int, first: int) -> int:
    """Return the number of windows with a repetition in violation; those of length 1 are the repetitions."""
    in_time = reached[first:] + reached[:first]
    return sum(any(in_time[at : at + length]) for at in range(len(in_time) - length + 1))


def overload_by_hand(sums: Iterable[int], threshold: int) -> int:
    """Return the excess of sums of peaks over a threshold, in 2^-20 of it; at most 1024 thresholds for each sum."""
    excess = [max(0, value - threshold) for value in sums]
    return int(min(sum(excess) * (2**20 / threshold), len(excess) * 2.0**30))


def movement(
    problem: Problem, node: np.ndarray[Any, Any], displaced: Iterable[int], cost: Any, swap_cost: int, add_cost: int
) -> int:
    """Return m in tenths: displaced rows and new rows; a primary and a secondary that change places are one swap."""
    left = set(displaced)
    tenths = add_cost * int(np.sum((problem.origin == NOWHERE) & (node != NOWHERE)))
    for primary in sorted(left):
        for secondary in sorted(left):
            crossed = node[primary] == problem.origin[secondary] and node[secondary] == problem.origin[primary]
            roles = (problem.role[primary], problem.role[secondary]) == (Role.PRIMARY, Role.SECONDARY)
            if crossed and roles and secondary in ring(problem, primary):
                left -= {primary, secondary}
                tenths += swap_cost
    return tenths + sum(int(cost[row]) for row in left)


def ring(problem: Problem, row: int) -> list[int]:
    """Return the other rows of the partition of `row`, in the order of their ring."""
    others, at = [], int(problem.sibling[row])
    while at != row:
        others.append(at)
        at = int(problem.sibling[at])
    return others


def assert_sums_are_right(configuration: Configuration) -> None:
    """Assert that every accumulator equals its value from scratch exactly."""
    solution = configuration.solution
    right = sums_from_scratch(configuration.problem, solution.node)
    for name in ("node_load", "total", "squares", "aggregate", "ceiling", "violating", "overload"):
        assert getattr(solution, name).tolist() == np.asarray(right[name]).tolist(), name
    for name in ("node_moves", "service_moves"):
        assert getattr(solution, name).tolist() == right[name], name
    for name, values in sums_of_applications(configuration.problem, solution.node.tolist()).items():
        assert getattr(solution, name).tolist() == values, name
    totals = solution.totals
    assert totals.expected_overload == sum(right["overload"])
    assert totals.local_scores == solution.local_score.sum()
    assert totals.expected_failovers == sum(right["violating"])
    assert totals.movement == right["movement"]
    assert totals.moves == right["moves"]
    assert totals.displaced == len(right["displaced"])
    assert set(solution.displaced[: totals.displaced].tolist()) == right["displaced"]


def energy_by_hand(config: PlbConfig, problem: Problem, node: np.ndarray[Any, Any], replicas: int) -> dict[str, float]:
    """Return the energy and its terms, computed from sums from scratch by the formulas of docs/energy.md."""
    sums = sums_from_scratch(problem, node)
    load = np.asarray(sums["node_load"], np.float64)
    weights = [metric.weight for metric in config.metrics]
    columns = [load[problem.counted_for[:, r], r] for r in range(len(weights))]
    deviations = [column.std() / column.mean() if column.size and column.sum() else 0.0 for column in columns]
    imbalance = sum(w * d for w, d in zip(weights, deviations, strict=True)) / sum(weights) if sum(weights) else 0.0
    share = np.asarray(sums["node_load"], np.float64) * problem.inverse_capacity
    fragmentation = float(sum(share[held_out].mean() for held_out in problem.held_out))
    repetitions = problem.peak.shape[2]
    failovers = sum(sums["violating"]) / (repetitions - problem.windows[0] + 1) if repetitions else 0.0
    overload = sum(sums["overload"]) / (2**20 * repetitions) if repetitions else 0.0
    m = sums["movement"] / 10
    first = m + config.w_failovers * failovers + config.w_overload * overload
    if config.combination.value == "additive":
        total = first + config.w_imbalance * imbalance + config.w_fragmentation * fragmentation
    else:
        unevenness = imbalance + config.w_fragmentation * fragmentation + 0.001
        total = unevenness * (replicas + config.move_cost_offset + (first if unevenness >= 0 else -first))
    risk = {"expected_failovers": failovers, "expected_overload": overload}
    return {"total": total, "movement": m, "imbalance": imbalance, "fragmentation": fragmentation, **risk}


# checks of a plan


@attrs.frozen
class Slot:
    """A replica slot; `node` is None while it waits for a node."""

    partition: str
    role: Role
    node: str | None
    leaving: bool
    pinned: bool


Placement = dict[int, Slot]
"""Replica slots by index."""


def placement_of(engine: PlacementAndLoadBalancing, cluster: Cluster) -> Placement:
    """Return the place of every replica of the cluster, as the engine reports it."""
    pinned = {(p.name, r.node) for p in cluster.partitions for r in p.replicas if r.pinned}
    return {
        r.index: Slot(p.name, r.role, r.node, r.leaving, (p.name, r.node) in pinned)
        for p in cluster.partitions
        for r in engine.replicas(p.name)
    }


def after_plan(before: Placement, plan: Plan) -> Placement:
    """Return the place of every replica after the moves run one after the other."""
    after = dict(before)
    for move in plan.moves:

        def find(role: Role, node: str | None, partition: str = move.partition) -> int:
            return next(
                index
                for index, r in after.items()
                if (r.partition, r.role, r.node, r.leaving) == (partition, role, node, False)
            )

        index = move.index
        moved = after[index]
        assert (moved.partition, moved.role, moved.node) == (move.partition, move.role, move.source), move
        if move.kind is MoveKind.SWAP:
            partner = find(Role.SECONDARY, move.target)
            after[partner] = attrs.evolve(after[partner], node=move.source)
        after[index] = attrs.evolve(after[index], node=move.target)
    return after


def node_loads(cluster: Cluster, start: Placement, at: Placement, *, leaving: bool) -> dict[str, dict[str, Fraction]]:
    """Return the load of every node by metric when the slots of `start` are placed as in `at`."""
    load = {node.name: {metric.name: Fraction(0) for metric in cluster.metrics} for node in cluster.nodes}
    for index, replica in at.items():
        if replica.node is None or (replica.leaving and not leaving):
            continue
        first = start[index]
        for metric, value in cluster.load_of(first.partition, first.role, first.node).items():
            load[replica.node][metric] += value
    return load


def fits(cluster: Cluster, config: PlbConfig, node: Node, metric: str, load: Fraction) -> bool:
    """Return whether a load is within the limit of a node: below f·c, or at most c as in Service Fabric."""
    if metric not in node.capacities or load == 0:
        return True
    capacity = Fraction(node.capacities[metric])
    if config.capacity_limit.value == "capacity":
        return load <= capacity
    share = next(m.violation_threshold for m in cluster.metrics if m.name == metric)
    return load < Fraction(str(share)) * capacity


def assert_capacity_is_kept(cluster: Cluster, config: PlbConfig, before: Placement, after: Placement) -> None:
    """Assert that no node exceeds its limit, or exceeds it by more than before; load of leaving replicas counts."""
    loads = [node_loads(cluster, before, at, leaving=True) for at in (before, after)]
    for node in cluster.nodes:
        for metric in (m.name for m in cluster.metrics):
            old, new = (load[node.name][metric] for load in loads)
            assert fits(cluster, config, node, metric, new) or new <= old, (node.name, metric, old, new)


def domain_groups(cluster: Cluster, kind: str) -> list[dict[str, tuple[Any, Any]]]:
    """Return parent and domain of every node, for each level of a domain tree; no levels if the tree is trivial."""
    if kind == "upgrade":
        names = {n.name: n.upgrade_domain or f"{n.name}_ud" for n in cluster.nodes}
        return [{n: (None, d) for n, d in names.items()}] if len(set(names.values())) < len(names) else []
    paths = {n.name: tuple((n.fault_domain or f"fd:/{n.name}_fd")[4:].split("/")) for n in cluster.nodes}
    if len({path[0] for path in paths.values()}) == len(paths):
        return []
    levels = []
    for depth in range(1, max(map(len, paths.values())) + 1):
        above = {n: path[: min(depth - 1, len(path))] for n, path in paths.items()}
        levels.append({n: (above[n], path[:depth]) for n, path in paths.items()})
    return levels


def usable_nodes(cluster: Cluster, partition: str) -> set[str]:
    """Return the nodes that are up and allowed by the placement constraint of a partition."""
    holds = CONSTRAINTS[cluster.service_of(partition).placement_constraint]
    return {node.name for node in cluster.nodes if node.up and holds(node.properties)}


def uneven_spreads(cluster: Cluster, kind: str, at: Placement) -> set[tuple[str, int, Any]]:
    """Return the partitions, levels and parents with a usable domain outside floor and ceil of its share."""
    uneven = set()
    for level, groups in enumerate(domain_groups(cluster, kind)):
        for partition in {p.name for p in cluster.partitions}:
            nodes = usable_nodes(cluster, partition)
            usable = {group for node, group in groups.items() if node in nodes}
            counts = dict.fromkeys(usable, 0)
            for replica in at.values():
                if replica.partition == partition and replica.node is not None and not replica.leaving:
                    group = groups[replica.node]
                    if group in counts:
                        counts[group] += 1
            for parent in {parent for parent, _ in usable}:
                inside = [count for (above, _), count in counts.items() if above == parent]
                mean = Fraction(sum(inside), len(inside))
                if min(inside) < math.floor(mean) or max(inside) > math.ceil(mean):
                    uneven.add((partition, level, parent))
    return uneven


def assert_rules_are_kept(cluster: Cluster, config: PlbConfig, before: Placement, plan: Plan) -> Placement:
    """Check a plan against every hard constraint, from the user's input alone; return the placement after it."""
    after = after_plan(before, plan)
    by_name = {node.name: node for node in cluster.nodes}
    for index, replica in before.items():
        if replica.leaving or replica.pinned:
            assert after[index] == replica, "pinned and leaving replicas stay"
    for move in plan.moves:
        if move.kind is MoveKind.DROP:
            assert (
                len(cluster.partition_of(move.partition).replicas) > cluster.service_of(move.partition).target_replicas
            )
            continue
        assert by_name[move.target].up, f"{move}: the node is down"
        others = {r.node for r in before.values() if r.partition == move.partition}
        if move.kind is not MoveKind.SWAP:
            assert move.target not in others, f"{move}: a replica of the partition is, or was, there"
            holds = CONSTRAINTS[cluster.service_of(move.partition).placement_constraint]
            assert holds(by_name[move.target].properties), f"{move}: the placement constraint does not hold"
    targets = Counter((r.partition, r.node) for r in after.values() if r.node is not None)
    assert max(targets.values(), default=0) <= 1, "two replicas of a partition on one node"
    assert_capacity_is_kept(cluster, config, before, after)
    for kind, priority in (
        ("fault", config.fault_domain_constraint_priority),
        ("upgrade", config.upgrade_domain_constraint_priority),
    ):
        if priority == 0:
            assert uneven_spreads(cluster, kind, after) <= uneven_spreads(cluster, kind, before), kind
    return after
