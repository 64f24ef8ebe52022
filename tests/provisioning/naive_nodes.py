"""The node-centric algorithms of [3] with dictionaries, as oracles for the kernels."""

from __future__ import annotations

from collections.abc import Sequence

from plb.provisioning import Instance
from plb.provisioning.node_centric import Score
from tests.provisioning.naive import Bin, Placement, Pool, placement


def score(kind: Score, instance: Instance, bins: Sequence[Bin], node: Bin, application: int, whole: bool) -> float:
    """Return the score of an application on a node ([3] table 3); with `whole`, shares are whole numbers."""
    capacity = [int(value) for value in instance.largest_capacity()]
    demand = instance.dimensions()
    value = 0.0
    for place, most in enumerate(capacity):
        asked, left = int(demand[application, place]), node.free[place]
        if whole:
            asked -= asked % most
        share = left / most
        if kind is Score.L2_NORM:
            if whole:
                left -= left % most
            difference = (left - asked) / most
            value -= difference * difference
            continue
        weight = share
        if kind is Score.TIGHT_FILL:
            weight = 1.0 / share if share else 0.0
        elif kind is Score.FITNESS:
            required = int((instance.replicas.astype(int) * demand[:, place]).sum()) / most
            total = sum(used.free[place] for used in bins) / most
            weight = share / (required * total) if required * total else 0.0
        value += weight / most * asked
    return value


def fill_nodes(instance: Instance, kind: Score) -> Placement | None:
    """Fill the nodes in sequence, each with the application of the highest score ([3] algorithm 2)."""
    pool, missing = Pool(instance), instance.replicas.tolist()
    for number, node_type in enumerate(instance.nodes):
        while any(missing) and (node_type.count is None or pool.used[number] < node_type.count):
            node = Bin(instance, number, 1000 * number + pool.used[number])
            pool.opened.append(node)
            while True:
                able = [application for application, left in enumerate(missing) if left and node.accepts(application)]
                if not able:
                    break
                best = max(able, key=lambda application: score(kind, instance, pool.opened, node, application, False))
                while missing[best] and node.accepts(best):
                    node.put(best)
                    missing[best] -= 1
            if not node.inside:
                pool.opened.pop()
                break
            pool.used[number] += 1
    return None if any(missing) else placement(pool.opened)


def fill_in_turn(instance: Instance, kind: Score) -> Placement:
    """Fill the nodes in sequence as the authors' programs do: a list, one pass of bubble sort, and swaps."""
    order, missing = list(range(len(instance.applications))), instance.replicas.tolist()
    bins: list[Bin] = []
    done = 0
    while done < len(order):
        node = Bin(instance, 0, len(bins))
        bins.append(node)
        current = done
        while current < len(order) and all(node.free):
            values = {candidate: score(kind, instance, bins, node, candidate, True) for candidate in order[current:]}
            for place in range(len(order) - 1, current, -1):
                if values[order[place]] > values[order[place - 1]]:
                    order[place], order[place - 1] = order[place - 1], order[place]
            application = order[current]
            while missing[application] and node.accepts(application):
                node.put(application)
                missing[application] -= 1
            if not missing[application]:
                order[done], order[current] = order[current], order[done]
                done += 1
            current += 1
    return placement(bins)


def match(instance: Instance, kind: Score, nodes: int) -> tuple[Placement, int]:
    """Place the replica of the best pair on given nodes, one pair at a time ([3] algorithm 4)."""
    bins = [Bin(instance, 0, number) for number in range(nodes)]
    missing = instance.replicas.tolist()
    while True:
        pairs = [
            (-score(kind, instance, bins, node, candidate, False), node.number, candidate)
            for node in bins
            for candidate, left in enumerate(missing)
            if left and node.accepts(candidate)
        ]
        if not pairs:
            return placement(bins), sum(missing)
        _, number, application = min(pairs)
        bins[number].put(application)
        missing[application] -= 1


def fewest_candidates(instance: Instance, order: list[int]) -> Placement:
    """Place the application with the fewest candidate nodes next, excluding nodes as the authors' programs do."""
    pool = Pool(instance)
    order, limits = list(order), instance.affinity
    linked = {(s, t) for s, t in zip(limits.source.tolist(), limits.target.tolist(), strict=True) if s != t}
    linked |= {(t, s) for s, t in linked}
    excluded: dict[int, set[int]] = {application: set() for application in order}
    for place, application in enumerate(order):
        nodes_used = []
        for _ in range(int(instance.replicas[application])):
            node = next((node for node in pool.opened if node.accepts(application)), None) or pool.open(application)
            assert node is not None
            node.put(application)
            nodes_used.append(node)
        waiting = order[place + 1 :]
        for neighbour in waiting:
            if (application, neighbour) in linked:
                excluded[neighbour] |= {node.number for node in nodes_used if not node.accepts(neighbour)}
        for number in range(len(waiting) - 1, 0, -1):
            if len(excluded[waiting[number]]) > len(excluded[waiting[number - 1]]):
                waiting[number], waiting[number - 1] = waiting[number - 1], waiting[number]
        order[place + 1 :] = waiting
    return placement(pool.opened)
