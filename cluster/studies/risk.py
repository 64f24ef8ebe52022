"""Estimators of risk compared: Monte Carlo [1], Gaussian [2], peak predictors [5] and historical simulation.

Each provides the violation probabilities of PrV-WorstFit and the expected failovers of the annealing engine, which also
minimises the expected overload if the estimator has one. The parameters come from the papers, in samples of ten
minutes, or are the defaults. They are not tuned.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import numpy as np

from cluster.studies.base import ORIGINAL, OVERLOAD, Arm
from cluster.studies.figures import Claim, ClaimTable, PolicyStudy, counts_as_json, placement_claims, table_of_claims
from cluster.studies.request import ANNEALING_PILOT, StudyRequest
from cluster.studies.runner import Finished, StudyResult
from cluster.studies.violations import Violations
from plb import Replay
from plb.risk.estimators import HistoricalSimulation, MonteCarlo
from plb.validation import check_number

DAYS, REPEATS = 10.0, 5
FILL_HOURS = 24.0
"""Hours over which the first tenants arrive. Estimators from reports have no data on tenants that arrive at once."""
MONTE_CARLO = MonteCarlo.kind
ESTIMATORS: Mapping[str, Mapping[str, str]] = {
    MONTE_CARLO: {"estimator": MONTE_CARLO},
    f"{MONTE_CARLO}, 24 h": {"estimator": "monte-carlo:horizon=24", "replay": Replay.FROM_PRESENT.value},
    HistoricalSimulation.kind: {"estimator": HistoricalSimulation.kind},
    "gaussian": {"estimator": "gaussian:warmup=12,history=144"},
    "n-sigma": {"estimator": "n-sigma:n=5,warmup=12,history=60"},
    "rc-like": {"estimator": "rc-like:percentile=99,warmup=12,history=60"},
    "borg-default": {"estimator": "borg-default:phi=0.9"},
    "max": {"estimator": "max(n-sigma:n=5,warmup=12,history=60;rc-like:percentile=99,warmup=12,history=60)"},
}
"""Settings of the engine by label. Two hours of warm-up and ten of history ([5] section 5.3); a day of history for the
Gaussian. The first three have an expected overload, and the second and the third are of no paper."""
PLACEMENT = "prv_worst_fit"
ANNEALING = OVERLOAD.name
POLICIES = (PLACEMENT, ANNEALING)
"""Policies that use each estimator."""
ARMS = (
    ORIGINAL,
    *(Arm(f"{policy}, {label}", policy, engine=fields) for policy in POLICIES for label, fields in ESTIMATORS.items()),
)
"""The original energy uses no estimator."""


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
        return cls(request.design((ANNEALING_PILOT,), ARMS, repeats=REPEATS, days=DAYS, middle=1))

    def claims(self, violations: Violations) -> list[Claim]:
        """Return our ratios of violations, also of the original energy, and settings where the default is good."""
        ratios = [
            Claim(
                f"{policy}: {label} / {MONTE_CARLO}",
                "",
                violations.ratio([f"{policy}, {label}"], f"{policy}, {MONTE_CARLO}"),
            )
            for policy in POLICIES
            for label in ESTIMATORS
            if label != MONTE_CARLO
        ]
        original_ratios = [
            Claim(
                f"{ORIGINAL.name} / {ANNEALING}, {label}",
                "",
                violations.ratio([ORIGINAL.name], f"{ANNEALING}, {label}"),
            )
            for label in ESTIMATORS
        ]
        return [*ratios, *original_ratios, *_claims_of_default(violations)]

    def tables(self, violations: Violations) -> list[ClaimTable]:
        """Return a table of the mean violations by setting for each policy, with the original energy in both."""
        original = violations.means(ORIGINAL.name)
        tables = []
        for policy in (ANNEALING, PLACEMENT):
            means = {label: violations.means(f"{policy}, {label}") for label in ESTIMATORS}
            columns = {ORIGINAL.name: original, **means}
            tables.append(ClaimTable(violations.settings, columns, {}, ORIGINAL.name, MONTE_CARLO, of=policy))
        return tables

    def result(self, finished: Finished) -> StudyResult:
        """Return violations, ratios and costs, and the times of decisions."""
        result = super().result(finished)
        if not result.tables:
            return result
        decision_claims = placement_claims(finished, ARMS, lambda decision_table: f"{np.mean(decision_table):.2f} ms")
        caption = "means over runs, which other processes on the machine slow down"
        counts = {**result.figures["counts"], **counts_as_json(decision_claims)}
        decision_table = table_of_claims(decision_claims, "risk: time per decision", caption)
        return attrs.evolve(
            result, figures={**result.figures, "counts": counts}, tables=(*result.tables, decision_table)
        )


def _claims_of_default(violations: Violations) -> list[Claim]:
    """Return in how many settings no other estimator has fewer violations than Monte Carlo, beyond the interval."""
    claims = []
    for policy in POLICIES if violations.repeats > 1 else ():
        default = f"{policy}, {MONTE_CARLO}"
        rivals = [f"{policy}, {label}" for label in ESTIMATORS if label != MONTE_CARLO]
        of_settings = [violations.where(setting.__eq__) for setting in violations.settings]
        ratios = [[in_setting.ratio([rival], default) for rival in rivals] for in_setting in of_settings]
        good = sum(not any(ratio.high is not None and ratio.high < 1.0 for ratio in row) for row in ratios)
        label = f"{policy}: settings where no estimator is better than {MONTE_CARLO}"
        claims.append(Claim(label, "", f"{good} of {len(ratios)}"))
    return claims
