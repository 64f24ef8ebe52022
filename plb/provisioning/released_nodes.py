"""How the programs of [3]'s authors fill one node after the other, so that their figures can be had.

Facts read from the programs (github.com/DSSGroup-Leeds/LRA-binpacking-expe): all applications are scored, whether they
fit or not, by shares divided as whole numbers (see `plb.provisioning.released`). The one with the highest score is
moved to the front of the list by one pass of bubble sort, which moves others as well, and tried. A completed
application is exchanged with the first in the list that is not completed. Scores are all 0 once the
applications that need all of a resource are placed: the list is then used in its order. L2Norm of the programs
adds the square of the second resource where the paper subtracts it; here it is subtracted.

L applications, D dimensions.
"""

from __future__ import annotations

from plb.compiler import kernel
from plb.provisioning.affinity import Neighbours
from plb.provisioning.application_centric import Replicas
from plb.provisioning.filling import Filling, count_node, leave_node, place_on_node, score_of, set_weights
from plb.provisioning.packing import NO_CAPACITY, STOPPED, Packing, fitting, is_full


@kernel
def fill_in_turn(required: Replicas, neighbours: Neighbours, packing: Packing, filling: Filling) -> int:
    """Fill one node after the other as the programs do.

    Returns
    -------
    0; `NO_CAPACITY`: there are too few nodes; `STOPPED`: time ran out.
    """
    done, whole = 0, 0
    for application in required.order:
        whole += _asks_for_all(required, filling, application)
    for kind in range(len(packing.end)):
        while done < len(filling.remaining) and packing.unused[kind] < packing.end[kind]:
            if packing.stop[0]:
                return STOPPED
            node = packing.unused[kind]
            count_node(packing, filling, node, 1)
            done, whole, placed = _fill(required, neighbours, packing, filling, node, done, whole)
            leave_node(filling)
            if not placed:
                count_node(packing, filling, node, -1)
                break
            packing.unused[kind] += 1
    return 0 if done == len(filling.remaining) else NO_CAPACITY


@kernel
def _fill(
    required: Replicas, neighbours: Neighbours, packing: Packing, filling: Filling, node: int, done: int, whole: int
) -> tuple[int, int, bool]:
    """Process the list; return how many are completed, how many need all of a resource, and whether any was placed."""
    placed = False
    for current in range(done, len(filling.remaining)):
        if whole > 0:
            _bring_highest(required, packing, filling, node, current)
        application = filling.remaining[current]
        most = min(filling.missing[application], filling.allowed[application], neighbours.most_on_a_node[application])
        count = fitting(packing.free, node, required.demand, application, most) if most > 0 else 0
        if count > 0:
            place_on_node(required, neighbours, packing, filling, node, application, count)
            placed = True
            if filling.missing[application] == 0:
                filling.remaining[current] = filling.remaining[done]
                filling.remaining[done] = application
                done += 1
                whole -= _asks_for_all(required, filling, application)
            if is_full(packing, node) and (whole == 0 or _is_filled(packing, node)):
                break
    return done, whole, placed


@kernel
def _asks_for_all(required: Replicas, filling: Filling, application: int) -> bool:
    """Return whether an application needs all that a node has of a resource."""
    asks = False
    for dimension in range(len(filling.capacity)):
        asks = asks or required.demand[application, dimension] >= filling.capacity[dimension]
    return asks


@kernel
def _is_filled(packing: Packing, node: int) -> bool:
    """Return whether nothing is left of a resource."""
    filled = False
    for dimension in range(len(packing.least)):
        filled = filled or packing.free[node, dimension] == 0
    return filled


@kernel
def _bring_highest(required: Replicas, packing: Packing, filling: Filling, node: int, first: int) -> None:
    """Score the applications from a place on and bring the highest there by a pass of bubble sort from the end."""
    order, value = filling.remaining, filling.value
    set_weights(packing, filling, node)
    for number in range(first, len(order)):
        value[number] = score_of(required, packing, filling, node, order[number], True)
    for number in range(len(order) - 1, first, -1):
        if value[number] > value[number - 1]:
            value[number], value[number - 1] = value[number - 1], value[number]
            order[number], order[number - 1] = order[number - 1], order[number]
