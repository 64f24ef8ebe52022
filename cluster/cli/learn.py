"""``plb learn``: train a placement policy by reinforcement learning, and compare it with heuristics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from cluster.cli.options import Jobs, Json, Quiet
from cluster.console import clear_errors, output, progress

if TYPE_CHECKING:
    from cluster.learning.config import LearningConfig
    from plb.learning.checkpoints import CurveRow

learn_app = typer.Typer(
    help="A learned placement policy (DeepPlace): train it, and compare it with heuristics.",
    no_args_is_help=True,
    add_completion=False,
)
EVALUATION = "evaluation.json"

Config = Annotated[Path, Argument(help="Jobs, machines, rewards and training, a TOML file.")]


@learn_app.command("train")
@clear_errors
def train_command(
    config: Config,
    out: Annotated[
        Path | None, Option(help="Directory for the policy, its curve and a summary. Default: results/NAME.")
    ] = None,
    iterations: Annotated[int | None, Option(help="Updates of the weights. Default: as in the file.")] = None,
    seed: Annotated[int | None, Option(help="Seed. Default: as in the file.")] = None,
    resume: Annotated[
        bool, Option("--resume", help="Continue from the checkpoints in the directory, if there are any.")
    ] = False,
    force: Annotated[bool, Option("--force", help="Overwrite a training in the directory.")] = False,
    jobs: Jobs = None,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Train a policy by REINFORCE (Sheoran et al., DeepPlace).

    The directory has policy.pt (weights without code), curve.csv, curve.png and training.json. After Ctrl-C, --resume
    continues the training, with the same result as without interruption.
    """
    import attrs

    from cluster.learning import training
    from cluster.learning.config import read_config
    from cluster.results.writing import check_outputs, write_figures
    from cluster.runs.pool import map_in_processes

    options: dict[str, Any] = {"iterations": iterations, "seed": seed}
    changes = {name: value for name, value in options.items() if value is not None}
    settings = read_config(config)
    settings = attrs.evolve(settings, training=attrs.evolve(settings.training, **changes))
    folder = out or Path("results") / settings.name
    training.check_folder(settings, folder, resume=resume, force=force)
    check_outputs([config], [], json)
    try:
        over = partial(map_in_processes, jobs=jobs, ordered=True)
        with _training_progress(quiet) as report:
            checkpoints = training.train(settings, folder, resume=resume and not force, over=over, progress=report)
    except KeyboardInterrupt:
        options_again = "".join(f" --{name} {value}" for name, value in changes.items())
        raise KeyboardInterrupt(f"continue with --resume --out {folder}{options_again}") from None
    training.save_curve(folder / training.PLOT, checkpoints, settings.name)
    rows = [row for checkpoint in checkpoints.values() for row in checkpoint.curve]
    digest = checkpoints["training"].digest
    console = output(quiet=quiet)
    console.print(
        f"{settings.name}: {len(rows)} iterations, {sum(row.decisions for row in rows):,} decisions, "
        f"reward {rows[0].reward:,.1f} in the first and {rows[-1].reward:,.1f} in the last"
    )
    console.print(f"Policy: {folder / training.POLICY} (weights {digest[:12]})")
    console.print(f"Curve: {folder / training.PLOT}")
    curve = [attrs.asdict(row) for row in rows]
    figures = {"policy": str(folder / training.POLICY), "policy_sha256": digest, "curve": curve}
    write_figures(json, figures, settings.digest(), settings.training.seed)


@learn_app.command("evaluate")
@clear_errors
def evaluate_command(
    config: Config,
    policy: Annotated[Path | None, Option(help="The trained policy. Default: results/NAME/policy.pt.")] = None,
    machines: Annotated[
        list[int] | None,
        Option(min=1, help="Number of machines. Can be repeated; jobs arrive in proportion. Default: as in the file."),
    ] = None,
    sequences: Annotated[int | None, Option(help="Number of held-out job sequences. Default: as in the file.")] = None,
    out: Annotated[Path | None, Option(help="Directory for evaluation.json and plots. Default: results/NAME.")] = None,
    force: Annotated[bool, Option("--force", help="Overwrite an evaluation in the directory.")] = False,
    jobs: Jobs = None,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Evaluate a trained policy on held-out job sequences, and compare it with Tetris, best fit, worst fit and random.

    All policies place the same jobs. Intervals are 95 % over the sequences (Student's t).
    """
    import attrs
    from rich.progress import TaskProgressColumn, TimeRemainingColumn

    from cluster.learning.config import read_config
    from cluster.learning.evaluation import evaluate, evaluation_table, save_evaluation
    from cluster.learning.training import POLICY
    from cluster.results.writing import check_file, check_outputs, stamped, write_json
    from cluster.runs.pool import map_in_processes

    settings = read_config(config)
    if sequences is not None:
        settings = attrs.evolve(settings, evaluation=attrs.evolve(settings.evaluation, sequences=sequences))
    policy_file = policy or Path("results") / settings.name / POLICY
    digest = _digest_of(policy_file, settings)
    folder = out or Path("results") / settings.name
    check_file(folder / EVALUATION, force=force)
    check_outputs([config, policy_file], [], json)
    counts = list(dict.fromkeys(machines or settings.evaluation.machines or [settings.machines.machines]))
    over = partial(map_in_processes, jobs=jobs, ordered=True)
    with progress(TaskProgressColumn(), TimeRemainingColumn(), quiet=quiet, transient=True) as bar:
        task = bar.add_task("playing", total=len(counts) * settings.evaluation.sequences)
        advance = partial(bar.advance, task)
        results = [
            evaluate(settings, str(policy_file), machines=count, over=over, progress=advance) for count in counts
        ]
    figures = {"name": settings.name, "policy_sha256": digest, "evaluations": [result.as_json() for result in results]}
    configuration = {"config": settings.as_json(), "policy": digest, "machines": counts}
    for file in (folder / EVALUATION, json):
        if file is not None:
            write_json(file, stamped(figures, configuration, settings.evaluation.seed))
    console = output(quiet=quiet)
    for result in results:
        picture = folder / f"evaluation-{result.machines}.png"
        save_evaluation(picture, result, settings.name)
        console.print(evaluation_table(result, settings))
        console.print(f"Plot: {picture}")
    console.print(f"Figures: {folder / EVALUATION}")


def _digest_of(path: Path, config: LearningConfig) -> str:
    """Return the SHA-256 of the trained policy in a file; raise an error if it is for other resources."""
    from plb.errors import ConflictError
    from plb.learning.policy import LearnedPolicy

    policy = LearnedPolicy.load(path)
    if policy.resources not in ((), config.machines.resources):
        resources = ", ".join(policy.resources)
        raise ConflictError(f"{path}: was trained with {resources}; [machines] has other resources")
    return policy.digest


@contextmanager
def _training_progress(quiet: bool) -> Iterator[Callable[[str, int, CurveRow], object]]:
    """Show the progress of each stage on standard error, with the recent reward.

    Yield a function of the stage's name, its number of iterations and the newest row of its curve.
    """
    from rich.progress import MofNCompleteColumn, TaskID, TextColumn, TimeRemainingColumn

    columns = MofNCompleteColumn(), TextColumn("reward {task.fields[reward]}"), TimeRemainingColumn()
    tasks: dict[str, TaskID] = {}
    with progress(*columns, quiet=quiet) as bar:

        def advance(stage: str, iterations: int, row: CurveRow) -> None:
            if stage not in tasks:
                tasks[stage] = bar.add_task(stage, total=iterations, reward="")
            bar.update(tasks[stage], completed=row.iteration, reward=f"{row.reward:,.1f}")

        yield advance
