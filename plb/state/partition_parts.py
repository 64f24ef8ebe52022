"""The records of partitions as a part of a snapshot: arrays with an entry for each partition, row or report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from plb.array_types import NOWHERE, Array
from plb.model import MoveCost, Role
from plb.model.snapshot import Part
from plb.state.cluster_state import ClusterState, PartitionRecord
from plb.state.replica_table import RowTable
from plb.state.service_table import MOVE_COSTS, code_of_cost, cost_of_code
from plb.validation import LARGEST_COUNT, MOST_REPLICAS

NUMBERS = ("service", "number", "promotions", "version", "misplaced")
"""Fields with a whole number."""
FLAGS = ("still", "upgrading")
"""Fields with true or false."""
LISTED = ("name", "described", "missing")
"""Fields that are lists in the document; these may be None, or numbers of any size."""
PLACES = {"role_load": 3, "secondary_load": 3, "move_cost": 2}
"""Fields with what was reported, often empty: for each report the places that it is for, so many, and its value."""
DERIVED = ("slot_keys",)
"""Fields that follow from others."""
LARGEST_NUMBER = 2**62
"""Largest version, and most partitions that ever were: no engine lives to see so many changes."""


def part_of_partitions(state: ClusterState) -> Part:
    """Return the records of all partitions."""
    records = [*state.partitions.values()]
    arrays: dict[str, Array] = {
        **{name: np.array([getattr(one, name) for one in records], np.int64) for name in NUMBERS},
        **{name: np.array([getattr(one, name) for one in records], np.bool_) for name in FLAGS},
        "created": np.array([one.created for one in records], np.float64),
        "row_count": np.array([len(one.rows) for one in records], np.int64),
        "rows": np.array([row for one in records for row in one.rows], np.int64),
        "surplus": np.array([one.name in state.reported_surplus for one in records], np.bool_),
    }
    nodes: dict[str, int] = {}
    reports = (
        ("role_load", _role_loads(state, records)),
        ("secondary_load", _secondary_loads(state, records, nodes)),
        ("move_cost", _move_costs(records)),
    )
    for name, entries in reports:
        places = np.array([entry[:-1] for entry in entries], np.int64)
        arrays[f"{name}.at"] = places.reshape(len(entries), PLACES[name])
        arrays[f"{name}.value"] = np.array([entry[-1] for entry in entries], np.float64)
    values = {name: [getattr(one, name) for one in records] for name in LISTED}
    return Part({**values, "made": state.partitions_made, "secondary_nodes": [*nodes]}, arrays)


def _role_loads(state: ClusterState, records: Sequence[PartitionRecord]) -> list[tuple[Any, ...]]:
    """Return partition, role, metric and load of each report for a role; a report without a metric has none."""
    index = state.quanta.index
    return [
        (place, int(role), metric, load)
        for place, one in enumerate(records)
        for role, loads in one.role_load.items()
        for metric, load in [(index[name], load) for name, load in loads.items()] or [(NOWHERE, 0.0)]
    ]


def _secondary_loads(
    state: ClusterState, records: Sequence[PartitionRecord], nodes: dict[str, int]
) -> list[tuple[Any, ...]]:
    """Return partition, metric, node and load of each report of a secondary; `nodes` numbers the names of nodes."""
    index = state.quanta.index
    return [
        (place, index[metric], nodes.setdefault(node, len(nodes)), load)
        for place, one in enumerate(records)
        for metric, loads in one.secondary_load.items()
        for node, load in loads.items()
    ]


def _move_costs(records: Sequence[PartitionRecord]) -> list[tuple[Any, ...]]:
    """Return partition, role and code of the cost of each report of a move cost."""
    return [
        (place, int(role), code_of_cost(cost))
        for place, one in enumerate(records)
        for role, cost in one.move_cost.items()
    ]


def take_partitions(state: ClusterState, part: Part) -> None:
    """Give a state the partitions of a part; its nodes, services and rows are those of the snapshot already."""
    names = part.names("name")
    count = len(names)
    bounds = {"service": (0, len(state.services) - 1)}
    fields: dict[str, list[Any]] = {"name": names}
    for name in NUMBERS:
        low, high = bounds.get(name, (0, None))
        fields[name] = part.array(name, (count,), np.int64, low=low, high=high).tolist()
    for name in FLAGS:
        fields[name] = part.array(name, (count,), np.bool_).tolist()
    fields["created"] = part.array("created", (count,), np.float64).tolist()
    fields["described"] = [_described(part, one) for one in part.sized("described", count)]
    fields["missing"] = [_missing(part, one) for one in part.sized("missing", count)]
    fields["rows"] = _rows_of(part, state.rows, count)
    if len(set(names)) < count:
        part.refuse("name", f"{count} names", "names that are each there once")
    records = [
        PartitionRecord(**dict(zip(fields, values, strict=True))) for values in zip(*fields.values(), strict=True)
    ]
    _take_reports(state, part, records)
    state.partitions = {one.name: one for one in records}
    state.partitions_made = part.count("made", high=LARGEST_NUMBER)
    surplus = part.array("surplus", (count,), np.bool_).tolist()
    state.reported_surplus = {name for name, is_surplus in zip(names, surplus, strict=True) if is_surplus}
    state.row_partition = {row: one.name for one in records for row in one.rows}
    state.service_partitions = [{} for _ in state.services]
    for one in records:
        state.service_partitions[one.service][one.name] = one


def _rows_of(part: Part, table: RowTable, count: int) -> list[list[int]]:
    """Return the rows of each partition, and close their rings of siblings."""
    sizes = part.array("row_count", (count,), np.int64, low=0)
    rows = part.array("rows", (None,), np.int64, low=0, high=table.capacity - 1)
    if sizes.sum() != len(rows) or not np.array_equal(np.sort(rows), np.flatnonzero(table.used)):
        part.refuse("rows", f"{len(rows)} rows", "each row in use, once, in as many partitions as `row_count` has")
    ends = np.cumsum(sizes)
    following = np.roll(rows, -1)
    some = sizes > 0
    following[ends[some] - 1] = rows[(ends - sizes)[some]]
    table.sibling[rows] = following
    flat = rows.tolist()
    return [flat[end - size : end] for end, size in zip(ends.tolist(), sizes.tolist(), strict=True)]


def _described(part: Part, value: object) -> tuple[int | None, int | None] | None:
    """Return the number of a last description."""
    if value is None:
        return None
    if not isinstance(value, list) or len(value) != 2:
        part.refuse("described", value, "None or a pair of whole numbers")
    version, missing = (_whole_or_none(part, "described", one) for one in value)
    return version, missing


def _whole_or_none(part: Part, field: str, value: object) -> int | None:
    if value is not None and type(value) is not int:
        part.refuse(field, value, "a whole number or None")
    return value


def _missing(part: Part, value: object) -> int | None:
    """Return a number of missing replicas, as far as a description may give one."""
    missing = _whole_or_none(part, "missing", value)
    if missing is not None and abs(missing) > MOST_REPLICAS:
        part.refuse("missing", value, f"None or a whole number from {-MOST_REPLICAS} to {MOST_REPLICAS}")
    return missing


def _take_reports(state: ClusterState, part: Part, records: Sequence[PartitionRecord]) -> None:
    """Give the records what was reported, in the order of the reports."""
    metrics, nodes = state.config.metric_names, part.names("secondary_nodes")
    last, last_role, last_metric = len(records) - 1, len(Role) - 1, len(metrics) - 1
    role_loads: dict[int, dict[Role, dict[str, float]]] = {}
    for (place, role, metric), load in _entries(part, "role_load", (0, 0, NOWHERE), (last, last_role, last_metric)):
        loads = role_loads.setdefault(place, {}).setdefault(Role(role), {})
        if metric != NOWHERE:
            loads[metrics[metric]] = load
    secondary_loads: dict[int, dict[str, dict[str, float]]] = {}
    for (place, metric, node), load in _entries(part, "secondary_load", (0, 0, 0), (last, last_metric, len(nodes) - 1)):
        secondary_loads.setdefault(place, {}).setdefault(metrics[metric], {})[nodes[node]] = load
    move_costs: dict[int, dict[Role, MoveCost | float]] = {}
    for (place, role), cost in _entries(part, "move_cost", (0, 0), (last, last_role)):
        if cost not in range(len(MOVE_COSTS)) and not -1 - LARGEST_COUNT <= cost <= -1:
            part.refuse("move_cost.value", cost, f"a whole number from 0 to {len(MOVE_COSTS) - 1}, or at most -1")
        move_costs.setdefault(place, {})[Role(role)] = cost_of_code(cost)
    for field, reports in (("role_load", role_loads), ("secondary_load", secondary_loads), ("move_cost", move_costs)):
        for place, given in reports.items():
            setattr(records[place], field, given)


def _entries(part: Part, field: str, low: tuple[int, ...], high: tuple[int, ...]) -> Iterator[tuple[list[int], float]]:
    """Yield the reports of a field: the places in its columns, within bounds, and the value."""
    values = part.array(f"{field}.value", (None,), np.float64)
    at = part.array(f"{field}.at", (len(values), PLACES[field]), np.int64)
    if (at < low).any() or (at > high).any():
        part.refuse(f"{field}.at", at.max(axis=0).tolist(), f"from {list(low)} to {list(high)}")
    yield from zip(at.tolist(), values.tolist(), strict=True)
