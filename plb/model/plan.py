"""Plans: the moves that the engine proposes, and the replicas it could not place. Texts are made on request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from plb.errors import UnknownNameError
from plb.model.move import Move, Phase
from plb.model.outcome import DomainOutcome, Proposals, summed, why_it_stays
from plb.model.plan_moves import PlanMoves
from plb.model.unplaced import Undrained, Unplaced


@attrs.frozen
class Energy:
    """The energy of a configuration, with its terms.

    Parameters
    ----------
    total
        The energy that the search minimised.
    movement
        m, in moves.
    imbalance
        I, mean coefficient of variation.
    fragmentation
        F, sum over the held-out nodes of the mean share in use.
    expected_failovers
        V, expected number of nodes in violation.
    expected_overload
        O, expected excess of nodes over their thresholds, relative to these, summed over nodes and metrics; 0 if its
        weight is 0.
    extension_terms
        The extension terms by name, without their weights.
    """

    total: float
    movement: float
    imbalance: float
    fragmentation: float
    expected_failovers: float
    extension_terms: Mapping[str, float] = attrs.field(factory=dict, hash=False)
    expected_overload: float = attrs.field(default=0.0, kw_only=True)

    def __add__(self, other: Energy) -> Energy:
        return Energy(
            self.total + other.total,
            self.movement + other.movement,
            self.imbalance + other.imbalance,
            self.fragmentation + other.fragmentation,
            self.expected_failovers + other.expected_failovers,
            summed(self.extension_terms, other.extension_terms),
            expected_overload=self.expected_overload + other.expected_overload,
        )

    @property
    def terms(self) -> dict[str, float]:
        """The terms by name."""
        fields = attrs.asdict(self)
        del fields["total"], fields["extension_terms"]
        return {**fields, **self.extension_terms}


@attrs.frozen
class Plan:
    """The moves that the engine proposes, with their context.

    Parameters
    ----------
    moves
        In an order in which they can be applied. Those of an engine are equal to a tuple and made when looked at.
    energy_before, energy_after
        Energy before and after the moves; `energy_before.movement` is 0. The expected failovers of a promoted secondary
        are those of a primary from the next plan on.
    unplaced
        Replicas that are not placed.
    end_reason
        Why the last search ended.
    phases
        The phases that ran.
    proposals
        Counts of the proposals.
    actions
        The action for each service domain, by the name of its first service.
    bound_by
        Budgets that refused a proposal or delayed a repair: ``"moves"``, ``"node_moves"``, ``"service_moves"``.
    outcomes
        For each service domain: the phases that ran, why the others did not, and the replicas that may not move.
    reproducible
        False if a time limit ended a search, instead of a number of proposals.
    renewed
        Replicas whose expected demand was computed again since the plan before: new ones, those with reports or other
        classes, and those whose age made it due. It does not count when plans are compared.
    temperature
        The temperature at the end of balancing, in units of the energy; the highest of several service domains. None:
        no balancing ran. `Budget.temperature` continues from it.
    undrained
        Replicas that stay on nodes that have to be emptied, if the plan looked for repairs.
    """

    moves: Sequence[Move]
    energy_before: Energy
    energy_after: Energy
    unplaced: tuple[Unplaced, ...] = ()
    end_reason: str = "nothing to do"
    phases: tuple[Phase, ...] = ()
    proposals: Proposals = attrs.field(factory=Proposals)
    bound_by: tuple[str, ...] = ()
    actions: Mapping[str, str] = attrs.field(factory=dict)
    outcomes: tuple[DomainOutcome, ...] = ()
    reproducible: bool = True
    renewed: int = attrs.field(default=0, eq=False)
    temperature: float | None = None
    undrained: tuple[Undrained, ...] = ()

    def explain(self, partition: str) -> str:
        """Return in one or two sentences the moves of a partition and their reasons, or why there are none.

        Raises
        ------
        UnknownNameError
            The engine did not have the partition when it made the plan.
        """
        sentences = [f"{move}: {move.reason}." for move in self.moves if move.partition == partition]
        refusals = (*self.unplaced, *self.undrained)
        sentences += [f"{refusal}." for refusal in refusals if refusal.partition == partition]
        if not sentences:
            sentences = why_it_stays(self._outcome_for(partition), partition)
        return " ".join(sentence[0].upper() + sentence[1:] for sentence in sentences)

    def _outcome_for(self, partition: str) -> DomainOutcome:
        """Return the action for the service domain of a partition."""
        for outcome in self.outcomes:
            if partition in outcome.partitions:
                return outcome
        known = [name for outcome in self.outcomes for name in outcome.partitions]
        raise UnknownNameError("partition", partition, known, context="plan")


def merged(plans: Sequence[Plan]) -> Plan:
    """Return the plans of several service domains as one; the energies are added by term."""
    if len(plans) == 1:
        return plans[0]
    zero = Energy(0.0, 0.0, 0.0, 0.0, 0.0)
    return Plan(
        moves=PlanMoves.joined(plan.moves for plan in plans),
        energy_before=sum((plan.energy_before for plan in plans), zero),
        energy_after=sum((plan.energy_after for plan in plans), zero),
        unplaced=tuple(unplaced for plan in plans for unplaced in plan.unplaced),
        undrained=tuple(undrained for plan in plans for undrained in plan.undrained),
        end_reason="; ".join(dict.fromkeys(plan.end_reason for plan in plans)) or "nothing to do",
        phases=tuple(dict.fromkeys(phase for plan in plans for phase in plan.phases)),
        proposals=sum((plan.proposals for plan in plans), Proposals()),
        bound_by=tuple(dict.fromkeys(rule for plan in plans for rule in plan.bound_by)),
        outcomes=tuple(outcome for plan in plans for outcome in plan.outcomes),
        reproducible=all(plan.reproducible for plan in plans),
        temperature=max((plan.temperature for plan in plans if plan.temperature is not None), default=None),
    )
