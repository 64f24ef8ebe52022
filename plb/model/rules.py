"""The rules that can refuse a proposal, by number.

A refusal is the number of a rule; its file in `plb.constraints` has the rest, `plb.constraints.rules` the list.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import ClassVar, TypeAlias

import attrs

from plb.model.documents import Document, plain
from plb.model.role import Role
from plb.phrasing import rule_in_words
from plb.validation import ReadOnlyMapping


class Rule(IntEnum):
    """The rules that can refuse a proposal: constraints, then budgets. `plb.evaluation.proposals` orders the checks."""

    NODE = 0
    """The node is down or deactivated."""
    EXCLUSION = 1
    """Another replica of the partition is on the node."""
    PLACEMENT = 2
    """The node is blocked for the service, or does not satisfy its placement constraint."""
    PREFERRED_LOCATION = 3
    """The partition has no standby on the node, and prefers nodes with one, or upgraded nodes."""
    THROTTLING = 4
    """The number of replicas in build on the node is at its limit."""
    FAULT_DOMAIN = 5
    """The fault domain of the node would have too many replicas of the partition."""
    UPGRADE_DOMAIN = 6
    """The upgrade domain of the node would have too many replicas of the partition."""
    CAPACITY = 7
    """The load of the node would exceed its capacity."""
    SCALE_OUT = 8
    """The application uses as many nodes as it may, and the node is none of them."""
    APPLICATION_CAPACITY = 9
    """The load of the application on the node, or in all, would exceed its capacity."""
    AFFINITY = 10
    """The parent has no replica on the node, or a child cannot follow."""
    RANGE = 11
    """The aggregates of the node would exceed 32 bits."""
    MOVES = 12
    """The budget of moves of the plan is used."""
    NODE_MOVES = 13
    """The budget of moves that touch the node is used."""
    SERVICE_MOVES = 14
    """The budget of moves of the service is used."""
    BUILDS = 15
    """The cluster builds as many replicas as it may at a time."""
    SWAPS = 16
    """As many primaries swap their roles in the cluster as may at a time."""


RULES = len(Rule)
"""Number of rules."""
NO_REFUSAL = -1
"""Stands for no rule."""
RuleMask: TypeAlias = int
"""A set of rules: bit `rule` is 1 for each `Rule` in it. As a set of enforced rules it may have the bit JOINING."""
ALL_RULES: RuleMask = (1 << RULES) - 1
"""The set of all rules."""
BUDGETS = (Rule.MOVES, Rule.NODE_MOVES, Rule.SERVICE_MOVES, Rule.BUILDS, Rule.SWAPS)
"""Rules that limit the number of moves, builds or swaps of a plan, not the nodes of a replica."""
JOINING = 1 << RULES
"""Bit that allows a child only on a node of its parent, even if it was on another node before."""


NO_NUMBERS: Mapping[str, float] = ReadOnlyMapping({})
"""The numbers of a violation without any."""


@attrs.frozen
class Violation:
    """A violation of any kind; as text, its numbers in words. The files of the rules have the classes."""

    @property
    def rule(self) -> str:
        """Name of the rule or of the extension constraint."""
        raise NotImplementedError

    @property
    def numbers(self) -> Mapping[str, float]:
        """The numbers by name."""
        raise NotImplementedError

    def to_dict(self) -> Document:
        """Return the violation as an object of JSON: rule, what it concerns, numbers, and all of it in words."""
        concerned = {name: getattr(self, name, None) for name in ("node", "metric", "partition", "domain")}
        return {"rule": self.rule, **concerned, "numbers": plain(self.numbers), "text": str(self)}


@attrs.frozen
class Breach(Violation):
    """A replica, or a domain of a partition, that breaks a constraint other than capacity."""

    @property
    def priority(self) -> int:
        """Priority of the rule: 0 hard, 1 soft, 2 optimisation."""
        raise NotImplementedError

    @property
    def domain(self) -> str | None:
        """The fault or upgrade domain; None for a rule without domains."""
        return None


@attrs.frozen
class BrokenConstraint(Violation):
    """A replica that breaks an extension constraint."""

    rule: str
    """Name of the extension constraint."""
    partition: str
    """Name of the partition."""
    role: Role
    """Role of the replica."""
    node: str
    """Name of its node."""
    index: int
    """Row of the replica, as in `plb.PlacedReplica`."""

    priority: ClassVar[int] = 0
    numbers: ClassVar[Mapping[str, float]] = NO_NUMBERS

    def __str__(self) -> str:
        return f"{self.role.name.lower()} of {self.partition} on node {self.node} breaks {rule_in_words(self.rule)}"
