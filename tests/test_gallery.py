"""The gallery: every scenario in examples/gallery shows what its first lines say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from cluster.experiment import prepare
from cluster.record import RunResult
from cluster.scenario_file import read_scenario
from cluster.simulation import Simulation
from plb import Apart

GALLERY = Path(__file__).parent.parent / "examples" / "gallery"
PAGE = GALLERY.parents[1] / "docs" / "gallery.md"
HOUR, DAY = 3600, 86400


def runs_of(name: str) -> dict[str, RunResult]:
    """Run a scenario of the gallery and return its runs by policy."""
    return {run.policy: run for run in prepare(read_scenario(GALLERY / f"{name}.toml")).runs()}


def violations(run: RunResult, begin: float = 0.0, end: float = np.inf) -> int:
    """Return the violations from `begin` to `end`, in seconds since the start."""
    found = run.tables["shortages"].filter(outcome="violation").unique(["time_s", "node"])["time_s"]
    return int(((found >= begin) & (found < end)).sum())


def shares(run: RunResult, metric: str) -> pl.DataFrame:
    """Return node, time and share of the capacity that is used, for one metric."""
    return run.tables["node_load"].filter(metric=metric).select("node", "time_s", "share")


def test_the_page_shows_every_scenario() -> None:
    """And none that is gone."""
    text = PAGE.read_text()
    names = sorted(path.stem for path in GALLERY.glob("*.toml"))
    assert len(names) == 9
    assert sorted(name for name in names if f"examples/gallery/{name}.toml" in text) == names
    assert text.count("](../examples/gallery/") == len(names)


def test_churn_hurts_late_and_less_with_expected_failovers() -> None:
    """Most violations of the original energy come in the second half; the modified energy has fewer."""
    runs = runs_of("churn")
    original, modified = (runs[policy] for policy in ("original", "modified"))
    assert violations(original, end=4 * DAY) < violations(original, begin=4 * DAY)
    assert violations(modified) < violations(original)


def test_rolling_upgrade_takes_ten_domains_in_turn_without_quorum_loss() -> None:
    """At most two nodes of one domain are down at a time, and nobody waits for longer than a change of roles takes."""
    run = runs_of("rolling_upgrade")["original"]
    assert run.totals["upgraded_domains"] == 10
    assert run.totals["quorum_losses"] == run.totals["rolled_back_domains"] == 0
    down: set[str] = set()
    for node, goes_down in run.tables["node_events"].select("node", "goes_down").rows():
        down = down | {node} if goes_down else down - {node}
        assert len(down) <= 2
        assert len({int(name[1:]) % 10 for name in down}) <= 1
    upgrade = run.tables["interruptions"].filter(cause="upgrade")
    assert len(upgrade) > 100
    assert (upgrade["end_s"] - upgrade["begin_s"]).max() == 30


def test_rack_outage_costs_quorums_only_where_domains_are_ignored() -> None:
    """Tenants are spread over five racks, unless the policy says otherwise."""
    runs = runs_of("rack_outage")
    assert runs["original"].totals["quorum_losses"] == 0
    assert runs["without_domains"].totals["quorum_losses"] > 0
    assert runs["original"].totals["availability"] > runs["without_domains"].totals["availability"]


def test_flapping_builds_nothing_anew() -> None:
    """Secondaries are promoted; the node is back before anything is rebuilt."""
    run = runs_of("flapping")["original"]
    assert run.totals["node_faults"] == 24
    assert not len(run.tables["plans"].filter(occasion="rebuild"))
    assert len(run.tables["moves"].filter(kind="promote", cause="node fault"))
    assert run.totals["quorum_losses"] == 0


def test_flash_growth_crowds_violations_into_its_hours() -> None:
    """Twelve hours of 96, and one for what is under way at their end."""
    for run in runs_of("flash_growth").values():
        assert violations(run, 36 * HOUR, 49 * HOUR) > 0.75 * violations(run)


def test_held_out_nodes_stay_free() -> None:
    """The four least loaded nodes carry nothing with the term, and something without."""
    means = {}
    for policy, run in runs_of("held_out").items():
        least = shares(run, "cpu").sort("share").group_by("time_s").head(4)
        means[policy] = least["share"].mean()
    assert means["held_out"] < 0.001 < means["original"]


def test_defragmentation_leaves_nodes_empty() -> None:
    """At least the eight that are asked for; spreading leaves none, and has fewer violations."""
    runs = runs_of("defragmentation")
    empty = {
        policy: (shares(run, "disk").filter(pl.col("time_s") == DAY)["share"] < 0.01).sum()
        for policy, run in runs.items()
    }
    assert empty["packed"] >= 8
    assert empty["spread"] == 0
    assert violations(runs["spread"]) < violations(runs["packed"])


def test_mixed_hardware_is_used_alike() -> None:
    """By percentage, the larger nodes carry as much of their memory as the others."""
    run = runs_of("mixed_hardware")["original"]
    large = pl.col("node").str.slice(1).cast(int) >= 24
    means = shares(run, "memory").group_by(large.alias("large")).agg(pl.col("share").mean())
    by_kind = dict(means.rows())
    assert by_kind[True] == pytest.approx(by_kind[False], rel=0.1)


def test_affinity_pairs_stand_together() -> None:
    """At the end no child is apart from its parent, and there are pairs at all."""
    experiment = prepare(read_scenario(GALLERY / "affinity_pairs.toml"))
    sequence = experiment.sequences[0]
    simulation = Simulation(experiment.scenario, experiment.source, sequence, "original", 0)
    simulation.run()
    assert (sequence.parent >= 0).sum() > 50
    assert not [found for found in simulation.engine.violations() if isinstance(found, Apart)]
