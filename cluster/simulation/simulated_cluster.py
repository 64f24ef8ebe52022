"""What all parts of a run share: the scenario, the clock, the engine, the replicas of the host and the record."""

from __future__ import annotations

import attrs
import simpy

from cluster.scenario.scenario import Scenario
from cluster.simulation.ledger import Ledger
from cluster.simulation.recorder import Recorder
from plb import PlacementAndLoadBalancing


@attrs.frozen(eq=False)
class SimulatedCluster:
    """The shared objects of a run.

    Parameters
    ----------
    scenario
        The scenario.
    env
        The simulation, with its clock.
    engine
        The engine that places the replicas.
    ledger
        The replicas of the simulated cluster.
    recorder
        Takes the events of the run.
    """

    scenario: Scenario
    env: simpy.Environment
    engine: PlacementAndLoadBalancing
    ledger: Ledger
    recorder: Recorder

    @property
    def now(self) -> int:
        """Seconds since the start of the run."""
        return int(self.env.now)

    def interrupt(self, tenant: int, cause: str) -> None:
        """Record that a tenant is unavailable from now on while its primary changes."""
        self.recorder.availability.interrupt(tenant, self.now, self.scenario.cluster.interruption_seconds, cause)
