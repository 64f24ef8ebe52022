"""Small inputs for every command that writes files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import attrs

from tests.cluster.small_provisioning import write_base
from tests.cluster.small_studies import SMALL, THIN
from tests.command_line import plb

EXAMPLES = Path(__file__).parents[2] / "examples"
POLICY = EXAMPLES / "learning" / "deepplace.pt"
SCENARIO = SMALL.replace("density = 1.5", "density = 0.5") + "[run]\ndays = 0.05\n"
LEARNING = """
name = "small"
[machines]
machines = 3
[jobs]
jobs = 8
[training]
iterations = 2
sequences = 2
trajectories = 2
hidden = 8
[evaluation]
sequences = 2
baselines = ["tetris-mean"]
"""
SAMPLES = "machine,task,time_s,usage,limit\n" + "".join(
    f"m{task % 2},t{task},{300 * step},{1.0 + step % 3},4\n" for task in range(4) for step in range(30)
)


def write_inputs(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "scenario.toml").write_text(SCENARIO)
    (folder / "learning.toml").write_text(LEARNING)
    (folder / "samples.csv").write_text(SAMPLES)
    write_base(folder / "instance.csv")
    plan = plb("provision", folder / "instance.csv", "--algorithm", "FF", "--out", folder / "plan.csv", "--quiet")
    assert plan.exit_code == 0, plan.output
    day = folder / "planetlab" / "20110303"
    day.mkdir(parents=True)
    (day / "host").write_text("".join(f"{10 + at % 20}\n" for at in range(288)))
    return folder


@attrs.frozen
class Command:
    """A command that writes files."""

    name: str
    arguments: Callable[[Path, Path], Sequence[Any]]
    """From the folders of the inputs and of the outputs."""
    writes: tuple[str, ...]
    """Files in the folder of the outputs that the command overwrites only on request."""
    overwrites: str = "--force"

    def run(self, inputs: Path, out: Path, *further: Any) -> Any:
        return plb(*self.arguments(inputs, out), *further)


COMMANDS = (
    Command("simulate", lambda given, out: ("simulate", given / "scenario.toml", "--out", out), ("summary.json",)),
    Command(
        "provision",
        lambda given, out: (
            *("provision", given / "instance.csv", "--algorithm", "FF"),
            *("--out", out / "plan.csv", "--scenario", out / "scenario"),
        ),
        ("plan.csv", "scenario/scenario.toml", "scenario/plan.csv"),
    ),
    Command(
        "replan",
        lambda given, out: (
            *("replan", given / "instance.csv", given / "plan.csv"),
            *("--out", out / "plan.csv", "--moves-out", out / "moves.csv"),
        ),
        ("plan.csv", "moves.csv"),
    ),
    Command(
        "predict",
        lambda given, out: ("predict", given / "samples.csv", "oracle", "--out", out / "predictions.csv"),
        ("predictions.csv",),
    ),
    Command(
        "traces convert",
        lambda given, out: ("traces", "convert", given / "planetlab", out, "--format", "planetlab"),
        ("traces.parquet", "tenants.parquet"),
    ),
    Command(
        "traces describe",
        lambda given, out: ("traces", "describe", given / "planetlab", "--format", "planetlab", "--out", out),
        ("trace.png",),
    ),
    Command(
        "traces generate",
        lambda _, out: ("traces", "generate", "region1", out, "--tenants", 10),
        ("traces.parquet",),
    ),
    Command(
        "learn train",
        lambda given, out: ("learn", "train", given / "learning.toml", "--out", out, "--jobs", 1),
        ("policy.pt",),
    ),
    Command(
        "study",
        lambda given, out: (
            *("study", "annealing", "--scenario", given / "scenario.toml", *THIN),
            *("--repeats", 1, "--out", out, "--jobs", 1),
        ),
        ("runs.parquet",),
        "another directory",
    ),
    Command(
        "study peaks",
        lambda given, out: ("study", "peaks", "--traces", given / "samples.csv", "--out", out),
        ("curves.parquet",),
        "another directory",
    ),
)
BY_NAME = {command.name: command for command in COMMANDS}
