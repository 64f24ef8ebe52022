"""Values of NumPy types become values of Python where they come in, so that snapshots hold them."""

from __future__ import annotations

from fractions import Fraction

import attrs
import numpy as np
import pytest

from plb import (
    Application,
    Budget,
    ConflictError,
    InvalidValueError,
    Metric,
    Node,
    Partition,
    PlacementAndLoadBalancing,
    PlbConfig,
    Replica,
    Role,
    Service,
    Snapshot,
)
from plb.model.setting_fields import settings_of
from plb.provisioning.instance import NodeType

TYPES = {bool: np.bool_, int: np.int32, float: np.float64, str: np.str_}
REPLICA = Replica(Role.PRIMARY, "n", pinned=True, leaving=True, to_be_dropped=False)
DESCRIBED = [
    Metric("cpu", weight=2.0, violation_threshold=0.5, quantum=0.25, trend=False, transient=True),
    Node("n", capacities={"cpu": 4.0}, fault_domain="fd:/a", upgrade_domain="u", properties={"ssd": "yes"}, up=True),
    Service(
        "s",
        tenant_class="gold",
        target_replicas=2,
        default_load={"primary": {"cpu": 1.5}},
        placement_constraint="ssd == yes",
        move_cost=2.5,
        max_moves=3,
        metrics={"cpu": 1.0},
        affinity_to="parent",
        aligned=False,
        application="a",
        blocked_nodes=["m"],
        limits={"cpu": 2.0},
    ),
    Partition("p", service="s", created=7.0, missing=1, version=3, in_transition=True, upgrading=True),
    REPLICA,
    Application("a", most_nodes=3, minimum_nodes=1, total_capacity={"cpu": 8.0}, upgrade_in_progress=True),
    Budget(100, 2.0, until=9.0, temperature=0.5),
]


def in_numpy(value):
    """Return a value with scalars of NumPy, also in mappings and lists."""
    if isinstance(value, dict):
        return {in_numpy(key): in_numpy(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(in_numpy, value))
    return TYPES[type(value)](value) if type(value) in TYPES else value


def types_in(value):
    if hasattr(value, "items"):
        for pair in value.items():
            yield from types_in(pair[1])
    else:
        yield type(value)


def twin_of(described):
    """Return a description made again of values of NumPy."""
    values = attrs.asdict(described, recurse=False)
    return type(described)(**{field: in_numpy(value) for field, value in values.items()})


@pytest.mark.parametrize("described", DESCRIBED, ids=lambda one: type(one).__name__)
def test_descriptions_hold_values_of_python(described):
    """They are equal to those of Python, and of the same types."""
    made = twin_of(described)
    assert made == described
    for field in attrs.fields_dict(type(described)):
        ours, theirs = getattr(made, field), getattr(described, field)
        assert [*types_in(ours)] == [*types_in(theirs)], field


def test_node_types_hold_values_of_python():
    """Numbers of nodes of a kind go to files of plans."""
    made = NodeType(np.str_("large"), np.array([1], np.int32), np.int16(4))
    assert (type(made.name), type(made.count)) == (str, int)


@pytest.mark.parametrize("field", sorted(settings_of(PlbConfig)))
def test_settings_hold_values_of_python(field):
    """Every setting takes its value, or another one that it allows, as a scalar of NumPy."""
    default = getattr(PlbConfig(metrics=[Metric("cpu")]), field)
    for value in [default] if default is not None else [True, 1, 1.0]:
        try:
            expected = getattr(PlbConfig(metrics=[Metric("cpu")], **{field: value}), field)
        except (ConflictError, InvalidValueError):
            continue
        config = PlbConfig(metrics=[Metric("cpu")], **{field: in_numpy(value)})
        assert getattr(config, field) == expected
        assert type(getattr(config, field)) is type(expected)


def test_options_of_policies_hold_values_of_python():
    options = PlbConfig(
        metrics=[Metric("cpu")], policy_options={"a": np.int8(1), "b": [np.float32(0.5)]}
    ).policy_options
    assert repr(options) == "{'a': 1, 'b': [0.5]}"


def test_settings_of_service_fabric_may_be_of_numpy():
    mapping = {
        "PlaceChildWithoutParent": np.bool_(False),
        "CapacityConstraintPriority": np.int64(1),
        "DefragmentationEmptyNodeDistributionPolicy": {"cpu": np.int64(1)},
    }
    config = PlbConfig.from_service_fabric(mapping, metrics=[Metric("cpu")])
    assert (config.place_child_without_parent, config.capacity_constraint_priority) == (False, 1)
    assert config.metrics[0].empty_nodes_across_domains is False


def engine_of(convert):
    """Return an engine whose values have all gone through a function."""
    metric = Metric(convert("cpu"), quantum=convert(0.25), weight=convert(2.0))
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=[metric], repetitions=convert(10)), seed=convert(3))
    for name in ("n0", "n1"):
        engine.update_node(Node(convert(name), capacities=convert({"cpu": 8.0})), now=convert(1.0))
    engine.update_application(Application(convert("a"), most_nodes=convert(2), node_capacity=convert({"cpu": 6.0})))
    engine.update_service(Service(convert("s"), target_replicas=convert(2), application=convert("a")))
    replica = Replica(Role.PRIMARY, convert("n0"), pinned=convert(False))
    description = {"created": convert(1.0), "missing": convert(1), "version": convert(4)}
    engine.update_partition(Partition(convert("s/0"), service=convert("s"), replicas=[replica], **description))
    engine.report_load("s/0", convert("n0"), convert({"cpu": 1.5}))
    engine.report_move_cost("s/0", "primary", convert(2.5))
    engine.refresh(convert(600.0), budget=convert(100))
    return engine


def test_snapshot_of_values_of_numpy_is_that_of_values_of_python():
    data = engine_of(in_numpy).snapshot().to_bytes()
    assert data == engine_of(lambda value: value).snapshot().to_bytes()
    again = PlacementAndLoadBalancing.from_snapshot(Snapshot.from_bytes(data))
    assert again.snapshot().to_bytes() == data


def test_fractions_become_numbers_and_durations_are_refused():
    """Whatever a check takes as a number is kept as one; NumPy counts durations among the whole numbers."""
    assert type(Metric("cpu", quantum=Fraction(1, 4)).quantum) is float
    for duration in (np.timedelta64(5, "s"), np.timedelta64(5, "ns")):
        with pytest.raises(InvalidValueError, match="a finite number"):
            Partition("p", service="s", created=duration)
