"""A recorded run that is replayed up to a time, so that its engine can be queried: the same run, or an error."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import polars as pl

from cluster.results.recorded_run import RecordedRun
from cluster.simulation.growth import check_classes
from cluster.simulation.simulation import Simulation
from cluster.simulation.tenant_arrivals import make_tenants
from cluster.simulation.tenant_pools import Source, read_source
from plb import PlacementAndLoadBalancing, PlbError
from plb.planning.queries import PlacedReplica

COMPARED: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "moves": ("time_s", ()),
    "refusals": ("time_s", ()),
    "plans": ("time_s", ("time_s", "occasion", "moves", "unplaced")),
    "interruptions": ("begin_s", ()),
    "node_events": ("time_s", ()),
    "node_load": ("time_s", ()),
}
"""Tables in which a replay is compared with the record: their column of time, and the compared columns (empty: all)."""
STAYS = ("tenant", "tenant_class", "replicas", "arrival_s", "departure_s")
"""Columns of the table of tenants that are known before the run."""

Look = tuple[int, tuple[PlacedReplica, ...]]
"""A time, and the replicas of a tenant after all events at that time; empty while the tenant is absent."""


class RunReplay:
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
        source = read_source(run.scenario).of_repeat(run.repeat)
        self._check_traces(source)
        sequence = make_tenants(run.scenario, source, run.repeat)
        check_classes(run.scenario.workload.growth, sequence.traces)
        self.simulation = Simulation(run.scenario, source, sequence, run.policy, run.repeat, progress)
        self.simulation.start()

    @property
    def engine(self) -> PlacementAndLoadBalancing:
        """The engine at the present time of the replay."""
        return self.simulation.engine

    def look_at(self, tenant: str, times: Iterable[int], until: int) -> list[Look]:
        """Continue to `until`, and return the replicas of a tenant after each of `times` until then.

        Raises
        ------
        PlbError
            The events until then differ from the recorded ones.
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
        """Raise `PlbError` if the events up to a time differ from the record."""
        run = self.run
        self.check_stays()
        played = self.simulation.recorder.result(run.policy, run.repeat, until, {}, complete=False).tables
        for name, (time, columns) in COMPARED.items():
            recorded, again = (as_of(table, until, time) for table in (run.table(name), played[name]))
            if not recorded.select(columns or pl.all()).equals(again.select(columns or pl.all())):
                raise self._other(f"up to {until} s, {name}")

    def check_stays(self) -> None:
        """Raise `PlbError` if the tenants that arrive in the whole run differ from those of the record."""
        run = self.run
        made = self.simulation.recorder.result(run.policy, run.repeat, run.seconds, {}, complete=False)
        if not run.table("tenants").select(STAYS).equals(made.tables["tenants"].select(STAYS)):
            raise self._other("tenants")

    def _check_traces(self, source: Source) -> None:
        split = self.run.results.summary.get("split")
        for name, what in (("traces_digest", "traces"), ("history_digest", "traces of the history")):
            recorded = split.get(name) if isinstance(split, Mapping) else None
            if recorded is not None and source.split.get(name) != recorded:
                raise self._other(what)

    def _other(self, what: str) -> PlbError:
        message = f"{what} differ from the recorded ones; the results have other sources, so simulate again"
        return PlbError(f"{self.run.folder}: {message}")


def as_of(table: pl.DataFrame, until: int, time: str = "time_s") -> pl.DataFrame:
    """Return the rows of a table up to a time, as they were known at it: what ends later has no end yet.

    Parameters
    ----------
    table
        A table of a run.
    until
        The time, in seconds since the start.
    time
        The column of the time at which something was, or began.
    """
    known = table.filter(pl.col(time) <= until)
    if "end_s" not in known.columns:
        return known
    lasts = pl.col("end_s") > until
    later = [pl.when(lasts).then(None).otherwise(pl.col("end_s")).alias("end_s")]
    if "outcome" in known.columns:
        later.append(pl.when(lasts).then(pl.lit("under way")).otherwise(pl.col("outcome")).alias("outcome"))
    return known.with_columns(later)
