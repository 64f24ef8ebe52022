"""What the phases of one call share: the solution with its limits, and what the phases have done."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

import attrs
import numpy as np

from plb.array_types import NOWHERE, Int
from plb.constraints.throttling import most_in_build
from plb.energy.soft_violations import SoftCount, soft_count
from plb.energy.terms import values_of
from plb.evaluation.delta import compare_with_scratch
from plb.evaluation.proposals import FIRST_RULE
from plb.model.move import Move, Phase, Reason
from plb.model.outcome import DomainOutcome, Idle, Proposals
from plb.model.plan import Energy
from plb.model.rules import BUDGETS, Rule
from plb.planning.explanations.omissions import unreported_partitions
from plb.planning.live.work_lists import WorkLists
from plb.planning.rule_priorities import rule_masks
from plb.planning.service_domains import ServiceDomain, concerned, immovable_replicas
from plb.search.balancing import is_unbalanced, unbalanced_services
from plb.search.budget import Budget, EndReason
from plb.search.extensions import Extensions, energy_with
from plb.search.repair.breaches import Breaches, find_breaches, rows_judged_by, suspects_after
from plb.search.result import Annealed, new_tally, proposals_of
from plb.search.transactions import NO_PLACES, NO_ROWS, Places, go_to, moved_rows
from plb.settings.config import Checks
from plb.state.arrays import NO_BUDGET, TENTHS, Problem, Solution
from plb.state.cluster_state import ClusterState
from plb.state.replica_table import merged


class PhaseLog:
    """What the phases of a call have done so far."""

    def __init__(self) -> None:
        self.phases: list[Phase] = []
        """The phases that have run, in order; one may run several times."""
        self.end = EndReason.NOTHING_TO_DO
        """How the last phase ended."""
        self.tally: Int = new_tally()
        """Counts of the proposals, (TALLY_SIZE,)."""
        self.out_of_time = False
        self.temperature: float | None = None
        """The temperature at which balancing ended; None: it did not run."""
        self.orders: list[Move] = []
        """Moves that change roles for an upgrade, or tell that a role cannot change."""
        self.reasons: dict[int, Reason] = {}
        """Why each row has moved."""
        self._larger_steps = Proposals()
        self._bounding: set[Rule] = set()
        self._idle: dict[Phase, Idle] = {}

    def skip(self, phase: Phase) -> None:
        """Note that `phase` is skipped, as nothing has changed since its last run; the end of another phase stays."""
        if not self.phases:
            self.end = EndReason.UNCHANGED
        self.note_idle(phase, Idle.UNCHANGED)

    def looked_for(self, phase: Phase) -> bool:
        """Return whether a phase has run or had no reason to, so that no move can do the work that is left."""
        return phase in self.phases or self._idle.get(phase) in (Idle.NOTHING_BROKEN, Idle.UNCHANGED)

    def note_idle(self, phase: Phase, why: Idle) -> None:
        """Note why a phase does not run; the first reason stays."""
        self._idle.setdefault(phase, why)

    def note_bounding(self, budgets: Iterable[Rule]) -> None:
        """Note budgets of moves that keep a repair from going on."""
        self._bounding.update(budgets)

    def note_end(self, phase: Phase, result: Annealed) -> None:
        """Note the end of a search of `phase`: its reason, temperature and counts of proposals, from its `result`."""
        self.phases.append(phase)
        self.end = result.end_reason
        if phase is Phase.BALANCING:
            self.temperature = result.temperature
        self.out_of_time |= result.end_reason is EndReason.OUT_OF_TIME
        self.tally += result.tally
        self._larger_steps += result.larger_steps

    def outcome(
        self,
        state: ClusterState,
        problem: Problem,
        domain: ServiceDomain | None,
        action: str | None,
        immovable_rows: Sequence[int],
        of_extensions: Proposals | None,
    ) -> DomainOutcome:
        """Return what has been done in a service domain (None: in all services), by an action of a refresh if any.

        `immovable_rows`: placed rows that no plan moves; `of_extensions`: proposals that extensions refused, rejected.
        """
        phases = tuple(dict.fromkeys(self.phases))
        proposals = proposals_of(self.tally, self._larger_steps) if phases else Proposals()
        return DomainOutcome(
            *concerned(state, domain),
            phases=phases,
            idle={phase: why for phase, why in self._idle.items() if phase not in phases},
            immovable=immovable_replicas(state, problem, domain, immovable_rows),
            end_reason=self.end.value,
            proposals=proposals if of_extensions is None else proposals + of_extensions,
            bound_by=tuple(
                rule.name.lower() for rule in BUDGETS if rule in self._bounding or self.tally[FIRST_RULE + rule]
            ),
            action=action,
            unreported=unreported_partitions(state, None if domain is None else domain.services),
        )


class PhaseState:
    """The solution that the phases of a call change, with its limits and what is broken or out of balance in it."""

    def __init__(
        self,
        state: ClusterState,
        problem: Problem,
        solution: Solution,
        seed: np.random.SeedSequence,
        budget: Budget,
        work: WorkLists,
        extensions: Extensions | None = None,
        *,
        waits_for_upgrade: bool = False,
    ) -> None:
        """Begin with all replicas on their nodes; `budget`: of each phase; `waits_for_upgrade`: it does not balance."""
        self.state, self.problem = state, problem
        self._waits_for_upgrade = waits_for_upgrade
        self.budget, self._of_placement_and_repair = budget, attrs.evolve(budget, temperature=None)
        self._work = work
        self.config = state.config
        self._described = problem
        self.solution: Solution = solution
        self._extensions = extensions
        self._energy_before = energy_with(extensions, problem, solution)
        self._values_before = values_of(solution)
        self._others: Int = NO_ROWS
        self.moved_rows: Int = NO_ROWS
        self._problems: dict[Phase, tuple[Problem, Problem]] = {}
        self._changes = 0
        self._policy = None if extensions is None else extensions.policy
        self._seed = seed
        self.log = PhaseLog()
        if self._policy is not None:
            self.log.note_idle(Phase.BALANCING, Idle.BY_POLICY)
        self._kept_count: tuple[Problem, int, SoftCount] | None = None
        self._kept_breaches: tuple[int, Problem, int, Breaches] | None = None
        self.leaves_alone = False
        """Whether partitions were made immovable for this call."""
        self._is_full = False
        self._is_cut = False
        self.searches_after = 0
        """Searches of this call that may follow the next one, and share its time."""
        self.is_held_back = False
        """Whether builds or swaps under way leave less for this search."""
        self.start: Places = NO_PLACES
        """Where balancing begins: the places of an earlier plan, or all replicas on their nodes."""

    @property
    def is_bound(self) -> bool:
        """Whether a limit of time, or a budget that moves have reduced, may have kept a search from going on."""
        problem = self.problem
        least_budgets = problem.max_node_moves.min(initial=NO_BUDGET), problem.max_service_moves.min()
        fewest = min(problem.max_moves, *least_budgets, problem.max_builds, problem.max_swaps)
        limited = self._is_full or fewest < NO_BUDGET
        return self.log.out_of_time or bool(limited and (self.changed or self._is_cut or self.is_held_back))

    def kernel_errors(self) -> AbstractContextManager[None]:
        """Return a context in which an error of an extension's kernel names the extension."""
        return nullcontext() if self._extensions is None else self._extensions.kernel_errors()

    @property
    def changed(self) -> bool:
        """Whether a phase has made moves so far."""
        return bool(self.log.reasons)

    @property
    def may_repair_more(self) -> bool:
        """Whether a repair has succeeded and, as a refresh performs one action, has tried no further priority."""
        return self.config.one_action_per_refresh and self.changed

    @property
    def changes_roles(self) -> bool:
        """Whether a primary changes for an upgrade."""
        return bool(self.log.orders) or self.problem.role is not self._described.role

    @property
    def is_anything_movable(self) -> bool:
        """Whether a plan may move any placed replica."""
        return bool((self.problem.repairable & (self.solution.node != NOWHERE)).any())

    def limit_moves(self, allowance: int | None) -> int:
        """Limit the moves of the plan to `allowance` if its limit is larger, None: leave it; return the limit."""
        if allowance is not None:
            self.problem = self.problem._replace(bounded=True, max_moves=min(self.problem.max_moves, allowance))
        return self.problem.max_moves

    @property
    def moves_so_far(self) -> int:
        """The number of moves of the plan so far, with changes of roles for an upgrade."""
        return -(-int(self.solution.totals.moves) // TENTHS)

    @contextmanager
    def limited_to(self, allowance: int | None) -> Iterator[None]:
        """Limit the further moves in the context to `allowance`; None: leave the limit as it is."""
        bounded, most = self.problem.bounded, self.problem.max_moves
        self.limit_moves(None if allowance is None else allowance + self.moves_so_far)
        yield
        self.problem = self.problem._replace(bounded=bounded, max_moves=most)

    def deduct_under_way(self, builds: int, swaps: int) -> None:
        """Reduce the limits of the problem by the numbers of builds and of swaps of roles under way."""
        problem = self.problem
        limits = (problem.max_builds, builds), (problem.max_swaps, swaps)
        self.is_held_back |= any(most < NO_BUDGET and used > 0 for most, used in limits)
        most_builds, most_swaps = (max(0, most - used) if most < NO_BUDGET else most for most, used in limits)
        self.problem = problem._replace(max_builds=most_builds, max_swaps=most_swaps)

    def deduct(self, earlier: Sequence[PhaseState]) -> None:
        """Reduce the budgets of the whole plan by the moves, builds and swaps of `earlier` runs, of other domains."""
        for run in earlier:
            totals = run.solution.totals
            self._is_cut |= bool(totals.moves)
            if self.problem.throttled:
                self.deduct_under_way(totals.builds // TENTHS, totals.swaps // TENTHS)
            self.problem = self.problem._replace(
                max_moves=max(0, self.problem.max_moves - run.moves_so_far),
                max_node_moves=np.maximum(0, self.problem.max_node_moves - run.solution.node_moves),
            )

    def is_anything_broken(self, *, light: bool = False) -> bool:
        """Return whether a constraint of any priority is broken; `light`: without the spread over domains."""
        return bool(self._broken_extensions) or bool(self._breaches(rule_masks(self.config, light=light)[0]))

    def _breaches(self, enforced: int) -> Breaches:
        """Return the enforced constraints that are broken now; computed again only after changes."""
        kept = self._kept_breaches
        if kept is None or kept[0] != enforced or kept[1] is not self.problem or kept[2] != self._changes:
            breaches = find_breaches(self._problem_of(Phase.REPAIR), self.solution, enforced, self._suspects)
            kept = self._kept_breaches = enforced, self.problem, self._changes, breaches
        return kept[3]

    @property
    def _suspects(self) -> Int:
        """The rows, ascending, that may break a rule now: rows that did at the start, and rows near changes."""
        breaking = np.array(sorted(self._work.breaking), np.int64)
        if self.problem.role is not self._described.role:
            changed = np.flatnonzero(self.problem.role != self._described.role)
            breaking = merged(breaking, rows_judged_by(self.problem, changed))
        return suspects_after(self.problem, self.solution, breaking, self._others)

    def undo(self) -> None:
        """Return all replicas to their nodes at the start."""
        go_to(self.problem, self.solution, NO_PLACES, self._others)
        self._note_changes("undo")

    def _note_changes(self, moment: str) -> None:
        """Note that the solution has changed; check its sums if the settings request it, naming `moment` in errors."""
        self._changes += 1
        self.moved_rows = moved_rows(self.problem, self.solution, self._others)
        if self.config.checks is not Checks.OFF:
            compare_with_scratch(self.problem, self.solution, moment)

    def _add_others(self, rows: Sequence[int]) -> None:
        """Note that replicas `rows`, which `Solution.displaced` does not list, may be placed or dropped."""
        self._others = merged(np.array(sorted(rows), np.int64), self._others)

    @property
    def is_unbalanced(self) -> bool:
        """Whether a metric or an extension term may need balancing, which no policy does and an upgrade may delay."""
        if self._policy is not None or self._waits_for_upgrade:
            return False
        return bool(self.config.extension_terms) or is_unbalanced(
            self.problem, self.solution, self.config, self.state.quanta
        )

    @property
    def is_at_risk(self) -> bool:
        """Whether a node from which replicas may move expects violations that are worth a move."""
        if self.config.violation_cost is None or self._policy is not None or self._waits_for_upgrade:
            return False
        count, node = self._count_at_start(), self.solution.node
        nodes = np.unique(node[self.problem.movable & (node != NOWHERE)])
        return bool((count.violations[nodes] * count.price > count.least_cost).any())

    def _count_at_start(self) -> SoftCount:
        """Return the violations that nodes expect between two phases; counted again only after changes."""
        kept = self._kept_count
        if kept is None or kept[0] is not self.problem or kept[1] != self._changes:
            count = soft_count(self.problem, self.solution, self.config)
            kept = self._kept_count = self.problem, self._changes, count
        return kept[2]

    @property
    def may_balance(self) -> bool:
        """Whether balancing has a reason to begin."""
        return self.is_unbalanced or self.is_at_risk

    def unbalanced_partitions(self, services: Sequence[int]) -> list[str]:
        """Return the partitions of the services with an imbalanced metric."""
        unbalanced = self._unbalanced_services & {*services}
        return [record.name for record in self.state.partitions.values() if record.service in unbalanced]

    def partitions_at_risk(self, services: Sequence[int]) -> list[str]:
        """Return the partitions of the services, any of which a relief of nodes at risk may move."""
        return [record.name for record in self.state.partitions.values() if record.service in {*services}]

    @property
    def _unbalanced_services(self) -> set[int]:
        """The services that have a metric out of balance, by index."""
        living = self.state.living_services()
        return unbalanced_services(self.problem, self.solution, self.config, self.state.quanta, living)

    def leave_alone(self, partitions: Iterable[str]) -> None:
        """Make the replicas of these partitions immovable for all further phases."""
        rows = [row for name in partitions for row in self.state.partition(name).rows]
        if rows:
            movable, repairable = self.problem.movable.copy(), self.problem.repairable.copy()
            movable[rows] = repairable[rows] = False
            self.problem = self.problem._replace(movable=movable, repairable=repairable)
            self.leaves_alone = True

    def _energy(self, solution: Solution) -> Energy:
        """Return the energy of a solution under the problem and the extensions of this call."""
        return energy_with(self._extensions, self.problem, solution)

    @property
    def _broken_extensions(self) -> Mapping[int, str]:
        """The rows that break an extension constraint, each with its name."""
        extensions = self._extensions
        if extensions is None or not extensions.constraints:
            return {}
        return extensions.broken(extensions.configuration(self.problem, self.solution))

    def _problem_of(self, phase: Phase) -> Problem:
        """Return the problem of a phase (docs/service-fabric.md, Movable replicas and Capacity)."""
        problem = self.problem
        kept = self._problems.get(phase)
        if kept is not None and kept[0] is problem:
            return kept[1]
        if problem.throttles:
            problem = problem._replace(most_in_build=most_in_build(self.state, phase))
        if phase is Phase.REPAIR:
            transient = np.array([metric.transient for metric in self.config.metrics])
            problem = problem._replace(
                counts_departed=bool(transient.any()),
                transient=transient,
                movable=problem.repairable,
                move_limit=problem.repair_limit,
            )
        self._problems[phase] = self.problem, problem
        return problem
