"""The replicas whose traces have to be sampled again: each sample has a time of expiry."""

from __future__ import annotations

from typing import NamedTuple

from plb.array_types import Bool, Float, Int
from plb.compiler import kernel
from plb.risk.trace_sampling import NONE, Array


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


class Draws(NamedTuple):
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


@kernel
def find_expired(
    rows: Rows, draws: Draws, candidates: Int, classes: Int, roles: int, now: float, age: Float, expired: Int
) -> int:
    """Return how many of some rows have to be sampled, and write them to the front of `expired` (m,), in their order.

    Samples for another replica, or for a greater age or demand than the present one, are removed: `widening` is NONE.

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
