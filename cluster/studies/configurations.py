"""Forms of the energy, and settings of the engine, compared by violations with tenants that no other study has.

The forms are the modified energy of [1] with demand as recorded (section 5.1), with other weights of the expected
failovers (section 8.2, footnote 3) and of the imbalance, and both energies in the product form with the temperatures of
Service Fabric. The original energy has an oracle, too, whose violations also count by reported loads.

The settings are the evaluation at departures ([1] section 5.3) and, beyond [1], weights of the expected overload, the
time between two searches for balance, and another estimator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from cluster.studies.base import MODIFIED, ORIGINAL, Arm, Base, with_oracle
from cluster.studies.design import StudySetting
from cluster.studies.figures import Claim, ClaimTable, PolicyStudy
from cluster.studies.request import ANNEALING_PILOT, StudyRequest
from cluster.studies.violations import Violations
from plb import PlbError, Replay
from plb.risk.estimators import HistoricalSimulation

DAYS, REPEATS = 10.0, 5
FIRST_SEED = 3001
"""Added to the seed of the user. Other studies begin at 0, their pilots have another seed, and so had the tenants on
which the weights of the default energy were chosen.
"""
PRODUCT: Mapping[str, Any] = {"combination": "service_fabric", "initial_temperature": 1.0, "cooling": "by_round"}
"""The product form with the temperatures of Service Fabric, within the capacity limit of all arms."""
DEFAULT = "w_overload = 100"
"""The default of `plb.PlbConfig`."""
OFTEN: Mapping[str, Any] = {"min_load_balancing_interval": 600.0}
FORMS: Mapping[str, Mapping[str, Any]] = {
    "product form": PRODUCT,
    "as recorded": {"replay": Replay.AS_RECORDED.value},
    "w_imbalance = 1": {"w_imbalance": 1.0},
    "w_failovers = 1": {"w_failovers": 1.0},
}
"""Settings of the modified energy by label."""
BEYOND: Mapping[str, Mapping[str, Any]] = {
    DEFAULT: {},
    "w_overload = 300": {"w_overload": 300.0},
    f"{DEFAULT}, every 10 minutes": OFTEN,
    f"{DEFAULT}, w_imbalance = 1": {"w_imbalance": 1.0},
    f"{DEFAULT}, w_imbalance = 100": {"w_imbalance": 100.0},
    f"{DEFAULT}, {HistoricalSimulation.kind}": {"estimator": HistoricalSimulation.kind},
}
"""Settings with an expected overload by label; each has the weight 100 unless it has another."""
FORM_ARMS = (
    MODIFIED,
    ORIGINAL,
    with_oracle(ORIGINAL),
    Arm("original, product form", ORIGINAL.policy, engine=PRODUCT),
    *(Arm(f"modified, {label}", MODIFIED.policy, engine=fields) for label, fields in FORMS.items()),
    Arm(DEFAULT, MODIFIED.policy, engine={"w_overload": 100.0}),
)
ARMS = (
    MODIFIED,
    Arm("modified, at departures", MODIFIED.policy, engine={"evaluation": "timeline"}),
    *(Arm(label, MODIFIED.policy, engine={"w_overload": 100.0, **fields}) for label, fields in BEYOND.items()),
)
SET_HERE = tuple(dict.fromkeys(field for arm in (*FORM_ARMS, *ARMS) for field in arm.engine))
"""Settings that a scenario must not have."""


def settings(base: Base, densities: Sequence[float] | None) -> list[StudySetting]:
    """Return the settings at densities, by default the highest of figure 8, or the density of the scenario."""
    set_fields = [field for field in SET_HERE if field in base.tables.get("engine", {})]
    if set_fields:
        raise PlbError(f"the study sets engine.{set_fields[0]}; remove it from the scenario")
    known_densities = ANNEALING_PILOT.known_densities(base) or dict.fromkeys(base.workloads, (base.density,))
    return ANNEALING_PILOT.settings(base, {name: densities or known_densities[name][-1:] for name in base.workloads})


class ConfigurationStudy(PolicyStudy):
    """Violations with settings of the engine, relative to the modified energy of [1]."""

    name = "configurations"
    compared = MODIFIED.name
    plot = "configurations.png"
    arms: ClassVar[Sequence[Arm]] = ARMS
    """The compared arms."""

    @classmethod
    def of(cls, request: StudyRequest) -> ConfigurationStudy:
        """Return the study that a user requests, with tenants that no other study has."""
        study_settings = settings(request.base, request.densities)
        design = request.design_at(
            study_settings[:1] if request.quick else study_settings,
            cls.arms,
            repeats=REPEATS,
            days=DAYS,
            first_seed=FIRST_SEED,
        )
        return cls(design)

    def claims(self, violations: Violations) -> list[Claim]:
        """Return the ratio of the violations of each arm to the violations of the modified energy."""
        names = (name for name in violations.counts if name != self.compared)
        return [Claim(f"{name} / {self.compared}", "", violations.ratio([name], self.compared)) for name in names]

    def tables(self, violations: Violations) -> list[ClaimTable]:
        """Return the table of the mean violations by setting of the energies of [1] and of the engine's default."""
        names = (ORIGINAL.name, self.compared, DEFAULT)
        columns = {name: violations.means(name) for name in names if name in violations.counts}
        return [ClaimTable(violations.settings, columns, {}, self.compared, DEFAULT)]


class FormStudy(ConfigurationStudy):
    """Violations with forms of the energies of [1], relative to the modified energy."""

    name = "forms"
    plot = "forms.png"
    arms = FORM_ARMS
