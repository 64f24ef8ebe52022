"""Plots of the energy: the value of each term after every plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import polars as pl

from cluster.plots.base import DAY, coloured, use_open_axes
from cluster.simulation.run_tables import TERMS
from plb import UnknownNameError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

OF_PLANS = "movement"
"""The term of a plan; the others are those of the configuration after it."""


def plot_energy(ax: Axes, plans: pl.DataFrame, term: str, policies: Sequence[str], days: float) -> None:
    """Draw one term of the energy after every plan, a line for each policy.

    Parameters
    ----------
    plans
        The table of that name, for one repeat.
    term
        A key of `cluster.simulation.run_tables.TERMS`; ``"energy"`` is the sum of all.
    policies
        Policies in the order of their colours.
    days
        Length of the runs.

    Raises
    ------
    UnknownNameError
        There is no such term.
    """
    if term not in TERMS:
        raise UnknownNameError("term", term, TERMS)
    for policy, colour in coloured(policies):
        of_policy = plans.filter(pl.col("policy") == policy)
        times, values = (of_policy["time_s"] / DAY).to_numpy(), of_policy[f"{term}_after"].to_numpy()
        if term == OF_PLANS:
            ax.plot(times, values, ".", markersize=3, color=colour, alpha=0.5, label=policy)
        else:
            ax.step(times, values, where="post", color=colour, linewidth=1.1, alpha=0.85, label=policy)
    ax.set(xlabel="simulated time (days)", ylabel=term.replace("_", " "), xlim=(0.0, days))
    ax.legend(frameon=False, loc="best", fontsize=8)
    use_open_axes(ax)
