"""Strategies for shapes of small instances of `plb bench search`, and the rules for their placements."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from cluster.bench.search_instances import Fullness, Objective, SearchInstance, SearchShape
from plb.array_types import Int

SEEDS = st.integers(0, 2**32 - 1)


@st.composite
def small_shapes(draw: st.DrawFn, *, most_nodes: int = 6, most_more: int = 12) -> SearchShape:
    """Draw a shape; `most_more`: largest number of replicas above the least one."""
    nodes = draw(st.integers(2, most_nodes))
    racks = draw(st.integers(1, nodes))
    siblings = draw(st.integers(1, racks))
    least, more = 2 * nodes + siblings, draw(st.integers(0, most_more))
    partitions = -(-least // siblings) + more // siblings
    fullness, objective = draw(st.sampled_from(Fullness)), draw(st.sampled_from(Objective))
    metrics = draw(st.integers(1, 3))
    transient = draw(st.integers(0, metrics))
    return SearchShape(nodes, partitions * siblings, metrics, siblings, racks, fullness, objective, transient)


def is_feasible(instance: SearchInstance, placement: Int) -> bool:
    """Return whether a placement keeps to the capacities and to the spread over racks."""
    racks = np.sort(instance.rack[placement].reshape(-1, instance.shape.siblings), axis=1)
    return bool((racks[:, 1:] != racks[:, :-1]).all() and (instance.node_loads(placement) < instance.capacity).all())
