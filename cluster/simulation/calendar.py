"""Events at given times, totally ordered by time, then by kind, then by when they were scheduled.

All times are whole seconds, so that equal times compare as equal.
"""

from __future__ import annotations

from enum import IntEnum

import simpy
from simpy.core import SimTime
from simpy.events import EventPriority


class Kind(IntEnum):
    """Kinds of events, in the order in which they happen at one time.

    A replica is metered at the times t with creation < t <= creation + lifetime ([1] section 3.3), so metering precedes
    departures and arrivals. Unplaced replicas are retried before new tenants arrive. A copy that completes in the
    second in which a node fails is not lost.
    """

    COPY_ENDS = 2
    NODE_BACK = 3
    NODE_LOST = 4
    GROWTH = 5
    METERING = 6
    DEPARTURE = 7
    RETRY = 8
    ARRIVAL = 9
    UPGRADE = 10
    LOOK = 11


class At(simpy.Event):
    """An event that happens at a given time.

    Parameters
    ----------
    env
        The simulation.
    time
        When; not before the present.
    kind
        Its order among events of the same time.
    """

    def __init__(self, env: simpy.Environment, time: SimTime, kind: Kind) -> None:
        super().__init__(env)
        self._ok = True
        self._value = None
        env.schedule(self, EventPriority(kind), time - env.now)
