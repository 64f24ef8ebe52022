"""Small instances of provisioning."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from plb.provisioning import Affinity, Instance, NodeType

MOST = 12
"""The largest demand of a replica; one kind of nodes has at least this capacity."""


@st.composite
def instances(
    draw: st.DrawFn,
    *,
    applications: int = 6,
    replicas: int = 5,
    time_points: int = 2,
    kinds: int = 2,
    least_demand: int = 0,
    counted: bool = False,
) -> Instance:
    """Draw an instance with at most these numbers, in which every replica fits on one kind of nodes that is unlimited.

    With `counted`, the number of nodes of the other kinds may be limited.
    """
    number = draw(st.integers(1, applications))
    resources = draw(st.integers(1, 2))
    points = draw(st.integers(1, time_points))
    demand = draw(
        st.lists(
            st.integers(least_demand, MOST), min_size=number * resources * points, max_size=number * resources * points
        )
    )
    ends = st.tuples(st.integers(0, number - 1), st.integers(0, number - 1))
    limits = draw(st.dictionaries(ends, st.integers(0, 3), max_size=3 * number))
    arcs = [(source, target, max(most, source == target)) for (source, target), most in limits.items()]
    source, target, most = np.array(arcs, np.int64).reshape(-1, 3).T
    capacity = st.integers(MOST, 3 * MOST)
    nodes = [NodeType("large", np.array([draw(capacity) for _ in range(resources)]))]
    for name in ("second", "third")[: draw(st.integers(0, kinds - 1))]:
        count = draw(st.integers(0, 3)) if counted else None
        node_type = NodeType(name, np.array([draw(st.integers(0, 3 * MOST)) for _ in range(resources)]), count)
        nodes.insert(draw(st.integers(0, len(nodes))), node_type)
    return Instance(
        name="drawn",
        resources=("cpu", "memory")[:resources],
        applications=tuple(f"a{place}" for place in range(number)),
        replicas=np.array(draw(st.lists(st.integers(1, replicas), min_size=number, max_size=number))),
        demand=np.array(demand).reshape(number, resources, points),
        affinity=Affinity.from_columns(source, target, most, number),
        nodes=tuple(nodes),
        units=(1.0,) * resources,
    )


def make_instance(
    demand: list[int], replicas: list[int], arcs: list[tuple[int, int, int]], capacity: int = 10
) -> Instance:
    """Return an instance of one resource."""
    source, target, most = np.array(arcs, np.int64).reshape(-1, 3).T
    return Instance(
        name="made",
        resources=("cpu",),
        applications=tuple("abcdefgh"[: len(demand)]),
        replicas=np.array(replicas),
        demand=np.array(demand).reshape(-1, 1, 1),
        affinity=Affinity.from_columns(source, target, most, len(demand)),
        nodes=(NodeType("node", np.array([capacity])),),
        units=(1.0,),
    )
