"""Avoidable and unavoidable shortages of simulated runs, computed again in plain Python from the traces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl
import pytest

from cluster.runs.experiment import prepare
from cluster.scenario.scenario_file import scenario_from
from cluster.simulation.recorder import RunResult
from cluster.simulation.simulation import Simulation
from cluster.simulation.violations import SHARE_OF_ROUNDING, NodeShortage
from plb.model import Role
from tests.cluster.tiny import small_region

CLUSTERS = {
    "equal nodes": {"vcores": 8.0, "memory_gb_per_vcore": 4.0},
    "unequal nodes": {
        "vcores": 5.0,
        "memory_gb_per_vcore": 4.0,
        "groups": [{"nodes": 2, "vcores": 8.0, "memory_gb_per_vcore": 4.0}],
    },
}


def demand_of(simulation: Simulation, tenant: int, role: Role, now: int) -> Sequence[float]:
    sequence = simulation._sequence
    traces = sequence.traces
    step = min((now - 1 - int(sequence.arrival[tenant])) // 600, int(traces.lifetime_steps[tenant]) - 1)
    start = int(traces.series_start[traces.series_index[tenant, role]])
    found: list[float] = traces.values[start + max(step, 0)].tolist()
    return found


def largest_standing(simulation: Simulation, now: int) -> dict[tuple[str, int], float]:
    """Return the largest demand of a replica that stays on each node, by metric, from the placement of the engine."""
    found: dict[tuple[str, int], float] = {}
    for tenant, name in enumerate(simulation._partitions):
        for replica in simulation.ledger.placed(name):
            if replica.node is not None and not replica.leaving:
                for metric, demand in enumerate(demand_of(simulation, tenant, replica.role, now)):
                    place = replica.node, metric
                    found[place] = max(found.get(place, 0.0), demand)
    return found


def run_of(cluster: dict[str, Any]) -> tuple[RunResult, dict[tuple[int, str, str], bool]]:
    """Return a dense run, and whether each of its shortages is avoidable, by time, node and metric."""
    tables = small_region(days=0.5)
    tables["cluster"] |= cluster
    tables["workload"]["density"] = 2.2
    experiment = prepare(scenario_from(tables))
    simulation = Simulation(experiment.scenario, experiment.source, experiment.sequences[0], "original", 0)
    record, expected = simulation.recorder.shortages, {}
    limits = [max(of_metric) for of_metric in simulation._threshold.T.tolist()]

    def checked(now: int, found: Sequence[NodeShortage]) -> None:
        largest = largest_standing(simulation, now) if found else {}
        for one in found:
            node, metric = simulation._node_names[one.node], simulation._metric_names[one.metric]
            alone = largest.get((node, one.metric), 0.0)
            expected[now, node, metric] = alone < limits[one.metric] * (1.0 - SHARE_OF_ROUNDING)
        record(now, found)

    simulation.recorder.shortages = checked  # type: ignore[method-assign]
    return simulation.run(), expected


@pytest.mark.parametrize("cluster", CLUSTERS.values(), ids=CLUSTERS)
def test_avoidable_shortages_follow_from_the_traces(cluster: dict[str, Any]) -> None:
    run, expected = run_of(cluster)
    shortages = run.tables["shortages"]
    places = shortages.select("time_s", "node", "metric").rows()
    assert dict(zip(places, shortages["avoidable"], strict=True)) == expected
    assert set(shortages["avoidable"]) == {True, False}, "the run has shortages of both kinds"
    by_place = shortages.group_by("time_s", "node", "outcome").agg(pl.col("avoidable").all())
    for outcome, total in (("violation", "violations"), ("unresolved", "shortages_unresolved")):
        of_outcome = by_place.filter(outcome=outcome)
        assert len(of_outcome) == run.totals[total] > 0
        assert int((~of_outcome["avoidable"]).sum()) == run.totals[f"{total}_unavoidable"]
    assert run.totals["violations_avoidable"] + run.totals["violations_unavoidable"] == run.totals["violations"]
