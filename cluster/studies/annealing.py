"""[1] figure 8: the annealing engine with the original and the modified energy, with an oracle and initial demands."""

from __future__ import annotations

from cluster.studies.base import (
    INITIAL_DEMAND_PERCENTILES,
    MODIFIED,
    ORIGINAL,
    OVERLOAD,
    with_initial_demand,
    with_oracle,
)
from cluster.studies.energy_configurations import TUNED_ON
from cluster.studies.figures import Claim, ClaimTable, Violations
from cluster.studies.policy_study import PolicyStudy
from cluster.studies.request import ANNEALING_PILOT, StudyRequest

DAYS, REPEATS = 10.0, 3
"""[1] section 8.2."""
ORACLE = with_oracle(ORIGINAL)
PERCENTILES = tuple(with_initial_demand(ORIGINAL, one) for one in INITIAL_DEMAND_PERCENTILES if one != 50)
"""Without the 50th percentile, which the original assumes."""
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

    def claims(self, found: Violations) -> list[Claim]:
        """Return the figures of [1] section 8.2 with ours."""
        original, modified, oracle = ORIGINAL.name, MODIFIED.name, ORACLE.name
        settings = len(found.settings)
        better = int((found.means(modified) < found.means(original)).sum())
        tied = found.at_least_as_good(modified, [original]) - better
        improved = int((found.means(oracle) < found.means(original)).sum())
        percentiles = [arm.name for arm in PERCENTILES if arm.name in found.counts]
        best = [Claim("best initial demand / modified", "1.5", found.ratio(_percentiles(found), modified))]
        return [
            Claim("original / modified", "2.6", found.ratio([original], modified)),
            *(best if percentiles else []),
            *(Claim(f"{name} / modified", "", found.ratio([name], modified)) for name in percentiles),
            Claim("original with oracle / modified", "2.5", found.ratio([oracle], modified)),
            *_of_default(found),
            Claim("modified better (tied) against original", "15 (1) of 16", f"{better} ({tied}) of {settings}"),
            Claim("oracle better than original", "7 of 16", f"{improved} of {settings}"),
        ]

    def tables(self, found: Violations) -> list[ClaimTable]:
        """Return the mean violations by setting."""
        columns = {ORIGINAL.name: found.means(ORIGINAL.name)}
        remarks = {}
        demands = _percentiles(found)
        if len(demands) > 1:
            columns["best initial demand"] = found.least(demands)
            remarks["best initial demand"] = [name.partition("@")[2] or "p50" for name in found.best(demands)]
        columns |= {arm.name: found.means(arm.name) for arm in (ORACLE, MODIFIED, OVERLOAD)}
        return [ClaimTable(found.settings, columns, remarks, ORIGINAL.name, MODIFIED.name)]


def _of_default(found: Violations) -> list[Claim]:
    """Return the figures of the default energy, also in the regions on which it was not tuned."""
    default, modified = OVERLOAD.name, MODIFIED.name
    others = found.where(lambda setting: setting.workload not in TUNED_ON)
    as_good = f"{found.at_least_as_good(default, [modified])} of {len(found.settings)}"
    return [
        Claim(f"{default} / {modified}", "", found.ratio([default], modified)),
        *(
            [Claim("... where it was not tuned", "", others.ratio([default], modified))]
            if 0 < len(others.settings) < len(found.settings)
            else []
        ),
        Claim(f"original / {default}", "", found.ratio([ORIGINAL.name], default)),
        Claim(f"{default} at least as good as {modified}", "", as_good),
    ]


def _percentiles(found: Violations) -> list[str]:
    """Return the arms with runs that differ in the initial demand alone."""
    return [name for name in (ORIGINAL.name, *(arm.name for arm in PERCENTILES)) if name in found.counts]
