"""Searches for numbers of nodes, time limits, and emptied nodes."""

from __future__ import annotations

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb.compiler import Stream
from plb.provisioning import Affinity, Instance, NodeType, NoPlanError, lower_bound, provision
from plb.provisioning.algorithms import first_fit_plan
from plb.provisioning.instance import ANY_NUMBER
from plb.provisioning.large_neighbourhood_search import Annealing, empty_a_node, search_state_of
from plb.provisioning.replicas_by_node import no_original_nodes
from plb.provisioning.solver_context import SolverContext
from tests.provisioning import naive
from tests.provisioning.strategies import instances, make_instance

pytestmark = pytest.mark.kernels


def conflicting() -> Instance:
    """Return an instance for which spreading needs fewer nodes than First Fit."""
    draws = np.random.default_rng(6)
    number = 60
    pairs = {(int(origin), int(end)) for origin, end in draws.integers(number, size=(240, 2)) if origin != end}
    arcs = [(origin, end, int(draws.integers(2))) for origin, end in sorted(pairs)]
    source, target, most = np.array(arcs).T
    return Instance(
        name="conflicting",
        resources=("cpu",),
        applications=tuple(f"a{origin}" for origin in range(number)),
        replicas=draws.integers(1, 9, number, np.int32),
        demand=draws.integers(1, 9, (number, 1, 1), np.int32),
        affinity=Affinity.from_columns(source, target, most, number),
        nodes=(NodeType("node", np.array([16])),),
        units=(1.0,),
    )


def reports_of(instance: Instance, name: str) -> list[str]:
    reports: list[str] = []
    provision(instance, name, report=reports.append)
    return reports


def test_binary_search_tries_the_middle() -> None:
    """The search goes from First Fit's number, which is enough, down to the lower bound."""
    instance = conflicting()
    first, bound = provision(instance, "FF").nodes, lower_bound(instance)
    low, high, expected = bound, first, [first]
    reports = reports_of(instance, "SpreadWFD-Avg-BinSearch")
    for line in reports[1:]:
        middle = (low + high) // 2
        expected.append(middle)
        if "suffice" in line:
            high = middle
        else:
            low = middle + 1
    assert [int(line.split()[1]) for line in reports] == expected
    assert low >= high
    assert provision(instance, "SpreadWFD-Avg-BinSearch").nodes == high < first


def test_decrements_are_steps_of_the_lower_bound() -> None:
    instance = conflicting()
    first, bound = provision(instance, "FF").nodes, lower_bound(instance)
    reports = reports_of(instance, "SpreadWFD-Avg-Decr3")
    step = -(-bound * 3 // 100)
    assert [int(line.split()[1]) for line in reports] == [first - step * place for place in range(len(reports))]
    assert all("suffice" in line for line in reports[:-1])
    assert "leave" in reports[-1] or first - step * len(reports) < bound


def test_plan_is_first_fit_if_spreading_fails() -> None:
    """Two a on two nodes leave none to b; First Fit puts both a on one."""
    instance = make_instance([3, 3], [2, 1], [(0, 1, 0)])
    plan = provision(instance, "SpreadWFD-Avg-BinSearch")
    assert (plan.algorithm, plan.nodes) == ("FF", 2)


@pytest.mark.parametrize("name", ["SpreadWFD-Avg-BinSearch", "WFD-Avg", "NCD-DotProduct", "Match-DotProduct-Decr2"])
def test_plan_without_time_is_first_fit(name: str) -> None:
    plan = provision(conflicting(), name, time_limit=0.0)
    assert plan.algorithm == "FF"
    assert plan.valid


def test_auto_gives_its_best_plan_at_the_time_limit() -> None:
    instance = conflicting()
    first = provision(instance, "FF").nodes
    for limit in (0.0, 0.3, None):
        plan = provision(instance, time_limit=limit)
        assert plan.valid
        assert plan.nodes <= first


@given(instance=instances(applications=8, counted=True, kinds=2), seed=st.integers(0, 5))
def test_emptied_plans_are_valid_and_depend_only_on_the_seed(instance: Instance, seed: int) -> None:
    try:
        first = provision(instance, "FF")
    except NoPlanError:
        return
    plan, again = (provision(instance, seed=seed) for _ in range(2))
    assert plan.faults() == ()
    assert naive.allowed(plan)
    assert (plan.nodes, plan.node.tolist()) == (again.nodes, again.node.tolist())
    assert lower_bound(instance) <= plan.nodes <= first.nodes


@given(instance=instances(applications=8, kinds=2), seed=st.integers(0, 100), rounds=st.integers(1, 40))
def test_state_of_emptying_stays_consistent(instance: Instance, seed: int, rounds: int) -> None:
    """Free capacity, places and nodes stay right after accepted and rejected neighbourhoods."""
    context = SolverContext(instance)
    plan = first_fit_plan(context)
    packing, by_node = context.by_node(plan)
    applications = len(instance.applications)
    used, original = np.arange(plan.nodes), no_original_nodes(applications)
    search = search_state_of(packing, by_node, used, np.ones(applications), original, context.capacity)
    neighbourhood, stream, annealing = search.neighbourhood, Stream(seed), Annealing(1e-3, 0.0)
    emptied = sum(empty_a_node(search, stream, annealing, rounds) for _ in range(3))
    after = context.plan(packing, "emptied")
    assert after.faults() == ()
    assert plan.nodes - emptied == neighbourhood.nodes[0]
    counted = neighbourhood.used[: neighbourhood.nodes[0]]
    assert after.nodes == np.count_nonzero(by_node.head[counted] >= 0)  # a round may empty a second node unnoticed
    on_node = dict(naive.placement_in(packing))
    for node in range(plan.nodes):
        place, listed = int(by_node.head[node]), {}
        while place >= 0:
            listed[int(by_node.owner[place])] = int(packing.placed[place])
            place = int(by_node.next[place])
        assert listed == on_node.get(node, {})
        kind = instance.nodes[int(np.searchsorted(packing.end, node, side="right"))]
        asked = sum(count * context.demand[application] for application, count in listed.items())
        assert (packing.free[node] == instance.capacity(kind) - asked).all()
    assert not neighbourhood.missing.any()
    assert (packing.allowed == ANY_NUMBER).all()


def test_emptying_reaches_the_lower_bound_if_spreading_does() -> None:
    instance = conflicting()
    assert provision(instance).nodes == lower_bound(instance) == provision(instance, "FF").nodes - 3


@pytest.mark.parametrize("algorithm", ["FF", "auto", "WFD-Avg", "SpreadWFD-Avg-BinSearch"])
def test_packings_grow_beyond_their_first_number_of_nodes(algorithm: str) -> None:
    """Limits need far more nodes than demand, so packings run out of nodes and start again with more."""
    instance = make_instance([1], [700], [(0, 0, 1)], capacity=100)
    plan = provision(instance, algorithm)
    assert (plan.nodes, plan.faults()) == (700, ())


@pytest.mark.parametrize(
    "algorithm", ["FF", "auto", "WFD-Avg", "SpreadWFD-Avg-BinSearch", "NCD-DotProduct", "Medea-NodeCandidates"]
)
def test_too_few_nodes_are_reported(algorithm: str) -> None:
    made = make_instance([6], [3], [])
    with pytest.raises(NoPlanError, match="cannot place all replicas on 2 nodes"):
        provision(attrs.evolve(made, nodes=(NodeType("node", np.array([10]), 2),)), algorithm)
