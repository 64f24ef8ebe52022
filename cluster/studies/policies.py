"""[1] figure 9: placement one replica at a time, with violation probabilities and without."""

from __future__ import annotations

from collections.abc import Sequence

from cluster.studies.base import (
    AT_DEPARTURES,
    BY_PEAKS,
    INITIAL_DEMAND_PERCENTILES,
    WITHOUT_PROBABILITIES,
    Arm,
    placement_arms,
    with_initial_demand,
    with_oracle,
)
from cluster.studies.figures import Claim, ClaimTable, Violations
from cluster.studies.policy_study import PolicyStudy
from cluster.studies.request import POLICIES_PILOTS, StudyRequest

DAYS, REPEATS, CORE_REPEATS = 12.5, 20, 5
"""[1] section 8.3: 300 hours, 20 times."""
FIRST_HARDWARE, SECOND_HARDWARE = 80.0, 128.0
"""vCores of a node ([1] sections 8.1 and 8.3)."""
BEST_FIT, WORST_FIT = (arm.name for arm in AT_DEPARTURES)
"""The figure is of policies that are tested at departures."""
CORE = (*placement_arms(WITHOUT_PROBABILITIES), *BY_PEAKS, *AT_DEPARTURES)
ORACLES = tuple(with_oracle(arm) for arm in placement_arms(WITHOUT_PROBABILITIES))
PERCENTILES = tuple(one for one in INITIAL_DEMAND_PERCENTILES if one != 50)
PUBLISHED = {
    FIRST_HARDWARE: {WORST_FIT: ("2.57", "50 of 52", "2.27", "49 of 52"), BEST_FIT: ("2.6", "", "1.74", "")},
    SECOND_HARDWARE: {
        WORST_FIT: ("2.1", "16 of 16", "1.6", "16 of 16"),
        BEST_FIT: ("2.0", "14 of 16", "1.4", "10 of 16"),
    },
}
"""[1] section 8.3: ratio and settings, of the best without probabilities to each, and the same with the oracle."""


def arms(*, oracle: bool, initial_demand: bool) -> tuple[Arm, ...]:
    """Return the compared arms: the core, and optionally arms with an oracle and with other initial demands."""
    demands = [with_initial_demand(arm, one) for one in PERCENTILES for arm in _varied()] if initial_demand else []
    return (*CORE, *(ORACLES if oracle else ()), *demands)


class PlacementPolicyStudy(PolicyStudy):
    """[1] figure 9."""

    name = "policies"
    compared = WORST_FIT
    plot = "figure9.png"

    @classmethod
    def of(cls, request: StudyRequest) -> PlacementPolicyStudy:
        """Return the study that a user requests; the cluster of a scenario has one kind of hardware."""
        pilots = POLICIES_PILOTS if request.base.is_of_regions else POLICIES_PILOTS[:1]
        found = arms(oracle=request.oracle or request.full, initial_demand=request.initial_demand or request.full)
        return cls(request.design(pilots, found, repeats=REPEATS if request.full else CORE_REPEATS, days=DAYS))

    def claims(self, found: Violations) -> list[Claim]:
        """Return the figures of [1] section 8.3 with ours, by hardware."""
        vcores = dict.fromkeys(setting.vcores for setting in found.settings)
        return [claim for one in vcores for claim in _of_hardware(found, one)]

    def tables(self, found: Violations) -> list[ClaimTable]:
        """Return the mean violations by setting; of the policies without probabilities, only the best."""
        columns = {"best without": found.least(WITHOUT_PROBABILITIES)}
        remarks = {"best without": found.best(WITHOUT_PROBABILITIES)}
        oracles = [arm.name for arm in ORACLES if arm.name in found.counts]
        if oracles:
            columns["best with oracle"] = found.least(oracles)
            remarks["best with oracle"] = [name.removesuffix("+oracle") for name in found.best(oracles)]
        columns |= {arm.name: found.means(arm.name) for arm in AT_DEPARTURES}
        return [ClaimTable(found.settings, columns, remarks, "best without", WORST_FIT)]


def _varied() -> tuple[Arm, ...]:
    return (*placement_arms(WITHOUT_PROBABILITIES), *(arm for arm in AT_DEPARTURES if arm.name == WORST_FIT))


def _of_hardware(found: Violations, vcores: float) -> list[Claim]:
    found = found.where(lambda setting: setting.vcores == vcores)
    groups: dict[str, Sequence[str]] = {"best without probabilities": WITHOUT_PROBABILITIES}
    groups["best with oracle"] = [arm.name for arm in ORACLES]
    claims = []
    for name in (WORST_FIT, BEST_FIT, *(arm.name for arm in reversed(BY_PEAKS))):
        published = PUBLISHED.get(vcores, {}).get(name, ("", "", "", ""))
        for number, (label, group) in enumerate(groups.items()):
            if not all(arm in found.counts for arm in group):
                continue
            ratio, settings = published[2 * number : 2 * number + 2]
            as_good = f"{found.at_least_as_good(name, group)} of {len(found.settings)}"
            claims.append(Claim(f"{vcores:g} vCores: {label} / {name}", ratio, found.ratio(group, name)))
            claims.append(Claim(f"{vcores:g} vCores: {name} at least as good as {label}", settings, as_good))
    for percentile in PERCENTILES:
        varied = {arm.name: with_initial_demand(arm, percentile).name for arm in _varied()}
        if all(name in found.counts for name in varied.values()) and vcores == FIRST_HARDWARE:
            rivals = [varied[name] for name in WITHOUT_PROBABILITIES]
            label = f"{vcores:g} vCores, p{percentile}: best without probabilities / {WORST_FIT}"
            claims.append(Claim(label, "2.42 to 2.57", found.ratio(rivals, varied[WORST_FIT])))
    return claims
