"""What extension terms say of nodes: steps of several moves begin at replicas on nodes that are costly by them."""

from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb import (
    ExtensionError,
    InvalidValueError,
)
from plb.array_types import NOWHERE
from plb.compiler import Stream, kernel
from plb.extensions.energy_terms import CompiledTerm
from plb.search.annealing.move_generation import COMPARED_ROWS, Choice, costly_row
from plb.search.extension_state import extensions_of_chain
from plb.testing import busy_clusters, verify
from tests.engine.stories import four_nodes
from tests.engine.strategies import examples

pytestmark = pytest.mark.kernels


@kernel
def _change_of_squares(_problem, _solution, _data, replicas, proposal):
    if proposal.partner != NOWHERE or proposal.source == proposal.target:
        return 0.0
    change = 2.0 * replicas.values[proposal.target] + 1.0 if proposal.target != NOWHERE else 0.0
    return change - (2.0 * replicas.values[proposal.source] - 1.0 if proposal.source != NOWHERE else 0.0)


@kernel
def _keep_replicas(_problem, _solution, _data, replicas, proposal):
    if proposal.partner == NOWHERE and proposal.source != NOWHERE:
        replicas.values[proposal.source] -= 1
    if proposal.partner == NOWHERE and proposal.target != NOWHERE:
        replicas.values[proposal.target] += 1


@kernel
def _square_of_node(_problem, _solution, _data, replicas, node):
    return float(replicas.values[node] ** 2)


class Squares(CompiledTerm):
    """The squared numbers of replicas of the nodes."""

    name = "squares"
    change = _change_of_squares
    keep = _keep_replicas
    node_cost = _square_of_node

    def new_sums(self, configuration):
        node = configuration.solution.node
        return np.bincount(node[node != NOWHERE], minlength=configuration.nodes)

    def total(self, configuration):
        return float((self.new_sums(configuration) ** 2).sum())


class SquaresInPython:
    """The same term in plain Python; it counts how often it is asked for a node."""

    name = "squares"
    asked = 0

    def total(self, configuration):
        return Squares().total(configuration)

    def delta(self, configuration, proposal):
        node = configuration.solution.node.copy()
        for one in configuration.relocations(proposal):
            node[one.row] = one.target
        counts = np.bincount(node[node != NOWHERE], minlength=configuration.nodes)
        return float((counts**2).sum()) - self.total(configuration)

    def node_cost(self, configuration, node):
        type(self).asked += 1
        return float((configuration.solution.node == node).sum() ** 2)


class Elsewhere(SquaresInPython):
    """A term in Python that says nothing of nodes."""

    name = "squares"
    node_cost = None


class OneNode:
    """A term without any effect that calls one node costly."""

    name = "one_node"

    def __init__(self, node):
        self.node = node

    def total(self, configuration):
        return 0.0 * configuration.nodes

    def node_cost(self, _configuration, node):
        return 1.0 if node == self.node else 0.0


@kernel
def _draw(problem, solution, choice, extension_state, rng, drawn):
    for number in range(drawn.shape[0]):
        drawn[number] = costly_row(problem, solution, choice, extension_state, rng)


@examples(60)
@given(busy_clusters(), st.sampled_from([0.3, 1.0]), st.sampled_from([0.5, 50.0]))
def test_kernels_and_python_lead_to_the_same_plans(cluster, share, weight):
    settings = {"larger_neighbourhood_share": share, "extension_terms": {"squares": weight}}
    engines = [
        cluster.engine(extensions={"extension_terms": [one()]}, **settings) for one in (Squares, SquaresInPython)
    ]
    plans = [engine.balance(budget=400) for engine in engines]
    assert plans[0] == plans[1]


@examples(30)
@given(busy_clusters())
def test_term_is_asked_only_for_steps_of_several_moves(cluster):
    SquaresInPython.asked = 0
    cluster.engine(extensions={"extension_terms": [SquaresInPython()]}).balance(budget=300)
    if cluster.config.get("larger_neighbourhood_share", 0.0) == 0.0:
        assert SquaresInPython.asked == 0
    engine = cluster.engine(extensions={"extension_terms": [Elsewhere()]}, larger_neighbourhood_share=1.0)
    engine.balance(budget=300)


def engine_on(*places, term, **settings):
    """Return an engine of ten nodes with an instance without load on each of these, and no built-in cost."""
    names, extensions = [f"n{place}" for place in places], {"extension_terms": [term]}
    return four_nodes(names, nodes=10, load=0, extensions=extensions, w_imbalance=0.0, **settings)


@pytest.mark.parametrize("weight", [0.0, 2.0])
def test_steps_begin_at_nodes_that_only_the_own_term_calls_costly(weight):
    """One of ten replicas is there; a step begins at it if it is among the compared ones, 27 instead of 10 of 100."""
    engine = engine_on(*range(10), term=OneNode(7), extension_terms={"one_node": weight})
    planner = engine._planner
    problem = planner.problem(0.0)
    solution, extensions = planner.start(problem).copy(), planner._extensions(0.0)
    chain = extensions_of_chain(extensions, problem, solution)
    rows = np.flatnonzero(problem.movable & (solution.node >= 0))
    drawn = np.empty(20_000, np.int64)
    choice = Choice(rows[:0], rows, len(rows), 0, 0.0, 0.0, larger_share=1.0)
    _draw(problem, solution, choice, chain.state, Stream(np.random.SeedSequence(3)), drawn)
    chain.raise_error()
    share = float((solution.node[drawn] == 7).mean())
    expected = 1 - 0.9**COMPARED_ROWS if weight else 0.1
    assert share == pytest.approx(expected, abs=0.015)


def test_facts_state_the_costs_of_nodes():
    for term in (Squares(), SquaresInPython()):
        facts = verify(term).given(nodes=3, replicas=[(0, 1), (0, 1), (1, 1)])
        facts.costs_by_node(4, 1, 0).moves((0, 2)).costs_by_node(1, 1, 1)
        with pytest.raises(AssertionError, match="squares: the cost of node 1 is 1, expected 2"):
            facts.costs_by_node(1, 2, 1)
        with pytest.raises(AssertionError, match="there are 3 nodes"):
            facts.costs_by_node(1, 1)
    verify(Elsewhere()).given(nodes=2, replicas=[(0, 1)]).costs_by_node(0, 0)


# errors


@kernel
def _fails(_problem, _solution, _data, replicas, node):
    if replicas.values[node] > 0:
        raise ValueError("no price")
    return 0.0


@kernel
def _takes_too_much(_problem, _solution, _data, _sums, _node, _more):
    return 0.0


def test_error_of_a_method_names_term_and_method(monkeypatch):
    monkeypatch.setattr(SquaresInPython, "node_cost", lambda *_: {}["price"])
    engine = engine_on(0, 0, 1, term=SquaresInPython(), larger_neighbourhood_share=1.0)
    with pytest.raises(ExtensionError, match="energy term squares: node_cost has failed: KeyError: 'price'"):
        engine.balance(budget=2000)


@kernel
def _reads_nothing(problem, _solution, _data, _sums, node):
    return problem.nothing[node]


@pytest.mark.parametrize(
    ("node_cost", "error", "message"),
    [
        (_fails, ExtensionError, "energy term squares: node_cost has failed: ValueError: no price"),
        (_takes_too_much, ExtensionError, "squares: node_cost .* has to take problem, solution, data, sums, node"),
        (_square_of_node.py_func, InvalidValueError, "squares: node_cost = .*plb.compiler.kernel"),
        pytest.param(
            _reads_nothing,
            ExtensionError,
            "squares: node_cost has failed: kernel .*_reads_nothing",
            marks=pytest.mark.skipif("NUMBA_DISABLE_JIT" in os.environ, reason="nothing is compiled"),
        ),
    ],
)
def test_errors_of_a_kernel_name_term_and_kernel(monkeypatch, node_cost, error, message):
    monkeypatch.setattr(Squares, "node_cost", node_cost)
    with pytest.raises(error, match=message):
        engine_on(0, 0, 1, term=Squares(), larger_neighbourhood_share=1.0).balance(budget=2000)
