"""The largest values of settings and descriptions fit into the arrays of a search; larger ones are refused."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import attrs
import pytest
from hypothesis import given

from plb import InvalidValueError, Metric, Node, Partition, PlacementAndLoadBalancing, PlbConfig, Replica, Role, Service
from plb.model.setting_fields import settings_of
from plb.testing import busy_clusters
from plb.validation import LARGEST_COUNT, LARGEST_WEIGHT, MOST_REPLICAS
from tests.engine.strategies import examples

COUNTED = ("count", "draws", "moves", "movements", "nodes", "proposals", "rounds", "tries")
"""Units of whole numbers, and of costs that are kept as whole numbers."""
WEIGHTS = ("move_cost_offset", "violation_cost", "w_failovers", "w_overload")
"""Numbers in such a unit that are weights."""
SIZES = ("chains", "repetitions")
"""Numbers of things that are made for each search."""

NEEDED = {"plb_action_retry_times": {"one_action_per_refresh": True}}
"""Further settings without which a setting is refused."""


def limited() -> list[str]:
    """Return the settings with a largest value."""
    return [name for name, setting in settings_of(PlbConfig).items() if setting.unit in COUNTED and name not in WEIGHTS]


def engine_with(**settings) -> PlacementAndLoadBalancing:
    metrics = settings.pop("metrics", [Metric("cpu")])
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=metrics, use_move_cost_reports=True, **settings))
    for name in ("n0", "n1"):
        engine.update_node(Node(name, capacities={"cpu": 8}))
    engine.update_service(Service("s", target_replicas=1, max_moves=LARGEST_COUNT))
    engine.update_partition(Partition("p", service="s", replicas=[Replica(Role.PRIMARY, "n0")]))
    return engine


@pytest.mark.parametrize("name", limited())
def test_largest_value_of_a_setting_fits_and_a_larger_one_is_refused(name):
    for value in (LARGEST_COUNT + 1, 2**70):
        with pytest.raises(InvalidValueError, match=rf"{name} = {value} is not allowed; expected .* and <= 2\.?147"):
            PlbConfig(metrics=[Metric("cpu")], **{name: value})
    if name not in SIZES:
        engine = engine_with(**{name: LARGEST_COUNT, **NEEDED.get(name, {})})
        assert engine.node_loads() == {"n0": {"cpu": 0.0}, "n1": {"cpu": 0.0}}
        assert engine.place(budget=10).moves == ()


WEIGHED: dict[str, Callable[[float], PlbConfig | Metric | Service]] = {
    **{
        name: lambda weight, name=name: PlbConfig(metrics=[Metric("cpu")], **{name: weight})
        for name, setting in settings_of(PlbConfig).items()
        if setting.unit == "weight" or name in WEIGHTS
    },
    **{
        name: lambda weight, name=name: Metric("cpu", **{name: weight})
        for name in ("weight", "global_weight", "empty_node_weight", "non_empty_node_weight")
    },
    "extension_terms[a]": lambda weight: PlbConfig(metrics=[Metric("cpu")], extension_terms={"a": weight}),
    "metrics[cpu]": lambda weight: Service("s", metrics={"cpu": weight}),
}


@pytest.mark.parametrize("field", WEIGHED)
def test_larger_weight_is_refused(field):
    """The error names the field and the largest weight; a cluster would have no finite energy."""
    WEIGHED[field](LARGEST_WEIGHT)
    with pytest.raises(InvalidValueError, match=rf"{re.escape(field)} = 1e\+308 is not allowed; .* and <= 1e\+100"):
        WEIGHED[field](1e308)


@pytest.mark.parametrize("combination", ["additive", "service_fabric"])
@pytest.mark.parametrize(
    "metric", [{}, {"empty_nodes": 1, "placement_strategy": 2, "empty_node_weight": LARGEST_WEIGHT}]
)
@examples(40)
@given(busy_clusters())
def test_energy_is_finite_with_the_largest_weights(combination, metric, cluster):
    weights = dict.fromkeys(("w_imbalance", "w_fragmentation", *WEIGHTS), LARGEST_WEIGHT)
    engine = cluster.engine()
    metrics = [attrs.evolve(one, weight=LARGEST_WEIGHT, **metric) for one in engine.config.metrics]
    engine.configure(attrs.evolve(engine.config, metrics=metrics, combination=combination, **weights))
    plan = engine.balance(budget=100)
    assert math.isfinite(plan.energy_before.total)
    assert math.isfinite(plan.energy_after.total)
    engine.configure(attrs.evolve(engine.config, violation_cost=None))
    plan = engine.balance(budget=100)
    assert plan.energy_after.total <= plan.energy_before.total


def test_balancing_finds_moves_at_the_largest_weight():
    engine = engine_with(w_imbalance=LARGEST_WEIGHT)
    engine.update_partition(Partition("q", service="s", replicas=[Replica(Role.PRIMARY, "n0")]))
    engine.report_role_load("p", Role.PRIMARY, {"cpu": 2})
    engine.report_role_load("q", Role.PRIMARY, {"cpu": 2})
    assert engine.balance().moves


@pytest.mark.parametrize("name", [name for name, one in settings_of(PlbConfig).items() if one.unit == "count by name"])
def test_limits_by_name_have_a_largest_value(name):
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
