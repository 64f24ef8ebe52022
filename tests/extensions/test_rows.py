"""The index of a replica is its row, in kernels and in Python, and keeps its partition and role while it is used."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb import Metric, MoveKind, Node, Partition, PlacementAndLoadBalancing, PlbConfig, Replica, Role, Service
from plb.array_types import NOWHERE
from plb.compiler import kernel
from plb.extensions.constraints import CompiledConstraint
from plb.testing import busy_clusters, configuration_of
from tests.engine.strategies import examples

pytestmark = pytest.mark.kernels


@kernel
def _stays(_problem, _solution, _data, _sums, proposal):
    """Refuse to move a replica of an odd row."""
    moves = proposal.source != NOWHERE and proposal.row % 2 == 1
    return moves or (proposal.partner != NOWHERE and proposal.partner % 2 == 1)


class OddRowsStay(CompiledConstraint):
    """Placed replicas of odd rows do not move."""

    name = "odd_rows_stay"
    test = _stays

    def broken(self, configuration):
        return []


class Seen:
    """A term of no weight in the energy that notes what it is told of rows."""

    name = "seen"
    rows: dict = {}  # noqa: RUF012  # of all copies

    def total(self, configuration):
        for row in configuration.rows.tolist():
            self.rows[row] = configuration.partition_of(row), configuration.role_of(row)
        return 0.0


def rows_of(engine):
    """Return partition and role of all replicas by index, as the host sees them."""
    return {
        one.index: (name, one.role)
        for name in engine._state.partitions
        for one in engine.replicas(name)
        if not one.leaving
    }


@examples(60)
@given(cluster=busy_clusters(), verbs=st.lists(st.sampled_from(["place", "repair", "balance"]), max_size=4))
def test_row_has_the_partition_role_and_node_of_its_replica(cluster, verbs):
    """Also after any plans are applied: those of swaps move two rows, and no row changes role or partition."""
    engine = cluster.engine(extensions={"extension_terms": [Seen()]})
    before = rows_of(engine)
    for verb in verbs:
        plan = getattr(engine, verb)(budget=80)
        places = {one.index: one.node for name in engine._state.partitions for one in engine.replicas(name)}
        for move in plan.moves:
            if move.kind in (MoveKind.MOVE, MoveKind.ADD):
                assert before[move.index] == (move.partition, move.role)
                assert places[move.index] == move.source
        engine.apply(plan)
        assert rows_of(engine).items() <= before.items()
    Seen.rows.clear()
    engine.violations()
    engine.balance(budget=0)
    assert {row: Seen.rows[row] for row in rows_of(engine)} == rows_of(engine)
    configuration = configuration_of(engine)
    for name in engine._state.partitions:
        for one in engine.replicas(name):
            if not one.leaving:
                node = configuration.node_of(one.index)
                assert (None if node == NOWHERE else configuration.node(node).name) == one.node


@examples(40)
@given(cluster=busy_clusters(), verb=st.sampled_from(["repair", "balance"]))
def test_kernels_get_the_index_as_the_row(cluster, verb):
    engine = cluster.engine(extensions={"extension_constraints": [OddRowsStay()]})
    moves = getattr(engine, verb)(budget=400).moves
    for move in moves:
        if move.kind is MoveKind.MOVE:
            assert move.index % 2 == 0
        elif move.kind is MoveKind.SWAP:
            swapped = [one.index for one in engine.replicas(move.partition) if one.node in (move.source, move.target)]
            assert all(index % 2 == 0 for index in swapped)


def index_of(engine, partition, role=Role.PRIMARY):
    return next(one.index for one in engine.replicas(partition) if one.role is role)


def test_rows_over_time():
    """A described replica has the row of its role, whoever has the role, and free rows are used again."""
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=[Metric("cpu")]))
    for name in ("n0", "n1", "n2"):
        engine.update_node(Node(name))
    engine.update_service(Service("db", target_replicas=2))
    first = [Replica(Role.PRIMARY, "n0"), Replica(Role.SECONDARY, "n1")]
    engine.update_partition(Partition("db/0", service="db", replicas=first))
    engine.update_partition(Partition("db/1", service="db", replicas=first))
    primary, secondary = (index_of(engine, "db/0", role) for role in (Role.PRIMARY, Role.SECONDARY))
    for described in (
        [Replica(Role.PRIMARY, "n2"), Replica(Role.SECONDARY, "n1")],  # moved
        [Replica(Role.PRIMARY, "n1"), Replica(Role.SECONDARY, "n0")],  # promoted
        [Replica(Role.SECONDARY, "n0")],  # one is missing
        [Replica(Role.SECONDARY, "n0"), Replica(Role.PRIMARY, "n2")],
    ):
        engine.update_partition(Partition("db/0", service="db", replicas=described))
        assert (index_of(engine, "db/0"), index_of(engine, "db/0", Role.SECONDARY)) == (primary, secondary)
    engine.remove_partition("db/0")
    assert {primary, secondary}.isdisjoint(configuration_of(engine).rows.tolist())
    engine.update_partition(Partition("db/2", service="db", replicas=first))
    assert {one.index for one in engine.replicas("db/2")} == {primary, secondary}
    assert len(configuration_of(engine).solution.node) >= np.max(configuration_of(engine).rows) + 1
