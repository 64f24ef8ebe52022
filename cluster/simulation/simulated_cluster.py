"""What all parts of a run share: the scenario, the clock, the engine, the replicas of the host and the record."""

from __future__ import annotations

from collections.abc import Generator
from enum import IntEnum
from typing import Any

import attrs
import simpy
from simpy.core import SimTime
from simpy.events import EventPriority

from cluster.scenario.scenario import Scenario
from cluster.simulation.ledger import Ledger
from cluster.simulation.recorder import Recorder
from plb import PlacementAndLoadBalancing

Process = Generator[simpy.Event, Any, None]


@attrs.frozen(eq=False)
class SimulatedCluster:
    """The shared objects of a run."""

    scenario: Scenario
    """The scenario."""
    env: simpy.Environment
    """The simulation, with its clock."""
    engine: PlacementAndLoadBalancing
    """The engine that places the replicas."""
    ledger: Ledger
    """The replicas of the simulated cluster."""
    recorder: Recorder
    """Takes the events of the run."""

    @property
    def now(self) -> int:
        """Seconds since the start of the run."""
        return int(self.env.now)

    def interrupt(self, tenant: int, cause: str) -> None:
        """Record that a tenant is unavailable from now on while its primary changes because of `cause`."""
        self.recorder.availability.interrupt(tenant, self.now, self.scenario.cluster.interruption_seconds, cause)


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
    """An event at a time, in seconds since the start; `kind` orders the events of one time."""

    def __init__(self, env: simpy.Environment, time: SimTime, kind: Kind) -> None:
        """Schedule an event at `time`, in seconds since the start; `kind` gives the order of events at one time."""
        super().__init__(env)
        self._ok = True
        self._value = None
        env.schedule(self, EventPriority(kind), time - env.now)
