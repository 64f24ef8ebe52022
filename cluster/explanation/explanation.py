"""The reasons for the nodes of a tenant's replicas at a time of a recorded run: the data of `plb explain`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs
import polars as pl

from cluster.errors import ResultsError
from cluster.results.recorded_run import RecordedRun
from cluster.scenario.times import in_words
from cluster.simulation.ledger import check_classes
from cluster.simulation.simulation import Simulation
from cluster.simulation.tenant_arrivals import make_tenants
from cluster.simulation.tenant_pools import Source, read_source
from plb import Alternatives, InvalidValueError, PlacementAndLoadBalancing, PlbConfig, PlbError, UnknownNameError
from plb.phrasing import counted, rule_in_words
from plb.planning.explanations.queries import PlacedReplica
from plb.settings.config import ANNEALING

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
    """A recorded run, simulated again up to a time; `progress` gets the simulated seconds at every metering."""

    def __init__(self, run: RecordedRun, progress: Callable[[float], None] | None = None) -> None:
        """Start the simulation of a run; raise `PlbError` if its traces are no longer the recorded ones."""
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
        """Continue to `until`, and return a look at a tenant after each of `times` up to `until`, and at `until`.

        Times are seconds since the start. Raise `PlbError` if the events differ from the record.
        """
        looks = []
        for look_time in sorted({*(time for time in times if time <= until), until}):
            self.simulation.advance(look_time)
            looks.append((look_time, self._replicas_of(tenant)))
        self._check(until)
        return looks

    def _replicas_of(self, tenant: str) -> tuple[PlacedReplica, ...]:
        """Return the replicas of a tenant now; empty while it is absent."""
        try:
            return self.engine.replicas(tenant)
        except LookupError:
            return ()

    def _check(self, until: int) -> None:
        """Raise `PlbError` if the events up to `until`, in seconds since the start, differ from the record."""
        run = self.run
        self.check_stays()
        replayed_tables = self.simulation.recorder.result(run.policy, run.repeat, until, {}, complete=False).tables
        for name, (time_column, columns) in COMPARED.items():
            recorded, replayed = (
                as_of(table, until, time_column) for table in (run.table(name), replayed_tables[name])
            )
            if not recorded.select(columns or pl.all()).equals(replayed.select(columns or pl.all())):
                raise self._difference_error(f"up to {until} s, {name}")

    def check_stays(self) -> None:
        """Raise `PlbError` if the tenants that arrive in the whole run differ from the recorded tenants."""
        run = self.run
        replayed = self.simulation.recorder.result(run.policy, run.repeat, run.seconds, {}, complete=False)
        if not run.table("tenants").select(STAYS).equals(replayed.tables["tenants"].select(STAYS)):
            raise self._difference_error("tenants")

    def _check_traces(self, source: Source) -> None:
        """Raise `PlbError` if the digests of the traces differ from the recorded digests."""
        for name, input_name in (("traces_digest", "traces"), ("history_digest", "traces of the history")):
            recorded = self.run.results.split.get(name)
            if recorded is not None and source.split.get(name) != recorded:
                raise self._difference_error(input_name)

    def _difference_error(self, differing: str) -> PlbError:
        """Return the error that inputs or a table, `differing` in words, differ from the recorded results."""
        message = f"{differing} differ from the recorded ones; the results have other sources, so simulate again"
        return PlbError(f"{self.run.folder}: {message}")


def as_of(table: pl.DataFrame, until: int, time: str = "time_s") -> pl.DataFrame:
    """Return the rows of a table that begin by `until`, by its column `time`; an end after `until` is removed."""
    begun = table.filter(pl.col(time) <= until)
    if "end_s" not in begun.columns:
        return begun
    ends_later = pl.col("end_s") > until
    open_ends = [pl.when(ends_later).then(None).otherwise(pl.col("end_s")).alias("end_s")]
    if "outcome" in begun.columns:
        open_ends.append(pl.when(ends_later).then(pl.lit("under way")).otherwise(pl.col("outcome")).alias("outcome"))
    return begun.with_columns(open_ends)


ORDER = ("arrival", "placement", "refusal", "move", "interruption", "departure")
"""Kinds of events, in the order in which events at the same time are listed."""


@attrs.frozen
class Event:
    """An event of a tenant."""

    time_s: int
    """Its time, or its begin, in seconds since the start."""
    kind: str
    """One of `ORDER`."""
    text: str
    """The event in words."""
    details: Mapping[str, Any]
    """The event as plain values."""


@attrs.frozen
class Stay:
    """The stay of a tenant."""

    tenant: str
    """Name of the tenant."""
    tenant_class: str
    """Its class."""
    replicas: int
    """Its target number of replicas."""
    arrival_s: int
    """Its arrival, in seconds since the start."""
    departure_s: int
    """Its departure, in seconds since the start; it may be after the end of the run."""


def stay_of(run: RecordedRun, tenant: str) -> Stay:
    """Return the stay of a tenant; an impossible stay raises `ResultsError`."""
    tenants = run.table("tenants")
    rows = tenants.filter(pl.col("tenant") == tenant).to_dicts()
    if not rows:
        raise UnknownNameError("tenant", tenant, tenants["tenant"].to_list(), str(run.folder))
    problem = _problem_of_stay(rows, run.seconds)
    if problem is not None:
        raise ResultsError(run.path_of("tenants"), [f"tenant {tenant!r}: {problem}"])
    row = rows[0]
    return Stay(tenant, *(row[name] for name in ("tenant_class", "replicas", "arrival_s", "departure_s")))


def _problem_of_stay(rows: Sequence[Mapping[str, Any]], end: int) -> str | None:
    """Return what is wrong with a tenant's rows of the table of tenants, in a run of `end` seconds; None: nothing."""
    if len(rows) > 1:
        return f"found {len(rows)} rows; expected one"
    arrival, departure = rows[0]["arrival_s"], rows[0]["departure_s"]
    if not 0 <= arrival <= end:
        return f"arrival_s: found {arrival}; expected a time from 0 to the end of the run, {end}"
    if departure < arrival:
        return f"departure_s: found {departure}; expected none before the arrival at {arrival}"
    return None


def times_to_look(run: RecordedRun, stay: Stay, until: int) -> list[int]:
    """Return when replicas of a tenant may have changed, up to `until`: at its arrival, with plans and node events."""
    times = pl.concat([run.table(name).select("time_s") for name in ("plans", "node_events")])["time_s"]
    return [time for time in sorted({stay.arrival_s, *times.to_list()}) if stay.arrival_s <= time <= until]


def history_of(run: RecordedRun, stay: Stay, looks: Sequence[Look], until: int) -> tuple[Event, ...]:
    """Return what happened to a tenant until a time, in order.

    `looks`: the tenant's replicas at all times at which they may have changed.
    """

    def rows(table: str, time: str) -> list[dict[str, Any]]:
        """Return the rows of a table that are about the tenant and begin by `until`; `time`: column of the begin."""
        tenant_rows = as_of(run.table(table), until, time).filter(pl.col("tenant") == stay.tenant)
        return tenant_rows.drop("policy", "repeat", "tenant").to_dicts()

    moves = rows("moves", "time_s")
    events = [
        Event(stay.arrival_s, "arrival", f"arrives; it wants {counted(stay.replicas, 'replica')}", attrs.asdict(stay)),
        *_refusals(rows("refusals", "time_s")),
        *_placements(looks, {(move["time_s"], move["target"]) for move in moves}),
        *map(_moved, moves),
        *(_interrupted(row) for row in rows("interruptions", "begin_s")),
    ]
    if stay.departure_s <= until:
        events.append(Event(stay.departure_s, "departure", "leaves", {}))
    return tuple(sorted(events, key=lambda event: (event.time_s, ORDER.index(event.kind))))


def _refusals(rows: Sequence[Mapping[str, Any]]) -> Iterator[Event]:
    """Yield events for rows of the table of refusals; consecutive rows with the same role and reasons are one event."""
    groups: list[list[Mapping[str, Any]]] = []
    for row in sorted(rows, key=lambda row: (row["role"], row["time_s"])):
        previous = groups[-1][-1] if groups else None
        is_alike = previous is not None and all(previous[name] == row[name] for name in ("role", "ruled_out", "nodes"))
        # a placement in between starts a new event
        if is_alike and previous is not None and previous["attempt"] <= row["attempt"]:
            groups[-1].append(row)
        else:
            groups.append([row])
    yield from map(_refused, groups)


def _refused(rows: Sequence[Mapping[str, Any]]) -> Event:
    """Return the event of consecutive rows of the table of refusals with the same role and reasons."""
    first, last = rows[0], rows[-1]
    attempts = last["attempt"] - first["attempt"] + 1
    ruled_out = json.loads(first["ruled_out"])
    rules = ", ".join(f"{count} by {rule_in_words(rule)}" for rule, count in ruled_out.items())
    repetitions = f", {attempts} times until {in_words(last['time_s'])}" if attempts > 1 else ""
    text = f"{first['role']} is not placed{repetitions}: of {first['nodes']} nodes, {rules or 'none is ruled out'}"
    numbers = {"attempts": attempts, "until_s": last["time_s"], "nodes": first["nodes"], "ruled_out": ruled_out}
    return Event(first["time_s"], "refusal", text, {"role": first["role"], **numbers})


def _placements(looks: Sequence[Look], moved: set[tuple[int, str]]) -> Iterator[Event]:
    """Yield the placements of missing replicas; `looks`: times, each with the tenant's replicas at that time.

    `moved`: time and target of each move; moves have events of their own.
    """
    nodes_before: Mapping[int, str | None] = {}
    for time, replicas in looks:
        nodes_now = {replica.index: replica.node for replica in replicas if not replica.leaving}
        for replica in replicas:
            if (
                replica.leaving
                or replica.node is None
                or replica.node in nodes_before.values()
                or (time, replica.node) in moved
            ):
                continue
            role = replica.role.name.lower()
            yield Event(time, "placement", f"{role} is placed on {replica.node}", {"role": role, "node": replica.node})
        nodes_before = nodes_now


def _moved(row: Mapping[str, Any]) -> Event:
    """Return the event of a row of the table of moves."""
    source, target = row["source"], row["target"]
    event = {
        "swap": f"{row['role']} on {source} swaps roles with the secondary on {target}",
        "promote": f"{row['role']} on {target} takes over as primary",
    }.get(row["kind"], f"{row['role']} moves from {source} to {target}")
    why = "" if row["rule"] == row["cause"] else f": {row['why']}"
    end = "" if row["end_s"] is None else f" at {in_words(row['end_s'])}"
    text = f"{event}, for {row['cause']}{why}; {row['outcome']}{end}"
    return Event(row["time_s"], "move", text, {key: value for key, value in row.items() if key != "time_s"})


def _interrupted(row: Mapping[str, Any]) -> Event:
    """Return the event of a row of the table of interruptions."""
    end = row["end_s"]
    text = "cannot be used from here on" if end is None else f"cannot be used for {end - row['begin_s']:g} s"
    return Event(row["begin_s"], "interruption", f"{text}, for {row['cause']}", {"end_s": end, "cause": row["cause"]})


@attrs.frozen(eq=False)
class Explanation:
    """The data of `plb explain`."""

    run: RecordedRun
    """The recorded run."""
    stay: Stay
    """The stay of the tenant in the run."""
    time_s: int
    """The time in seconds since the start; all events at this time are included."""
    events: tuple[Event, ...] = ()
    """Events of the tenant up to `time_s`."""
    replicas: tuple[Alternatives, ...] = ()
    """Node and alternatives of each of its replicas; empty while the tenant is absent."""
    leaving: tuple[str, ...] = ()
    """Nodes that replicas of the tenant are leaving."""
    shares: Mapping[str, Mapping[str, float]] = attrs.field(factory=dict)
    """Load of every node by metric, as a share of its capacity; metrics without one are left out."""
    config: PlbConfig | None = None
    """The engine's settings; None while the tenant is not there."""

    @property
    def status(self) -> str:
        """``"not arrived"``, ``"departed"`` or ``"there"``."""
        if self.time_s < self.stay.arrival_s:
            return "not arrived"
        return "departed" if self.stay.departure_s <= self.time_s else "there"

    @property
    def decided_by(self) -> str | None:
        """The placement policy that decides instead of the energy; None if the energy decides."""
        return None if self.config is None or self.config.policy == ANNEALING else self.config.policy


def question(run: RecordedRun, tenant: str, time_s: int) -> Explanation:
    """Return an explanation without an answer: a tenant of a run and a time, in seconds since the start."""
    if not 0 <= time_s <= run.seconds:
        allowed = f"a time from 0 to the end of the run, {in_words(run.seconds)} ({run.seconds} s)"
        raise InvalidValueError("time", "T", time_s, allowed)
    return Explanation(run, stay_of(run, tenant), time_s)


def answer(question: Explanation, progress: Callable[[float], None] | None = None) -> Explanation:
    """Return a question with its answer; the run is simulated again up to its time, unless the tenant comes later.

    `progress` gets the simulated seconds at every metering.
    """
    run, stay = question.run, question.stay
    if question.status == "not arrived":
        RunReplay(run).check_stays()
        return question
    until = min(question.time_s, stay.departure_s)
    replay = RunReplay(run, progress)
    looks = replay.look_at(stay.tenant, times_to_look(run, stay, until), until)
    explanation = attrs.evolve(question, events=history_of(run, stay, looks, until))
    if explanation.status == "departed":
        return explanation
    engine = replay.engine
    return attrs.evolve(
        explanation,
        replicas=engine.alternatives(stay.tenant, now=explanation.time_s),
        leaving=tuple(str(replica.node) for replica in engine.replicas(stay.tenant) if replica.leaving),
        shares=_shares(replay),
        config=engine.config,
    )


def _shares(replay: RunReplay) -> dict[str, dict[str, float]]:
    """Return the load of every node as a share of its capacity, by node, then metric, where there is a capacity."""
    recorder = replay.simulation.recorder
    shares: dict[str, dict[str, float]] = {}
    for (node, loads), capacities in zip(replay.engine.node_loads().items(), recorder.capacity, strict=True):
        limits: dict[str, Any] = dict(zip(recorder.metric_names, capacities.tolist(), strict=True))
        shares[node] = {name: load / limits[name] for name, load in loads.items() if 0 < limits[name] < float("inf")}
    return shares
