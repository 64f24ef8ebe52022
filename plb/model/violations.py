"""Violations: overloaded nodes and broken constraints, as values with numbers.

Each kind has a class with the name of the `rule` and a text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import attrs

from plb.model.role import Role
from plb.phrasing import amount, counted, listed, rule_in_words
from plb.validation import ReadOnlyMapping

NO_NUMBERS: Mapping[str, float] = ReadOnlyMapping({})
"""The numbers of a violation without any."""


@attrs.frozen
class NodeViolation:
    """A node whose load of a metric has reached the violation threshold.

    Parameters
    ----------
    load, threshold
        Load in user units, without departing replicas.
    limit
        Load to which the engine fills the node, inclusive, in user units; None: unknown.
    """

    rule: ClassVar[str] = "capacity"

    node: str
    metric: str
    load: float
    threshold: float
    limit: float | None = None

    @property
    def numbers(self) -> Mapping[str, float]:
        """The numbers by name."""
        known = {"load": self.load, "threshold": self.threshold}
        return known if self.limit is None else {**known, "limit": self.limit}

    def __str__(self) -> str:
        text = f"{self.metric} of node {self.node} is {amount(self.load)}"
        if self.limit is not None and self.load > self.limit >= self.threshold:
            return f"{text}, above its limit of {amount(self.limit)}"
        return f"{text}, at or above its threshold of {amount(self.threshold)}"


@attrs.frozen
class Misplaced:
    """A replica on a node that its service does not allow (docs/constraints/placement.md).

    Parameters
    ----------
    constraint
        The placement constraint that does not hold; None: the node is blocked for the service.
    priority
        Priority of the rule: 0 hard, 1 soft, 2 optimisation.
    """

    rule: ClassVar[str] = "placement"
    numbers: ClassVar[Mapping[str, float]] = NO_NUMBERS

    partition: str
    role: Role
    node: str
    service: str
    constraint: str | None
    priority: int = 0

    def __str__(self) -> str:
        who = f"{self.role.name.lower()} of {self.partition} is on node {self.node}"
        if self.constraint is None:
            return f"{who}, which is blocked for service {self.service}"
        return f"{who}, which does not satisfy the placement constraint {self.constraint!r} of service {self.service}"


@attrs.frozen
class UnevenSpread:
    """A domain with too many or too few replicas of a partition (docs/constraints/fault_domain.md).

    Parameters
    ----------
    rule
        ``"fault_domain"`` or ``"upgrade_domain"``.
    domain
        Its name, such as ``"fd:/dc1/rack0"`` or ``"ud0"``.
    level
        Its depth in the tree, 1 at the top.
    replicas, least, most
        Number of its replicas of the partition, and the allowed range, inclusive.
    priority
        Priority of the rule: 0 hard, 1 soft, 2 optimisation.
    """

    rule: str
    partition: str
    domain: str
    level: int
    replicas: int
    least: int
    most: int
    priority: int = 0

    @property
    def numbers(self) -> Mapping[str, float]:
        """The numbers by name."""
        return {"replicas": self.replicas, "least": self.least, "most": self.most}

    def __str__(self) -> str:
        holds = counted(self.replicas, "replica") if self.replicas else "no replica"
        allowed = f"at most {self.most} allowed" if self.replicas > self.most else f"at least {self.least} required"
        return f"{rule_in_words(self.rule)} {self.domain} holds {holds} of {self.partition}; {allowed}"


@attrs.frozen
class Apart:
    """A replica of a child that is not on a node of its parent (docs/constraints/affinity.md).

    Parameters
    ----------
    parent
        Name of the parent service.
    parent_partitions
        Number of partitions of the parent; affinity requires one.
    together_on
        Nodes with a replica of the parent, of the same role if the two are aligned.
    priority
        Priority of the rule: 0 hard, 1 soft, 2 optimisation.
    """

    rule: ClassVar[str] = "affinity"

    partition: str
    role: Role
    node: str
    parent: str
    parent_partitions: int
    together_on: tuple[str, ...]
    priority: int = 0

    @property
    def numbers(self) -> Mapping[str, float]:
        """The numbers by name."""
        return {"parent_partitions": self.parent_partitions}

    def __str__(self) -> str:
        where = parent_in_words(self.parent, self.parent_partitions, self.together_on)
        return f"affinity of {self.role.name.lower()} of {self.partition} on node {self.node} is broken: {where}"


@attrs.frozen
class BrokenConstraint:
    """A replica that breaks an extension constraint.

    Parameters
    ----------
    rule
        Name of the constraint.
    index
        Row of the replica, as in `plb.PlacedReplica`.
    """

    rule: str
    partition: str
    role: Role
    node: str
    index: int

    priority: ClassVar[int] = 0
    numbers: ClassVar[Mapping[str, float]] = NO_NUMBERS

    def __str__(self) -> str:
        return f"{self.role.name.lower()} of {self.partition} on node {self.node} breaks {rule_in_words(self.rule)}"


Violation = NodeViolation | Misplaced | UnevenSpread | Apart | BrokenConstraint
"""A violation of any kind."""

Breach = Misplaced | UnevenSpread | Apart
"""A broken constraint other than capacity; it has a `priority`."""


def parent_in_words(parent: str, partitions: int, together_on: tuple[str, ...]) -> str:
    """Return the nodes that affinity allows for a child, in words."""
    if partitions != 1:
        return f"its parent {parent} has {counted(partitions, 'partition')}, and affinity requires exactly one"
    if not together_on:
        return f"its parent {parent} has no replica that it can join"
    return f"it belongs on a node of its parent {parent}: {listed(together_on)}"
