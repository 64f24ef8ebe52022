"""Biased sampling proposes only moves that may reduce the imbalance of a metric (docs/service-fabric.md, Proposals)."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb import Metric, Node, Partition, PlacementAndLoadBalancing, PlbConfig, Replica, Role, Service
from plb.compiler import Stream
from plb.search.annealing.move_generation import is_worth_swapping, node_worth_reaching, replica_worth_moving
from plb.testing import Cluster, busy_clusters, configuration_of
from tests.engine.stories import add_partition
from tests.engine.strategies import examples

pytestmark = pytest.mark.kernels

if TYPE_CHECKING:
    from plb.state.arrays import Problem, Solution


def side_of_mean(loads: np.ndarray, counted: np.ndarray, node: int) -> int:
    """Return 1, 0 or -1 for a node above, at or below the exact mean of the counted nodes; 0 without any."""
    if not counted.any():
        return 0
    mean = Fraction(int(loads[counted].sum()), int(counted.sum()))
    return (loads[node] > mean) - (loads[node] < mean)


def helps(problem: Problem, solution: Solution, row: int, node: int, change: np.ndarray) -> bool:
    """Return whether load off `node` (`change` above 0) or onto it (below) may reduce the imbalance of a metric."""
    local = int(problem.local_of[problem.service[row]])
    for metric in np.flatnonzero(change):
        sides = []
        if problem.uneven[0, metric]:
            sides.append(side_of_mean(solution.node_load[:, metric], problem.counted_for[:, metric], node))
            if problem.defragmented[metric] or problem.reserving[metric]:
                return True
        if local >= 0 and problem.uneven[1 + local, metric]:
            loads = solution.local_load[local, :, metric]
            sides.append(side_of_mean(loads, problem.local_counted[local], node))
        if any(side * int(np.sign(change[metric])) > 0 for side in sides):
            return True
    return False


@given(
    busy_clusters(),
    st.booleans(),
    st.lists(st.booleans(), min_size=12, max_size=12),
    st.lists(st.booleans(), min_size=3),
)
@examples(60)
def test_samples_are_those_that_reduce_the_imbalance(
    cluster: Cluster, local: bool, uneven: list[bool], defragmented: list[bool]
) -> None:
    """Every sampled replica, node and swap reduces the imbalance, and each of these is sampled at some time."""
    config = {**cluster.config, "local_domain_weight": 0.25 * local, "w_failovers": 0.0, "w_overload": 0.0}
    configuration = configuration_of(attrs.evolve(cluster, config=config).engine())
    problem, solution = configuration.problem, configuration.solution
    of_metric = np.array((uneven * problem.uneven.size)[: problem.uneven.size], np.bool_)
    metrics = problem.load.shape[1]
    problem = problem._replace(
        uneven=of_metric.reshape(problem.uneven.shape), defragmented=np.array(defragmented[:metrics], np.bool_)
    )
    movable = np.flatnonzero(problem.movable & (solution.node >= 0))
    if not len(movable) or not len(problem.targets):
        return
    rng = Stream(5)
    worth = {row for row in movable.tolist() if helps(problem, solution, row, solution.node[row], problem.load[row])}
    drawn = {replica_worth_moving(problem, solution, movable, int(rng.choice(movable)), rng) for _ in range(40)} - {-1}
    assert drawn <= worth
    assert bool(drawn) == bool(worth)
    row = int(movable[0])
    reachable = {n for n in problem.targets.tolist() if helps(problem, solution, row, n, -problem.load[row])}
    reached = {node_worth_reaching(problem, solution, row, rng) for _ in range(40)} - {int(solution.node[row])}
    assert reached <= reachable
    assert not (reachable - {int(solution.node[row])}) or reached
    for primary in movable[problem.role[movable] == Role.PRIMARY].tolist():
        other = int(problem.sibling[primary])
        while other != primary:
            change = problem.load[primary] - problem.load[other]
            expected = helps(problem, solution, primary, int(solution.node[primary]), change)
            # a leaving replica of the primary is no secondary
            for pair in ((primary, other), (other, primary)) if problem.role[other] == Role.SECONDARY else ():
                assert is_worth_swapping(problem, solution, *pair) == expected
            other = int(problem.sibling[other])


def uneven_engine(**settings: object) -> PlacementAndLoadBalancing:
    """Return an engine whose memory needs balancing; its cpu does not, though it could be more even."""
    metrics = [Metric("cpu", balancing_threshold=10.0), Metric("memory")]
    config = PlbConfig.from_service_fabric({}, metrics=metrics, one_action_per_refresh=False, **settings)
    engine = PlacementAndLoadBalancing(config, seed=2)
    for index in range(4):
        engine.update_node(Node(f"n{index}"), now=-1e6)
    for kind, load in (("cpu", {"cpu": 30.0}), ("memory", {"memory": 30.0})):
        engine.update_service(Service(kind, stateful=False, default_load={Role.INSTANCE: load}))
        for index in range(6):
            add_partition(
                engine, f"{kind}/{index}", Replica(Role.INSTANCE, f"n{min(index, 3) if kind == 'cpu' else 0}")
            )
    return engine


@pytest.mark.parametrize("biased", [True, False])
def test_fast_balancing_with_biased_sampling_moves_only_for_imbalanced_metrics(*, biased: bool) -> None:
    """Without biased sampling, moves reduce the imbalance of the other metric as well."""
    plan = uneven_engine(biased_sampling=biased, max_percentage_to_move=1.0).balance()
    moved = {move.partition.partition("/")[0] for move in plan.moves}
    assert moved == ({"memory"} if biased else {"memory", "cpu"})


def parent_and_child(share: float) -> PlacementAndLoadBalancing:
    """Return an engine with a child that cannot move to its parent: only the parent can move."""
    config = PlbConfig(
        metrics=[Metric("cpu", quantum=1.0)],
        move_parent_to_fix_affinity_violation=True,
        move_parent_to_fix_affinity_violation_transition_percentage=share,
    )
    engine = PlacementAndLoadBalancing(config, seed=1)
    for name in ("here", "there"):
        engine.update_node(Node(name))
    engine.update_service(Service("parent", stateful=False))
    engine.update_service(Service("child", stateful=False, affinity_to="parent", blocked_nodes={"here"}))
    engine.update_partition(Partition("parent/0", service="parent", replicas=[Replica(Role.INSTANCE, "here")]))
    engine.update_partition(Partition("child/0", service="child", replicas=[Replica(Role.INSTANCE, "there")]))
    return engine


@pytest.mark.parametrize(("share", "moved"), [(0.0, []), (0.05, ["parent/0"]), (1.0, ["parent/0"])])
def test_parents_move_in_the_last_share_of_the_repairs(share: float, moved: list[str]) -> None:
    assert [move.partition for move in parent_and_child(share).repair().moves] == moved
