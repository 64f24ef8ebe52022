"""A start for planning anew: who may stay where it stands, and places for the others.

L applications, N nodes, P rows of a plan.
"""

from __future__ import annotations

from plb.arrays import Int32
from plb.kernel import kernel
from plb.provisioning.affinity import Neighbours
from plb.provisioning.application_centric import Wanted
from plb.provisioning.measures import Residual
from plb.provisioning.neighbourhood import (
    Clearing,
    allowed_on,
    best_node,
    change,
    lift_limits,
    note_limits,
)
from plb.provisioning.packing import NO_ROOM, Packing, fitting, open_node
from plb.provisioning.standing import NOTHING, Standing


@kernel
def stay(
    wanted: Wanted,
    neighbours: Neighbours,
    packing: Packing,
    standing: Standing,
    clearing: Clearing,
    residual: Residual,
    application: Int32,
    node: Int32,
    count: Int32,
) -> None:
    """Put replicas where they stand, row after row, (P,), as far as capacity and limits allow.

    `clearing.missing` has the replicas of each application, and in the end those without a place.
    """
    for row in range(len(application)):
        who, where = application[row], node[row]
        most = min(int(count[row]), int(clearing.missing[who]))
        if most == 0 or fitting(packing.free, where, wanted.demand, who, 1) == 0:
            continue
        note_limits(neighbours, clearing, who)
        most = min(most, allowed_on(neighbours, packing, standing, clearing, who, where))
        lift_limits(neighbours, clearing, who)
        most = fitting(packing.free, where, wanted.demand, who, most) if most > 0 else 0
        if most > 0:
            clearing.missing[who] -= most
            change(wanted, packing, standing, clearing, residual, 0, who, where, most)


@kernel
def place_missing(
    wanted: Wanted,
    neighbours: Neighbours,
    packing: Packing,
    standing: Standing,
    clearing: Clearing,
    residual: Residual,
) -> int:
    """Place what is missing, in the order wanted, on the nodes in use on which least is left, else on unused ones.

    Returns
    -------
    The application of which a replica finds none, or `NOTHING`.
    """
    for number in range(len(wanted.order)):
        application = wanted.order[number]
        if clearing.missing[application] == 0:
            continue
        note_limits(neighbours, clearing, application)
        live = _list_used(packing, clearing)
        while clearing.missing[application] > 0:
            node, count = best_node(wanted, neighbours, packing, standing, clearing, application, 0, live, 0)
            if node == NOTHING:
                node = open_node(packing, wanted.demand, application)
                if node == NO_ROOM:
                    break
                clearing.used[clearing.nodes[0]] = node
                clearing.nodes[0] += 1
                packing.live[live] = node
                live += 1
                continue
            clearing.missing[application] -= count
            change(wanted, packing, standing, clearing, residual, 0, application, node, count)
        lift_limits(neighbours, clearing, application)
        if clearing.missing[application] > 0:
            return int(application)
    return NOTHING


@kernel
def _list_used(packing: Packing, clearing: Clearing) -> int:
    """List the nodes in use that are not full; return how many there are."""
    live = 0
    for number in range(clearing.nodes[0]):
        node = clearing.used[number]
        if not clearing.full[node]:
            packing.live[live] = node
            live += 1
    return live
