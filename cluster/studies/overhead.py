"""[1] section 8.5: memory and time of violation probabilities."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import attrs
import numpy as np

from cluster.bench.engine import SizeBench, bench_cluster
from cluster.scenario.scenario import AS_IN_PAPER, WITHOUT_RISK
from cluster.studies.base import AT_DEPARTURES, BY_PEAKS
from cluster.studies.design import SimulatedStudy, run_simulation
from cluster.studies.figures import Claim, counts_as_json, figures_of, placement_claims, table_of_claims, violations_of
from cluster.studies.request import POLICIES_PILOTS, StudyRequest
from cluster.studies.runner import Finished, StudyResult
from workloads.regions import REGIONS, generate_history

DAYS, QUICK_DAYS = 3.0, 0.5
WARM_UP_DAYS, WARM_UP_DENSITY = 0.02, 1.0
NODES, CONFIGURATIONS = 40, 1000
ACCEPTANCE = 0.05
"""Approximate share of the proposals that an annealing search accepts while it is measured."""
HISTORY_TENANTS = 20_000
"""Past tenants of the measured demand models."""
PUBLISHED_PLACEMENT = {"prv_best_fit": "9.66 to 76.7 ms", "prv_worst_fit": "8.58 to 65.4 ms"}
"""By policy: the least and the largest mean over the densities."""
ARMS = (*BY_PEAKS, *AT_DEPARTURES)


@cache
def _load_kernels(arguments: str) -> None:
    """Execute a short run, which loads machine code; it is the same at every density."""
    run_simulation(json.loads(arguments))


def memory_claims() -> list[Claim]:
    """Return the bytes of a demand model, and of the aggregates of a search."""
    history = generate_history(next(iter(REGIONS.values())), HISTORY_TENANTS, 0)
    fields = attrs.asdict(history, recurse=False).values()
    columns = [value for value in fields if isinstance(value, np.ndarray) and len(value) == len(history)]
    solution = SizeBench(bench_cluster(NODES, 0), 1000, 0).solution
    kept = solution.aggregate.nbytes
    return [
        Claim("memory of a demand model", "66 bytes", f"{sum(one.nbytes for one in columns) / len(history):.0f} bytes"),
        Claim(f"memory of the sums of {NODES} nodes", "32 KB", f"{kept / 1024:.0f} KB"),
    ]


def scoring_claims(nodes: int = NODES, proposals: int = 100_000) -> list[Claim]:
    """Return the time of a thousand configurations with the original and with the modified energy."""
    found = []
    for label, paper, weights in (("original", "432 ms", WITHOUT_RISK), ("modified", "890 ms", AS_IN_PAPER)):
        engine = bench_cluster(nodes, 0)
        engine.configure(attrs.evolve(engine.config, **weights))
        bench = SizeBench(engine, proposals, 0)
        seconds = CONFIGURATIONS / bench.early(bench.temperature_for(ACCEPTANCE))[0]
        found.append(Claim(f"1,000 configurations, {label} energy", paper, f"{1000 * seconds:.2f} ms"))
    return found


def _least_to_largest(times: Sequence[float]) -> str:
    return f"{min(times):.2f} to {max(times):.2f} ms"


class OverheadStudy(SimulatedStudy):
    """[1] section 8.5: the policies with probabilities at the densities of the study of policies."""

    name = "overhead"
    jobs = 1

    @classmethod
    def of(cls, request: StudyRequest) -> OverheadStudy:
        """Return the study that a user requests, of one region."""
        one = attrs.evolve(request, base=attrs.evolve(request.base, workloads=request.base.workloads[:1]))
        return cls(one.design(POLICIES_PILOTS[:1], ARMS, repeats=1, days=DAYS, quick_days=QUICK_DAYS))

    @staticmethod
    def run(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Execute a run as `cluster.studies.design.run_simulation` does, after its kernels are loaded."""
        scenario = arguments["scenario"]
        run, workload = {**scenario["run"], "days": WARM_UP_DAYS}, {**scenario["workload"]}
        if "density" in workload:
            workload["density"] = WARM_UP_DENSITY
        short = {"repeat": 0, "scenario": {**scenario, "run": run, "workload": workload}}
        _load_kernels(json.dumps(short, sort_keys=True))
        return run_simulation(arguments)

    def result(self, finished: Finished) -> StudyResult:
        """Return times and bytes; those without a cluster are measured now."""
        claims = [
            *memory_claims(),
            *scoring_claims(),
            *placement_claims(finished, ARMS, _least_to_largest, PUBLISHED_PLACEMENT),
        ]
        found = violations_of(self.design.settings, finished.rows)
        figures = figures_of(self.name, found.as_json(), counts=counts_as_json(claims))
        return StudyResult(figures, (table_of_claims(claims, "overheads", ""),))
