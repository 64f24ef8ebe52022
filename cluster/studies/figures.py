"""Studies that compare the violations of arms on the same tenants: figures, claims of a paper, tables and plots."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import attrs
import numpy as np
from rich.table import Table

from cluster.plots.base import (
    COLOURS,
    GREY,
    coloured,
    draw_legend_below,
    new_axes,
    new_figure,
    new_panels,
    use_open_axes,
)
from cluster.studies.base import NOTHING, Arm
from cluster.studies.design import SimulatedStudy, StudySetting, alike
from cluster.studies.runner import Finished, Row, StudyResult
from cluster.studies.violations import AVOIDABLE, KINDS, REPORTED, Ratio, Violations, violations_of
from cluster.tables import new_table
from plb.array_types import Float

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def figures_of(
    study: str, settings: Sequence[Mapping[str, Any]] = (), ratios: Mapping[str, Any] = NOTHING, **further: Any
) -> dict[str, Any]:
    """Return the figures of a study under the keys of all studies, which are stable, and further keys."""
    return {"study": study, "settings": list(settings), "ratios": dict(ratios), **further}


OF_RATIOS = "ratios of violations, averaged over settings"
OF_AVOIDABLE = "ratios of avoidable violations, averaged over settings"
INTERVALS = ", with 95 % intervals"


@attrs.frozen
class Claim:
    """One figure of a paper."""

    label: str
    """Name of the figure."""
    paper: str
    """The figure in the paper; "" if it has none."""
    ours: Ratio | str
    """Our figure."""


@attrs.frozen(eq=False)
class ClaimTable:
    """Mean violations by setting."""

    settings: Sequence[StudySetting]
    """The rows."""
    columns: Mapping[str, Float]
    """Means by heading, (S,) each."""
    remarks: Mapping[str, Sequence[str]]
    """Remarks on the cells of some columns, by heading."""
    above: str
    """Heading of the column whose ratio to the column `below` is a further column."""
    below: str
    """Heading of the column by which the ratio divides."""
    of: str = ""
    """What the columns have in common; "": nothing."""

    @property
    def remark(self) -> str:
        """What follows the name of the study in titles."""
        return f", {self.of}" if self.of else ""


@attrs.frozen
class ArmFigures:
    """Failovers, moves, downtime and placements of an arm."""

    failovers: Ratio
    """All moves except moves for balance, relative to the arm for comparison."""
    moves: Ratio
    """All moves of placed replicas, also for balance, relative to the arm for comparison."""
    downtime: Ratio
    """Seconds in which tenants were unavailable, relative to the arm for comparison."""
    not_placed: float
    """Share of the tenants that were not placed when they arrived."""


def means_of(repeats: int) -> str:
    """Return the number of repeats behind the means, in words."""
    return f"means of {repeats} repeats" if repeats > 1 else "one repeat"


def table_of_settings(table: ClaimTable, title: str, repeats: int) -> Table:
    """Return a table of the mean violations of every setting; `repeats`: number of repeats behind the means."""
    headings = ("workload", "vCores", "density", *table.columns, f"{table.above} / {table.below}")
    table_to_print = new_table(headings, title=title, caption=f"violations, {means_of(repeats)}")
    for index, setting in enumerate(table.settings):
        cells = [_with_remark(table, name, index) for name in table.columns]
        below, above = (table.columns[name][index] for name in (table.below, table.above))
        ratio = f"{above / below:.2f}" if below else "-"
        table_to_print.add_row(setting.workload, f"{setting.vcores:g}", setting.shown_density, *cells, ratio)
    return table_to_print


def table_of_claims(
    claims: Sequence[Claim], title: str, caption: str = OF_RATIOS, *, paper: str = "[1]", digits: str = ".2f"
) -> Table:
    """Return a table of our figures, in a format for means, with the paper's figures if it has any.

    `digits`: the format; `paper`: its number in brackets.
    """
    is_of_paper = any(claim.paper for claim in claims)
    if any(isinstance(claim.ours, Ratio) and claim.ours.low is not None for claim in claims):
        caption += INTERVALS
    headings = ("", *(("paper",) if is_of_paper else ()), "here", "95 % interval", "settings")
    table = new_table(headings, title=f"{title}, compared with {paper}" if is_of_paper else title, caption=caption)
    for claim in claims:
        published = (claim.paper or "-",) if is_of_paper else ()
        table.add_row(claim.label, *published, *_cells(claim.ours, digits))
    return table


def table_of_arms(arms: Mapping[str, ArmFigures], compared: str, name: str) -> Table:
    """Return a table of failovers, moves, downtime and placements of each arm, by name.

    `compared`: name of the arm for comparison; `name`: name of the study.
    """
    ratios = [ratio for figures in arms.values() for ratio in (figures.failovers, figures.moves, figures.downtime)]
    intervals = INTERVALS if any(ratio.low is not None for ratio in ratios) else ""
    caption = f"relative to {compared}{intervals}; failovers: all moves except those for balance"
    headings = ("", "failovers", "moves", "downtime", "tenants not placed at once")
    table = new_table(headings, title=f"{name}: failovers, moves and downtime", caption=caption)
    for arm, figures in arms.items():
        cells = (_with_interval(ratio) for ratio in (figures.failovers, figures.moves, figures.downtime))
        table.add_row(arm, *cells, f"{figures.not_placed:.2%}")
    return table


def placement_claims(
    finished: Finished,
    arms: Sequence[Arm],
    in_words: Callable[[Sequence[float]], str],
    published: Mapping[str, str] = NOTHING,
) -> list[Claim]:
    """Return the time to place a tenant with each arm that has runs.

    `in_words` returns a text from the mean milliseconds of each run; `published`: figures of a paper by policy.
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
    """Return our figures that are ratios, by label of the claim."""
    return {claim.label: attrs.asdict(claim.ours) for claim in claims if isinstance(claim.ours, Ratio)}


def counts_as_json(claims: Sequence[Claim]) -> dict[str, str]:
    """Return our figures that are texts, by label of the claim."""
    return {claim.label: claim.ours for claim in claims if isinstance(claim.ours, str)}


def as_json(
    study: str,
    violations: Violations,
    claims: Sequence[Claim],
    arms: Mapping[str, ArmFigures],
    kinds: Mapping[str, Violations] = NOTHING,
    avoidable: Sequence[Claim] = (),
) -> dict[str, Any]:
    """Return the figures of a study of policies, named `study`, as plain JSON values under stable keys.

    `kinds`: the violations of each kind, by `KINDS`; `avoidable`: the claims on avoidable violations.
    """
    costs = {arm: attrs.asdict(figures) for arm, figures in arms.items()}
    settings = violations.as_json()
    for kind, of_kind in kinds.items():
        for setting, with_kind in zip(settings, of_kind.as_json(), strict=True):
            setting[kind] = with_kind["violations"]
    further = {
        "arms": costs,
        "counts": counts_as_json(claims),
        "ratios_avoidable": ratios_as_json(avoidable),
        "counts_avoidable": counts_as_json(avoidable),
        "paper": {claim.label: claim.paper for claim in claims if claim.paper},
    }
    return figures_of(study, settings, ratios_as_json(claims), **further)


def _with_remark(table: ClaimTable, name: str, index: int) -> str:
    """Return the cell of a table in the column `name` and the row `index`, with its remark if there is one."""
    mean = f"{table.columns[name][index]:.1f}"
    return f"{mean} ({table.remarks[name][index]})" if name in table.remarks else mean


def _with_interval(ratio: Ratio) -> str:
    """Return a ratio with its interval as text."""
    mean, interval, _ = _cells(ratio)
    return f"{mean} ({interval})" if ratio.low is not None else mean


def _cells(ours: Ratio | str, digits: str = ".2f") -> tuple[str, str, str]:
    """Return our figure, its interval and its number of settings as text; `digits`: format of the numbers."""
    if isinstance(ours, str):
        return ours, "", ""
    mean = "-" if ours.mean is None else f"{ours.mean:{digits}}"
    interval = "-" if ours.low is None else f"{ours.low:{digits}} to {ours.high:{digits}}"
    without = f", {ours.without} without violations" if ours.without else ""
    return mean, interval, f"{ours.settings}{without}"


PANELS_A_ROW = 2
LEAST_INCHES = 6.5
"""Smallest width of a figure, enough for the longest title."""
LABEL_INCHES = 2.2
"""Width of an entry of a legend, enough for the longest name of an arm."""


def plot_settings(ax: Axes, table: ClaimTable, indices: Sequence[int]) -> None:
    """Draw the mean violations of settings, which differ in their density alone, a group of bars each.

    `indices`: of the settings in the table.
    """
    width = 0.8 / len(table.columns)
    positions = np.arange(len(indices))
    for bar_index, ((heading, means), colour) in enumerate(coloured(table.columns.items())):
        offset = (bar_index - (len(table.columns) - 1) / 2) * width
        hatch = "////" if bar_index >= len(COLOURS) else None  # colours repeat
        bars = ax.bar(positions + offset, means[list(indices)], width, label=heading, color=colour, hatch=hatch)
        if hatch:
            for bar in bars:
                bar.set(edgecolor="white", linewidth=0.0)
    first = table.settings[indices[0]]
    ax.set_xticks(positions, [table.settings[index].shown_density for index in indices])
    ax.set(xlabel="tenant density", ylabel="violations", title=f"{first.workload}, {first.vcores:g} vCores")
    ax.set_ylim(0.0, max(1.0, ax.get_ylim()[1]))
    use_open_axes(ax, "y")


def figure_of_settings(table: ClaimTable, title: str) -> Figure:
    """Return a plot of all settings, with a panel for each workload and hardware."""
    panels = [[table.settings.index(setting) for setting in group] for group in alike(table.settings)]
    rows = -(-len(panels) // PANELS_A_ROW)
    columns = min(PANELS_A_ROW, len(panels))
    most_settings = max(len(indices) for indices in panels)
    width = max(LEAST_INCHES, columns * max(4.5, 0.75 * most_settings))
    figure = new_figure(width, 3.2 * rows + 0.6, title)
    axes = new_panels(figure, len(panels), columns)
    for ax, indices in zip(axes, panels, strict=True):
        plot_settings(ax, table, indices)
    draw_legend_below(figure, axes[0], min(len(table.columns), int(width // LABEL_INCHES)))
    return figure


def plot_ratios(ax: Axes, table: ClaimTable) -> None:
    """Draw the ratios of violations to the column `below`, a row a setting; there is none where that column is 0."""
    below = table.columns[table.below]
    rows = np.arange(len(table.settings))[::-1]
    headings = [heading for heading in table.columns if heading != table.below]
    is_defined = below > 0
    for heading, colour in coloured(headings):
        label = f"{heading} / {table.below}"
        ax.plot(
            table.columns[heading][is_defined] / below[is_defined], rows[is_defined], "o", color=colour, label=label
        )
    ax.axvline(1.0, color=GREY, linewidth=0.8)
    ax.set_yticks(rows, [f"{setting.workload}; {setting.tenants}" for setting in table.settings])
    ax.set(xlabel="ratio of violations", ylim=(-0.7, len(rows) - 0.3))
    ax.set_xlim(left=0.0)
    use_open_axes(ax)


def figure_of_ratios(table: ClaimTable, title: str) -> Figure:
    """Return a plot of the ratios of all settings, with a row for each setting."""
    figure, ax = new_axes(8.0, 0.22 * len(table.settings) + 1.6, title)
    plot_ratios(ax, table)
    draw_legend_below(figure, ax)
    return figure


class PolicyStudy(SimulatedStudy):
    """A study that compares the violations of arms."""

    compared: ClassVar[str]
    """Name of the arm with which failovers, moves and downtime of the other arms are compared."""
    plot: ClassVar[str]
    """File name of the plot."""

    @abstractmethod
    def claims(self, violations: Violations) -> list[Claim]:
        """Return the figures of a paper, each beside ours."""

    @abstractmethod
    def tables(self, violations: Violations) -> Sequence[ClaimTable]:
        """Return tables of the mean violations by setting. The plot is of the first table."""

    def figure(self, table: ClaimTable, title: str) -> Figure:
        """Return the plot of the violations by setting."""
        return figure_of_settings(table, title)

    def result(self, finished: Finished) -> StudyResult:
        """Return violations, ratios and costs; without a setting that all arms share, there is no table and no plot."""
        violations = violations_of(self.design.settings, finished.rows)
        if not all(arm.name in violations.counts for arm in self.design.arms):
            return StudyResult(as_json(self.name, violations, (), {}), plots={self.plot: None})
        kinds = {kind: violations_of(self.design.settings, finished.rows, kind) for kind in KINDS}
        claims = [*self.claims(violations), *self._claims_by_reports(finished.rows)]
        tables = self.tables(violations)
        avoidable = self.claims(kinds[AVOIDABLE])
        arms = self._costs(finished.rows)
        title = f"{self.name}{tables[0].remark}: violations, {means_of(violations.repeats)}"
        return StudyResult(
            as_json(self.name, violations, claims, arms, kinds, avoidable),
            (
                *(table_of_settings(table, f"{self.name}{table.remark}", violations.repeats) for table in tables),
                table_of_claims(claims, f"{self.name}: ratios"),
                table_of_claims(avoidable, f"{self.name}: avoidable violations", OF_AVOIDABLE),
                table_of_arms(arms, self.compared, self.name),
            ),
            {self.plot: partial(self.figure, tables[0], title)},
        )

    def _claims_by_reports(self, rows: Sequence[Row]) -> list[Claim]:
        """Return the ratio of each arm with an oracle, with all violations counted by reported loads."""
        oracles = [arm.name for arm in self.design.arms if "oracle_hours" in arm.workload]
        if not oracles:
            return []
        reported = violations_of(self.design.settings, rows, REPORTED)
        return [
            Claim(f"{name} / {self.compared}, by reported loads", "", reported.ratio([name], self.compared))
            for name in oracles
        ]

    def _costs(self, rows: Sequence[Row]) -> dict[str, ArmFigures]:
        """Return failovers, moves, downtime and tenants not placed of each arm, by name, from the rows of runs."""
        totals = [
            violations_of(self.design.settings, rows, violations)
            for violations in ("failovers", "moves", "downtime_seconds")
        ]
        costs = {}
        for arm in self.design.arms:
            arm_rows = [row for row in rows if row["arm"] == arm.name]
            tenants, refused = (sum(row[total] for row in arm_rows) for total in ("tenants", "placement_failures"))
            failovers, moves, downtime = (violations.ratio([arm.name], self.compared) for violations in totals)
            costs[arm.name] = ArmFigures(failovers, moves, downtime, refused / tenants)
        return costs
