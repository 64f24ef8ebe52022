"""Faults and upgrades in small clusters, with exact times of interruptions."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.simulation.recorder import RunResult
from tests.cluster.simulation.test_stories import A, B, C
from tests.cluster.tiny import Tenant, scenario_of, story

TWELVE_GB = [12.0] * 60
"""Ten hours at 12 GB. A copy at 0.096 Gbit/s takes a thousand seconds."""
SLOW = {"copy_gbit_per_second": 0.096}


def run_with(
    tenants: list[Tenant], nodes: int = 3, hours: float = 4, sections: dict[str, Any] | None = None, **cluster: Any
) -> RunResult:
    return story(scenario_of(nodes, hours, sections=sections, **SLOW, **cluster), tenants, initial=12.0)


def crash(node: str, at_seconds: int, seconds: int) -> dict[str, Any]:
    return {"node": node, "at_hours": at_seconds / 3600, "hours": seconds / 3600}


def interruptions(run: RunResult) -> list[tuple[Any, ...]]:
    """Return tenant, begin, end and cause of every interruption."""
    return run.tables["interruptions"].select("tenant", "begin_s", "end_s", "cause").rows()


def moves(run: RunResult) -> list[tuple[Any, ...]]:
    """Return time, kind, cause, end and outcome of every move."""
    return run.tables["moves"].select("time_s", "kind", "cause", "end_s", "outcome").rows()


def loaded_node(run: RunResult) -> str:
    """Return the only node with load at the first metering."""
    load = run.tables["node_load"].filter(time_s=600).sort("load")
    return str(load["node"][-1])


def test_a_single_replica_restarts_on_another_node_at_once() -> None:
    """Its data are remote. The restart takes thirty seconds, is a failover, and stays after the return of the node."""
    tenants = [Tenant("a", 0, TWELVE_GB)]
    node = loaded_node(run_with(tenants))
    run = run_with(tenants, sections={"faults": {"crashes": [crash(node, 1000, 5000)]}})
    assert interruptions(run) == [("a", 1000, 1030.0, "node fault")]
    assert moves(run) == [(1000, "move", "node fault", 1000, "completed")]
    assert run.tables["moves"]["source"].to_list() == [node]
    assert run.totals["failovers_by_cause"] == {"node fault": 1}
    assert run.totals["downtime_seconds"] == 30.0
    assert run.totals["quorum_losses"] == 0
    after = run.tables["node_load"].filter(time_s=1200, node=node)["load"]
    assert after.to_list() == [0.0]


def test_a_single_replica_with_local_data_waits_for_its_node() -> None:
    tenants = [Tenant("a", 0, TWELVE_GB)]
    node = loaded_node(run_with(tenants))
    run = run_with(tenants, sections={"faults": {"crashes": [crash(node, 1000, 5000)], "remote_storage": False}})
    assert interruptions(run) == [("a", 1000, 6030.0, "node fault")]


def crash_of_the_primary(seconds: int, **faults: Any) -> RunResult:
    """Run a tenant with three replicas on four nodes; the node of the primary is lost at 1000 s."""
    tenants = [Tenant("a", 0, TWELVE_GB, 3)]
    for name in ("n0", "n1", "n2", "n3"):
        run = run_with(tenants, 4, sections={"faults": {"crashes": [crash(name, 1000, seconds)], **faults}})
        if ("promote", "node fault") in [(kind, cause) for _, kind, cause, *_ in moves(run)]:
            return run
    raise AssertionError("one of the nodes has the primary")


def test_a_secondary_is_promoted_and_the_old_primary_returns_as_a_secondary() -> None:
    """The node returns within half an hour, so no replica is built."""
    run = crash_of_the_primary(600)
    assert moves(run) == [(1000, "promote", "node fault", 1000, "completed")]
    assert interruptions(run) == [("a", 1000, 1030.0, "node fault")]
    assert not len(run.tables["plans"].filter(occasion="rebuild"))


def test_a_lost_replica_is_rebuilt_after_half_an_hour() -> None:
    """The build starts at the next metering and takes a thousand seconds. Another lost node costs the quorum."""
    run = crash_of_the_primary(12000)
    assert run.tables["plans"].filter(occasion="rebuild")["time_s"].to_list() == [3000]
    assert len(interruptions(run)) == 1


def test_a_loss_of_two_of_three_replicas_is_a_quorum_loss() -> None:
    """It lasts until one of the nodes returns, plus thirty seconds for the change of the primary."""
    tenants = [Tenant("a", 0, TWELVE_GB, 3)]
    crashes = [crash("n0", 1000, 5000), crash("n1", 1200, 800)]
    run = run_with(tenants, sections={"faults": {"crashes": crashes}})
    assert run.totals["quorum_losses"] == 1
    lost = [row for row in interruptions(run) if row[3] == "quorum loss"]
    assert lost == [("a", 1200, 2030.0, "quorum loss")]


@pytest.mark.parametrize("end", ["target", "source"])
def test_a_move_fails_with_either_of_its_nodes(end: str) -> None:
    """Without its target, the replica is on its old node. Without its source, it starts from scratch on the target."""
    cluster = {"hours": 2, "copy_gbit_per_second": 0.36}
    calm = story(scenario_of(2, **cluster), [A, B, C]).tables["moves"]
    assert calm.select("time_s", "tenant", "end_s", "outcome").rows() == [(2400, "b", 3400, "completed")]
    lost = str(calm[end][0])
    faults = {"faults": {"crashes": [crash(lost, 2700, 600)]}}
    run = story(scenario_of(2, sections=faults, **cluster), [A, B, C])
    assert run.tables["moves"].select("time_s", "tenant", "end_s", "outcome").rows()[0] == (2400, "b", 2700, "failed")
    down = run.tables["node_load"].filter(time_s=3000, node=lost)["load"]
    assert down.to_list() == [0.0]
    assert run.totals["tenants"] == 3
    assert (("b", 2700, 2730.0, "node fault") in interruptions(run)) == (end == "source")


def test_an_upgrade_drains_nodes_and_returns_primaries() -> None:
    """For its own node, the primary changes twice. Each change interrupts the tenant for thirty seconds."""
    tenants = [Tenant("a", 0, TWELVE_GB, 3)]
    run = run_with(tenants, sections={"upgrades": {"starts_hours": [0.5], "nodes_at_once": 1}})
    assert run.totals["upgraded_domains"] == 3
    assert {(kind, cause) for _, kind, cause, *_ in moves(run)} == {("swap", "upgrade")}
    assert len(moves(run)) == 2
    assert [end - begin for _, begin, end, _ in interruptions(run)] == [30.0, 30.0]
    ups = run.tables["upgrades"].sort("begin_s")
    assert (ups["begin_s"][1:] >= ups["end_s"][:-1]).all()


def test_an_upgrade_waits_rather_than_break_a_quorum() -> None:
    """After one crash, no node is safe to upgrade for an hour. None was upgraded, so none is rolled back."""
    tenants = [Tenant("a", 0, TWELVE_GB, 3)]
    sections = {
        "faults": {"crashes": [crash("n2", 1000, 20000)], "rebuild_after_minutes": 1000.0},
        "upgrades": {"starts_hours": [0.5], "nodes_at_once": 1},
    }
    run = run_with(tenants, hours=8, sections=sections)
    assert run.totals["quorum_losses"] == 0
    assert run.tables["upgrades"].select("outcome", "rolls_back").rows() == [("unsafe", False)]
    assert not len(run.tables["node_events"].filter(cause="upgrade", goes_down=True).filter(time_s=5400))
