"""[1] figure 8: the annealing engine with the original and the modified energy, with an oracle and initial demands.

Beyond [1], the study has the default energy.
"""

from __future__ import annotations

from cluster.studies.base import MODIFIED, ORIGINAL, OVERLOAD, with_initial_demand, with_oracle
from cluster.studies.figures import Claim, ClaimTable, PolicyStudy
from cluster.studies.request import ANNEALING_PILOT, StudyRequest
from cluster.studies.violations import Violations

DAYS = 10.0
"""[1] section 8.2."""
REPEATS = 10
"""Three in [1], whose intervals would be wider."""
TUNED_ON = ("region1", "region3")
"""The regions on whose tenants, with other seeds, the weights of the default energy were chosen."""
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
