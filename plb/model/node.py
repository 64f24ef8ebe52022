"""Nodes: the machines of the cluster, in fault and upgrade domains."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

import attrs

from plb.model.documents import Described, naming_fields
from plb.validation import (
    ReadOnlyMapping,
    check_loads,
    check_mapping,
    check_member,
    check_name,
    check_switch,
    check_text,
    with_plain_scalars,
)


class DeactivationIntent(Enum):
    """Why a node that is up is deactivated (docs/constraints/node.md)."""

    NONE = "none"
    PAUSE = "pause"
    RESTART = "restart"
    REMOVE_DATA = "remove_data"
    REMOVE_NODE = "remove_node"


class DeactivationStatus(Enum):
    """The progress of a deactivation."""

    NONE = "none"
    ACTIVATION_IN_PROGRESS = "activation_in_progress"
    SAFETY_CHECK_IN_PROGRESS = "safety_check_in_progress"
    SAFETY_CHECK_COMPLETE = "safety_check_complete"
    COMPLETE = "complete"


@naming_fields
@attrs.frozen(field_transformer=with_plain_scalars)
class Node(Described):
    """A machine of the cluster."""

    name: str
    """Name of the node, unique in the cluster."""
    capacities: Mapping[str, float] = attrs.field(factory=dict, kw_only=True)
    """Capacity by metric, in user units. A missing metric is unlimited; 0 is a limit."""
    fault_domain: str | None = attrs.field(default=None, kw_only=True)
    """Path of the fault domain, such as ``"fd:/dc1/rack0"``; None: a domain of its own."""
    upgrade_domain: str | None = attrs.field(default=None, kw_only=True)
    """Name of the upgrade domain; None: a domain of its own."""
    properties: Mapping[str, str] = attrs.field(factory=dict, kw_only=True)
    """Properties for placement constraints; `placement_properties` has all of them."""
    up: bool = attrs.field(default=True, kw_only=True)
    """False while the node is down: nothing may be placed on it, and it is not in the statistics."""
    deactivation_intent: DeactivationIntent = attrs.field(default=DeactivationIntent.NONE, kw_only=True)
    """Why a node that is up is deactivated. A node with an intent other than none is not in the statistics."""
    deactivation_status: DeactivationStatus = attrs.field(default=DeactivationStatus.NONE, kw_only=True)
    """The progress of the deactivation."""

    def __attrs_post_init__(self) -> None:
        """Convert the fields to their types, and raise an error if one is invalid."""
        check_name("node", self.name)
        item = f"node {self.name}"
        object.__setattr__(self, "capacities", check_loads(item, "capacities", self.capacities))
        for field in ("fault_domain", "upgrade_domain"):
            if getattr(self, field) is not None:
                check_text(item, field, getattr(self, field))
        check_switch(item, "up", self.up)
        for field, kind in (("deactivation_intent", DeactivationIntent), ("deactivation_status", DeactivationStatus)):
            object.__setattr__(self, field, check_member(item, field, getattr(self, field), kind))
        for key, value in check_mapping(item, "properties", self.properties, "a mapping of names to texts").items():
            check_text(item, "name in properties", key)
            check_text(item, f"properties[{key}]", value)
        object.__setattr__(self, "properties", ReadOnlyMapping(self.properties))

    @property
    def fault_domain_path(self) -> tuple[str, ...]:
        """The fault domain as a tuple of names from the top level down."""
        if self.fault_domain is None:
            return (f"{self.name}_fd",)
        path = self.fault_domain.removeprefix("fd:")
        return tuple(part for part in path.split("/") if part) or (f"{self.name}_fd",)

    @property
    def placement_properties(self) -> dict[str, str]:
        """The properties, with ``NodeName``, and ``FaultDomain`` and ``UpgradeDomain`` if these are given.

        Service Fabric defines these three (docs/constraints/placement.md); given properties override them.
        """
        implicit = {"NodeName": self.name}
        if self.fault_domain is not None:
            implicit["FaultDomain"] = f"fd:/{'/'.join(self.fault_domain_path)}"
        if self.upgrade_domain is not None:
            implicit["UpgradeDomain"] = self.upgrade_domain
        return implicit | {**self.properties}

    @property
    def upgrade_domain_name(self) -> str:
        """The upgrade domain; a private one if none is given."""
        return f"{self.name}_ud" if self.upgrade_domain is None else self.upgrade_domain
