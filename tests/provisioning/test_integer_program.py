"""The integer program of [3] finds the fewest nodes, and reports the bound that it proved."""

from __future__ import annotations

import attrs
import numpy as np
import pytest
from hypothesis import given

from plb import ConflictError, InvalidValueError
from plb.provisioning import (
    Affinity,
    Instance,
    NodeType,
    NoPlanError,
    ProvisioningPlan,
    integer_program,
    lower_bound,
    provision,
)
from plb.provisioning.algorithms import first_fit_plan, parse_algorithm
from plb.provisioning.integer_program import model_of, nonzeros
from plb.provisioning.solver_context import ReportProgress, SolverContext
from tests.provisioning import naive
from tests.provisioning.strategies import instances, make_instance

SMALL = {"applications": 4, "replicas": 3, "kinds": 3, "counted": True}


def fewest_nodes(instance: Instance) -> int | None:
    """Return the fewest nodes of all placements, by enumeration; None if there is no placement."""
    required = [
        application for application, count in enumerate(instance.replicas.tolist()) for _ in range(count)
    ]  # an order with the replicas of an application next to each other
    best: list[int] = []

    def place(number: int, opened: list[tuple[int, tuple[int, ...]]], last: int) -> None:
        if best and len(opened) >= best[0]:
            return
        if number == len(required):
            best[:] = [len(opened)]
            return
        application = required[number]
        # replicas of an application are equal: each goes to the node of the previous one, or to a later one
        first = last if number and required[number - 1] == application else 0
        for at in range(first, len(opened)):
            kind, inside = opened[at]
            if may_share(instance, kind, (*inside, application)):
                place(number + 1, [*opened[:at], (kind, (*inside, application)), *opened[at + 1 :]], at)
        for kind, node_type in enumerate(instance.nodes):
            used = sum(number_of_kind == kind for number_of_kind, _ in opened)
            if (node_type.count is None or used < node_type.count) and may_share(instance, kind, (application,)):
                place(number + 1, [*opened, (kind, (application,))], len(opened))

    place(0, [], 0)
    return best[0] if best else None


def may_share(instance: Instance, kind: int, inside: tuple[int, ...]) -> bool:
    demand = [
        sum(column)
        for column in zip(*(instance.dimensions()[application].tolist() for application in inside), strict=True)
    ]
    limits = instance.affinity
    arcs = zip(limits.source.tolist(), limits.target.tolist(), limits.most.tolist(), strict=True)
    return all(
        asked <= most for asked, most in zip(demand, instance.capacity(instance.nodes[kind]).tolist(), strict=True)
    ) and all(inside.count(target) <= most for source, target, most in arcs if source in inside)


@pytest.fixture
def from_first_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start HiGHS with First Fit's plan, so that it has to find what `auto` would find."""
    monkeypatch.setattr(integer_program, "best_in_time", lambda context, _report, **_seed: first_fit_plan(context))


def hard() -> Instance:
    """Return an instance that HiGHS does not solve in a second."""
    draws = np.random.default_rng(3)
    number = 40
    pairs = {(int(source), int(target)) for source, target in draws.integers(number, size=(160, 2)) if source != target}
    return Instance(
        name="hard",
        resources=("cpu", "memory"),
        applications=tuple(f"a{source}" for source in range(number)),
        replicas=draws.integers(1, 9, number),
        demand=draws.integers(20, 45, (number, 2, 1)),
        affinity=Affinity.from_columns(*np.array([(source, target, 1) for source, target in sorted(pairs)]).T, number),
        nodes=(NodeType("node", np.array([100, 100])),),
        units=(1.0, 1.0),
    )


@given(instance=instances(**SMALL))
def test_no_placement_has_fewer_nodes(instance: Instance) -> None:
    """The placements have limited kinds of nodes, demand of 0 and limits in both directions."""
    fewest = fewest_nodes(instance)
    if fewest is None:
        with pytest.raises(NoPlanError, match="ILP finds no place"):
            provision(instance, "ILP")
        return
    plan = provision(instance, "ILP")
    assert lower_bound(instance) <= plan.nodes == plan.lower_bound == fewest
    assert plan.faults() == ()
    assert naive.allowed(plan)


@given(instance=instances(applications=5, replicas=3))
def test_highs_finds_the_fewest_nodes_alone(instance: Instance) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(integer_program, "best_in_time", lambda context, _report, **_seed: first_fit_plan(context))
        plan = provision(instance, "ILP")
    assert plan.nodes == plan.lower_bound == fewest_nodes(instance)
    assert naive.allowed(plan)
    assert plan.algorithm == "ILP" or plan.nodes == provision(instance, "FF").nodes


def test_program_finds_a_plan_if_first_fit_finds_none() -> None:
    """First Fit puts the small replica on the large node, which then has too little capacity for the large one."""
    nodes = (NodeType("large", np.array([10]), 1), NodeType("small", np.array([4]), 1))
    instance = attrs.evolve(make_instance([3, 8], [1, 1], []), nodes=nodes)
    with pytest.raises(NoPlanError):
        provision(instance)
    plan = provision(instance, "ILP")
    assert plan.algorithm == "ILP"
    assert naive.placement_of(plan) == [{1: 1}, {0: 1}]
    assert plan.kind.tolist() == [0, 1]


def test_plan_within_the_tolerance_of_highs_is_rejected() -> None:
    """Three of the five replicas exceed a node by one part in 2^30, which is within the tolerance of HiGHS."""
    third = -(-(2**30) // 3)
    plan = provision(make_instance([third] * 5, [1] * 5, [], capacity=2**30), "ILP")
    assert (plan.nodes, plan.lower_bound) == (3, 2)
    assert plan.valid


def test_bound_is_proved_where_highs_fails_after_its_presolve() -> None:
    plan = provision(make_instance([9, 1, 5, 7], [3, 1, 1, 1], [(1, 3, 0)], capacity=20), "ILP")
    assert plan.nodes == plan.lower_bound == 3


@pytest.mark.usefixtures("from_first_fit")
def test_time_limit_holds() -> None:
    """HiGHS ends without a proof: the plan is the best one found, and the bound is proved by then."""
    instance = hard()
    plan = provision(instance, "ILP", time_limit=1.0)
    assert plan.valid
    assert lower_bound(instance) <= plan.lower_bound < plan.nodes <= provision(instance, "FF").nodes


def test_without_time_there_is_no_search() -> None:
    plan = provision(hard(), "ILP", time_limit=0.0)
    assert (plan.algorithm, plan.lower_bound) == ("FF", lower_bound(hard()))


@pytest.mark.parametrize(("gap", "tried"), [("0", 3), ("24", 3), ("25", 2), ("49.9", 2), ("50", 1), ("74", 1)])
def test_search_ends_within_the_gap(gap: str, tried: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four nodes are used, and two are needed: a plan within the gap of the bound is accepted."""
    instance = make_instance([4, 4, 6, 6], [1, 1, 1, 1], [])
    reports: list[str] = []
    monkeypatch.setattr(integer_program, "best_in_time", lambda _context, _report, **_seed: separate_nodes(instance))
    plan = provision(instance, f"ILP-Gap{gap}", report=reports.append)
    assert plan.nodes - plan.lower_bound <= float(gap) / 100.0 * plan.nodes
    if tried >= plan.lower_bound:
        assert reports[0].startswith(f"ILP: fewer than {tried + 1} nodes")
    else:
        assert plan.nodes == 4


def separate_nodes(instance: Instance) -> ProvisioningPlan:
    each = np.arange(4, dtype=np.int32)
    kind, count = np.zeros(4, np.int32), np.ones(4, np.int32)
    return ProvisioningPlan(instance, kind, each, each, count, "apart", seconds=0.0, lower_bound=2)


def test_name_may_have_a_gap() -> None:
    assert parse_algorithm("ILP-Gap0.2").gap_percent == 0.2
    assert parse_algorithm("ILP").gap_percent == 0.0
    with pytest.raises(InvalidValueError, match=r"ILP: gap_percent = 100\.0"):
        integer_program.solve_exactly(SolverContext(hard()), print, gap_percent=100.0)


@pytest.mark.usefixtures("from_first_fit")
def test_program_that_is_too_large_is_refused_before_it_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    instance = hard()
    counted: list[int] = []
    whole = integer_program.constraints

    def count(*arguments: object) -> list[object]:
        rows = whole(*arguments)  # type: ignore[arg-type]
        counted.append(sum(row.A.nnz for row in rows))
        return rows

    monkeypatch.setattr(integer_program, "constraints", count)
    reports: list[str] = []
    provision(instance, "ILP", time_limit=0.5, report=reports.append)
    nodes = int(next(line for line in reports if line.startswith("ILP: fewer than")).split()[3]) - 1
    # two more for the order of y, which does not concern the last node
    assert nonzeros(model_of(instance), nodes) == counted[0] + 2
    monkeypatch.setattr(integer_program, "MOST_NONZEROS", 100)
    monkeypatch.setattr(integer_program, "best_in_time", _fail_if_called)
    with pytest.raises(ConflictError, match="expected at most 100; 'auto' takes instances of any size"):
        provision(instance, "ILP")


def _fail_if_called(_context: SolverContext, _report: ReportProgress, **_seed: int) -> None:
    pytest.fail("a plan is searched")
