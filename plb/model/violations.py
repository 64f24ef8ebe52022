"""Violations: overloaded nodes and broken constraints, as values with numbers.

Each kind has a class with the name of the `rule` and a text, in the file of the rule in `plb.constraints`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import attrs

from plb.model.role import Role
from plb.phrasing import rule_in_words
from plb.validation import ReadOnlyMapping

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
