"""Every plot that draws into an `ax`, from small synthetic data, compared with its image in `baseline`.

After an intended change, create the images again::

    .venv/bin/pytest tests/cluster/plots/test_plot_images.py --mpl-generate-path=tests/cluster/plots/baseline
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import polars as pl
import pytest
from matplotlib.figure import Figure

import cluster
from cluster.capacity.report import answer, plot_capacity
from cluster.learning.evaluation import EvaluationResult, plot_figure
from cluster.learning.training import plot_curve
from cluster.plots.base import plot_counts, plot_violations
from cluster.plots.loads import availability_by_class, plot_availability, plot_load_bands, plot_load_map
from cluster.plots.moves import plot_causes, plot_domain_moves, plot_energy, plot_failovers
from cluster.plots.traces import plot_classes, plot_days, plot_growth, plot_lifetimes, plot_tenants, plot_usage
from cluster.studies.compression import Effect, plot_effects
from cluster.studies.design import StudySetting
from cluster.studies.figures import ClaimTable, plot_ratios, plot_settings
from cluster.studies.forecast_scores import Scored, ScoreEstimate, Scores, plot_reliability
from cluster.studies.gaussian.figures import boxes
from cluster.studies.peaks.panels import QUANTILES, Panel
from cluster.studies.peaks.study import plot_panel
from plb.learning.checkpoints import CurveRow
from plb.risk import Recalibration
from tests.cluster.capacity.synthetic import point, question_of
from workloads.trace import MetricInfo
from workloads.trace_description import MetricFigures, TraceDescription

STYLE: Mapping[str, Any] = MappingProxyType(
    {
        "baseline_dir": "baseline",
        "style": "default",
        "savefig_kwargs": {"dpi": 50, "metadata": {"Software": None}},
        "tolerance": 6,
        "deterministic": True,
    }
)
Plot = Callable[..., object]
DAYS = 2.0
POLICIES = ["original", "modified"]
REPEATS = {"original": [0, 1], "modified": [0, 1]}
LENGTHS = {policy: dict.fromkeys(repeats, DAYS) for policy, repeats in REPEATS.items()}


def figure_of(
    draw: Callable[..., object], *arguments: Any, width: float = 4.4, height: float = 3.0, **named: Any
) -> Figure:
    """Return a small figure of a plot."""
    figure = Figure(figsize=(width, height), layout="constrained")
    draw(figure.subplots(), *arguments, **named)
    return figure


def events() -> pl.DataFrame:
    """Return moves that are also violations: more under the first policy, with different repeats."""
    rows = [
        {
            "policy": policy,
            "repeat": repeat,
            "time_s": 3600 * (5 + 4 * number + 3 * repeat),
            "node": f"n{number % 4}",
            "outcome": "violation" if number % 5 else "covered",
            "kind": "swap" if number == 3 else "move",
            "source": f"n{number % 4}",
            "target": f"n{(number * number + 1) % 4}",
            "cause": ("violation", "node fault", "capacity_reserve")[number % 3],
            "failover": number % 4 != 2,
        }
        for policy, count in (("original", 9), ("modified", 4))
        for repeat in (0, 1)
        for number in range(count + repeat)
    ]
    return pl.DataFrame(rows)


def node_load() -> pl.DataFrame:
    """Return loads of six nodes that rise and fall. One reaches the threshold, and one is down for some time."""
    rows = [
        (3600 * hour, f"n{node}", "cpu", 0.0 if is_down else 0.45 + 0.08 * node + 0.15 * np.sin(hour / 6.0 + node))
        for hour in range(1, 49)
        for node in range(6)
        for is_down in [node == 2 and 20 <= hour < 26]
    ]
    return pl.DataFrame(rows, schema=["time_s", "node", "metric", "share"], orient="row")


@pytest.mark.mpl_image_compare(**STYLE)
def test_violations() -> Figure:
    """The steps are means over repeats, the bands their range. The legend contains the totals."""
    return figure_of(plot_violations, events().with_columns(avoidable=True), POLICIES, LENGTHS, DAYS)


@pytest.mark.mpl_image_compare(**STYLE)
def test_violations_of_both_kinds() -> Figure:
    """A dashed line adds the unavoidable violations of the first policy. The second one has none."""
    never = (pl.col("policy") == "original") & (pl.col("node") == "n1")
    return figure_of(plot_violations, events().with_columns(avoidable=~never), POLICIES, LENGTHS, DAYS)


@pytest.mark.mpl_image_compare(**STYLE)
def test_counts() -> Figure:
    """The events are from one repeat, so there is no band. The line of an interrupted run ends with the run."""
    lengths = {"original": {0: DAYS}, "modified": {0: 0.6 * DAYS}}
    return figure_of(plot_counts, events().filter(repeat=0), POLICIES, lengths, DAYS)


@pytest.mark.mpl_image_compare(**STYLE)
def test_failovers() -> Figure:
    """Only failovers count among the moves."""
    return figure_of(plot_failovers, events(), POLICIES, LENGTHS, DAYS)


@pytest.mark.mpl_image_compare(**STYLE)
def test_causes() -> Figure:
    """Each policy has one bar, from top to bottom. Its parts are the causes."""
    return figure_of(plot_causes, events(), POLICIES, REPEATS, height=2.0)


@pytest.mark.mpl_image_compare(**STYLE)
def test_domain_moves() -> Figure:
    """Every cell contains a number; more moves give a darker cell. A domain without moves is included."""
    racks = {f"n{number}": f"fd:/rack{number // 2}" for number in range(5)}
    nodes = pl.DataFrame({"node": list(racks), "fault_domain": list(racks.values())})
    return figure_of(plot_domain_moves, events(), nodes, width=3.2)


@pytest.mark.mpl_image_compare(**STYLE)
def test_load_bands() -> Figure:
    """The plot shows median, middle half and whole range below the dashed threshold."""
    return figure_of(plot_load_bands, node_load(), "cpu", 0.9, DAYS)


@pytest.mark.mpl_image_compare(**STYLE)
def test_load_map() -> Figure:
    """Loads at or above the threshold are red. A node without load is white."""
    return figure_of(plot_load_map, node_load(), "cpu", 0.9, DAYS)


def plans() -> pl.DataFrame:
    """Return energies after plans."""
    rows = [
        (policy, 3600 * hour, factor * (1 + np.cos(hour / 8)), hour % 4)
        for policy, factor in (("original", 1.0), ("modified", 0.6))
        for hour in range(48)
    ]
    return pl.DataFrame(rows, schema=["policy", "time_s", "imbalance_after", "movement_after"], orient="row")


@pytest.mark.mpl_image_compare(**STYLE)
def test_energy() -> Figure:
    """A term of the placement keeps its value until the next plan."""
    return figure_of(plot_energy, plans(), "imbalance", POLICIES, DAYS)


@pytest.mark.mpl_image_compare(**STYLE)
def test_energy_of_movement() -> Figure:
    """The term of a single plan is one dot per plan."""
    return figure_of(plot_energy, plans(), "movement", POLICIES, DAYS)


@pytest.mark.mpl_image_compare(**STYLE)
def test_availability() -> Figure:
    """Each class is a group of bars; the class with the most downtime is at the top. A long name is cut."""
    tenants = pl.DataFrame(
        {
            "policy": ["original", "original", "modified", "modified", "modified"],
            "repeat": pl.Series([0] * 5, dtype=pl.Int32),
            "tenant_class": ["small", "large", "small", "large", "a class with a name of many letters"],
            "arrival_s": [0, 0, 0, 43200, 0],
            "departure_s": [172800, 86400, 172800, 200000, 86400],
            "downtime_s": [30.0, 60.0, 0.0, 30.0, 10.0],
            "failovers": [1, 2, 0, 1, 1],
        }
    )
    classes = availability_by_class(tenants, {("original", 0): 172800.0, ("modified", 0): 172800.0})
    return figure_of(plot_availability, classes, POLICIES)


def description(*, begins: bool = True) -> TraceDescription:
    """Return the description of a trace of 24 tenants in 12 classes."""
    number = np.arange(24.0)
    figures = MetricFigures(
        metric=MetricInfo("cpu", "vCores"),
        mean=1.0,
        highest=4.0,
        used=0.3,
        mean_shares=0.5 + 0.4 * np.sin(number),
        peak_shares=0.6 + 0.39 * np.sin(number),
        growing=0.2,
        rise=0.1,
        growth_hours=9.0,
        daily=1.0 + 0.5 * np.sin(number / 24 * 2 * np.pi),
        life=np.linspace(0.2, 0.5, 10),
    )
    return TraceDescription(
        provenance={},
        step_seconds=600.0,
        rows=1000,
        series=24,
        tenant_class=np.array([f"class {int(one) % 12}" for one in number]),
        families=24,
        replicas=24,
        lifetime_hours=np.round(1.0 + number**2),
        censored=number % 3 == 0,
        start_hours=4.0 * number if begins else None,
        metrics=(figures,),
    )


@pytest.mark.mpl_image_compare(**STYLE)
def test_trace_tenants() -> Figure:
    """The line is the number of tenants over time."""
    return figure_of(plot_tenants, description())


@pytest.mark.mpl_image_compare(**STYLE)
def test_trace_tenants_by_age() -> Figure:
    """If a trace contains no begin times, the plot shows how many tenants reach an age."""
    return figure_of(plot_tenants, description(begins=False))


@pytest.mark.mpl_image_compare(**STYLE)
def test_trace_lifetimes() -> Figure:
    """Completed and truncated lifetimes are separate."""
    return figure_of(plot_lifetimes, description())


@pytest.mark.mpl_image_compare(**STYLE)
def test_trace_classes() -> Figure:
    """The plot shows the ten largest classes and the sum of the others."""
    return figure_of(plot_classes, description())


@pytest.mark.mpl_image_compare(**STYLE)
def test_trace_usage() -> Figure:
    """The plot shows the distributions of mean and peak."""
    return figure_of(plot_usage, description())


@pytest.mark.mpl_image_compare(**STYLE)
def test_trace_growth() -> Figure:
    """Each tenth of a lifetime is a point."""
    return figure_of(plot_growth, description())


@pytest.mark.mpl_image_compare(**STYLE)
def test_trace_days() -> Figure:
    """Each hour of the day is a point."""
    return figure_of(plot_days, description())


def table() -> ClaimTable:
    """Return mean violations of two arms in four settings. In one setting, the second arm has none."""
    settings = tuple(StudySetting("region1", 80.0, density) for density in (1.5, 2.0, 2.5, 3.0))
    columns = {"original": np.array([0.0, 2.0, 5.5, 12.0]), "modified": np.array([0.0, 1.0, 2.0, 8.0])}
    return ClaimTable(settings, columns, {}, "original", "modified")


@pytest.mark.mpl_image_compare(**STYLE)
def test_study_settings() -> Figure:
    """Each density is a group of bars."""
    return figure_of(plot_settings, table(), [0, 1, 2, 3])


@pytest.mark.mpl_image_compare(**STYLE)
def test_study_ratios() -> Figure:
    """A setting with denominator 0 has no point."""
    return figure_of(plot_ratios, table())


@pytest.mark.mpl_image_compare(**STYLE)
def test_study_effects() -> Figure:
    """Points below the diagonal show that the models underestimate."""
    found = [
        Effect(name, 10 + number, number / 10, (number / 10) ** exponent, 100)
        for name, exponent in (("a", 1.2), ("b", 1.5))
        for number in range(11)
    ]
    return figure_of(plot_effects, found)


@pytest.mark.mpl_image_compare(**STYLE)
def test_study_boxes() -> Figure:
    """Boxes are side by side, shifted and coloured."""
    return figure_of(boxes, {"GPA": [1.0, 2.0, 2.5, 4.0], "av": [2.0, 2.0, 3.0, 9.0]}, colour="#2f6f9f", offset=0.1)


@pytest.mark.mpl_image_compare(**STYLE)
def test_study_reliability() -> Figure:
    """Bins without predictions are omitted. Bars are intervals; a bin of a single node has none."""
    observed = (0.02, 0.01, 0.04), (0.4, 0.2, 0.55), (None, None, None), (0.75, None, None)
    score = ScoreEstimate(0.1, 0.05, 0.2)
    scores = Scores(
        129,
        20,
        *(score,) * 4,
        samples=np.array([100, 25, 0, 4]),
        predicted=np.array([0.05, 0.3, np.nan, 0.9]),
        observed=tuple(ScoreEstimate(*one) for one in observed),
    )
    unused = Recalibration((0.0,), (0.0,))
    scored = Scored("region", "Monte Carlo", "24 hours", "held", scores, recalibrated=None, recalibration=unused)
    return figure_of(plot_reliability, [scored])


@pytest.mark.mpl_image_compare(**STYLE)
def test_study_panel() -> Figure:
    """The plot shows distributions by their quantiles."""
    quantiles = np.asarray(QUANTILES)
    return figure_of(plot_panel, Panel(8, "a", "savings", {"one": quantiles**2, "other": 0.2 + 0.5 * quantiles}))


@pytest.mark.mpl_image_compare(**STYLE)
def test_learning_curve() -> Figure:
    """Stages are in sequence, each with the range of its trajectories and a mean over ten iterations."""

    def rows(count: int, level: float) -> Sequence[CurveRow]:
        rewards = [level - 10.0 / (1 + i) for i in range(count)]
        return [CurveRow(i + 1, one, one - 2, one + 1, 0.5, 0.1, 10) for i, one in enumerate(rewards)]

    return figure_of(plot_curve, {"first": rows(20, -5.0), "second": rows(5, -3.0)})


@pytest.mark.mpl_image_compare(**STYLE)
def test_learning_figure() -> Figure:
    """Each policy is a bar with its interval. The learned policy is highlighted."""
    figures = {"learned": {"reward": (-3.0, -4.0, -3.5)}, "first fit": {"reward": (-6.0, -5.0, -7.0)}}
    return figure_of(plot_figure, EvaluationResult(8, figures), "reward", height=2.0)


@pytest.mark.mpl_image_compare(**STYLE)
def test_capacity_of_two_policies() -> Figure:
    """Filled points suffice, the answers are large, and the limit is a line."""
    question = question_of()
    most = {"original": 45.0, "modified": 35.0}
    answers = answer(
        question, list(most), lambda pairs: [point(question, value, most[policy] / value) for policy, value in pairs]
    )
    return figure_of(plot_capacity, question, list(answers.values()))


def test_every_plot_has_a_baseline_image():
    """Every function in `cluster` that draws into an `ax` has an image."""
    here = Path(__file__).read_text()
    found = [
        function.name
        for path in Path(cluster.__file__).parent.rglob("*.py")
        for function in ast.parse(path.read_text()).body
        if isinstance(function, ast.FunctionDef) and not function.name.startswith("_")
        if "ax" in [argument.arg for argument in function.args.args]
    ]
    assert len(found) >= 22
    assert [name for name in found if f"figure_of({name}" not in here] == []
