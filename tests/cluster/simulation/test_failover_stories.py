"""Errors to avoid under faults and upgrades: false counts, forgotten tenants, avoidable quorum losses."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.scenario.cluster_sections import Flapping
from cluster.scenario.scenario_file import scenario_from
from cluster.simulation.recorder import RunResult
from plb import InvalidValueError, PlbError
from tests.cluster.simulation.test_fault_stories import TWELVE_GB, crash, interruptions, loaded_node, moves, run_with
from tests.cluster.simulation.test_stories import A, B, C
from tests.cluster.tiny import Tenant, scenario_of, story

UPGRADE = {"starts_hours": [0.5], "nodes_at_once": 1}


def crowded(hours: float = 4, sections: dict[str, Any] | None = None) -> RunResult:
    """Run a tenant with three replicas of 60 GB on three nodes; another tenant fills two of them for half an hour."""
    first = Tenant("first", 0, [60.0] * 3, 2)
    return story(scenario_of(3, hours, sections=sections), [first, Tenant("a", 300, [60.0] * 60, 3)], initial=60.0)


def test_a_tenant_without_a_quorum_of_replicas_is_not_available() -> None:
    """Its other replicas are placed at 1800 s. The tenant is not available until then, and no quorum was lost."""
    run = crowded()
    assert run.tables["refusals"].select("time_s", "tenant").rows()[0] == (300, "a")
    assert interruptions(run) == []
    assert run.totals["quorum_losses"] == 0
    assert dict(run.tables["tenants"].select("tenant", "waiting_s").rows()) == {"first": 0, "a": 1800}


def test_a_tenant_without_a_quorum_from_the_start_is_placed_after_a_crash() -> None:
    """The node of its only replica fails. All three replicas are placed as soon as there is free capacity."""
    run = crowded(
        sections={"faults": {"crashes": [crash("n0", 700, 300), crash("n1", 700, 300), crash("n2", 700, 300)]}}
    )
    load = dict(run.tables["node_load"].filter(time_s=7200).select("node", "load").rows())
    assert load == {"n0": 60.0, "n1": 60.0, "n2": 60.0}
    assert "a" not in [tenant for tenant, *_ in interruptions(run)]


@pytest.mark.parametrize("node", ["n0", "n1", "n2", "n3"])
def test_a_tenant_that_was_never_available_waits_for_no_node(node: str) -> None:
    """Any node may fail while one of three replicas can be placed. Later all three are on other nodes."""
    fillers = [Tenant("first", 0, [60.0] * 3, 2), Tenant("second", 0, [60.0] * 3)]
    faults = {"crashes": [crash(node, 700, 40000)]}
    scenario = scenario_of(4, 4, sections={"faults": faults})
    run = story(scenario, [*fillers, Tenant("a", 300, [60.0] * 60, 3)], initial=60.0)
    load = dict(run.tables["node_load"].filter(time_s=2400).select("node", "load").rows())
    assert load == {name: 0.0 if name == node else 60.0 for name in load}


def test_a_missing_replica_is_built_after_a_quorum_loss() -> None:
    """It cannot be placed before, because each node has a replica. It remains missing until then."""
    crashes = [crash("n0", 1000, 9000), crash("n1", 3000, 2000)]
    tenants = [Tenant("a", 0, TWELVE_GB, 3)]
    run = run_with(tenants, hours=6, sections={"faults": {"crashes": crashes, "rebuild_after_minutes": 10.0}})
    assert run.totals["quorum_losses"] == 1
    last = dict(run.tables["node_load"].filter(time_s=21600).select("node", "load").rows())
    assert last == {"n0": 12.0, "n1": 12.0, "n2": 12.0}
    assert not len(run.tables["refusals"].filter(time_s=3600)), "without a quorum, no replica is requested"


def test_a_build_stops_without_a_source() -> None:
    """The other two replicas are lost during the build of the third.

    When one returns, the build restarts and takes 1000 s.
    """
    tenants = [Tenant("a", 0, TWELVE_GB, 3)]
    load = run_with(tenants, nodes=4).tables["node_load"].filter(time_s=600)
    first, second, third = load.filter(load["load"] > 0)["node"].to_list()
    crashes = [crash(first, 1000, 40000), crash(second, 2500, 3000), crash(third, 2500, 9000)]
    faults = {"crashes": crashes, "rebuild_after_minutes": 10.0}
    run = run_with(tenants, nodes=4, hours=5, sections={"faults": faults})
    assert run.tables["plans"].filter(occasion="rebuild")["time_s"].to_list()[0] == 1800
    assert [row for row in interruptions(run) if row[3] == "quorum loss"] == [("a", 2500, 6530.0, "quorum loss")]


def test_a_restart_of_a_single_replica_is_a_failover() -> None:
    """Its cause is the fault, and the move contains both nodes."""
    tenants = [Tenant("a", 0, TWELVE_GB)]
    node = loaded_node(run_with(tenants))
    run = run_with(tenants, sections={"faults": {"crashes": [crash(node, 1000, 5000)]}})
    assert moves(run) == [(1000, "move", "node fault", 1000, "completed")]
    assert run.tables["moves"]["source"].to_list() == [node]
    assert run.totals["failovers_by_cause"] == {"node fault": 1}


def test_a_single_replica_whose_source_is_lost_during_a_move_restarts() -> None:
    """It is not available for thirty seconds."""
    cluster = {"hours": 2, "copy_gbit_per_second": 0.36}
    source = str(story(scenario_of(2, **cluster), [A, B, C]).tables["moves"]["source"][0])
    faults = {"faults": {"crashes": [crash(source, 2700, 600)]}}
    run = story(scenario_of(2, sections=faults, **cluster), [A, B, C])
    assert ("b", 2700, 2730.0, "node fault") in interruptions(run)


def test_a_failed_drain_is_no_placement_failure() -> None:
    """Both nodes are half full, so no tenant can leave for an upgrade. All tenants were placed at their arrival."""
    tenants = [Tenant("a", 0, [60.0] * 60), Tenant("b", 0, [60.0] * 60)]
    run = story(scenario_of(2, 4, sections={"upgrades": UPGRADE}), tenants, initial=60.0)
    assert len(run.tables["refusals"])
    assert run.totals["placement_failures"] == 0
    assert not run.tables["tenants"]["refused"].any()
    assert run.totals["upgraded_domains"] == 2


def test_a_fault_of_a_node_that_is_down_for_its_upgrade_is_counted() -> None:
    """All policies count the same faults, regardless of other reasons for a node to be down."""
    sections = {"upgrades": {**UPGRADE, "drain": False}, "faults": {"crashes": [crash("n0", 2000, 60)]}}
    run = run_with([Tenant("a", 0, TWELVE_GB)], sections=sections)
    assert run.totals["node_faults"] == 1


def test_two_replicas_do_not_stop_an_upgrade() -> None:
    """Both replicas are necessary, so each leaves its node before the upgrade. The quorum is preserved."""
    run = run_with([Tenant("a", 0, TWELVE_GB, 2)], hours=6, sections={"upgrades": UPGRADE})
    assert run.totals["upgraded_domains"] == 3
    assert run.totals["quorum_losses"] == 0
    assert {one["cause"] for one in run.tables["moves"].to_dicts()} == {"upgrade"}


def test_a_node_that_is_down_may_be_upgraded() -> None:
    """The upgrade affects no tenant with a bare quorum. Nodes with such tenants wait until the node returns."""
    tenants = [Tenant("a", 0, TWELVE_GB, 3)]
    faults = {"crashes": [crash("n0", 1000, 2000)], "rebuild_after_minutes": 1000.0}
    run = run_with(tenants, hours=6, sections={"faults": faults, "upgrades": {**UPGRADE, "health_check_minutes": 15.0}})
    assert run.tables["upgrades"].select("begin_s", "end_s", "outcome").rows()[0] == (1800, 3300, "healthy")
    assert run.totals["upgraded_domains"] == 3


def test_only_nodes_that_were_upgraded_are_rolled_back() -> None:
    """The first node is never safe to upgrade. Nothing was upgraded, so no node goes down again."""
    tenants = [Tenant("a", 0, TWELVE_GB, 3)]
    faults = {"crashes": [crash("n2", 1000, 40000)], "rebuild_after_minutes": 1000.0}
    upgrades = {**UPGRADE, "safety_check_minutes": 5.0}
    run = run_with(tenants, hours=4, sections={"faults": faults, "upgrades": upgrades})
    assert run.tables["upgrades"].select("outcome", "rolls_back").rows() == [("unsafe", False)]


def test_an_upgrade_does_not_prolong_a_quorum_loss() -> None:
    """Two of three replicas are down. The node of the third waits until one returns, because the quorum needs it."""
    tenants = [Tenant("a", 0, TWELVE_GB, 3)]
    crashes = [crash("n1", 1000, 1500), crash("n2", 1000, 20000)]
    sections = {
        "faults": {"crashes": crashes, "rebuild_after_minutes": 1000.0},
        "upgrades": {**UPGRADE, "minutes_per_node": 30.0},
    }
    run = run_with(tenants, sections=sections)
    lost = [(begin, end) for _, begin, end, cause in interruptions(run) if cause == "quorum loss"]
    assert lost == [(1000, 2530.0)]


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        ({"upgrades": {"starts_hours": [1.0, float("nan")]}}, r"starts_hours\[1\]"),
        ({"upgrades": {"starts_hours": [-1.0]}}, r"starts_hours\[0\]"),
        ({"upgrades": {"minutes_per_node": 1e308}}, "minutes_per_node"),
        ({"faults": {"crashes": [{"node": "n00", "at_hours": 1e308, "hours": 1.0}]}}, "at_hours"),
        ({"faults": {"days_between_crashes": 1e-9}}, "days_between_crashes"),
        ({"faults": {"repair_sigma": 1e300}}, "repair_sigma"),
    ],
)
def test_impossible_times_are_refused(tables: dict[str, Any], words: str) -> None:
    """The message names the field and its range."""
    with pytest.raises(PlbError, match=words):
        scenario_from(tables)


def test_flapping_that_ends_before_it_begins_is_refused() -> None:
    """The node would never go down."""
    with pytest.raises(InvalidValueError, match="until_hours = 2"):
        Flapping(node="n0", from_hours=3.0, until_hours=2.0, up_minutes=5.0, down_minutes=5.0)
