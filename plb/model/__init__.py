"""The inputs and results of the engine: metrics, nodes, services, partitions, replicas, plans.

They are frozen attrs classes that are checked when they are created. Arrays, indices and loads in quanta begin in
`plb.state`. Begin reading in `plb.model.partition` and `plb.model.plan`.
"""

from plb.model.metric import Metric
from plb.model.node import DeactivationIntent, DeactivationStatus, Node
from plb.model.partition import Partition, Replica, ReplicaState, UpgradeMark
from plb.model.role import ROLE_NAMES, Role, check_role
from plb.model.service import Application, MoveCost, Service, check_move_cost

__all__ = [
    "ROLE_NAMES",
    "Application",
    "DeactivationIntent",
    "DeactivationStatus",
    "Metric",
    "MoveCost",
    "Node",
    "Partition",
    "Replica",
    "ReplicaState",
    "Role",
    "Service",
    "UpgradeMark",
    "check_move_cost",
    "check_role",
]
