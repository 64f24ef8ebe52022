"""Placement and load balancing for over-subscribed clusters.

An engine that decides on which node each replica stands. It knows no clock, no simulator, no file and no process.
"""

from plb.config import CapacityLimit, Checks, Combination, PlbConfig, Replay
from plb.engine import NodeViolation, PlacedReplica, PlacementAndLoadBalancing
from plb.errors import CheckFailedError, ConflictError, InvalidValueError, PlbError, UnknownNameError
from plb.model import Metric, MoveCost, Node, Partition, Replica, Role, Service
from plb.plan import Energy, Move, MoveKind, Phase, Plan, Proposals, Reason, Unplaced
from plb.settings.metric import PlacementStrategy

__all__ = [
    "CapacityLimit",
    "CheckFailedError",
    "Checks",
    "Combination",
    "ConflictError",
    "Energy",
    "InvalidValueError",
    "Metric",
    "Move",
    "MoveCost",
    "MoveKind",
    "Node",
    "NodeViolation",
    "Partition",
    "Phase",
    "PlacedReplica",
    "PlacementAndLoadBalancing",
    "PlacementStrategy",
    "Plan",
    "PlbConfig",
    "PlbError",
    "Proposals",
    "Reason",
    "Replay",
    "Replica",
    "Role",
    "Service",
    "UnknownNameError",
    "Unplaced",
]
