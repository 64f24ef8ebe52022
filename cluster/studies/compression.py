"""[1] figure 7: what compressing traces to demand models does to the probability of a violation."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import attrs

from cluster.runs.sweep import Task
from cluster.scenario.scenario_file import scenario_from
from cluster.scenario.workload_section import Workload
from cluster.simulation.pools import read_traces_of
from cluster.studies.base import Base
from cluster.studies.design import digest, digests_of
from cluster.studies.runner import Row
from workloads.compression import compression_effect
from workloads.regions import generate
from workloads.trace import TraceSet

TENANTS = tuple(range(10, 201, 10))
"""Tenants on the node ([1] section 5.3: 10 to 200)."""
SAMPLES, QUICK_SAMPLES = 10_000, 200
"""Draws for each number of tenants ([1] section 5.3: 10,000)."""
POPULATION = 4000
"""Tenants of a region that are drawn from."""
SAMPLES_A_TASK = 200
STAGGER_SECONDS = 600.0
"""Between two arrivals ([1] section 5.3: 10 minutes)."""


@attrs.frozen
class Effect:
    """Probabilities of a violation at one number of tenants.

    Parameters
    ----------
    workload
        Of which the tenants are.
    tenants
        How many are on the node.
    full, compressed
        By the full traces and by their demand models.
    samples
        Draws behind both.
    """

    workload: str
    tenants: int
    full: float
    compressed: float
    samples: int

    @property
    def difference(self) -> float:
        """By how much the models overestimate."""
        return self.compressed - self.full

    def as_json(self) -> dict[str, Any]:
        """Return it as plain JSON values, the probabilities also as the mean violations of a sample."""
        return {**attrs.asdict(self), "violations": {"full": self.full, "compressed": self.compressed}}


def tasks(base: Base, samples: int, seed: int) -> list[Task]:
    """Return the tasks of a study, some samples of all numbers of tenants each."""
    found = []
    for workload in base.workloads:
        tables = {**base.tables, "name": "study"}
        tables["workload"] = {**base.tables["workload"], **base.variants.get(workload, {})}
        for part, first in enumerate(range(0, samples, SAMPLES_A_TASK)):
            drawn = min(SAMPLES_A_TASK, samples - first)
            arguments = {"workload": workload, "part": part, "samples": drawn, "seed": seed, "scenario": tables}
            key = digest(
                arguments,
                digests_of(workload, base.variants, base.digests),
                {"tenants": TENANTS, "of": POPULATION, "stagger": STAGGER_SECONDS},
            )
            found.append(Task(f"{workload}, {drawn} samples, part {part}, {key}", arguments))
    return found


def run_compression(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Draw the samples of a task; return how many of them are in violation by each number of tenants."""
    scenario = scenario_from(arguments["scenario"])
    traces = _traces(json.dumps(attrs.asdict(scenario.workload), sort_keys=True))
    stagger = max(1, round(STAGGER_SECONDS / traces.step_seconds))
    rows = compression_effect(
        traces,
        TENANTS,
        samples=arguments["samples"],
        seed=(arguments["seed"], arguments["part"]),
        capacities=scenario.cluster.capacity,
        threshold=scenario.cluster.violation_threshold,
        stagger_steps=stagger,
    )
    hits = {
        str(row.tenants): [round(share * arguments["samples"]) for share in (row.full, row.compressed)] for row in rows
    }
    return {"totals": {"hits": hits}, "timings": {}}


def effects(rows: Sequence[Row]) -> list[Effect]:
    """Return the probabilities from the hits of all tasks."""
    found = []
    for workload in dict.fromkeys(row["workload"] for row in rows):
        of_workload = [row for row in rows if row["workload"] == workload]
        samples = sum(row["samples"] for row in of_workload)
        for tenants in TENANTS:
            full, compressed = (sum(row["hits"][str(tenants)][kind] for row in of_workload) for kind in (0, 1))
            found.append(Effect(workload, tenants, full / samples, compressed / samples, samples))
    return found


@lru_cache(maxsize=1)
def _traces(workload: str) -> TraceSet:
    given = Workload(**{**json.loads(workload), "growth": (), "nodes": ()})
    if given.kind == "region":
        return generate(given.parameters_of_region(), POPULATION, given.trace_seed)
    return read_traces_of(given)
