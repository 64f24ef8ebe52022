"""The tables of the study of [3]."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from rich.table import Table

from cluster.console.tables import new_table
from cluster.studies.provisioning.design import ALGORITHMS, AlgorithmArm, PublishedFigure, rules_of
from cluster.studies.provisioning.figures import CLOSE, GroupMeans, Mean, agreement, average
from cluster.studies.provisioning.published import Published, PublishedMeans
from plb.provisioning import AUTO

SUBJECTS: Mapping[PublishedFigure, str] = {
    PublishedFigure.DENSITIES: "constant demand, by density of limits",
    PublishedFigure.SIZES: "constant demand, by number of applications",
    PublishedFigure.CURVE_DENSITIES: "demand that varies, by density of limits",
    PublishedFigure.CURVE_SIZES: "demand that varies, by number of applications",
}


def tables(groups: Sequence[GroupMeans], published: PublishedMeans) -> list[Table]:
    """Return a table for each figure with finished runs."""
    found = []
    for figure in PublishedFigure:
        of_figure = [one for one in groups if one.group.figure is figure]
        if of_figure and figure is PublishedFigure.DENSITIES:
            found.append(table_of_summary(of_figure, published))
        if of_figure:
            found.append(table_of_figure(figure, of_figure, published))
    return found


def table_of_figure(figure: PublishedFigure, groups: Sequence[GroupMeans], published: PublishedMeans) -> Table:
    """Return deviation and seconds by group and algorithm."""
    close, compared = agreement(groups, published)
    shown = _table(
        f"[3] figure {figure.value}: {SUBJECTS[figure]}",
        f"means of up to {max(one.instances for one in groups)} instances; {close} of {compared} deviations are within "
        f"{CLOSE:g} points of [3]",
        figure,
        ("group", "algorithm"),
    )
    for one in groups:
        for number, algorithm in enumerate((*ALGORITHMS[figure], AUTO)):
            of_paper = published.of(one.group, algorithm)
            cells = _cells(figure, algorithm, one.means, of_paper.deviation, of_paper.seconds)
            shown.add_row(one.group.name if number == 0 else "", algorithm, *cells)
        shown.add_section()
    return shown


def table_of_summary(groups: Sequence[GroupMeans], published: PublishedMeans) -> Table:
    """Return means over all groups of figure 4, which are those of figure 3."""
    figure = PublishedFigure.DENSITIES
    shown = _table(
        "[3] figure 3: constant demand, all densities",
        f"means of {sum(one.instances for one in groups)} instances in {len(groups)} groups; [3]: of those of "
        "the same groups that it reports",
        figure,
        ("algorithm",),
    )
    for algorithm in (*ALGORITHMS[figure], AUTO):
        of_paper = [published.of(one.group, algorithm) for one in groups]
        means = {arm: average([one.means[arm] for one in groups]) for arm in groups[0].means}
        deviation, seconds = _mean([one.deviation for one in of_paper]), _mean([one.seconds for one in of_paper])
        shown.add_row(algorithm, *_cells(figure, algorithm, means, deviation, seconds))
    return shown


def _cells(
    figure: PublishedFigure,
    algorithm: str,
    means: Mapping[AlgorithmArm, Mean],
    deviation: Published | None,
    seconds: Published | None,
) -> list[str]:
    """Return the cells of an algorithm: published and our deviations, then published and our seconds."""
    ours = [means.get(AlgorithmArm(algorithm, rules)) for rules in rules_of(figure)]
    deviations = ["" if mean is None else f"{mean.deviation:.2f}" for mean in ours]
    times = ["" if mean is None else f"{mean.seconds:.2f}" for mean in ours]
    return [str(deviation or ""), *deviations, str(seconds or ""), *times]


def _mean(values: Sequence[Published | None]) -> Published | None:
    """Return the mean of the published values; None without any."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    return Published(round(float(np.mean([value.value for value in known])), 2), any(value.at_most for value in known))


def _table(title: str, caption: str, figure: PublishedFigure, first: Sequence[str]) -> Table:
    ours = [rules.value for rules in rules_of(figure)]
    headings = (*first, "% above bound, [3]", *ours, "seconds, [3]", *ours)
    return new_table(headings, texts=len(first), title=title, caption=caption)
