"""The rules that can refuse a proposal, by number.

A refusal is the number of a rule; it becomes words only when somebody asks (`plb.model.unplaced`).
"""

from __future__ import annotations

from enum import IntEnum


class Rule(IntEnum):
    """What can refuse a proposal, in the order of looking: constraints, then budgets."""

    NODE = 0
    """The node takes no such replica, as it is down or deactivated."""
    EXCLUSION = 1
    """Another replica of the partition is there."""
    PLACEMENT = 2
    """The node is blocked for the service, or its placement constraint does not hold there."""
    PREFERRED_LOCATION = 3
    """The partition has no standby there, and prefers nodes where it has one, or that are upgraded."""
    THROTTLING = 4
    """As many replicas are in build there as may be."""
    FAULT_DOMAIN = 5
    UPGRADE_DOMAIN = 6
    CAPACITY = 7
    AFFINITY = 8
    """The parent has no replica there, or a child could not follow."""
    RANGE = 9
    """The node's aggregates would leave their 32 bits."""
    MOVES = 10
    """The plan's budget of moves is used up."""
    NODE_MOVES = 11
    """The budget of moves that touch the node is used up."""
    SERVICE_MOVES = 12
    """The budget of moves of the service is used up."""


RULES = len(Rule)
NO_REFUSAL = -1
ALL_RULES = (1 << RULES) - 1
"""Bit mask that enforces every rule; bit `rule` enforces one."""
BUDGETS = (Rule.MOVES, Rule.NODE_MOVES, Rule.SERVICE_MOVES)
"""Rules that say how many moves a plan may make, not where a replica may stand."""
JOINING = 1 << RULES
"""Bit that allows a child only where it stands beside its parent, even if it was apart from it before."""
