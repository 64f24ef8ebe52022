"""Energy terms of users: found by name, weighted with the built-in terms, and refused under invalid names."""

from __future__ import annotations

from functools import partial

import pytest

from plb import (
    CheckFailedError,
    ConflictError,
    InvalidValueError,
    Metric,
    PlbConfig,
    UnknownNameError,
)
from tests.engine import stories
from tests.engine.extension_constraints import OffLastNode
from tests.engine.stories import places_of

pytestmark = pytest.mark.kernels


class NodesUsed:
    """The number of nodes with a replica."""

    name = "nodes_used"

    def total(self, configuration):
        return float(sum(len(configuration.rows_on(node)) > 0 for node in range(configuration.nodes)))


class MiscountedNodes(NodesUsed):
    """The same term, with changes that are always zero."""

    name = "miscounted_nodes"

    def delta(self, configuration, proposal):
        return 0.0


class OnFirstNode(NodesUsed):
    """The number of replicas on the first node."""

    name = "on_first_node"

    def total(self, configuration):
        return float(len(configuration.rows_on(0)))


TERMS = (NodesUsed(), MiscountedNodes(), OnFirstNode())
four_nodes = partial(stories.four_nodes, objects=TERMS)
engine_with = partial(stories.engine_with, objects=TERMS)


def test_term_of_large_weight_decides():
    """All replicas are packed on one node, the plan gives the reason, and a second balancing moves nothing."""
    engine = four_nodes(extension_terms={"nodes_used": 100.0})
    engine.apply(engine.place())
    plan = engine.balance()
    assert plan.energy_before.terms["nodes_used"] == 4.0
    assert plan.energy_after.terms["nodes_used"] == 1.0
    assert plan.energy_after.total < plan.energy_before.total
    assert str(plan.moves[0].reason) == "lowers the energy: nodes used goes from 4 to 1"
    assert plan.proposals.rejected_by_term["nodes_used"] > 0
    engine.apply(plan)
    assert len(set(places_of(engine))) == 1
    assert engine.balance().moves == ()


def test_new_replica_goes_where_the_term_is_lowest():
    engine = four_nodes(("n0", "n0", "n0", "n0", None), extension_terms={"nodes_used": 100.0})
    assert [move.target for move in engine.place().moves] == ["n0"]


@pytest.mark.parametrize("combination", ["additive", "service_fabric"])
def test_weight_times_term_is_added_to_the_energy(combination):
    energies = [
        four_nodes(extension_terms=terms, combination=combination).balance(budget=0).energy_before
        for terms in ({}, {"nodes_used": 0.0}, {"nodes_used": 2.5})
    ]
    assert energies[0].total == energies[1].total
    assert energies[2].total == pytest.approx(energies[0].total + 2.5 * 4)


@pytest.mark.parametrize(
    ("checks", "message"),
    [
        ("step", r"miscounted_nodes add up to 1.0, from scratch it is 2.0"),
        ("phase", r"end of annealing: changes of energy term miscounted_nodes"),
    ],
)
def test_checks_name_a_term_with_wrong_changes(checks, message):
    engine = four_nodes(("n0",) * 5, extension_terms={"miscounted_nodes": 0.001}, checks=checks, w_imbalance=1000.0)
    with pytest.raises(CheckFailedError, match=message):
        engine.balance()


def test_search_without_moves_does_not_win_by_a_term():
    """A search for packed metrics only empties nodes and runs next to the usual one; here no node can be emptied."""

    def plan(emptying):
        settings = {
            "extension_terms": {"on_first_node": 100.0},
            "restricted_defragmentation_heuristic_enabled": emptying,
        }
        metric = Metric("cpu", quantum=1.0, defragmentation=True)
        loads = {"a": ("n0", 5), "b": ("n0", 6)}
        return engine_with({"n0": 100, "n1": 100}, loads, metric=metric, w_imbalance=0.001, **settings).balance()

    assert [move.target for move in plan(False).moves] == ["n1", "n1"]
    assert plan(True).energy_after == plan(False).energy_after


@pytest.mark.parametrize("total", [None, "one", float("nan"), float("-inf"), [1.0]])
def test_total_that_is_no_number_is_refused(total, monkeypatch):
    monkeypatch.setattr(NodesUsed, "total", lambda *_: total)
    with pytest.raises(InvalidValueError, match=r"energy term nodes_used: total = .* a finite number"):
        four_nodes(extension_terms={"nodes_used": 1.0}).balance(budget=0)


def test_unknown_names_are_refused_with_the_nearest_name():
    with pytest.raises(UnknownNameError, match="unknown energy term 'node_used'; did you mean 'nodes_used'"):
        four_nodes(extension_terms={"node_used": 1.0})
    with pytest.raises(UnknownNameError, match="unknown constraint 'off_node'"):
        four_nodes(extension_constraints=["off_node"])
    with pytest.raises(InvalidValueError, match=r"extension_terms\[nodes_used\] = -1"):
        PlbConfig(metrics=[Metric("cpu")], extension_terms={"nodes_used": -1})
    with pytest.raises(InvalidValueError, match="a mapping of names"):
        PlbConfig(metrics=[Metric("cpu")], extension_terms=["nodes_used"])
    with pytest.raises(InvalidValueError, match="a list of names"):
        PlbConfig(metrics=[Metric("cpu")], extension_constraints="off_last_node")
    with pytest.raises(ConflictError, match="twice"):
        PlbConfig(metrics=[Metric("cpu")], extension_constraints=["off_last_node", "off_last_node"])


def test_invalid_terms_and_taken_names_are_refused():
    """The test covers a built-in name, missing methods, and half of the methods for sums."""

    class Movement(NodesUsed):
        name = "movement"

    class Halved(NodesUsed):
        name = "halved"

        def apply(self, configuration, proposal):
            """Keep no sums."""

    class Capacity(OffLastNode):
        name = "capacity"

    with pytest.raises(ConflictError, match="built-in term"):
        with_objects(terms=[Movement()])
    with pytest.raises(InvalidValueError, match="also has begin, undo"):
        with_objects(terms=[Halved()])
    with pytest.raises(InvalidValueError, match="`name` and a `total"):
        with_objects(terms=[object()])
    with pytest.raises(ConflictError, match="built-in rule"):
        with_objects(constraints=[Capacity()])
    with pytest.raises(InvalidValueError, match="`refuses"):
        with_objects(constraints=[NodesUsed()])
    for kind, extension in (("terms", NodesUsed), ("constraints", OffLastNode)):
        with pytest.raises(InvalidValueError, match="an object with"):
            with_objects(**{kind: [extension]})


def with_objects(terms=(), constraints=()):
    """Return an engine with terms and constraints of the host."""
    return stories.four_nodes(extensions={"extension_terms": terms, "extension_constraints": constraints})


@pytest.mark.parametrize("name", [3, "", " ", None, ["listed"]])
def test_name_that_is_no_text_is_refused(name):

    class Term(NodesUsed):
        pass

    class Constraint(OffLastNode):
        pass

    Term.name = Constraint.name = name
    with pytest.raises(InvalidValueError, match="extension_terms: name = "):
        with_objects(terms=[Term()])
    with pytest.raises(InvalidValueError, match="extension_constraints: name = "):
        with_objects(constraints=[Constraint()])
