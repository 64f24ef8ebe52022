"""A start for replanning: the replicas that may stay, and nodes for the others.

L applications, N nodes, P rows of a plan.
"""

from __future__ import annotations

from plb.array_types import Int32
from plb.compiler import kernel
from plb.provisioning.neighbourhood import (
    Clearing,
    Site,
    allowed_on,
    best_node,
    change,
    lift_limits,
    note_limits,
)
from plb.provisioning.packing import NO_CAPACITY, Packing, fitting, open_node
from plb.provisioning.standing import NOTHING


@kernel
def stay(site: Site, application: Int32, node: Int32, count: Int32) -> None:
    """Place replicas on their present nodes, row by row, (P,), within capacity and limits.

    `clearing.missing` has the replicas of each application, and at the end those without a node.
    """
    packing, clearing, demand = site.packing, site.clearing, site.required.demand
    for row in range(len(application)):
        who, where = application[row], node[row]
        most = min(int(count[row]), int(clearing.missing[who]))
        if most == 0 or fitting(packing.free, where, demand, who, 1) == 0:
            continue
        note_limits(site, who)
        most = min(most, allowed_on(site, who, where))
        lift_limits(site, who)
        most = fitting(packing.free, where, demand, who, most) if most > 0 else 0
        if most > 0:
            clearing.missing[who] -= most
            change(site, 0, who, where, most)


@kernel
def place_missing(site: Site) -> int:
    """Place what is missing, in the order wanted, on the nodes in use on which least is left, else on unused ones.

    Returns
    -------
    The application of which a replica finds none, or `NOTHING`.
    """
    required, packing, clearing = site.required, site.packing, site.clearing
    for application in required.order:
        if clearing.missing[application] == 0:
            continue
        note_limits(site, application)
        live = _list_used(packing, clearing)
        while clearing.missing[application] > 0:
            node, count = best_node(site, application, 0, live, 0)
            if node == NOTHING:
                node = open_node(packing, required.demand, application)
                if node == NO_CAPACITY:
                    break
                clearing.used[clearing.nodes[0]] = node
                clearing.nodes[0] += 1
                packing.live[live] = node
                live += 1
                continue
            clearing.missing[application] -= count
            change(site, 0, application, node, count)
        lift_limits(site, application)
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
