"""What a plan did for each service domain, and what kept it from doing more: the data behind `Plan.explain`."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from plb.plan import Phase, Proposals


class Idle(Enum):
    """Why a phase did not run; the value continues the sentence "it did not run, as …"."""

    NOT_ASKED = "it was not asked for"
    NOT_DUE = "its interval has not passed"
    SWITCHED_OFF = "it is switched off"
    UNDER_WAY = "moves of an earlier plan are under way"
    AFTER_ANOTHER = "an earlier phase had work to do"
    NOTHING_TO_PLACE = "no replica is missing or one too many"
    NOTHING_BROKEN = "no constraint is broken that it may mend"
    BY_POLICY = "a placement policy decides, which balances nothing"
    BALANCED = "no metric is out of balance"
    NOTHING_MOVABLE = "no replica may move"
    NODE_EVENT = "a node came or went too recently"
    THROTTLED = "the limit on moves is used up for now"
    PARTITIONS_THROTTLED = "too many of the partitions out of balance have moved too often of late"
    UNCHANGED = "nothing has changed since it last found no move"


class Held(Enum):
    """Why a replica that stands may not move; the value completes the sentence "2 of its replicas …"."""

    PINNED = "pinned"
    IN_TRANSITION = "in a partition in transition or quorum loss"
    UPGRADING = "in a partition that is being upgraded"
    NOT_READY = "not ready"
    UNDER_WAY = "still arriving by an earlier move"
    NODE_OUT_OF_SERVICE = "on a node that is down or deactivated"
    NODE_BLOCKED = "on a node that is blocked for the service"
    THROTTLED = "in a partition that has moved too often of late"


@attrs.frozen
class DomainOutcome:
    """What a plan did for the services of one service domain.

    Parameters
    ----------
    domain
        Name of its first service.
    partitions
        Names of its partitions.
    phases
        The phases that ran.
    idle
        Why each of the others did not.
    held
        For each partition with replicas that may not move: how many, by why.
    end_reason, proposals, bound_by
        As in `plb.plan.Plan`.
    action
        What was done, by Service Fabric's name; None where `refresh` runs all phases that are due.
    """

    domain: str
    partitions: tuple[str, ...]
    phases: tuple[Phase, ...]
    idle: Mapping[Phase, Idle]
    held: Mapping[str, Mapping[Held, int]]
    end_reason: str
    proposals: Proposals
    bound_by: tuple[str, ...] = ()
    action: str | None = None
