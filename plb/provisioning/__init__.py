"""How many nodes do these applications need, and what goes where ([3])."""

from plb.provisioning.affinity import Affinity
from plb.provisioning.errors import NoPlanError
from plb.provisioning.instance import Instance, NodeType, whole_units
from plb.provisioning.lower_bound import lower_bound
from plb.provisioning.names import algorithm_names
from plb.provisioning.plan import ProvisioningPlan
from plb.provisioning.provision import AUTO, provision
from plb.provisioning.running import Rules

__all__ = [
    "AUTO",
    "Affinity",
    "Instance",
    "NoPlanError",
    "NodeType",
    "ProvisioningPlan",
    "Rules",
    "algorithm_names",
    "lower_bound",
    "provision",
    "whole_units",
]
