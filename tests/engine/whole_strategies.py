"""Hypothesis strategies over every field of the model and of the settings, for the state machine of the engine.

Names come from small fixed sets, so that the examples often use the same names.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from hypothesis import strategies as st

from plb import Application, Metric, MoveCost, Node, Partition, Replica, Role, Service
from plb.model import DeactivationIntent, DeactivationStatus, ReplicaState, UpgradeMark
from plb.testing.histories import choice

from .strategies import KEEP_CAPACITY_FREE

NODES = tuple(f"n{index}" for index in range(7))
SERVICES = tuple(f"s{index}" for index in range(4))
APPLICATIONS = ("a0", "a1")
PARTITIONS = tuple(f"p{index}" for index in range(8))
METRICS = ("cpu", "memory", "PrimaryCount")
BUILT_IN_LOADS = {Role.PRIMARY: 1.0, Role.SECONDARY: 0.0, Role.INSTANCE: 0.0}
"""Load of every replica in PrimaryCount, by role."""
TESTS = {
    "": lambda *_: True,
    "zone != z0": lambda zone, *_: zone != "z0",
    "zone == z1 || ssd == true": lambda zone, ssd, _: zone == "z1" or ssd,
    "zone ^P z1": lambda zone, _, primary: not primary or zone == "z1",
    "ssd == true && FDPolicy ~ Nonpacking": lambda _, ssd, __: ssd,
    "FDPolicy ~ Ignore": lambda *_: True,
    "FDPolicy ~ Nonpacking": lambda *_: True,
    "PlacePolicy ~ NonPartially": lambda *_: True,
}
"""Placement constraints, and their meaning for a node in a zone, with or without an SSD, and a primary or not."""

MARKS = {
    Role.PRIMARY: (UpgradeMark.SWAP_OUT, UpgradeMark.NONE),
    Role.SECONDARY: (UpgradeMark.NONE, UpgradeMark.PRIMARY_RETURNS, UpgradeMark.REPLICA_RETURNS),
}
"""Upgrade marks that a replica of each role may have."""

loads_of_a_replica = st.integers(0, 12).map(float)
budgets = st.sampled_from([None, 240, 60, 0])
applications = st.sampled_from([None, None, None, *APPLICATIONS, *APPLICATIONS])
free_capacities = st.sampled_from([*[{}] * 9, *KEEP_CAPACITY_FREE])


def mostly(usual: Any, *others: Any) -> st.SearchStrategy[Any]:
    """Return a strategy that draws the usual value three times as often as the others together."""
    return choice(*[usual] * 3 * len(others), *others)


@st.composite
def whole_metrics(draw: st.DrawFn) -> tuple[Metric, ...]:
    return tuple(
        Metric(
            name,
            quantum=1.0,
            weight=draw(mostly(1.0, 0.5, 0.0)),
            violation_threshold=draw(mostly(0.95, 1.0)),
            balancing_threshold=draw(mostly(1.0, 0.0, 2.0)),
            activity_threshold=draw(mostly(0.0, 10.0)),
            global_weight=draw(mostly(None, 0.3)),
            balancing_by_percentage=draw(mostly(False, True)),
            **draw(free_capacities),
            defragmentation=draw(mostly(False, True)),
            empty_nodes=draw(mostly(None, 1.0, 0.4)),
            empty_nodes_across_domains=draw(st.booleans()),
            scoped_defragmentation=draw(mostly(False, True)),
        )
        for name in METRICS[: draw(st.integers(1, 3))]
    )


@st.composite
def whole_nodes(draw: st.DrawFn, name: str, metrics: Sequence[Metric]) -> Node:
    """Draw a node: up, down or being deactivated, in nested or flat domains or in none."""
    capacity = st.integers(10, 50).map(float)
    return Node(
        name,
        capacities={metric.name: draw(capacity) for metric in metrics if draw(mostly(True, False))},
        fault_domain=draw(mostly("fd:/a/1", "fd:/a/2", "fd:/b/1", "fd:/b/2", "fd:/c", None)),
        upgrade_domain=draw(mostly("u0", "u1", "u2", None)),
        properties={"zone": draw(choice("z0", "z1", "z2")), "ssd": draw(choice("true", "false"))},
        up=draw(mostly(True, False)),
        deactivation_intent=draw(mostly(DeactivationIntent.NONE, *DeactivationIntent)),
        deactivation_status=draw(choice(*DeactivationStatus)),
    )


@st.composite
def whole_services(draw: st.DrawFn, name: str, metrics: Sequence[Metric], *, stateful: bool, child: bool) -> Service:
    """Draw a service of fixed kind; a child may have affinity to the first service."""
    roles = (Role.PRIMARY, Role.SECONDARY) if stateful else (Role.INSTANCE,)
    default_load = {
        role: {
            metric.name: BUILT_IN_LOADS[role] if metric.name == "PrimaryCount" else draw(loads_of_a_replica)
            for metric in metrics
        }
        for role in roles
    }
    some = st.lists(st.sampled_from([metric.name for metric in metrics]), unique=True)
    weights = some.map(lambda names: {name: 1.0 + len(name) % 2 for name in names})
    return Service(
        name,
        stateful=stateful,
        tenant_class=draw(choice(None, "gold", "silver")),
        target_replicas=draw(choice(3, 2, 1, 0, 4)),
        default_load=default_load,
        placement_constraint=draw(mostly("", *TESTS)),
        move_cost=draw(choice(*MoveCost, 0.0, 2.5)),
        max_moves=draw(mostly(None, 0, 1, 2)),
        metrics=draw(weights) if draw(mostly(False, True)) else None,
        affinity_to=SERVICES[0] if child and draw(st.booleans()) else None,
        aligned=draw(st.booleans()),
        application=draw(applications),
        on_every_node=draw(mostly(False, True)),
        blocked_nodes=draw(mostly(frozenset(), frozenset({"n1"}), frozenset({"n0", "n4"}))),
    )


@st.composite
def whole_applications(draw: st.DrawFn, name: str, metrics: Sequence[Metric]) -> Application:

    def amounts(low: int, high: int) -> dict[str, float]:
        return {metric.name: float(draw(st.integers(low, high))) for metric in metrics if draw(st.booleans())}

    return Application(
        name,
        most_nodes=draw(choice(None, 1, 2, 3)),
        minimum_nodes=draw(choice(0, 1)),
        total_capacity=amounts(20, 90),
        node_capacity=amounts(20, 30),
        node_reservation=amounts(0, 20),
        upgrade_in_progress=draw(st.booleans()),
        completed_upgrade_domains=draw(st.sets(st.sampled_from(["u0", "u1", "u2"]))),
    )


@st.composite
def whole_partitions(draw: st.DrawFn, name: str, service: Service, nodes: Sequence[str]) -> Partition:
    """Draw a partition with replicas in every state on some of the nodes, with too few or too many of them."""
    free = list(draw(st.permutations(list(nodes))))
    replicas = []
    standing = draw(st.integers(0, min(len(free), max(2, service.target_replicas + 1))))
    has_primary = service.stateful and draw(mostly(True, True, False))
    marked = service.stateful and draw(mostly(False, True))
    for index in range(standing):
        role = (Role.PRIMARY if has_primary and index == 0 else Role.SECONDARY) if service.stateful else Role.INSTANCE
        state = draw(mostly(ReplicaState.READY, *ReplicaState))
        replicas.append(
            Replica(
                role,
                free.pop(),
                state=state,
                pinned=draw(mostly(False, True)),
                leaving=draw(mostly(False, True)),
                upgrade=draw(choice(*MARKS[role])) if marked else UpgradeMark.NONE,
            )
        )
    return Partition(
        name,
        service=service.name,
        replicas=replicas,
        created=float(draw(st.integers(-20, 0))),
        missing=draw(mostly(None, 0, 1, 2, -1, -2)),
        in_transition=draw(mostly(False, True)),
        in_quorum_loss=draw(mostly(False, True)),
    )


def plain_node(random: Random, name: str, metrics: Sequence[Metric]) -> Node:
    """Return a node that is up, in one of three racks and upgrade domains, with capacity for a few replicas."""
    number = NODES.index(name)
    return Node(
        name,
        capacities={metric.name: float(random.randint(15, 60)) for metric in metrics},
        fault_domain=f"fd:/{number % 3}/{number % 2}",
        upgrade_domain=f"u{number % 3}",
        properties={"zone": f"z{number % 3}", "ssd": "true" if number % 2 else "false"},
    )


def plain_partition(random: Random, name: str, service: Service, nodes: Sequence[str]) -> Partition:
    """Return a partition of ready replicas, more often on nodes at the front of the list than at its end."""
    front = sorted(nodes, key=lambda node: random.random() * (1 + nodes.index(node)))
    roles = [Role.PRIMARY, *[Role.SECONDARY] * 3] if service.stateful else [Role.INSTANCE] * 4
    replicas = [Replica(role, node) for role, node in zip(roles, front[: service.target_replicas], strict=False)]
    return Partition(name, service=service.name, replicas=replicas)


@st.composite
def whole_settings(draw: st.DrawFn) -> dict[str, Any]:
    priority = mostly(0, 0, 1, -1)
    policy, one_action = draw(mostly("annealing", "first_fit", "random")), draw(st.booleans())
    return {
        "combination": draw(choice("additive", "service_fabric")),
        "capacity_limit": draw(choice("threshold", "capacity")),
        "one_action_per_refresh": one_action,
        "policy": policy,
        "w_failovers": draw(mostly(0.0, 0.1, 5.0)),
        "w_overload": draw(mostly(0.0, 100.0)),
        "violation_cost": draw(mostly(None, 1.0, 100.0)) if policy == "annealing" else None,
        "w_imbalance": draw(choice(10.0, 1000.0)),
        "held_out_nodes": draw(mostly(0, 1, 2)),
        "move_cost_offset": draw(choice(1000.0, 10.0)),
        "use_move_cost_reports": draw(st.booleans()),
        "ignore_cost_in_scoring": draw(mostly(False, True)),
        "local_domain_weight": draw(choice(0.0, 0.25)),
        "local_balancing_threshold": draw(mostly(0.0, 1.0)),
        "placement_constraint_priority": draw(priority),
        "capacity_constraint_priority": draw(priority),
        "affinity_constraint_priority": draw(priority),
        "scaleout_count_constraint_priority": draw(priority),
        "application_capacity_constraint_priority": draw(priority),
        "fault_domain_constraint_priority": draw(priority),
        "upgrade_domain_constraint_priority": draw(priority),
        "preferred_location_constraint_priority": draw(mostly(-1, 2)),
        "fault_domain_enabled": draw(mostly(True, False)),
        "upgrade_domain_enabled": draw(mostly(True, False)),
        "quorum_based_replica_distribution_per_fault_domains": draw(mostly(False, True)),
        "quorum_based_replica_distribution_per_upgrade_domains": draw(mostly(False, True)),
        "quorum_based_logic_auto_switch": draw(st.booleans()),
        "allow_higher_child_target_replica_count_for_affinity": draw(st.booleans()),
        "place_child_without_parent": draw(st.booleans()),
        "move_parent_to_fix_affinity_violation": draw(st.booleans()),
        "move_parent_to_fix_affinity_violation_transition_percentage": draw(choice(0.2, 1.0, 0.0)),
        "prefer_upgraded_uds": draw(st.booleans()),
        "check_aligned_affinity_for_upgrade": draw(st.booleans()),
        "relax_capacity_constraint_for_upgrade": draw(st.booleans()),
        "biased_sampling": draw(st.booleans()),
        "is_singleton_replica_move_allowed_during_upgrade": draw(mostly(False, True)),
        "move_existing_replica_for_placement": draw(st.booleans()),
        "partially_place_services": draw(mostly(True, False)),
        "relax_constraint_for_placement": draw(mostly(True, False)),
        "score_improvement_threshold": draw(mostly(0.0, 0.01)),
        "swap_primary_probability": draw(choice(0.3, 0.0, 0.6)),
        "exchange_probability": draw(choice(0.0, 0.1, 0.4)),
        "max_percentage_to_move": draw(choice(1.0, 0.3, 0.0)),
        "allow_chained_moves": draw(st.booleans()),
        "max_moves": draw(mostly(None, 0, 1, 3)),
        "in_build_throttling_enabled": draw(mostly(False, True)),
        "in_build_throttling_global_max_value": draw(st.integers(0, 3)),
        "swap_primary_throttling_enabled": draw(mostly(False, True)),
        "swap_primary_throttling_global_max_value": draw(st.integers(0, 2)),
        "max_moves_per_node": draw(mostly(None, 0, 1, 2)),
        "global_movement_throttle_threshold": draw(mostly(0, 2)),
        "global_movement_throttle_threshold_for_balancing": draw(mostly(0, 1)),
        "global_movement_throttle_threshold_for_placement": draw(mostly(0, 1)),
        "balancing_delay_after_new_node": draw(mostly(0.0, 5.0)),
        "constraint_fix_partial_delay_after_node_down": draw(mostly(0.0, 5.0)),
        "min_load_balancing_interval": draw(mostly(0.0, 5.0, None)),
        "max_movement_execution_time": draw(mostly(0.0, 5.0)) if one_action else 0.0,
        "plb_action_retry_times": draw(mostly(1, 2)) if one_action else 1,
        "max_moves_per_hour": draw(mostly(None, 0, 3)),
        "max_simulated_annealing_iterations": 4,
        "simulated_annealing_iterations_per_round": 40,
        "placement_search_iterations_per_round": 4,
        "constraint_check_iterations_per_round": 4,
        "repetitions": 4,
        "chains": 2,
        "threads": 1,
    }
