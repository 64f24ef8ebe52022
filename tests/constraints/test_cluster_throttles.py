"""Throttles of the whole cluster: replicas in build, and primaries that swap their roles."""

from __future__ import annotations

from collections import Counter

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb import MoveKind, Node, Partition, PlacementAndLoadBalancing, PlbConfig, Replica, Role, Service
from plb.evaluation.delta import compare_with_scratch
from plb.model import ReplicaState
from plb.testing import all_clusters, busy_clusters, configuration_of, walks
from tests.engine.refusals_by_hand import builds_and_swaps
from tests.engine.stories import CPU, engine_with
from tests.engine.strategies import examples

pytestmark = pytest.mark.kernels

BUILT = (MoveKind.ADD, MoveKind.MOVE)
DEFAULTS = {"capacity_limit": "capacity", "w_imbalance": 1000.0, "max_percentage_to_move": 1.0}


def limited(builds: int | None = None, swaps: int | None = None) -> dict[str, object]:
    """Return settings with these limits; None: the throttle is off."""
    found: dict[str, object] = {}
    if builds is not None:
        found |= {"in_build_throttling_enabled": True, "in_build_throttling_global_max_value": builds}
    if swaps is not None:
        found |= {"swap_primary_throttling_enabled": True, "swap_primary_throttling_global_max_value": swaps}
    return found


def count(plan, *kinds: MoveKind) -> int:
    return sum(move.kind in kinds for move in plan.moves)


def pairs(number: int, *, primaries: str = "n0", original: dict | None = None, **settings) -> PlacementAndLoadBalancing:
    """Return an engine with primaries of 10 on one node and secondaries without load on the other."""
    if original is None:
        config = PlbConfig(metrics=[CPU], **{**DEFAULTS, **settings})
    else:
        config = PlbConfig.from_service_fabric(original, metrics=[CPU], **settings)
    engine = PlacementAndLoadBalancing(config, seed=3)
    for name in ("n0", "n1"):
        engine.update_node(Node(name), now=-1e6)
    engine.update_service(Service("db", target_replicas=2, default_load={Role.PRIMARY: {"cpu": 10}}))
    for index in range(number):
        describe(engine, f"p{index}", primaries, "n1" if primaries == "n0" else "n0")
    return engine


def describe(engine: PlacementAndLoadBalancing, name: str, primary: str, secondary: str) -> None:
    replicas = [Replica(Role.PRIMARY, primary), Replica(Role.SECONDARY, secondary)]
    engine.update_partition(Partition(name, service="db", replicas=replicas))


@examples(60)
@given(all_clusters(), st.data())
def test_counts_of_builds_and_swaps_are_exact(cluster, data):
    """After any walk they equal those from scratch and by hand; after the way back there are none."""
    configuration = configuration_of(cluster.engine(**limited(100, 100)))
    done = []
    for proposal in data.draw(walks(configuration)):
        done.append(configuration.apply(proposal))
        compare_with_scratch(configuration.problem, configuration.solution, "walk")
        totals = configuration.solution.totals
        by_hand = builds_and_swaps(configuration.problem, configuration.solution.node.tolist())
        assert (totals.builds, totals.swaps) == (10 * by_hand[0], 10 * by_hand[1])
    for proposal in reversed(done):
        configuration.apply(proposal)
    assert (configuration.solution.totals.builds, configuration.solution.totals.swaps) == (0, 0)


@examples(80)
@given(
    busy_clusters(), st.integers(0, 3), st.integers(0, 2), st.sampled_from(["place", "repair", "balance", "refresh"])
)
def test_no_plan_exceeds_a_throttle(cluster, builds, swaps, call):
    """Replicas in build and those of the plan stay within the limit, or there is none of the plan; so do swaps."""
    engine = cluster.engine(**limited(builds, swaps))
    rows = engine._state.rows
    building = int((rows.building & (rows.node >= 0)).sum())
    plan = getattr(engine, call)(now=0.0)
    assert count(plan, *BUILT) <= max(0, builds - building)
    assert count(plan, MoveKind.SWAP) <= swaps


@examples(40)
@given(busy_clusters(), st.sampled_from(["place", "repair", "balance"]))
def test_limits_that_do_not_bind_change_no_plan(cluster, call):
    plans = [getattr(cluster.engine(**settings), call)() for settings in ({}, limited(1000, 1000))]
    assert plans[0].moves == plans[1].moves


@pytest.mark.parametrize(("most", "built"), [(None, 4), (0, 0), (1, 0), (2, 1), (3, 2), (9, 4)])
def test_placement_builds_what_the_cluster_may(most, built):
    """One replica is in build already; what is held back is told with the rule."""
    engine = engine_with({"n0": 100, "n1": 100}, {}, **limited(most))
    engine.update_service(Service("db", target_replicas=2))
    first = Replica(Role.PRIMARY, "n0")
    building = Replica(Role.SECONDARY, "n1", state=ReplicaState.IN_BUILD)
    engine.update_partition(Partition("old", service="db", replicas=[first, building]))
    for index in range(4):
        engine.update_partition(Partition(f"p{index}", service="db", replicas=[first]))
    plan = engine.place()
    assert count(plan, *BUILT) == built
    held_back = [refused for refused in plan.unplaced if "builds" in dict(refused.ruled_out)]
    assert len(held_back) == 4 - built
    assert (plan.bound_by == ("builds",)) is (built < 4)
    assert all("the cluster builds as many replicas as it may" in str(refused) for refused in held_back)


@pytest.mark.parametrize(("phase", "moves"), [("repair", 4), ("balance", 4)])
@pytest.mark.parametrize("most", [None, 0, 1, 3])
def test_repairs_and_balancing_are_throttled(phase, moves, most):
    """Of eight instances on a full node some would move to the other node."""
    loads = {f"p{index}": ("n0", 25) for index in range(8)}
    engine = engine_with({"n0": 100, "n1": 100}, loads, **limited(most))
    plan = getattr(engine, phase)()
    assert len(plan.moves) == min(moves, moves if most is None else most)
    assert ("builds" in plan.bound_by) is (most is not None)


@pytest.mark.parametrize(("most", "swaps"), [(None, 4), (0, 0), (1, 1), (3, 3)])
def test_balancing_swaps_as_many_primaries_as_may(most, swaps):
    """Four of eight primaries would swap; a swap counts once, and builds nothing."""
    plan = pairs(8, **limited(0, most)).balance()
    assert [move.kind for move in plan.moves] == [MoveKind.SWAP] * swaps
    assert ("swaps" in plan.bound_by) is (most is not None)


def test_swaps_under_way_count_until_they_end():
    """With a limit of two, balancing waits until the partitions that swap are described; so does a copy."""
    settings = {"MaxMovementExecutionTime": "max", "MinLoadBalancingInterval": 0.0}
    engine = pairs(8, original=settings, **limited(None, 2))
    plan = engine.refresh(now=1000.0)
    swapped = {move.partition for move in plan.moves}
    assert count(plan, MoveKind.SWAP) == 2
    assert engine.balance(now=1001.0).moves == ()
    copy = PlacementAndLoadBalancing.from_snapshot(engine.snapshot())
    assert copy.balance(now=1001.0).moves == ()
    for name in swapped:
        describe(engine, name, "n1", "n0")
    assert count(engine.balance(now=1002.0), MoveKind.SWAP) == 2


def test_domains_share_the_limit():
    """Two services that share nothing are searched apart, and together add one replica."""
    engine = PlacementAndLoadBalancing(
        PlbConfig(metrics=[CPU, attrs.evolve(CPU, name="disk")], one_action_per_refresh=True, **limited(1))
    )
    engine.update_node(Node("n0"), now=-1e6)
    for metric in ("cpu", "disk"):
        engine.update_service(Service(metric, stateful=False, metrics={metric: 1.0}))
        engine.update_partition(Partition(metric, service=metric))
    assert Counter(move.kind for move in engine.refresh(now=0.0).moves) == {MoveKind.ADD: 1}


def test_upgrades_are_not_held_back():
    """A primary leaves a node that is upgraded although no swap is allowed."""
    engine = pairs(0, **limited(None, 0))
    replicas = [Replica(Role.PRIMARY, "n0", upgrade="swap_out"), Replica(Role.SECONDARY, "n1")]
    engine.update_partition(Partition("p0", service="db", replicas=replicas))
    assert [move.kind for move in engine.place().moves] == [MoveKind.SWAP]
