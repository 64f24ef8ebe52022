"""[1] figure 7: effect of the compression of traces to demand models on the probability of a violation."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import attrs
from rich.table import Table

from cluster.plots.base import GREY, coloured, new_axes, use_open_axes
from cluster.runs.sweep import Task
from cluster.scenario.scenario_file import scenario_from
from cluster.scenario.workload_sections import Workload
from cluster.simulation.tenant_pools import read_traces_of
from cluster.studies.base import Base
from cluster.studies.design import digest, inputs_of
from cluster.studies.figures import figures_of
from cluster.studies.request import StudyRequest
from cluster.studies.runner import Finished, Row, Study, StudyResult
from cluster.tables import new_table
from workloads.compression import compression_effect
from workloads.regions import generate
from workloads.trace import TraceSet

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TENANTS = tuple(range(10, 201, 10))
"""Tenants on the node ([1] section 5.3: 10 to 200)."""
SAMPLES, QUICK_SAMPLES = 10_000, 200
"""Samples for each number of tenants ([1] section 5.3: 10,000)."""
POPULATION = 4000
"""Tenants of a region from which samples are taken."""
SAMPLES_A_TASK = 200
STAGGER_SECONDS = 600.0
"""Between two arrivals ([1] section 5.3: 10 minutes)."""
PLOT = "figure7.png"


@attrs.frozen
class Effect:
    """Probabilities of a violation at one number of tenants."""

    workload: str
    """The workload of the tenants."""
    tenants: int
    """Number of tenants on the node."""
    full: float
    """Probability with the full traces."""
    compressed: float
    """Probability with their demand models."""
    samples: int
    """Number of samples."""

    @property
    def difference(self) -> float:
        """Probability with demand models minus probability with the full traces."""
        return self.compressed - self.full

    def as_json(self) -> dict[str, Any]:
        """Return plain JSON values; ``violations`` has both probabilities as mean numbers, as other studies have."""
        return {**attrs.asdict(self), "violations": {"full": self.full, "compressed": self.compressed}}


def effects(rows: Sequence[Row]) -> list[Effect]:
    """Return the probabilities by workload and number of tenants, from the rows of all tasks."""
    probabilities = []
    for workload in dict.fromkeys(row["workload"] for row in rows):
        workload_rows = [row for row in rows if row["workload"] == workload]
        samples = sum(row["samples"] for row in workload_rows)
        for tenants in TENANTS:
            full, compressed = (sum(row["hits"][str(tenants)][side] for row in workload_rows) for side in (0, 1))
            probabilities.append(Effect(workload, tenants, full / samples, compressed / samples, samples))
    return probabilities


def table_of_effects(effects: Sequence[Effect]) -> Table:
    """Return a table of the probabilities of figure 7, with the largest difference."""
    workloads = dict.fromkeys(effect.workload for effect in effects)
    headings = ("tenants", *(heading for name in workloads for heading in (f"{name}: full", "models")))
    title = "probability of a violation by full traces and by demand models, [1] figure 7"
    table = new_table(headings, texts=0, title=title)
    for tenants in dict.fromkeys(effect.tenants for effect in effects):
        row_effects = [effect for effect in effects if effect.tenants == tenants]
        table.add_row(
            str(tenants),
            *(f"{probability:.4f}" for effect in row_effects for probability in (effect.full, effect.compressed)),
        )
    largest = max(effects, key=lambda effect: abs(effect.difference))
    table.caption = (
        f"largest difference: {largest.difference:+.4f} ({largest.workload}, {largest.tenants} tenants); "
        f"{effects[0].samples:,} samples each"
    )
    return table


def plot_effects(ax: Axes, effects: Sequence[Effect]) -> None:
    """Draw probabilities with demand models over probabilities with full traces, a point for each number of tenants."""
    for workload, colour in coloured(dict.fromkeys(effect.workload for effect in effects)):
        points = [(effect.full, effect.compressed) for effect in effects if effect.workload == workload]
        ax.plot(*zip(*points, strict=True), "o", markersize=4, alpha=0.8, color=colour, label=workload)
    ax.axline((0.0, 0.0), slope=1.0, color=GREY, linewidth=0.8)
    ax.set(xlabel="probability by full traces", ylabel="probability by demand models")
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
    ax.legend(frameon=False, loc="upper left")
    use_open_axes(ax)


def figure_of_effects(effects: Sequence[Effect]) -> Figure:
    """Return the plot of figure 7."""
    figure, ax = new_axes(5.0, 5.0, "probability of a violation, full and compressed traces")
    plot_effects(ax, effects)
    return figure


@attrs.frozen(eq=False)
class CompressionStudy(Study):
    """[1] figure 7."""

    name = "compression"

    base: Base
    """Tenants and nodes."""
    samples: int
    """Samples for each number of tenants."""
    seed: int
    """Seed of the samples."""

    @classmethod
    def of(cls, request: StudyRequest) -> CompressionStudy:
        """Return the study that a user requests."""
        return cls(request.base, request.samples or (QUICK_SAMPLES if request.quick else SAMPLES), request.seed)

    def described(self) -> Mapping[str, Any]:
        """Return the seed."""
        return {"seed": self.seed}

    def tasks(self) -> Sequence[Task]:
        """Return the tasks, each with some of the samples of one workload, for all numbers of tenants."""
        tasks = []
        for workload in self.base.workloads:
            tables = {**self.base.tables, "name": "study"}
            tables["workload"] = {**self.base.tables["workload"], **self.base.variants.get(workload, {})}
            for part, first_sample in enumerate(range(0, self.samples, SAMPLES_A_TASK)):
                samples = min(SAMPLES_A_TASK, self.samples - first_sample)
                numbers = {"workload": workload, "part": part, "samples": samples, "seed": self.seed}
                arguments = {**numbers, "scenario": tables}
                key = digest(
                    arguments,
                    inputs_of(self.base, workload),
                    {"tenants": TENANTS, "of": POPULATION, "stagger": STAGGER_SECONDS},
                )
                tasks.append(Task(f"{workload}, {samples} samples, part {part}, {key}", arguments))
        return tasks

    @staticmethod
    def run(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Evaluate the samples of a task; return how many of them are in violation by each number of tenants."""
        scenario = scenario_from(arguments["scenario"])
        traces = _traces(json.dumps(attrs.asdict(scenario.workload), sort_keys=True))
        stagger = max(1, round(STAGGER_SECONDS / traces.step_seconds))
        samples = arguments["samples"]
        rows = compression_effect(
            traces,
            TENANTS,
            samples=samples,
            seed=(arguments["seed"], arguments["part"]),
            capacities=scenario.cluster.capacity,
            threshold=scenario.cluster.violation_threshold,
            stagger_steps=stagger,
        )
        hits = {str(row.tenants): [round(share * samples) for share in (row.full, row.compressed)] for row in rows}
        return {"totals": {"hits": hits}, "timings": {}}

    def result(self, finished: Finished) -> StudyResult:
        """Return the probabilities of figure 7."""
        probabilities = effects(finished.rows)
        figures = figures_of(self.name, [effect.as_json() for effect in probabilities])
        if not probabilities:
            return StudyResult(figures, plots={PLOT: None})
        return StudyResult(
            figures, (table_of_effects(probabilities),), {PLOT: partial(figure_of_effects, probabilities)}
        )


@lru_cache(maxsize=1)
def _traces(workload: str) -> TraceSet:
    """Return the traces of a workload, from its fields as JSON; the traces of the last call are kept."""
    section = Workload(**{**json.loads(workload), "growth": (), "nodes": ()})
    if section.kind == "region":
        return generate(section.parameters_of_region(), POPULATION, section.trace_seed)
    return read_traces_of(section)
