"""Rebalancing that avoids violations, compared with failovers alone and with balancing by thresholds.

Tenants that stay have a past. With recorded arrivals each workload is a period of the recorded time with so many of its
tenants that the nodes have a utilisation; tenants that are there at its begin have reported before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

import attrs
import numpy as np
from rich.table import Table

from cluster.studies.base import Arm, Base
from cluster.studies.design import StudySetting
from cluster.studies.figures import Claim, ClaimTable, PolicyStudy, means_of
from cluster.studies.request import ANNEALING_PILOT, StudyRequest
from cluster.studies.runner import Finished, Row, StudyResult
from cluster.studies.violations import Violations
from cluster.tables import new_table
from plb import PlbError
from plb.settings.config import SERVICE_FABRIC_FORM

DAYS, QUICK_DAYS, REPEATS = 21.0, 3.0, 10
PERIOD_HOURS, PERIODS = 720.0, 2
"""Hours between the starts of two periods, and number of periods: with Bitbrains, August and September."""
UTILISATIONS = (0.2, 0.25, 0.3)
"""Mean load of a run as a share of the capacity, without `--quick`."""
FEWEST, MOST = 2.0, 50.0
"""Mean violations of failovers alone in the settings of the ratios: with fewer there is little to avoid, and with more
the cluster is overloaded.
"""
MIDDLE = 1
"""Densities of a region."""
REGION_METRICS = ("cpu", "memory", "disk")
DAILY = 86_400.0
ALONE, THRESHOLDS, THRESHOLDS_DAILY = "failovers alone", "Service Fabric's balancing", "Service Fabric's, once a day"
THRESHOLDS_OF_MEANS = "balance of the week's mean"
PAST, KNOWN, DEFAULT = "historical simulation", "next day known", "default energy"
ESTIMATORS: Mapping[str, str] = {
    PAST: "historical-simulation:horizon=1",
    "n-sigma": "n-sigma:n=5,warmup=12,history=144",
    "rc-like": "rc-like:percentile=99,warmup=12,history=144",
}
"""Estimators that start balancing, once a day, where violations are worth a move."""
HOURS_OF_A_DAY, HOURS_OF_A_WEEK = 24.0, 168.0
ESTIMATOR_OF_A_DAY = "historical-simulation:horizon=1,slots=24"
"""Estimator of the arm whose reported past is the day ahead."""
OF_ALL_ARMS = ("capacity_limit", "initial_temperature", "chains", "one_action_per_refresh", "w_failovers", "w_overload")
"""Fields of Service Fabric's form that are the same for all arms."""
NOT_OF_SIMULATIONS = ("is_singleton_replica_move_allowed_during_upgrade", "drain_removed_nodes", "allow_chained_moves")
"""Fields of Service Fabric's form that simulations do not need or do not allow."""
BALANCING_OF_SERVICE_FABRIC: Mapping[str, Any] = {
    **{
        name: value.value if isinstance(value, Enum) else value
        for name, value in SERVICE_FABRIC_FORM.items()
        if name not in OF_ALL_ARMS + NOT_OF_SIMULATIONS
    },
    "min_load_balancing_interval": 5.0,
}
"""The product form and the interval of Service Fabric."""
COSTS: Mapping[str, str] = {
    "violations": "violations",
    "violations_avoidable": "avoidable",
    "violated_node_minutes": "violated node-minutes",
    "failovers": "failovers",
    "moves": "moves",
    "downtime_seconds": "downtime (s)",
}
"""Totals of a run, with their headings."""


def arms_of(metrics: Sequence[str]) -> tuple[Arm, ...]:
    """Return the compared arms for a workload with these metrics; only Service Fabric's balance by thresholds."""
    estimating = (
        Arm(name, "original", engine={"estimator": estimator, **daily_by_risk(metrics)})
        for name, estimator in ESTIMATORS.items()
    )
    daily = {**BALANCING_OF_SERVICE_FABRIC, "min_load_balancing_interval": DAILY}
    with_known_day = {"estimator": ESTIMATOR_OF_A_DAY, **daily_by_risk(metrics)}
    return (
        Arm(ALONE, "original"),
        Arm(THRESHOLDS, "original", engine=BALANCING_OF_SERVICE_FABRIC),
        Arm(THRESHOLDS_DAILY, "original", engine=daily),
        Arm(THRESHOLDS_OF_MEANS, "original", workload={"balanced_hours": HOURS_OF_A_WEEK}, engine=daily),
        *estimating,
        Arm(KNOWN, "original", workload={"known_hours": HOURS_OF_A_DAY}, engine=with_known_day),
    )


def arms_of_regions(metrics: Sequence[str]) -> tuple[Arm, ...]:
    """Return the compared arms for tenants that come and go, which the default energy places by past tenants."""
    rebalanced = daily_by_risk(metrics)
    return (
        Arm(ALONE, "original"),
        Arm(PAST, "original", engine={"estimator": ESTIMATORS[PAST], **rebalanced}),
        Arm(DEFAULT, "expected_overload"),
        Arm(f"{DEFAULT}, rebalancing", "expected_overload", engine=rebalanced),
    )


def daily_by_risk(metrics: Sequence[str]) -> dict[str, Any]:
    """Return settings with which violations that are worth a move, and no uneven loads, start balancing once a day."""
    off = {name: {"balancing_threshold": 0.0} for name in metrics}
    return {"violation_cost": 1.0, "min_load_balancing_interval": DAILY, "metrics": off}


def in_periods(base: Base, periods: int, utilisations: Sequence[float]) -> Base:
    """Return a base of recorded arrivals whose workloads are periods at utilisations."""
    workload = base.tables["workload"]
    if workload.get("each_repeat") != "resample":
        message = 'has to have recorded arrivals and each_repeat = "resample", as each repeat has other tenants'
        raise PlbError(f"study rebalancing: [workload] of {base.workloads[0]} {message}")
    if "simulated_share" in workload:
        raise PlbError(f"study rebalancing: [workload] of {base.workloads[0]} has simulated_share; use utilisation")
    first = workload.get("from_hours", 0.0)
    variants = {
        f"{base.workloads[0]}, hour {begin:g}, utilisation {utilisation:g}": {
            "from_hours": begin,
            "utilisation": utilisation,
        }
        for begin in (first + period * PERIOD_HOURS for period in range(periods))
        for utilisation in utilisations
    }
    return attrs.evolve(base, workloads=tuple(variants), variants=variants)


class RebalancingStudy(PolicyStudy):
    """Violations and moves with and without rebalancing."""

    name = "rebalancing"
    compared = ALONE
    plot = "rebalancing.png"

    @classmethod
    def of(cls, request: StudyRequest) -> RebalancingStudy:
        """Return the study that a user requests: of periods of recorded arrivals, or at the densities of others."""
        base = request.base
        capacities = base.tables.get("cluster", {}).get("capacities")
        if base.density:
            arms = arms_of_regions([*(capacities or REGION_METRICS)])
            return cls(
                request.design((ANNEALING_PILOT,), arms, repeats=REPEATS, days=10.0, quick_days=1.0, middle=MIDDLE)
            )
        if capacities is None:
            raise PlbError(f"study rebalancing: [cluster] of {base.workloads[0]} needs capacities")
        usual = base.tables["workload"].get("utilisation") or UTILISATIONS[1]
        base = in_periods(base, 1, (usual,)) if request.quick else in_periods(base, PERIODS, UTILISATIONS)
        settings = [StudySetting(name, base.vcores or 0.0, 0.0) for name in base.workloads]
        request = attrs.evolve(request, base=base)
        return cls(
            request.design_at(settings, arms_of([*capacities]), repeats=REPEATS, days=DAYS, quick_days=QUICK_DAYS)
        )

    def claims(self, violations: Violations) -> list[Claim]:
        """Return ratios of violations between arms, in settings that have some violations without rebalancing."""
        alone = dict(zip(violations.settings, violations.means(ALONE), strict=True))
        some = violations.where(lambda setting: FEWEST <= alone[setting] <= MOST)
        return [
            Claim(f"{name} / {below}", "", some.ratio([name], below))
            for below in (ALONE, THRESHOLDS, THRESHOLDS_DAILY, DEFAULT)
            for name in violations.counts
            if below in violations.counts and name not in (below, ALONE)
        ]

    def tables(self, violations: Violations) -> list[ClaimTable]:
        """Return the mean violations by setting."""
        columns = {name: violations.means(name) for name in violations.counts}
        return [ClaimTable(violations.settings, columns, {}, PAST, ALONE)]

    def result(self, finished: Finished) -> StudyResult:
        """Return violations, ratios and costs, also in numbers of a run."""
        result = super().result(finished)
        if not result.tables:
            return result
        means = {arm.name: means_of_arm(finished.rows, arm.name) for arm in self.design.arms}
        return attrs.evolve(
            result,
            figures={**result.figures, "means": means},
            tables=(*result.tables, table_of_costs(means, self.design.repeats)),
        )


def means_of_arm(rows: Sequence[Row], arm: str) -> dict[str, float]:
    """Return the mean totals of the runs of an arm, by name."""
    return {total: float(np.mean([row[total] for row in rows if row["arm"] == arm])) for total in COSTS}


def table_of_costs(means: Mapping[str, Mapping[str, float]], repeats: int) -> Table:
    """Return the mean totals of each arm."""
    caption = f"a run, means over settings and {means_of(repeats)}; moves: failovers and planned ones"
    table = new_table(("", *COSTS.values()), title="rebalancing: what a run costs", caption=caption)
    for arm, of_arm in means.items():
        table.add_row(arm, *(f"{of_arm[total]:,.1f}" for total in COSTS))
    return table
