"""The training of a learning file: a first stage on historical traces, if it has them, and one on its jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from cluster.learning.config import LearningConfig
from cluster.learning.job_sources import Jobs, SourceOf
from cluster.plots.base import new_figure, save_figure, styled, use_open_axes
from cluster.results.writing import check_free, json_object, versions, write_json
from cluster.runs.code_digest import code_digest, with_versions
from cluster.runs.pool import Map
from cluster.simulation.random_streams import stream_seed
from plb.errors import ConflictError
from workloads.writing import naming, write_csv

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from plb.learning.checkpoints import Checkpoint, CurveRow

POLICY, TRAINING, BOOTSTRAP = "policy.pt", "training.pt", "bootstrap.pt"
"""Files of the policy, and of the checkpoints of each stage, from which a training can be resumed."""
SUMMARY, CURVE, PLOT = "training.json", "curve.csv", "curve.png"
"""Further files of a training."""
PACKAGES = ("torch",)
"""Libraries on which a training depends, besides the libraries of all runs."""

Progress = Callable[[str, int, "CurveRow"], object]
"""Called with the name of a stage, its number of iterations and the newest row of its curve."""


@attrs.frozen
class TrainingStage:
    """A stage of a training."""

    name: str
    """``"bootstrap"`` or ``"training"``."""
    jobs: Jobs
    """Settings of the jobs."""
    iterations: int
    """Updates of the weights."""
    file: Path
    """File of the checkpoint."""
    seed: int
    """Seed of all random numbers of the stage; no two stages have the same."""
    start: Path | None = None
    """File of the first policy; None: random weights."""


def stages(config: LearningConfig, folder: Path) -> list[TrainingStage]:
    """Return the stages of a training, in their order."""
    main = TrainingStage("training", config.jobs, config.training.iterations, folder / TRAINING, config.training.seed)
    if config.bootstrap is None:
        return [main]
    seed = stream_seed(config.training.seed, "bootstrap")
    first = TrainingStage("bootstrap", config.bootstrap, config.bootstrap_iterations, folder / BOOTSTRAP, seed)
    return [first, attrs.evolve(main, start=first.file)]


def check_folder(config: LearningConfig, folder: Path, *, resume: bool, force: bool) -> None:
    """Raise an error for a directory whose results must not be overwritten or cannot be continued."""
    check_free(folder, force=True)
    if force or not folder.exists() or not any(folder.iterdir()):
        return
    if not resume:
        raise ConflictError(f"{folder}: has files already; give another directory, --resume or --force")
    summary = json_object(folder / SUMMARY) or {}
    if summary.get("config_sha256") != config.digest():
        reason = "has no training, or one with other settings"
        raise ConflictError(f"{folder}: {reason}; give another directory, or --force")
    if summary.get("versions", {}).get("code") != code_of_trainings():
        reason = "other code, or another version of PyTorch, has begun the training"
        raise ConflictError(f"{folder}: {reason}; give another directory, or --force")


def train(
    config: LearningConfig, folder: Path, *, resume: bool = False, over: Map = map, progress: Progress | None = None
) -> dict[str, Checkpoint]:
    """Train a policy, write it, its curve and its configuration to a directory, and return the state after each stage.

    The states are by name of the stage. The files of an earlier training are removed unless `resume`, which gives the
    result of an uninterrupted training. `over` runs the job sequences: `map`, or `cluster.runs.pool.map_in_processes`
    in order.
    """
    from plb.learning.checkpoints import write_checkpoint

    list(over(_check_jobs, [stage.jobs for stage in stages(config, folder)]))  # before anything is removed
    folder.mkdir(parents=True, exist_ok=True)
    if not resume:
        for name in (POLICY, TRAINING, BOOTSTRAP, CURVE, PLOT, SUMMARY):
            (folder / name).unlink(missing_ok=True)
    summary = _summary(config)
    write_json(folder / SUMMARY, summary)
    checkpoints = {}
    for stage in stages(config, folder):
        report = None if progress is None else partial(progress, stage.name, stage.iterations)
        with naming(stage.file):
            checkpoints[stage.name] = checkpoint = _train_stage(config, stage, resume, over, report)
    with naming(folder / POLICY):
        write_checkpoint(folder / POLICY, checkpoint.policy_alone())
    write_json(folder / SUMMARY, {**summary, "complete": True, "policy_sha256": checkpoint.digest})
    write_curves(folder / CURVE, checkpoints)
    return checkpoints


def _train_stage(
    config: LearningConfig, stage: TrainingStage, resume: bool, over: Map, progress: Callable[[CurveRow], object] | None
) -> Checkpoint:
    """Train in a stage, and return the state after it.

    `over` runs the job sequences; `progress` is called after each iteration.
    """
    from cluster.learning.environment import PlacementEnvironment
    from plb.learning.training import train as train_policy

    return train_policy(
        attrs.evolve(config.training, iterations=stage.iterations, seed=stage.seed),
        partial(PlacementEnvironment, SourceOf(stage.jobs), config.machines, config.penalties),
        resources=config.machines.resources,
        checkpoint=stage.file,
        resume=resume,
        start=stage.start,
        over=over,
        progress=progress,
    )


def _check_jobs(jobs: Jobs) -> None:
    """Raise an error if jobs cannot be read or generated; in a worker, which keeps their traces."""
    SourceOf(jobs).sequence(0)


def write_curves(path: Path, checkpoints: Mapping[str, Checkpoint]) -> None:
    """Write the rows of the curves of all stages, by name, to a CSV file."""
    import polars as pl

    rows = [
        {"stage": stage, **attrs.asdict(row)} for stage, checkpoint in checkpoints.items() for row in checkpoint.curve
    ]
    write_csv(pl.DataFrame(rows), path)


def plot_curve(ax: Axes, curves: Mapping[str, Sequence[CurveRow]]) -> None:
    """Draw the mean reward of each iteration, the range of its trajectories, and a mean over ten; a colour a stage."""
    iterations_before = 0
    for (stage, curve), style in styled(curves.items()):
        iterations = iterations_before + np.arange(1, len(curve) + 1)
        reward, low, high = np.array([(row.reward, row.lowest, row.highest) for row in curve]).T
        ax.fill_between(iterations, low, high, color=style["color"], alpha=0.12, linewidth=0)
        ax.plot(iterations, reward, color=style["color"], linewidth=0.7, alpha=0.6)
        window = min(10, len(curve))
        smooth = np.convolve(reward, np.ones(window) / window, mode="valid")
        ax.plot(iterations[window - 1 :], smooth, linewidth=1.8, label=stage, **style)
        iterations_before += len(curve)
    ax.set(xlabel="iteration", ylabel="reward of a job sequence")
    ax.legend(frameon=False, loc="lower right")
    use_open_axes(ax)


def save_curve(path: Path, checkpoints: Mapping[str, Checkpoint], title: str) -> None:
    """Draw the curves of the stages of a training, by name, into a file."""
    figure = new_figure(8.0, 4.5)
    ax = figure.subplots()
    plot_curve(ax, {stage: checkpoint.curve for stage, checkpoint in checkpoints.items()})
    ax.set_title(title, parse_math=False)
    save_figure(figure, path)


def code_of_trainings() -> str:
    """Return the digest of the code of trainings, which depend on the version of PyTorch, too."""
    return with_versions(code_digest(), *PACKAGES)


def _summary(config: LearningConfig) -> dict[str, Any]:
    """Return the summary of a training that is not complete."""
    return {
        "config": config.as_json(),
        "config_sha256": config.digest(),
        "seed": config.training.seed,
        "versions": {**versions(*PACKAGES), "code": code_of_trainings()},
        "complete": False,
    }
