"""Every setting changes something: a plan, an energy, a violation or an answer. A setting without effect is refused."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest

from plb import (
    Application,
    Metric,
    Node,
    Partition,
    PlacementAndLoadBalancing,
    PlbConfig,
    Replica,
    Role,
    Service,
)
from plb.model.setting_fields import settings_of
from plb.risk import DemandHistory

QUICK = {"threads": 1, "chains": 1, "repetitions": 8, "max_simulated_annealing_iterations": 4}
"""Settings of all stories, unless a case changes them."""
TIMES = (0.0, 100.0, 300.0)
"""Times of the refreshes, in seconds."""


@attrs.frozen
class Case:
    """A value of a field with which the story differs from the story without it."""

    value: Any
    needs: Mapping[str, Any] = attrs.field(factory=dict, kw_only=True)
    """Other settings of the engine in both stories."""
    metric: Mapping[str, Any] = attrs.field(factory=dict, kw_only=True)
    """Other fields of the metric cpu in both stories."""
    disk: Mapping[str, Any] = attrs.field(factory=dict, kw_only=True)
    """Other fields of the metric disk in both stories."""
    service: Mapping[str, Any] = attrs.field(factory=dict, kw_only=True)
    """Other fields of the service web in both stories."""

    def stories(self, kind: str, field: str) -> list[str]:
        """Return the story without and with the value of a field of the settings, of the metric, or of the service."""
        changes = {"needs": self.needs, "metric": self.metric, "disk": self.disk, "service": self.service}
        changed = {**changes, kind: {**changes[kind], field: self.value}}
        return [str(story(*fields.values())) for fields in (changes, changed)]


def history() -> DemandHistory:
    """Return a history in which replicas of the class grows grow to four times their load."""
    return DemandHistory.from_columns(
        ["cpu", "disk"],
        tenant_class=["grows", "grows", "stays", "stays"],
        role=[Role.INSTANCE, Role.PRIMARY, Role.INSTANCE, Role.PRIMARY],
        lifetime=[50_000.0, 90_000.0, 4_000.0, 9_000.0],
        initial=[[2.0, 1.0], [3.0, 1.0], [2.0, 1.0], [3.0, 1.0]],
        level=[[8.0, 2.0], [12.0, 2.0], [2.0, 1.0], [3.0, 1.0]],
        growth=[[7200.0, 0.0], [7200.0, 0.0], [0.0, 0.0], [0.0, 0.0]],
        maximum=[[8.0, 2.0], [12.0, 2.0], [2.0, 1.0], [3.0, 1.0]],
    )


def story(
    settings: Mapping[str, Any], metric: Mapping[str, Any], disk: Mapping[str, Any], service: Mapping[str, Any]
) -> list[Any]:
    """Return what an engine plans and answers while its cluster is crowded, and loses and drains nodes."""
    metrics = [Metric("cpu", **metric), Metric("disk", trend=False, **disk)]
    config = PlbConfig(**{"metrics": metrics, **QUICK, **settings})
    engine = PlacementAndLoadBalancing(config, seed=5, history=history())
    for index in range(8):
        engine.update_node(node_of(index), now=-1e6)
    engine.update_application(Application("shop", node_capacity={"cpu": 30.0}, node_reservation={"cpu": 4.0}))
    load = {"cpu": 3.0, "disk": 2.0}
    loads = {Role.PRIMARY: load, Role.SECONDARY: {"cpu": 2.0, "disk": 1.0}}
    engine.update_service(Service("db", target_replicas=3, default_load=loads, tenant_class="grows"))
    engine.update_service(
        Service("every", stateful=False, on_every_node=True, default_load={"instance": {"disk": 1.0}})
    )
    web = {"stateful": False, "target_replicas": 2, "default_load": {"instance": load}, **service}
    engine.update_service(Service("web", **web))
    of_near = {"default_load": {Role.PRIMARY: {"cpu": 1.0}}, "move_cost": "high"}
    engine.update_service(Service("near", affinity_to="db", **of_near))
    told: list[Any] = []
    for number in range(6):
        roles = [Role.PRIMARY, Role.SECONDARY, Role.SECONDARY]
        replicas = [Replica(role, f"n{(number // 3 + step) % 4}") for step, role in enumerate(roles)]
        engine.update_partition(Partition(f"db/{number}", service="db", replicas=replicas))
        engine.report_load(f"db/{number}", replicas[0].node, {"cpu": 1.0 + number, "disk": 3.0})
    for number in range(5):
        engine.update_partition(Partition(f"web/{number}", service="web"))
    engine.update_partition(Partition("near/0", service="near", replicas=[Replica(Role.PRIMARY, "n5")]))
    for now in TIMES:
        plan = engine.refresh(now)
        told += [plan.to_dict(), plan.temperature, plan.outcomes[0].idle, plan.proposals]
        told.append([*map(str, engine.violations(soft=True))])
        engine.apply(plan)
        engine.report_load("db/1", engine.replicas("db/1")[0].node or "", {"cpu": 2.0 + now / 50, "disk": 3.0})
        engine.update_node(attrs.evolve(node_of(7), up=now > 0.0), now=now + 10.0)
    engine.drain_node("n1")
    told += [engine.repair(now=TIMES[-1] + 20.0).to_dict(), engine.balance().to_dict(), engine.balance().proposals]
    told += [engine.violation_probabilities(), engine.node_loads(), engine.total_capacities(), engine.service_domains()]
    told += [[*map(str, engine.violations(soft=True))], [*map(str, engine.alternatives("db/0"))]]
    return told


def node_of(index: int) -> Node:
    """Return a node of the story."""
    return Node(
        f"n{index}",
        capacities={"cpu": 24.0 if index % 2 else 18.0, "disk": 40.0},
        fault_domain=f"fd:/{index % 3}",
        upgrade_domain=f"ud{index % 4}",
        properties={"NodeType": "big" if index % 2 else "small"},
    )


PRODUCT = {"combination": "service_fabric"}
LARGE = {"default_load": {"instance": {"cpu": 12.0}}}
ONE_BUILD = {"big": 1, "small": 1}
RESERVED = {"placement_strategy": 2, "empty_nodes": 2.0}

OF_ENGINES: dict[str, Case] = {
    "global_movement_throttle_threshold": Case(1),
    "global_movement_throttle_threshold_for_balancing": Case(1),
    "movement_per_partition_throttle_threshold": Case(1),
    "in_build_throttling_enabled": Case(True),
    "swap_primary_throttling_enabled": Case(True),
    "load_balancing_enabled": Case(False),
    "constraint_check_enabled": Case(False),
    "balancing_delay_after_node_down": Case(10000000.0),
    "violation_cost": Case(1),
    "max_percentage_to_move": Case(0.5),
    "score_improvement_threshold": Case(100.0),
    "local_domain_weight": Case(0.5),
    "ignore_cost_in_scoring": Case(True),
    "use_move_cost_reports": Case(True),
    "placement_constraint_priority": Case(2),
    "capacity_constraint_priority": Case(2),
    "affinity_constraint_priority": Case(2),
    "fault_domain_constraint_priority": Case(2),
    "upgrade_domain_constraint_priority": Case(2),
    "preferred_location_constraint_priority": Case(0),
    "scaleout_count_constraint_priority": Case(2),
    "application_capacity_constraint_priority": Case(2),
    "throttling_constraint_priority": Case(2),
    "fault_domain_enabled": Case(False),
    "upgrade_domain_enabled": Case(False),
    "prevent_transient_overcommit": Case(True),
    "initial_temperature": Case(1),
    "absolute_initial_temperature": Case(1),
    "cooling": Case("by_budget"),
    "last_temperature": Case(0.5),
    "quiet_rounds": Case(1),
    "restarts": Case(1),
    "max_simulated_annealing_iterations": Case(26),
    "simulated_annealing_iterations_per_round": Case(1),
    "initial_temperature_probe_count": Case(51),
    "enable_cluster_specific_initial_temperature": Case(True),
    "fast_balancing_temperature_decay_rate": Case(0.5),
    "constraint_check_search_timeout": Case(0),
    "fast_balancing_search_timeout": Case(0),
    "swap_primary_probability": Case(0.5),
    "dummy_plb_enabled": Case(True),
    "combination": Case("service_fabric"),
    "w_failovers": Case(0.5),
    "w_overload": Case(0.5),
    "w_imbalance": Case(0.5),
    "held_out_nodes": Case(1),
    "capacity_limit": Case("capacity"),
    "replay": Case("as_recorded"),
    "evaluation": Case("timeline"),
    "one_action_per_refresh": Case(True),
    "repetitions": Case(101),
    "chains": Case(2),
    "exchange_probability": Case(1),
    "exchange_moved_replicas": Case(True),
    "similar_exchange_share": Case(1),
    "larger_neighbourhood_share": Case(0.5),
    "allow_chained_moves": Case(True),
    "spread_moves": Case(True),
    "biased_sampling": Case(True),
    "drain_removed_nodes": Case(False),
    "max_moves": Case(1),
    "max_moves_per_hour": Case(1),
    "max_moves_per_node": Case(1),
    "policy": Case("first_fit"),
    "policy_options": Case({"held_out": 1}, needs={"policy": "prv_worst_fit"}),
    "larger_neighbourhoods": Case(("node",), needs={"larger_neighbourhood_share": 0.5}),
    "defragmentation_nodes_std_dev_factor": Case(5.0, needs=PRODUCT, metric={"defragmentation": True}),
    "defragmentation_fds_std_dev_factor": Case(5.0, needs=PRODUCT, metric={"defragmentation": True}),
    "defragmentation_uds_std_dev_factor": Case(5.0, needs=PRODUCT, metric={"defragmentation": True}),
    "restricted_defragmentation_heuristic_enabled": Case(
        True, needs=PRODUCT, metric={"defragmentation": True, "empty_nodes": 2.0, "placement_strategy": 2}
    ),
    "nodes_with_reserved_load_overlap": Case(
        True, needs=PRODUCT, metric={**RESERVED, "reserved_load": 5.0}, disk={**RESERVED, "reserved_load": 5.0}
    ),
    "global_movement_throttle_threshold_percentage": Case(0.05),
    "global_movement_throttle_threshold_percentage_for_balancing": Case(0.05),
    "global_movement_throttle_threshold_for_placement": Case(1, service=LARGE),
    "global_movement_throttle_counting_interval": Case(50.0, needs={"global_movement_throttle_threshold": 2}),
    "movement_per_partition_throttle_counting_interval": Case(
        50.0, needs={"movement_per_partition_throttle_threshold": 1}
    ),
    "movement_throttled_partitions_percentage_threshold": Case(
        0.0, needs={"movement_per_partition_throttle_threshold": 1}
    ),
    "throttle_constraint_check_phase": Case(True, needs={"maximum_in_build_replicas_per_node": ONE_BUILD}),
    "throttle_balancing_phase": Case(False, needs={"maximum_in_build_replicas_per_node": ONE_BUILD}),
    "maximum_in_build_replicas_per_node": Case(ONE_BUILD, needs={"throttle_placement_phase": True}),
    "maximum_in_build_replicas_per_node_constraint_check_throttle": Case(
        ONE_BUILD, needs={"throttle_constraint_check_phase": True}
    ),
    "maximum_in_build_replicas_per_node_balancing_throttle": Case(ONE_BUILD),
    "in_build_throttling_global_max_value": Case(3, needs={"in_build_throttling_enabled": True}),
    "swap_primary_throttling_global_max_value": Case(3, needs={"swap_primary_throttling_enabled": True}),
    "min_placement_interval": Case(1000000.0),
    "min_constraint_check_interval": Case(1000000.0),
    "min_load_balancing_interval": Case(1000000.0, service={"target_replicas": 1}),
    "balancing_delay_after_new_node": Case(10000000.0),
    "placement_days": Case(700.0, needs={"violation_cost": 10.0, "estimator": "historical-simulation"}),
    "move_cost_zero_value": Case(5.0, needs={"use_move_cost_reports": True}, service={"move_cost": "zero"}),
    "move_cost_low_value": Case(5.0, needs={"use_move_cost_reports": True}),
    "move_cost_medium_value": Case(5.0, needs={"use_move_cost_reports": True}, service={"move_cost": "medium"}),
    "move_cost_high_value": Case(5.0, needs={"use_move_cost_reports": True}, service={"move_cost": "high"}),
    "swap_cost": Case(5.0, needs={"use_move_cost_reports": True}),
    "move_cost_offset": Case(5.0, needs=PRODUCT),
    "move_existing_replica_for_placement": Case(False, service=LARGE),
    "partially_place_services": Case(False, service=LARGE),
    "relax_constraint_for_placement": Case(False, service={"target_replicas": 7}),
    "quiet_change": Case(
        1.0, needs={"cooling": "by_round", "quiet_rounds": 1, "max_simulated_annealing_iterations": 20}
    ),
    "absolute_quiet_change": Case(
        1000000000.0, needs={"cooling": "by_round", "quiet_rounds": 1, "max_simulated_annealing_iterations": 20}
    ),
    "cluster_specific_temperature_coefficient": Case(0.0, needs={"enable_cluster_specific_initial_temperature": True}),
    "placement_search_iterations_per_round": Case(0, service=LARGE),
    "constraint_check_iterations_per_round": Case(1, needs={"one_action_per_refresh": True}),
    "max_percentage_to_move_for_placement": Case(0.0, service=LARGE),
    "w_fragmentation": Case(50.0, needs={"held_out_nodes": 2}),
    "estimator": Case("n-sigma:n=3,warmup=1,history=6"),
    "prefer_existing_replica_locations": Case(False, needs={"preferred_location_constraint_priority": 2}),
    "local_balancing_threshold": Case(
        1.0, needs={"local_domain_weight": 0.5}, metric={"balancing_threshold": 0.0}, disk={"balancing_threshold": 0.0}
    ),
}
OF_METRICS: dict[str, Case] = {
    "balancing_threshold": Case(0.0, disk={"balancing_threshold": 0.0}),
    "activity_threshold": Case(500.0, disk={"balancing_threshold": 0.0}),
    "global_weight": Case(5.0),
    "balancing_by_percentage": Case(True),
    "node_buffer_percentage": Case(0.3),
    "node_overbooking_percentage": Case(0.3),
    "defragmentation": Case(True, needs=PRODUCT),
    "empty_nodes": Case(2.0, needs=PRODUCT, metric={"placement_strategy": 2}),
    "empty_nodes_across_domains": Case(
        False, needs=PRODUCT, metric={"placement_strategy": 3, "empty_nodes": 2.0, "scoped_defragmentation": True}
    ),
    "empty_node_weight": Case(0.2, needs=PRODUCT, metric=RESERVED),
    "non_empty_node_weight": Case(0.9, needs=PRODUCT, metric={"placement_strategy": 3, "empty_nodes": 2.0}),
    "scoped_defragmentation": Case(True, needs=PRODUCT, metric={"defragmentation": True, "empty_nodes": 2.0}),
    "placement_strategy": Case(2, needs=PRODUCT, metric={"empty_nodes": 2.0}),
    "reserved_load": Case(5.0, needs=PRODUCT, metric=RESERVED),
    "empty_node_load": Case(5.0, needs=PRODUCT, metric=RESERVED),
    "weight": Case(5.0),
    "violation_threshold": Case(0.5),
    "quantum": Case(1.0),
    "trend": Case(False),
    "transient": Case(True),
}
OF_SERVICES: dict[str, Case] = {
    "tenant_class": Case("grows"),
    "target_replicas": Case(3),
    "default_load": Case({"instance": {"cpu": 1.0}}),
    "placement_constraint": Case("NodeType == big"),
    "move_cost": Case(7.0, needs={"use_move_cost_reports": True}),
    "max_moves": Case(0),
    "metrics": Case({"disk": 1.0}),
    "affinity_to": Case("db"),
    "on_every_node": Case(True),
    "blocked_nodes": Case(["n3", "n4"]),
    "limits": Case({"cpu": 20.0}, needs={"estimator": "n-sigma:n=3,warmup=12,history=60"}),
}
ELSEWHERE: dict[type[Any], dict[str, str]] = {
    PlbConfig: {
        "extension_constraints": "extensions/test_extension_constraints.py",
        "metrics": "model/test_resolution.py",
        "threads": "search/test_determinism.py",
        "max_movement_execution_time": "constraints/test_cluster_throttles.py",
        "throttle_placement_phase": "constraints/test_capacity_settings.py",
        "maximum_in_build_replicas_per_node_placement_throttle": "constraints/test_capacity_settings.py",
        "global_movement_throttle_threshold_percentage_for_placement": "planning/test_move_limits.py",
        "constraint_fix_partial_delay_after_node_down": "planning/test_move_limits.py",
        "constraint_fix_partial_delay_after_new_node": "planning/test_move_limits.py",
        "plb_action_retry_times": "planning/test_plans.py",
        "quorum_based_replica_distribution_per_fault_domains": "planning/test_crowded_domains.py",
        "quorum_based_replica_distribution_per_upgrade_domains": "engine/ruled_clusters.py",
        "quorum_based_logic_auto_switch": "engine/ruled_clusters.py",
        "move_parent_to_fix_affinity_violation": "search/test_biased_sampling.py",
        "move_parent_to_fix_affinity_violation_transition_percentage": "search/test_biased_sampling.py",
        "use_separate_secondary_load": "state/test_load_reports.py",
        "use_default_load_for_service_on_every_node": "state/test_load_reports.py",
        "slow_balancing_temperature_decay_rate": "search/test_search_settings.py",
        "slow_balancing_search_timeout": "search/test_search_settings.py",
        "placement_search_timeout": "search/test_search_settings.py",
        "use_score_in_constraint_check": "search/test_search_settings.py",
        "enable_preferred_swap_solution_in_constraint_check": "search/test_search_settings.py",
        "soft_capacity": "search/test_overload_price.py",
        "count_disappearing_load_for_simulated_annealing": "constraints/test_capacity_settings.py",
        "checks": "energy/test_increments.py",
        "allow_higher_child_target_replica_count_for_affinity": "constraints/test_larger_children.py",
        "place_child_without_parent": "planning/test_move_reasons.py",
        "prefer_upgraded_uds": "planning/test_upgrades.py",
        "check_aligned_affinity_for_upgrade": "planning/test_upgrades.py",
        "relax_affinity_constraint_during_upgrade": "planning/test_upgrades.py",
        "relax_capacity_constraint_for_upgrade": "planning/test_upgrades.py",
        "is_singleton_replica_move_allowed_during_upgrade": "planning/test_upgrades.py",
        "refuse_applications_without_capacity": "planning/test_cluster_capacity.py",
        "refuse_services_without_capacity": "planning/test_cluster_capacity.py",
        "allow_constraint_check_fixes_during_application_upgrade": "planning/test_upgrades.py",
        "allow_balancing_during_application_upgrade": "planning/test_plans.py",
        "extension_terms": "extensions/test_extension_terms.py",
    },
    Metric: {
        "placement_heuristic_incoming_load_factor": "search/test_defragmentation.py",
        "placement_heuristic_empty_space_percent": "search/test_defragmentation.py",
        "name": "model/test_names.py",
    },
    Service: {
        "name": "model/test_names.py",
        "aligned": "constraints/test_larger_children.py",
        "application": "constraints/test_applications.py",
        "stateful": "planning/test_upgrades.py",
    },
}
"""Fields that act in situations of their own, and the file whose tests show it."""
CASES: dict[type[Any], tuple[str, dict[str, Case]]] = {
    PlbConfig: ("needs", OF_ENGINES),
    Metric: ("metric", OF_METRICS),
    Service: ("service", OF_SERVICES),
}
TESTS = Path(__file__).parents[1]


@pytest.mark.parametrize("kind", CASES)
def test_every_field_is_shown_to_act(kind: type[Any]) -> None:
    """A new field needs a case here, or a test of its own that names it."""
    cases = CASES[kind][1]
    assert sorted([*cases, *ELSEWHERE[kind]]) == sorted(field.name for field in attrs.fields(kind))
    originals = {field: setting.name for field, setting in settings_of(kind).items()}
    for field, file in ELSEWHERE[kind].items():
        text = (TESTS / file).read_text(encoding="utf-8")
        assert re.search(rf"\b({field}|{originals.get(field) or field})\b", text), (field, file)


@pytest.mark.parametrize(("kind", "field"), [(kind, field) for kind, (_, cases) in CASES.items() for field in cases])
def test_the_field_changes_the_story(kind: type[Any], field: str) -> None:
    of_field, cases = CASES[kind]
    without, with_value = cases[field].stories(of_field, field)
    assert without != with_value
