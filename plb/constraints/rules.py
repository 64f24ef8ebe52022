"""The list of the rules: whoever reports on rules loops over it, and names none."""

from __future__ import annotations

from typing import Any

from plb.constraints import (
    affinity,
    application_capacity,
    capacity,
    domains,
    exclusion,
    move_budgets,
    node,
    placement,
    preferred_location,
    scale_out,
    throttling,
)
from plb.constraints import range as peak_range
from plb.constraints.description import RuleDescription
from plb.model.rules import Rule
from plb.state.cluster_state import ClusterState
from plb.state.topology import Topology

RULES_IN_ORDER: tuple[RuleDescription, ...] = (
    node.DESCRIPTION,
    exclusion.DESCRIPTION,
    placement.DESCRIPTION,
    preferred_location.DESCRIPTION,
    throttling.DESCRIPTION,
    domains.FAULT_DOMAIN_DESCRIPTION,
    domains.UPGRADE_DOMAIN_DESCRIPTION,
    capacity.DESCRIPTION,
    scale_out.DESCRIPTION,
    application_capacity.DESCRIPTION,
    affinity.DESCRIPTION,
    peak_range.DESCRIPTION,
    *move_budgets.DESCRIPTIONS,
)
"""All rules in the order of their numbers."""

REASONS_IN_ORDER: tuple[RuleDescription, ...] = (
    node.DESCRIPTION,
    exclusion.DESCRIPTION,
    capacity.DESCRIPTION,
    placement.DESCRIPTION,
    affinity.DESCRIPTION,
    domains.FAULT_DOMAIN_DESCRIPTION,
    domains.UPGRADE_DOMAIN_DESCRIPTION,
    scale_out.DESCRIPTION,
    application_capacity.DESCRIPTION,
)
"""The rules that repairs enforce; of several that a replica breaks, the first is the reason of its move."""


def description_of(rule: Rule) -> RuleDescription:
    """Return the description of a rule."""
    return RULES_IN_ORDER[rule]


def fields_of_rules(state: ClusterState, topology: Topology) -> dict[str, Any]:
    """Return the fields of `Problem` that single rules read and that follow from nodes and settings, by name."""
    return {name: value for rule in RULES_IN_ORDER for name, value in rule.fields(state, topology).items()}
