"""Extensions that fail at a certain call, in plain Python and with kernels."""

from __future__ import annotations

import numpy as np

from plb.array_types import NOWHERE
from plb.compiler import kernel
from plb.extensions.configuration import Proposal
from plb.extensions.constraints import CompiledConstraint
from plb.extensions.energy_terms import CompiledTerm


class FuseError(Exception):
    """An error of an extension."""


class Fuse:
    """Fails at a certain call of any extension; `left` calls go well before it, and None means that none fails."""

    def __init__(self):
        self.left = None
        self.error = FuseError
        self.failed = None

    def set(self, left, error=FuseError):
        self.left, self.error, self.failed = left, error, None

    def burn(self, name, method):
        if self.left is None:
            return
        if self.left == 0:
            self.left = None
            self.failed = name, method
            raise self.error(f"{name}.{method}")
        self.left -= 1


FUSE = Fuse()
"""One for all: engines work with copies of extensions."""


class Spread:
    """The squared number of replicas on each node, with sums."""

    name = "spread"

    def _counts(self, configuration):
        node = configuration.solution.node[configuration.rows]
        return np.bincount(node[node != NOWHERE], minlength=configuration.nodes)

    def total(self, configuration):
        FUSE.burn(self.name, "total")
        return float((self._counts(configuration) ** 2).sum())

    def begin(self, configuration):
        FUSE.burn(self.name, "begin")
        self.counts = self._counts(configuration)

    def delta(self, configuration, proposal):
        FUSE.burn(self.name, "delta")
        after = self.counts.copy()
        self._add(after, configuration, proposal)
        return float((after**2).sum() - (self.counts**2).sum())

    def apply(self, configuration, proposal):
        self._add(self.counts, configuration, proposal)
        FUSE.burn(self.name, "apply")

    def undo(self, configuration, proposal):
        self._add(self.counts, configuration, proposal, -1)
        FUSE.burn(self.name, "undo")

    def _add(self, counts, configuration, proposal, sign=1):
        for one in configuration.relocations(proposal):
            if one.source != NOWHERE:
                counts[one.source] -= sign
            if one.target != NOWHERE:
                counts[one.target] += sign


class OffFirstNode:
    """No replica may be on the first node; tries what it refuses, and fails before it takes that back."""

    name = "off_first_node"

    def refuses(self, configuration, proposal):
        back = configuration.apply(proposal)
        FUSE.burn(self.name, "refuses")
        refused = any(configuration.node_of(row) == 0 for row in (proposal.row, proposal.partner) if row != NOWHERE)
        configuration.apply(back)
        return refused

    def broken(self, configuration):
        FUSE.burn(self.name, "broken")
        return [row for row in configuration.rows.tolist() if configuration.node_of(row) == 0]


class Restless:
    """A neighbourhood that tries a move of its row before it proposes it, and fails before it takes that back."""

    name = "restless"

    def propose(self, configuration, row, random):
        here, target = configuration.node_of(row), int(random.integers(configuration.nodes))
        back = configuration.apply(Proposal(row, target))
        there = configuration.rows_on(target)
        FUSE.burn(self.name, "propose")
        configuration.apply(back)
        return [(row, target), *((int(one), here) for one in there[:1] if one != row)]


class InTurn:
    """Takes the nodes in turn, from plan to plan, and fails after it has taken its turn."""

    name = "in_turn"

    def __init__(self):
        self.turns = []

    def begin(self, configuration, rng):
        self.turns.append(-1)
        FUSE.burn(self.name, "begin")

    def choose(self, configuration, row, nodes):
        self.turns.append(row)
        FUSE.burn(self.name, "choose")
        return nodes[len(self.turns) % len(nodes)]

    def leaving(self, configuration, node, rows):
        self.turns.append(node)
        FUSE.burn(self.name, "leaving")
        return rows[:: 1 if len(self.turns) % 2 else -1]


class InTurnWithMemory(InTurn):
    """The same with a memory; a copy has forgotten everything else."""

    name = "in_turn_with_memory"

    def __deepcopy__(self, _memo):
        return type(self)()

    def memory(self):
        return {"turns": self.turns}

    def recall(self, memory):
        self.turns = memory["turns"]


@kernel
def _spend(_problem, _solution, _data, sums, _proposal):
    sums.values[0] -= 1
    if sums.values[0] == 0:
        raise ValueError("the sums are spent")
    return 0.0


@kernel
def _spend_on_keeping(_problem, _solution, _data, sums, _proposal):
    sums.values[0] -= 1
    if sums.values[0] == 0:
        raise ValueError("the sums are spent")


@kernel
def _change_nothing(_problem, _solution, _data, _sums, _proposal):
    return 0.0


class Spent(CompiledTerm):
    """A term whose kernel fails at a certain call; the search may go on before."""

    name = "spent"
    change = _spend
    failing = "change"
    calls = 0

    def new_sums(self, configuration):
        return [type(self).calls]

    def total(self, configuration):
        return 0.0


class SpentOnKeeping(Spent):
    """A term whose kernel for sums fails at a certain call."""

    name = "spent_on_keeping"
    change = _change_nothing
    keep = _spend_on_keeping
    failing = "keep"


@kernel
def _fails_for_a_row(problem, _solution, _data, _sums, proposal):
    """Fail for a row of a load that no other has, in quarters."""
    if problem.load[proposal.row, 0] >= 400_000:
        raise ValueError("too large")
    return False


class FailsForARow(CompiledConstraint):
    """A constraint whose kernel fails for a replica with a huge load."""

    name = "fails_for_a_row"
    test = _fails_for_a_row

    def broken(self, configuration):
        return []
