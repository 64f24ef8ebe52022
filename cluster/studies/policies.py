"""[1] figure 9: placement one replica at a time with violation probabilities and without; and section 8.5: its cost."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import attrs
import numpy as np

from cluster.bench.engine import SizeBench, bench_cluster
from cluster.scenario.scenario import AS_IN_PAPER, WITHOUT_RISK
from cluster.studies.base import (
    AT_DEPARTURES,
    BY_PEAKS,
    INITIAL_DEMAND_PERCENTILES,
    PLACEMENT_ARMS,
    WITHOUT_PROBABILITIES,
    Arm,
    with_initial_demand,
    with_oracle,
)
from cluster.studies.design import SimulatedStudy, alike, run_simulation
from cluster.studies.figures import (
    Claim,
    ClaimTable,
    PolicyStudy,
    counts_as_json,
    figures_of,
    placement_claims,
    table_of_claims,
)
from cluster.studies.request import POLICIES_PILOTS, StudyRequest
from cluster.studies.runner import Finished, StudyResult
from cluster.studies.violations import Violations, violations_of
from workloads.regions import REGIONS, generate_history

DAYS, REPEATS, CORE_REPEATS = 12.5, 20, 5
"""[1] section 8.3: 300 hours, 20 times."""
FIRST_HARDWARE, SECOND_HARDWARE = 80.0, 128.0
"""vCores of a node ([1] sections 8.1 and 8.3)."""
BEST_FIT, WORST_FIT = (arm.name for arm in AT_DEPARTURES)
"""The figure is of policies that are tested at departures."""
SLOW = ("best_fit_sum", "best_fit_max", "repacking")
"""Policies that are left out unless the study is full: they take longest, and have by far the most violations, as they
fill nodes up to their threshold.
"""
ORACLES = tuple(with_oracle(arm) for arm in PLACEMENT_ARMS)
PERCENTILES = tuple(percentile for percentile in INITIAL_DEMAND_PERCENTILES if percentile != 50)
PUBLISHED = {
    FIRST_HARDWARE: {WORST_FIT: ("2.57", "50 of 52", "2.27", "49 of 52"), BEST_FIT: ("2.6", "", "1.74", "")},
    SECOND_HARDWARE: {
        WORST_FIT: ("2.1", "16 of 16", "1.6", "16 of 16"),
        BEST_FIT: ("2.0", "14 of 16", "1.4", "10 of 16"),
    },
}
"""[1] section 8.3, by vCores and policy: ratio of the best policy without probabilities to this policy, settings in
which this policy is at least as good, and the same two figures for the best with the oracle."""


def arms(*, full: bool = False, oracle: bool = False, initial_demand: bool = False) -> tuple[Arm, ...]:
    """Return the compared arms: the core, and optionally arms with an oracle and with other initial demands.

    `full`: all policies, also tested by peaks, and all options.
    """
    placement = [arm for arm in PLACEMENT_ARMS if full or arm.name not in SLOW]
    compared = [*placement, *(BY_PEAKS if full else ()), *AT_DEPARTURES]
    if oracle or full:
        compared += [with_oracle(arm) for arm in placement]
    if initial_demand or full:
        varied = (*placement, *(arm for arm in AT_DEPARTURES if arm.name == WORST_FIT))
        compared += [with_initial_demand(arm, percentile) for percentile in PERCENTILES for arm in varied]
    return tuple(compared)


class PlacementPolicyStudy(PolicyStudy):
    """[1] figure 9."""

    name = "policies"
    compared = WORST_FIT
    plot = "figure9.png"

    @classmethod
    def of(cls, request: StudyRequest) -> PlacementPolicyStudy:
        """Return the study that a user requests; the cluster of a scenario has one kind of hardware."""
        pilots = POLICIES_PILOTS if request.base.is_of_regions else POLICIES_PILOTS[:1]
        compared_arms = arms(full=request.full, oracle=request.oracle, initial_demand=request.initial_demand)
        return cls(request.design(pilots, compared_arms, repeats=REPEATS if request.full else CORE_REPEATS, days=DAYS))

    def claims(self, violations: Violations) -> list[Claim]:
        """Return the figures of [1] section 8.3, each beside ours, by hardware."""
        vcores = dict.fromkeys(setting.vcores for setting in violations.settings)
        return [claim for hardware in vcores for claim in _of_hardware(violations, hardware)]

    def tables(self, violations: Violations) -> list[ClaimTable]:
        """Return the table of mean violations by setting; of the policies without probabilities, only the best."""
        without = _with_runs(violations, WITHOUT_PROBABILITIES)
        columns = {"best without": violations.least(without)}
        remarks = {"best without": violations.best(without)}
        oracles = _with_runs(violations, [arm.name for arm in ORACLES])
        if oracles:
            columns["best with oracle"] = violations.least(oracles)
            remarks["best with oracle"] = [name.removesuffix("+oracle") for name in violations.best(oracles)]
        columns |= {arm.name: violations.means(arm.name) for arm in AT_DEPARTURES}
        return [ClaimTable(violations.settings, columns, remarks, "best without", WORST_FIT)]


def _with_runs(violations: Violations, names: Sequence[str]) -> list[str]:
    """Return the named arms that the study has."""
    return [name for name in names if name in violations.counts]


def _of_hardware(violations: Violations, vcores: float) -> list[Claim]:
    """Return the figures of [1] section 8.3, each beside ours, for nodes with some vCores."""
    violations = violations.where(lambda setting: setting.vcores == vcores)
    groups = {"best without probabilities": _with_runs(violations, WITHOUT_PROBABILITIES)}
    groups["best with oracle"] = _with_runs(violations, [arm.name for arm in ORACLES])
    by_peaks = _with_runs(violations, [arm.name for arm in reversed(BY_PEAKS)])
    claims = []
    for name in (WORST_FIT, BEST_FIT, *by_peaks):
        published = PUBLISHED.get(vcores, {}).get(name, ("", "", "", ""))
        for index, (label, group) in enumerate(groups.items()):
            if not group:
                continue
            ratio, settings = published[2 * index : 2 * index + 2]
            as_good_in_words = f"{violations.at_least_as_good(name, group)} of {len(violations.settings)}"
            claims.append(Claim(f"{vcores:g} vCores: {label} / {name}", ratio, violations.ratio(group, name)))
            claims.append(Claim(f"{vcores:g} vCores: {name} at least as good as {label}", settings, as_good_in_words))
    without = groups["best without probabilities"]
    for words, of_rank in _by_rank_of_density(violations):
        label = f"{vcores:g} vCores, {words}: best without probabilities / {WORST_FIT}"
        claims.append(Claim(label, "", of_rank.ratio(without, WORST_FIT)))
    for rival in without:
        label = f"{vcores:g} vCores: {WORST_FIT} against {rival}, pairs"
        claims.append(Claim(label, "", str(violations.pairs(WORST_FIT, rival))))
    for percentile in PERCENTILES if vcores == FIRST_HARDWARE else ():
        rivals = _with_runs(violations, [f"{name}@p{percentile}" for name in WITHOUT_PROBABILITIES])
        if rivals:
            label = f"{vcores:g} vCores, p{percentile}: best without probabilities / {WORST_FIT}"
            claims.append(Claim(label, "2.42 to 2.57", violations.ratio(rivals, f"{WORST_FIT}@p{percentile}")))
    return claims


def _by_rank_of_density(violations: Violations) -> Iterator[tuple[str, Violations]]:
    """Yield the violations at the lowest density of each workload, at the next one and so on, with the rank in words.

    Nothing if no workload has several densities.
    """
    groups = [sorted(group, key=lambda setting: setting.density) for group in alike(violations.settings)]
    count = max(map(len, groups), default=0)
    for rank in range(count if count > 1 else 0):
        of_rank = {group[rank] for group in groups if rank < len(group)}
        yield f"density {rank + 1} of {count}", violations.where(of_rank.__contains__)


OVERHEAD_DAYS, QUICK_OVERHEAD_DAYS = 3.0, 0.5
WARM_UP_DAYS, WARM_UP_DENSITY = 0.02, 1.0
NODES, CONFIGURATIONS = 40, 1000
ACCEPTANCE = 0.05
"""Approximate share of the proposals that an annealing search accepts while it is measured."""
HISTORY_TENANTS = 20_000
"""Past tenants of the measured demand models."""
PUBLISHED_PLACEMENT = {"prv_best_fit": "9.66 to 76.7 ms", "prv_worst_fit": "8.58 to 65.4 ms"}
"""By policy: the least and the largest mean over the densities."""
MEASURED = (*BY_PEAKS, *AT_DEPARTURES)


@cache
def _load_kernels(arguments: str) -> None:
    """Execute the short run of a task, given as JSON, once: it loads machine code, which all densities share."""
    run_simulation(json.loads(arguments))


def memory_claims() -> list[Claim]:
    """Return the bytes of a demand model, and of the aggregates of a search."""
    history = generate_history(next(iter(REGIONS.values())), HISTORY_TENANTS, 0)
    fields = attrs.asdict(history, recurse=False).values()
    columns = [value for value in fields if isinstance(value, np.ndarray) and len(value) == len(history)]
    solution = SizeBench(bench_cluster(NODES, 0), 1000, 0).solution
    bytes_of_sums = solution.aggregate.nbytes
    return [
        Claim(
            "memory of a demand model",
            "66 bytes",
            f"{sum(column.nbytes for column in columns) / len(history):.0f} bytes",
        ),
        Claim(f"memory of the sums of {NODES} nodes", "32 KB", f"{bytes_of_sums / 1000:.0f} KB"),
    ]


def scoring_claims(nodes: int = NODES, proposals: int = 100_000) -> list[Claim]:
    """Return the time to score a thousand configurations of `nodes` by each energy, measured over some `proposals`."""
    claims = []
    for label, paper, weights in (("original", "432 ms", WITHOUT_RISK), ("modified", "890 ms", AS_IN_PAPER)):
        engine = bench_cluster(nodes, 0)
        engine.configure(attrs.evolve(engine.config, **weights))
        bench = SizeBench(engine, proposals, 0)
        seconds = CONFIGURATIONS / bench.early(bench.temperature_for(ACCEPTANCE))[0]
        claims.append(Claim(f"1,000 configurations, {label} energy", paper, f"{1000 * seconds:.2f} ms"))
    return claims


class OverheadStudy(SimulatedStudy):
    """[1] section 8.5: the policies with probabilities at the densities of the study of policies."""

    name = "overhead"
    jobs = 1

    @classmethod
    def of(cls, request: StudyRequest) -> OverheadStudy:
        """Return the study that a user requests, of one region."""
        region_request = attrs.evolve(request, base=attrs.evolve(request.base, workloads=request.base.workloads[:1]))
        return cls(
            region_request.design(
                POLICIES_PILOTS[:1], MEASURED, repeats=1, days=OVERHEAD_DAYS, quick_days=QUICK_OVERHEAD_DAYS
            )
        )

    @staticmethod
    def run(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Execute a run as `cluster.studies.design.run_simulation` does, after its kernels are loaded."""
        scenario = arguments["scenario"]
        run, workload = {**scenario["run"], "days": WARM_UP_DAYS}, {**scenario["workload"]}
        if "density" in workload:
            workload["density"] = WARM_UP_DENSITY
        short_arguments = {"repeat": 0, "scenario": {**scenario, "run": run, "workload": workload}}
        _load_kernels(json.dumps(short_arguments, sort_keys=True))
        return run_simulation(arguments)

    def result(self, finished: Finished) -> StudyResult:
        """Return times and bytes; figures that need no cluster are measured now."""
        claims = [
            *memory_claims(),
            *scoring_claims(),
            *placement_claims(
                finished, MEASURED, lambda times: f"{min(times):.2f} to {max(times):.2f} ms", PUBLISHED_PLACEMENT
            ),
        ]
        violations = violations_of(self.design.settings, finished.rows)
        paper = {claim.label: claim.paper for claim in claims}
        figures = figures_of(self.name, violations.as_json(), counts=counts_as_json(claims), paper=paper)
        return StudyResult(figures, (table_of_claims(claims, "overheads", ""),))
