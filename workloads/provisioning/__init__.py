"""Instances of provisioning ([3]): files of the contest and of the authors, generated instances, and plans.

Begin reading in `workloads.provisioning.user_units`.
"""

from workloads.provisioning.authors import read_authors
from workloads.provisioning.contest import read_contest
from workloads.provisioning.plans import read_contest_placement, read_instance, read_plan, write_moves, write_plan
from workloads.provisioning.user_units import (
    PAPER_NODES,
    GraphKind,
    NodeSpec,
    affinity_graph,
    build_instance,
    larger_instance,
    with_graph,
)

__all__ = [
    "PAPER_NODES",
    "GraphKind",
    "NodeSpec",
    "affinity_graph",
    "build_instance",
    "larger_instance",
    "read_authors",
    "read_contest",
    "read_contest_placement",
    "read_instance",
    "read_plan",
    "with_graph",
    "write_moves",
    "write_plan",
]
