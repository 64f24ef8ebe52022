"""The algorithms of [3] replica by replica with dictionaries, as oracles for the kernels."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from plb.provisioning import Instance, ProvisioningPlan
from plb.provisioning.packing import EPSILON, Measure, Packing, used_slots

Residual = Callable[[Sequence["Bin"], "Bin"], float]
Placement = list[tuple[int, dict[int, int]]]
"""For each node with replicas, its number and its replicas by application."""


class Bin:
    """A node."""

    def __init__(self, instance: Instance, kind: int, number: int) -> None:
        self.instance, self.number = instance, number
        self.free = [int(value) for value in instance.capacity(instance.nodes[kind])]
        self.inside: Counter[int] = Counter()

    def accepts(self, application: int) -> bool:
        """Return whether one more replica fits and keeps every limit."""
        demand = self.instance.dimensions()[application]
        if any(asked > left for asked, left in zip(demand.tolist(), self.free, strict=True)):
            return False
        after = self.inside + Counter([application])
        limits = self.instance.affinity
        for source, target, most in zip(
            limits.source.tolist(), limits.target.tolist(), limits.most.tolist(), strict=True
        ):
            if after[source] and after[target] > most:
                return False
        return True

    def put(self, application: int) -> None:
        """Place a replica."""
        demand = self.instance.dimensions()[application]
        self.free = [left - asked for left, asked in zip(self.free, demand.tolist(), strict=True)]
        self.inside[application] += 1


class Pool:
    """Nodes that are opened when they are needed, in the order of their kinds."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.opened: list[Bin] = []
        self.used = [0] * len(instance.nodes)

    def open(self, application: int) -> Bin | None:
        """Return a new node for an application; None if there is none."""
        for kind, node_type in enumerate(self.instance.nodes):
            new = Bin(self.instance, kind, 1000 * kind + self.used[kind])
            if (node_type.count is None or self.used[kind] < node_type.count) and new.accepts(application):
                self.used[kind] += 1
                self.opened.append(new)
                return new
        return None


def placement(bins: Iterable[Bin]) -> Placement:
    return sorted((node.number, dict(node.inside)) for node in bins if node.inside)


def placement_of(plan: ProvisioningPlan) -> list[dict[int, int]]:
    nodes: list[dict[int, int]] = [{} for _ in range(plan.nodes)]
    for application, node, count in zip(
        plan.application.tolist(), plan.node.tolist(), plan.count.tolist(), strict=True
    ):
        nodes[node][application] = count
    return nodes


def placement_in(packing: Packing) -> Placement:
    nodes: dict[int, dict[int, int]] = {}
    for place, application in zip(*used_slots(packing), strict=True):
        nodes.setdefault(int(packing.node[place]), {})[int(application)] = int(packing.placed[place])
    return sorted(nodes.items())


def allowed(plan: ProvisioningPlan) -> bool:
    """Return whether a plan places every replica once and keeps capacity and limits."""
    placed: Counter[int] = Counter()
    for number, inside in enumerate(placement_of(plan)):
        node = Bin(plan.instance, int(plan.kind[number]), number)
        for application, count in inside.items():
            placed[application] += count
            for _ in range(count):
                if not node.accepts(application):
                    return False
                node.put(application)
    used = Counter(plan.kind.tolist())
    counts = [node_type.count for node_type in plan.instance.nodes]
    return dict(placed) == dict(enumerate(plan.instance.replicas.tolist())) and all(
        count is None or used[kind] <= count for kind, count in enumerate(counts)
    )


def residual(measure: Measure, instance: Instance) -> Residual:
    """Return the function that measures the residual capacity of a node among all nodes in use ([3] table 2).

    It multiplies and adds terms in the order of the kernels, so that ties are the same.
    """
    capacity = [int(value) for value in instance.largest_capacity()]

    def value(bins: Sequence[Bin], node: Bin) -> float:
        totals = [sum(used.free[place] for used in bins) / most for place, most in enumerate(capacity)]
        whole = sum(totals)
        weights = {
            Measure.AVERAGE: [1.0 / len(totals) for _ in totals],
            Measure.MAX: [1.0 for _ in totals],
            Measure.EXPONENTIAL: [math.exp(EPSILON * total / len(bins)) for total in totals],
            Measure.SURROGATE: [total / whole if whole > 0 else 1.0 for total in totals],
            Measure.EXTENDED_SUM: [1.0 / total if total > 0 else 0.0 for total in totals],
        }[measure]
        terms = [left * (weight / most) for left, weight, most in zip(node.free, weights, capacity, strict=True)]
        return max(terms) if measure is Measure.MAX else sum(terms, 0.0)

    return value


def first_fit(instance: Instance, order: Iterable[int]) -> Placement | None:
    pool = Pool(instance)
    for application in order:
        for _ in range(int(instance.replicas[application])):
            taker = next((node for node in pool.opened if node.accepts(application)), None) or pool.open(application)
            if taker is None:
                return None
            taker.put(application)
    return placement(pool.opened)


def ordered_fit(instance: Instance, order: Iterable[int], measure: Measure, sign: int) -> Placement | None:
    """Return Best Fit's placement, or Worst Fit's if `sign` is -1 ([3] algorithm 1)."""
    pool, value = Pool(instance), residual(measure, instance)
    for application in order:
        missing = int(instance.replicas[application])
        while missing:
            able = [node for node in pool.opened if node.accepts(application)]
            if able:
                left = [sign * value(pool.opened, node) for node in able]
                taker = able[int(np.argmin(left))]
            else:
                new = pool.open(application)
                if new is None:
                    return None
                taker = new
            while missing and taker.accepts(application):
                taker.put(application)
                missing -= 1
    return placement(pool.opened)


def resorted_fit(instance: Instance, order: Iterable[int], measure: Measure, sign: int) -> Placement:
    """Return the placement of the authors' programs, which sort nodes before each replica."""
    pool = Pool(instance)
    bins: list[Bin] = []
    measured: dict[int, np.float32] = {}
    capacity = [int(value) for value in instance.largest_capacity()]
    for application in order:
        current = 0
        for _ in range(int(instance.replicas[application])):
            bins[current:] = sorted(bins[current:], key=lambda node: sign * measured[node.number])
            while True:
                if current == len(bins):
                    new = pool.open(application)
                    assert new is not None
                    bins.append(new)
                    measured[new.number] = np.float32(0.0)
                if bins[current].accepts(application):
                    break
                current += 1
            bins[current].put(application)
            totals = [sum(column) for column in zip(*(node.free for node in bins), strict=True)]
            for node in bins[current:]:
                measured[node.number] = _measured(measure, node, totals, capacity, len(bins))
    return placement(pool.opened)


def _measured(measure: Measure, node: Bin, totals: list[int], capacity: list[int], bins: int) -> np.float32:
    """Return the residual capacity of a node as the programs compute it, with 32-bit numbers."""
    total_left = np.float32(0.0)
    for left, total, most in zip(node.free, totals, capacity, strict=True):
        if measure is Measure.EXPONENTIAL:
            value = np.float32(math.exp(EPSILON * total / (most * bins)) / most) * np.float32(left)
        elif measure is Measure.EXTENDED_SUM:
            value = np.float32(left) / np.float32(max(total, 1))
        elif measure is Measure.SURROGATE:
            value = np.float32(total) / np.float32(max(sum(totals), 1)) * np.float32(left // most)
        else:
            value = np.float32(left // most)
        total_left = max(total_left, value) if measure is Measure.MAX else total_left + value
    return total_left


def spread(instance: Instance, order: Iterable[int], measure: Measure, nodes: int) -> tuple[Placement, dict[int, int]]:
    """Return Worst Fit's placement on given nodes, one replica at a time, and the replicas without a place."""
    bins = [Bin(instance, 0, number) for number in range(nodes)]
    value = residual(measure, instance)
    ranked = sorted(bins, key=lambda node: -value(bins, node))
    lost = {}
    for application in order:
        before = {node.number: place for place, node in enumerate(ranked)}
        missing = int(instance.replicas[application])
        while missing:
            able = [node for node in ranked if node.accepts(application)]
            if not able:
                break
            # most residual capacity; among equals one without a replica of the application, then the first in order
            able.sort(key=lambda node: (-value(bins, node), node.inside[application] > 0, before[node.number]))
            able[0].put(application)
            missing -= 1
        lost[application] = missing
        ranked.sort(key=lambda node: (-value(bins, node), before[node.number]))
    return placement(bins), lost
