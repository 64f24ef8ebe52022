"""Node after node ([3] section 4.3, algorithm 2): a node gets the best application until none fits."""

from __future__ import annotations

import numpy as np

from plb.compiler import kernel
from plb.provisioning.affinity import Neighbours
from plb.provisioning.application_centric import Replicas
from plb.provisioning.filling import Filling, count_node, drop_done, leave_node, place_on_node, score_of, set_weights
from plb.provisioning.packing import NO_CAPACITY, STOPPED, Packing, fitting


@kernel
def fill_nodes(required: Replicas, neighbours: Neighbours, packing: Packing, filling: Filling) -> int:
    """Fill one node after the other; of equal scores the first application in order is chosen.

    Returns
    -------
    0; `NO_CAPACITY`: there are too few nodes; `STOPPED`: time ran out.
    """
    remaining = len(filling.remaining)
    for kind in range(len(packing.end)):
        while remaining > 0 and packing.unused[kind] < packing.end[kind]:
            if packing.stop[0]:
                return STOPPED
            node = packing.unused[kind]
            if not _fill(required, neighbours, packing, filling, node, remaining):
                break
            packing.unused[kind] += 1
            remaining = drop_done(filling, remaining)
    return 0 if remaining == 0 else NO_CAPACITY


@kernel
def _fill(
    required: Replicas, neighbours: Neighbours, packing: Packing, filling: Filling, node: int, remaining: int
) -> bool:
    """Fill a node; return whether anything fits."""
    for number in range(remaining):
        filling.candidates[number] = filling.remaining[number]
    count_node(packing, filling, node, 1)
    found, placed = remaining, False
    while True:
        found, chosen = _choose(required, packing, filling, node, found)
        if chosen < 0:
            break
        application = filling.candidates[chosen]
        most = min(filling.missing[application], filling.allowed[application], neighbours.most_on_a_node[application])
        count = fitting(packing.free, node, required.demand, application, most)
        place_on_node(required, neighbours, packing, filling, node, application, count)
        placed = True
    leave_node(filling)
    if not placed:
        count_node(packing, filling, node, -1)
    return placed


@kernel
def _choose(required: Replicas, packing: Packing, filling: Filling, node: int, found: int) -> tuple[int, int]:
    """Remove candidates that do not fit; return how many are left and the one with the highest score."""
    set_weights(packing, filling, node)
    kept, chosen, highest = 0, -1, -np.inf
    for number in range(found):
        application = filling.candidates[number]
        if filling.allowed[application] > 0 and fitting(packing.free, node, required.demand, application, 1):
            filling.candidates[kept] = application
            value = score_of(required, packing, filling, node, application, False)
            if value > highest:
                chosen, highest = kept, value
            kept += 1
    return kept, chosen
