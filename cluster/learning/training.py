"""The training of a learning file: a first stage on historical traces, if it has them, and one on its jobs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from cluster.learning.config import LearningConfig
from cluster.learning.game import JobPlacementGame
from cluster.learning.job_sources import Jobs, SourceOf
from cluster.results.writing import check_free, json_object, versions, write_json
from cluster.runs.code_digest import code_digest, with_versions
from cluster.runs.pool import Map
from cluster.simulation.random_streams import stream_seed
from plb.errors import ConflictError
from workloads.writing import naming, write_csv

if TYPE_CHECKING:
    from plb.learning.checkpoints import Checkpoint, CurveRow

POLICY, TRAINING, BOOTSTRAP = "policy.pt", "training.pt", "bootstrap.pt"
"""Files of the policy, and of the checkpoints of each stage, from which a training can be resumed."""
SUMMARY, CURVE, PLOT = "training.json", "curve.csv", "curve.png"
"""Further files of a training."""
PACKAGES = ("torch",)
"""Libraries on which a training depends, besides those of all runs."""

Progress = Callable[[str, int, "CurveRow"], object]
"""Called with the name of a stage, its number of iterations and the newest row of its curve."""


@attrs.frozen
class TrainingStage:
    """A stage of a training.

    Parameters
    ----------
    name
        ``"bootstrap"`` or ``"training"``.
    jobs, iterations
        Jobs, and updates of the weights.
    file
        File of the checkpoint.
    seed
        Seed of all random numbers of the stage; no two stages have the same.
    start
        File of the first policy; None: random weights.
    """

    name: str
    jobs: Jobs
    iterations: int
    file: Path
    seed: int
    start: Path | None = None


def stages(config: LearningConfig, folder: Path) -> list[TrainingStage]:
    """Return the stages of a training, in their order."""
    main = TrainingStage("training", config.jobs, config.training.iterations, folder / TRAINING, config.training.seed)
    if config.bootstrap is None:
        return [main]
    seed = stream_seed(config.training.seed, "bootstrap")
    first = TrainingStage("bootstrap", config.bootstrap, config.bootstrap_iterations, folder / BOOTSTRAP, seed)
    return [first, attrs.evolve(main, start=first.file)]


def check_folder(config: LearningConfig, folder: Path, *, resume: bool, force: bool) -> None:
    """Raise an error for a directory whose results must not be overwritten or cannot be continued.

    Raises
    ------
    ResultsExistError
        The path is a file.
    OSError
        The directory cannot be written to.
    ConflictError
        The directory has files, and neither `resume` nor `force` is given; or its training cannot be continued: it has
        other settings, its summary is missing or damaged, or other code or another version of PyTorch has begun it.
    """
    check_free(folder, force=True)
    if force or not folder.exists() or not any(folder.iterdir()):
        return
    if not resume:
        raise ConflictError(f"{folder}: has files already; give another directory, --resume or --force")
    summary = json_object(folder / SUMMARY) or {}
    if summary.get("config_sha256") != config.digest():
        what = "has no training, or one with other settings"
        raise ConflictError(f"{folder}: {what}; give another directory, or --force")
    if summary.get("versions", {}).get("code") != code_of_trainings():
        what = "other code, or another version of PyTorch, has begun the training"
        raise ConflictError(f"{folder}: {what}; give another directory, or --force")


def train(
    config: LearningConfig, folder: Path, *, resume: bool = False, over: Map = map, progress: Progress | None = None
) -> Checkpoint:
    """Train a policy, and write it, its curve and its configuration to a directory.

    Parameters
    ----------
    config
        Jobs, machines, rewards and settings of the training.
    folder
        Directory of the files; created if it does not exist. The files of an earlier training are removed unless
        `resume`.
    resume
        True: continue from the checkpoints. The result is that of an uninterrupted training.
    over
        Runs the job sequences: `map`, or `cluster.runs.pool.map_in_processes` in order.
    progress
        Called after each iteration.
    """
    from plb.learning.checkpoints import write_checkpoint
    from plb.learning.training import train as train_policy

    list(over(_check_jobs, [stage.jobs for stage in stages(config, folder)]))  # before anything is removed
    folder.mkdir(parents=True, exist_ok=True)
    if not resume:
        for name in (POLICY, TRAINING, BOOTSTRAP, CURVE, PLOT, SUMMARY):
            (folder / name).unlink(missing_ok=True)
    summary = _summary(config)
    write_json(folder / SUMMARY, summary)
    for stage in stages(config, folder):
        with naming(stage.file):
            trained = train_policy(
                attrs.evolve(config.training, iterations=stage.iterations, seed=stage.seed),
                partial(JobPlacementGame, SourceOf(stage.jobs), config.machines, config.penalties),
                resources=config.machines.resources,
                checkpoint=stage.file,
                resume=resume,
                start=stage.start,
                over=over,
                progress=None if progress is None else partial(progress, stage.name, stage.iterations),
            )
    with naming(folder / POLICY):
        write_checkpoint(folder / POLICY, trained.policy_alone())
    write_json(folder / SUMMARY, {**summary, "complete": True, "policy_sha256": trained.digest})
    write_curves(folder / CURVE, read_curves(config, folder))
    return trained


def _check_jobs(jobs: Jobs) -> None:
    """Raise an error if the jobs cannot be read or generated; in a worker, which keeps their traces."""
    SourceOf(jobs).sequence(0)


def read_curves(config: LearningConfig, folder: Path) -> dict[str, tuple[CurveRow, ...]]:
    """Return the curve of each stage from its checkpoint."""
    from plb.learning.checkpoints import read_checkpoint

    return {stage.name: read_checkpoint(stage.file).curve for stage in stages(config, folder)}


def write_curves(path: Path, curves: dict[str, tuple[CurveRow, ...]]) -> None:
    """Write the rows of the curves of all stages to a CSV file."""
    import polars as pl

    rows = [{"stage": stage, **attrs.asdict(row)} for stage, curve in curves.items() for row in curve]
    write_csv(pl.DataFrame(rows), path)


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
