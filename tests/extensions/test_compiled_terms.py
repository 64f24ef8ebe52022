"""Terms and constraints with kernels lead to the same plans as those in plain Python."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plb import CheckFailedError, ExtensionError, InvalidValueError, Metric, PlbConfig
from plb.array_types import NOWHERE
from plb.compiler import kernel
from plb.engine_extensions import among
from plb.extensions.constraints import CompiledConstraint
from plb.extensions.energy_terms import CompiledTerm
from plb.testing import Invariant, busy_clusters
from tests.engine import stories
from tests.machines import short_machine_of

pytestmark = pytest.mark.kernels


@kernel
def _change_of_occupied(_problem, _solution, _data, replicas, proposal):
    _row, target, partner, here = proposal
    if partner != NOWHERE or here == target:
        return 0
    gained = 1 if target != NOWHERE and replicas.values[target] == 0 else 0
    lost = 1 if here != NOWHERE and replicas.values[here] == 1 else 0
    return gained - lost


@kernel
def _count_replicas(_problem, _solution, _data, replicas, proposal):
    _row, target, partner, here = proposal
    if partner == NOWHERE and here != NOWHERE:
        replicas.values[here] -= 1
    if partner == NOWHERE and target != NOWHERE:
        replicas.values[target] += 1


@kernel
def _miscount_replicas(_problem, _solution, _data, replicas, proposal):
    """Leave out the source node."""
    if proposal.partner == NOWHERE and proposal.target != NOWHERE:
        replicas.values[proposal.target] += 1


@kernel
def _is_last_node(problem, _solution, _data, _sums, proposal):
    last = problem.limit.shape[0] - 1
    return proposal.target == last or (proposal.partner != NOWHERE and proposal.source == last)


class Occupied(CompiledTerm):
    """The number of nodes with a replica."""

    name = "occupied"
    change = _change_of_occupied
    keep = _count_replicas

    def new_sums(self, configuration):
        node = configuration.solution.node
        return np.bincount(node[node != NOWHERE], minlength=configuration.nodes)

    def total(self, configuration):
        node = configuration.solution.node
        return float(len(np.unique(node[node != NOWHERE])))


class Miscounted(Occupied):
    """The same term with sums that become wrong."""

    name = "miscounted"
    keep = _miscount_replicas


class PlainFunction(Occupied):
    """The same term with a plain function instead of a kernel."""

    name = "plain_function"
    keep = _count_replicas.py_func


class OccupiedInPython:
    """The same term in plain Python."""

    name = "occupied_in_python"
    total = Occupied.total

    def delta(self, configuration, proposal):
        node = configuration.solution.node.copy()
        for one in configuration.relocations(proposal):
            node[one.row] = one.target
        return float(len(np.unique(node[node != NOWHERE]))) - self.total(configuration)


class OccupiedWithSums:
    """The same term in plain Python, with sums that each call compares with those from scratch."""

    name = "occupied_with_sums"
    total = Occupied.total

    def begin(self, configuration):
        self.replicas = Occupied().new_sums(configuration)

    def delta(self, configuration, proposal):
        assert self.replicas.tolist() == Occupied().new_sums(configuration).tolist()
        return OccupiedInPython.delta(self, configuration, proposal)

    def apply(self, configuration, proposal, sign=1):
        for one in configuration.relocations(proposal):
            for node, change in ((one.source, -sign), (one.target, sign)):
                if node != NOWHERE:
                    self.replicas[node] += change

    def undo(self, configuration, proposal):
        self.apply(configuration, proposal, -1)


class NotOnLast(CompiledConstraint):
    """No replica may be on the last node."""

    name = "not_on_last"
    test = _is_last_node

    def broken(self, configuration):
        return [row for row in configuration.rows if configuration.node_of(row) == configuration.nodes - 1]


OBJECTS = (Occupied(), Miscounted(), PlainFunction(), OccupiedInPython(), OccupiedWithSums(), NotOnLast())
four_nodes = partial(stories.four_nodes, objects=OBJECTS)

TestOccupied = short_machine_of(Occupied())
TestNotOnLast = short_machine_of(NotOnLast(), without=[Invariant.NODES])


def plans_of(cluster, budget=400, **settings):
    """Return the plans of placing and of balancing a cluster, with these settings, which name extensions."""
    extensions = among(OBJECTS, PlbConfig(metrics=[Metric("cpu")], **settings))
    engines = [cluster.engine(extensions=extensions, **settings) for _ in range(2)]
    return [getattr(engine, verb)(budget=budget) for engine, verb in zip(engines, ("place", "balance"), strict=True)]


@settings(max_examples=15, deadline=None)
@given(cluster=busy_clusters(), spread_moves=st.booleans())
def test_step_checks_hold_for_sums_and_values(cluster, spread_moves):
    terms = {
        "extension_terms": {"occupied": 3.0, "occupied_with_sums": 1.0},
        "extension_constraints": ["not_on_last"],
        "spread_moves": spread_moves,
    }
    assert plans_of(cluster, 150, **terms) == plans_of(cluster, 150, **terms, checks="step")


def test_step_checks_name_a_wrong_sum():
    engine = four_nodes(("n0",) * 5, extension_terms={"miscounted": 0.001}, checks="step", w_imbalance=1000.0)
    with pytest.raises(CheckFailedError, match=r"sum 0 of energy term miscounted is 5, from scratch it is 4"):
        engine.balance()


def test_result_does_not_depend_on_threads():
    engines = [
        four_nodes(("n0", "n1", "n2", "n3", "n3"), extension_terms={"occupied": 100.0}, threads=n) for n in (1, 2)
    ]
    plans = [engine.balance(budget=200_000) for engine in engines]
    assert plans[0] == plans[1]
    assert plans[0].energy_after.terms["occupied"] == 1.0


def test_plan_reports_compiled_terms_and_constraints():
    proposals = (
        four_nodes(extension_terms={"occupied": 100.0}, extension_constraints=["not_on_last"]).balance().proposals
    )
    assert proposals.refused_by_rule["not_on_last"] > 0
    assert proposals.rejected_by_term["occupied"] > 0


def test_function_that_is_no_kernel_is_refused():
    with pytest.raises(InvalidValueError, match=r"plain_function: keep = .*plb.compiler.kernel"):
        four_nodes(extension_terms={"plain_function": 1.0}).balance()


def test_kernels_with_other_parameters_are_refused(monkeypatch):
    """The parts of a proposal are no parameters, and a kernel takes data and sums also where there are none."""

    @kernel
    def change(_problem, _solution, _sums, _row, _target, _partner):
        return 0.0

    @kernel
    def test(_problem, _solution, _proposal):
        return False

    parameters = "problem, solution, data, sums, proposal"
    monkeypatch.setattr(Occupied, "change", change)
    with pytest.raises(ExtensionError, match=rf"occupied: change .* has to take {parameters}"):
        four_nodes(extension_terms={"occupied": 1.0}).balance()
    monkeypatch.setattr(NotOnLast, "test", test)
    with pytest.raises(ExtensionError, match=rf"not_on_last: test .* has to take {parameters}"):
        four_nodes(extension_terms={"occupied_in_python": 1.0}, extension_constraints=["not_on_last"]).balance()


@pytest.mark.parametrize("sums", [None, [0.5] * 4, np.full(4, np.nan), [2**64], ["1"], [[1], [2, 3]]])
def test_sums_that_are_no_whole_numbers_are_refused(sums, monkeypatch):
    monkeypatch.setattr(Occupied, "new_sums", lambda *_: sums)
    with pytest.raises(InvalidValueError, match=r"energy term occupied: new_sums = .* whole numbers of 64 bits"):
        four_nodes(extension_terms={"occupied": 1.0}).balance()


def test_sums_may_have_any_shape_and_type_of_whole_numbers(monkeypatch):
    """Kernels get one array as flat `values`."""
    right = Occupied.new_sums
    plan = four_nodes(extension_terms={"occupied": 100.0}).balance()
    for shape in (np.ndarray.tolist, lambda sums: sums.astype(float), lambda sums: sums.astype(np.int8).reshape(2, 2)):
        monkeypatch.setattr(Occupied, "new_sums", lambda *given, shape=shape: shape(right(*given)))
        assert four_nodes(extension_terms={"occupied": 100.0}).balance() == plan


def test_missing_kernels_are_refused():
    """A term needs a change, a constraint a test and a list of breaches, and a kernel for sums needs sums."""

    class Changeless(CompiledTerm):
        name = "changeless"
        total = Occupied.total

    class Testless(CompiledConstraint):
        name = "testless"
        broken = NotOnLast.broken

    class Breachless(CompiledConstraint):
        name = "breachless"
        test = NotOnLast.test

    class Sumless(Changeless):
        name = "sumless"
        change = Occupied.change
        keep = Occupied.keep

    with pytest.raises(InvalidValueError, match=r"extension_terms: term changeless = .* also has change"):
        four_nodes(extensions={"extension_terms": [Changeless()]})
    with pytest.raises(InvalidValueError, match=r"extension_constraints: constraint = .* or `test`"):
        four_nodes(extensions={"extension_constraints": [Testless()]})
    with pytest.raises(InvalidValueError, match=r"extension_constraints: constraint = .* and `broken\(conf"):
        four_nodes(extensions={"extension_constraints": [Breachless()]})
    with pytest.raises(InvalidValueError, match=r"energy term sumless: new_sums = None .* for `keep`"):
        four_nodes(extensions={"extension_terms": [Sumless()]}).balance()
