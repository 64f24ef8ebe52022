"""Data and sums of extensions with kernels: named arrays of their types, exact, and plans as those of Python."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb import (
    CheckFailedError,
    ExtensionError,
    InvalidValueError,
    Partition,
)
from plb.array_types import NOWHERE
from plb.compiler import by_pointer, kernel
from plb.extensions.constraints import CompiledConstraint
from plb.extensions.energy_terms import CompiledTerm
from plb.search import extensions as plan_extensions
from plb.testing import Invariant, all_clusters, configuration_of, counterexample
from tests.engine.stories import four_nodes
from tests.engine.strategies import examples
from tests.machines import short_machine_of

pytestmark = pytest.mark.kernels


class Prices(NamedTuple):
    """What kernels of the tests read."""

    of_node: np.ndarray
    """(N,) price of a replica, floats."""
    of_group: np.ndarray
    """(G,) price of a group that is used."""
    group: np.ndarray
    """(N,) group of a node."""
    discount: float
    most: int
    counts_all: bool


class Used(NamedTuple):
    """Sums of the tests."""

    by_group: np.ndarray
    """(G,) replicas."""
    by_service: np.ndarray
    """(S, G) replicas of each service in each group."""


def prices_of(configuration):
    """Return the data: groups of two nodes; all prices are binary fractions, so that sums of them are exact."""
    group = np.arange(configuration.nodes) // 2
    return Prices(0.25 * np.arange(1, configuration.nodes + 1), group + 1.5, group.astype(np.int8), 0.5, 2, False)


def used_of(configuration):
    group = np.arange(configuration.nodes) // 2
    services = int(configuration.problem.service.max(initial=0)) + 1
    used = Used(np.zeros(group.max(initial=0) + 1, np.int32), np.zeros((services, group.max(initial=0) + 1), np.uint16))
    for row in configuration.rows.tolist():
        node = configuration.node_of(row)
        if node != NOWHERE:
            used.by_group[group[node]] += 1
            used.by_service[configuration.problem.service[row], group[node]] += 1
    return used


@kernel
def _price_of_group(data, replicas, group):
    return data.of_group[group] if replicas > 0 else 0.0


@kernel
def _price_change(_problem, _solution, data, sums, proposal):
    """Return the change of the price of the nodes and of the groups that are used."""
    _row, target, partner, source = proposal
    if partner != NOWHERE:
        return 0.0
    change = data.discount * data.of_node[target]
    there = data.group[target]
    if source == NOWHERE:
        return change + (
            _price_of_group(data, sums.by_group[there] + 1, there) - _price_of_group(data, sums.by_group[there], there)
        )
    change -= data.discount * data.of_node[source]
    here = data.group[source]
    if here != there:
        change += _price_of_group(data, sums.by_group[there] + 1, there)
        change -= _price_of_group(data, sums.by_group[there], there)
        change += _price_of_group(data, sums.by_group[here] - 1, here)
        change -= _price_of_group(data, sums.by_group[here], here)
    return change


@kernel
def _keep_used(problem, _solution, data, sums, proposal):
    row, target, partner, source = proposal
    for one, here, there in ((row, source, target), (partner, target, source)):
        if one != NOWHERE:
            if here != NOWHERE:
                sums.by_group[data.group[here]] -= 1
                sums.by_service[problem.service[one], data.group[here]] -= 1
            if there != NOWHERE:
                sums.by_group[data.group[there]] += 1
                sums.by_service[problem.service[one], data.group[there]] += 1


class Bill(CompiledTerm):
    """The price of all replicas and groups, with typed data and sums."""

    name = "bill"
    change = _price_change
    keep = _keep_used

    def new_data(self, configuration):
        return prices_of(configuration)

    def new_sums(self, configuration):
        return used_of(configuration)

    def total(self, configuration):
        prices, used = prices_of(configuration), used_of(configuration)
        nodes = [configuration.node_of(row) for row in configuration.rows.tolist()]
        of_nodes = sum(prices.of_node[node] for node in nodes if node != NOWHERE)
        return float(0.5 * of_nodes + prices.of_group[: len(used.by_group)][used.by_group > 0].sum())


class BillInPython:
    """The same in Python."""

    name = "bill_in_python"
    total = Bill.total

    def delta(self, configuration, proposal):
        node = configuration.solution.node
        before, total = node.copy(), self.total(configuration)
        for one in configuration.relocations(proposal):
            node[one.row] = one.target
        after = self.total(configuration)
        node[:] = before
        return after - total


@kernel
def _too_many(problem, _solution, data, sums, proposal):
    """Refuse more than the largest number of replicas of a service in a group."""
    row, target, partner, source = proposal
    if target == NOWHERE:
        return False
    here = data.group[source] if source != NOWHERE else NOWHERE
    there = data.group[target]
    if here == there:
        return False
    service = problem.service[row]
    if partner == NOWHERE:
        return sums.by_service[service, there] >= data.most
    other = problem.service[partner]
    if service == other:
        return sums.by_service[service, there] > data.most or sums.by_service[service, here] > data.most
    return sums.by_service[service, there] >= data.most or sums.by_service[other, here] >= data.most


@kernel
def _count_used(problem, data, sums, row, node, sign):
    sums.by_group[data.group[node]] += sign
    sums.by_service[problem.service[row], data.group[node]] += sign


class FewOfAService(CompiledConstraint):
    """A group has at most two replicas of a service, with typed data and sums."""

    name = "few_of_a_service"
    test = _too_many
    count = _count_used
    new_data = Bill.new_data
    new_sums = Bill.new_sums

    def broken(self, configuration):
        found = {}
        for row in configuration.rows.tolist():
            node = configuration.node_of(row)
            if node != NOWHERE:
                found.setdefault((int(configuration.problem.service[row]), node // 2), []).append(row)
        return [row for rows in found.values() if len(rows) > 2 for row in rows]


class FewInPython:
    """The same in Python: counted anew for each proposal."""

    name = "few_of_a_service"
    broken = FewOfAService.broken

    def refuses(self, configuration, proposal):
        moves = configuration.relocations(proposal)
        if any(one.target == NOWHERE for one in moves):
            return False
        if len({NOWHERE if node == NOWHERE else node // 2 for one in moves for node in (one.source, one.target)}) < 2:
            return False
        node = configuration.solution.node.copy()
        for one in moves:
            node[one.row] = one.target
        service, rows = configuration.problem.service, configuration.rows
        return any(
            np.count_nonzero((service[rows] == service[one.row]) & (node[rows] // 2 == one.target // 2)) > 2
            for one in moves
        )


def with_extension(extension, **settings):
    """Return an engine of four nodes with a term or a constraint of its own."""
    field = "extension_terms" if isinstance(extension, CompiledTerm) else "extension_constraints"
    return four_nodes(("n0", "n0", "n1", None), extensions={field: [extension]}, **settings)


TestBill = short_machine_of(Bill(), without=[Invariant.NODES])
TestFewOfAService = short_machine_of(FewOfAService(), without=[Invariant.NODES])


def summary_of(plan):
    """Return moves, energy and counts of a plan; sums of a term are rounded."""
    moves = [(move.partition, move.index, move.source, move.target) for move in plan.moves]
    proposals = plan.proposals
    counts = proposals.generated, proposals.scored, proposals.accepted, dict(proposals.refused_by_rule)
    return moves, round(plan.energy_after.total, 6), counts


@examples(80)
@given(
    cluster=all_clusters(),
    calls=st.lists(st.sampled_from(["place", "repair", "balance"]), min_size=1, max_size=3),
    spread_moves=st.booleans(),
    journal=st.sampled_from([1, 3, 1024]),
    policy=st.sampled_from(["annealing", "annealing", "first_fit", "repacking"]),
    checks=st.sampled_from(["off", "step"]),
)
def test_kernels_of_constraints_make_the_plans_of_those_in_python(
    cluster, calls, spread_moves, journal, policy, checks
):
    """In every phase, with moves that cause others, however few moves the journal has, and with the same counts."""
    before, plan_extensions.JOURNAL = plan_extensions.JOURNAL, journal
    try:
        engines = [
            cluster.engine(
                extensions={"extension_constraints": [one]}, spread_moves=spread_moves, policy=policy, checks=checks
            )
            for one in (FewOfAService(), FewInPython())
        ]
        for call in calls:
            plans = [getattr(engine, call)(budget=120) for engine in engines]
            assert summary_of(plans[0]) == summary_of(plans[1])
            assert engines[0].violations() == engines[1].violations()
            for engine in engines:
                engine.apply(plans[0])
        for name in engines[0]._state.partitions:
            one, two = (engine.alternatives(name) for engine in engines)
            assert one == two
    finally:
        plan_extensions.JOURNAL = before


@examples(40)
@given(
    cluster=all_clusters(),
    spread_moves=st.booleans(),
    call=st.sampled_from(["place", "balance"]),
    checks=st.sampled_from(["off", "step"]),
)
def test_kernels_of_terms_make_the_plans_of_those_in_python(cluster, spread_moves, call, checks):
    """All numbers are exact here; step checks compare the sums after every proposal."""
    engines = [
        cluster.engine(extensions={"extension_terms": [term]}, spread_moves=spread_moves, checks=checks)
        for term in (Bill(), BillInPython())
    ]
    plans = [getattr(engine, call)(budget=100) for engine in engines]
    assert summary_of(plans[0]) == summary_of(plans[1])
    bills = [
        plan.energy_after.extension_terms[name] for plan, name in zip(plans, ("bill", "bill_in_python"), strict=True)
    ]
    assert bills[0] == bills[1]


def test_values_have_the_types_and_shapes_that_are_declared():
    """Whole numbers become 64 bits, others floats of 64 bits, single ones stay single."""
    engine = four_nodes()
    configuration = configuration_of(engine)
    data, sums = Bill().checked_data(configuration), Bill().checked_sums(configuration)
    assert [np.asarray(one).dtype for one in data] == [float, float, np.int64, float, np.int64, bool]
    assert (data.discount, data.most, data.counts_all) == (0.5, 2, False)
    assert [one.dtype for one in sums] == [np.int64] * 2
    services = len(configuration.problem.max_service_moves)
    assert (sums.by_group.shape, sums.by_service.shape) == ((2,), (services, 2))


class WrongData(NamedTuple):
    """Data of which some are no numbers."""

    names: object


@pytest.mark.parametrize(
    "data", [None, [1, 2], {"a": 1}, np.ones(2), WrongData(["a"]), WrongData(object()), WrongData([2**63])]
)
@pytest.mark.parametrize("kind", [Bill, FewOfAService])
def test_data_that_are_no_numbers_are_refused(monkeypatch, kind, data):
    monkeypatch.setattr(kind, "new_data", lambda *_: data)
    item = "energy term bill" if kind is Bill else "constraint few_of_a_service"
    engine = with_extension(kind())
    with pytest.raises(InvalidValueError, match=rf"{item}: new_data(.names)? = .* numbers or switches"):
        engine.place()


@pytest.mark.parametrize("sums", [Used(np.ones(2), [["a"]]), Used([0.5], [[1]]), None])
@pytest.mark.parametrize("kind", [Bill, FewOfAService])
def test_sums_that_are_not_exact_are_refused(monkeypatch, kind, sums):
    monkeypatch.setattr(kind, "new_sums", lambda *_: sums)
    engine = with_extension(kind())
    with pytest.raises(InvalidValueError, match=r"new_sums(.by_service|.by_group)? = .* whole numbers of 64 bits"):
        engine.place()


@kernel
def _forgets(problem, data, sums, row, node, sign):
    if sign > 0:
        sums.by_group[data.group[node]] += 1
        sums.by_service[problem.service[row], data.group[node]] += 1


class Forgetful(FewOfAService):
    """Its count never goes down."""

    name = "forgetful"
    count = _forgets


def test_wrong_counts_of_a_constraint_are_found():
    assert "sum by_group[0] is" in counterexample(Forgetful(), without=[Invariant.NODES, Invariant.AGREEMENT])
    engine = with_extension(Forgetful(), checks="step", w_imbalance=1000.0)
    with pytest.raises(CheckFailedError, match=r"sum by_group\[\d\] of constraint forgetful is \d, from scratch it is"):
        engine.balance()


@kernel
def _flat_test(_problem, _solution, _data, sums, proposal):
    if proposal.partner != NOWHERE:
        return sums.values[proposal.target] > 2 or sums.values[proposal.source] > 2
    return proposal.target != NOWHERE and sums.values[proposal.target] >= 2


@kernel
def _flat_count(_problem, _data, sums, _row, node, sign):
    sums.values[node] += sign


class FlatPairs(CompiledConstraint):
    """At most two replicas on a node; the sums are one array, and there are no data."""

    name = "flat_pairs"
    test = _flat_test
    count = _flat_count

    def new_sums(self, configuration):
        return [len(configuration.rows_on(node)) for node in range(configuration.nodes)]

    def broken(self, configuration):
        groups = [configuration.rows_on(node).tolist() for node in range(configuration.nodes)]
        return [row for group in groups if len(group) > 2 for row in group]


@by_pointer
class Limits(NamedTuple):
    """Data that the user has declared to go by pointer."""

    forbidden: np.ndarray
    """(N,) whether no replica may come."""


@kernel
def _is_forbidden(_problem, _solution, data, _sums, proposal):
    return proposal.target != NOWHERE and data.forbidden[proposal.target]


class Closed(CompiledConstraint):
    """No replica comes to the last node; there are data, and no sums."""

    name = "closed"
    test = _is_forbidden

    def new_data(self, configuration):
        return Limits(np.arange(configuration.nodes) == configuration.nodes - 1)

    def broken(self, configuration):
        return []


TestFlatPairs = short_machine_of(FlatPairs())


def test_extensions_have_data_sums_both_or_none():
    pairs = with_extension(FlatPairs())
    assert {move.target for move in pairs.place().moves} <= {"n1", "n2", "n3"}
    assert pairs.place().proposals.refused_by_rule.get("flat_pairs", 0) >= 0
    closed = with_extension(Closed(), w_imbalance=1000.0)
    for call in (closed.place, closed.balance):
        plan = call()
        assert all(move.target != "n3" for move in plan.moves)
        closed.apply(plan)
    assert [one.rules for one in closed.alternatives("web/0")[0].closed if one.node == "n3"] == [("closed",)]


def test_a_constraint_with_sums_counts_refusals_and_explains():
    """As a built-in rule: in proposals, violations, repairs, unplaced replicas and alternatives."""
    engine = with_extension(FewOfAService())
    broken = [str(one) for one in engine.violations()]
    assert broken == [
        f"instance of web/{index} on node n{max(0, index - 1)} breaks few of a service" for index in range(3)
    ]
    plan = engine.repair()
    assert [(move.reason.rule, move.target in ("n2", "n3")) for move in plan.moves] == [("few_of_a_service", True)]
    engine.apply(plan)
    assert engine.violations() == ()
    engine.apply(engine.place())
    engine.update_partition(Partition("web/4", service="web"))
    plan = engine.place()
    assert plan.unplaced[0].ruled_out == {"few_of_a_service": 4}
    assert plan.proposals.refused_by_rule["few_of_a_service"] > 0
    assert "few of a service" in plan.explain("web/4")


@kernel
def _raises(_problem, _data, _sums, _row, node, _sign):
    if node >= 0:
        raise ValueError("no count")


@kernel
def _takes_too_much(_problem, _solution, _data, sums, _row, node, sign):
    sums.by_group[node] += sign


@pytest.mark.parametrize(("count", "message"), [(_raises, "ValueError: no count"), (_takes_too_much, "has to take")])
def test_errors_of_a_count_name_the_constraint(monkeypatch, count, message):
    monkeypatch.setattr(FewOfAService, "count", count)
    engine = with_extension(FewOfAService(), w_imbalance=1000.0)
    with pytest.raises(ExtensionError, match=f"constraint few_of_a_service: count has failed: .*{message}"):
        engine.balance()


@pytest.mark.parametrize("missing", ["count", "new_sums"])
def test_count_and_sums_belong_together(monkeypatch, missing):
    monkeypatch.delattr(FewOfAService, missing)
    with pytest.raises(InvalidValueError, match="constraint few_of_a_service: count = "):
        with_extension(FewOfAService()).place()
