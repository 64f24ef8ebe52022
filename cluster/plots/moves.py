"""Plots of moves: failovers over time and by cause, the fault domains of moves, and the energy after each plan.

All take data frames as `cluster.results.reading.Results.table` returns them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import attrs
import numpy as np
import polars as pl

from cluster.plots.base import DAY, coloured, plot_counts, shortened, styled, use_open_axes
from cluster.simulation.run_tables import CAUSES_OF_MOVES, cause_text, term_text, terms_of
from plb.array_types import Int
from plb.validation import check_known

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_NUMBERED = 12
"""Largest number of fault domains for which the matrix has numbers."""


@attrs.frozen(eq=False)
class DomainMoves:
    """How many replicas moved between fault domains."""

    domains: tuple[str, ...]
    """The D fault domains, by name."""
    counts: Int
    """(D, D) moves from the domain of the row to the domain of the column."""


def plot_failovers(
    ax: Axes, moves: pl.DataFrame, policies: Sequence[str], lengths: Mapping[str, Mapping[int, float]], days: float
) -> None:
    """Draw the cumulative number of failovers in a table of moves, as `plot_violations` does for shortages."""
    plot_counts(ax, moves.filter("failover"), policies, lengths, days)
    ax.set_ylabel("failovers so far")


def failovers_by_cause(
    moves: pl.DataFrame, policies: Sequence[str], repeats: Mapping[str, Collection[int]]
) -> dict[str, dict[str, float]]:
    """Return the mean number of failovers of a run, by cause and policy.

    `moves`: the table of moves; `repeats`: the repeats that each policy has run.
    """
    failovers = moves.filter("failover")
    counts = {(policy, cause): count for policy, cause, count in failovers.group_by("policy", "cause").len().rows()}
    causes_present = {cause for _, cause in counts}
    causes = [cause for cause in CAUSES_OF_MOVES if cause in causes_present] + sorted(
        causes_present - {*CAUSES_OF_MOVES}
    )
    return {
        cause: {policy: counts.get((policy, cause), 0) / len(repeats[policy]) for policy in policies}
        for cause in causes
    }


def plot_causes(ax: Axes, moves: pl.DataFrame, policies: Sequence[str], repeats: Mapping[str, Collection[int]]) -> None:
    """Draw the mean number of failovers of a run by cause, as a bar for each policy; see `failovers_by_cause`."""
    positions = np.arange(len(policies))[::-1]
    bar_ends = np.zeros(len(policies))
    for (cause, means), colour in coloured(failovers_by_cause(moves, policies, repeats).items()):
        widths = np.array([means[policy] for policy in policies])
        ax.barh(positions, widths, left=bar_ends, height=0.6, color=colour, label=shortened([cause_text(cause)])[0])
        bar_ends += widths
    ax.set_yticks(positions, shortened(policies))
    ax.set(xlabel="failovers a run", ylim=(-0.6, len(policies) - 0.4), xlim=(0.0, max(1.0, 1.05 * bar_ends.max())))
    if bar_ends.any():
        ax.legend(title="cause", frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    use_open_axes(ax, "x")
    ax.set_axisbelow(True)


def domain_moves(moves: pl.DataFrame, nodes: pl.DataFrame) -> DomainMoves:
    """Count the moves from node to node by the fault domains of both, in the tables of moves and nodes of a policy."""
    domain_of_node = dict(nodes.select("node", "fault_domain").iter_rows())
    domains = tuple(sorted(set(domain_of_node.values())))
    index_of_domain = {name: index for index, name in enumerate(domains)}
    counts = np.zeros((len(domains), len(domains)), np.int64)
    for source, target in moves.filter(pl.col("kind") == "move").select("source", "target").iter_rows():
        if source in domain_of_node and target in domain_of_node:
            counts[index_of_domain[domain_of_node[source]], index_of_domain[domain_of_node[target]]] += 1
    return DomainMoves(domains, counts)


def plot_domain_moves(ax: Axes, moves: pl.DataFrame, nodes: pl.DataFrame) -> None:
    """Draw how many replicas moved from each fault domain (row) to each (column), as a matrix.

    `moves`, `nodes`: the tables of these names, for one policy.
    """
    from matplotlib.colors import LinearSegmentedColormap

    domain_matrix = domain_moves(moves, nodes)
    size, largest_count = len(domain_matrix.domains), max(1, int(domain_matrix.counts.max(initial=0)))
    shades = LinearSegmentedColormap.from_list("moves", ["#f7f9fb", "#9fc3dc", "#0072b2"])
    ax.imshow(domain_matrix.counts, cmap=shades, vmin=0, vmax=largest_count)
    if size <= MOST_NUMBERED:
        for (row, column), count in np.ndenumerate(domain_matrix.counts):
            colour = "white" if count > 0.6 * largest_count else "black"
            ax.text(column, row, f"{count:,}", ha="center", va="center", color=colour, fontsize=9)
    names = shortened(name.removeprefix("fd:/") for name in domain_matrix.domains)
    ax.set_xticks(np.arange(size), names, rotation=45 if size > 6 else 0)
    ax.set_yticks(np.arange(size), names)
    ax.set(xlabel="to fault domain", ylabel="from fault domain")


OF_PLANS = "movement"
"""The term that measures a plan itself; the other terms measure the configuration after it."""


def plot_energy(ax: Axes, plans: pl.DataFrame, term: str, policies: Sequence[str], days: float) -> None:
    """Draw an energy after every plan of a repeat, a line for each policy that has it.

    `plans`: the table of plans of the repeat; `term`: one of `cluster.simulation.run_tables.terms_of(plans)`; `days`:
    where the axis ends.
    """
    check_known("term", term, terms_of(plans))
    for policy, style in styled(policies):
        policy_plans = plans.filter(pl.col("policy") == policy, pl.col(f"{term}_after").is_not_null())
        if policy_plans.is_empty():
            continue
        times, values = (policy_plans["time_s"] / DAY).to_numpy(), policy_plans[f"{term}_after"].to_numpy()
        if term == OF_PLANS:
            ax.plot(times, values, ".", markersize=3, color=style["color"], alpha=0.5, label=policy)
        else:
            ax.step(times, values, where="post", linewidth=1.1, alpha=0.85, label=policy, **style)
    ax.set(xlabel="simulated time (days)", ylabel=term_text(term), xlim=(0.0, days))
    ax.legend(frameon=False, loc="best", fontsize=8)
    use_open_axes(ax)
