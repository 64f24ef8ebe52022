"""Steps in neighbourhoods of users: how they are made, and how they get replicas past full nodes."""

from __future__ import annotations

from typing import ClassVar

import attrs
import numpy as np
import pytest

from plb import Node, Partition, PlacementAndLoadBalancing, Replica, Role, Service
from tests.extensions.proposing import Fixed, Rotation, SwiftFixed, SwiftRotation
from tests.search.test_larger_neighbourhoods import circle

pytestmark = pytest.mark.kernels


@pytest.mark.parametrize("rotation", [Rotation(), SwiftRotation()])
def test_rotation_passes_full_nodes(rotation):
    """Each replica may only take the place of the next one; single proposals move none."""
    plan = circle(rotation, larger_neighbourhoods=["rotation"]).balance(budget=4000)
    assert {(move.partition, move.target) for move in plan.moves} == {("p0", "n1"), ("p1", "n2"), ("p2", "n0")}
    proposals = plan.proposals
    assert set(proposals.tried_by_neighbourhood) == {"rotation"}
    assert 0 < proposals.accepted_by_neighbourhood["rotation"] < proposals.tried_by_neighbourhood["rotation"]


def rows_of(engine):
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
