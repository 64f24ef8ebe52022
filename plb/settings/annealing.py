"""Settings of the annealing schedule that Service Fabric does not have: temperatures, quiet rounds and restarts."""

from __future__ import annotations

from enum import Enum

import attrs

from plb.model.setting_fields import Checked, count, number, share
from plb.validation import check_member


class Cooling(Enum):
    """When the temperature of a chain falls."""

    BY_ROUND = "by_round"
    """After each round without a new best, as in Service Fabric."""
    BY_BUDGET = "by_budget"
    """With the share of the budget that is used, geometrically from the first temperature to the last."""
    BY_PRICE = "by_price"
    """As by_budget, while the price of a move falls to its cost in the energy (`plb.search.price_path`)."""


def _cooling(value: object) -> Cooling | None:
    return None if value is None else check_member("PlbConfig", "cooling", value, Cooling)


@attrs.frozen(kw_only=True, slots=False)
class AnnealingSettings(Checked):
    """The schedule of a chain.

    Parameters
    ----------
    initial_temperature : energy changes, default None
        First temperature, in units of the largest energy change of the probes. Service Fabric: 50. None: 1; balancing
        chooses (docs/search.md).
    absolute_initial_temperature : energy, default None
        First temperature in units of the energy. None: as given by the probes.
    cooling : name, default None
        When the temperature falls. by_round: after each round without a new best, as in Service Fabric. by_budget:
        geometrically with the used share of the rounds or of the time; a chain then uses its whole budget, and probes
        until the constraints have allowed as many proposals as it is to probe. by_price: as by_budget, while the price
        of a move falls to its cost in the energy; such a chain ends when it finds no further move. None: by_round;
        balancing chooses.
    last_temperature : share, default 0.001
        Last temperature as a share of the first one, for cooling by budget.
    quiet_change : share, default 0.001
        A round is quiet if it changes the energy by at most this share of its absolute value.
    absolute_quiet_change : energy, default None
        The same in units of the energy, instead of the share. A constant in a term then has no effect.
    quiet_rounds : rounds, default 10
        Quiet rounds after which a chain ends, or cools to 0 if it found a new best in its last rounds of this number.
    restarts : count, default 0
        How often a chain returns to its best solution and heats up again to the first temperature: when it has
        converged, or, for cooling by budget, after equal parts of the budget.
    """

    initial_temperature: float | None = number(None, unit="energy changes", none=True)
    absolute_initial_temperature: float | None = number(None, unit="energy", none=True)
    cooling: Cooling | None = attrs.field(default=None, converter=_cooling)
    last_temperature: float = number(0.001, unit="share", high=1.0, low_open=True)
    quiet_change: float = share(0.001)
    absolute_quiet_change: float | None = number(None, unit="energy", none=True)
    quiet_rounds: int = count(10, unit="rounds", low=1)
    restarts: int = count(0)
