"""The level of the domains of a rule: a depth of fault domains, upgrade domains, a property of nodes, or the nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np

from plb.array_types import Int
from plb.errors import InvalidValueError
from plb.extensions.configuration import Configuration
from plb.model import Node
from plb.validation import check_count

Level: TypeAlias = int | str
UPGRADE_DOMAIN, NODE = "upgrade_domain", "node"
PROPERTY = "property:"
"""Beginning of a level that is a property of nodes; its name follows."""
ALLOWED = f"a depth of fault domains >= 1, {UPGRADE_DOMAIN!r}, {NODE!r}, or '{PROPERTY}' and the name of a property"


def check_level(item: str, level: Level) -> Level:
    """Return a level, or raise `InvalidValueError`."""
    if isinstance(level, str):
        if level in (UPGRADE_DOMAIN, NODE) or (level.startswith(PROPERTY) and level.removeprefix(PROPERTY).strip()):
            return level
    else:
        try:
            return check_count(item, "level", level, low=1)
        except InvalidValueError:
            pass  # the error below names all levels
    raise InvalidValueError(item, "level", level, ALLOWED)


def domains_of_nodes(configuration: Configuration, level: Level) -> Int:
    """Return the number of the domain of each node at a level, (N,), from 0.

    A node without a domain at this level is a domain of its own. One whose fault domain is less deep is in the domain
    that it has.
    """
    if level == NODE:
        return np.arange(configuration.nodes)
    numbers: dict[object, int] = {}
    names = [_domain_of(configuration.node(index), level) for index in range(configuration.nodes)]
    return np.array([numbers.setdefault(name, len(numbers)) for name in names], np.int64)


def _domain_of(node: Node, level: Level) -> object:
    """Return what nodes of one domain have in common."""
    if isinstance(level, int):
        return node.fault_domain_path[:level] if node.fault_domain is not None else (None, node.name)
    if level == UPGRADE_DOMAIN:
        return node.upgrade_domain if node.upgrade_domain is not None else (None, node.name)
    return node.placement_properties.get(level.removeprefix(PROPERTY), (None, node.name))


def services_with_replicas(configuration: Configuration) -> set[str]:
    """Return the names of the services with placed or missing replicas; a removed service has none."""
    indices = np.unique(configuration.problem.service[configuration.rows]).tolist()
    return {configuration.description.services[index].name for index in indices}


def numbered_rows(configuration: Configuration, numbers: Mapping[str, int]) -> Int:
    """Return the number of each row by the name of its service, (M,); -1 for departing rows and other services."""
    by_service = np.array([numbers.get(service.name, -1) for service in configuration.description.services], np.int64)
    known = configuration.rows
    found = np.full(len(configuration.problem.service), -1)
    found[known] = by_service[configuration.problem.service[known]]
    return found


def count_replicas(configuration: Configuration, number: Int, domain: Int, size: int) -> Int:
    """Return how many replicas of each number are placed in each domain, (size, domains)."""
    rows = configuration.rows
    node = configuration.solution.node[rows]
    placed = (number[rows] >= 0) & (node >= 0)
    counts = np.zeros((size, int(domain.max(initial=-1)) + 1), np.int64)
    np.add.at(counts, (number[rows[placed]], domain[node[placed]]), 1)
    return counts
