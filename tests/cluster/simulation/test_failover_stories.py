"""Errors to avoid under faults and upgrades: false counts, forgotten tenants, avoidable quorum losses."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.scenario.scenario_file import scenario_from
from plb import PlbError
from tests.cluster.simulation.test_fault_stories import TWELVE_GB, crash, interruptions, run_with
from tests.cluster.tiny import Tenant, scenario_of, story

UPGRADE = {"starts_hours": [0.5], "nodes_at_once": 1}
FLAPPING = {"node": "n00", "up_minutes": 5.0, "down_minutes": 5.0}


def test_a_tenant_without_a_quorum_of_replicas_is_not_available() -> None:
    """Its other replicas are placed at 1800 s. The tenant is not available until then, and no quorum was lost."""
    run = story(scenario_of(3, 4), [Tenant("first", 0, [60.0] * 3, 2), Tenant("a", 300, [60.0] * 60, 3)], initial=60.0)
    assert run.tables["refusals"].select("time_s", "tenant").rows()[0] == (300, "a")
    assert interruptions(run) == []
    assert run.totals["quorum_losses"] == 0
    assert dict(run.tables["tenants"].select("tenant", "waiting_s").rows()) == {"first": 0, "a": 1800}


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
        ({"faults": {"flapping": [{"from_hours": 3.0, "until_hours": 2.0, **FLAPPING}]}}, "until_hours"),
    ],
)
def test_impossible_times_are_refused(tables: dict[str, Any], words: str) -> None:
    with pytest.raises(PlbError, match=words):
        scenario_from(tables)
