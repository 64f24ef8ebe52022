"""Moves that bring the replicas of a child back to its parent."""

from __future__ import annotations

import pytest

from plb import Replica, Role, Service
from plb.compiler import Stream
from plb.model.rules import ALL_RULES
from plb.search.extension_state import constraints_of
from plb.search.repair.affinity_moves import rejoin
from plb.search.transactions import new_transaction
from tests.engine.stories import add_partition, engine_on, search_of

pytestmark = pytest.mark.kernels

PRIMARY, SECONDARY = Role.PRIMARY, Role.SECONDARY


def rejoined(parent, *, aligned):
    """Let the primary of a child on n1 rejoin its parent, where its secondary is on n0 and no other node is left.

    Return whether it worked, and the nodes of primary and secondary.
    """
    engine = engine_on("n0", "n1")
    engine.update_service(Service("parent", target_replicas=len(parent)))
    engine.update_service(Service("child", target_replicas=2, affinity_to="parent", aligned=aligned))
    add_partition(engine, "parent/0", *parent)
    add_partition(engine, "child/0", Replica(PRIMARY, "n1"), Replica(SECONDARY, "n0"))
    primary, secondary = sorted(engine.replicas("child/0"), key=lambda one: one.role)
    run = search_of(engine)
    state, transaction = constraints_of(None, run.problem, run.solution).state, new_transaction(8)
    worked = rejoin(run.problem, run.solution, state, ALL_RULES, primary.index, Stream(1), transaction)
    return worked, [int(run.solution.node[one.index]) for one in (primary, secondary)]


def test_roles_are_swapped_where_both_replicas_are_then_with_their_parent():
    """The primary of an aligned child belongs to the primary of its parent, the secondary to a secondary."""
    parent = Replica(PRIMARY, "n0"), Replica(SECONDARY, "n1")
    assert rejoined(parent, aligned=True) == (True, [0, 1])


def test_no_roles_are_swapped_if_the_other_replica_then_leaves_its_parent():
    """The parent has one replica: one of the child stays apart, whichever it is."""
    assert rejoined([Replica(PRIMARY, "n0")], aligned=False) == (False, [1, 0])
