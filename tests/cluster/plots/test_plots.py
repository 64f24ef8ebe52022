"""Plots of results: interrupted runs, loads at the threshold, small figures."""

from __future__ import annotations

import io
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Annotation

from cluster.plots.base import (
    COLOURS,
    DAY,
    LINE_STYLES,
    new_axes,
    plot_counts,
    plot_violations,
    save_figure,
    styled,
    use_log_axis,
)
from cluster.plots.formats import COLUMN_INCHES, PlotFormat, plots_as
from cluster.plots.loads import MOST_CLASSES, plot_availability, plot_load_bands, plot_load_map
from cluster.studies.design import StudySetting
from cluster.studies.figures import ClaimTable, figure_of_settings

pytestmark = pytest.mark.usefixtures("drawn_figures")


def axes(width: float = 6.0, height: float = 3.2) -> Axes:
    """Return the axes of a new figure."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure.subplots()  # type: ignore[no-any-return]


def events(*rows: tuple[str, int, float]) -> pl.DataFrame:
    """Return events with these policies, repeats and days."""
    schema = {"policy": pl.String, "repeat": pl.Int32, "time_s": pl.Int64}
    return pl.DataFrame([(policy, repeat, int(day * DAY)) for policy, repeat, day in rows], schema=schema, orient="row")


def points(line: Line2D) -> list[tuple[float, float]]:
    """Return the points of a line."""
    return list(zip(np.asarray(line.get_xdata()).tolist(), np.asarray(line.get_ydata()).tolist(), strict=True))


def loads(shares: list[float], minutes: int = 10) -> pl.DataFrame:
    """Return the metered loads of one node, one interval apart."""
    times = [60 * minutes * (number + 1) for number in range(len(shares))]
    return pl.DataFrame({"time_s": times, "node": "n0", "metric": "cpu", "share": shares})


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=4), st.data())
@settings(max_examples=30)
def test_a_line_is_the_mean_of_the_active_runs(ends: list[float], data: st.DataObject):
    """The line ends with the longest run. Each count is divided by the number of runs that last until that time."""
    days = {
        repeat: data.draw(st.lists(st.integers(0, int(end * DAY)).map(lambda s: s / DAY), max_size=5))
        for repeat, end in enumerate(ends)
    }
    ax = axes()
    table = events(*(("a", repeat, day) for repeat, of in days.items() for day in of))
    plot_counts(ax, table, ["a"], {"a": dict(enumerate(ends))}, 1.0)
    (line,) = ax.lines
    drawn = points(line)
    assert drawn[-1][0] == max(ends)
    seconds = {repeat: table.filter(repeat=repeat)["time_s"].to_list() for repeat in days}
    for time, value in drawn[::37]:
        reached = [repeat for repeat, end in enumerate(ends) if time <= end]
        counted = sum(one / DAY <= time for repeat in reached for one in seconds[repeat])
        assert value == pytest.approx(counted / len(reached))


def shortages(*rows: tuple[str, float, str, bool | None]) -> pl.DataFrame:
    """Return violations of one repeat with these policies, days, metrics and flags, all on one node."""
    whole = [(policy, 0, int(day * DAY), "n0", metric, flag, "violation") for policy, day, metric, flag in rows]
    names = ["policy", "repeat", "time_s", "node", "metric", "avoidable", "outcome"]
    return pl.DataFrame(whole, names, schema_overrides={"avoidable": pl.Boolean}, orient="row")


def names_of(ax: Axes) -> list[str]:
    """Return the names of the lines."""
    return [text.get_text() for text in ax.texts if isinstance(text, Annotation)]


def test_unavoidable_violations_are_a_thin_line_above():
    """The thick line has the avoidable ones. A policy without unavoidable violations has one line only."""
    ax = axes()
    table = shortages(
        *[("a", 1.0, "cpu", True), ("a", 2.0, "cpu", True), ("a", 2.0, "memory", False), ("a", 3.0, "cpu", False)],
        *[("b", 1.0, "cpu", True), ("b", 1.0, "memory", True)],
    )
    plot_violations(ax, table, ["a", "b"], {"a": {0: 4.0}, "b": {0: 4.0}}, 4.0)
    ends = {(line.get_linewidth() > 1.0, line.get_color()): points(line)[-1] for line in ax.lines}
    assert ends == {(False, COLOURS[0]): (4.0, 3.0), (True, COLOURS[0]): (4.0, 1.0), (True, COLOURS[1]): (4.0, 1.0)}
    assert names_of(ax) == ["a 1", "b 1", "a, all 3"]
    assert ax.get_ylim()[1] > 3.0


def test_lines_differ_in_colour_and_style():
    styles = [style for _, style in styled(range(len(COLOURS) * len(LINE_STYLES)))]
    assert len({(style["color"], style["linestyle"]) for style in styles}) == len(styles)
    neighbours = list(pairwise(styles))
    assert all(one["color"] != two["color"] and one["linestyle"] != two["linestyle"] for one, two in neighbours)


def luminance_for(deficiency: str, colour: str) -> np.ndarray:
    """Return a colour as people with a deficiency see it, by the matrices of Machado et al., 2009, in linear RGB."""
    linear = np.array([((part + 0.055) / 1.055) ** 2.4 if part > 0.04045 else part / 12.92 for part in to_rgb(colour)])
    return np.array(MACHADO[deficiency]) @ linear


MACHADO = {
    "protanopia": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    "deuteranopia": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
}


@pytest.mark.parametrize("deficiency", MACHADO)
def test_colours_differ_for_colour_blind_people(deficiency: str):
    seen = [luminance_for(deficiency, colour) for colour in COLOURS]
    distances = [float(np.linalg.norm(one - two)) for one, two in combinations(seen, 2)]
    assert min(distances) > 0.1


def test_counts_have_whole_ticks():
    for count in (1, 3, 5, 8, 23):
        ax = axes()
        plot_counts(ax, events(*[("a", 0, 0.1 * n) for n in range(count)]), ["a"], {"a": {0: 4.0}}, 4.0)
        assert all(float(tick).is_integer() for tick in ax.get_yticks())


@given(st.lists(st.integers(0, 30), min_size=1, max_size=8))
@settings(max_examples=20)
def test_names_of_lines_cover_neither_curves_nor_each_other(totals: list[int]):
    policies = [f"policy {number}" for number in range(len(totals))]
    rows = [(policy, 0, 0.1 * n) for policy, total in zip(policies, totals, strict=True) for n in range(total)]
    ax = axes(4.4, 3.0)
    plot_counts(ax, events(*rows), policies, {policy: {0: 4.0} for policy in policies}, 4.0)
    assert ax.figure is not None
    ax.figure.draw_without_rendering()  # type: ignore[union-attr]
    names = [text for text in ax.texts if isinstance(text, Annotation)]
    boxes = sorted((text.get_window_extent() for text in names), key=lambda box: box.y0)
    assert all(box.x0 >= ax.bbox.x1 for box in boxes)
    assert all(lower.y0 + 8 < upper.y0 for lower, upper in pairwise(boxes))


@pytest.mark.parametrize("plot_format", PlotFormat)
def test_figures_of_papers_have_the_width_of_a_column_and_equal_bytes(plot_format: PlotFormat, tmp_path: Path):
    written = []
    for name in ("one", "two"):
        with plots_as(plot_format):
            figure, ax = new_axes(7.5, 4.2, "a title")
            plot_counts(ax, events(("a", 0, 1.0)), ["a"], {"a": {0: 4.0}}, 4.0)
            written.append(save_figure(figure, tmp_path / f"{name}.png"))
    assert {path.suffix for path in written} == {f".{plot_format}"}
    assert figure.get_figwidth() == (7.5 if plot_format is PlotFormat.PNG else COLUMN_INCHES)
    assert written[0].read_bytes() == written[1].read_bytes()


def test_logarithmic_axes_have_plain_numbers():
    ax = axes()
    ax.plot([0.02, 30.0], [1.0, 2.0])
    use_log_axis(ax, "x")
    assert ax.figure is not None
    ax.figure.draw_without_rendering()  # type: ignore[union-attr]
    shown = {label.get_text() for label in ax.get_xticklabels()}
    assert {"0.1", "1", "10"} <= shown
    assert not any("$" in text for text in shown)


def test_the_map_of_an_interrupted_run_ends_with_its_last_metering():
    for count, end in ((1, 1.0), (6, 6.0), (36, 36.0)):
        ax = axes()
        mesh = plot_load_map(ax, loads([0.5] * count, minutes=1440), "cpu", 0.95, 36.0)
        assert mesh.get_coordinates()[0, 0].tolist() == [0.0, -0.5]
        assert mesh.get_coordinates()[-1, -1].tolist() == [end, 0.5]
        assert ax.get_xlim() == (0.0, 36.0)


def red_pixels(ax: Axes, dots_per_inch: int) -> int:
    """Return how many pixels have the colour of loads at or above the threshold."""
    ax.set_axis_off()
    target = io.BytesIO()
    assert isinstance(ax.figure, Figure)
    ax.figure.savefig(target, format="raw", dpi=dots_per_inch)
    pixels = np.frombuffer(target.getvalue(), np.uint8).reshape(-1, 4)
    return int((pixels[:, :3] == (0xD5, 0x5E, 0x00)).all(axis=1).sum())


@pytest.mark.parametrize("threshold", [0.95, 0.9, 1.0, 0.7, 0.57])
def test_a_load_at_the_threshold_is_red_in_the_map(threshold: float):
    def is_red(share: float) -> bool:
        ax = axes()
        plot_load_map(ax, loads([share] * 3), "cpu", threshold, 1 / 48)
        return red_pixels(ax, dots_per_inch=20) > 0

    assert is_red(threshold)
    assert is_red(threshold + 0.1)
    assert not is_red(threshold - 1e-3)


@given(st.integers(1, 1500), st.integers(1, 300), st.data())
@settings(max_examples=20)
def test_one_violation_is_visible_in_a_long_run_of_many_nodes(meterings: int, nodes: int, data: st.DataObject):
    """The image may have fewer pixels than the run has meterings, or than the cluster has nodes."""
    shares = np.full((meterings, nodes), 0.5)
    shares[data.draw(st.integers(0, meterings - 1)), data.draw(st.integers(0, nodes - 1))] = 1.0
    table = pl.DataFrame(
        {
            "time_s": np.repeat(600 * np.arange(1, meterings + 1), nodes),
            "node": np.tile([f"n{node:03d}" for node in range(nodes)], meterings),
            "metric": "cpu",
            "share": shares.ravel(),
        }
    )
    ax = axes()
    plot_load_map(ax, table, "cpu", 0.95, meterings / 144)
    assert red_pixels(ax, dots_per_inch=100) > 0
    ax = axes()
    plot_load_bands(ax, table, "cpu", 0.95, meterings / 144)
    assert ax.collections[0].get_datalim(ax.transData).ymax == 100.0


def test_classes_without_a_stay_are_drawn_last():
    """Their downtime is not a number. If there are many classes, those with the most downtime are drawn."""
    names = [f"c{number:02}" for number in range(MOST_CLASSES)]
    rows = [("original", name, 86400.0, 60.0, 1 - 60 / 86400) for name in names]
    rows += [("original", "a", 0.0, 0.0, None)]
    columns = ["policy", "tenant_class", "stay_s", "downtime_s", "availability"]
    ax = axes()
    plot_availability(ax, pl.DataFrame(rows, schema=columns, orient="row"), ["original"])
    assert [label.get_text() for label in ax.get_yticklabels()] == names


def test_bars_of_equal_colour_differ_by_hatching():
    columns = {f"arm {number}": np.array([1.0 + number]) for number in range(len(COLOURS) + 2)}
    table = ClaimTable((StudySetting("w", 80.0, 2.0),), columns, {}, "arm 0", "arm 1")
    figure = figure_of_settings(table, "risk, expected_overload: violations, means of 5 repeats")
    bars = [container.patches[0] for container in figure.axes[0].containers]
    assert len({(bar.get_facecolor(), bar.get_hatch()) for bar in bars}) == len(columns)
    figure.canvas.draw()
    title = figure.texts[0].get_window_extent()
    assert title.x0 >= 0.0
    assert title.x1 <= figure.bbox.x1
