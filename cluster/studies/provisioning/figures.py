"""The figures of [3]: means of plans by group, with the means of the paper, and their tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import polars as pl
from rich.table import Table

from cluster.plots.base import COLOURS, new_axes, new_figure, styled, use_log_axis
from cluster.results.intervals import half_width
from cluster.studies.figures import figures_of
from cluster.studies.provisioning.design import (
    ALGORITHMS,
    OF_CURVES,
    OF_DENSITIES,
    AlgorithmArm,
    InstanceGroup,
    Published,
    PublishedFigure,
    PublishedMeans,
    arms,
    rules_of,
)
from cluster.studies.runner import Row
from cluster.studies.violations import Ratio
from cluster.tables import new_table
from plb.provisioning import AUTO, Rules
from workloads.provisioning import GraphKind

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CLOSE = 0.3
"""Difference in percentage points up to which means are equal."""
SCHEMA: Mapping[str, Any] = {
    "figure": pl.String,
    "graph": pl.String,
    "density": pl.Float64,
    "applications": pl.Int64,
    "part": pl.Int64,
    "algorithm": pl.String,
    "rules": pl.String,
    "nodes": pl.Int64,
    "lower_bound": pl.Int64,
    "deviation_percent": pl.Float64,
    "seconds": pl.Float64,
}
"""Columns of the table of plans; ``part`` is the number of the instance in its group."""


def plans_frame(rows: Sequence[Row], timings: Sequence[Row]) -> pl.DataFrame:
    """Return a frame with a row for each instance and arm; `rows`, `timings`: of `Finished`, of the same runs in order.

    The rows have the keys of the arguments (`study.ProvisioningStudy.tasks`), and of the totals or timings that
    `study.run_planning` returns. The nodes by AUTO, which depend on the machine, are with the timings.
    """
    plans: list[Row] = []
    for row, timing in zip(rows, timings, strict=True):
        nodes = {**row["nodes"], AUTO: timing["auto_nodes"]}
        plans += _plans_of({**row, **timing, "nodes": nodes})
    return pl.DataFrame(plans, schema=SCHEMA)


def _plans_of(run: Row) -> list[Row]:
    """Return a row for each arm of a run, whose totals and timings are joined."""
    common = {name: run[name] for name in ("figure", "graph", "density", "applications", "part", "lower_bound")}
    bound = run["lower_bound"]
    return [
        {
            **common,
            "algorithm": arm.algorithm,
            "rules": arm.rules.value,
            "nodes": run["nodes"][arm.name],
            "deviation_percent": 100.0 * (run["nodes"][arm.name] - bound) / bound,
            "seconds": run["seconds"][arm.name],
        }
        for arm in arms(PublishedFigure(run["figure"]))
    ]


@attrs.frozen
class Mean:
    """Means over the instances of a group."""

    deviation: float
    """Mean deviation from the lower bound in percent."""
    seconds: float
    """Mean seconds of computation."""
    half_width: float | None = None
    """Half the width of the 95 % interval of the deviation; None for a single instance."""


@attrs.frozen(eq=False)
class GroupMeans:
    """The means of a group."""

    group: InstanceGroup
    """The group."""
    instances: int
    """Number of planned instances."""
    means: Mapping[AlgorithmArm, Mean]
    """Means by arm."""


def group_means(plans: pl.DataFrame) -> list[GroupMeans]:
    """Return the means of all groups with instances, by figure; `plans`: the frame of `plans_frame`."""
    groups = []
    group_columns = ("figure", "graph", "density", "applications")
    for (figure, graph, density, applications), group_plans in plans.group_by(group_columns, maintain_order=True):
        group = InstanceGroup(
            PublishedFigure(figure), GraphKind(graph), float(str(density)), applications and int(str(applications))
        )
        means = {
            AlgorithmArm(str(algorithm), Rules(rules)): _mean_of(arm_plans)
            for (algorithm, rules), arm_plans in group_plans.group_by("algorithm", "rules", maintain_order=True)
        }
        groups.append(GroupMeans(group, group_plans["part"].n_unique(), means))
    return groups


def agreement(groups: Sequence[GroupMeans], published: PublishedMeans) -> tuple[int, int]:
    """Return how many mean deviations are within `CLOSE` points of the published value, and how many were compared."""
    differences = [
        abs(mean.deviation - published_deviation.value)
        for group in groups
        for arm, mean in group.means.items()
        if arm.algorithm != AUTO
        and arm.rules is rules_of(group.group.figure)[0]
        and (published_deviation := published.of(group.group, arm.algorithm).deviation) is not None
    ]
    return sum(difference <= CLOSE for difference in differences), len(differences)


def average(means: Sequence[Mean]) -> Mean:
    """Return the mean of the means of several groups, without an interval."""
    return Mean(float(np.mean([mean.deviation for mean in means])), float(np.mean([mean.seconds for mean in means])))


def nodes_by_first_fit(plans: pl.DataFrame) -> dict[str, Ratio]:
    """Return the ratio of nodes to the nodes of First Fit on the same instance, by figure and arm, in words."""
    instance_columns = ["figure", "graph", "density", "applications", "part"]
    first_fit = (
        plans.filter(pl.col("algorithm") == "FF").unique(instance_columns).select(*instance_columns, of_first="nodes")
    )
    with_first_fit = plans.join(first_fit, on=instance_columns, nulls_equal=True, maintain_order="left")
    ratios = {}
    for (figure, algorithm, rules), arm_plans in with_first_fit.group_by(
        "figure", "algorithm", "rules", maintain_order=True
    ):
        if algorithm == "FF":
            continue
        values = (arm_plans["nodes"] / arm_plans["of_first"]).to_list()
        ratios[f"figure {figure}: {AlgorithmArm(str(algorithm), Rules(rules)).name}/FF"] = Ratio.of(values)
    return ratios


def as_json(plans: pl.DataFrame, published: PublishedMeans) -> dict[str, Any]:
    """Return the figures of the study. Plans have no violations; settings have deviations by arm."""
    groups = group_means(plans)
    settings = [_setting(group, published) for group in groups]
    ratios = {name: attrs.asdict(ratio) for name, ratio in nodes_by_first_fit(plans).items()}
    agreements = {}
    for figure in dict.fromkeys(group.group.figure for group in groups):
        close, compared = agreement([group for group in groups if group.group.figure is figure], published)
        agreements[figure.value] = {"close": close, "compared": compared}
    return figures_of("provisioning", settings, ratios, agreement=agreements)


def _setting(group: GroupMeans, published: PublishedMeans) -> dict[str, Any]:
    """Return a group with its means and the published means, as plain JSON values."""
    published_means = {arm.algorithm: published.of(group.group, arm.algorithm) for arm in group.means}
    return {
        **attrs.asdict(group.group, value_serializer=lambda _i, _a, value: getattr(value, "value", value)),
        "instances": group.instances,
        "deviation_percent": {arm.name: mean.deviation for arm, mean in group.means.items()},
        "deviation_half_width": {arm.name: mean.half_width for arm, mean in group.means.items()},
        "seconds": {arm.name: mean.seconds for arm, mean in group.means.items()},
        "published_deviation_percent": {
            name: attrs.asdict(means.deviation) for name, means in published_means.items() if means.deviation
        },
        "published_seconds": {
            name: attrs.asdict(means.seconds) for name, means in published_means.items() if means.seconds
        },
    }


def _mean_of(plans: pl.DataFrame) -> Mean:
    """Return the means over the plans of an arm, a row for each instance."""
    deviations, seconds = (plans[column].to_list() for column in ("deviation_percent", "seconds"))
    return Mean(float(np.mean(deviations)), float(np.mean(seconds)), half_width(deviations))


SUBJECTS: Mapping[PublishedFigure, str] = {
    PublishedFigure.DENSITIES: "constant demand, by density of limits",
    PublishedFigure.SIZES: "constant demand, by number of applications",
    PublishedFigure.CURVE_DENSITIES: "demand that varies, by density of limits",
    PublishedFigure.CURVE_SIZES: "demand that varies, by number of applications",
}


def tables(groups: Sequence[GroupMeans], published: PublishedMeans) -> list[Table]:
    """Return a table for each figure with finished runs."""
    all_tables = []
    for figure in PublishedFigure:
        figure_groups = [group for group in groups if group.group.figure is figure]
        if figure_groups and figure is PublishedFigure.DENSITIES:
            all_tables.append(table_of_summary(figure_groups, published))
        if figure_groups:
            all_tables.append(table_of_figure(figure, figure_groups, published))
    return all_tables


def table_of_figure(figure: PublishedFigure, groups: Sequence[GroupMeans], published: PublishedMeans) -> Table:
    """Return a table of deviation and seconds by group and algorithm of a figure."""
    close, compared = agreement(groups, published)
    table = _table(
        f"[3] figure {figure.value}: {SUBJECTS[figure]}",
        f"means of up to {max(group.instances for group in groups)} instances; {close} of {compared} deviations are "
        f"within {CLOSE:g} points of [3]",
        figure,
        ("group", "algorithm"),
    )
    for group in groups:
        for index, algorithm in enumerate((*ALGORITHMS[figure], AUTO)):
            published_means = published.of(group.group, algorithm)
            cells = _cells(figure, algorithm, group.means, published_means.deviation, published_means.seconds)
            table.add_row(group.group.name if index == 0 else "", algorithm, *cells)
        table.add_section()
    return table


def table_of_summary(groups: Sequence[GroupMeans], published: PublishedMeans) -> Table:
    """Return a table of means over all groups of figure 4, which are the means of figure 3."""
    figure = PublishedFigure.DENSITIES
    table = _table(
        "[3] figure 3: constant demand, all densities",
        f"means of {sum(group.instances for group in groups)} instances in {len(groups)} groups; [3]: of those of "
        "the same groups that it reports",
        figure,
        ("algorithm",),
    )
    for algorithm in (*ALGORITHMS[figure], AUTO):
        published_means = [published.of(group.group, algorithm) for group in groups]
        means = {arm: average([group.means[arm] for group in groups]) for arm in groups[0].means}
        deviation, seconds = (
            _mean([group.deviation for group in published_means]),
            _mean([group.seconds for group in published_means]),
        )
        table.add_row(algorithm, *_cells(figure, algorithm, means, deviation, seconds))
    return table


def _cells(
    figure: PublishedFigure,
    algorithm: str,
    means: Mapping[AlgorithmArm, Mean],
    deviation: Published | None,
    seconds: Published | None,
) -> list[str]:
    """Return the cells of an algorithm: published and our deviations, then published and our seconds.

    `means`: our means, by arm; `deviation`, `seconds`: the published means.
    """
    ours = [means.get(AlgorithmArm(algorithm, rules)) for rules in rules_of(figure)]
    deviations = ["" if mean is None else f"{mean.deviation:.2f}" for mean in ours]
    times = ["" if mean is None else f"{mean.seconds:.2f}" for mean in ours]
    return [str(deviation or ""), *deviations, str(seconds or ""), *times]


def _mean(values: Sequence[Published | None]) -> Published | None:
    """Return the mean of the published values; None without any."""
    stated_values = [value for value in values if value is not None]
    if not stated_values:
        return None
    return Published(
        round(float(np.mean([value.value for value in stated_values])), 2),
        any(value.at_most for value in stated_values),
    )


def _table(title: str, caption: str, figure: PublishedFigure, first_headings: Sequence[str]) -> Table:
    """Return a table without rows; `first_headings`: headings before the headings of deviations and seconds."""
    rules_headings = [rules.value for rules in rules_of(figure)]
    headings = (*first_headings, "% above bound, [3]", *rules_headings, "seconds, [3]", *rules_headings)
    return new_table(headings, texts=len(first_headings), title=title, caption=caption)


MARKERS = "osD^vP*XhH"
MEASURES = (("% above the lower bound", "linear", "deviation"), ("seconds", "log", "seconds"))
"""Label and scale of the vertical axis, and its mean."""


def plots(groups: Sequence[GroupMeans], published: PublishedMeans) -> dict[str, Callable[[], Figure]]:
    """Return the plots of the figures with finished runs by file name."""
    draw_functions: dict[str, Callable[[], Figure]] = {}
    for figure in PublishedFigure:
        figure_groups = [group for group in groups if group.group.figure is figure]
        if figure_groups:
            draw_functions[f"figure{figure.value}.png"] = partial(by_axis, figure, figure_groups)
        if figure_groups and figure is PublishedFigure.DENSITIES:
            draw_functions["figure3.png"] = partial(trade_off, figure_groups, published)
    return draw_functions


def trade_off(groups: Sequence[GroupMeans], published: PublishedMeans) -> Figure:
    """Return a plot of mean deviation over mean seconds of all groups; filled: ours, hollow: of [3]."""
    plot, ax = new_axes(8.5, 5.0, "deviation and time, constant demand, all densities (hollow: the paper's)")
    algorithms = list(dict.fromkeys(arm.algorithm for arm in groups[0].means))
    for arm in groups[0].means:
        index = algorithms.index(arm.algorithm)
        style: dict[str, Any] = {"color": COLOURS[index % len(COLOURS)], "markersize": 7.0, "linestyle": "none"}
        marker = MARKERS[index % len(MARKERS)]
        our_mean = average([group.means[arm] for group in groups])
        is_leading = arm.rules is rules_of(PublishedFigure.DENSITIES)[0] or arm.algorithm == AUTO
        label = arm.algorithm if is_leading else None
        alpha = 1.0 if is_leading else 0.45
        ax.plot([our_mean.seconds], [our_mean.deviation], marker, label=label, alpha=alpha, **style)
        published_means = [published.of(group.group, arm.algorithm) for group in groups]
        complete_means = [
            Mean(means.deviation.value, means.seconds.value)
            for means in published_means
            if means.deviation and means.seconds
        ]
        if complete_means and is_leading:
            paper_mean = average(complete_means)
            ax.plot([paper_mean.seconds], [paper_mean.deviation], marker, fillstyle="none", **style)
    use_log_axis(ax, "x")
    ax.set(xlabel="seconds (pale: by the paper's text, else by the released programs' rules)")
    ax.set(ylabel=MEASURES[0][0])
    ax.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    ax.grid(alpha=0.25)
    return plot


def by_axis(figure: PublishedFigure, groups: Sequence[GroupMeans]) -> Figure:
    """Return a plot of deviation (above) and seconds of the groups of a figure, a column for each kind of graph.

    It is over the density of limits or the number of applications, for algorithms with the figure's first rules.
    """
    graphs = list(dict.fromkeys(group.group.graph for group in groups))
    title = "demand that varies" if figure in OF_CURVES else "constant demand"
    plot = new_figure(4.2 * len(graphs) + 2.6, 6.0, title)
    axes = plot.subplots(2, len(graphs), squeeze=False, sharey="row", sharex=True)
    first_rules = rules_of(figure)[0]
    shown_arms = [arm for arm in arms(figure) if arm.rules is first_rules or arm.algorithm == AUTO]
    for column, graph in enumerate(graphs):
        graph_groups = [group for group in groups if group.group.graph is graph]
        for row, (label, scale, measure) in enumerate(MEASURES):
            ax = axes[row, column]
            _lines(ax, graph_groups, shown_arms, figure, measure)
            ax.set(yscale=scale, title=f"{graph.value} graph, rules: {first_rules.value}" if row == 0 else "")
            ax.set_ylabel(label if column == 0 else "")
            ax.grid(alpha=0.25)
            if row == 1:
                ax.set_xlabel("density of limits (%)" if figure in OF_DENSITIES else "applications")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    plot.legend(handles, labels, loc="outside right center", frameon=False, fontsize=8)
    return plot


def _lines(
    ax: Axes, groups: Sequence[GroupMeans], shown_arms: Sequence[AlgorithmArm], figure: PublishedFigure, measure: str
) -> None:
    """Draw a measure, a field of `Mean`, of groups by density or number of applications, a line for each arm."""

    def position(group: GroupMeans) -> float:
        return 100.0 * group.group.density if figure in OF_DENSITIES else float(group.group.applications or 0)

    ordered = sorted(groups, key=position)
    positions = [position(group) for group in ordered]
    for index, (arm, style) in enumerate(styled(shown_arms)):
        values = [getattr(group.means[arm], measure) for group in ordered]
        ax.plot(
            positions,
            values,
            marker=MARKERS[index % len(MARKERS)],
            linewidth=1.2,
            markersize=5,
            label=arm.algorithm,
            **style,
        )
    ax.set_xticks(positions, [f"{value:g}" for value in positions])
