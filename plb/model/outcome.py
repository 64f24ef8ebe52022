"""The outcome of a plan for each service domain, and the reasons that limited it: the data of `Plan.explain`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import TypeVar

import attrs

from plb.model.move import Phase
from plb.phrasing import counted, listed, rule_in_words

Number = TypeVar("Number", int, float)


def summed(first: Mapping[str, Number], second: Mapping[str, Number]) -> dict[str, Number]:
    """Return the sums of two mappings by name; a missing one is 0."""
    return {name: first.get(name, 0) + second.get(name, 0) for name in {**first, **second}}


@attrs.frozen
class Proposals:
    """The proposals of a search."""

    generated: int = 0
    """Number of proposals."""
    scored: int = 0
    """Proposals that passed the constraints, so that their energy or a bound of it was computed."""
    reached_monte_carlo: int = 0
    """Proposals whose repetitions were evaluated."""
    accepted: int = 0
    """Accepted proposals."""
    refused_by_rule: Mapping[str, int] = attrs.field(factory=dict)
    rejected_by_term: Mapping[str, int] = attrs.field(factory=dict)
    """Refusals by constraint or budget, and rejections by the energy term that worsened most."""
    tried_by_neighbourhood: Mapping[str, int] = attrs.field(factory=dict)
    accepted_by_neighbourhood: Mapping[str, int] = attrs.field(factory=dict)
    """Steps of several moves by larger neighbourhood (`plb.search.annealing`). Each counts as one scored and one
    accepted proposal, and as as many generated ones as it asked for nodes and tried moves.
    """

    def __add__(self, other: Proposals) -> Proposals:
        return Proposals(
            self.generated + other.generated,
            self.scored + other.scored,
            self.reached_monte_carlo + other.reached_monte_carlo,
            self.accepted + other.accepted,
            summed(self.refused_by_rule, other.refused_by_rule),
            summed(self.rejected_by_term, other.rejected_by_term),
            summed(self.tried_by_neighbourhood, other.tried_by_neighbourhood),
            summed(self.accepted_by_neighbourhood, other.accepted_by_neighbourhood),
        )


class Idle(Enum):
    """Why a phase did not run; the value completes the sentence "it did not run, because …"."""

    NOT_ASKED = "it was not requested"
    NOT_DUE = "its interval has not passed"
    SWITCHED_OFF = "it is switched off"
    UNDER_WAY = "moves of an earlier plan are under way"
    AFTER_ANOTHER = "an earlier phase had work to do"
    NOTHING_TO_PLACE = "no replica is missing or surplus"
    NOTHING_BROKEN = "no constraint is broken that it may repair"
    BY_POLICY = "a placement policy without balancing is used"
    BALANCED = "no metric is out of balance"
    NOTHING_MOVABLE = "no replica may move"
    NODE_EVENT = "a node was added or removed too recently"
    THROTTLED = "the limit of moves is reached"
    PARTITIONS_THROTTLED = "too many imbalanced partitions have moved too often recently"
    UNCHANGED = "nothing has changed since it last found no move"
    NO_NODES = "the cluster has no nodes"


class Immovable(Enum):
    """Why a placed replica may not move; the value completes the sentence "2 of its replicas …"."""

    PINNED = "pinned"
    IN_TRANSITION = "in a partition in transition or quorum loss"
    UPGRADING = "in a partition that is being upgraded"
    NOT_READY = "not ready"
    UNDER_WAY = "still arriving by an earlier move"
    NODE_OUT_OF_SERVICE = "on a node that is down or deactivated"
    NODE_BLOCKED = "on a node that is blocked for the service"
    THROTTLED = "in a partition that has moved too often recently"


@attrs.frozen
class DomainOutcome:
    """The outcome of a plan for the services of one service domain."""

    domain: str
    """Name of its first service."""
    partitions: Sequence[str]
    """Names of its partitions."""
    phases: tuple[Phase, ...]
    """The phases that ran."""
    idle: Mapping[Phase, Idle]
    """Why each of the other phases did not run."""
    immovable: Mapping[str, Mapping[Immovable, int]]
    """Number of replicas that may not move, by partition and reason."""
    end_reason: str
    proposals: Proposals
    bound_by: tuple[str, ...] = ()
    """As in `plb.model.plan.Plan`."""
    action: str | None = None
    """The action, by the name of Service Fabric; None if `refresh` runs all phases that are due."""


def why_it_stays(outcome: DomainOutcome, partition: str) -> list[str]:
    """Return the sentences about a partition that the plan does not change."""
    did = f" ({outcome.action} for service domain {outcome.domain})" if outcome.action else ""
    why = [_what_ran(outcome)] if outcome.phases else []
    asked = {phase: why for phase, why in outcome.idle.items() if why is not Idle.NOT_ASKED}
    for reason in dict.fromkeys(asked.values()):
        phases = _joined([phase.value for phase in Phase if asked.get(phase) is reason])
        why.append(f"{phases} did not run, because {reason.value}")
    sentences = [f"the plan leaves {partition} where it is{did}: {'; '.join(why)}."]
    if partition in outcome.immovable:
        sentences.append(_what_is_immovable(outcome.immovable[partition]))
    return sentences


def _what_ran(outcome: DomainOutcome) -> str:
    """Return which phases ran, why the last ended, and the proposals refused by each rule."""
    text = f"{_joined([phase.value for phase in outcome.phases])} ran and "
    text += "found nothing to change" if outcome.end_reason == "nothing to do" else f"ended ({outcome.end_reason})"
    proposals = outcome.proposals
    if proposals.generated:
        text += f", having accepted {proposals.accepted} of {counted(proposals.generated, 'proposal')}"
    if proposals.refused_by_rule:
        text += f", refused by rule: {_counts(proposals.refused_by_rule)}"
    if proposals.rejected_by_term:
        text += f", rejected by term: {_counts(proposals.rejected_by_term)}"
    if outcome.bound_by:
        text += f", bound by the budget of {_joined([rule_in_words(rule) for rule in outcome.bound_by])}"
    return text


def _joined(words: list[str]) -> str:
    """Return words as an enumeration."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _counts(counts: Mapping[str, int]) -> str:
    """Return counts with their names, the largest first."""
    ordered = sorted(counts.items(), key=lambda pair: -pair[1])
    return listed([f"{count} by {rule_in_words(name)}" for name, count in ordered])


def _what_is_immovable(immovable: Mapping[Immovable, int]) -> str:
    """Return how many replicas may not move, and why."""
    parts = ", ".join(f"{count} {why.value}" for why, count in immovable.items())
    total = sum(immovable.values())
    return f"{counted(total, 'replica')} of it may not move: {parts}."
