"""Settings: Service Fabric's names, defaults and ranges, unchanged defaults, and the page that lists them."""

from __future__ import annotations

import json
import os
import pickle
import re
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb import (
    CapacityLimit,
    Combination,
    InvalidValueError,
    Metric,
    PlacementAndLoadBalancing,
    PlacementStrategy,
    PlbConfig,
    UnknownNameError,
)
from plb.model.metric import MetricSettings
from plb.model.setting_fields import Setting, settings_of
from plb.search.budget import EndReason
from plb.settings.service_fabric import IGNORED, NOT_ACTED_ON, by_original_name
from tests.engine.stories import engine_with
from tests.engine.strategies import examples

SHARED = Path(os.environ.get("PLB_SERVICE_FABRIC", "/work/shared/service-fabric")) / "config_defaults.json"
PAGE = Path(__file__).parents[2] / "docs" / "settings.md"
CPU = Metric("cpu")
SCALARS = by_original_name(PlbConfig)
MAPS = by_original_name(MetricSettings)

LATER = {"NodeOverbookingPercentage"}
"""Settings of later releases of Service Fabric than its published source; its manual describes them."""


def translated_default(setting: Setting) -> Any:
    return setting.translate(setting.original)


def default_of(field: attrs.Attribute[Any]) -> Any:
    """Return the default of a field; an empty mapping for one with a factory."""
    return {} if isinstance(field.default, attrs.Factory) else field.default


@pytest.fixture(scope="module")
def shared() -> dict[str, Any]:
    if not SHARED.exists():
        pytest.skip(f"{SHARED} is not here")
    return json.loads(SHARED.read_text())["defaults"]


def test_every_name_of_service_fabric_is_known(shared):
    """Each name is exactly one of a field, a map by metric, and ignored with a reason."""
    names = [*SCALARS, *MAPS, *IGNORED]
    assert len(names) == len(set(names))
    assert set(names) == {*shared, *LATER}


def test_every_default_of_service_fabric_is_accepted(shared):
    """All defaults together, and each alone, give the initial settings."""
    bare = PlbConfig.from_service_fabric({}, metrics=[CPU])
    assert PlbConfig.from_service_fabric(shared, metrics=[CPU]) == bare
    for name, value in shared.items():
        assert PlbConfig.from_service_fabric({name: value}, metrics=[CPU]) == bare


def test_every_original_default_equals_that_of_service_fabric(shared):
    """Values are equal, and a Boolean is a Boolean, not a number."""
    for name, (_, setting) in {**SCALARS, **MAPS}.items():
        if name in LATER:
            continue
        assert setting.original == shared[name], name
        assert isinstance(setting.original, bool) == isinstance(shared[name], bool), name


def test_reasons_share_no_name():
    assert sum(map(len, NOT_ACTED_ON.values())) == len(IGNORED)


def test_from_service_fabric_without_settings():
    """They have the form of its energy, and nodes full to their capacity."""
    config = PlbConfig.from_service_fabric({}, metrics=[CPU])
    assert config.combination is Combination.SERVICE_FABRIC
    assert config.capacity_limit is CapacityLimit.CAPACITY
    assert (config.exchange_probability, config.w_failovers, config.one_action_per_refresh) == (0.0, 0.0, True)
    assert config.replay is PlbConfig(metrics=[CPU]).replay


def test_settings_override_defaults_and_fields_override_settings():
    """The order is defaults, mapping, keywords."""
    config = PlbConfig.from_service_fabric(
        {"MaxPercentageToMove": 0.5, "SwapCost": 0.0, "MaxSimulatedAnnealingIterations": 10},
        metrics=[CPU],
        swap_cost=2.0,
        chains=1,
        combination="additive",
    )
    assert (config.max_percentage_to_move, config.swap_cost, config.chains) == (0.5, 2.0, 1)
    assert config.max_simulated_annealing_iterations == 10
    assert config.combination is Combination.ADDITIVE


def test_max_means_unlimited():
    """Only times may be unlimited."""
    assert PlbConfig.from_service_fabric({"MinPlacementInterval": "max"}, metrics=[CPU]).min_placement_interval is None
    with pytest.raises(InvalidValueError, match="PlbConfig: max_percentage_to_move = 'max' is not allowed"):
        PlbConfig.from_service_fabric({"MaxPercentageToMove": "max"}, metrics=[CPU])


MAPPED = [
    ("MetricBalancingThresholds", 1.5, "balancing_threshold", 1.5),
    ("MetricBalancingThresholds", 0, "balancing_threshold", 0.0),
    ("MetricActivityThresholds", 300, "activity_threshold", 300.0),
    ("GlobalMetricWeights", 0.0, "global_weight", 0.0),
    ("BalancingByPercentage", True, "balancing_by_percentage", True),
    ("NodeBufferPercentage", 0.2, "node_buffer_percentage", 0.2),
    ("NodeOverbookingPercentage", 0.5, "node_overbooking_percentage", 0.5),
    ("NodeOverbookingPercentage", -1.0, "node_overbooking_percentage", None),
    ("DefragmentationMetrics", True, "defragmentation", True),
    ("DefragmentationMetricsPercentOrNumberOfEmptyNodesTriggeringThreshold", 6.0, "empty_nodes", 6.0),
    ("DefragmentationEmptyNodeDistributionPolicy", 0, "empty_nodes_across_domains", True),
    ("DefragmentationEmptyNodeDistributionPolicy", 1, "empty_nodes_across_domains", False),
    ("DefragmentationScopedAlgorithmEnabled", True, "scoped_defragmentation", True),
    ("DefragmentationEmptyNodeWeight", 0.5, "empty_node_weight", 0.5),
    ("DefragmentationNonEmptyNodeWeight", 0.5, "non_empty_node_weight", 0.5),
    ("PlacementStrategy", 2, "placement_strategy", PlacementStrategy.RESERVATION),
    ("ReservedLoadPerNode", 10, "reserved_load", 10.0),
    ("MetricEmptyNodeThresholds", 3, "empty_node_load", 3.0),
    ("PlacementHeuristicIncomingLoadFactor", 1.5, "placement_heuristic_incoming_load_factor", 1.5),
    ("PlacementHeuristicEmptySpacePercent", 0.3, "placement_heuristic_empty_space_percent", 0.3),
]


@pytest.mark.parametrize(("name", "value", "field", "expected"), MAPPED)
def test_entry_of_a_map_belongs_to_its_metric(name, value, field, expected):
    """The other metric, and the other values of this metric, stay the same."""
    config = PlbConfig.from_service_fabric({name: {"cpu": value}}, metrics=[Metric("cpu", weight=3), Metric("disk")])
    assert getattr(config.metrics[0], field) == expected
    assert config.metrics[0].weight == 3
    assert config.metrics[1] == Metric("disk")


def test_every_map_has_an_example():
    assert {row[0] for row in MAPPED} == set(MAPS)


UNKNOWN = [
    (
        {"MaxPercentageToMov": 1},
        "unknown Service Fabric setting 'MaxPercentageToMov'; did you mean 'MaxPercentageToMove'",
    ),
    ({"max_percentage_to_move": 1}, "unknown Service Fabric setting 'max_percentage_to_move'"),
    ({"MetricBalancingThresholds": {"cp": 1}}, "MetricBalancingThresholds: unknown metric 'cp'; did you mean 'cpu'?"),
]


@pytest.mark.parametrize(("mapping", "message"), UNKNOWN)
def test_unknown_name_is_refused_with_the_nearest(mapping, message):
    """A typing error must not leave a default in force."""
    with pytest.raises(UnknownNameError, match=re.escape(message)):
        PlbConfig.from_service_fabric(mapping, metrics=[CPU])


BAD_ORIGINALS = [
    ({"MaxSimulatedAnnealingIterations": -2}, "max_simulated_annealing_iterations = -2 is not allowed"),
    ({"LoadBalancingEnabled": "true"}, "load_balancing_enabled = 'true' is not allowed; expected True or False"),
    ({"PLBActionRetryTimes": 0}, "plb_action_retry_times = 0 is not allowed; expected a whole number >= 1"),
    ({"AffinityConstraintPriority": -2}, "expected -1 (off), 0 (hard), 1 (soft) or 2 (optimisation)"),
    ({"PreferredLocationConstraintPriority": 3}, "expected -1 (off), 0 (hard), 1 (soft) or 2 (optimisation)"),
    ({"MetricBalancingThresholds": 2.0}, "MetricBalancingThresholds = 2.0 is not allowed; expected a mapping"),
    ({"MetricBalancingThresholds": {"cpu": -1}}, "metric cpu: balancing_threshold = -1 is not allowed"),
    ({"PlacementStrategy": {"cpu": 5}}, "metric cpu: placement_strategy = 5 is not allowed; expected None or one of 0"),
    ({"DefragmentationEmptyNodeDistributionPolicy": {"cpu": 2}}, "empty_nodes_across_domains = 2 is not allowed"),
    ({"MaximumInBuildReplicasPerNode": {"t": -1}}, "maximum_in_build_replicas_per_node[t] = -1 is not allowed"),
    ({"MaximumInBuildReplicasPerNode": 3}, "maximum_in_build_replicas_per_node = 3 is not allowed; expected a mapping"),
]


@pytest.mark.parametrize(("mapping", "message"), BAD_ORIGINALS)
def test_bad_value_under_an_original_name_is_refused(mapping, message):
    """The message has the name of this engine and the range."""
    with pytest.raises(InvalidValueError, match=re.escape(message)):
        PlbConfig.from_service_fabric(mapping, metrics=[CPU])


@pytest.mark.parametrize("field", ["extension_terms", "policy_options", "maximum_in_build_replicas_per_node"])
def test_settings_by_name_cannot_be_changed_in_place(field):
    """Validated values stay valid."""
    with pytest.raises(TypeError):
        getattr(PlbConfig(metrics=[CPU]), field)["other"] = -1


@pytest.mark.parametrize("field", sorted(settings_of(PlbConfig)))
def test_value_out_of_range_is_refused_by_name(field):
    """No setting accepts numbers below -1, numbers that are not finite, or other types; a policy is any known name."""
    texts = () if field == "policy" else ("much",)
    for value in (-2, float("nan"), float("inf"), [1], *texts):
        with pytest.raises(InvalidValueError, match=f"PlbConfig: {field} = "):
            PlbConfig(metrics=[CPU], **{field: value})


@pytest.mark.parametrize("field", sorted(settings_of(MetricSettings)))
def test_value_out_of_range_of_a_metric_is_refused_by_name(field):
    with pytest.raises(InvalidValueError, match=f"metric cpu: {field} = -2 is not allowed"):
        Metric("cpu", **{field: -2})


@st.composite
def original_settings(draw):
    """Draw some of Service Fabric's settings by original name, each with an allowed value."""
    names = draw(st.lists(st.sampled_from(sorted(SCALARS)), unique=True))
    kinds = {
        "seconds": st.floats(0, 1e6) | st.just("max"),
        "share": st.floats(0, 1),
        "switch": st.booleans(),
        "priority": st.integers(-1, 1),
        "count by name": st.dictionaries(st.text(), st.integers(0, 100)),
        "factor": st.floats(0, 1, exclude_min=True),
    }
    return {name: draw(kinds.get(SCALARS[name][1].unit, st.integers(1, 1000))) for name in names}


@examples(100)
@given(original_settings())
def test_given_settings_have_their_values_and_others_the_defaults(mapping):
    """The given fields have these values, all others Service Fabric's defaults; the result can be pickled."""
    config = PlbConfig.from_service_fabric(mapping, metrics=[CPU])
    for name, (field, setting) in SCALARS.items():
        assert getattr(config, field) == setting.translate(mapping.get(name, setting.original)), name
    assert pickle.loads(pickle.dumps(config)) == config
    assert hash(config) == hash(attrs.evolve(config))


@examples(50)
@given(st.dictionaries(st.sampled_from(sorted(IGNORED)), st.none() | st.integers() | st.text()))
def test_ignored_names_change_nothing(mapping):
    assert PlbConfig.from_service_fabric(mapping, metrics=[CPU]) == PlbConfig.from_service_fabric({}, metrics=[CPU])


def uneven(metric: Metric = CPU, **settings: Any) -> PlacementAndLoadBalancing:
    """Return an engine with eight loads of 10 on one of four nodes."""
    replicas = {f"p{index}": ("n0", 10) for index in range(8)}
    return engine_with({f"n{node}": 100 for node in range(4)}, replicas, metric=metric, **settings)


def test_balancing_threshold_of_zero_never_triggers():
    """0 turns the trigger off; 1 is any difference of two or more."""
    for threshold, moves in ((0, False), (0.5, True), (1, True)):
        assert bool(uneven(Metric("cpu", balancing_threshold=threshold)).balance().moves) is moves


def test_annealing_without_limit_converges():
    plan = uneven(max_simulated_annealing_iterations=None).balance()
    assert plan.moves
    assert plan.end_reason == EndReason.CONVERGED.value


@pytest.mark.parametrize("budget", [None, 100])
def test_zero_proposals_per_round_turn_annealing_off(budget):
    assert uneven(simulated_annealing_iterations_per_round=0).balance(budget=budget).moves == ()


def rows_of_page() -> dict[str, tuple[str, str, str]]:
    """Return the rest of the first cell, the default and the meaning of each setting on the page, by its name."""
    rows = re.findall(r"^\| `(\w+)`(.*?) \| (.*?) \| (.*) \|$", PAGE.read_text(), re.MULTILINE)
    assert len(rows) == len({name for name, *_ in rows})
    return {name: tuple(cells) for name, *cells in rows}


def shown(value: Any) -> str:
    """Return a default as the page and the docstrings show it."""
    value = getattr(value, "value", value)
    return f"`{value}`" if isinstance(value, str) else f"`{value!r}`"


def shown_name(field: str, setting: Setting | None) -> str:
    """Return what follows the name of a field on the page: a dagger, or a name of Service Fabric unlike its own."""
    if setting is None or not setting.name:
        return "†"
    regular = "".join(word.capitalize() for word in field.split("_"))
    return "" if setting.name == regular else f" (`{setting.name}`)"


def shown_defaults(field: attrs.Attribute[Any], setting: Setting | None) -> str:
    """Return the default here, and that of Service Fabric if it differs; entries of maps have one for both."""
    if field.default is attrs.NOTHING:
        return ""
    default = shown(default_of(field))
    if setting is None or not setting.name or setting.name in MAPS or translated_default(setting) == default_of(field):
        return default
    return f"{default} ({shown(translated_default(setting))})"


@pytest.mark.parametrize("kind", [PlbConfig, Metric])
def test_page_lists_every_field_with_its_defaults(kind):
    """A row has the name, with that of Service Fabric if it is another, both defaults, and a short meaning."""
    rows, settings = rows_of_page(), settings_of(kind)
    for field in attrs.fields(kind):
        name, defaults, meaning = rows[field.name]
        assert name == shown_name(field.name, settings.get(field.name)), field.name
        assert defaults == shown_defaults(field, settings.get(field.name)), field.name
        assert meaning.endswith("."), field.name
        assert len(meaning.split()) <= 15, field.name


def test_page_lists_only_existing_fields_and_all_ignored_names():
    fields = {*attrs.fields_dict(PlbConfig), *attrs.fields_dict(Metric)}
    assert set(rows_of_page()) == fields
    text = PAGE.read_text()
    assert not [name for name in IGNORED if f"`{name}`" not in text]


def test_every_setting_is_read():
    """Some module outside the settings does; a name of Service Fabric that none reads is ignored with a reason."""
    sources = [
        path.read_text()
        for path in (PAGE.parents[1] / "plb").rglob("*.py")
        if "settings" not in path.parts and path.name != "config.py"
    ]
    fields = [field.name for kind in (PlbConfig, Metric) for field in attrs.fields(kind)]
    unread = {name for name in fields if not any(re.search(rf'\.{name}\b|"{name}"', text) for text in sources)}
    assert not unread
