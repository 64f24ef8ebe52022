"""The replicas whose traces have to be sampled again: each sample has a time of expiry."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from plb.array_types import Array, Bool, Float, Int, Int32
from plb.compiler import by_pointer, kernel
from plb.risk.eligibility import TraceTable
from plb.risk.eligible_draws import NONE
from plb.risk.replica_draws import age_horizon, demand_horizon, draw_replica


@by_pointer
class Rows(NamedTuple):
    """The present data of M rows; arrays have shape (M,) unless they say otherwise."""

    used: Bool
    leaving: Bool
    """Whether the row is only the departing end of a move."""
    key: Array
    """As uint64, see `plb.risk.counter_based_random.replica_key`."""
    generation: Int
    """Rises each time the row is taken."""
    service: Int
    role: Int
    created: Float
    """Seconds."""
    largest_demand: Float
    """(M, R) user units."""
    load: Int
    """(M, R) quanta."""
    reported: Bool
    vacant: Bool
    """Whether the replica is missing, and the row keeps its place."""


@by_pointer
class KeptDraws(NamedTuple):
    """The replicas for which the rows were sampled, and the expiry of the samples; arrays as in `Rows`."""

    key: Array
    generation: Int
    group: Int
    """Class and role."""
    widening: Array
    """As int8; NONE if nothing is sampled."""
    age: Float
    """Seconds, when sampled."""
    demand: Float
    """(M, R) largest demand in user units, when sampled."""
    valid_age: Float
    """See `plb.risk.trace_sampling.TraceDraws`."""
    valid_demand: Float
    """(M, R)"""
    reported: Bool
    """Whether the replica has reported, which changes only what its samples mean."""


@kernel
def find_expired(
    rows: Rows, draws: KeptDraws, candidates: Int, classes: Int, roles: int, now: float, age: Float, expired: Int
) -> int:
    """Return how many of some rows have to be sampled, and write them to the front of `expired` (m,), in their order.

    Samples for another replica, or for a greater age or demand than the present one, are removed: `widening` is NONE.
    So are those of a replica whose report was reset.

    Parameters
    ----------
    rows, draws
        The present data, and the previous samples.
    candidates
        (m,) the rows that may have to be sampled.
    classes
        (S,) class of each service.
    roles
        Number of roles.
    now
        Present time in seconds.
    age
        (M,) seconds since each row was created; filled in for the candidates in use.
    """
    found = 0
    for row in candidates:
        if not rows.used[row] or rows.leaving[row]:
            continue
        age[row] = max(0.0, now - rows.created[row])
        other = rows.key[row] != draws.key[row] or rows.generation[row] != draws.generation[row]
        other |= classes[rows.service[row]] * roles + rows.role[row] != draws.group[row] or age[row] < draws.age[row]
        other |= draws.reported[row] and not rows.reported[row]
        draws.reported[row] |= rows.reported[row]
        stale = age[row] > draws.valid_age[row]
        for metric in range(rows.largest_demand.shape[1]):
            other |= draws.demand[row, metric] > rows.largest_demand[row, metric]
            stale |= rows.largest_demand[row, metric] > draws.valid_demand[row, metric]
        if other:
            draws.widening[row] = NONE
        if other or stale:
            expired[found] = row
            found += 1
    return found


@kernel
def sample_again(
    seed: np.uint64,
    rows: Rows,
    draws: KeptDraws,
    expired: Int,
    classes: Int,
    roles: int,
    age: Float,
    columns: Int,
    table: TraceTable,
    demand: Float,
    scratch: Int32,
    trace: Int32,
) -> None:
    """Sample the traces of some rows, and note for which replica and until when.

    Parameters
    ----------
    rows, draws
        The present data, and the samples; the latter are changed.
    expired
        (m,) the rows.
    classes, roles, age
        As in `find_expired`.
    columns
        (R,) column of each metric of the rows in the history.
    table
        Of the history, with its own metrics.
    demand, scratch
        One number for each metric of the history, zero where it is no metric of the rows; and as in `draw_replica`.
    trace
        (M, K) rows of the history; changed.
    """
    for row in expired:
        code, role = classes[rows.service[row]], rows.role[row]
        for metric in range(len(columns)):
            demand[columns[metric]] = rows.largest_demand[row, metric]
        level = draw_replica(
            seed,
            rows.key[row],
            code,
            role,
            age[row],
            demand,
            table,
            scratch,
            trace[row],
            draws.widening[row],
        )
        draws.group[row], draws.widening[row] = code * roles + role, level
        note_validity(row, rows, draws, age[row], columns, table, trace[row])


@kernel
def note_validity(
    row: int,
    rows: Rows,
    draws: KeptDraws,
    age: float,
    columns: Int,
    table: TraceTable,
    trace: Int32,
) -> None:
    """Note for which replica the `trace` (K,) of a row was sampled, and until when; for `sample_again`."""
    level = draws.widening[row]
    draws.key[row], draws.generation[row] = rows.key[row], rows.generation[row]
    draws.reported[row] = rows.reported[row]
    draws.age[row] = age
    draws.valid_age[row] = age_horizon(trace, level, table)
    for metric in range(len(columns)):
        draws.demand[row, metric] = rows.largest_demand[row, metric]
        draws.valid_demand[row, metric] = demand_horizon(trace, level, columns[metric], table)
