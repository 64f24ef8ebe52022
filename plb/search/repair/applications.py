"""Repair moves of applications: off nodes too many, off overfull nodes, and all together off a reserved node."""

from __future__ import annotations

from plb.array_types import NOWHERE
from plb.compiler import kernel, uniform
from plb.constraints import application_capacity, scale_out
from plb.model.rules import RuleMask
from plb.search.repair.affinity_moves import move_with_children
from plb.search.repair.lists import APPLICATIONS, Attempt, RepairState, list_rows_on_nodes, note_moves
from plb.search.repair.swaps import swap_with_lighter
from plb.search.transactions import Draft, has_capacity, undo_transaction
from plb.state.arrays import Problem, Solution


@kernel
def repair_applications(
    problem: Problem, solution: Solution, draft: Draft, attempt: Attempt, state: RepairState
) -> None:
    """Repair the rules that `attempt` repairs of each application that breaks one; `state` lists the applications."""
    index = 0
    while index < state.suspects.length[APPLICATIONS]:  # a move may add applications
        application = state.suspects.applications[index]
        index += 1
        if attempt.repaired >> scale_out.RULE & 1:
            _leave_nodes(problem, solution, draft, attempt.binding, application, state)
        if attempt.repaired >> application_capacity.RULE & 1:
            _unload(problem, solution, draft, attempt, application, state)


@kernel
def _leave_nodes(
    problem: Problem, solution: Solution, draft: Draft, enforced: RuleMask, application: int, state: RepairState
) -> None:
    """Move an application off nodes with the fewest of its replicas, by `enforced` rules, until it uses few enough."""
    nodes = solution.application_replicas.shape[1]
    shift = int(uniform(draft.rng) * nodes)
    last_replicas, last_place = 0, NOWHERE
    while scale_out.nodes_above_limit(problem, solution, application) > 0:
        node = _next_smallest(solution, application, shift, last_replicas, last_place)
        if node == NOWHERE:
            return
        list_rows_on_nodes(solution.node, state.on_nodes)
        last_replicas, last_place = solution.application_replicas[application, node], (node + shift) % nodes
        if _leave_together(problem, solution, draft, enforced, application, node, state):
            last_replicas, last_place = 0, NOWHERE


@kernel
def _next_smallest(solution: Solution, application: int, shift: int, last_replicas: int, last_place: int) -> int:
    """Return the next node in use by replicas of an application, in ascending order of their number, or NOWHERE.

    Among equals a node comes in the order of its place: index plus `shift`, modulo the number of nodes. The node before
    had `last_replicas` at `last_place`; 0 and NOWHERE at first.
    """
    chosen, fewest, first_place = NOWHERE, 0, 0
    nodes = solution.application_replicas.shape[1]
    for node in range(nodes):
        replicas, place = solution.application_replicas[application, node], (node + shift) % nodes
        if replicas == 0 or replicas < last_replicas or (replicas == last_replicas and place <= last_place):
            continue
        if chosen == NOWHERE or replicas < fewest or (replicas == fewest and place < first_place):
            chosen, fewest, first_place = node, replicas, place
    return int(chosen)


@kernel
def _leave_together(
    problem: Problem,
    solution: Solution,
    draft: Draft,
    enforced: RuleMask,
    application: int,
    node: int,
    state: RepairState,
) -> bool:
    """Move all replicas of an application off `node`, with their children, or none; return whether all could move."""
    transaction, on_nodes = draft.transaction, state.on_nodes
    length_before = transaction.length[0]
    row = on_nodes.first[node]
    while row != NOWHERE:
        if problem.application[row] == application and solution.node[row] == node:  # a child may have moved already
            moved = problem.movable[row] and has_capacity(solution, transaction)
            if not moved or not move_with_children(problem, solution, draft, enforced, row):
                undo_transaction(problem, solution, transaction, length_before)
                return False
        row = on_nodes.following[row]
    note_moves(problem, solution, state, length_before)
    return True


@kernel
def _unload(
    problem: Problem, solution: Solution, draft: Draft, attempt: Attempt, application: int, state: RepairState
) -> None:
    """Move random replicas of an application off each node on which it exceeds its capacity, until it does not."""
    for node in range(solution.application_replicas.shape[1]):
        for metric in range(problem.load.shape[1]):
            while application_capacity.excess_on_node(problem, solution, application, node, metric) > 0:
                list_rows_on_nodes(solution.node, state.on_nodes)
                binding = attempt.binding
                relieved = _take_load_off(problem, solution, draft, binding, application, node, metric, False, state)
                if not relieved and attempt.may_swap:
                    relieved = _take_load_off(problem, solution, draft, binding, application, node, metric, True, state)
                if not relieved:
                    break


@kernel
def _take_load_off(
    problem: Problem,
    solution: Solution,
    draft: Draft,
    enforced: RuleMask,
    application: int,
    node: int,
    metric: int,
    swaps_roles: bool,
    state: RepairState,
) -> bool:
    """Move a replica of an application off `node`, or with `swaps_roles` swap its role; return whether one could.

    The replicas with load of `metric` are tried in turn, in two passes that begin at a random one.
    """
    on_nodes, transaction = state.on_nodes, draft.transaction
    first_position = int(uniform(draft.rng) * solution.application_replicas[application, node])
    for second_pass in range(2):
        position = 0
        row = on_nodes.first[node]
        while row != NOWHERE:
            if problem.application[row] == application:
                is_turn = position < first_position if second_pass else position >= first_position
                position += 1
                may_leave = (
                    problem.movable[row] and problem.load[row, metric] > 0 and has_capacity(solution, transaction)
                )
                length_before = transaction.length[0]
                relieved = False
                if may_leave and is_turn and swaps_roles:
                    relieved = swap_with_lighter(problem, solution, draft, enforced, row, metric)
                elif may_leave and is_turn:
                    relieved = move_with_children(problem, solution, draft, enforced, row)
                if relieved:
                    note_moves(problem, solution, state, length_before)
                    return True
            row = on_nodes.following[row]
    return False


@kernel
def holds_reservation(problem: Problem, row: int, metric: int) -> bool:
    """Return whether the application of replica `row` reserves `metric` on its nodes."""
    if not problem.reserves or problem.application[row] == NOWHERE:
        return False
    return bool(problem.reservation[problem.application[row], metric] > 0)


@kernel
def relieve_by(
    problem: Problem, solution: Solution, draft: Draft, enforced: RuleMask, row: int, metric: int, state: RepairState
) -> bool:
    """Move replica `row` off its node with its children, by `enforced` rules; return whether all could move.

    All replicas of its application leave the node if `row` alone would free nothing of a reservation of `metric`.
    """
    node, application = solution.node[row], problem.application[row]
    if holds_reservation(problem, row, metric):
        load = solution.application_load[application, node, metric]
        is_only_replica = solution.application_replicas[application, node] == 1
        if not is_only_replica and load <= problem.reservation[application, metric]:
            return _leave_together(problem, solution, draft, enforced, application, node, state)
    return move_with_children(problem, solution, draft, enforced, row)
