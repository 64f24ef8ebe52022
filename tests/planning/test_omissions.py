"""What a host leaves open is told by `violations` and `explain`, and ends when the host describes it."""

from __future__ import annotations

from typing import Any

import pytest

from plb import (
    ExtensionError,
    Metric,
    Node,
    OnDownNode,
    Partition,
    PlacementAndLoadBalancing,
    PlbConfig,
    Replica,
    Role,
    Service,
    UnknownNameError,
    Unreported,
    WithoutMark,
)
from tests.engine.stories import engine_on

BOTH = [Replica(Role.PRIMARY, "n0"), Replica(Role.SECONDARY, "n1")]


def engine_of(*nodes: Node) -> PlacementAndLoadBalancing:
    """Return an engine with these nodes and the partition db/0, its primary on n0 and its secondary on n1."""
    engine = engine_on(*nodes)
    engine.update_service(Service("db", target_replicas=2))
    engine.update_partition(Partition("db/0", service="db", replicas=BOTH))
    return engine


def test_a_replica_on_a_node_that_is_down_is_told() -> None:
    engine = engine_of(Node("n0", up=False), Node("n1"), Node("n2"))
    (violation,) = engine.violations()
    assert violation == OnDownNode("db/0", Role.PRIMARY, "n0")
    assert str(violation).startswith("primary of db/0 is on node n0, which is down: describe the partition without it")
    assert "1 on a node that is down, which keeps it until the partition is described without it" in engine.refresh(
        0.0
    ).explain("db/0")


@pytest.mark.parametrize("left", [[], [Replica(Role.SECONDARY, "n0", state="down")]])
def test_a_host_that_knows_that_a_node_is_down_is_told_nothing(left: list[Replica]) -> None:
    engine = engine_of(Node("n0", up=False), Node("n1"), Node("n2"))
    engine.update_partition(Partition("db/0", service="db", replicas=[Replica(Role.PRIMARY, "n1"), *left]))
    assert engine.violations() == ()


@pytest.mark.parametrize("intent", ["pause", "restart"])
def test_a_deactivation_that_needs_marks_is_told(intent: str) -> None:
    """The secondary may stay while its node restarts; a marked primary is moved by the next plan."""
    engine = engine_of(Node("n0", deactivation_intent=intent), Node("n1"), Node("n2"))
    (violation,) = engine.violations()
    assert violation == WithoutMark("db/0", "n0", intent)
    assert str(violation).endswith(f"deactivated ({intent}): no plan moves it without the mark swap_out")
    assert "from which only the marks of an upgrade move replicas" in engine.refresh(0.0).explain("db/0")
    marked = [Replica(Role.PRIMARY, "n0", upgrade="swap_out"), BOTH[1]]
    engine.update_partition(Partition("db/0", service="db", replicas=marked))
    assert engine.violations() == ()
    engine.apply(engine.refresh(0.0))
    engine.update_partition(
        Partition("db/0", service="db", replicas=[Replica(Role.SECONDARY, "n0"), Replica(Role.PRIMARY, "n1")])
    )
    assert engine.violations() == ()


def test_a_primary_without_secondary_is_told_with_and_without_a_mark() -> None:
    """No swap can move it; draining its node does."""
    engine = engine_on(Node("n0", deactivation_intent="restart"), Node("n1"))
    engine.update_service(Service("one", target_replicas=1))
    for mark in ("none", "swap_out"):
        marked = [Replica(Role.PRIMARY, "n0", upgrade=mark)]
        engine.update_partition(Partition("one/0", service="one", replicas=marked))
        assert not engine.refresh(0.0).moves
        (violation,) = engine.violations()
        assert violation == WithoutMark("one/0", "n0", "restart", is_alone=True)
        assert str(violation).endswith("it has no secondary, so no plan moves it unless the node is drained")
    engine.update_partition(Partition("one/0", service="one", replicas=[Replica(Role.PRIMARY, "n0")]))
    engine.drain_node("n0")
    assert [move.target for move in engine.repair().moves] == ["n1"]


def test_a_partition_without_reports_is_told_once_others_have_reported() -> None:
    engine = engine_of(Node("n0"), Node("n1"), Node("n2"))
    engine.update_service(Service("web", stateful=False))
    engine.update_service(Service("given", stateful=False, default_load={"instance": {"cpu": 1.0}}))
    engine.update_service(Service("quiet", stateful=False, metrics={}))
    for service in ("web", "given", "quiet"):
        engine.update_partition(Partition(f"{service}/0", service=service, replicas=[Replica("instance", "n2")]))
    assert engine.violations() == ()
    engine.report_load("db/0", "n0", {"cpu": 1.0})
    assert engine.violations() == (Unreported("web/0"),)
    text = "no load of web/0 is reported, and its service has no default load: it counts as 0"
    assert str(engine.violations()[0]) == text
    assert engine.refresh(0.0).explain("web/0").endswith(f"N{text[1:]}.")
    engine.report_load("web/0", "n2", {"cpu": 0.0})
    assert engine.violations() == ()


class Misspelt:
    """A constraint whose methods raise these errors; None: they allow everything."""

    name = "misspelt"

    def __init__(self, refuses: Exception | None, broken: Exception | None) -> None:
        self.errors = refuses, broken

    def refuses(self, _configuration: Any, _proposal: Any) -> bool:
        if self.errors[0] is not None:
            raise self.errors[0]
        return False

    def broken(self, _configuration: Any) -> list[int]:
        if self.errors[1] is not None:
            raise self.errors[1]
        return []


@pytest.mark.parametrize(
    ("constraint", "expected", "text"),
    [
        (
            Misspelt(UnknownNameError("metric", "cppu", ["cpu"]), None),
            UnknownNameError,
            "constraint misspelt: refuses: unknown metric 'cppu'; did you mean 'cpu'",
        ),
        (
            Misspelt(None, ZeroDivisionError("no")),
            ExtensionError,
            "constraint misspelt: broken has failed: ZeroDivisionError",
        ),
    ],
)
def test_an_error_in_a_constraint_names_it(constraint: Misspelt, expected: type[Exception], text: str) -> None:
    """So do errors of the engine that its code raises, which keep their class."""
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=[Metric("cpu")]), extension_constraints=[constraint])
    engine.update_node(Node("n0"))
    engine.update_service(Service("web", stateful=False))
    engine.update_partition(Partition("web/0", service="web"))
    with pytest.raises(expected, match=f"^{text}"):
        engine.place()
