"""The events of a tenant until a time: from the tables of its run, and from its nodes in a replay."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs
import polars as pl

from cluster.errors import ResultsError
from cluster.explanation.replay import Look, as_of
from cluster.results.recorded_run import RecordedRun
from cluster.scenario.times import in_words
from plb import UnknownNameError
from plb.phrasing import counted, rule_in_words

ORDER = ("arrival", "placement", "refusal", "move", "interruption", "departure")
"""Kinds of events, in the order of those at the same time."""


@attrs.frozen
class Event:
    """An event of a tenant.

    Parameters
    ----------
    time_s
        Its time, or its begin, in seconds since the start.
    kind
        One of `ORDER`.
    text
        The event in words.
    details
        The same as plain values.
    """

    time_s: int
    kind: str
    text: str
    details: Mapping[str, Any]


@attrs.frozen
class Stay:
    """The stay of a tenant.

    Parameters
    ----------
    tenant, tenant_class
        Its name and its class.
    replicas
        Its target number of replicas.
    arrival_s, departure_s
        Its arrival and departure in seconds since the start; the departure may be after the end of the run.
    """

    tenant: str
    tenant_class: str
    replicas: int
    arrival_s: int
    departure_s: int


def stay_of(run: RecordedRun, tenant: str) -> Stay:
    """Return the stay of a tenant.

    Raises
    ------
    UnknownNameError
        No tenant with this name arrives in the run.
    ResultsError
        If the table of tenants has it twice, or with times that no stay in the run has.
    """
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
    """Return the problem of the rows of a tenant in a run of `end` seconds; None if there is none."""
    if len(rows) > 1:
        return f"found {len(rows)} rows; expected one"
    arrival, departure = rows[0]["arrival_s"], rows[0]["departure_s"]
    if not 0 <= arrival <= end:
        return f"arrival_s: found {arrival}; expected a time from 0 to the end of the run, {end}"
    if departure < arrival:
        return f"departure_s: found {departure}; expected none before the arrival at {arrival}"
    return None


def times_to_look(run: RecordedRun, stay: Stay, until: int) -> list[int]:
    """Return when the tenant's replicas may have changed, up to a time: at its arrival, with plans and node events."""
    times = pl.concat([run.table(name).select("time_s") for name in ("plans", "node_events")])["time_s"]
    return [time for time in sorted({stay.arrival_s, *times.to_list()}) if stay.arrival_s <= time <= until]


def history_of(run: RecordedRun, stay: Stay, looks: Sequence[Look], until: int) -> tuple[Event, ...]:
    """Return what happened to a tenant until a time, in order."""

    def rows(table: str, time: str) -> list[dict[str, Any]]:
        chosen = as_of(run.table(table), until, time).filter(pl.col("tenant") == stay.tenant)
        return chosen.drop("policy", "repeat", "tenant").to_dicts()

    moves = rows("moves", "time_s")
    found = [
        Event(stay.arrival_s, "arrival", f"arrives; it wants {counted(stay.replicas, 'replica')}", attrs.asdict(stay)),
        *_refusals(rows("refusals", "time_s")),
        *_placements(looks, {(move["time_s"], move["target"]) for move in moves}),
        *map(_moved, moves),
        *(_interrupted(one) for one in rows("interruptions", "begin_s")),
    ]
    if stay.departure_s <= until:
        found.append(Event(stay.departure_s, "departure", "leaves", {}))
    return tuple(sorted(found, key=lambda event: (event.time_s, ORDER.index(event.kind))))


def _refusals(rows: Sequence[Mapping[str, Any]]) -> Iterator[Event]:
    """Yield refusals; consecutive refusals of a role for the same reasons are one event."""
    groups: list[list[Mapping[str, Any]]] = []
    for row in sorted(rows, key=lambda row: (row["role"], row["time_s"])):
        before = groups[-1][-1] if groups else None
        alike = before is not None and all(before[name] == row[name] for name in ("role", "ruled_out", "nodes"))
        # a placement in between starts a new event
        if alike and before is not None and before["attempt"] <= row["attempt"]:
            groups[-1].append(row)
        else:
            groups.append([row])
    yield from map(_refused, groups)


def _refused(rows: Sequence[Mapping[str, Any]]) -> Event:
    first, last = rows[0], rows[-1]
    attempts = last["attempt"] - first["attempt"] + 1
    ruled_out = json.loads(first["ruled_out"])
    why = ", ".join(f"{count} by {rule_in_words(rule)}" for rule, count in ruled_out.items())
    again = f", {attempts} times until {in_words(last['time_s'])}" if attempts > 1 else ""
    text = f"{first['role']} is not placed{again}: of {first['nodes']} nodes, {why or 'none is ruled out'}"
    numbers = {"attempts": attempts, "until_s": last["time_s"], "nodes": first["nodes"], "ruled_out": ruled_out}
    return Event(first["time_s"], "refusal", text, {"role": first["role"], **numbers})


def _placements(looks: Sequence[Look], moved: set[tuple[int, str]]) -> Iterator[Event]:
    """Yield the placements of missing replicas; moves have their own events."""
    before: Mapping[int, str | None] = {}
    for time, replicas in looks:
        standing = {one.index: one.node for one in replicas if not one.leaving}
        for one in replicas:
            if one.leaving or one.node is None or one.node in before.values() or (time, one.node) in moved:
                continue
            role = one.role.name.lower()
            yield Event(time, "placement", f"{role} is placed on {one.node}", {"role": role, "node": one.node})
        before = standing


def _moved(row: Mapping[str, Any]) -> Event:
    source, target = row["source"], row["target"]
    what = {
        "swap": f"{row['role']} on {source} swaps roles with the secondary on {target}",
        "promote": f"{row['role']} on {target} takes over as primary",
    }.get(row["kind"], f"{row['role']} moves from {source} to {target}")
    why = "" if row["rule"] == row["cause"] else f": {row['why']}"
    end = "" if row["end_s"] is None else f" at {in_words(row['end_s'])}"
    text = f"{what}, for {row['cause']}{why}; {row['outcome']}{end}"
    return Event(row["time_s"], "move", text, {key: value for key, value in row.items() if key != "time_s"})


def _interrupted(row: Mapping[str, Any]) -> Event:
    end = row["end_s"]
    text = "cannot be used from here on" if end is None else f"cannot be used for {end - row['begin_s']:g} s"
    return Event(row["begin_s"], "interruption", f"{text}, for {row['cause']}", {"end_s": end, "cause": row["cause"]})
