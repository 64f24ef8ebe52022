"""Estimators of risk compared: Monte Carlo [1], Gaussian [2] and peak predictors [5] in the same cluster.

Each provides the violation probabilities of PrV-WorstFit and the expected failovers of the annealing engine. Their
parameters are those of the papers, in samples of ten minutes. They are not tuned.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import numpy as np

from cluster.studies.arms import MODIFIED, Arm
from cluster.studies.densities import density_ratios
from cluster.studies.figures import Claim, ClaimTable, Violations, counts_as_json, placement_claims, table_of_claims
from cluster.studies.pilots import ANNEALING_PILOT
from cluster.studies.policy_study import PolicyStudy
from cluster.studies.request import StudyRequest
from cluster.studies.runner import Finished
from cluster.studies.study import StudyResult
from plb import Replay
from plb.risk.estimators import HistoricalSimulation, MonteCarlo
from plb.validation import check_number

DAYS, REPEATS = 10.0, 2
FILL_HOURS = 24.0
"""Hours over which the first tenants arrive. Estimators from reports have no data on tenants that arrive at once."""
MONTE_CARLO = MonteCarlo.kind
ESTIMATORS: Mapping[str, Mapping[str, str]] = {
    MONTE_CARLO: {"estimator": MONTE_CARLO},
    "gaussian": {"estimator": "gaussian:warmup=12,history=144"},
    "n-sigma": {"estimator": "n-sigma:n=5,warmup=12,history=60"},
    "rc-like": {"estimator": "rc-like:percentile=99,warmup=12,history=60"},
    "borg-default": {"estimator": "borg-default:phi=0.9"},
    "max": {"estimator": "max(n-sigma:n=5,warmup=12,history=60;rc-like:percentile=99,warmup=12,history=60)"},
}
"""Settings of the engine by label. Two hours of warm-up and ten of history ([5] section 5.3); a day of history for the
Gaussian."""
BEYOND_PAPERS: Mapping[str, Mapping[str, str]] = {
    f"{MONTE_CARLO}, 24 h": {"estimator": "monte-carlo:horizon=24", "replay": Replay.FROM_PRESENT.value},
    HistoricalSimulation.kind: {"estimator": HistoricalSimulation.kind},
}
"""Those of no paper, which have an expected overload, too; other studies have them."""
PLACEMENT = "prv_worst_fit"
ANNEALING = MODIFIED.name
POLICIES = (PLACEMENT, ANNEALING)
"""Policies that use each estimator."""


ARMS = tuple(
    Arm(f"{policy}, {label}", policy, engine=settings) for policy in POLICIES for label, settings in ESTIMATORS.items()
)


class RiskStudy(PolicyStudy):
    """Violations under each estimator."""

    name = "risk"
    compared = f"{PLACEMENT}, {MONTE_CARLO}"
    plot = "risk.png"

    @classmethod
    def of(cls, request: StudyRequest) -> RiskStudy:
        """Return the study that a user requests."""
        if request.base.is_of_regions:
            if request.days is not None:
                check_number("study", "days", request.days, low=FILL_HOURS / 24.0)
            tables = {**request.base.tables, "run": {"fill_hours": FILL_HOURS}}
            request = attrs.evolve(request, base=attrs.evolve(request.base, tables=tables))
        return cls(request.design((ANNEALING_PILOT,), ARMS, repeats=REPEATS, days=DAYS))

    def claims(self, found: Violations) -> list[Claim]:
        """Return the ratios of violations to those with Monte Carlo, and of densities at equal violations."""
        ratios = [
            Claim(
                f"{policy}: {label} / {MONTE_CARLO}",
                "",
                found.ratio([f"{policy}, {label}"], f"{policy}, {MONTE_CARLO}"),
            )
            for policy in POLICIES
            for label in ESTIMATORS
            if label != MONTE_CARLO
        ]
        return [*ratios, *_density_claims(found)]

    def table(self, found: Violations) -> ClaimTable:
        """Return the mean violations by setting with PrV-WorstFit."""
        columns = {label: found.means(f"{PLACEMENT}, {label}") for label in ESTIMATORS}
        return ClaimTable(found.settings, columns, {}, "gaussian", MONTE_CARLO)

    def result(self, finished: Finished) -> StudyResult:
        """Return violations, ratios and costs, and the times of decisions."""
        result = super().result(finished)
        if not result.tables:
            return result
        decisions = placement_claims(finished, ARMS, lambda times: f"{np.mean(times):.2f} ms")
        caption = "means over runs, which other processes on the machine slow down"
        counts = {**result.figures["counts"], **counts_as_json(decisions)}
        times = table_of_claims(decisions, "risk: time per decision", caption)
        return attrs.evolve(result, figures={**result.figures, "counts": counts}, tables=(*result.tables, times))


def _density_claims(found: Violations) -> list[Claim]:
    """Return the density of each estimator at the median violations of Monte Carlo, relative to Monte Carlo."""
    claims = []
    for policy in POLICIES:
        for label in ESTIMATORS:
            ratios, workloads = density_ratios(found, f"{policy}, {label}", f"{policy}, {MONTE_CARLO}")
            if label == MONTE_CARLO or not workloads:
                continue
            mean = f"{np.mean(ratios):.3f}" if ratios else "-"
            ours = f"{mean} ({len(ratios)} of {workloads} workloads)"
            claims.append(Claim(f"{policy}: density at equal violations, {label} / {MONTE_CARLO}", "", ours))
    return claims
