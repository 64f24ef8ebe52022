"""Steps of several moves: a proposal with the moves that it causes, and steps in larger neighbourhoods."""

from __future__ import annotations

from plb.array_types import NOWHERE
from plb.compiler import Stream, kernel
from plb.constraints.domains import FAULT_DOMAIN, SPREADING, UPGRADE_DOMAIN, breaks_level, excess_in_domain
from plb.energy.terms import present_energy
from plb.evaluation.delta import apply_proposal, move_row
from plb.evaluation.proposals import ACCEPTED, FIRST_RULE, GENERATED, SCORED, refusal
from plb.model.rules import NO_REFUSAL, Rule, RuleMask
from plb.search.annealing.chain import ChainState, Step, highest_energy, note_accepted, record_energy
from plb.search.annealing.larger_neighbourhoods import destroy_and_repair, make_ejection_chain
from plb.search.annealing.move_generation import Choice
from plb.search.annealing.neighbourhoods import EJECTION_CHAIN, MOST_ASKED, OF_USERS, make_proposed_step
from plb.search.extension_kernels import (
    ALLOWED,
    ExtensionState,
    apply_with_terms,
    copy_values,
    foresee,
    is_refused,
    newly_broken,
    note_broken,
    refusing,
    weighed,
)
from plb.search.repair.affinity_moves import move_children
from plb.search.transactions import (
    Draft,
    has_moved,
    into_single_moves,
    move_of,
    random_target,
    redo_transaction,
    swap_entries,
    try_move,
    undo_transaction,
    undo_tried_with_terms,
)
from plb.state.arrays import Problem, Proposal, Solution, are_siblings, proposed

_WITHOUT_SPREADING = ~SPREADING


@kernel
def make_spread_moves(problem: Problem, solution: Solution, draft: Draft, enforced: RuleMask, row: int) -> bool:
    """Move siblings of `row`, which has moved, out of crowded domains; return whether the spread holds afterwards.

    Fault domains come first: moves for these need not satisfy the rule on upgrade domains. `enforced`: rules to keep.
    """
    binding = enforced & _WITHOUT_SPREADING
    for rule in (FAULT_DOMAIN, UPGRADE_DOMAIN):
        binding |= enforced & (1 << rule)
        for level in range(problem.domain.shape[1]):
            binds = problem.domain_rule[level] == rule and enforced >> rule & 1
            if binds and not _spread_siblings(problem, solution, draft, binding, level, row):
                return False
    for level in range(problem.domain.shape[1]):
        if enforced >> problem.domain_rule[level] & 1 and _is_uneven(problem, solution, level, row):
            return False
    return True


@kernel
def _spread_siblings(
    problem: Problem, solution: Solution, draft: Draft, binding: RuleMask, level: int, row: int
) -> bool:
    """Move siblings of `row` out of crowded domains of one level, by the rules `binding`; return whether all could."""
    sibling = problem.sibling[row]
    while sibling != row:
        stays = not problem.movable[sibling] or has_moved(draft.transaction, sibling)
        if not stays and excess_in_domain(problem, solution, level, sibling) > 0:
            target = random_target(problem, solution, draft.extension_state, binding, sibling, draft.rng)
            if target == NOWHERE:
                return False
            try_move(problem, solution, draft.transaction, sibling, target)
        sibling = problem.sibling[sibling]
    return True


@kernel
def _is_uneven(problem: Problem, solution: Solution, level: int, row: int) -> bool:
    """Return whether some domain of a level has too many or too few replicas of the partition of replica `row`."""
    member = row
    while True:
        if breaks_level(problem, solution, level, member):
            return True
        member = problem.sibling[member]
        if member == row:
            return False


ROWS_WALKED = 16
"""Rows of the list of a node that take about as long as one proposal; each tried move walks over such a list."""
_AFFINITY = int(Rule.AFFINITY)
_MOVES = int(Rule.MOVES)
_FAULT_DOMAIN = int(Rule.FAULT_DOMAIN)


@kernel
def compound_proposal(
    problem: Problem,
    solution: Solution,
    choice: Choice,
    chain_state: ChainState,
    extension_state: ExtensionState,
    rng: Stream,
    step: Step,
) -> None:
    """Accept or reject a proposal together with the moves that it causes: of siblings for the spread, of children."""
    schedule, tally, transaction = chain_state.schedule, chain_state.tally, chain_state.transaction
    draft = Draft(extension_state, rng, transaction)
    row, target, partner, source = step.proposal
    movement_before = solution.totals.movement
    displaced_before = solution.totals.displaced
    transaction.length[0] = 0
    try_move(problem, solution, transaction, row, target)
    if partner != NOWHERE:
        try_move(problem, solution, transaction, partner, source)
    if step.makes_spread_moves and not make_spread_moves(problem, solution, draft, choice.enforced, row):
        tally[FIRST_RULE + _FAULT_DOMAIN] += 1
        undo_transaction(problem, solution, transaction, 0)
        return
    children_moved = move_children(problem, solution, draft, choice.enforced, row, 0)
    if children_moved and partner != NOWHERE and not are_siblings(problem, row, partner):
        children_moved = move_children(problem, solution, draft, choice.enforced, partner, 0)
    moves_too_many = solution.totals.displaced > max(choice.migrations, displaced_before)
    if not children_moved or moves_too_many:
        tally[FIRST_RULE + (_MOVES if children_moved else _AFFINITY)] += 1
        undo_transaction(problem, solution, transaction, 0)
        return
    if _is_refused_together(problem, solution, draft):
        undo_transaction(problem, solution, transaction, 0)
        return
    tally[SCORED] += 1
    copy_values(extension_state.value, extension_state.after)
    if extension_state.change.shape[0] > 0:
        _redo_with_terms(problem, solution, draft)
    energy_after = present_energy(problem, solution) + weighed(extension_state, extension_state.after)
    is_idle = (
        schedule.temperature == 0.0 and energy_after == schedule.energy and solution.totals.movement >= movement_before
    )
    if energy_after > step.highest or is_idle:
        undo_tried_with_terms(problem, solution, draft, 0)
        return
    _accept(solution, chain_state, extension_state, energy_after)


@kernel
def _accept(solution: Solution, chain_state: ChainState, extension_state: ExtensionState, energy: float) -> None:
    """Record the moves of the transaction, which are made, and `energy`, the energy of the solution after them."""
    schedule, transaction = chain_state.schedule, chain_state.transaction
    chain_state.tally[ACCEPTED] += 1
    copy_values(extension_state.after, extension_state.value)
    for entry in range(transaction.length[0]):
        note_accepted(schedule, chain_state.undo_log, move_of(transaction, entry))
    record_energy(solution, schedule, extension_state, energy)


@kernel
def larger_proposal(
    problem: Problem,
    solution: Solution,
    choice: Choice,
    chain_state: ChainState,
    extension_state: ExtensionState,
    rng: Stream,
    neighbourhood: int,
) -> int:
    """Make a step in a larger neighbourhood and accept or reject it; return as how many proposals it counts.

    `neighbourhood`: index in `Neighbourhoods`.
    """
    schedule, transaction, neighbourhoods = chain_state.schedule, chain_state.transaction, chain_state.neighbourhoods
    highest = highest_energy(schedule, rng)
    scratch, draft = neighbourhoods.scratch, Draft(extension_state, rng, transaction)
    transaction.length[0] = scratch.asked[0] = 0
    kind = neighbourhoods.kind[neighbourhood]
    if kind == EJECTION_CHAIN:
        allowed = make_ejection_chain(problem, solution, choice, draft, scratch)
    elif kind < OF_USERS:
        allowed = destroy_and_repair(problem, solution, choice, draft, kind, scratch)
    else:
        index = kind - OF_USERS
        allowed = make_proposed_step(problem, solution, choice, draft, index, scratch)
    moves = transaction.length[0]
    cost = _cost_of_step(problem, solution, scratch.asked[0], moves)
    neighbourhoods.tried[neighbourhood] += 1
    chain_state.tally[GENERATED] += cost
    if allowed and extension_state.change.shape[0] == 0 and not problem.related:
        allowed = present_energy(problem, solution) <= highest
        chain_state.tally[SCORED] += not allowed
    undo_tried_with_terms(problem, solution, draft, 0)
    if not allowed:
        return cost
    into_single_moves(solution, transaction, moves)
    if problem.related and not _children_follow(problem, solution, choice, draft):
        chain_state.tally[FIRST_RULE + _AFFINITY] += 1
        return cost
    accepted = _is_accepted(problem, solution, choice, chain_state, draft, highest)
    neighbourhoods.accepted[neighbourhood] += accepted
    return cost


@kernel
def _cost_of_step(problem: Problem, solution: Solution, asked: int, moves: int) -> int:
    """Return as how many proposals a step counts that has asked for `asked` nodes and tried `moves` moves."""
    rows_walked = moves * (solution.node.shape[0] // max(1, problem.targets.shape[0]))
    return int(min(max(1, asked + moves + rows_walked // ROWS_WALKED), MOST_ASKED))


@kernel
def _children_follow(problem: Problem, solution: Solution, choice: Choice, draft: Draft) -> bool:
    """Add moves of children to a transaction, which is undone before and after; return whether all could move."""
    redo_transaction(problem, solution, draft.transaction)
    for entry in range(draft.transaction.length[0]):
        row = draft.transaction.row[entry]
        if not move_children(problem, solution, draft, choice.enforced, row, 0):
            undo_transaction(problem, solution, draft.transaction, 0)
            return False
    moves = draft.transaction.length[0]
    undo_transaction(problem, solution, draft.transaction, 0)
    into_single_moves(solution, draft.transaction, moves)
    return True


@kernel
def _is_accepted(
    problem: Problem, solution: Solution, choice: Choice, chain_state: ChainState, draft: Draft, highest: float
) -> bool:
    """Make the moves of a transaction if the rules allow it and the energy is at most `highest`; return whether so."""
    schedule, tally = chain_state.schedule, chain_state.tally
    length, movement_before = draft.transaction.length[0], solution.totals.movement
    most_displaced = max(choice.migrations, solution.totals.displaced)
    tally[SCORED] += 1
    copy_values(draft.extension_state.value, draft.extension_state.after)
    for entry in range(length):
        proposal = move_of(draft.transaction, entry)
        foresee(problem, solution, draft.extension_state, proposal)
        apply_with_terms(problem, solution, draft.extension_state, proposal)
    energy_after = present_energy(problem, solution) + weighed(draft.extension_state, draft.extension_state.after)
    is_idle = (
        schedule.temperature == 0.0 and energy_after == schedule.energy and solution.totals.movement >= movement_before
    )
    is_refused = length == 0 or energy_after > highest or is_idle
    if not is_refused and solution.totals.displaced > most_displaced:
        tally[FIRST_RULE + _MOVES] += 1
        is_refused = True
    is_refused = is_refused or _is_refused(problem, solution, choice, chain_state, draft)
    if is_refused or _is_refused_together(problem, solution, draft):
        undo_tried_with_terms(problem, solution, draft, 0)
        return False
    _accept(solution, chain_state, draft.extension_state, energy_after)
    return True


@kernel
def _is_refused(problem: Problem, solution: Solution, choice: Choice, chain_state: ChainState, draft: Draft) -> bool:
    """Return whether a rule or constraint refuses a move of the transaction after all its other moves."""
    transaction = chain_state.transaction
    for entry in range(transaction.length[0]):
        row, target = transaction.row[entry], transaction.target[entry]
        move_row(problem, solution, row, transaction.source[entry])
        proposal = proposed(solution, row, target, NOWHERE)
        rule = refusal(problem, solution, choice.enforced, proposal)
        refused_by_extension = rule == NO_REFUSAL and is_refused(problem, solution, draft.extension_state, proposal)
        move_row(problem, solution, row, target)
        if rule != NO_REFUSAL:
            chain_state.tally[FIRST_RULE + rule] += 1
        if rule != NO_REFUSAL or refused_by_extension:
            return True
    return False


@kernel
def _is_refused_together(problem: Problem, solution: Solution, draft: Draft) -> bool:
    """Return whether a constraint refuses the moves of a transaction, which are made, together; count the refusal."""
    if draft.extension_state.test.shape[0] == 0:
        return False
    constraint = _refusing_all(problem, solution, draft)
    if constraint != ALLOWED:
        draft.extension_state.refused[constraint] += 1
    return bool(constraint != ALLOWED)


@kernel
def _refusing_all(problem: Problem, solution: Solution, draft: Draft) -> int:
    """Return the index of the first constraint that refuses all moves of a transaction together, or ALLOWED.

    Moves that no constraint refuses in some order break none. Otherwise the constraints count that a replica breaks at
    the end and did not break before, which is asked in Python and takes long.
    """
    length = draft.transaction.length[0]
    undo_transaction(problem, solution, draft.transaction, 0)
    done = 0
    while done < length:
        moves = _allow_next(problem, solution, draft, done, length)
        if moves == 0:
            break
        done += moves
    draft.transaction.length[0] = done
    if done == length:
        return ALLOWED
    undo_transaction(problem, solution, draft.transaction, 0)
    note_broken(draft.extension_state)
    for entry in range(length):
        apply_proposal(problem, solution, move_of(draft.transaction, entry))
    draft.transaction.length[0] = length
    return newly_broken(draft.extension_state)


@kernel
def _allow_next(problem: Problem, solution: Solution, draft: Draft, done: int, length: int) -> int:
    """Make one more move, or an exchange by two, that no constraint refuses; return the number of moves.

    The first `done` of `length` moves of the transaction are made; the new ones are put next to them.
    """
    for entry in range(done, length):
        proposal = move_of(draft.transaction, entry)
        if refusing(problem, solution, draft.extension_state, proposal) == ALLOWED:
            apply_proposal(problem, solution, proposal)
            swap_entries(draft.transaction, done, entry)
            return 1
    for entry in range(done, length):
        for later in range(entry + 1, length):
            first, second = move_of(draft.transaction, entry), move_of(draft.transaction, later)
            if first.target != second.source or second.target != first.source:
                continue
            proposal = Proposal(first.row, first.target, second.row, first.source)
            if refusing(problem, solution, draft.extension_state, proposal) == ALLOWED:
                apply_proposal(problem, solution, proposal)
                swap_entries(draft.transaction, done, entry)
                swap_entries(draft.transaction, done + 1, later)
                return 2
    return 0


@kernel
def _redo_with_terms(problem: Problem, solution: Solution, draft: Draft) -> None:
    """Undo the moves of a transaction and apply them again one by one, with extension terms."""
    length = draft.transaction.length[0]
    undo_transaction(problem, solution, draft.transaction, 0)
    draft.transaction.length[0] = length
    for entry in range(length):
        proposal = move_of(draft.transaction, entry)
        foresee(problem, solution, draft.extension_state, proposal)
        apply_with_terms(problem, solution, draft.extension_state, proposal)
