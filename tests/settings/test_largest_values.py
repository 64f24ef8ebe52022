"""The largest values of settings and descriptions fit into the arrays of a search; larger ones are refused."""

from __future__ import annotations

import attrs
import pytest

from plb import InvalidValueError, Metric, Node, Partition, PlacementAndLoadBalancing, PlbConfig, Replica, Role, Service
from plb.model.setting_fields import settings_of
from plb.validation import LARGEST_COUNT, MOST_REPLICAS

COUNTED = ("count", "draws", "moves", "movements", "nodes", "proposals", "rounds", "tries")
"""Units of whole numbers, and of costs that are kept as whole numbers."""
WITHOUT_LIMIT = ("move_cost_offset", "w_failovers", "w_overload")
"""Numbers in such a unit that stay numbers."""
SIZES = ("chains", "repetitions")
"""Numbers of things that are made for each search."""


def limited() -> list[str]:
    """Return the settings with a largest value."""
    return [
        name
        for name, setting in settings_of(PlbConfig).items()
        if setting.unit in COUNTED and name not in WITHOUT_LIMIT
    ]


def engine_with(**settings) -> PlacementAndLoadBalancing:
    """Return two nodes and a replica."""
    metrics = settings.pop("metrics", [Metric("cpu")])
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=metrics, use_move_cost_reports=True, **settings))
    for name in ("n0", "n1"):
        engine.update_node(Node(name, capacities={"cpu": 8}))
    engine.update_service(Service("s", target_replicas=1, max_moves=LARGEST_COUNT))
    engine.update_partition(Partition("p", service="s", replicas=[Replica(Role.PRIMARY, "n0")]))
    return engine


@pytest.mark.parametrize("name", limited())
def test_largest_value_of_a_setting_fits_and_a_larger_one_is_refused(name):
    """The error names the setting and the largest value."""
    for value in (LARGEST_COUNT + 1, 2**70):
        with pytest.raises(InvalidValueError, match=rf"{name} = {value} is not allowed; expected .* and <= 2\.?147"):
            PlbConfig(metrics=[Metric("cpu")], **{name: value})
    if name not in SIZES:
        engine = engine_with(**{name: LARGEST_COUNT})
        assert engine.node_loads() == {"n0": {"cpu": 0.0}, "n1": {"cpu": 0.0}}
        assert engine.place(budget=10).moves == ()


@pytest.mark.parametrize("name", [name for name, one in settings_of(PlbConfig).items() if one.unit == "count by name"])
def test_limits_by_name_have_a_largest_value(name):
    """The error also names the entry."""
    with pytest.raises(InvalidValueError, match=rf"{name}\[default\] = {2**70} is not allowed"):
        PlbConfig(metrics=[Metric("cpu")], **{name: {"default": 2**70}})
    assert engine_with(**{name: {"default": LARGEST_COUNT}}).place(budget=10).moves == ()


@pytest.mark.parametrize("chosen", [{}, {"defragmentation": True}, {"placement_strategy": 2, "empty_nodes": 1}])
@pytest.mark.parametrize("name", ["activity_threshold", "empty_node_load", "reserved_load"])
def test_load_in_a_setting_of_a_metric_may_be_beyond_every_node(name, chosen):
    """It counts as the load of a node without a limit."""
    plans = []
    for value in (2.0**40, 1e300):
        engine = engine_with(metrics=[Metric("cpu", **chosen, **{name: value})])
        engine.report_load("p", "n0", {"cpu": 6})
        plans.append(engine.balance(budget=40).moves)
    assert plans[0] == plans[1]


@pytest.mark.parametrize(
    ("field", "described", "largest"),
    [
        ("target_replicas", lambda most: Service("s", target_replicas=most), MOST_REPLICAS),
        ("max_moves", lambda most: Service("s", max_moves=most), LARGEST_COUNT),
        ("missing", lambda most: Partition("p", service="s", missing=most), MOST_REPLICAS),
        ("missing", lambda most: Partition("p", service="s", missing=-most), MOST_REPLICAS),
        ("empty_nodes", lambda most: Metric("cpu", empty_nodes=most), LARGEST_COUNT),
    ],
)
def test_descriptions_have_a_largest_value(field, described, largest):
    """The largest is accepted as it is; the error for more names the field."""
    assert abs(attrs.asdict(described(largest))[field]) == largest
    for value in (largest + 1, 2**70):
        with pytest.raises(InvalidValueError, match=rf"{field} = -?{value} is not allowed"):
            described(value)
