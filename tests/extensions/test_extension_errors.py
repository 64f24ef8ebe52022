"""Errors of extensions name them, and leave their engine as it was."""

from __future__ import annotations

import math
import os
import pickle
import signal
from threading import Timer

import attrs
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from plb import (
    ConflictError,
    ExtensionError,
    Metric,
    Node,
    Partition,
    PlacementAndLoadBalancing,
    PlbConfig,
    PlbError,
    Replica,
    Role,
    Service,
)
from plb.compiler import kernel
from plb.errors import KernelError
from plb.testing import all_clusters, busy_clusters
from tests.engine.fingerprint import snapshot as fingerprint
from tests.engine.strategies import examples

from .failing import (
    FUSE,
    FailsForARow,
    FuseError,
    InTurn,
    InTurnWithMemory,
    OffFirstNode,
    Restless,
    Spent,
    SpentOnKeeping,
    Spread,
)

pytestmark = pytest.mark.kernels

CALLS = {
    "place": lambda engine: engine.place(budget=60),
    "repair": lambda engine: engine.repair(budget=60),
    "balance": lambda engine: engine.balance(budget=60),
    "refresh": lambda engine: engine.refresh(engine._planner.now, budget=60),
}
KINDS = {
    Spread: "energy term",
    OffFirstNode: "constraint",
    InTurn: "policy",
    InTurnWithMemory: "policy",
    Restless: "neighbourhood",
}
OF_ENGINES = {
    "term": {"extension_terms": [Spread()]},
    "constraint": {"extension_constraints": [OffFirstNode()]},
    "both": {"extension_terms": [Spread()], "extension_constraints": [OffFirstNode()]},
    "policy": {"extension_policy": InTurn()},
    "policy with a memory": {"extension_policy": InTurnWithMemory()},
    "policy and constraint": {"extension_policy": InTurn(), "extension_constraints": [OffFirstNode()]},
}
IN_PYTHON = [Spread(), OffFirstNode(), InTurn(), InTurnWithMemory(), Restless()]


def kind_of(name):
    return next(KINDS[type(one)] for one in IN_PYTHON if one.name == name)


def pair_of(cluster, extensions, **settings):
    """Return two equal engines, whose arrays are up to date."""
    engines = [cluster.engine(extensions=extensions, **settings) for _ in range(2)]
    for engine in engines:
        engine.violations()
    return engines


def attempt(call, *arguments):
    """Return the result of a call and its error; one of them is None."""
    try:
        return call(*arguments), None
    except (PlbError, KeyboardInterrupt) as error:
        return None, error


def check_same_afterwards(engine, twin):
    """Compare the plans that follow: of all phases, and of balancing after them."""
    for verb in ("refresh", "balance"):
        plans = [CALLS[verb](one) for one in (engine, twin)]
        assert plans[0] == plans[1]
        for one in (engine, twin):
            one.apply(plans[0])


@examples(120)
@given(
    cluster=all_clusters(),
    extensions=st.sampled_from(sorted(OF_ENGINES)),
    earlier=st.sampled_from([None, *CALLS]),
    verb=st.sampled_from(sorted(CALLS)),
    k=st.integers(0, 60) | st.integers(0, 2000),
    error=st.sampled_from([FuseError, FuseError, KeyboardInterrupt, ConflictError]),
    apart=st.booleans(),
)
def test_engine_is_as_before_after_an_error_at_any_call(cluster, extensions, earlier, verb, k, error, apart):
    """The error has the name, kind and method; all later plans are those of an engine without it."""
    engine, twin = pair_of(cluster, OF_ENGINES[extensions], one_action_per_refresh=apart)
    if earlier is not None:
        for one in (engine, twin):
            CALLS[earlier](one)
    before = fingerprint(engine)
    FUSE.set(k, error)
    plan, raised = attempt(CALLS[verb], engine)
    FUSE.left = None
    if FUSE.failed is None:
        assert raised is None
        assert plan == CALLS[verb](twin)
    else:
        assert fingerprint(engine) == before
        check_error(raised, error)
    check_same_afterwards(engine, twin)


@examples(60)
@given(
    cluster=busy_clusters(),
    others=st.sampled_from([{}, OF_ENGINES["both"]]),
    k=st.integers(0, 12),
    error=st.sampled_from([FuseError, FuseError, KeyboardInterrupt, ConflictError]),
)
def test_engine_is_as_before_after_an_error_of_a_neighbourhood(cluster, others, k, error):
    """At any of its calls, with a move that it has not taken back, and beside other extensions."""
    extensions = {**others, "extension_neighbourhoods": [Restless()]}
    engine, twin = pair_of(cluster, extensions, larger_neighbourhood_share=1.0, larger_neighbourhoods=["restless"])
    before = fingerprint(engine)
    FUSE.set(k, error)
    plan, raised = attempt(lambda: engine.balance(budget=1000))
    FUSE.left = None
    if raised is None:
        assert plan == twin.balance(budget=1000)
    else:
        assert fingerprint(engine) == before
        check_error(raised, error)
    check_same_afterwards(engine, twin)


def check_error(raised, kind):
    """Compare an error with the method that failed; interrupts and errors of the family are as they were raised."""
    if kind is not FuseError:
        assert type(raised) is kind
        return
    assert (raised.name, raised.method) == FUSE.failed
    assert raised.kind == kind_of(raised.name)
    assert type(raised.__cause__) is FuseError
    assert str(raised).startswith(f"{raised.kind} {raised.name}: {raised.method} has failed: FuseError: ")


@examples(60)
@given(
    cluster=busy_clusters(),
    kind=st.sampled_from([Spent, SpentOnKeeping]),
    verb=st.sampled_from(["place", "repair", "balance"]),
    k=st.integers(1, 40),
    threads=st.sampled_from([1, 2]),
)
def test_engine_is_as_before_after_an_error_of_a_kernel(cluster, kind, verb, k, threads):
    engine, twin = pair_of(cluster, {"extension_terms": [kind()]}, threads=threads)
    before = fingerprint(engine)
    kind.calls = k
    _, raised = attempt(CALLS[verb], engine)
    kind.calls = 0
    if raised is not None:
        assert raised.args == ("energy term", kind.name, kind.failing, "ValueError: the sums are spent")
        assert type(raised.__cause__) is ValueError
        assert fingerprint(engine) == before
        check_same_afterwards(engine, twin)


@examples(40)
@given(cluster=busy_clusters(), verb=st.sampled_from(["place", "repair", "balance"]))
def test_engine_is_as_before_after_an_error_of_the_kernel_of_a_constraint(cluster, verb):
    """It raises for a replica with a large load; once this has less, plans are those of an engine without the error."""
    partition = cluster.partitions[0]
    assume(partition.replicas)
    cluster = attrs.evolve(cluster, metrics=tuple(attrs.evolve(one, quantum=0.25) for one in cluster.metrics))
    engine, twin = pair_of(cluster, {"extension_constraints": [FailsForARow()]})
    metric, place = cluster.metrics[0].name, (partition.name, partition.replicas[0].node)
    for one in (engine, twin):
        one.report_load(*place, {metric: 500_000})
    _, raised = attempt(CALLS[verb], engine)
    for one in (engine, twin):
        one.report_load(*place, {metric: 1})
    if raised is not None:
        assert raised.args == ("constraint", "fails_for_a_row", "test", "ValueError: too large")
        assert type(raised.__cause__) is ValueError
        check_same_afterwards(engine, twin)


@given(
    cluster=all_clusters(),
    extensions=st.sampled_from(["term", "constraint", "both"]),
    k=st.integers(0, 30),
    query=st.sampled_from(["score", "alternatives", "violations"]),
)
@examples(60)
def test_error_in_a_query_changes_nothing(cluster, extensions, k, query):
    """A score tries the nodes one after the other; a constraint has not taken back what it tried."""
    engine, twin = pair_of(cluster, OF_ENGINES[extensions])
    before = fingerprint(engine)
    name = cluster.partitions[0].name
    FUSE.set(k)
    _, raised = attempt(getattr(engine, query), *([] if query == "violations" else [name]))
    FUSE.left = None
    if FUSE.failed is not None:
        check_error(raised, FuseError)
    assert fingerprint(engine) == before
    check_same_afterwards(engine, twin)


def test_error_has_all_its_parts_in_another_process():
    error = ExtensionError("policy", "mine", "choose", "ValueError: none")
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error) == "policy mine: choose has failed: ValueError: none"
    assert (again.kind, again.name, again.method, again.reason) == error.args


def test_interrupt_between_kernels_and_an_extension_in_python_is_not_lost():
    """Ctrl-C while a kernel runs takes effect where Python goes on, which is mostly at the call of an extension."""
    metrics = [Metric("cpu")]
    config = PlbConfig(metrics=metrics, w_imbalance=1000.0, max_percentage_to_move=1.0, chains=1, cooling="by_budget")
    engines = [PlacementAndLoadBalancing(config, extension_terms=[Spread()]) for _ in range(2)]
    for engine in engines:
        engine.update_service(Service("web", stateful=False))
        for index in range(3):
            engine.update_node(Node(f"n{index}", capacities={"cpu": 100}))
        for index in range(9):
            engine.update_partition(Partition(f"p{index}", service="web", replicas=[Replica(Role.INSTANCE, "n0")]))
            engine.report_load(f"p{index}", "n0", {"cpu": 1 + index})
    engine, twin = engines
    for one in engines:
        one.balance(budget=100)
    for number in range(10):
        timer = Timer(0.02 + 0.001 * number, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            engine.balance(budget=10_000_000)
    check_same_afterwards(engine, twin)


# answers without a meaning


@kernel
def _returns_nan(_problem, _solution, _data, _sums, _proposal):
    return np.nan


@kernel
def _returns_infinity(_problem, _solution, _data, _sums, _proposal):
    return -np.inf


@pytest.mark.parametrize("change", [_returns_nan, _returns_infinity])
def test_change_of_a_kernel_that_is_not_finite_ends_the_search(monkeypatch, small, change):
    """The energy would have no meaning from then on, and the search would find nothing, or anything."""
    monkeypatch.setattr(Spent, "change", change)
    engine = small(extension_terms=[Spent()])
    before = fingerprint(engine)
    with pytest.raises(ExtensionError, match="energy term spent: change has failed: it returned a number that is not"):
        engine.place()
    assert fingerprint(engine) == before


@pytest.mark.parametrize("change", [math.nan, math.inf, -math.inf])
def test_change_in_python_that_is_not_finite_ends_the_search(monkeypatch, small, change):
    monkeypatch.setattr(Spread, "delta", lambda *_: change)
    with pytest.raises(
        ExtensionError, match=f"energy term spread: delta has failed: ValueError: {change} is no finite"
    ):
        small(extension_terms=[Spread()]).place()


@pytest.mark.parametrize("row", [-1, 10**6, 1.5])
def test_broken_rows_have_to_be_rows(monkeypatch, small, row):
    monkeypatch.setattr(OffFirstNode, "broken", lambda *_: [row])
    engine = small(extension_constraints=[OffFirstNode()])
    for call in (engine.violations, engine.repair):
        with pytest.raises(ExtensionError, match=f"constraint off_first_node: broken .* {row} is no row, .* from 0 to"):
            call()


# kernels that cannot be compiled


@kernel
def _returns_text(_problem, _solution, _data, _sums, _proposal):
    return "much"


@kernel
def _reads_nothing(problem, _solution, _data, _sums, proposal):
    return problem.nothing[proposal.row] > 0


@pytest.mark.skipif("NUMBA_DISABLE_JIT" in os.environ, reason="nothing is compiled")
def test_kernel_of_a_term_that_does_not_compile_is_named(monkeypatch, small):
    monkeypatch.setattr(Spent, "change", _returns_text)
    engine = small(extension_terms=[Spent()])
    before = fingerprint(engine)
    with pytest.raises(ExtensionError, match="energy term spent: change has failed: kernel ") as raised:
        engine.place()
    assert isinstance(raised.value.__cause__, KernelError)
    assert "_returns_text" in str(raised.value)
    assert raised.value.__cause__.__cause__ is not None
    assert fingerprint(engine) == before


@pytest.mark.skipif("NUMBA_DISABLE_JIT" in os.environ, reason="nothing is compiled")
@pytest.mark.parametrize("policy", [None, InTurn()])
def test_kernel_of_a_constraint_that_does_not_compile_is_named(monkeypatch, small, policy):
    """Also where a policy decides, and calls of `refuses` compile the kernel."""
    monkeypatch.setattr(FailsForARow, "test", _reads_nothing)
    engine = small(extension_constraints=[FailsForARow()], extension_policy=policy)
    before = fingerprint(engine)
    for call in (engine.place, lambda: engine.score("web/0"), lambda: engine.alternatives("web/0")):
        with pytest.raises(ExtensionError, match=r"constraint fails_for_a_row: (test|refuses) has failed"):
            call()
    assert fingerprint(engine) == before


@pytest.fixture
def small():
    from .test_engine_extensions import CONFIG, engine_with

    def made(**extensions) -> PlacementAndLoadBalancing:
        engine = engine_with(CONFIG, **extensions)
        engine.update_node(Node("n4"))
        engine.node_loads()
        return engine

    return made


# several searches in one call


@pytest.mark.parametrize(
    ("verb", "apart"), [("refresh", False), ("refresh", True), ("balance", False), ("place", False)]
)
def test_earlier_searches_of_the_call_are_forgotten(verb, apart):
    """An error in any of the searches of two service domains leaves the whole engine as it was, call after call."""
    metrics = [Metric("cpu"), Metric("disk")]
    config = PlbConfig(metrics=metrics, one_action_per_refresh=apart, chains=1, max_percentage_to_move=1.0)
    engine = PlacementAndLoadBalancing(config, seed=1, **OF_ENGINES["both"])
    for index in range(3):
        engine.update_node(Node(f"n{index}"), now=-1e6)
    for metric in ("cpu", "disk"):
        engine.update_service(Service(metric, stateful=False, metrics={metric: 1.0}))
        for index, node in enumerate(["n1", "n1", "n1", None]):
            name, placed = f"{metric}/{index}", [] if node is None else [Replica(Role.INSTANCE, node)]
            engine.update_partition(Partition(name, service=metric, replicas=placed))
            engine.report_role_load(name, Role.INSTANCE, {metric: 2.0})
    engine.apply(engine.place())
    engine.balance()
    engine.update_partition(Partition("cpu/4", service="cpu"))
    engine.node_loads()
    before = fingerprint(engine)
    failed = set()
    for k in [*range(20), *range(20, 1000, 3)]:
        FUSE.set(k)
        _, raised = attempt(CALLS[verb], engine)
        FUSE.left = None
        if FUSE.failed is None:
            break
        failed.add(FUSE.failed)
        check_error(raised, FuseError)
        assert fingerprint(engine) == before
    assert FUSE.failed is None
    assert {("spread", "total"), ("off_first_node", "broken")} <= failed
