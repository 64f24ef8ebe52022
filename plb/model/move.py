"""One step of a plan and why it is made. Values with numbers; words only when asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum

import attrs

from plb.model.role import Role
from plb.model.violations import Breach, UnevenSpread
from plb.phrasing import amount, counted, rule_in_words


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
        The rule or term behind it: ``"new replica"``, ``"surplus"``, ``"eviction"``, ``"upgrade"``, ``"upgraded"``,
        ``"placement"``, ``"capacity"``, ``"fault_domain"``, ``"upgrade_domain"``, ``"affinity"``, ``"energy"``, or the
        name of a constraint of the user's own.
    node
        Node where the rule was broken, if it was, or where room is made, or that is or was upgraded.
    metric
        Metric of a broken capacity, or the one whose imbalance fell most.
    numbers
        The numbers behind it, in user units: for capacity ``load`` and ``limit``; for a domain ``replicas``, ``least``
        and ``most``; for a surplus ``replicas`` and ``requested``; for the energy what its term, or the imbalance of
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
            "eviction": self._of_eviction,
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

    def _of_eviction(self) -> str:
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
        return (
            f"{counted(int(self.numbers['replicas']), 'replica')} where {amount(self.numbers['requested'])} should be"
        )


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
