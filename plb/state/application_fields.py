"""The fields of `plb.state.arrays.Problem` on applications that follow from their descriptions and the nodes."""

from __future__ import annotations

from typing import Any

import numpy as np

from plb.array_types import Bool, Int
from plb.state.cluster_state import ClusterState


def application_fields(state: ClusterState) -> dict[str, Any]:
    """Return the fields; they are copies."""
    return {
        **state.applications.fields(),
        "application_upgraded": _upgraded_nodes(state),
        "completed_domains": _completed_domains(state),
    }


def _completed_domains(state: ClusterState) -> Int:
    """Return `Problem.completed_domains`, (A+1,)."""
    table = state.applications
    completed = np.zeros(table.capacity + 1, np.int64)
    if state.config.prefer_upgraded_uds:
        known = {node.upgrade_domain_name for node in state.nodes}
        for name, entry in table.entry.items():
            completed[entry] = len(known & table.applications[name].upgraded_domains)
        completed[-1] = len(known & state.upgraded_domains)
    return completed


def _upgraded_nodes(state: ClusterState) -> Bool:
    """Return `Problem.application_upgraded`, (A, N)."""
    table = state.applications
    upgraded = np.zeros((table.capacity, len(state.nodes)), np.bool_)
    for name, entry in table.entry.items():
        domains = table.applications[name].upgraded_domains
        if domains and state.config.prefer_upgraded_uds:
            upgraded[entry] = [node.upgrade_domain_name in domains for node in state.nodes]
    return upgraded
