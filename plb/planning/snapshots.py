"""Snapshots of a planner and its cluster, and planners that continue from them.

A snapshot holds what hosts have described and what is remembered from call to call, but not where searches have ended.
A planner makes the rest again. The types of the fields of `_Document` say which documents are valid.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from enum import Enum
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import attrs
import numpy as np
from cattrs import AttributeValidationNote, BaseValidationError, Converter, IterableValidationNote
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn, override

from plb.array_types import Array
from plb.engine_extensions import EngineExtensions, GivenExtensions
from plb.errors import ConflictError, InvalidValueError, PlbError
from plb.extensions.kernel_data import POLICY, errors_of
from plb.extensions.policies import remembers
from plb.model import Application, MoveCost, Node, Role, Service
from plb.model.expressions import parse_expression
from plb.model.service import check_move_cost
from plb.model.snapshot import ITEM, Snapshot, read_array
from plb.planning.planner import Planner
from plb.planning.scheduler import Action, DomainRecord, NodeChange
from plb.risk.demand_history import DemandHistory
from plb.risk.estimators import estimator_of, reports_kept
from plb.settings.config import PlbConfig
from plb.state.cluster_state import ClusterState, FeasibilityClass, PartitionRecord
from plb.state.replica_table import RowTable
from plb.validation import MOST_REPLICAS, SCALARS, check_count, check_metrics

Kind = TypeVar("Kind")

LARGEST_NUMBER = 2**62
"""Largest version, and most partitions that ever were: no engine lives to see so many changes."""
TUPLE = "tuple"
"""Key of a tuple among options, which would otherwise come back as a list."""
COLUMNS = {name: kind for name, kind in get_type_hints(PartitionRecord).items() if kind in (bool, int, float)}
"""Fields of a partition that are arrays over all partitions."""


@attrs.frozen
class _PlannerFields:
    """What a snapshot keeps of the `Planner`."""

    seed: int
    now: float
    searches: int
    batch: DomainRecord
    """The attributes of `Planner` with these names."""


@attrs.frozen
class _SchedulerFields:
    """What a snapshot keeps of the `Scheduler`."""

    records: dict[int, DomainRecord]
    node_events: dict[tuple[int, NodeChange], float]
    issued: list[tuple[float, Action, int]]
    moved: list[tuple[float, str, int]]
    """The attributes of `Scheduler` with these names."""


@attrs.frozen
class _ClusterFields:
    """What a snapshot keeps of the `ClusterState`."""

    node_version: int
    structure_version: int
    services_version: int
    partitions_version: int
    partitions_made: int
    service_version: list[int]
    load_version: list[int]
    nodes: list[Node]
    services: list[Service]
    upgraded_domains: frozenset[str]
    reported_surplus: set[str]
    """The attributes of `ClusterState` with these names."""


@attrs.frozen
class _PartitionFields:
    """Fields of `PartitionRecord` by name of the partition, without values that are as in a new record."""

    described: dict[str, tuple[int | None, int | None]]
    missing: dict[str, int]
    role_load: dict[str, Mapping[Role, Mapping[str, float]]]
    secondary_load: dict[str, Mapping[str, Mapping[str, float]]]
    move_cost: dict[str, Mapping[Role, MoveCost | float]]
    """The attributes of `PartitionRecord` with these names, each by name of the partition."""


@attrs.frozen
class _Document:
    """All of a snapshot but its arrays."""

    settings: PlbConfig
    history: str | None
    """Digest of the demand history."""
    sampling_seed: int
    """Seed of the forecast of demand."""
    policy: dict[str, Any]
    """What the placement policy keeps."""
    planner: _PlannerFields
    scheduler: _SchedulerFields
    cluster: _ClusterFields
    partition_names: list[str]
    partitions: _PartitionFields
    present_services: list[int]
    """The services that were not removed, in the order in which they were made."""
    feasibility_classes: list[tuple[str, frozenset[str]]]
    """The placement constraint and the names of blocked nodes of each feasibility class."""
    service_feasibility_class: list[int]
    """The feasibility class of each service, by index."""
    applications: list[Application]
    application_entries: list[str | None]
    """The name of the application with each entry of the arrays, None for a free one."""
    removed_applications: list[str]
    """Names of applications that were removed."""
    quanta: list[float | None]
    """The quantum of each metric, None if it is not fixed."""
    rounded_metrics: frozenset[str]
    """Names of metrics whose loads have been rounded to quanta."""


def _converter() -> Converter:
    """Return the converter between documents and values of JSON, which refuses values of another type."""
    converter = Converter(
        prefer_attrib_converters=False,
        forbid_extra_keys=True,
        unstruct_collection_overrides={AbstractSet: sorted, tuple: list},
    )
    for kind, types in {bool: (bool,), int: (int,), float: (int, float), str: (str,)}.items():
        converter.register_structure_hook(kind, _exactly(*types))
    converter.register_structure_hook(MoveCost | float, lambda value, _: check_move_cost(ITEM, value))
    converter.register_unstructure_hook_factory(
        _has_other_keys, lambda kind: lambda mapping: converter.unstructure([*mapping.items()], _pairs_of(kind))
    )
    converter.register_structure_hook_factory(
        _has_other_keys, lambda kind: lambda values, _: dict(converter.structure(values, _pairs_of(kind)))
    )
    write, read = override(unstruct_hook=_plain_options), override(struct_hook=_options_of)
    converter.register_unstructure_hook(PlbConfig, make_dict_unstructure_fn(PlbConfig, converter, policy_options=write))
    converter.register_structure_hook(PlbConfig, make_dict_structure_fn(PlbConfig, converter, policy_options=read))
    return converter


def _has_other_keys(kind: Any) -> bool:
    """Return whether the type `kind` is a mapping whose keys are no texts, so that it is no object of JSON."""
    return get_origin(kind) in (dict, Mapping) and get_args(kind)[0] is not str


def _pairs_of(kind: Any) -> Any:
    """Return `list[tuple[Key, Value]]` for the type `Mapping[Key, Value]`: keys in JSON can only be texts."""
    return list[tuple[get_args(kind)]]  # type: ignore[misc]


def _exactly(*types: type) -> Callable[[Any, Any], Any]:
    """Return a hook of the converter that accepts only values of exactly `types`, such as no bool as an int."""

    def structure(value: Any, kind: type) -> Any:
        """Return `value`, or the member of the enumeration `kind` with it; raise `TypeError` for another type."""
        if type(value) not in types:
            raise TypeError(f"expected {kind.__name__}")
        return kind(value) if issubclass(kind, Enum) else value

    return structure


def _plain_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a policy as values of JSON; one that has no such form raises `InvalidValueError`."""
    return {name: _plain_option(f"policy_options[{name}]", value) for name, value in options.items()}


def _plain_option(field: str, value: Any) -> Any:
    """Return a value of an option as a value of JSON; `field` names it in errors."""
    if type(value) in SCALARS:
        return value
    if type(value) not in (list, tuple):
        raise InvalidValueError(ITEM, field, value, "a number, a text, a switch, None, or a list or tuple of these")
    plain = [_plain_option(field, item) for item in value]
    return {TUPLE: plain} if type(value) is tuple else plain


def _options_of(values: Any, _kind: Any) -> dict[str, Any]:
    """Return the options of a policy from what `_plain_options` has returned."""
    return {name: _option_of(value) for name, value in values.items()}


def _option_of(value: Any) -> Any:
    """Return the value of an option from what `_plain_option` has returned."""
    if isinstance(value, dict):
        return tuple(map(_option_of, value[TUPLE]))
    return [*map(_option_of, value)] if isinstance(value, list) else value


CONVERTER = _converter()


def _fields_of(kind: type[Kind], source: object) -> Kind:
    """Return a record of the class `kind` with the equally named fields of `source`."""
    return kind(**{field: getattr(source, field) for field in attrs.fields_dict(kind)})  # type: ignore[arg-type]


def _give(target: object, fields: Any) -> None:
    """Set the attributes of `target` to the equally named fields of a record."""
    for field in attrs.fields_dict(type(fields)):
        setattr(target, field, getattr(fields, field))


# writing


def snapshot_of(planner: Planner) -> Snapshot:
    """Return everything on which the plans of a planner depend, apart from the history; nothing of it changes."""
    state, history = planner.state, planner._history
    memory, memory_arrays = _memory_of(planner.extensions)
    classes, applications, records = state.feasibility_class_index, state.applications, state.partitions.values()
    document = _Document(
        settings=state.config,
        history=None if history is None else history.digest,
        sampling_seed=getattr(planner.demand_forecast, "seed", planner.seed),
        policy=memory,
        planner=_fields_of(_PlannerFields, planner),
        scheduler=_fields_of(_SchedulerFields, planner.scheduler),
        cluster=_fields_of(_ClusterFields, state),
        partition_names=[*state.partitions],
        partitions=_PartitionFields(**{name: _changed(records, name) for name in attrs.fields_dict(_PartitionFields)}),
        present_services=state.living_indices(),
        feasibility_classes=sorted(classes, key=classes.__getitem__),
        service_feasibility_class=state.service_table.feasibility_class[: len(state.services)].tolist(),
        applications=[*applications.applications.values()],
        application_entries=applications.names(),
        removed_applications=[*applications.removed],
        quanta=state.quanta.fixed,
        rounded_metrics=frozenset(state.quanta.rounded),
    )
    arrays = {
        **state.rows.to_arrays(),
        **{f"partitions.{name}": np.array([getattr(r, name) for r in records], COLUMNS[name]) for name in COLUMNS},
        "partitions.row_count": np.array([len(record.rows) for record in records], np.int64),
        "partitions.rows": np.array([row for record in records for row in record.rows], np.int64),
    }
    policy_arrays = {f"policy.{name}": array for name, array in memory_arrays.items()}
    return Snapshot.of(CONVERTER.unstructure(document), arrays, policy_arrays)


def _changed(records: Iterable[PartitionRecord], field: str) -> dict[str, Any]:
    """Return the values of a field of `records` by name of the partition, without default values."""
    default = attrs.fields_dict(PartitionRecord)[field].default
    values = {record.name: getattr(record, field) for record in records}
    return {name: value for name, value in values.items() if value is not default}


def _memory_of(extensions: EngineExtensions) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return the values and the arrays, by name, that the policy of an engine keeps."""
    policy = extensions.policy
    if policy is None:
        return {}, {}
    if not remembers(policy):
        new_attributes = _attributes_of(extensions.new_policy)
        changed = [
            name for name, value in _attributes_of(policy).items() if not _is_same(value, new_attributes.get(name))
        ]
        if changed:
            raise ConflictError(
                f"policy {policy.name}: has kept {', '.join(sorted(changed))}, which a snapshot cannot hold; give it "
                "the methods memory and recall (plb.extensions.policies.RememberingPolicy)"
            )
        return {}, {}
    with errors_of(POLICY, policy.name, "memory"):
        memory = policy.memory()
    arrays = {name: value for name, value in memory.items() if isinstance(value, np.ndarray)}
    values = {name: value for name, value in memory.items() if name not in arrays}
    for name, array in arrays.items():
        if array.dtype.hasobject:
            raise InvalidValueError(f"policy {policy.name}", f"memory[{name}]", array.dtype.name, "numbers or texts")
    try:
        json.dumps(values, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        allowed = "arrays and values of JSON by name"
        raise InvalidValueError(f"policy {policy.name}", "memory", values, allowed) from None
    return values, arrays


def _attributes_of(policy: object) -> dict[str, Any]:
    """Return the attributes of `policy` by name, attributes in slots included."""
    slots = [name for ancestor in type(policy).__mro__ for name in getattr(ancestor, "__slots__", ())]
    in_slots = {name: getattr(policy, name) for name in slots if name != "__weakref__" and hasattr(policy, name)}
    return in_slots | getattr(policy, "__dict__", {})


def _is_same(first: object, second: object) -> bool:
    """Return whether the attributes `first` and `second` are equal; objects without an equality are not."""
    if isinstance(first, np.ndarray) or isinstance(second, np.ndarray):
        return type(first) is type(second) and np.array_equal(first, second)  # type: ignore[arg-type]
    try:
        return first is second or bool(first == second)
    except (TypeError, ValueError):
        return False


# reading


def planner_of(snapshot: Snapshot, history: DemandHistory | None, of_host: GivenExtensions) -> Planner:
    """Return a planner that continues from a snapshot, with the extensions of the host."""
    values = snapshot.values()
    _check_history(values.get("history"), history)
    try:
        document = _read_document(values)
        _check_all("seed", (document.sampling_seed, document.planner.seed), high=None)
        _check_all("planner.searches", (document.planner.searches,))
        extensions = EngineExtensions.resolve(document.settings, of_host)
        state = _cluster_of(document, snapshot.arrays, extensions.config)
        planner = Planner(state, seed=document.sampling_seed, history=history, extensions=extensions)
    except PlbError:
        raise
    except (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise InvalidValueError(ITEM, "content", str(error), "what PlacementAndLoadBalancing.snapshot wrote") from error
    _give(planner, document.planner)
    _give(planner.scheduler, document.scheduler)
    _recall(extensions, document.policy, snapshot.arrays)
    return planner


def _check_history(digest: str | None, history: DemandHistory | None) -> None:
    """Raise `InvalidValueError` unless `history` has the digest in a snapshot; both may be None."""
    present = None if history is None else history.digest
    if digest != present:
        allowed = "None, as the engine had no history" if digest is None else f"the history with the digest {digest}"
        raise InvalidValueError("from_snapshot", "history", present and f"digest {present}", allowed)


def _read_document(values: dict[str, Any]) -> _Document:
    """Return the document of values of JSON, or raise the error of the first that is not what a snapshot holds."""
    try:
        document = CONVERTER.structure(values, _Document)
    except BaseValidationError as error:
        raise _refusal(error, values) from error
    for field, value in CONVERTER.unstructure(document).items():
        if value != values[field]:  # such as a text for a list of letters, or without a field that has a default
            raise InvalidValueError(ITEM, field, values[field], "what it holds when it is written again")
    return document


def _refusal(error: Exception, value: Any) -> PlbError:
    """Return the first error of the converter, with the field of the document and its value.

    `value`: the values of JSON that were converted.
    """
    field = ""
    while isinstance(error, BaseValidationError):
        error = error.exceptions[0]
        for note in getattr(error, "__notes__", ()):
            if isinstance(note, AttributeValidationNote):
                field, value = f"{field}.{note.name}", _entry(value, note.name)
            elif isinstance(note, IterableValidationNote):
                field, value = f"{field}[{note.index}]", _entry(value, note.index)
    if isinstance(error, PlbError):
        return error
    return InvalidValueError(ITEM, field[1:], value, f"what a snapshot holds there ({error})")


def _entry(value: Any, key: Any) -> Any:
    """Return the entry of `value`, a list or object of JSON, by index or key; None if there is none."""
    try:
        return value[key]
    except (LookupError, TypeError):
        return None


def _check_all(field: str, numbers: Collection[int], *, high: int | None = LARGEST_NUMBER) -> None:
    """Raise `InvalidValueError` unless all `numbers` of a field are from 0 to `high`."""
    for number in (min(numbers), max(numbers)) if numbers else ():
        check_count(ITEM, field, number, high=high)


def _recall(extensions: EngineExtensions, values: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    """Give a policy that remembers what it kept: `values`, and the `arrays` whose names begin with ``policy.``."""
    policy, prefix = extensions.policy, "policy."
    if policy is not None and remembers(policy):
        memory_arrays = {
            name.removeprefix(prefix): array.copy() for name, array in arrays.items() if name.startswith(prefix)
        }
        with errors_of(POLICY, policy.name, "recall"):
            policy.recall({**values, **memory_arrays})


def _cluster_of(document: _Document, arrays: Mapping[str, Array], config: PlbConfig) -> ClusterState:
    """Return the cluster that the document and the arrays of a snapshot describe."""
    state, metrics = ClusterState(config), len(config.metrics)
    _give(state, document.cluster)
    versions = (state.node_version, state.structure_version, state.services_version, state.partitions_version)
    _check_all("cluster: a version", (*versions, state.partitions_made))
    state.quanta.take(document.quanta, document.rounded_metrics)
    state.node_index = {node.name: index for index, node in enumerate(state.nodes)}
    capacities = [state.quanta.capacities(f"node {node.name}", node.capacities) for node in state.nodes]
    state.capacity = np.array(capacities, np.int64).reshape(-1, metrics)
    _take_applications(state, document)
    _take_services(state, document)
    most_reports = reports_kept(estimator_of(config.estimator))
    state.rows = RowTable.from_arrays(arrays, most_reports, metrics, len(state.nodes), len(state.services))
    _take_partitions(state, document, arrays)
    return state


def _take_applications(state: ClusterState, document: _Document) -> None:
    """Give the state its applications, with the entries that they had."""
    table, entries = state.applications, document.application_entries
    binding = sorted(application.name for application in document.applications if application.binds)
    if sorted(name for name in entries if name is not None) != binding:
        allowed = f"None, or each of {', '.join(binding) or 'no names'} once"
        raise InvalidValueError(ITEM, "application_entries", entries, allowed)
    for entry, name in enumerate(entries):
        if name is not None:
            table.enter(name, entry)
    for application in document.applications:
        table.put(application, state.quanta)
    table.removed = dict.fromkeys(document.removed_applications)


def _take_services(state: ClusterState, document: _Document) -> None:
    """Give the state its services, also removed ones, whose indices are free."""
    count, present_services = len(state.services), document.present_services
    class_of_service = document.service_feasibility_class
    for field in ("service_version", "load_version"):
        _check_all(f"cluster.{field}", getattr(state, field))
    _check_all("present_services", present_services, high=count - 1)
    _check_all("service_feasibility_class", class_of_service, high=len(document.feasibility_classes) - 1)
    state.service_index = {state.services[index].name: index for index in present_services}
    state.feasibility_class_index = {key: place for place, key in enumerate(document.feasibility_classes)}
    state.feasibility_classes = [
        FeasibilityClass(parse_expression(text), names) for text, names in document.feasibility_classes
    ]
    columns = zip(state.services, class_of_service, state.service_version, state.load_version, strict=True)
    for index, (service, feasibility_class, _, _) in enumerate(columns):
        entry = state.applications.entry_of(service.application)
        state.service_table.put(index, service, feasibility_class, state.services_version, entry)
        state.applications.join(index, service.application)
    state.free_services = sorted({*range(count)} - {*present_services})
    for index in state.free_services:
        state.applications.leave(index, state.services[index].application)
        state.service_table.remove(index, state.services_version)
    state.service_table.made_at[present_services] = np.arange(len(present_services))


def _take_partitions(state: ClusterState, document: _Document, arrays: Mapping[str, Array]) -> None:
    """Give the state, which has its nodes, services and rows, its partitions from the arrays of a snapshot."""
    names, shape = document.partition_names, (len(document.partition_names),)
    fields: dict[str, list[Any]] = {"name": names, "rows": _rows_of(state.rows, arrays, len(names))}
    for name, kind in COLUMNS.items():
        high = len(state.services) - 1 if name == "service" else None
        fields[name] = read_array(arrays, f"partitions.{name}", shape, kind, low=0, high=high).tolist()
    records = [PartitionRecord(**dict(zip(fields, entry, strict=True))) for entry in zip(*fields.values(), strict=True)]
    state.partitions = {record.name: record for record in records}
    if len(state.partitions) < len(names) or not state.reported_surplus <= state.partitions.keys():
        allowed = "names that are each there once, with all of reported_surplus"
        raise InvalidValueError(ITEM, "partition_names", f"{len(names)} names", allowed)
    _take_reports(state, document.partitions)
    state.row_partition = {row: record.name for record in records for row in record.rows}
    state.service_partitions = [{} for _ in state.services]
    for record in records:
        state.service_partitions[record.service][record.name] = record


def _take_reports(state: ClusterState, fields: _PartitionFields) -> None:
    """Give the partitions the fields that differ from the fields of new partitions."""
    for missing in fields.missing.values():
        check_count(ITEM, "partitions.missing", missing, low=-MOST_REPLICAS, high=MOST_REPLICAS)
    role_loads = (loads for roles in fields.role_load.values() for loads in roles.values())
    for loads in (*fields.secondary_load.values(), *role_loads):
        check_metrics(ITEM, "partitions", loads, state.quanta.index)
    for field, values in attrs.asdict(fields, recurse=False).items():
        for name, value in values.items():
            setattr(state.partition(name, f"{ITEM}: partitions.{field}"), field, value)


def _rows_of(table: RowTable, arrays: Mapping[str, Array], count: int) -> list[list[int]]:
    """Return the rows of each of `count` partitions from the arrays of a snapshot; close sibling rings in `table`."""
    sizes = read_array(arrays, "partitions.row_count", (count,), np.int64, low=0)
    rows = read_array(arrays, "partitions.rows", (None,), np.int64)
    if sizes.sum() != len(rows) or not np.array_equal(np.sort(rows), np.flatnonzero(table.used)):
        allowed = "each row in use, once, in as many partitions as `row_count` has"
        raise InvalidValueError(ITEM, "partitions.rows", f"{len(rows)} rows", allowed)
    ends = np.cumsum(sizes)
    following = np.roll(rows, -1)
    has_rows = sizes > 0
    following[ends[has_rows] - 1] = rows[(ends - sizes)[has_rows]]
    table.sibling[rows] = following
    row_list = rows.tolist()
    return [row_list[end - size : end] for end, size in zip(ends.tolist(), sizes.tolist(), strict=True)]
