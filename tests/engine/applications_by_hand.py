"""The rules of applications in plain Python: replicas and loads of each on each node, counted row by row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from plb.array_types import NOWHERE
from plb.state.arrays import Problem, siblings_of

Places = Sequence[int]


def members(problem: Problem, places: Places, application: int, node: int | None = None) -> list[int]:
    """Return the placed rows of an application that do not leave, on one node or on all."""
    return [
        row
        for row, at in enumerate(places)
        if problem.application[row] == application
        and at != NOWHERE
        and not problem.leaving[row]
        and (node is None or at == node)
    ]


def load_of(problem: Problem, rows: Sequence[int]) -> np.ndarray:
    """Return the load of rows together, (R,)."""
    return np.asarray(problem.load[list(rows)].sum(axis=0), np.int64)


def leaving_load(problem: Problem, application: int, node: int) -> np.ndarray:
    """Return the load of the rows of an application that leave a node, (R,)."""
    gone = (problem.application == application) & problem.leaving & (problem.origin == node)
    return load_of(problem, np.flatnonzero(gone).tolist())


def nodes_in_use(problem: Problem, places: Places, application: int) -> set[int]:
    return {int(places[row]) for row in members(problem, places, application)}


def kept_free(problem: Problem, rows: Sequence[int]) -> np.ndarray:
    """Return what a node with these rows keeps free beyond their loads, (R,)."""
    kept = np.zeros(problem.load.shape[1], np.int64)
    for application in {int(problem.application[row]) for row in rows} - {NOWHERE}:
        own = [row for row in rows if problem.application[row] == application]
        kept += np.maximum(0, problem.reservation[application] - load_of(problem, own))
    return kept


def standing(problem: Problem, places: Places, node: int) -> list[int]:
    """Return the rows on a node that do not leave."""
    return [row for row, at in enumerate(places) if at == node and not problem.leaving[row]]


def without_replaced(problem: Problem, places: Places, rows: Sequence[int]) -> list[int]:
    """Return the rows without the standbys to whose nodes another replica of their partition came."""
    came = [
        (other, at)
        for other, at in enumerate(places)
        if at not in (NOWHERE, problem.origin[other]) and not problem.standby[other]
    ]
    replaced = {(one, at) for other, at in came for one in siblings_of(problem, other)}
    return [row for row in rows if not (problem.standby[row] and (row, places[row]) in replaced)]


def sums_of_applications(problem: Problem, places: Places) -> dict[str, list[object]]:
    nodes, applications = range(len(problem.limit)), range(len(problem.most_nodes))
    on_nodes = [[members(problem, places, one, node) for node in nodes] for one in applications]
    reserved = [kept_free(problem, standing(problem, places, node)).tolist() for node in nodes]
    return {
        "application_load": [[load_of(problem, rows).tolist() for rows in of] for of in on_nodes],
        "application_replicas": [[len(rows) for rows in of] for of in on_nodes],
        "application_total": [load_of(problem, members(problem, places, one)).tolist() for one in applications],
        "application_nodes": [len(nodes_in_use(problem, places, one)) for one in applications],
        "reserved": reserved if problem.grouped else [],
    }


def is_beyond_scale_out(problem: Problem, places: Places, row: int, target: int) -> bool:
    application = int(problem.application[row])
    if application == NOWHERE:
        return False
    used = nodes_in_use(problem, places, application)
    others = {int(places[one]) for one in members(problem, places, application) if one != row}
    return target not in used and len(others) >= problem.most_nodes[application]


def exceeds_application_capacity(problem: Problem, places: Places, row: int, outgoing: int, target: int) -> bool:
    """Return whether a row exceeds the capacity of its application on a node, where another gives way."""
    application = int(problem.application[row])
    if application == NOWHERE:
        return False
    gone = outgoing != NOWHERE and problem.application[outgoing] == application
    growth = problem.load[row] - (problem.load[outgoing] if gone else 0)
    present = load_of(problem, members(problem, places, application, target))
    present = present + leaving_load(problem, application, target)
    over = present + growth > problem.application_node_limit[application]
    return bool(((growth > 0) & over).any())


def exceeds_total(problem: Problem, places: Places, row: int, standby: int) -> bool:
    application = int(problem.application[row])
    if application == NOWHERE or problem.origin[row] != NOWHERE:
        return False
    others = [one for one in members(problem, places, application) if one != row]
    growth = problem.load[row] - (problem.load[standby] if standby != NOWHERE else 0)
    over = load_of(problem, others) + growth > problem.application_limit[application]
    return bool(((growth > 0) & over).any())


def overfills_with_reservations(problem: Problem, places: Places, row: int, outgoing: int, target: int) -> bool:
    """Return whether load and reservations of a node grow together and exceed its limit."""
    before = standing(problem, places, target)
    after = [one for one in before if one != outgoing] + [row]
    occupied = [load_of(problem, rows) + kept_free(problem, rows) for rows in (before, after)]
    limit = (problem.limit if problem.origin[row] == NOWHERE else problem.move_limit)[target]
    over = occupied[1] + problem.leaving_load[target] > limit
    return bool(((occupied[1] > occupied[0]) & over).any())


def breaches_of_applications(problem: Problem, places: Places, *, scale_out: bool, capacity: bool) -> Iterator[float]:
    """Yield one number for each breach of an application: its excess relative to a limit of load, or 0."""
    for application in range(len(problem.most_nodes)):
        used = nodes_in_use(problem, places, application)
        if scale_out:
            yield from [0.0] * max(0, len(used) - int(problem.most_nodes[application]))
        for node in used if capacity else ():
            present = without_replaced(problem, places, members(problem, places, application, node))
            load = load_of(problem, present)
            for value, limit in zip(load.tolist(), problem.application_node_limit[application].tolist(), strict=True):
                if value > limit:
                    yield (value - limit) / max(1, limit)
