"""The same configuration with other labels or in other units: what no term may notice."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any

import attrs
import numpy as np

from plb.array_types import Array
from plb.energy.from_scratch import solution_from_scratch
from plb.extensions.configuration import Configuration
from plb.model.quanta import UNLIMITED
from plb.state.arrays import Problem
from plb.state.replica_table import RowTable
from plb.state.topology import LARGEST_THRESHOLD

NODE_AXIS: Mapping[str, int] = {
    **dict.fromkeys(
        ("limit", "move_limit", "repair_limit", "threshold", "capacity", "inverse_capacity", "leaving_load"), 0
    ),
    **dict.fromkeys(("in_build", "most_in_build", "max_node_moves", "empty_limit", "domain", "parent"), 0),
    **dict.fromkeys(("counted", "watched", "drained", "counted_for", "upgraded"), 0),
    **dict.fromkeys(("receives", "siblings", "feasibility_classes", "group", "local_counted"), 1),
    **dict.fromkeys(("application_upgraded", "application_leaving"), 1),
}
"""The axis of an array that runs over the nodes."""
NODE_VALUES = ("targets", "held_out", "origin")
"""Arrays whose values are nodes."""
ROW_AXIS: Mapping[str, int] = dict.fromkeys(
    (
        *("load", "sibling", "role", "leaving", "service", "feasibility_class", "kind"),
        *("prefers_siblings", "unspread", "standby"),
        *("affinity", "parent_row", "first_child", "next_child", "aligned", "loose", "movable", "repairable"),
        *("move_cost", "unit_cost", "origin", "peak", "peak_ceiling", "application"),
        *("trace", "age", "anchored"),
    ),
    0,
)
"""The axis of an array that runs over the replicas."""
ROW_VALUES = ("sibling", "parent_row", "first_child", "next_child")
"""Arrays whose values are replicas."""
IN_QUANTA = (
    *("limit", "move_limit", "repair_limit", "threshold", "capacity", "empty_limit"),
    *("load", "leaving_load", "peak", "peak_ceiling"),
    *("application_limit", "application_node_limit", "reservation", "application_leaving"),
)
"""Arrays whose values are loads."""
TABLE_ROW_VALUES = ("sibling", "arriving")
"""Arrays of a `RowTable` whose values are replicas."""
TABLE_LOADS = ("load", "largest_demand", "samples")
"""Arrays of a `RowTable` whose values are loads."""


def with_nodes_swapped(configuration: Configuration, first: int, second: int) -> Configuration:
    """Return the configuration in which the nodes with indices `first` and `second` have each other's index."""
    problem, description = configuration.problem, configuration.description
    changed = _swapped(problem, NODE_AXIS, NODE_VALUES, first, second)
    node = _swapped_values(configuration.solution.node, first, second)
    nodes = list(description.nodes)
    if nodes:
        nodes[first], nodes[second] = nodes[second], nodes[first]
    return Configuration(changed, solution_from_scratch(changed, node), attrs.evolve(description, nodes=tuple(nodes)))


def with_rows_swapped(configuration: Configuration, first: int, second: int) -> Configuration:
    """Return the configuration in which the replicas of rows `first` and `second` have each other's row."""
    problem, description = configuration.problem, configuration.description
    changed = _swapped(problem, ROW_AXIS, ROW_VALUES, first, second)
    node = _swapped_along(configuration.solution.node, 0, first, second)
    new_row = {first: second, second: first}
    names = {new_row.get(row, row): name for row, name in description.partitions.items()}
    table = None if description.replicas is None else _with_table_swapped(description.replicas, first, second)
    described = attrs.evolve(description, partitions=names, replicas=table)
    return Configuration(changed, solution_from_scratch(changed, node), described)


def with_units_halved(configuration: Configuration) -> Configuration:
    """Return the configuration in which every load and every capacity is twice the number."""
    problem, description = configuration.problem, configuration.description
    doubled: Any = {name: _doubled(getattr(problem, name)) for name in IN_QUANTA}
    changed = problem._replace(**doubled, inverse_capacity=problem.inverse_capacity / 2, unit=problem.unit / 2)
    nodes = tuple(attrs.evolve(node, capacities=_twice(node.capacities)) for node in description.nodes)
    services = tuple(
        attrs.evolve(
            service,
            default_load={role: _twice(load) for role, load in service.default_load.items()},
            limits=_twice(service.limits),
        )
        for service in description.services
    )
    table = None if description.replicas is None else _with_table_doubled(description.replicas)
    solution = solution_from_scratch(changed, configuration.solution.node.copy())
    described = attrs.evolve(description, nodes=nodes, services=services, replicas=table)
    return Configuration(changed, solution, described)


def _twice(quantities: Mapping[str, float]) -> dict[str, float]:
    """Return quantities by metric, each twice as large."""
    return {metric: 2 * value for metric, value in quantities.items()}


def _with_table_swapped(table: RowTable, first: int, second: int) -> RowTable:
    """Return a table in which the rows `first` and `second` are swapped."""
    twin = copy(table)
    for name, array in vars(table).items():
        if isinstance(array, np.ndarray):
            setattr(twin, name, _swapped_along(array, 0, first, second))
    for name in TABLE_ROW_VALUES:
        setattr(twin, name, _swapped_values(getattr(twin, name), first, second))
    return twin


def _with_table_doubled(table: RowTable) -> RowTable:
    """Return a table in which every load is twice the number."""
    twin = copy(table)
    for name in TABLE_LOADS:
        setattr(twin, name, 2 * getattr(table, name))
    return twin


def _doubled(values: Array) -> Array:
    """Return loads twice as large; unlimited values stay unlimited."""
    unlimited = LARGEST_THRESHOLD if values.dtype == np.int32 else UNLIMITED
    return np.where(values >= unlimited // 2, values, 2 * values).astype(values.dtype)


def _swapped(problem: Problem, axes: Mapping[str, int], valued: tuple[str, ...], first: int, second: int) -> Problem:
    """Return a problem with the indices `first` and `second` swapped, in arrays given by name.

    They are swapped along the axis of each array of `axes`, and as values in the arrays of `valued`.
    """
    arrays: Any = {name: getattr(problem, name) for name in (*axes, *valued)}
    for name, axis in axes.items():
        arrays[name] = _swapped_along(arrays[name], axis, first, second)
    for name in valued:
        arrays[name] = _swapped_values(arrays[name], first, second)
    arrays = {name: np.sort(array) if name in ("targets", "held_out") else array for name, array in arrays.items()}
    return problem._replace(**arrays)


def _swapped_along(array: Array, axis: int, first: int, second: int) -> Array:
    """Return an array with positions `first` and `second` of an axis swapped; an empty axis stays."""
    if not array.shape[axis]:  # the problem has no need of it
        return array
    order = np.arange(array.shape[axis])
    order[[first, second]] = second, first
    return np.ascontiguousarray(np.take(array, order, axis=axis))


def _swapped_values(array: Array, first: int, second: int) -> Array:
    """Return an array in which the values `first` and `second` are swapped."""
    values = array.copy()
    values[array == first], values[array == second] = second, first
    return values
