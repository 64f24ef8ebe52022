"""What the phases of a call have done: how they ended, their counts, and why each replica moved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from plb.array_types import Int
from plb.evaluation.proposals import FIRST_RULE
from plb.model.move import Move, Phase, Reason
from plb.model.outcome import DomainOutcome, Idle, Proposals
from plb.model.rules import BUDGETS, Rule
from plb.planning.service_domains import ServiceDomain, concerned, immovable_replicas
from plb.search.budget import EndReason
from plb.search.result import Annealed, new_tally, proposals_of
from plb.state.arrays import Problem
from plb.state.cluster_state import ClusterState


class PhaseLog:
    """What has been done so far.

    Attributes
    ----------
    phases
        Those that have run, in order; one may run several times.
    end
        How the last one ended.
    tally
        Counts of the proposals, (TALLY_SIZE,).
    out_of_time
        Whether a search ended for lack of time.
    temperature
        That at which balancing ended; None: it did not run.
    orders
        Moves that change roles for an upgrade, or tell that one cannot change.
    reasons
        Why each row has moved.
    """

    def __init__(self) -> None:
        self.phases: list[Phase] = []
        self.end = EndReason.NOTHING_TO_DO
        self.tally: Int = new_tally()
        self.out_of_time = False
        self.temperature: float | None = None
        self.orders: list[Move] = []
        self.reasons: dict[int, Reason] = {}
        self._larger_steps = Proposals()
        self._bounding: set[Rule] = set()
        self._idle: dict[Phase, Idle] = {}

    def skip(self, phase: Phase) -> None:
        """Note that a phase would only begin again where it ended; why an earlier one ended stays."""
        if not self.phases:
            self.end = EndReason.UNCHANGED
        self.note_idle(phase, Idle.UNCHANGED)

    def looked_for(self, phase: Phase) -> bool:
        """Return whether there is no work left for a phase but what it found no move for."""
        return phase in self.phases or self._idle.get(phase) in (Idle.NOTHING_BROKEN, Idle.UNCHANGED)

    def note_idle(self, phase: Phase, why: Idle) -> None:
        """Note why a phase does not run; the first reason stays."""
        self._idle.setdefault(phase, why)

    def note_bounding(self, budgets: Iterable[Rule]) -> None:
        """Note budgets of moves that keep a repair from going on."""
        self._bounding.update(budgets)

    def note_end(self, phase: Phase, result: Annealed) -> None:
        """Note the end of a search."""
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
        """Return what has been done.

        `domain`: the service domain that was searched; None: all services.
        `action`: what was done, where a refresh does one thing only.
        `immovable_rows`: the placed replicas that no plan may move.
        `of_extensions`: counts of the proposals that extensions refused or rejected; None: there are none.
        """
        phases = tuple(dict.fromkeys(self.phases))
        proposals = proposals_of(self.tally, self._larger_steps) if phases else Proposals()
        return DomainOutcome(
            *concerned(state, domain),
            phases=phases,
            idle=self._idle_besides(phases),
            immovable=immovable_replicas(state, problem, domain, immovable_rows),
            end_reason=self.end.value,
            proposals=proposals if of_extensions is None else proposals + of_extensions,
            bound_by=tuple(
                rule.name.lower() for rule in BUDGETS if rule in self._bounding or self.tally[FIRST_RULE + rule]
            ),
            action=action,
        )

    def _idle_besides(self, phases: Sequence[Phase]) -> Mapping[Phase, Idle]:
        return {phase: why for phase, why in self._idle.items() if phase not in phases}
