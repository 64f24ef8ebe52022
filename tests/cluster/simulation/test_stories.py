"""Small stories: exact logs of events for two or three tenants on one or two nodes."""

from __future__ import annotations

import polars as pl
import pytest

from cluster.simulation.recorder import RunResult
from tests.cluster.tiny import Tenant, scenario_of, story

A = Tenant("a", 0, [40.0] * 36)
B = Tenant("b", 700, [20.0, 20.0, 45.0, *[45.0] * 30])
C = Tenant("c", 1300, [20.0, 60.0, *[60.0] * 30])


def log_of_moves(run: RunResult) -> list[tuple[object, ...]]:
    """Return time, tenant, kind, cause, metric, end and outcome of every move."""
    columns = ["time_s", "tenant", "kind", "cause", "metric", "end_s", "outcome"]
    return run.tables["moves"].select(columns).rows()


def log_of_shortages(run: RunResult) -> list[tuple[object, ...]]:
    """Return time, loads and outcome of every shortage."""
    return run.tables["shortages"].select("time_s", "standing", "departing", "outcome").rows()


def test_growth_starts_one_failover():
    """B and C share a node and grow to 105 of 100 GB. One replica moves to another node, which is one violation."""
    run = story(scenario_of(2, hours=2), [A, B, C])
    assert log_of_moves(run) == [(2400, "b", "move", "violation", "disk", 2436, "completed")]
    assert log_of_shortages(run) == [(2400, 105.0, 0.0, "violation")]
    assert run.totals["violations"] == run.totals["failovers"] == 1
    assert run.totals["downtime_seconds"] == 30.0


def test_moves_under_way_cover_a_shortage():
    """During the copy, both nodes have the load of the tenant: a covered shortage, not a second violation."""
    run = story(scenario_of(2, hours=2, copy_gbit_per_second=0.36), [A, B, C])
    assert log_of_moves(run) == [(2400, "b", "move", "violation", "disk", 3400, "completed")]
    assert log_of_shortages(run) == [(2400, 105.0, 0.0, "violation"), (3000, 60.0, 45.0, "covered")]
    assert run.totals["violations"] == 1
    assert run.totals["shortages_covered"] == 1
    assert run.totals["violated_node_minutes"] == 20.0
    by_time = dict(run.tables["node_load"].group_by("time_s").agg(load=pl.col("load").sum()).rows())
    assert [by_time[time] for time in (2400, 3000, 3600)] == [145.0, 190.0, 145.0]


def test_departure_ends_a_move():
    leaver = Tenant("b", 700, [20.0, 20.0, 45.0, 45.0])
    run = story(scenario_of(2, hours=2, copy_gbit_per_second=0.18), [A, leaver, C])
    assert log_of_moves(run) == [(2400, "b", "move", "violation", "disk", 3100, "departed")]
    assert run.totals["downtime_seconds"] == 0.0
    last = run.tables["node_load"].filter(time_s=7200)["load"].sum()
    assert last == 40.0 + 60.0


def test_move_under_way_at_the_end():
    run = story(scenario_of(2, hours=1, copy_gbit_per_second=0.1), [A, B, C])
    assert log_of_moves(run) == [(2400, "b", "move", "violation", "disk", None, "under way")]


def test_refused_tenant_is_placed_later():
    first = Tenant("a", 0, [80.0] * 4)
    run = story(scenario_of(1, hours=1), [first, Tenant("b", 700, [20.0] * 20)])
    assert run.tables["refusals"].select("time_s", "tenant", "attempt", "ruled_out").rows() == [
        (700, "b", 1, '{"capacity": 1}'),
        (1200, "b", 2, '{"capacity": 1}'),
        (1800, "b", 3, '{"capacity": 1}'),
    ]
    assert run.totals["placement_failures"] == 1
    waited = run.tables["tenants"].select("tenant", "refused", "waiting_s").rows()
    assert waited == [("a", False, 0), ("b", True, 1800)]
    assert run.tables["node_load"]["load"].to_list() == [80.0, 80.0, 80.0, 80.0, 20.0, 20.0]


def test_refused_tenant_departs_at_its_time():
    run = story(scenario_of(1, hours=1), [Tenant("a", 0, [80.0] * 6), Tenant("b", 700, [20.0, 20.0])])
    assert run.tables["refusals"]["time_s"].to_list() == [700, 1200, 1800]
    assert run.totals["downtime_seconds"] == 0.0


def test_every_sample_is_metered_once():
    """Sample k is metered at the end of interval k, the last sample at the departure ([1] section 3.3)."""
    run = story(scenario_of(1, hours=1), [Tenant("a", 600, [1.0, 2.0, 3.0])])
    assert run.tables["node_load"]["load"].to_list() == [0.0, 1.0, 2.0, 3.0, 0.0, 0.0]


@pytest.mark.parametrize(("days", "expected"), [(1 / 24, 6), (0.5 / 24, 3)])
def test_metering_covers_the_whole_run(days: float, expected: int):
    run = story(scenario_of(1, hours=days * 24), [Tenant("a", 0, [1.0] * 10)])
    assert run.tables["node_load"]["time_s"].n_unique() == expected
    assert run.tables["node_load"]["time_s"].max() == days * 86400


def test_a_tenant_above_every_threshold_is_unresolved_or_unavoidable():
    """Alone, it starts no failover. If another tenant leaves its node, that is an unavoidable violation."""
    columns = ["time_s", "standing", "outcome", "avoidable"]
    run = story(scenario_of(1, hours=1), [Tenant("a", 0, [20.0, 50.0, 97.0, 97.0, 30.0, 30.0])])
    assert log_of_moves(run) == []
    assert run.tables["shortages"].select(columns).rows() == [(t, 97.0, "unresolved", False) for t in (1800, 2400)]
    assert (run.totals["violations"], run.totals["shortages_unresolved"]) == (0, 2)
    full = Tenant("full", 0, [90.0] * 12)  # so that A and B share a node
    tenants = [full, Tenant("a", 0, [4.0] * 12), Tenant("b", 10, [20.0, 20.0, *[97.0] * 4])]
    run = story(scenario_of(2, hours=0.5), tenants)
    assert run.tables["shortages"].select(columns).rows() == [(1800, 101.0, "violation", False)]
    assert (run.totals["violations_avoidable"], run.totals["violations_unavoidable"]) == (0, 1)
