"""Placement and load balancing for over-subscribed clusters.

The engine chooses the node of each replica. It uses no clock, no simulator, no file and no process. Begin reading in
`plb.engine`.
"""

from plb.constraints.affinity import Apart
from plb.constraints.application_capacity import OverApplicationCapacity
from plb.constraints.application_sums import ReservationViolation
from plb.constraints.capacity import NodeViolation
from plb.constraints.domains import UnevenSpread
from plb.constraints.exclusion import SharedNode
from plb.constraints.placement import Misplaced
from plb.constraints.scale_out import TooManyNodes
from plb.engine import PlacementAndLoadBalancing
from plb.errors import (
    CheckFailedError,
    ConflictError,
    ExtensionError,
    InsufficientCapacityError,
    InvalidValueError,
    PlbError,
    UnknownNameError,
)
from plb.model import (
    Application,
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
from plb.model.alternatives import Alternatives, ClosedNode, NodeScores, Place
from plb.model.metric import PlacementStrategy
from plb.model.move import Move, MoveKind, Phase, Reason
from plb.model.outcome import DomainOutcome, Idle, Immovable, Proposals, Undrained, Unplaced
from plb.model.partition import PartitionColumns
from plb.model.plan import Energy, Plan
from plb.model.rules import BrokenConstraint, Violation
from plb.model.snapshot import Snapshot
from plb.planning.explanations.omissions import Omission, OnDownNode, Unreported, WithoutMark
from plb.planning.explanations.queries import DomainState, PlacedReplica
from plb.search.budget import Budget, EndReason
from plb.settings.config import LONG_SEARCH, CapacityLimit, Checks, Combination, PlbConfig, Replay

__version__ = "0.1.0"

__all__ = [
    "LONG_SEARCH",
    "Alternatives",
    "Apart",
    "Application",
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
    "InsufficientCapacityError",
    "InvalidValueError",
    "Metric",
    "Misplaced",
    "Move",
    "MoveCost",
    "MoveKind",
    "Node",
    "NodeScores",
    "NodeViolation",
    "Omission",
    "OnDownNode",
    "OverApplicationCapacity",
    "Partition",
    "PartitionColumns",
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
    "ReservationViolation",
    "Role",
    "Service",
    "SharedNode",
    "Snapshot",
    "TooManyNodes",
    "Undrained",
    "UnevenSpread",
    "UnknownNameError",
    "Unplaced",
    "Unreported",
    "UpgradeMark",
    "Violation",
    "WithoutMark",
]
