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
from cluster.plots.base import COLOURS, plot_counts, plot_violations
from cluster.plots.loads import availability_by_class, plot_availability, plot_load_bands, plot_load_map
from cluster.plots.moves import plot_causes, plot_domain_moves, plot_energy, plot_failovers
from cluster.plots.traces import plot_classes, plot_days, plot_growth, plot_lifetimes, plot_tenants, plot_usage
from cluster.studies.calibration.scores import Scored, ScoreEstimate, Scores, plot_reliability
from cluster.studies.compression import Effect, plot_effects
from cluster.studies.design import StudySetting
from cluster.studies.figures import ClaimTable, plot_ratios, plot_settings
from cluster.studies.gaussian.figures import boxes
from cluster.studies.peaks.panels import QUANTILES, Panel
from cluster.studies.peaks.study import plot_panel
from plb.learning.checkpoints import CurveRow
from plb.risk import Recalibration
from tests.cluster.capacity.synthetic import point, question_of
from workloads.trace import MetricInfo
from workloads.trace_description import MetricFigures, TraceDescription

pytestmark = pytest.mark.usefixtures("drawn_figures")
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


def violations_of_both_kinds() -> Figure:
    """Draw unavoidable violations of the first policy only."""
    never = (pl.col("policy") == "original") & (pl.col("node") == "n1")
    return figure_of(plot_violations, events().with_columns(avoidable=~never), POLICIES, LENGTHS, DAYS)


def counts() -> Figure:
    """Draw one repeat without a band; the line of an interrupted run ends with the run."""
    lengths = {"original": {0: DAYS}, "modified": {0: 0.6 * DAYS}}
    return figure_of(plot_counts, events().filter(repeat=0), POLICIES, lengths, DAYS)


def domain_moves() -> Figure:
    """Draw a number in every cell, darker for more moves; a domain has no moves."""
    racks = {f"n{number}": f"fd:/rack{number // 2}" for number in range(5)}
    nodes = pl.DataFrame({"node": list(racks), "fault_domain": list(racks.values())})
    return figure_of(plot_domain_moves, events(), nodes, width=3.2)


def plans() -> pl.DataFrame:
    """Return energies after plans."""
    rows = [
        (policy, 3600 * hour, factor * (1 + np.cos(hour / 8)), hour % 4)
        for policy, factor in (("original", 1.0), ("modified", 0.6))
        for hour in range(48)
    ]
    return pl.DataFrame(rows, schema=["policy", "time_s", "imbalance_after", "movement_after"], orient="row")


def availability() -> Figure:
    """Draw the class with the most downtime at the top; a long name is cut."""
    rows = [
        ("original", 0, "small", 0, 172800, 30.0, 1),
        ("original", 0, "large", 0, 86400, 60.0, 2),
        ("modified", 0, "small", 0, 172800, 0.0, 0),
        ("modified", 0, "large", 43200, 200000, 30.0, 1),
        ("modified", 0, "a class with a name of many letters", 0, 86400, 10.0, 1),
    ]
    names = ["policy", "repeat", "tenant_class", "arrival_s", "departure_s", "downtime_s", "failovers"]
    tenants = pl.DataFrame(rows, names, schema_overrides={"repeat": pl.Int32}, orient="row")
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
        tenant_class=np.array([f"class {index % 12}" for index in range(24)]),
        families=24,
        replicas=24,
        lifetime_hours=np.round(1.0 + number**2),
        censored=number % 3 == 0,
        start_hours=4.0 * number if begins else None,
        metrics=(figures,),
    )


def table() -> ClaimTable:
    """Return mean violations of two arms in four settings. In one setting, the second arm has none."""
    settings = tuple(StudySetting("region1", 80.0, density) for density in (1.5, 2.0, 2.5, 3.0))
    columns = {"original": np.array([0.0, 2.0, 5.5, 12.0]), "modified": np.array([0.0, 1.0, 2.0, 8.0])}
    return ClaimTable(settings, columns, {}, "original", "modified")


def study_effects() -> Figure:
    """Draw points below the diagonal, where the models underestimate."""
    exponents = (("a", 1.2), ("b", 1.5))
    effects = [Effect(name, 10 + n, n / 10, (n / 10) ** power, 100) for name, power in exponents for n in range(11)]
    return figure_of(plot_effects, effects)


def study_reliability() -> Figure:
    """Draw no bin without predictions, and no interval for a bin of a single node."""
    observed = (0.02, 0.01, 0.04), (0.4, 0.2, 0.55), (None, None, None), (0.75, None, None)
    score = ScoreEstimate(0.1, 0.05, 0.2)
    samples, predicted = np.array([100, 25, 0, 4]), np.array([0.05, 0.3, np.nan, 0.9])
    bins = {"samples": samples, "predicted": predicted, "observed": tuple(ScoreEstimate(*ends) for ends in observed)}
    scores = Scores(129, 20, *(score,) * 4, **bins)
    unused = Recalibration((0.0,), (0.0,))
    scored = Scored("region", "Monte Carlo", "24 hours", "held", scores, recalibrated=None, recalibration=unused)
    return figure_of(plot_reliability, [scored])


def study_panel() -> Figure:
    """Draw distributions by their quantiles."""
    quantiles = np.asarray(QUANTILES)
    return figure_of(plot_panel, Panel(8, "a", "savings", {"one": quantiles**2, "other": 0.2 + 0.5 * quantiles}))


def learning_curve() -> Figure:
    """Draw stages in sequence, each with the range of its trajectories and a mean over ten iterations."""

    def rows(count: int, level: float) -> Sequence[CurveRow]:
        rewards = [level - 10.0 / (1 + i) for i in range(count)]
        return [CurveRow(i + 1, mean, mean - 2, mean + 1, 0.5, 0.1, 10) for i, mean in enumerate(rewards)]

    return figure_of(plot_curve, {"first": rows(20, -5.0), "second": rows(5, -3.0)})


def learning_figure() -> Figure:
    """Draw each policy as a bar with its interval, and highlight the learned one."""
    figures = {"learned": {"reward": (-3.0, -4.0, -3.5)}, "first fit": {"reward": (-6.0, -5.0, -7.0)}}
    return figure_of(plot_figure, EvaluationResult(8, figures), "reward", height=2.0)


def capacity_of_two_policies() -> Figure:
    """Draw filled points where the value suffices, large answers, and the limit as a line."""
    question = question_of()
    most = {"original": 45.0, "modified": 35.0}
    answers = answer(
        question, list(most), lambda pairs: [point(question, value, most[policy] / value) for policy, value in pairs]
    )
    return figure_of(plot_capacity, question, list(answers.values()))


PLOTS: Mapping[str, Callable[[], Figure]] = {
    "violations": lambda: figure_of(plot_violations, events().with_columns(avoidable=True), POLICIES, LENGTHS, DAYS),
    "violations_of_both_kinds": violations_of_both_kinds,
    "counts": counts,
    "failovers": lambda: figure_of(plot_failovers, events(), POLICIES, LENGTHS, DAYS),
    "causes": lambda: figure_of(plot_causes, events(), POLICIES, REPEATS, height=2.0),
    "domain_moves": domain_moves,
    "load_bands": lambda: figure_of(plot_load_bands, node_load(), "cpu", 0.9, DAYS),
    "load_map": lambda: figure_of(plot_load_map, node_load(), "cpu", 0.9, DAYS),
    "energy": lambda: figure_of(plot_energy, plans(), "imbalance", POLICIES, DAYS),
    "energy_of_movement": lambda: figure_of(plot_energy, plans(), "movement", POLICIES, DAYS),
    "availability": availability,
    "trace_tenants": lambda: figure_of(plot_tenants, description()),
    "trace_tenants_by_age": lambda: figure_of(plot_tenants, description(begins=False)),
    "trace_lifetimes": lambda: figure_of(plot_lifetimes, description()),
    "trace_classes": lambda: figure_of(plot_classes, description()),
    "trace_usage": lambda: figure_of(plot_usage, description()),
    "trace_growth": lambda: figure_of(plot_growth, description()),
    "trace_days": lambda: figure_of(plot_days, description()),
    "study_settings": lambda: figure_of(plot_settings, table(), [0, 1, 2, 3]),
    "study_ratios": lambda: figure_of(plot_ratios, table()),
    "study_effects": study_effects,
    "study_boxes": lambda: figure_of(
        boxes, {"GPA": [1.0, 2.0, 2.5, 4.0], "av": [2.0, 2.0, 3.0, 9.0]}, colour=COLOURS[1], offset=0.1
    ),
    "study_reliability": study_reliability,
    "study_panel": study_panel,
    "learning_curve": learning_curve,
    "learning_figure": learning_figure,
    "capacity_of_two_policies": capacity_of_two_policies,
}


@pytest.mark.parametrize("name", PLOTS)
@pytest.mark.mpl_image_compare(**STYLE)
def test_plot(name: str) -> Figure:
    return PLOTS[name]()


def test_every_plot_has_a_baseline_image():
    here = "".join(Path(__file__).read_text().split())
    found = [
        function.name
        for path in Path(cluster.__file__).parent.rglob("*.py")
        for function in ast.parse(path.read_text()).body
        if isinstance(function, ast.FunctionDef) and not function.name.startswith("_")
        if function.name not in ("label_lines", "use_log_axis")
        and "ax" in [argument.arg for argument in function.args.args]
    ]
    assert len(found) >= 22
    assert [name for name in found if f"figure_of({name}" not in here] == []
