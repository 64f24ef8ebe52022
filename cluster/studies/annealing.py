"""[1] figure 8: the annealing engine with the original and the modified energy, with an oracle and initial demands.

Beyond [1], candidates for settings of the engine are compared on some regions, with tenants that no other study uses.
The study of figure 8 has the chosen candidate on all regions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from cluster.studies.base import (
    MODIFIED,
    ORIGINAL,
    OVERLOAD,
    Arm,
    Base,
    with_initial_demand,
    with_oracle,
)
from cluster.studies.design import BUDGET, StudySetting
from cluster.studies.figures import Claim, ClaimTable, PolicyStudy
from cluster.studies.request import ANNEALING_PILOT, DENSITIES, StudyRequest
from cluster.studies.risk import BEYOND_PAPERS
from cluster.studies.violations import Violations
from plb import PlbConfig, PlbError

DAYS = 10.0
"""[1] section 8.2."""
REPEATS = 10
"""Three in [1], whose intervals would be wider."""
TUNED_ON = ("region1", "region3")
"""The regions on which candidates are compared."""
ORACLE = with_oracle(ORIGINAL)
PERCENTILES = tuple(with_initial_demand(ORIGINAL, percentile) for percentile in (80, 99))
"""The lowest and the highest percentile in [1] above the 50th, which the original assumes."""
ARMS = (ORIGINAL, *PERCENTILES, ORACLE, MODIFIED, OVERLOAD)
QUICK_ARMS = (ORIGINAL, ORACLE, MODIFIED, OVERLOAD)


class AnnealingStudy(PolicyStudy):
    """[1] figure 8."""

    name = "annealing"
    compared = MODIFIED.name
    plot = "figure8.png"

    @classmethod
    def of(cls, request: StudyRequest) -> AnnealingStudy:
        """Return the study that a user requests."""
        arms = QUICK_ARMS if request.quick else ARMS
        return cls(request.design((ANNEALING_PILOT,), arms, repeats=REPEATS, days=DAYS))

    def claims(self, violations: Violations) -> list[Claim]:
        """Return the figures of [1] section 8.2, each beside ours."""
        original, modified, oracle = ORIGINAL.name, MODIFIED.name, ORACLE.name
        setting_count = len(violations.settings)
        better_count = int((violations.means(modified) < violations.means(original)).sum())
        tied_count = violations.at_least_as_good(modified, [original]) - better_count
        improved_count = int((violations.means(oracle) < violations.means(original)).sum())
        percentiles = [arm.name for arm in PERCENTILES if arm.name in violations.counts]
        best_demand_claims = [
            Claim("best initial demand / modified", "1.5", violations.ratio(_percentiles(violations), modified))
        ]
        return [
            Claim("original / modified", "2.6", violations.ratio([original], modified)),
            *(best_demand_claims if percentiles else []),
            *(Claim(f"{name} / modified", "", violations.ratio([name], modified)) for name in percentiles),
            Claim("original with oracle / modified", "2.5", violations.ratio([oracle], modified)),
            *_of_default(violations),
            Claim(
                "modified better (tied) against original",
                "15 (1) of 16",
                f"{better_count} ({tied_count}) of {setting_count}",
            ),
            Claim("oracle better than original", "7 of 16", f"{improved_count} of {setting_count}"),
            Claim("modified against original, pairs", "", str(violations.pairs(modified, original))),
            Claim("default against modified, pairs", "", str(violations.pairs(OVERLOAD.name, modified))),
        ]

    def tables(self, violations: Violations) -> list[ClaimTable]:
        """Return the table of the mean violations by setting."""
        columns = {ORIGINAL.name: violations.means(ORIGINAL.name)}
        remarks = {}
        demand_arms = _percentiles(violations)
        if len(demand_arms) > 1:
            columns["best initial demand"] = violations.least(demand_arms)
            remarks["best initial demand"] = [name.partition("@")[2] or "p50" for name in violations.best(demand_arms)]
        columns |= {arm.name: violations.means(arm.name) for arm in (ORACLE, MODIFIED, OVERLOAD)}
        return [ClaimTable(violations.settings, columns, remarks, ORIGINAL.name, MODIFIED.name)]


def _of_default(violations: Violations) -> list[Claim]:
    """Return claims on the violations by the default energy, over all settings and where it was not tuned."""
    default, modified = OVERLOAD.name, MODIFIED.name
    untuned_violations = violations.where(lambda setting: setting.workload not in TUNED_ON)
    as_good_in_words = f"{violations.at_least_as_good(default, [modified])} of {len(violations.settings)}"
    return [
        Claim(f"{default} / {modified}", "", violations.ratio([default], modified)),
        *(
            [Claim("... where it was not tuned", "", untuned_violations.ratio([default], modified))]
            if 0 < len(untuned_violations.settings) < len(violations.settings)
            else []
        ),
        Claim(f"original / {default}", "", violations.ratio([ORIGINAL.name], default)),
        Claim(f"{default} at least as good as {modified}", "", as_good_in_words),
    ]


def _percentiles(violations: Violations) -> list[str]:
    """Return the names of the arms with runs that differ in the initial demand alone."""
    return [name for name in (ORIGINAL.name, *(arm.name for arm in PERCENTILES)) if name in violations.counts]


CANDIDATE_DAYS, CANDIDATE_REPEATS = 10.0, 2
FIRST_SEED = 1001
"""Added to the seed of the user. Other studies begin at 0, and their pilots have another seed."""
VCORES = 80.0
ROUNDS = "max_simulated_annealing_iterations"
REPETITIONS: Any = attrs.fields(PlbConfig).repetitions.default
"""The default of K."""
INTERVALS = {"hour": 3600.0, "10 minutes": 600.0}
"""Seconds between two searches for balance."""
OVERLOAD_ALONE, OVERLOAD_AHEAD = (10, 30, 100, 300), (30, 100, 300)
LONGER = (10, 1000)
"""Factors of the proposal budget."""
DEFAULT = "w_overload = 100"
"""The default of `plb.PlbConfig`. Of the candidates with at most the failovers, moves and downtime of the modified
energy, it has the fewest violations."""
IMBALANCES = (1, 100)
"""Weights of the imbalance, besides the default's weight."""
WEIGHTS = ("w_failovers", "w_imbalance", "w_overload")
SET_HERE = ("estimator", "evaluation", "min_load_balancing_interval", "replay", *WEIGHTS)
"""Settings that a scenario must not have."""


def candidates_of(base: Base) -> tuple[Arm, ...]:
    """Return the modified energy of [1], and candidates that are named after their difference to it."""
    engine = base.tables.get("engine", {})
    repetitions = 4 * engine.get("repetitions", REPETITIONS)
    rounds = engine.get(ROUNDS, BUDGET[ROUNDS])
    candidates = {
        "timeline": {"evaluation": "timeline"},
        f"K = {repetitions}": {"repetitions": repetitions},
        **{f"w_failovers = {weight}": {"w_failovers": float(weight)} for weight in (1, 10, 100)},
        **{f"w_overload = {weight}": {"w_overload": float(weight)} for weight in OVERLOAD_ALONE},
    }
    for interval_name, interval in INTERVALS.items():
        for weight in OVERLOAD_AHEAD:
            ahead = {"w_overload": float(weight), "min_load_balancing_interval": interval}
            candidates[f"w_overload = {weight}, every {interval_name}"] = ahead
    default_fields = candidates[DEFAULT]
    for weight in IMBALANCES:
        candidates[f"{DEFAULT}, w_imbalance = {weight}"] = {**default_fields, "w_imbalance": float(weight)}
    for label, fields in BEYOND_PAPERS.items():
        candidates[f"{DEFAULT}, {label}"] = {**default_fields, **fields}
    often = f"{DEFAULT}, every 10 minutes"
    longer_searches = {
        f"{often}, {times} times the proposals": {**candidates[often], ROUNDS: times * rounds} for times in LONGER
    }
    return (
        MODIFIED,
        *(Arm(name, MODIFIED.policy, engine=fields) for name, fields in {**candidates, **longer_searches}.items()),
    )


def settings(base: Base, densities: Sequence[float] | None) -> list[StudySetting]:
    """Return the settings at densities, by default the densities of figure 8, or the density of the scenario."""
    if not base.is_of_regions:
        assert base.vcores is not None
        set_fields = [field for field in SET_HERE if field in base.tables.get("engine", {})]
        if set_fields:
            raise PlbError(f"the study of configurations sets engine.{set_fields[0]}; remove it from the scenario")
        return [
            StudySetting(name, base.vcores, density)
            for name in base.workloads
            for density in densities or (base.density,)
        ]
    known_densities = DENSITIES["annealing", VCORES]
    return [StudySetting(name, VCORES, density) for name in TUNED_ON for density in densities or known_densities[name]]


class ConfigurationStudy(PolicyStudy):
    """Violations of the candidates."""

    name = "configurations"
    compared = MODIFIED.name
    plot = "configurations.png"

    @classmethod
    def of(cls, request: StudyRequest) -> ConfigurationStudy:
        """Return the study that a user requests, on regions and tenants that no other study uses."""
        study_settings = settings(request.base, request.densities)
        design = request.design_at(
            study_settings[:1] if request.quick else study_settings,
            candidates_of(request.base),
            repeats=CANDIDATE_REPEATS,
            days=CANDIDATE_DAYS,
            first_seed=FIRST_SEED,
        )
        return cls(design)

    def claims(self, violations: Violations) -> list[Claim]:
        """Return the ratio of the violations of each candidate to the violations of the modified energy."""
        names = (name for name in violations.counts if name != self.compared)
        return [Claim(f"{name} / {self.compared}", "", violations.ratio([name], self.compared)) for name in names]

    def tables(self, violations: Violations) -> list[ClaimTable]:
        """Return the table of the mean violations by setting of the modified energy and of the engine's default."""
        columns = {name: violations.means(name) for name in (self.compared, DEFAULT)}
        return [ClaimTable(violations.settings, columns, {}, self.compared, DEFAULT)]
