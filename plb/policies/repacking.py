"""Repacking: first fit by size classes, with moves of smaller replicas; after [31] of [1], Kamali, ALGOCLOUD 2015.

[1] names the technique and does not describe it; its source packs items of one size. What is done here is our reading
of "mostly myopic packing" for several metrics:

- A replica is of class i on a node if its largest share of the node's capacity lies in (1/(i+1), 1/i]; the last class
  contains all smaller ones. A metric without capacity does not count.
- A replica is placed on the first node on which it fits with the replicas of its own class and of larger ones.
  Smaller ones that cannot move count as well.
- Of the smaller ones on the node, all that still fit stay, larger classes first. The others move, one after the
  other, each to the first other feasible node.
- If these are too many, or one of them fits on no node, nothing is moved, and first fit decides.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np

from plb.array_types import NOWHERE, Int
from plb.constraints.application_sums import occupied_nodes
from plb.extensions.configuration import Configuration, Proposal
from plb.model.rules import ALL_RULES, Rule
from plb.policies.fits import FirstFit
from plb.validation import check_count, check_name


@attrs.frozen(kw_only=True)
class Repacking(FirstFit):
    """First fit, for which a few smaller replicas at most may be moved."""

    size_classes: int = 8
    """Number of size classes; the last class has the shares of at most 1/`size_classes`."""
    most_moves: int = 10
    """Most replicas that are moved for one."""
    name: str = "repacking"
    """Name of the policy."""

    def __attrs_post_init__(self) -> None:
        item = f"policy {check_name('policy', self.name)}"
        object.__setattr__(self, "size_classes", check_count(item, "size_classes", self.size_classes, low=1))
        object.__setattr__(self, "most_moves", check_count(item, "most_moves", self.most_moves))

    def evict(self, configuration: Configuration, row: int) -> Sequence[Proposal]:
        """Return moves off the first node that takes `row` if smaller replicas do not count; none where all fit.

        `choose` then finds this node as the first feasible one: on the nodes before it, larger replicas leave no room.
        """
        smaller = self._smaller(configuration, row)
        node = _first_node(configuration, row, smaller)
        if node is None:
            return ()
        leaving = self._leaving(configuration, row, node, smaller)
        return _moves(configuration, row, node, leaving) if 0 < len(leaving) <= self.most_moves else ()

    def _classes(self, configuration: Configuration, rows: Int | int, nodes: Int | int) -> Int:
        """Return the size class of each replica of `rows` on its node, (n,), or of one row on each of `nodes`.

        Whole numbers keep a share of 1/i exact.
        """
        problem = configuration.problem
        load, capacity = problem.load[rows], problem.capacity[nodes]
        bounded = (problem.inverse_capacity[nodes] > 0) & (load > 0)
        replicas_per_node = np.where(bounded, capacity // np.maximum(load, 1), self.size_classes)
        return np.asarray(replicas_per_node.min(axis=-1).clip(1, self.size_classes), np.int64)

    def _smaller(self, configuration: Configuration, row: int) -> Int:
        """Return the rows, ascending, that may move and are of a smaller class than replica `row` on their nodes."""
        problem, node = configuration.problem, configuration.solution.node
        may_move = (node != NOWHERE) & ~problem.leaving & (problem.movable | (problem.origin == NOWHERE))
        may_move[row] = False
        rows = np.flatnonzero(may_move)
        class_of_row = self._classes(configuration, row, np.arange(configuration.nodes))
        return np.asarray(rows[self._classes(configuration, rows, node[rows]) > class_of_row[node[rows]]], np.int64)

    def _leaving(self, configuration: Configuration, row: int, node: int, smaller: Int) -> Int:
        """Return the rows of `smaller`, (n,), on `node` that do not fit beside `row` in metrics that `row` needs."""
        load, needed = configuration.problem.load, configuration.problem.load[row] > 0
        residents = smaller[configuration.solution.node[smaller] == node]
        residents = residents[self._classes(configuration, residents, node).argsort(kind="stable")]
        free = (_free(configuration, row)[node] - load[row] + load[residents].sum(axis=0))[needed]
        leaving = []
        for resident in residents.tolist():
            if (load[resident][needed] <= free).all():
                free -= load[resident][needed]
            else:
                leaving.append(resident)
        return np.array(leaving, np.int64)


def _free(configuration: Configuration, row: int) -> Int:
    """Return the free capacity of every node for a row, (N, R) quanta; below 0 if its load exceeds the limit."""
    problem, solution = configuration.problem, configuration.solution
    limit = problem.limit if problem.origin[row] == NOWHERE else problem.move_limit
    return np.asarray(limit - problem.leaving_load - occupied_nodes(problem, solution), np.int64)


def _first_node(configuration: Configuration, row: int, smaller: Int) -> int | None:
    """Return the first node that takes `row` by all rules if the rows of `smaller`, (n,), had no load, or None."""
    problem = configuration.problem
    needed = problem.load[row] > 0
    free = _free(configuration, row)
    np.add.at(free, configuration.solution.node[smaller], problem.load[smaller])
    nodes = configuration.nodes_for(row, ALL_RULES & ~(1 << Rule.CAPACITY))
    nodes = nodes[(problem.load[row] <= free[nodes])[:, needed].all(axis=1)]
    return int(nodes[0]) if len(nodes) else None


def _moves(configuration: Configuration, row: int, node: int, leaving: Int) -> Sequence[Proposal]:
    """Return moves of rows `leaving`, (n,), off `node`, each by first fit; none if `row` then does not fit there."""
    moves: list[Proposal] = []
    inverse_moves: list[Proposal] = []
    for resident in leaving.tolist():
        nodes = configuration.nodes_for(resident)
        if len(nodes):
            moves.append(Proposal(resident, int(nodes[0])))
            inverse_moves.append(configuration.apply(moves[-1]))
    frees_enough = len(moves) == len(leaving) and configuration.refusal(Proposal(row, node)) is None
    for inverse in reversed(inverse_moves):
        configuration.apply(inverse)
    return moves if frees_enough else ()
