"""A move of a plan and its reason. They have numbers; texts are made on request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum

import attrs

from plb.model.role import Role
from plb.model.rules import Breach
from plb.phrasing import amount, counted, rule_in_words


class MoveKind(Enum):
    """The action of a move."""

    ADD = "add"
    """A new replica is placed on `target`."""
    MOVE = "move"
    """The replica on `source` moves to `target`."""
    SWAP = "swap"
    """The primary on `source` and the secondary on `target` change roles."""
    DROP = "drop"
    """The surplus replica on `source` is removed."""
    PROMOTE = "promote"
    """The secondary on `target` becomes the primary of a partition without one."""
    VOID = "void"
    """On `source` a role cannot change, or no replica returns. The upgrade continues, and no further plan tries."""


class Phase(Enum):
    """The purpose of a search."""

    PLACEMENT = "placement"
    REPAIR = "repair"
    BALANCING = "balancing"


@attrs.frozen
class Reason:
    """The reason of a move."""

    phase: Phase
    """The search that made the move."""
    rule: str
    """The rule or term of the reason: ``"new replica"``, ``"surplus"``, ``"eviction"``, ``"upgrade"``, ``"upgraded"``,
    ``"placement"``, ``"capacity"``, ``"fault_domain"``, ``"upgrade_domain"``, ``"affinity"``, ``"energy"``, ``"risk"``,
    ``"exchange"`` (with a replica of a node at risk), or the name of an extension constraint.
    """
    node: str | None = None
    """Node of the broken rule, of the eviction, of the upgrade, or at risk."""
    metric: str | None = None
    """Metric of a broken capacity, or the metric with the largest decrease of imbalance."""
    numbers: Mapping[str, float] = attrs.field(factory=dict)
    """The numbers of the reason, in user units: for capacity ``load`` and ``limit``; for a domain ``replicas``,
    ``least`` and ``most``; for a surplus ``replicas`` and ``requested``; for the energy the term, or the imbalance of
    `metric`, ``before`` and ``after`` the phase; for a risk the ``violations`` among the ``moments`` of the estimator
    and the ``highest`` demand as a share of the threshold, both also ``without`` the replica, or the ``probability``.
    """
    breach: Breach | None = None
    """The broken constraint that the move repairs; None for capacity, which is in `numbers`."""
    term: str | None = None
    """For the energy: the term with the largest decrease."""
    other: str | None = None
    """Another partition in the reason: the one for which replicas are evicted, or the parent of an affinity move."""

    @property
    def domain(self) -> str | None:
        """The fault or upgrade domain with too many replicas, if that is the reason."""
        return None if self.breach is None else self.breach.domain

    def __str__(self) -> str:
        if self.breach is not None:
            return str(self.breach)
        words: Mapping[str, Callable[[], str]] = {
            "new replica": lambda: "a replica is missing",
            "surplus": self._surplus_in_words,
            "eviction": self._eviction_in_words,
            "capacity": self._capacity_in_words,
            "energy": self._energy_in_words,
            "risk": self._risk_in_words,
            "exchange": lambda: f"exchanged with a replica of a node at risk: {self._risk_in_words()}",
            "upgrade": lambda: f"node {self.node} is about to be upgraded",
            "upgraded": lambda: f"node {self.node} has been upgraded, and the primary was on it before",
        }
        if self.rule in words:
            return words[self.rule]()
        if self.other is not None:
            return f"joins its parent {self.other}"
        return f"{rule_in_words(self.rule)} rule broken on node {self.node}"

    def _eviction_in_words(self) -> str:
        """Return the reason of a move that frees capacity on a node."""
        text = "frees capacity" if self.node is None else f"frees capacity on node {self.node}"
        return text if self.other is None else f"{text} for {self.other}"

    def _capacity_in_words(self) -> str:
        """Return the reason of a move off a node whose load exceeds its capacity."""
        if not self.numbers:
            return f"node {self.node} is above its limit"
        load, limit = amount(self.numbers["load"]), amount(self.numbers["limit"])
        reserved = self.numbers.get("reserved")
        reservation = "" if reserved is None else f", with {amount(reserved)} more reserved for applications"
        return f"{self.metric} of node {self.node} is {load}{reservation}, above its limit of {limit}"

    def _energy_in_words(self) -> str:
        """Return the reason of a move of balancing: the energy term or imbalance that it lowers."""
        if not self.numbers or self.term is None:
            return "lowers the energy"
        before, after = self.numbers["before"], self.numbers["after"]
        metric_in_words = f" of {self.metric}" if self.metric else ""
        quantity, direction = rule_in_words(self.term) + metric_in_words, "from" if after <= before else "up from"
        return f"lowers the energy: {quantity} goes {direction} {amount(before)} to {amount(after)}"

    def _risk_in_words(self) -> str:
        """Return the reason of a move off a node that is expected to be in violation."""
        if "probability" in self.numbers:
            return f"node {self.node} expects a violation with probability {amount(self.numbers['probability'])}"
        violations, moments = int(self.numbers["violations"]), int(self.numbers["moments"])
        text = f"node {self.node} would reach its threshold for {self.metric} in {violations} of {moments} moments"
        text += f" ({self._share_in_words('highest')})"
        if "violations without" not in self.numbers:
            return text
        without = int(self.numbers["violations without"])
        return f"{text}; without the replica in {without} ({self._share_in_words('highest without')})"

    def _share_in_words(self, name: str) -> str:
        """Return a number of the reason, a share of the threshold, in percent."""
        return f"at most {100 * self.numbers[name]:.0f} % of it"

    def _surplus_in_words(self) -> str:
        """Return the reason of a drop."""
        if not self.numbers:
            return "surplus replica"
        return (
            f"{counted(int(self.numbers['replicas']), 'replica')} where {amount(self.numbers['requested'])} should be"
        )


@attrs.frozen
class Move:
    """A move of a plan."""

    kind: MoveKind
    """The action."""
    partition: str
    """Name of the partition."""
    role: Role
    """Role of the moving replica; in a swap, of the primary."""
    source: str | None
    """Name of the node that the replica leaves; None for an add."""
    target: str | None
    """Name of the node that the replica goes to; None for a drop."""
    reason: Reason
    """Why the move is made."""
    cost: float
    """Cost of the move in the movement term of the energy."""
    index: int = -1
    """Index of the replica of the partition, as in `PlacedReplica`; -1: any one with `role` on `source`."""

    def __str__(self) -> str:
        role = self.role.name.lower()
        if self.kind is MoveKind.ADD:
            return f"add {role} of {self.partition} on {self.target}"
        if self.kind is MoveKind.DROP:
            return f"drop {role} of {self.partition} from {self.source}"
        if self.kind is MoveKind.PROMOTE:
            return f"promote {role} of {self.partition} on {self.target}"
        if self.kind is MoveKind.VOID:
            return f"leave {role} of {self.partition} on {self.source}, because its role cannot change"
        if self.kind is MoveKind.SWAP:
            return f"swap primary of {self.partition} from {self.source} to {self.target}"
        return f"move {role} of {self.partition} from {self.source} to {self.target}"
