"""Provisioning ([3]): the number of nodes that applications need, and a placement.

Begin reading in `plb.provisioning.replanning`.
"""

from plb.errors import NoCapacityError, NoPlanError
from plb.provisioning.algorithms import Rules, algorithm_names
from plb.provisioning.instance import Affinity, Instance, NodeType, lower_bound, whole_units
from plb.provisioning.plan import Moves, ProvisioningPlan, moves_between
from plb.provisioning.replanning import AUTO, provision, replan

__all__ = [
    "AUTO",
    "Affinity",
    "Instance",
    "Moves",
    "NoCapacityError",
    "NoPlanError",
    "NodeType",
    "ProvisioningPlan",
    "Rules",
    "algorithm_names",
    "lower_bound",
    "moves_between",
    "provision",
    "replan",
    "whole_units",
]
