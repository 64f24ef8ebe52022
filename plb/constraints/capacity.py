"""Capacity: a node takes a replica only if its load stays within its limit (semantics.md section 4)."""

from __future__ import annotations

from plb.arrays import Int
from plb.kernel import kernel


@kernel(inline=True)
def exceeds_capacity(limit: Int, leaving_load: Int, node_load: Int, incoming: Int, outgoing: Int, target: int) -> bool:
    """Tell whether `target` would carry more than its limit, and more than it carries now, for some metric.

    Only metrics whose load grows are looked at: a node that is over its limit already may stay as full as it is, but
    not become fuller. Load of replicas on their way out still counts.

    Parameters
    ----------
    limit, leaving_load, node_load
        (N, R) steps.
    incoming, outgoing
        (R,) steps that `target` gains and loses.
    """
    for metric in range(incoming.shape[0]):
        growth = incoming[metric] - outgoing[metric]
        if growth > 0:
            load = node_load[target, metric] + leaving_load[target, metric] + growth
            if load > limit[target, metric]:
                return True
    return False
