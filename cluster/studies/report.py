"""The claims of a paper with our figures, and the tables and JSON figures of the studies of policies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
from rich.table import Table

from cluster.console.tables import new_table
from cluster.studies.arms import NOTHING, Arm
from cluster.studies.design import StudySetting
from cluster.studies.figures import Ratio, Violations, figures_of
from cluster.studies.runner import Finished
from plb.array_types import Float

OF_RATIOS = "ratios of violations, averaged over settings"
INTERVALS = ", with 95 % intervals"


@attrs.frozen
class Claim:
    """One figure of a paper.

    Parameters
    ----------
    label
        Name of the figure.
    paper
        The figure in the paper; "" if it has none.
    ours
        Our figure.
    """

    label: str
    paper: str
    ours: Ratio | str


@attrs.frozen(eq=False)
class ClaimTable:
    """Mean violations by setting.

    Parameters
    ----------
    settings
        The rows.
    columns
        Means by heading, (S,) each.
    remarks
        Remarks on the cells of some columns, by heading.
    above, below
        Columns whose ratio is a further column.
    """

    settings: Sequence[StudySetting]
    columns: Mapping[str, Float]
    remarks: Mapping[str, Sequence[str]]
    above: str
    below: str


@attrs.frozen
class ArmFigures:
    """Failovers, moves, downtime and placements of an arm.

    Parameters
    ----------
    failovers
        All moves except those for balance, relative to the arm for comparison.
    moves
        All moves of placed replicas, also for balance, relative to that arm.
    downtime
        Seconds in which tenants were unavailable, relative to that arm.
    not_placed
        Share of the tenants that were not placed when they arrived.
    """

    failovers: Ratio
    moves: Ratio
    downtime: Ratio
    not_placed: float


def means_of(repeats: int) -> str:
    """Return the number of repeats behind the means, in words."""
    return f"means of {repeats} repeats" if repeats > 1 else "one repeat"


def table_of_settings(table: ClaimTable, title: str, repeats: int) -> Table:
    """Return the mean violations of every setting."""
    headings = ("workload", "vCores", "density", *table.columns, f"{table.above} / {table.below}")
    shown = new_table(headings, title=title, caption=f"violations, {means_of(repeats)}")
    for index, setting in enumerate(table.settings):
        cells = [_with_remark(table, name, index) for name in table.columns]
        below, above = (table.columns[name][index] for name in (table.below, table.above))
        ratio = f"{above / below:.2f}" if below else "-"
        shown.add_row(setting.workload, f"{setting.vcores:g}", f"{setting.density:g}", *cells, ratio)
    return shown


def table_of_claims(claims: Sequence[Claim], title: str, caption: str = OF_RATIOS) -> Table:
    """Return our figures, with those of the paper if it has any of them."""
    is_of_paper = any(claim.paper for claim in claims)
    if any(isinstance(claim.ours, Ratio) and claim.ours.low is not None for claim in claims):
        caption += INTERVALS
    headings = ("", *(("paper",) if is_of_paper else ()), "here", "95 % interval", "settings")
    shown = new_table(headings, title=f"{title}, compared with [1]" if is_of_paper else title, caption=caption)
    for claim in claims:
        paper = (claim.paper or "-",) if is_of_paper else ()
        shown.add_row(claim.label, *paper, *_cells(claim.ours))
    return shown


def table_of_arms(arms: Mapping[str, ArmFigures], compared: str, name: str) -> Table:
    """Return failovers, moves, downtime and placements of each arm."""
    ratios = [one for figures in arms.values() for one in (figures.failovers, figures.moves, figures.downtime)]
    intervals = INTERVALS if any(one.low is not None for one in ratios) else ""
    caption = f"relative to {compared}{intervals}; failovers: all moves except those for balance"
    headings = ("", "failovers", "moves", "downtime", "tenants not placed at once")
    shown = new_table(headings, title=f"{name}: failovers, moves and downtime", caption=caption)
    for arm, figures in arms.items():
        cells = (_with_interval(one) for one in (figures.failovers, figures.moves, figures.downtime))
        shown.add_row(arm, *cells, f"{figures.not_placed:.2%}")
    return shown


def placement_claims(
    finished: Finished,
    arms: Sequence[Arm],
    in_words: Callable[[Sequence[float]], str],
    published: Mapping[str, str] = NOTHING,
) -> list[Claim]:
    """Return the time that the placement of a tenant took with each arm that has runs.

    Parameters
    ----------
    in_words
        Returns the figure for the mean milliseconds of a placement in each run of an arm.
    published
        The figures of the paper by policy.
    """
    claims = []
    for arm in arms:
        times = [
            1000.0 * timing["placement"] / row["tenants"]
            for row, timing in zip(finished.rows, finished.timings, strict=True)
            if row["arm"] == arm.name and row["tenants"]
        ]
        if times:
            claims.append(Claim(f"placement of a tenant, {arm.name}", published.get(arm.policy, ""), in_words(times)))
    return claims


def ratios_as_json(claims: Sequence[Claim]) -> dict[str, Any]:
    """Return the ratios under stable keys."""
    return {claim.label: attrs.asdict(claim.ours) for claim in claims if isinstance(claim.ours, Ratio)}


def counts_as_json(claims: Sequence[Claim]) -> dict[str, str]:
    """Return the figures that are not ratios under stable keys."""
    return {claim.label: claim.ours for claim in claims if isinstance(claim.ours, str)}


def as_json(study: str, found: Violations, claims: Sequence[Claim], arms: Mapping[str, ArmFigures]) -> dict[str, Any]:
    """Return the figures of a study of policies."""
    costs = {arm: attrs.asdict(figures) for arm, figures in arms.items()}
    return figures_of(study, found.as_json(), ratios_as_json(claims), arms=costs, counts=counts_as_json(claims))


def _with_remark(table: ClaimTable, name: str, index: int) -> str:
    mean = f"{table.columns[name][index]:.1f}"
    return f"{mean} ({table.remarks[name][index]})" if name in table.remarks else mean


def _with_interval(ratio: Ratio) -> str:
    mean, interval, _ = _cells(ratio)
    return f"{mean} ({interval})" if ratio.low is not None else mean


def _cells(ours: Ratio | str) -> tuple[str, str, str]:
    if isinstance(ours, str):
        return ours, "", ""
    mean = "-" if ours.mean is None else f"{ours.mean:.2f}"
    interval = "-" if ours.low is None else f"{ours.low:.2f} to {ours.high:.2f}"
    without = f", {ours.without} without violations" if ours.without else ""
    return mean, interval, f"{ours.settings}{without}"
