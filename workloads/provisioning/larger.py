"""The instances of [3] section 5.1, table 5: another graph for given applications, and more applications like them."""

from __future__ import annotations

import attrs
import numpy as np

from plb.provisioning import Affinity, Instance
from plb.validation import check_count
from workloads.provisioning.graphs import GraphKind, affinity_graph


def with_graph(instance: Instance, kind: GraphKind | str, density: float, seed: int) -> Instance:
    """Return an instance of the same applications with a graph of its own, see `affinity_graph`."""
    return attrs.evolve(
        instance,
        name=f"{instance.name}-{kind}-{density:g}-{seed}",
        affinity=affinity_graph(kind, len(instance.applications), density, seed),
    )


def larger_instance(
    instance: Instance, applications: int, kind: GraphKind | str, density: float, seed: int
) -> Instance:
    """Return an instance with demand and numbers of replicas drawn from those of another, and a graph of its own.

    Demand is that of an application drawn with replacement, the number of replicas that of another, drawn likewise, as
    in the programs of [3]'s authors. For one seed both are the same, whatever the graph is.

    Parameters
    ----------
    instance
        Whose distributions are kept, and its nodes.
    applications
        How many there are to be, named from 1 on.
    kind, density
        Of the affinity graph.
    seed
        Of the random numbers.
    """
    check_count("larger instance", "applications", applications, low=1)
    draws = np.random.default_rng(check_count("larger instance", "seed", seed))
    like, replicas_of = draws.integers(len(instance.applications), size=(2, applications))
    drawn = attrs.evolve(
        instance,
        name=f"{instance.name}-{applications}",
        applications=tuple(str(number) for number in range(1, applications + 1)),
        replicas=instance.replicas[replicas_of],
        demand=instance.demand[like],
        affinity=Affinity.none(),
    )
    return with_graph(drawn, kind, density, seed)
