"""Steps in neighbourhoods of users: they keep every rule and sum, get replicas past full nodes, and are counted."""

from __future__ import annotations

from typing import ClassVar
from unittest.mock import patch

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb import Checks, Metric, Node, Partition, PlacementAndLoadBalancing, PlbConfig, Replica, Role, Service
from plb.extensions.neighbourhoods import MOST_PROPOSED
from plb.search import annealing
from plb.search.neighbourhoods import MOST_ASKED, OF_USERS, kinds_of
from plb.settings.extensions import NEIGHBOURHOODS
from plb.testing import all_clusters, busy_clusters
from tests.engine.strategies import examples
from tests.extensions.proposing import Anything, Fixed, Rotation, SwiftAnything, SwiftFixed, SwiftRotation
from tests.extensions.test_compiled_terms import NotOnLast, Occupied, OccupiedWithSums

pytestmark = pytest.mark.kernels

BOTH = [Anything(), SwiftAnything()]


def things(violations):
    """Return what is broken, without by how much; a node up to its limit is not."""
    violations = [one for one in violations if one.rule != "capacity" or one.load > one.limit]
    parts = ("partition", "node", "metric", "domain")
    return {(one.rule, *(getattr(one, part, None) for part in parts)) for one in violations}


def only(neighbourhoods, **settings):
    """Return what a cluster's engine gets such that it searches nothing else than these neighbourhoods."""
    names = [one.name for one in neighbourhoods]
    extensions = {"extension_neighbourhoods": neighbourhoods}
    return {"extensions": extensions, "larger_neighbourhoods": names, "larger_neighbourhood_share": 1.0, **settings}


@examples(80)
@given(all_clusters(), st.booleans())
def test_steps_keep_sums_exact_and_break_no_rule(cluster, with_others):
    """All sums, also those of terms and constraints, are compared with those from scratch after every step."""
    arguments = only(BOTH, checks=Checks.STEP)
    if with_others:
        arguments["extensions"] |= {
            "extension_terms": [Occupied(), OccupiedWithSums()],
            "extension_constraints": [NotOnLast()],
        }
    engine = cluster.engine(**arguments)
    before = things(engine.violations())
    plan = engine.balance(budget=200)
    assert plan.energy_after.total <= plan.energy_before.total
    engine.apply(plan)
    assert things(engine.violations()) <= before


@examples(40)
@given(busy_clusters(), st.sampled_from([[SwiftAnything(), SwiftRotation()], BOTH]))
def test_plan_does_not_depend_on_threads_or_copies(cluster, neighbourhoods):
    """Chains that run one after the other and on threads find the same; so does a second engine."""
    plans = []
    for least, threads in ((10**9, 1), (0, 3), (0, 3)):
        with patch.object(annealing, "THREADED_PROPOSALS", least):
            engine = cluster.engine(**only(neighbourhoods, threads=threads, chains=3))
            plans.append(engine.balance(budget=600))
    assert plans[0] == plans[1] == plans[2]


@examples(40)
@given(all_clusters(), st.integers(2, 40))
def test_full_log_changes_no_sum_and_keeps_the_best(cluster, size):
    """A log that is full again and again loses the start, but never the best solution."""
    engine = cluster.engine(**only(BOTH, checks=Checks.STEP))
    with patch.object(annealing, "UNDO_LOG_SIZE", size):
        plan = engine.balance(budget=300)
    assert plan.energy_after.total <= plan.energy_before.total


@examples(60)
@given(all_clusters(), st.integers(0, 600))
def test_what_a_step_asks_and_tries_counts_as_proposals(cluster, budget):
    """A budget is never exceeded, and steps are counted by neighbourhood."""
    proposals = cluster.engine(**only(BOTH)).balance(budget=budget).proposals
    tried, accepted = proposals.tried_by_neighbourhood, proposals.accepted_by_neighbourhood
    assert proposals.generated <= budget
    assert set(accepted) <= set(tried) <= {"anything", "swift_anything"}
    assert all(accepted[name] <= tried[name] for name in accepted)
    assert sum(tried.values()) <= proposals.generated
    assert sum(accepted.values()) <= proposals.accepted


def test_largest_step_fits_the_budget_of_a_step():
    """Each move takes a row off its node, asks for the new one, and places the row there."""
    assert 3 * MOST_PROPOSED <= MOST_ASKED


def circle(*neighbourhoods, pinned=(), **settings):
    """Return three full nodes whose replicas may each go to the next one only, and lower the energy only together."""
    config = PlbConfig(
        metrics=[Metric("cpu"), Metric("memory")],
        w_imbalance=1000.0,
        max_percentage_to_move=1.0,
        capacity_limit="capacity",
        larger_neighbourhood_share=0.5,
        **settings,
    )
    engine = PlacementAndLoadBalancing(config, seed=3, extension_neighbourhoods=neighbourhoods)
    for index in range(3):
        engine.update_node(Node(f"n{index}", capacities={"cpu": 10}, properties={"place": str(index)}))
    for index, memory in enumerate((30, 0, 0)):
        places = f"place == {index} || place == {(index + 1) % 3}"
        engine.update_service(Service(f"s{index}", stateful=False, placement_constraint=places))
        replica = Replica(Role.INSTANCE, f"n{index}", pinned=index in pinned)
        engine.update_partition(Partition(f"p{index}", service=f"s{index}", replicas=[replica]))
        engine.report_load(f"p{index}", f"n{index}", {"cpu": 6, "memory": memory})
    # memory that cannot move is on the node of p0
    engine.update_service(Service("fixed", stateful=False))
    engine.update_partition(Partition("fixed", service="fixed", replicas=[Replica(Role.INSTANCE, "n0", pinned=True)]))
    engine.report_load("fixed", "n0", {"cpu": 0, "memory": 30})
    return engine


@pytest.mark.parametrize("rotation", [Rotation(), SwiftRotation()])
def test_rotation_passes_full_nodes(rotation):
    """Each replica may only take the place of the next one; single proposals move none."""
    plan = circle(rotation, larger_neighbourhoods=["rotation"]).balance(budget=4000)
    assert {(move.partition, move.target) for move in plan.moves} == {("p0", "n1"), ("p1", "n2"), ("p2", "n0")}
    proposals = plan.proposals
    assert set(proposals.tried_by_neighbourhood) == {"rotation"}
    assert 0 < proposals.accepted_by_neighbourhood["rotation"] < proposals.tried_by_neighbourhood["rotation"]


def rows_of(engine):
    """Return the rows of the three replicas of a circle."""
    return [engine.replicas(f"p{index}")[0].index for index in range(3)]


def test_steps_that_cannot_be_made_as_proposed_are_refused():
    """A pinned row, a row twice, a row that is not used, a node that is down, none, and the nodes where all are."""
    rows = rows_of(circle())
    turn = [(row, (index + 1) % 3) for index, row in enumerate(rows)]
    cases = {
        "as it is": (turn, {}),
        "twice": ([*turn, (rows[0], 2)], {}),
        "twice the same": ([*turn, turn[0]], {}),
        "not used": ([*turn, (rows[2] + 3, 1)], {}),
        "pinned": (turn, {"pinned": (1,)}),
        "a part": (turn[:2], {}),
        "nothing": ([], {}),
        "in place": ([(row, index) for index, row in enumerate(rows)], {}),
    }
    for name, (proposed, settings) in cases.items():
        engine = circle(Fixed(proposed), larger_neighbourhoods=["fixed"], **settings)
        plan = engine.balance(budget=4000)
        assert bool(plan.moves) == (name == "as it is"), name
        assert plan.proposals.tried_by_neighbourhood["fixed"] > 0
        assert ("fixed" in plan.proposals.accepted_by_neighbourhood) == (name == "as it is")
    engine = circle(Fixed([(rows[0], 3)]), larger_neighbourhoods=["fixed"])
    engine.update_node(Node("down", up=False))
    assert not engine.balance(budget=4000).moves


def test_order_of_the_moves_does_not_matter_for_full_nodes():
    """All rows have left before the first one is placed."""
    rows = rows_of(circle())
    turn = [(row, (index + 1) % 3) for index, row in enumerate(rows)]
    for order in ((0, 1, 2), (2, 1, 0), (1, 0, 2)):
        engine = circle(Fixed([turn[index] for index in order]), larger_neighbourhoods=["fixed"])
        assert len(engine.balance(budget=4000).moves) == 3


def test_one_move_may_be_a_step():
    """A kernel that proposes one move is as good as a single proposal."""
    engine = circle(larger_neighbourhoods=["service"])
    engine.update_service(Service("free", stateful=False))
    engine.update_partition(Partition("free", service="free", replicas=[Replica(Role.INSTANCE, "n0")]))
    engine.report_load("free", "n0", {"cpu": 1, "memory": 20})
    row = engine.replicas("free")[0].index
    snapshot = engine.snapshot()
    given_settings = attrs.evolve(engine.config, larger_neighbourhoods=["fixed"], larger_neighbourhood_share=1.0)
    engine = PlacementAndLoadBalancing.from_snapshot(
        snapshot, config=given_settings, extension_neighbourhoods=[SwiftFixed(1, row, 1)]
    )
    plan = engine.balance(budget=4000)
    assert [(move.partition, move.target) for move in plan.moves] == [("free", "n1")]
    assert plan.proposals.accepted_by_neighbourhood["fixed"] > 0


def test_kinds_are_numbered_in_the_order_of_the_names():
    """Built-in ones have numbers of their own, and those of users follow."""
    assert kinds_of(NEIGHBOURHOODS) == [1, 2, 3, 4]
    assert kinds_of(["b", "node", "a"]) == [OF_USERS, 3, OF_USERS + 1]


class Watching:
    """Notes which rows and numbers it gets, and proposes nothing."""

    name = "watching"
    seen: ClassVar[list[tuple[int, float]]] = []

    def propose(self, configuration, row, random):
        """Note the row, whether it may move, and a number."""
        assert configuration.problem.movable[row]
        assert configuration.node_of(row) >= 0
        self.seen.append((row, random.random()))
        return []


def test_rows_are_movable_and_numbers_reproducible():
    """Two engines with one seed give the same rows and numbers; the numbers of the steps differ."""
    found = []
    for _ in range(2):
        Watching.seen.clear()
        circle(Watching(), larger_neighbourhoods=["watching"], chains=2).balance(budget=2000)
        found.append(list(Watching.seen))
    assert found[0] == found[1]
    assert len(found[0]) > 10
    assert len({number for _, number in found[0]}) == len(found[0])
    assert len(np.unique([row for row, _ in found[0]])) > 1
