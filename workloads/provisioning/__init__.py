"""Instances of provisioning ([3]): files of the contest and of the paper's authors, generated ones, and plans."""

from workloads.provisioning.authors import read_authors, write_authors
from workloads.provisioning.contest import read_contest, write_contest
from workloads.provisioning.graphs import GraphKind, affinity_graph
from workloads.provisioning.larger import larger_instance
from workloads.provisioning.plans import read_plan, write_plan
from workloads.provisioning.source import read_instance

__all__ = [
    "GraphKind",
    "affinity_graph",
    "larger_instance",
    "read_authors",
    "read_contest",
    "read_instance",
    "read_plan",
    "write_authors",
    "write_contest",
    "write_plan",
]
