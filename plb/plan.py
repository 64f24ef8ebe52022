"""Plans: what the engine proposes, why, and what it could not do. Values with numbers; words only when asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum

import attrs

from plb.model import Role
from plb.outcome import DomainOutcome
from plb.unplaced import Unplaced
from plb.violations import Breach, UnevenSpread
from plb.words import amount, counted, rule_in_words


class MoveKind(Enum):
    """What a move does."""

    ADD = "add"
    """A new replica is placed on `target`."""
    MOVE = "move"
    """The replica on `source` moves to `target`."""
    SWAP = "swap"
    """The primary on `source` and the secondary on `target` change roles."""
    DROP = "drop"
    """The replica on `source`, one too many, goes."""
    PROMOTE = "promote"
    """The secondary on `target` becomes the primary of a partition that has none."""
    VOID = "void"
    """The replica on `source` cannot change its role: the upgrade has to go on without, and no plan asks again."""


class Phase(Enum):
    """What a search was for."""

    PLACEMENT = "placement"
    REPAIR = "repair"
    BALANCING = "balancing"


@attrs.frozen
class Reason:
    """Why a move is made.

    Parameters
    ----------
    phase
        The phase that made it.
    rule
        The rule or term behind it: ``"new replica"``, ``"surplus"``, ``"make room"``, ``"upgrade"``, ``"upgraded"``,
        ``"placement"``, ``"capacity"``, ``"fault_domain"``, ``"upgrade_domain"``, ``"affinity"``, ``"energy"``, or the
        name of a constraint of the user's own.
    node
        Node where the rule was broken, if it was, or where room is made, or that is or was upgraded.
    metric
        Metric of a broken capacity, or the one whose imbalance fell most.
    numbers
        The numbers behind it, in user units: for capacity ``load`` and ``limit``; for a domain ``replicas``, ``least``
        and ``most``; for a surplus ``replicas`` and ``wanted``; for the energy what its term, or the imbalance of
        `metric`, was ``before`` and ``after`` the phase.
    breach
        The broken constraint that the move mends; None for capacity, which `numbers` tell.
    term
        For the energy: the term that lowered it most.
    other
        Another partition behind the move: the one that room is made for, or the parent that is followed.
    """

    phase: Phase
    rule: str
    node: str | None = None
    metric: str | None = None
    numbers: Mapping[str, float] = attrs.field(factory=dict)
    breach: Breach | None = None
    term: str | None = None
    other: str | None = None

    @property
    def domain(self) -> str | None:
        """The fault or upgrade domain that held too many replicas, if that is why."""
        return self.breach.domain if isinstance(self.breach, UnevenSpread) else None

    def __str__(self) -> str:
        if self.breach is not None:
            return str(self.breach)
        words: Mapping[str, Callable[[], str]] = {
            "new replica": lambda: "a replica is missing",
            "surplus": self._of_surplus,
            "make room": self._of_room,
            "capacity": self._of_capacity,
            "energy": self._of_energy,
            "upgrade": lambda: f"node {self.node} is about to be upgraded",
            "upgraded": lambda: f"node {self.node} has been upgraded, and the primary stood there before",
        }
        if self.rule in words:
            return words[self.rule]()
        if self.other is not None:
            return f"follows its parent {self.other}"
        return f"{rule_in_words(self.rule)} rule broken on node {self.node}"

    def _of_room(self) -> str:
        text = "makes room" if self.node is None else f"makes room on node {self.node}"
        return text if self.other is None else f"{text} for {self.other}"

    def _of_capacity(self) -> str:
        if not self.numbers:
            return f"node {self.node} is above its limit"
        load, limit = amount(self.numbers["load"]), amount(self.numbers["limit"])
        return f"{self.metric} of node {self.node} is {load}, above its limit of {limit}"

    def _of_energy(self) -> str:
        if not self.numbers or self.term is None:
            return "lowers the energy"
        before, after = self.numbers["before"], self.numbers["after"]
        of = f" of {self.metric}" if self.metric else ""
        what, way = rule_in_words(self.term) + of, "from" if after <= before else "up from"
        return f"lowers the energy, as {what} goes {way} {amount(before)} to {amount(after)}"

    def _of_surplus(self) -> str:
        if not self.numbers:
            return "one replica too many"
        return f"{counted(int(self.numbers['replicas']), 'replica')} where {amount(self.numbers['wanted'])} should be"


@attrs.frozen
class Move:
    """One step of a plan.

    Parameters
    ----------
    kind, partition, role, source, target
        `role` is that of the replica that moves (of the primary, in a swap); `source` is None for an add, `target` for
        a drop.
    reason
        Why.
    cost
        What the move counts in the energy's movement term.
    index
        Which of the partition's replicas it is, as in `PlacedReplica`; -1: any one that `role` and `source` fit.
    """

    kind: MoveKind
    partition: str
    role: Role
    source: str | None
    target: str | None
    reason: Reason
    cost: float
    index: int = -1

    def __str__(self) -> str:
        role = self.role.name.lower()
        if self.kind is MoveKind.ADD:
            return f"add {role} of {self.partition} on {self.target}"
        if self.kind is MoveKind.DROP:
            return f"drop {role} of {self.partition} from {self.source}"
        if self.kind is MoveKind.PROMOTE:
            return f"promote {role} of {self.partition} on {self.target}"
        if self.kind is MoveKind.VOID:
            return f"leave {role} of {self.partition} on {self.source}, as its role cannot change"
        if self.kind is MoveKind.SWAP:
            return f"swap primary of {self.partition} from {self.source} to {self.target}"
        return f"move {role} of {self.partition} from {self.source} to {self.target}"


@attrs.frozen
class Energy:
    """The energy of a configuration, with its terms.

    Parameters
    ----------
    total
        What the search minimised.
    movement
        m, in moves.
    imbalance
        I, mean coefficient of variation.
    fragmentation
        F, mean share of the held-out nodes that is in use, summed over them.
    expected_failovers
        V, expected number of nodes in violation.
    expected_overload
        O, by how much nodes are expected to go beyond their thresholds, in shares of these, summed over nodes and
        metrics; 0 where it weighs nothing.
    own
        The terms of the user's own by name, without their weights.
    """

    total: float
    movement: float
    imbalance: float
    fragmentation: float
    expected_failovers: float
    own: Mapping[str, float] = attrs.field(factory=dict, hash=False)
    expected_overload: float = attrs.field(default=0.0, kw_only=True)

    def __add__(self, other: Energy) -> Energy:
        return Energy(
            self.total + other.total,
            self.movement + other.movement,
            self.imbalance + other.imbalance,
            self.fragmentation + other.fragmentation,
            self.expected_failovers + other.expected_failovers,
            {name: self.own.get(name, 0.0) + other.own.get(name, 0.0) for name in {**self.own, **other.own}},
            expected_overload=self.expected_overload + other.expected_overload,
        )

    @property
    def terms(self) -> dict[str, float]:
        """The terms by name."""
        fields = attrs.asdict(self)
        del fields["total"], fields["own"]
        return {**fields, **self.own}


@attrs.frozen
class Proposals:
    """What became of the proposals of a search.

    Parameters
    ----------
    drawn
        Proposals drawn.
    scored
        Those that passed the constraints, so that their energy or a bound of it was computed.
    reached_monte_carlo
        Those whose repetitions were evaluated.
    accepted
        Those that were taken.
    refused_by_rule, rejected_by_term
        Refusals by constraint or budget, and by the energy term that worsened most.
    """

    drawn: int = 0
    scored: int = 0
    reached_monte_carlo: int = 0
    accepted: int = 0
    refused_by_rule: Mapping[str, int] = attrs.field(factory=dict)
    rejected_by_term: Mapping[str, int] = attrs.field(factory=dict)

    def __add__(self, other: Proposals) -> Proposals:
        def merged(a: Mapping[str, int], b: Mapping[str, int]) -> dict[str, int]:
            return {key: a.get(key, 0) + b.get(key, 0) for key in {**a, **b}}

        return Proposals(
            self.drawn + other.drawn,
            self.scored + other.scored,
            self.reached_monte_carlo + other.reached_monte_carlo,
            self.accepted + other.accepted,
            merged(self.refused_by_rule, other.refused_by_rule),
            merged(self.rejected_by_term, other.rejected_by_term),
        )


@attrs.frozen
class Plan:
    """What the engine proposes to do.

    Parameters
    ----------
    moves
        In an order in which they can be carried out.
    energy_before, energy_after
        Energy before and after the moves; `energy_before.movement` is 0. The failovers to expect of a promoted
        secondary count as a primary's from the next plan on.
    unplaced
        Replicas that found no place.
    end_reason
        Why the last search ended.
    phases
        The phases that ran.
    proposals
        What became of the proposals.
    actions
        What was done for each service domain, by the name of its first service.
    bound_by
        Budgets that refused a proposal, or held up a repair: ``"moves"``, ``"node_moves"``, ``"service_moves"``.
    outcomes
        For each service domain: which phases ran and why the others did not, and the replicas that may not move.
    reproducible
        False if a time limit, not a number of proposals, ended a search.
    """

    moves: tuple[Move, ...]
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

    def explain(self, partition: str) -> str:
        """Return in a sentence or two what the plan does about a partition, and why; or why it does nothing.

        Raises
        ------
        UnknownNameError
            If the engine had no such partition when it made the plan.
        """
        from plb.explain import explain_in_plan

        return explain_in_plan(self, partition)


def merged(plans: Sequence[Plan]) -> Plan:
    """Return the plans of several service domains as one; their energies are added up term by term."""
    if len(plans) == 1:
        return plans[0]
    zero = Energy(0.0, 0.0, 0.0, 0.0, 0.0)
    return Plan(
        moves=tuple(move for plan in plans for move in plan.moves),
        energy_before=sum((plan.energy_before for plan in plans), zero),
        energy_after=sum((plan.energy_after for plan in plans), zero),
        unplaced=tuple(unplaced for plan in plans for unplaced in plan.unplaced),
        end_reason="; ".join(dict.fromkeys(plan.end_reason for plan in plans)) or "nothing to do",
        phases=tuple(dict.fromkeys(phase for plan in plans for phase in plan.phases)),
        proposals=sum((plan.proposals for plan in plans), Proposals()),
        bound_by=tuple(dict.fromkeys(rule for plan in plans for rule in plan.bound_by)),
        outcomes=tuple(outcome for plan in plans for outcome in plan.outcomes),
        reproducible=all(plan.reproducible for plan in plans),
    )
