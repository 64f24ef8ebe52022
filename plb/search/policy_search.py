"""Placement and repair by a placement policy: one replica at a time, without annealing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, partial

import numpy as np

from plb.array_types import NOWHERE, Int
from plb.compiler import Stream, kernel
from plb.constraints import application_capacity, scale_out
from plb.constraints.capacity import excess_of, overloads
from plb.constraints.domains import SPREADING
from plb.energy.terms import present_energy
from plb.evaluation.proposals import ACCEPTED, FIRST_RULE, GENERATED, SCORED, Tally, refusal
from plb.extensions.configuration import Configuration, Proposal
from plb.extensions.kernel_data import POLICY, errors_of
from plb.extensions.policies import choose, leaving_order, moves_for, prepares, repacks
from plb.model.rules import JOINING, NO_REFUSAL, RuleMask
from plb.search.budget import EndReason, stream_of
from plb.search.extension_kernels import ExtensionState
from plb.search.extension_state import constraints_of
from plb.search.repair.affinity_moves import move_children
from plb.search.repair.applications import holds_reservation
from plb.search.repair.breaches import breaking_rows, broken_applications, suspects_after
from plb.search.result import Annealed, Search, new_tally
from plb.search.transactions import (
    Draft,
    PlacementGroups,
    Transaction,
    has_capacity,
    new_transaction,
    try_move,
    undo_transaction,
)
from plb.state.arrays import Problem, Solution, proposed

Place = Callable[[int], Sequence[Proposal]]
"""Places a row and returns the moves that undo this, to be applied in reverse order; empty if it stays."""


def repair_applications_by_policy(configuration: Configuration, repaired: RuleMask, place: Place) -> None:
    """Move replicas off nodes too many of an application, then off nodes where it exceeds its capacity.

    `repaired`: the rules to repair; each of the two is repaired only if it is among them. `place`: moves one row.
    """
    for application in broken_applications(configuration.problem, configuration.solution, repaired).tolist():
        if repaired >> scale_out.RULE & 1:
            _leave_nodes(configuration, application, place)
        if repaired >> application_capacity.RULE & 1:
            for row in _overfilling(configuration, application):
                place(row)


def _leave_nodes(configuration: Configuration, application: int, place: Place) -> None:
    """Move the application with this index off the nodes with the fewest of its replicas until it uses few enough.

    All of its replicas leave a node, or none.
    """
    problem, solution = configuration.problem, configuration.solution
    replicas = solution.application_replicas[application].copy()
    for node in np.argsort(replicas, kind="stable")[np.count_nonzero(replicas == 0) :].tolist():
        if solution.application_nodes[application] <= problem.most_nodes[application]:
            return
        rows = _rows_on(configuration, application, node)
        inverse_moves: list[Proposal] = []
        if problem.movable[rows].all():
            for row in rows:
                if solution.node[row] == node:  # a child may have moved already
                    inverse_moves += place(row)
        if solution.application_replicas[application, node]:
            for inverse in reversed(inverse_moves):
                configuration.apply(inverse)


def _overfilling(configuration: Configuration, application: int) -> Iterator[int]:
    """Yield movable rows of an application with load of a metric in which it exceeds its limit on their node.

    The caller moves each row before it asks for the next; a node yields none once the application is within its limit.
    """
    problem, solution = configuration.problem, configuration.solution
    for node in range(configuration.nodes):
        for row in _rows_on(configuration, application, node):
            excess = solution.application_load[application, node] - problem.application_node_limit[application]
            adds = (excess > 0) & (problem.load[row] > 0)
            if problem.movable[row] and solution.node[row] == node and adds.any():
                yield row


def _rows_on(configuration: Configuration, application: int, node: int) -> list[int]:
    """Return the rows, ascending, of the application's replicas on a node, without leaving ones; both are indices."""
    problem, solution = configuration.problem, configuration.solution
    is_there = (problem.application == application) & (solution.node == node) & ~problem.leaving
    return np.flatnonzero(is_there & (solution.node != NOWHERE)).tolist()


class Decisions:
    """The decisions of a policy in one search, applied to a solution.

    `slots`: the most rows that may be displaced where the policy evicts replicas; 0 allows no evictions.
    """

    def __init__(self, search: Search, seed: np.random.SeedSequence, slots: int) -> None:
        extensions, problem, solution = search.extensions, search.problem, search.solution
        assert extensions is not None
        assert extensions.policy is not None
        self.extensions, self.policy = extensions, extensions.policy
        self._slots = slots
        self._repacking = extensions.policy if slots and repacks(extensions.policy) else None
        """The policy, if it may and can request moves before a placement."""
        self.problem, self.solution = problem, solution
        self.configuration = extensions.configuration(problem, solution)
        self.tally = new_tally()
        """(TALLY_SIZE,) proposals by outcome; one proposal for each pair of replica and node."""
        self._transaction = new_transaction(8 * len(solution.node) + 8)
        self._constraints = constraints_of(extensions, problem, solution)
        self._seed = seed
        if prepares(self.policy):
            with errors_of(POLICY, self.policy.name, "begin"):
                self.policy.begin(self.configuration, Stream(stream_of(seed, 1)))

    @cached_property
    def _rng(self) -> Stream:
        """Random stream of affinity moves."""
        return Stream(stream_of(self._seed, 0))

    def place(self, row: int, enforced: RuleMask) -> list[Proposal]:
        """Move replica `row` and its children to the node that the policy chooses under the enforced rules.

        Return the moves that undo this, to be applied in reverse order; none if the row stays.
        """
        self._transaction.length[0] = 0
        if not self._evict(row, enforced):
            undo_transaction(self.problem, self.solution, self._transaction, 0)
        nodes = self._nodes(row, enforced)
        with errors_of(POLICY, self.policy.name, "choose"):
            node = choose(self.policy, self.configuration, row, nodes) if len(nodes) else None
        if node is None and len(nodes):
            self.extensions.declined.add(row)
        placed = node is not None and self._move(Proposal(row, node), enforced)
        if not placed:
            undo_transaction(self.problem, self.solution, self._transaction, 0)
            return []
        self.tally[ACCEPTED] += 1
        return self._undo_moves()

    def repair(self, repaired: RuleMask, enforced: RuleMask, suspects: Callable[[], Int]) -> None:
        """Move replicas that violate a rule or constraint, then unload overloaded nodes, which may be fewer by then.

        `repaired`: rules to repair; `enforced`: rules that bind moves; `suspects`: returns rows that may break a rule.
        """
        self._move_breaking(repaired & SPREADING, enforced, suspects)
        self._move_breaking(repaired & ~SPREADING, enforced | JOINING, suspects)  # moved children join their parents
        repair_applications_by_policy(self.configuration, repaired, partial(self.place, enforced=enforced))
        for row in sorted(self.extensions.broken(self.configuration)):
            if self.problem.movable[row] and row in self.extensions.broken(self.configuration):
                self.place(row, enforced)
        accepted_before = -1
        while self.tally[ACCEPTED] > accepted_before:  # an unloaded node may have capacity for replicas of another
            accepted_before = int(self.tally[ACCEPTED])
            overloaded = overloads(self.problem, self.solution, repaired)
            for node in np.flatnonzero(overloaded.any(axis=1)).tolist():
                self._relieve(node, enforced)

    def _relieve(self, node: int, enforced: RuleMask) -> None:
        """Move replicas off `node`, in the policy's order, by `enforced` rules, until it is within its limits."""
        problem, solution = self.problem, self.solution
        rows = np.empty(len(solution.node), np.int64)
        rows = rows[: _find_overloading(problem, solution, node, rows)]
        if not len(rows):
            return
        with errors_of(POLICY, self.policy.name, "leaving"):
            order = np.array(leaving_order(self.policy, self.configuration, node, rows), np.int64)
        position = 0
        while (position := _next_overloading(problem, solution, node, order, position)) < len(order):
            self.place(int(order[position]), enforced)
            position += 1

    def _move_breaking(self, repaired: RuleMask, enforced: RuleMask, suspects: Callable[[], Int]) -> None:
        """Move each movable row of `suspects()` that breaks a rule of `repaired`, other than capacity."""
        for row in breaking_rows(self.problem, self.solution, repaired, suspects()):
            # an earlier move may have repaired this row
            still_breaks = len(breaking_rows(self.problem, self.solution, repaired, np.array([row]))) > 0
            if self.problem.movable[row] and still_breaks:
                self.place(int(row), enforced)

    def _nodes(self, row: int, enforced: RuleMask) -> Int:
        """Return the nodes, ascending, on which no enforced rule and no constraint refuses `row`; count refusals."""
        allowed = np.empty(self.configuration.nodes, np.int64)
        allowed = allowed[: _find_allowed(self.problem, self.solution, enforced, row, allowed, self.tally)]
        if self.extensions.constraints:
            refusing = [self.extensions.refusal(self.configuration, Proposal(row, node)) for node in allowed.tolist()]
            self.extensions.refused.update(name for name in refusing if name is not None)
            allowed = allowed[[name is None for name in refusing]]
        self.tally[SCORED] += len(allowed)
        return allowed

    def _evict(self, row: int, enforced: RuleMask) -> bool:
        """Apply the moves that the policy requests before it places `row`; return whether `enforced` rules allow it."""
        if self._repacking is None:
            return True
        with errors_of(POLICY, self.policy.name, "evict"):
            requested = moves_for(self._repacking, self.configuration, row)
        all_made = all(
            self._is_allowed(proposal, enforced) and self._move(proposal, enforced) for proposal in requested
        )
        return all_made and (not requested or bool(self.solution.totals.displaced <= self._slots))

    def _is_allowed(self, proposal: Proposal, enforced: RuleMask) -> bool:
        """Return whether no `enforced` rule refuses a proposal, of movable or new rows only; count a refusal."""
        for relocation in self.configuration.relocations(proposal):
            is_new = self.problem.origin[relocation.row] == NOWHERE
            if relocation.target == relocation.source or not (is_new or self.problem.movable[relocation.row]):
                return False
        self.tally[GENERATED] += 1
        rule = self.configuration.refusal(proposal, enforced)
        constraint = None if rule is not None else self.extensions.refusal(self.configuration, proposal)
        if rule is not None:
            self.tally[FIRST_RULE + rule] += 1
        elif constraint is not None:
            self.extensions.refused[constraint] += 1
        else:
            self.tally[SCORED] += 1
        return rule is None and constraint is None

    def _move(self, proposal: Proposal, enforced: RuleMask) -> bool:
        """Apply a proposal and move the children of its rows by `enforced` rules; return whether all could move."""
        problem, solution, transaction = self.problem, self.solution, self._transaction
        for relocation in self.configuration.relocations(proposal):
            row = relocation.row
            if not _move_if_possible(problem, solution, transaction, row, relocation.target):
                return False
            if problem.first_child[row] == NOWHERE:
                continue
            with self._constraints.calls():
                constraints = self._constraints.state
                children_moved = _move_children(problem, solution, constraints, enforced, row, self._rng, transaction)
            self._constraints.raise_error()
            if not children_moved:
                return False
        return True

    def annealed(self) -> Annealed:
        """Return the statistics of the search, of which `solution` is the result."""
        self._constraints.finish()
        return Annealed(present_energy(self.problem, self.solution), self.tally, EndReason.DECIDED)

    def _undo_moves(self) -> list[Proposal]:
        """Return the moves that undo the current transaction."""
        transaction, length = self._transaction, int(self._transaction.length[0])
        return [Proposal(int(transaction.row[entry]), int(transaction.source[entry])) for entry in range(length)]


@kernel
def _find_allowed(problem: Problem, solution: Solution, enforced: RuleMask, row: int, nodes: Int, tally: Tally) -> int:
    """Write to `nodes`, (N,), the nodes on which no enforced rule refuses `row`, and return their number.

    `tally` counts the proposals and the refusals.
    """
    allowed = 0
    for node in range(nodes.shape[0]):
        if node == solution.node[row]:
            continue
        tally[GENERATED] += 1
        rule = refusal(problem, solution, enforced, proposed(solution, row, node, NOWHERE))
        if rule == NO_REFUSAL:
            nodes[allowed] = node
            allowed += 1
        else:
            tally[FIRST_RULE + rule] += 1
    return allowed


@kernel
def _move_if_possible(problem: Problem, solution: Solution, transaction: Transaction, row: int, target: int) -> bool:
    """Move `row` to `target` and append the move to the transaction if it can hold more; return whether it can."""
    if not has_capacity(solution, transaction):
        return False
    try_move(problem, solution, transaction, row, target)
    return True


@kernel
def _move_children(
    problem: Problem,
    solution: Solution,
    extension_state: ExtensionState,
    enforced: RuleMask,
    row: int,
    rng: Stream,
    transaction: Transaction,
) -> bool:
    """Move the children of `row`, which the transaction moved last, by `enforced` rules; return whether all could."""
    draft = Draft(extension_state, rng, transaction)
    return move_children(problem, solution, draft, enforced, row, transaction.length[0] - 1)


@kernel
def _find_overloading(problem: Problem, solution: Solution, node: int, rows: Int) -> int:
    """Write to `rows`, (M,), the movable rows with load of a metric that overloads `node`; return their number."""
    found_rows = 0
    for row in range(rows.shape[0]):
        if problem.movable[row] and _overloads(problem, solution, node, row):
            rows[found_rows] = row
            found_rows += 1
    return found_rows


@kernel
def _next_overloading(problem: Problem, solution: Solution, node: int, rows: Int, begin: int) -> int:
    """Return the first position from `begin` on in `rows`, (n,), of a row that adds to an overload of `node`, or n."""
    for position in range(begin, rows.shape[0]):
        if _overloads(problem, solution, node, rows[position]):
            return position
    return int(rows.shape[0])


@kernel
def _overloads(problem: Problem, solution: Solution, node: int, row: int) -> bool:
    """Return whether replica `row` is on `node` and has load of a metric of which the node exceeds its repair limit."""
    if solution.node[row] != node:
        return False
    for metric in range(problem.load.shape[1]):
        is_heavy = problem.load[row, metric] > 0 or holds_reservation(problem, row, metric)
        if is_heavy and excess_of(problem, solution, node, metric) > 0:
            return True
    return False


def place_by_policy(
    search: Search,
    rows: Sequence[int],
    all_or_nothing: PlacementGroups,
    masks: Iterable[RuleMask],
    seed: np.random.SeedSequence,
    slots: int,
) -> Annealed:
    """Place replicas `rows` in turn; where the policy declines, ask it again under the next of `masks`.

    `masks`: enforced rules, from all to only the hard ones; `all_or_nothing`: (m,) groups that are placed as a whole;
    `slots`: most displaced rows, 0: no evictions.
    """
    decisions = Decisions(search, seed, slots)
    unplaced_rows = np.array(rows, np.int64)
    for mask in masks:
        _place_in_turn(decisions.configuration, unplaced_rows, all_or_nothing, partial(decisions.place, enforced=mask))
        is_unplaced = search.solution.node[unplaced_rows] == NOWHERE
        unplaced_rows, all_or_nothing = unplaced_rows[is_unplaced], all_or_nothing[is_unplaced]
    return decisions.annealed()


def repair_by_policy(
    search: Search,
    masks: Iterable[RuleMask],
    seed: np.random.SeedSequence,
    breaking: Int,
    passed_over: RuleMask = 0,
) -> Annealed:
    """Repair violated constraints in the solution by moves that the policy decides.

    `masks`: enforced rules, from all to only the hard ones; `passed_over`: rules that bind but are not repaired.
    `breaking`: (n,) the rows, ascending, that may break a rule.
    """
    decisions = Decisions(search, seed, len(search.solution.node))

    def suspects() -> Int:
        """Return the rows that may break a rule in the present solution."""
        return suspects_after(search.problem, search.solution, breaking, search.others)

    for mask in masks:
        decisions.repair(mask & ~passed_over, mask, suspects)
    return decisions.annealed()


def _place_in_turn(configuration: Configuration, rows: Int, all_or_nothing: PlacementGroups, place: Place) -> None:
    """Place each replica of `rows` by `place`; a group of `all_or_nothing`, (m,), is only placed as a whole."""
    inverse_moves: list[Proposal] = []
    group, group_begin, given_up = NOWHERE, 0, False
    for row, next_group in zip(rows.tolist(), all_or_nothing.tolist(), strict=True):
        if next_group != group or group == NOWHERE:
            group, group_begin, given_up = next_group, len(inverse_moves), False
        if given_up:
            continue
        inverses = place(row)
        inverse_moves += inverses
        if not inverses and group != NOWHERE:
            for inverse in reversed(inverse_moves[group_begin:]):
                configuration.apply(inverse)
            del inverse_moves[group_begin:]
            given_up = True
