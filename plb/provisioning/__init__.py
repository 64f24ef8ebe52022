"""Provisioning ([3]): the number of nodes that applications need, and a placement.

Begin reading in `plb.provisioning.provision`.
"""

from plb.errors import NoCapacityError, NoPlanError
from plb.provisioning.affinity import Affinity
from plb.provisioning.algorithm_names import algorithm_names
from plb.provisioning.algorithms import Rules
from plb.provisioning.instance import Instance, NodeType
from plb.provisioning.lower_bound import lower_bound
from plb.provisioning.moves import Moves, moves_between
from plb.provisioning.plan import ProvisioningPlan
from plb.provisioning.provision import AUTO, provision
from plb.provisioning.replanning import replan
from plb.provisioning.whole_numbers import whole_units

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
