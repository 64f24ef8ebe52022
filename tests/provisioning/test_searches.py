"""Numbers of nodes that are looked for, time that runs out, and attempts at fewer nodes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plb.provisioning import Affinity, Instance, NodeType, Rules, lower_bound, provision
from plb.provisioning.improvement import improve
from plb.provisioning.names import parse_algorithm
from plb.provisioning.running import first_fit_plan, run
from plb.provisioning.workbench import Workbench
from tests.provisioning.strategies import instances, make_instance


def conflicting() -> Instance:
    """Return an instance on which spreading needs fewer nodes than First Fit."""
    draws = np.random.default_rng(6)
    number = 60
    pairs = {(int(one), int(other)) for one, other in draws.integers(number, size=(240, 2)) if one != other}
    arcs = [(one, other, int(draws.integers(2))) for one, other in sorted(pairs)]
    return Instance(
        name="conflicting",
        resources=("cpu",),
        applications=tuple(f"a{one}" for one in range(number)),
        replicas=draws.integers(1, 9, number),
        demand=draws.integers(1, 9, (number, 1, 1)),
        affinity=Affinity.from_columns(*np.array(arcs).T, number),
        nodes=(NodeType("node", np.array([16])),),
        units=(1.0,),
    )


def attempts(instance: Instance, name: str) -> list[str]:
    """Return what an algorithm tells of the numbers of nodes that it tries."""
    told: list[str] = []
    provision(instance, name, tell=told.append)
    return told


def test_halving_tries_the_middle_of_what_is_left() -> None:
    """From First Fit's number, which suffices, down to the lower bound."""
    instance = conflicting()
    first, bound = provision(instance, "FF").nodes, lower_bound(instance)
    low, high, expected = bound, first, [first]
    told = attempts(instance, "SpreadWFD-Avg-BinSearch")
    for line in told[1:]:
        middle = (low + high) // 2
        expected.append(middle)
        if "suffice" in line:
            high = middle
        else:
            low = middle + 1
    assert [int(line.split()[1]) for line in told] == expected
    assert low >= high
    assert provision(instance, "SpreadWFD-Avg-BinSearch").nodes == high < first


def test_decrements_are_steps_of_the_lower_bound() -> None:
    """Until a step fails."""
    instance = conflicting()
    first, bound = provision(instance, "FF").nodes, lower_bound(instance)
    told = attempts(instance, "SpreadWFD-Avg-Decr3")
    step = -(-bound * 3 // 100)
    assert [int(line.split()[1]) for line in told] == [first - step * place for place in range(len(told))]
    assert all("suffice" in line for line in told[:-1])
    assert "leave" in told[-1] or first - step * len(told) < bound


def test_where_spreading_fails_first_fit_stands() -> None:
    """Two a on two nodes leave none to b; First Fit has put both a on one."""
    instance = make_instance([3, 3], [2, 1], [(0, 1, 0)])
    plan = provision(instance, "SpreadWFD-Avg-BinSearch")
    assert (plan.algorithm, plan.nodes) == ("FF", 2)


@pytest.mark.parametrize("name", ["SpreadWFD-Avg-BinSearch", "WFD-Avg", "NCD-DotProduct", "Match-DotProduct-Decr2"])
def test_without_time_first_fit_stands(name: str) -> None:
    """It is never stopped."""
    plan = provision(conflicting(), name, time_limit=0.0)
    assert plan.algorithm == "FF"
    assert plan.valid


def test_auto_gives_its_best_when_time_runs_out() -> None:
    """Never worse than First Fit."""
    instance = conflicting()
    first = provision(instance, "FF").nodes
    for limit in (0.0, 0.3, None):
        plan = provision(instance, time_limit=limit)
        assert plan.valid
        assert plan.nodes <= first


@settings(deadline=None, max_examples=30)
@given(instance=instances(applications=8), seed=st.integers(0, 5))
def test_improvement_never_adds_nodes_and_depends_on_the_seed_alone(instance: Instance, seed: int) -> None:
    """And its plans are valid."""

    def improved() -> tuple[int, list[int]]:
        bench = Workbench(instance)
        plan = improve(bench, first_fit_plan(bench)[0], lambda _: None, attempts=25, seed=seed)
        assert plan.valid
        return plan.nodes, plan.node.tolist()

    assert improved() == improved()
    assert improved()[0] <= provision(instance, "FF").nodes


def test_improvement_places_first_what_found_no_place() -> None:
    """Spreading alone fails at First Fit's number of nodes; with b in front it needs one node less."""
    instance = make_instance([3, 3, 3, 1], [2, 2, 2, 1], [(0, 3, 0), (1, 3, 0), (2, 3, 0)], capacity=9)
    bench = Workbench(instance)
    spread = run(bench, parse_algorithm("SpreadWFD-Avg-BinSearch"), Rules.PAPER, lambda _: None)
    assert spread.algorithm == "FF"
    assert improve(bench, spread, lambda _: None, attempts=25).valid
