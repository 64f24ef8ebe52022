"""Placement and load balancing for over-subscribed clusters.

The engine chooses the node of each replica. It uses no clock, no simulator, no file and no process. Begin reading in
`plb.engine`.
"""

from plb.constraints.affinity import Apart
from plb.constraints.capacity import NodeViolation
from plb.constraints.domains import UnevenSpread
from plb.constraints.exclusion import SharedNode
from plb.constraints.placement import Misplaced
from plb.engine import PlacementAndLoadBalancing
from plb.errors import CheckFailedError, ConflictError, ExtensionError, InvalidValueError, PlbError, UnknownNameError
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
from plb.model.alternatives import Alternatives, ClosedNode, Place
from plb.model.metric import PlacementStrategy
from plb.model.move import Move, MoveKind, Phase, Reason
from plb.model.outcome import DomainOutcome, Idle, Immovable, Proposals
from plb.model.plan import Energy, Plan
from plb.model.scores import NodeScores
from plb.model.snapshot import Snapshot
from plb.model.unplaced import Unplaced
from plb.model.violations import BrokenConstraint, Violation
from plb.planning.queries import DomainState, PlacedReplica
from plb.search.budget import Budget, EndReason
from plb.settings.config import LONG_SEARCH, CapacityLimit, Checks, Combination, PlbConfig, Replay

__all__ = [
    "LONG_SEARCH",
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
    "ExtensionError",
    "Idle",
    "Immovable",
    "InvalidValueError",
    "Metric",
    "Misplaced",
    "Move",
    "MoveCost",
    "MoveKind",
    "Node",
    "NodeScores",
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
    "SharedNode",
    "Snapshot",
    "UnevenSpread",
    "UnknownNameError",
    "Unplaced",
    "UpgradeMark",
    "Violation",
]
