"""One simulated annealing chain in plain Python, with extension terms and constraints.

It follows the same rule as `plb.search.annealing_chain`. Kernels generate each proposal and evaluate its built-in part.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from plb.array_types import NOWHERE, Int
from plb.compiler import Stream, working_time
from plb.constraints.domains import SPREADING
from plb.energy.from_scratch import solution_from_scratch
from plb.evaluation.constraint_chain import are_siblings
from plb.evaluation.delta import present_energy
from plb.evaluation.proposals import ACCEPTED, FIRST_RULE, FIRST_TERM, GENERATED, REJECTED, SCORED, evaluate
from plb.evaluation.self_checks import compare_with_scratch
from plb.extensions.configuration import Proposal
from plb.extensions.energy_terms import apply_proposal_of_terms, begin, delta, take_back
from plb.model.rules import Rule
from plb.search.affinity_moves import move_children
from plb.search.cooling_schedule import (
    END,
    ENERGY,
    ROUND_ENERGY,
    ROUND_HAD_BEST,
    RUNNING,
    SCHEDULE_SIZE,
    SPENT,
    STEP,
    TEMPERATURE,
    Settings,
    end_round,
    first_temperature,
)
from plb.search.extended.extension_state import compare_term
from plb.search.extended.extensions import Extensions
from plb.search.move_generation import Choice, generate_proposal
from plb.search.result import new_tally
from plb.search.spread_moves import make_spread_moves
from plb.search.transactions import Transaction, new_transaction, try_move, undo_transaction
from plb.settings.config import Checks
from plb.state.arrays import DISPLACED, IMBALANCE, MOVEMENT, Problem, Solution

PROPOSALS_BETWEEN_LOOKS = 64
"""Proposals between two readings of the clock."""


class ExtendedChain:
    """A chain on a copy of a solution.

    Parameters
    ----------
    choice, settings
        As for the compiled chains.
    capacity
        Largest number of moves of one proposal; 0 where no proposal has further moves.
    """

    def __init__(
        self,
        extensions: Extensions,
        problem: Problem,
        start: Solution,
        choice: Choice,
        settings: Settings,
        stream: np.random.SeedSequence,
        capacity: int,
    ) -> None:
        self.extensions, self.problem, self.choice, self.settings = extensions, problem, choice, settings
        self.solution = start.copy()
        self.configuration = extensions.configuration(problem, self.solution)
        self.terms = extensions.new_terms()
        self.rng = Stream(stream)
        self.schedule = np.zeros(SCHEDULE_SIZE)
        self.tally = new_tally()
        self._transaction: Transaction = new_transaction(capacity)
        self.values = {}
        for term in self.terms:
            begin(term, self.configuration)
            self.values[term.name] = float(term.total(self.configuration))
        self._record_best(self._energy())

    def run(self, checks: Checks, deadline: float | None) -> bool:
        """Run the chain to its end; return whether the deadline ended it."""
        self._start()
        while self.schedule[END] == RUNNING:
            self._step()
            if checks is Checks.STEP:
                self.check(f"proposal {self.tally[GENERATED]}")
            self.schedule[STEP] += 1.0
            if self.schedule[STEP] >= self.settings.simulated_annealing_iterations_per_round:
                end_round(self.settings, self.schedule)
            reads_clock = self.tally[GENERATED] % PROPOSALS_BETWEEN_LOOKS == 0
            if reads_clock and deadline is not None and working_time() >= deadline:
                return bool(self.schedule[END] == RUNNING)
        return False

    def best(self) -> tuple[Solution, float]:
        """Return the best solution of the chain and its energy, both computed from scratch."""
        solution = solution_from_scratch(self.problem, self._best_node.copy())
        extension_energy = self.extensions.weighted(self.extensions.totals(self.problem, solution))
        return solution, float(present_energy(self.problem, solution)) + extension_energy

    def _energy(self) -> float:
        return float(present_energy(self.problem, self.solution)) + self.extensions.weighted(self.values)

    def _generate(self) -> Proposal | None:
        row, target, partner = generate_proposal(self.problem, self.solution, self.choice, self.rng)
        if row == NOWHERE or target == self.solution.node[row]:
            return None
        return Proposal(int(row), int(target), int(partner))

    def _start(self) -> None:
        """Initialize the schedule; the first temperature follows from the largest energy change of a few probes."""
        base = float(present_energy(self.problem, self.solution))
        extension_energy = self.extensions.weighted(self.values)
        largest = 0.0
        for _ in range(self.settings.probes):
            proposal = self._generate()
            if proposal is None or self.configuration.refusal(proposal, self.choice.enforced) is not None:
                continue
            if self.extensions.refusal(self.configuration, proposal) is None:
                after_extensions = self.extensions.weighted(self._after(self._changes(proposal)))
                after = self._evaluate(proposal, REJECTED, self.tally)
                largest = max(largest, abs(after - base + (after_extensions - extension_energy)))
        slots = len(self.choice.creation) + self.choice.migrations
        energy = self._energy()
        self.schedule[TEMPERATURE] = first_temperature(self.settings, slots, self.solution.terms[IMBALANCE]) * largest
        self.schedule[[ENERGY, ROUND_ENERGY]] = energy
        self.schedule[END] = SPENT if self.settings.rounds == 0 else RUNNING

    def _step(self) -> None:
        """Generate one proposal and accept or reject it."""
        self.tally[GENERATED] += 1
        proposal = self._generate()
        if proposal is None:
            return
        enforced = self.choice.enforced
        refused = self.configuration.refusal(proposal, enforced)
        spreads = refused in (Rule.FAULT_DOMAIN, Rule.UPGRADE_DOMAIN)
        makes_spread_moves = spreads and self.choice.makes_spread_moves and proposal.partner == NOWHERE
        if makes_spread_moves:
            refused = self.configuration.refusal(proposal, enforced & ~SPREADING)
        if refused is not None:
            self.tally[FIRST_RULE + refused] += 1
            return
        highest = self.schedule[ENERGY] - self.schedule[TEMPERATURE] * math.log(1.0 - self.rng.random())
        moves = (
            self._with_affinity_moves(proposal, makes_spread_moves)
            if makes_spread_moves or self._has_children(proposal)
            else [proposal]
        )
        if moves == [proposal]:
            self._decide_single(proposal, highest)
        elif moves:
            self._decide_together(moves, highest)

    def _decide_single(self, proposal: Proposal, highest: float) -> None:
        """Accept or reject a proposal without further moves."""
        if self.extensions.refuse(self.configuration, proposal) is not None:
            return
        changes = self._changes(proposal)
        after_extensions = self.extensions.weighted(self._after(changes))
        seen = new_tally()
        base = self._evaluate(proposal, highest - after_extensions, seen)
        if base == REJECTED:
            worst = max(changes, key=lambda name: self.extensions.weights[name] * changes[name], default=None)
            if worst is not None and self.extensions.weights[worst] * changes[worst] > 0.0:
                seen[FIRST_TERM:] = 0
                self.extensions.rejected[worst] += 1
            self.tally += seen
            return
        self.tally += seen
        movement = self.solution.counts[MOVEMENT]
        back = apply_proposal_of_terms(self.terms, self.configuration, proposal)
        if self._is_idle(base + after_extensions, movement):
            take_back(self.terms, self.configuration, proposal, back)
            return
        self._accept(self._after(changes))

    def _decide_together(self, moves: list[Proposal], highest: float) -> None:
        """Accept or reject a proposal together with its spread and affinity moves."""
        movement, before = self.solution.counts[MOVEMENT], dict(self.values)
        known = set(self.extensions.broken_by_name(self.configuration))
        done = []
        for move in moves:
            changes = self._changes(move)
            done.append((move, apply_proposal_of_terms(self.terms, self.configuration, move)))
            self.values = self._after(changes)
        self.tally[SCORED] += 1
        worse = [name for name, row in self.extensions.broken_by_name(self.configuration) if (name, row) not in known]
        energy = self._energy()
        if worse or energy > highest or self._is_idle(energy, movement):
            if worse:
                self.extensions.refused[worse[0]] += 1
            for move, back in reversed(done):
                take_back(self.terms, self.configuration, move, back)
            self.values = before
            return
        self._accept(self.values)

    def _with_affinity_moves(self, proposal: Proposal, makes_spread_moves: bool) -> list[Proposal]:
        """Return a proposal as single moves, with its spread and affinity moves; empty if refused."""
        problem, solution, transaction = self.problem, self.solution, self._transaction
        row, partner, enforced = proposal.row, proposal.partner, self.choice.enforced
        here, displaced = solution.node[row], solution.counts[DISPLACED]
        transaction.length[0] = 0
        try_move(problem, solution, transaction, row, proposal.target)
        if partner != NOWHERE:
            try_move(problem, solution, transaction, partner, here)
        rule = None
        if makes_spread_moves and not make_spread_moves(problem, solution, enforced, row, self.rng, transaction):
            rule = Rule.FAULT_DOMAIN
        elif not self._move_children(proposal):
            rule = Rule.AFFINITY
        elif solution.counts[DISPLACED] > max(self.choice.migrations, displaced):
            rule = Rule.MOVES
        moves = [Proposal(int(transaction.row[i]), int(transaction.target[i])) for i in range(transaction.length[0])]
        undo_transaction(problem, solution, transaction, 0)
        if rule is None:
            return moves
        self.tally[FIRST_RULE + rule] += 1
        return []

    def _move_children(self, proposal: Proposal) -> bool:
        problem, partner = self.problem, proposal.partner
        heads = [proposal.row]
        if partner != NOWHERE and not are_siblings(problem, proposal.row, partner):
            heads.append(partner)
        enforced = self.choice.enforced
        return all(
            move_children(problem, self.solution, enforced, head, 0, self.rng, self._transaction) for head in heads
        )

    def _has_children(self, proposal: Proposal) -> bool:
        rows = (proposal.row,) if proposal.partner == NOWHERE else (proposal.row, proposal.partner)
        return any(self.problem.first_child[row] != NOWHERE for row in rows)

    def _changes(self, proposal: Proposal) -> dict[str, float]:
        return {term.name: float(delta(term, self.configuration, proposal)) for term in self.terms}

    def _after(self, changes: Mapping[str, float]) -> dict[str, float]:
        """Return the values of the terms after these changes, by name."""
        return {name: self.values[name] + changes[name] for name in self.values}

    def _evaluate(self, proposal: Proposal, highest: float, tally: Int) -> float:
        """Return the built-in part of the energy after a proposal, or REJECTED if it is above `highest`."""
        row, target, partner = proposal.row, proposal.target, proposal.partner
        return float(evaluate(self.problem, self.solution, highest, row, target, partner, tally))

    def _is_idle(self, energy: float, movement: int) -> bool:
        """Return whether an applied step at temperature 0 improves neither the energy nor the movement cost."""
        unchanged = self.schedule[TEMPERATURE] == 0.0 and energy == self.schedule[ENERGY]
        return bool(unchanged and self.solution.counts[MOVEMENT] >= movement)

    def _accept(self, values: dict[str, float]) -> None:
        """Accept the applied step; record the solution if it is the best so far."""
        self.tally[ACCEPTED] += 1
        self.values = values
        energy = self.schedule[ENERGY] = self._energy()
        movement = self.solution.counts[MOVEMENT]
        if energy < self._best_energy or (energy == self._best_energy and movement < self._best_movement):
            self.schedule[ROUND_HAD_BEST] = 1.0
            self._record_best(energy)

    def _record_best(self, energy: float) -> None:
        self._best_energy, self._best_movement = energy, int(self.solution.counts[MOVEMENT])
        self._best_node = self.solution.node.copy()

    def check(self, moment: str) -> None:
        """Raise `CheckFailedError` if an accumulator, or a sum of changes of a term, differs from one from scratch.

        Parameters
        ----------
        moment
            When the check runs, for the message.
        """
        compare_with_scratch(self.problem, self.solution, moment)
        for name, right in self.extensions.totals(self.problem, self.solution).items():
            compare_term(name, self.values[name], right, moment)
