"""The outcome of a plan: how its searches ended, what bound them, and which replicas have no place and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import TypeVar

import attrs

from plb.model.expressions import UnmetClause
from plb.model.move import Phase
from plb.model.role import Role
from plb.model.rules import BUDGETS
from plb.phrasing import counted, listed, rule_in_words

Counts = TypeVar("Counts")


def added(first: Counts, second: Counts) -> Counts:
    """Return an object of the same attrs class with the sum of each field.

    Mappings are added by key, missing ones as 0.
    """
    sums = {}
    for name in attrs.fields_dict(type(first)):  # type: ignore[arg-type]
        pair = getattr(first, name), getattr(second, name)
        if isinstance(pair[0], Mapping):
            sums[name] = {key: pair[0].get(key, 0) + pair[1].get(key, 0) for key in {**pair[0], **pair[1]}}
        else:
            sums[name] = pair[0] + pair[1]
    return type(first)(**sums)


@attrs.frozen
class Proposals:
    """The proposals of a search."""

    generated: int = 0
    """All proposals."""
    scored: int = 0
    """Proposals that passed the constraints, so that their energy or a bound of it was computed."""
    reached_monte_carlo: int = 0
    """Proposals whose repetitions were evaluated."""
    accepted: int = 0
    """Proposals that became moves."""
    refused_by_rule: Mapping[str, int] = attrs.field(factory=dict)
    """Refused proposals, by name of the constraint or budget."""
    rejected_by_term: Mapping[str, int] = attrs.field(factory=dict)
    """Proposals rejected for their energy, by name of the term that worsened most."""
    tried_by_neighbourhood: Mapping[str, int] = attrs.field(factory=dict)
    """Tried steps of several moves, by name of the larger neighbourhood (`plb.search.annealing`)."""
    accepted_by_neighbourhood: Mapping[str, int] = attrs.field(factory=dict)
    """Accepted steps of several moves. Each counts as one scored and one accepted proposal, and as as many generated
    ones as it asked for nodes and tried moves.
    """

    def __add__(self, other: Proposals) -> Proposals:
        return added(self, other)


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
    NOT_WORTH_A_MOVE = "no move avoids more violations than it costs, and no metric is out of balance"
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
    NODE_DOWN = "on a node that is down, which keeps it until the partition is described without it"
    NODE_DEACTIVATED = "on a deactivated node, from which only the marks of an upgrade move replicas"
    NODE_BLOCKED = "on a node that is blocked for the service"
    THROTTLED = "in a partition that has moved too often recently"


@attrs.frozen
class DomainOutcome:
    """The outcome of a plan for the services of one service domain."""

    domain: str
    """Name of its first service."""
    partitions: Sequence[str]
    """Names of the partitions of the services."""
    phases: tuple[Phase, ...]
    """The phases that ran, in order."""
    idle: Mapping[Phase, Idle]
    """Why each of the other phases did not run, by phase."""
    immovable: Mapping[str, Mapping[Immovable, int]]
    """Number of replicas that may not move, by partition and reason."""
    end_reason: str
    """Why the last search ended, as in `plb.model.plan.Plan`."""
    proposals: Proposals
    """The proposals of all searches."""
    bound_by: tuple[str, ...] = ()
    """Names of the budgets that refused a proposal, as in `plb.model.plan.Plan`."""
    action: str | None = None
    """The action, by the name of Service Fabric; None if `refresh` runs all phases that are due."""
    unreported: tuple[str, ...] = ()
    """The partitions without a reported or a default load, though others have reported theirs: they count as 0."""


UNREPORTED = "no load of {} is reported, and its service has no default load: it counts as 0"
"""What is said of a partition in `DomainOutcome.unreported`."""


def why_it_stays(outcome: DomainOutcome, partition: str) -> list[str]:
    """Return the sentences that say why a plan does not change a partition, from the outcome for its service domain."""
    action = f" ({outcome.action} for service domain {outcome.domain})" if outcome.action else ""
    causes = [_what_ran(outcome)] if outcome.phases else []
    requested = {phase: reason for phase, reason in outcome.idle.items() if reason is not Idle.NOT_ASKED}
    for reason in dict.fromkeys(requested.values()):
        phases = _joined([phase.value for phase in Phase if requested.get(phase) is reason])
        causes.append(f"{phases} did not run, because {reason.value}")
    sentences = [f"the plan leaves {partition} where it is{action}: {'; '.join(causes)}."]
    if partition in outcome.immovable:
        sentences.append(_what_is_immovable(outcome.immovable[partition]))
    return sentences


def _what_ran(outcome: DomainOutcome) -> str:
    """Return in words which phases ran, why the last ended, and the numbers of proposals by rule and term."""
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
    """Return words as an enumeration: commas, and "and" before the last."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _counts(counts: Mapping[str, int]) -> str:
    """Return counts by rule or term in words, the largest first."""
    ordered = sorted(counts.items(), key=lambda pair: -pair[1])
    return listed([f"{count} by {rule_in_words(name)}" for name, count in ordered])


def _what_is_immovable(immovable: Mapping[Immovable, int]) -> str:
    """Return the sentence that says how many replicas of a partition may not move, from their numbers by reason."""
    parts = ", ".join(f"{count} {why.value}" for why, count in immovable.items())
    total = sum(immovable.values())
    return f"{counted(total, 'replica')} of it may not move: {parts}."


_BUDGETS = frozenset(budget.name.lower() for budget in BUDGETS)


@attrs.frozen
class RuledOut:
    """The nodes that one rule excludes for a replica; as text, its numbers.

    The files of the rules in `plb.constraints` have the classes.
    """

    @property
    def rule(self) -> str:
        """Name of the rule, the extension constraint or the policy."""
        raise NotImplementedError

    @property
    def nodes(self) -> int:
        """Number of nodes for which this rule is the first that excludes them."""
        raise NotImplementedError

    @property
    def distance(self) -> float:
        """Distance of a single node from one that the rule allows: 1, or a share of that."""
        return 1.0

    def changes(self, node: str, unmet: tuple[UnmetClause, ...]) -> Iterator[str]:  # noqa: ARG002  # some rules need them
        """Yield the changes after which a single node could take the replica, in words.

        `node`: name of the node; `unmet`: the clauses of the placement constraint that it does not satisfy.
        """
        yield f"{rule_in_words(self.rule)} must allow it ({self})"


@attrs.frozen
class Refused(RuledOut):
    """Nodes that a rule or an extension constraint without further numbers excludes."""

    rule: str
    """Name of the rule or of the extension constraint."""
    nodes: int
    """Number of these nodes."""
    words: str = ""
    """The text; empty: the name of the rule."""

    def __str__(self) -> str:
        return self.words or rule_in_words(self.rule)


@attrs.frozen
class Declined(RuledOut):
    """Nodes that no rule excludes, and that the placement policy does not choose."""

    rule: str
    """Name of the policy."""
    nodes: int
    """Number of these nodes."""

    def __str__(self) -> str:
        return "the policy does not choose it"


@attrs.frozen
class Together:
    """A partition whose placement is all-or-nothing."""

    requested: int
    """Number of replicas to place."""
    found: int
    """How many of them find a node when placed in turn."""

    def __str__(self) -> str:
        text = "its placement is all-or-nothing"
        if self.found == self.requested:
            return text
        if self.requested == 1:
            return f"{text}, and no node was found"
        return f"{text}, and {f'only {self.found}' if self.found else 'none'} of {self.requested} replicas found a node"


@attrs.frozen
class Unplaced:
    """A replica that is not placed."""

    partition: str
    """Name of the partition."""
    role: Role
    """Role of the replica."""
    nodes: int
    """Number of nodes of the cluster."""
    diagnosis: Sequence[RuledOut] = ()
    """Nodes by the rule that excludes them, in the order of the checks; each node counts at the first rule it fails.
    Rules that placement relaxed are not checked.
    """
    given_up: tuple[str, ...] = ()
    """Soft rules that placement relaxed without success."""
    together: Together | None = None
    """For an all-or-nothing placement: its result. A replica that found a node waits for the others; the nodes of one
    that found none are evaluated with the others in place.
    """
    words: str = attrs.field(default="", kw_only=True)
    """Its text, for a replica that a document describes; empty: made from the other fields."""

    @property
    def ruled_out(self) -> dict[str, int]:
        """Number of nodes that each rule excludes, in the order of the checks."""
        return {refusal.rule: refusal.nodes for refusal in self.diagnosis}

    @property
    def fitting(self) -> int:
        """Number of nodes that no rule excludes."""
        return self.nodes - sum(refusal.nodes for refusal in self.diagnosis)

    @property
    def why(self) -> str:
        """On how many nodes it fits, and which rules exclude the others, as the predicate of a sentence."""
        if not self.nodes:
            return "fits on no node: the cluster has none"
        text = f"fits on {self.fitting or 'none'} of {self.nodes} nodes"
        if self.diagnosis:
            text += f": ruled out {diagnosis_in_words(self.diagnosis)}"
        if self.given_up:
            text += f"; even without the {_rules(self.given_up)}"
        return text if self.together is None else f"{text}; {self.together}"

    def __str__(self) -> str:
        return self.words or f"{self.role.name.lower()} of {self.partition} {self.why}"


@attrs.frozen(kw_only=True)
class Undrained(Unplaced):
    """A replica that a repair leaves on a node that has to be emptied.

    `diagnosis` is empty if the replica is immovable, or if some node is open to it, so that a later plan may move it. A
    budget of moves that holds the replica rules out all nodes. Of many replicas, only the first have numbers.
    """

    node: str
    """Name of the node that it stays on."""
    immovable: Immovable | None = None
    """Why no plan may move the replica; None: plans may."""

    def __str__(self) -> str:
        who = f"{self.role.name.lower()} of {self.partition}"
        return self.words or f"{who} stays on node {self.node}, which is to be emptied: {self._why_it_stays}"

    @property
    def _why_it_stays(self) -> str:
        """Why it stays, as a clause."""
        if self.immovable is not None:
            return f"it is {self.immovable.value}"
        if not self.diagnosis:
            return "a later plan may move it"
        return str(self.diagnosis[0]) if self.diagnosis[0].rule in _BUDGETS else f"it {self.why}"


def diagnosis_in_words(diagnosis: Sequence[RuledOut]) -> str:
    """Return the number of nodes that each rule excludes, and the details of the rule, in words."""
    return ", ".join(f"{refusal.nodes} by {rule_in_words(refusal.rule)} ({refusal})" for refusal in diagnosis)


def _rules(names: Sequence[str]) -> str:
    """Return names of rules in words: "fault domain and affinity rules"."""
    words = " and ".join(map(rule_in_words, names))
    return f"{words} {'rule' if len(names) == 1 else 'rules'}"
