"""The gallery: every scenario in examples/gallery has the effect in its first lines."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import attrs
import numpy as np
import polars as pl
import pytest

from cluster.runs.experiment import prepare
from cluster.scenario.scenario_file import read_scenario
from cluster.simulation.recorder import RunResult
from cluster.simulation.simulation import Simulation
from workloads.trace_files import read_traces

GALLERY = Path(__file__).parent.parent / "examples" / "gallery"
PAGE = GALLERY.parents[1] / "docs" / "gallery.md"
HOUR, DAY = 3600, 86400


def runs_of(name: str) -> dict[str, RunResult]:
    return {run.policy: run for run in prepare(read_scenario(GALLERY / f"{name}.toml")).runs()}


def violations(run: RunResult, begin: float = 0.0, end: float = np.inf) -> int:
    """Return the violations from `begin` to `end`, in seconds since the start."""
    found = run.tables["shortages"].filter(outcome="violation").unique(["time_s", "node"])["time_s"]
    return int(((found >= begin) & (found < end)).sum())


def shares(run: RunResult, metric: str) -> pl.DataFrame:
    """Return node, time and used share of the capacity for one metric."""
    return run.tables["node_load"].filter(metric=metric).select("node", "time_s", "share")


def test_the_page_shows_every_scenario() -> None:
    text = PAGE.read_text()
    names = sorted(path.stem for path in GALLERY.glob("*.toml"))
    assert len(names) == 12
    assert sorted(name for name in names if f"examples/gallery/{name}.toml" in text) == names
    assert text.count("](../examples/gallery/") == len(names)


@pytest.mark.slow
def test_churn_causes_late_violations_and_fewer_with_expected_failovers() -> None:
    """As density rises, most violations of the original energy are in the second half.

    The modified energy has fewer.
    """
    sequence = prepare(read_scenario(GALLERY / "churn.toml")).sequences[0]
    assert [sequence.density(day * DAY) for day in (0, 4, 7.99)] == pytest.approx([1.4, 1.9, 2.4], abs=0.05)
    runs = runs_of("churn")
    original, modified = (runs[policy] for policy in ("original", "modified"))
    assert violations(original, end=4 * DAY) < violations(original, begin=4 * DAY)
    assert violations(modified) < violations(original)


@pytest.mark.slow
def test_rolling_upgrade_affects_ten_domains_in_turn_without_quorum_loss() -> None:
    """Two nodes of one domain are drained and upgraded at a time. No tenant waits longer than a change of roles."""
    run = runs_of("rolling_upgrade")["original"]
    assert run.totals["upgraded_domains"] == 10
    assert run.totals["quorum_losses"] == run.totals["rolled_back_domains"] == 0
    down: set[str] = set()
    most = 0
    for node, goes_down in run.tables["node_events"].select("node", "goes_down").rows():
        down = down | {node} if goes_down else down - {node}
        most = max(most, len(down))
        assert len({int(name[1:]) % 10 for name in down}) <= 1
    assert most == 2
    assert set(run.tables["node_events"].filter(goes_down=True)["node"]) == {f"n{index:02d}" for index in range(40)}
    assert not len(run.tables["moves"].filter(kind="promote")), "no node goes down with a primary that could move"
    upgrade = run.tables["interruptions"].filter(cause="upgrade")
    assert len(upgrade) > 100
    assert (upgrade["end_s"] - upgrade["begin_s"]).max() == 30


def test_rack_outage_costs_quorums_only_without_domains() -> None:
    """Tenants are spread over five racks, unless the policy ignores fault domains."""
    runs = runs_of("rack_outage")
    for run in runs.values():
        events = run.tables["node_events"].select("time_s", "goes_down").rows()
        assert events == [(12 * HOUR, True)] * 4 + [(14 * HOUR, False)] * 4
        assert 4 in run.tables["tenants"]["replicas"]
    assert runs["original"].totals["quorum_losses"] == 0
    assert runs["without_domains"].totals["quorum_losses"] > 0
    assert runs["original"].totals["availability"] > runs["without_domains"].totals["availability"]


@pytest.mark.slow
def test_flapping_rebuilds_nothing() -> None:
    """Secondaries are promoted, and the node returns before any replica is rebuilt."""
    run = runs_of("flapping")["original"]
    times = run.tables["node_events"].select("time_s", "goes_down", "node").rows()
    assert times == [(6 * HOUR + 1800 * k + 300 * (not down), down, "n07") for k in range(24) for down in (True, False)]
    assert not len(run.tables["plans"].filter(occasion="rebuild"))
    assert len(run.tables["moves"].filter(kind="promote", cause="node fault"))
    assert run.totals["quorum_losses"] == 0


@pytest.mark.slow
def test_flash_growth_concentrates_violations_in_its_hours() -> None:
    """These are twelve hours of 96, plus one for moves under way at their end."""
    for run in runs_of("flash_growth").values():
        assert violations(run, 36 * HOUR, 49 * HOUR) > 0.75 * violations(run)


@pytest.mark.slow
def test_auto_scaling_leaves_no_shortage_that_no_move_relieves() -> None:
    """Instances are added when the demand grows and removed afterwards; without scaling, many shortages stay."""
    scenario = read_scenario(GALLERY / "auto_scaling.toml")
    plain = {run.policy: run for run in prepare(attrs.evolve(scenario, scaling={})).runs()}
    for policy, run in runs_of("auto_scaling").items():
        assert run.totals["shortages_unresolved"] == 0
        assert plain[policy].totals["shortages_unresolved"] > 50
        changes = run.tables["scalings"].with_columns(outward=pl.col("after") > pl.col("before"))
        grown = changes.filter(pl.col("time_s").is_between(36 * HOUR, 42 * HOUR))
        shrunk = changes.filter(pl.col("time_s").is_between(48 * HOUR, 54 * HOUR))
        assert grown["outward"].mean() > 0.5 > shrunk["outward"].mean()


def test_reserved_nodes_stay_free() -> None:
    """The four least loaded nodes have no load with the term, and some load without it."""
    means = {}
    for policy, run in runs_of("held_out").items():
        least = shares(run, "cpu").sort("share").group_by("time_s").head(4)
        means[policy] = least["share"].mean()
    assert means["held_out"] < 0.001 < means["original"]


def test_defragmentation_leaves_nodes_empty() -> None:
    """At least the requested eight nodes are empty. Balancing leaves none empty and has fewer violations."""
    runs = runs_of("defragmentation")
    empty = {
        policy: (shares(run, "disk").filter(pl.col("time_s") == DAY)["share"] < 0.01).sum()
        for policy, run in runs.items()
    }
    assert empty["packed"] >= 8
    assert empty["balanced"] == 0
    assert violations(runs["balanced"]) < violations(runs["packed"])


@pytest.mark.slow
def test_mixed_hardware_has_equal_utilisation() -> None:
    """By percentage, both node types have equal shares of memory and disk, within 10 %.

    By units, larger nodes have less.
    """
    large = (pl.col("node").str.slice(1).cast(int) >= 24).alias("large")
    for policy, run in runs_of("mixed_hardware").items():
        for metric in ("memory", "disk"):
            by_kind = dict(shares(run, metric).group_by(large).agg(pl.col("share").mean()).rows())
            if policy == "original":
                assert by_kind[True] == pytest.approx(by_kind[False], rel=0.1)
            else:
                assert by_kind[True] < 0.8 * by_kind[False]


@pytest.mark.slow
def test_affinity_pairs_share_nodes() -> None:
    """Half of the tenants belong to pairs. At the end, each replica of a child is on a node of its parent."""
    experiment = prepare(read_scenario(GALLERY / "affinity_pairs.toml"))
    sequence = experiment.sequences[0]
    simulation = Simulation(experiment.scenario, experiment.source, sequence, "original", 0)
    simulation.run()
    assert 2 * (sequence.parent >= 0).mean() == pytest.approx(0.5, abs=0.1)
    stay = (sequence.arrival <= DAY) & (sequence.departure > DAY)
    names = sequence.traces.tenant_names()
    pairs = [(t, int(p)) for t, p in enumerate(sequence.parent) if p >= 0 and stay[t] and stay[p]]
    assert len(pairs) > 50
    for child, parent in pairs:
        one, two = (simulation.engine.replicas(str(names[tenant])) for tenant in (child, parent))
        assert {(r.role, r.node) for r in one if not r.leaving} == {(r.role, r.node) for r in two if not r.leaving}


@pytest.mark.slow
def test_reservation_spares_the_tenants_of_its_application_failovers() -> None:
    """Over all repeats they have fewer, and the application never uses more nodes than it may."""
    failovers = {"reserved": 0, "unreserved": 0}
    for run in prepare(read_scenario(GALLERY / "reservation.toml")).runs():
        of_application = run.tables["tenants"].filter(pl.col("tenant_class").str.starts_with("GP_S_"))
        failovers[run.policy] += of_application["failovers"].sum()
        assert run.totals["applications"]["serverless"]["most_nodes"] <= 4
    assert failovers["reserved"] < failovers["unreserved"]


def test_rebalancing_reads_the_past_and_avoids_violations() -> None:
    """The tenants repeat their days, so the plan of the first day avoids most; its moves say what they avoid."""
    runs = runs_of("rebalancing")
    alone, rebalanced = (runs[policy] for policy in ("failovers_alone", "rebalanced"))
    assert 2 * violations(rebalanced) < violations(alone)
    planned = rebalanced.tables["moves"].filter(cause="balancing")
    assert rebalanced.totals["moves"] == rebalanced.totals["failovers"] + len(planned)
    assert set(planned.filter(pl.col("time_s") < DAY)["time_s"]) == {600}


def test_traces_of_the_rebalancing_scenario_are_those_of_its_script(tmp_path: Path) -> None:
    script = GALLERY.parent / "daily_peaks" / "make.py"
    subprocess.run([sys.executable, script, tmp_path], check=True)
    made, shipped = read_traces(tmp_path), read_traces(script.parent)
    assert np.array_equal(made.values, shipped.values)
    assert made.tenant.tolist() == shipped.tenant.tolist()
    assert np.array_equal(made.class_code, shipped.class_code)
