"""What users say about a cluster and get from the engine: metrics, nodes, services, partitions, replicas, plans.

Frozen attrs classes, checked when they are made. Arrays, indices and whole-number loads begin in `plb.state`. Begin
reading in `plb.model.partition` and `plb.model.plan`.
"""

from plb.model.metric import Metric
from plb.model.node import DeactivationIntent, DeactivationStatus, Node
from plb.model.partition import Partition, Replica, ReplicaState, UpgradeMark
from plb.model.role import ROLE_NAMES, Role, check_role
from plb.model.service import MoveCost, Service, check_move_cost

__all__ = [
    "ROLE_NAMES",
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
