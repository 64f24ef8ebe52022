"""Fault and upgrade domains of nodes: their paths, and the levels of their trees."""

from __future__ import annotations

import numpy as np

from plb.array_types import Bool, Int, Int32
from plb.model.rules import Rule
from plb.state.cluster_state import ClusterState


def domain_paths(state: ClusterState) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """Return fault and upgrade domain of every node as paths; if these are off, each node has its own."""
    config = state.config
    fault = [node.fault_domain_path if config.fault_domain_enabled else (node.name,) for node in state.nodes]
    upgrade: list[tuple[str, ...]] = [
        (node.upgrade_domain_name if config.upgrade_domain_enabled else node.name,) for node in state.nodes
    ]
    return fault, upgrade


def domain_levels(state: ClusterState, usable_nodes: Bool) -> tuple[Int32, Int32, Int32, Int]:
    """Return domain and parent, (N, D), usable siblings for each class, (X, N, D), and the rule of each level, (D,).

    A tree in which every node has its own top-level domain constrains nothing and is omitted.
    """
    levels: list[tuple[list[tuple[str, ...]], Rule]] = []
    paths, upgrade = domain_paths(state)
    if state.config.fault_domain_constraint_priority >= 0 and len({path[0] for path in paths}) < len(paths):
        deepest = max(len(path) for path in paths)
        levels += [([path[:depth] for path in paths], Rule.FAULT_DOMAIN) for depth in range(1, deepest + 1)]
    if state.config.upgrade_domain_constraint_priority >= 0 and len(set(upgrade)) < len(upgrade):
        levels.append((upgrade, Rule.UPGRADE_DOMAIN))
    domain = np.zeros((len(paths), len(levels)), np.int32)
    parent = np.zeros_like(domain)
    siblings = np.zeros((len(usable_nodes), *domain.shape), np.int32)
    for level, (names, _) in enumerate(levels):
        above = [name[:-1] if len(name) > level else name for name in names]
        if levels[level][1] is Rule.UPGRADE_DOMAIN:
            above = [()] * len(names)
        domain[:, level] = _codes(names)
        parent[:, level] = _codes(above)
        for group in np.unique(parent[:, level]):
            inside = parent[:, level] == group
            for feasibility_class, nodes in enumerate(usable_nodes):
                usable = np.unique(domain[inside & nodes, level])
                siblings[feasibility_class, inside & np.isin(domain[:, level], usable), level] = len(usable)
    return domain, parent, siblings, np.array([rule for _, rule in levels], np.int64)


def _codes(names: list[tuple[str, ...]]) -> Int:
    index = {name: code for code, name in enumerate(dict.fromkeys(names))}
    return np.array([index[name] for name in names], np.int64)
