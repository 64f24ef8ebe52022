"""A recorded run played again up to a time, so that its engine can be asked: the same run, or an error."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import polars as pl

from cluster.growth import check_classes
from cluster.pools import read_source
from cluster.recorded import RecordedRun
from cluster.simulation import Simulation
from cluster.tenants import make_tenants
from plb import PlacementAndLoadBalancing, PlbError
from plb.telling import PlacedReplica

COMPARED = {"moves": ("end_s", "outcome"), "refusals": (), "node_load": ()}
"""Tables by which a replay is held against the record, and their columns that tell of later times."""

Look = tuple[int, tuple[PlacedReplica, ...]]
"""A time, and the replicas of a tenant after everything that happened at it; none while it is not there."""


class Replay:
    """A run from its start to a time.

    Parameters
    ----------
    run
        The recorded one.
    progress
        Called with the simulated time in seconds at every metering.
    """

    def __init__(self, run: RecordedRun, progress: Callable[[float], None] | None = None) -> None:
        self.run = run
        source = read_source(run.scenario)
        sequence = make_tenants(run.scenario, source, run.repeat)
        check_classes(run.scenario.workload.growth, sequence.traces)
        self.simulation = Simulation(run.scenario, source, sequence, run.policy, run.repeat, progress)
        self.simulation.start()

    @property
    def engine(self) -> PlacementAndLoadBalancing:
        """The engine, as it is at the time that the replay has come to."""
        return self.simulation.engine

    def look_at(self, tenant: str, times: Iterable[int], until: int) -> list[Look]:
        """Play on to `until`, and return the replicas of a tenant after each of `times` up to there.

        Raises
        ------
        PlbError
            If what happened until then is not what was recorded.
        """
        looks = []
        for when in sorted({*(time for time in times if time <= until), until}):
            self.simulation.advance(when)
            looks.append((when, self._replicas_of(tenant)))
        self._check(until)
        return looks

    def _replicas_of(self, tenant: str) -> tuple[PlacedReplica, ...]:
        try:
            return self.engine.replicas(tenant)
        except LookupError:
            return ()

    def _check(self, until: int) -> None:
        """Raise `PlbError` if moves, refusals or loads up to a time are not those of the record."""
        run = self.run
        played = self.simulation.recorder.result(run.policy, run.repeat, until, {}, complete=False).tables
        for name, later in COMPARED.items():
            if not _up_to(until, run.table(name), later).equals(_up_to(until, played[name], later)):
                message = f"up to {until} s, {name} are not those that were recorded"
                raise PlbError(f"{run.folder}: {message}; the results come from other sources, so simulate anew")


def _up_to(time: int, table: pl.DataFrame, without: Iterable[str]) -> pl.DataFrame:
    return table.filter(pl.col("time_s") <= time).drop(*without)
