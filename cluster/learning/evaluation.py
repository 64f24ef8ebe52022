"""The evaluation of policies on held-out job sequences: means, 95 % intervals, paired differences, table and plots."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
from rich.box import SIMPLE_HEAVY
from rich.table import Table

from cluster.learning.baselines import BASELINES, Policy, play
from cluster.learning.config import LearningConfig
from cluster.learning.episode import Episode
from cluster.learning.job_sources import SourceOf, scaled
from cluster.learning.metrics import UTILISATION, figure
from cluster.plots.base import COLOURS, new_figure, save_figure, use_open_axes
from cluster.results.intervals import Interval, decimals_of
from cluster.runs.pool import Map
from cluster.simulation.random_streams import stream_seed
from cluster.tables import new_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEARNED = "learned"
"""Name of the trained policy in tables."""
MARKS = {"better": "<", "worse": ">", "equal": " "}
MOST_DECIMALS = 2
SHOWN_SINGLY = 2
"""Largest number of resources with a column each; more resources share one."""
PLOTTED = ("reward", "over_use", "machines", "utilisation", "fragmentation", "wait")
"""Figures in the plot of `save_evaluation`."""


@attrs.frozen(eq=False)
class EvaluationResult:
    """The figures of every policy on the same job sequences, for one number of machines."""

    machines: int
    """Number of machines."""
    figures: Mapping[str, Mapping[str, tuple[float, ...]]]
    """The value on each sequence, by policy and figure. The learned policy is the first."""

    @property
    def sequences(self) -> int:
        """Number of job sequences."""
        return len(self.figures[LEARNED]["reward"])

    def interval(self, policy: str, name: str) -> Interval:
        """Return the mean of a policy's figure, named `name`, over the sequences, with its interval."""
        return Interval.of(self.figures[policy][name])

    def difference(self, baseline: str, name: str) -> Interval:
        """Return the mean difference of a figure of the learned policy to a baseline, with its interval.

        The differences are of the same sequences.
        """
        pairs = zip(self.figures[LEARNED][name], self.figures[baseline][name], strict=True)
        return Interval.of([learned_value - baseline_value for learned_value, baseline_value in pairs])

    def verdict(self, baseline: str, name: str) -> str:
        """Return ``"better"`` or ``"worse"`` if the interval of the difference does not contain 0, else ``"equal"``."""
        sign, less_is_better = self.difference(baseline, name).sign, figure(name).less_is_better
        if not sign or less_is_better is None:
            return "equal"
        return "better" if (sign < 0) == less_is_better else "worse"

    def as_json(self) -> dict[str, Any]:
        """Return means with their intervals, differences and verdicts."""
        names = list(self.figures[LEARNED])
        policies = {policy: {name: self.interval(policy, name).as_json() for name in names} for policy in self.figures}
        differences = {
            policy: {
                name: {**self.difference(policy, name).as_json(), "verdict": self.verdict(policy, name)}
                for name in names
            }
            for policy in self.figures
            if policy != LEARNED
        }
        return {
            "machines": self.machines,
            "sequences": self.sequences,
            "policies": policies,
            "differences": differences,
        }


def evaluate(
    config: LearningConfig,
    policy: str,
    *,
    machines: int | None = None,
    over: Map = map,
    progress: Callable[[], object] | None = None,
) -> EvaluationResult:
    """Let the trained policy of a file and the baselines play the same held-out job sequences.

    With other `machines` than in the configuration, jobs arrive in proportion. `over` evaluates the sequences: `map`,
    or `cluster.runs.pool.map_in_processes` in order; `progress` is called after each.
    """
    machine_count = config.machines.machines if machines is None else machines
    attrs.evolve(config, evaluation=attrs.evolve(config.evaluation, machines=(machine_count,)))  # is checked
    results = []
    for result in over(partial(play_sequence, config, policy, machine_count), range(config.evaluation.sequences)):
        results.append(result)
        if progress is not None:
            progress()
    values = {
        policy: {figure: tuple(result[policy][figure] for result in results) for figure in names}
        for policy, names in results[0].items()
    }
    return EvaluationResult(int(machine_count), values)


def play_sequence(config: LearningConfig, policy: str, machines: int, number: int) -> dict[str, dict[str, float]]:
    """Return the figures of every policy on job sequence number `number`, from 0; see `evaluate`.

    `policy`: file of the trained policy.
    """
    jobs = scaled(config.jobs, machines / config.machines.machines)
    seed = stream_seed(config.evaluation.seed, "evaluation", number)
    sequence = SourceOf(jobs, held_back=True).sequence(seed)
    dimensions = attrs.evolve(config.machines, machines=machines)
    policies = {LEARNED: learned(policy)} | {name: BASELINES[name] for name in config.evaluation.baselines}
    return {name: play(Episode(sequence, dimensions, config.penalties), decide) for name, decide in policies.items()}


def learned(path: str) -> Policy:
    """Return the trained policy of a file, which chooses the most likely action."""
    file = Path(path)
    return _learned(path, file.stat().st_mtime_ns if file.exists() else 0)


@lru_cache(1)
def _learned(path: str, _changed: int) -> Policy:
    """Return the policy of a file; it is read again only if its time of change, `_changed`, differs."""
    from plb.learning.policy import LearnedPolicy

    policy = LearnedPolicy.load(path)
    return lambda episode: policy.act(episode.observe())


def evaluation_table(evaluation: EvaluationResult, config: LearningConfig) -> Table:
    """Return the means of all policies, with marks for significant differences to the learned one."""
    resources = config.machines.resources
    utilisations = [UTILISATION + name for name in resources] if len(resources) <= SHOWN_SINGLY else ["utilisation"]
    columns = ("reward", "over_use", "machines", *utilisations, "fragmentation", "wait")
    table = new_table(
        ("policy", *(figure(column).heading for column in columns)),
        no_wrap=True,
        title=f"{config.name}: {evaluation.machines} machines, {evaluation.sequences} held-out job sequences",
        caption="± half of the 95 % interval; < the learned policy is better, > worse, sequence by sequence",
        box=SIMPLE_HEAVY,
    )
    for policy in evaluation.figures:
        cells = []
        for column in columns:
            mark = " " if policy == LEARNED else MARKS[evaluation.verdict(policy, column)]
            cells.append(f"{cell(evaluation.interval(policy, column))}{mark}")
        table.add_row(policy, *cells, end_section=policy == LEARNED)
    return table


def cell(interval: Interval) -> str:
    """Return a mean and half the width of its interval as text, to the first digit of the half width."""
    half = interval.half_width or 0.0
    decimals = min(MOST_DECIMALS, decimals_of(half)) if half else (1 if interval.mean else 0)
    return f"{interval.mean:,.{decimals}f}±{half:.{decimals}f}"


def plot_figure(ax: Axes, evaluation: EvaluationResult, name: str) -> None:
    """Draw the mean of a figure (`cluster.learning.metrics.FIGURES`) for every policy, with its 95 % interval."""
    policies = list(evaluation.figures)
    intervals = [evaluation.interval(policy, name) for policy in policies]
    positions = np.arange(len(policies))[::-1]
    colours = [COLOURS[0] if policy == LEARNED else COLOURS[1] for policy in policies]
    means, half_widths = (
        [interval.mean for interval in intervals],
        [interval.half_width or 0.0 for interval in intervals],
    )
    ax.barh(positions, means, color=colours, height=0.7)
    ax.errorbar(means, positions, xerr=half_widths, fmt="none", ecolor="#222222", elinewidth=1.0, capsize=2.0)
    ax.set_yticks(positions, policies)
    ax.set_title(figure(name).heading, parse_math=False)
    use_open_axes(ax, "x")


def save_evaluation(path: Path, evaluation: EvaluationResult, title: str) -> None:
    """Write plots of the figures `PLOTTED` of all policies to a file, side by side."""
    text = f"{title}: {evaluation.machines} machines, {evaluation.sequences} job sequences"
    figure = new_figure(13.0, 7.0, text)
    for ax, name in zip(figure.subplots(2, 3, sharey=True).flat, PLOTTED, strict=True):
        plot_figure(ax, evaluation, name)
    save_figure(figure, path)
