"""Placement and load balancing for over-subscribed clusters.

An engine that decides on which node each replica stands. It knows no clock, no simulator, no file and no process.
"""

from plb.alternatives import Alternatives, ClosedNode, Place
from plb.config import CapacityLimit, Checks, Combination, PlbConfig, Replay
from plb.engine import PlacementAndLoadBalancing
from plb.errors import CheckFailedError, ConflictError, InvalidValueError, PlbError, UnknownNameError
from plb.model import (
    DeactivationIntent,
    DeactivationStatus,
    Metric,
    MoveCost,
    Node,
    Partition,
    Replica,
    ReplicaState,
    Role,
    Service,
    UpgradeMark,
)
from plb.outcome import DomainOutcome, Held, Idle
from plb.plan import Energy, Move, MoveKind, Phase, Plan, Proposals, Reason
from plb.search.budget import Budget, EndReason
from plb.settings.metric import PlacementStrategy
from plb.telling import DomainState, PlacedReplica
from plb.unplaced import Unplaced
from plb.violations import Apart, BrokenConstraint, Misplaced, NodeViolation, UnevenSpread, Violation

__all__ = [
    "Alternatives",
    "Apart",
    "BrokenConstraint",
    "Budget",
    "CapacityLimit",
    "CheckFailedError",
    "Checks",
    "ClosedNode",
    "Combination",
    "ConflictError",
    "DeactivationIntent",
    "DeactivationStatus",
    "DomainOutcome",
    "DomainState",
    "EndReason",
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
    "Place",
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
    "ReplicaState",
    "Role",
    "Service",
    "UnevenSpread",
    "UnknownNameError",
    "Unplaced",
    "UpgradeMark",
    "Violation",
]
