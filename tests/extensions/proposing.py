"""Neighbourhoods of tests, in plain Python and with kernels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from plb.array_types import NOWHERE
from plb.compiler import kernel, uniform
from plb.extensions.neighbourhoods import MOST_PROPOSED, CompiledNeighbourhood


class Following(NamedTuple):
    """Data of a rotation."""

    node: np.ndarray
    """(N,) the node that follows each one."""


@kernel
def _movable_on(problem, solution, node):
    """Return the first movable row on a node, or NOWHERE."""
    for row in range(solution.node.shape[0]):
        if solution.node[row] == node and problem.movable[row]:
            return row
    return NOWHERE


@kernel
def _rotate(problem, solution, data, row, rng, moves):
    """Move a replica to the next node, one of that node to the one after it, and one of that to the first."""
    uniform(rng)  # as the seed of a neighbourhood in Python
    node = solution.node[row]
    for number in range(3):
        if row == NOWHERE:
            return 0
        node = data.node[node]
        moves.row[number] = row
        moves.target[number] = node if number < 2 else solution.node[moves.row[0]]
        row = _movable_on(problem, solution, node)
    return 3


class SwiftRotation(CompiledNeighbourhood):
    """Rotates replicas of three nodes."""

    name = "rotation"
    propose = _rotate

    def new_data(self, configuration):
        return Following((np.arange(configuration.nodes) + 1) % configuration.nodes)


class Rotation:
    """The same in plain Python."""

    name = "rotation"

    def propose(self, configuration, row, random):
        nodes, solution = configuration.nodes, configuration.solution
        first = configuration.node_of(row)
        rows = [row]
        for step in (1, 2):
            there = np.flatnonzero((solution.node == (first + step) % nodes) & configuration.problem.movable)
            if not len(there):
                return []
            rows.append(int(there[0]))
        targets = [(first + 1) % nodes, (first + 2) % nodes, first]
        return list(zip(rows, targets, strict=True))


class Anything:
    """Proposes anything within the ranges: rows that may not move, rows twice, nodes that are no targets."""

    name = "anything"

    def propose(self, configuration, row, random):
        count = random.integers(0, random.choice([3, MOST_PROPOSED + 1]))
        last = configuration.rows.max() + 1
        for number in range(count):
            chosen = row if number == 0 and random.random() < 0.5 else random.integers(last)
            yield int(chosen), random.integers(configuration.nodes)


@kernel
def _propose_anything(problem, solution, _data, row, rng, moves):
    count = int(uniform(rng) * 6)
    for number in range(count):
        moves.row[number] = row if number == 0 else int(uniform(rng) * solution.node.shape[0])
        moves.target[number] = int(uniform(rng) * problem.limit.shape[0])
    return count


class SwiftAnything(CompiledNeighbourhood):
    """The same with a kernel."""

    name = "swift_anything"
    propose = _propose_anything


class Wrong(NamedTuple):
    """What a neighbourhood returns and writes as its only move."""

    count: int
    row: int
    target: int


@kernel
def _propose_wrong(_problem, _solution, data, _row, _rng, moves):
    moves.row[0], moves.target[0] = data.row, data.target
    return data.count


class SwiftFixed(CompiledNeighbourhood):
    """Proposes a certain move, or returns a certain number."""

    name = "fixed"
    propose = _propose_wrong

    def __init__(self, count, row, target):
        self.wrong = Wrong(count, row, target)

    def new_data(self, _configuration):
        return self.wrong


class Fixed:
    """Returns a certain thing."""

    name = "fixed"

    def __init__(self, proposed):
        self.proposed = proposed

    def propose(self, _configuration, _row, _random):
        return self.proposed
