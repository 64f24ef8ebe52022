"""Placement and load balancing for over-subscribed clusters.

An engine that decides on which node each replica stands. It knows no clock, no simulator, no file and no process.
"""

from plb.config import CapacityLimit, Checks, Combination, PlbConfig, Replay
from plb.engine import PlacedReplica, PlacementAndLoadBalancing
from plb.errors import CheckFailedError, ConflictError, InvalidValueError, PlbError, UnknownNameError
from plb.model import Metric, MoveCost, Node, Partition, Replica, Role, Service
from plb.outcome import DomainOutcome, Held, Idle
from plb.plan import Energy, Move, MoveKind, Phase, Plan, Proposals, Reason
from plb.settings.metric import PlacementStrategy
from plb.unplaced import Unplaced
from plb.violations import Apart, Misplaced, NodeViolation, UnevenSpread, Violation

__all__ = [
    "Apart",
    "CapacityLimit",
    "CheckFailedError",
    "Checks",
    "Combination",
    "ConflictError",
    "DomainOutcome",
    "Energy",
    "Held",
    "Idle",
    "InvalidValueError",
    "Metric",
    "Misplaced",
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
    "UnevenSpread",
    "UnknownNameError",
    "Unplaced",
    "Violation",
]
