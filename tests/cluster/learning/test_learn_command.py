"""`plb learn`: a policy is trained, measured, gone on with; and what is said where that cannot be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

from cluster.cli import app
from cluster.learning.evaluation import Interval
from cluster.learning.tables import cell

pytest.importorskip("torch")


@pytest.mark.parametrize(
    ("mean", "half", "text"),
    [
        (-2145.7, 133.2, "-2,146±133"),
        (-105.6, 7.93, "-106±8"),
        (0.0813, 0.0204, "0.08±0.02"),
        (0.80561, 0.0049, "0.81±0.00"),
        (3.0, 0.0, "3.0±0.0"),
        (0.0, 0.0, "0±0"),
    ],
)
def test_cells_of_the_table_go_to_the_first_digit_of_the_interval(mean: float, half: float, text: str):
    """And to the second decimal at the most."""
    assert cell(Interval(mean, half)) == text


SMALL = """
name = "small"
[machines]
machines = 3
[bootstrap]
jobs = 6
long_steps = [4, 6]
iterations = 2
[jobs]
jobs = 8
[training]
iterations = 3
sequences = 2
trajectories = 2
hidden = 8
[evaluation]
sequences = 2
baselines = ["tetris-mean", "best-fit-peak"]
machines = [3, 6]
"""


def plb(*arguments: Any) -> Any:
    """Run the command line."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Return a small learning file."""
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path


def train(config: Path, out: Path, *options: Any) -> dict[str, Any]:
    """Train with one process and return the figures."""
    figures = out.with_suffix(".json")
    run = plb("learn", "train", config, "--out", out, "--jobs", 1, "--json", figures, *options)
    assert run.exit_code == 0, run.output
    found: dict[str, Any] = json.loads(figures.read_text())
    return found


def test_training_leaves_a_policy_and_its_curve(config: Path, tmp_path: Path):
    """Of both stages, and what they were made of."""
    found = train(config, tmp_path / "out")
    curve = pl.read_csv(tmp_path / "out" / "curve.csv")
    assert curve["stage"].to_list() == ["bootstrap"] * 2 + ["training"] * 3
    assert curve["iteration"].to_list() == [1, 2, 1, 2, 3]
    assert curve["reward"].to_list() == pytest.approx([row["reward"] for row in found["curve"]])
    summary = json.loads((tmp_path / "out" / "training.json").read_text())
    assert summary["complete"]
    assert summary["policy_sha256"] == found["policy_sha256"]
    assert summary["config"]["training"]["hidden"] == 8
    assert (tmp_path / "out" / "curve.png").stat().st_size > 1000


def test_equal_seeds_give_equal_weights_and_curves(config: Path, tmp_path: Path):
    """For one process and for two, interrupted or not; another seed gives others."""
    first = train(config, tmp_path / "a")
    second = train(config, tmp_path / "b", "--jobs", 2)
    train(config, tmp_path / "c", "--iterations", 1)
    third = train(config, tmp_path / "c", "--resume")
    other = train(config, tmp_path / "d", "--seed", 1)
    assert first["policy_sha256"] == second["policy_sha256"] == third["policy_sha256"]
    assert first["curve"] == second["curve"] == third["curve"]
    assert other["policy_sha256"] != first["policy_sha256"]


def test_a_training_is_not_overwritten_unasked(config: Path, tmp_path: Path):
    """Nor gone on with under other settings."""
    train(config, tmp_path / "out", "--iterations", 1)
    again = plb("learn", "train", config, "--out", tmp_path / "out")
    assert again.exit_code == 2
    assert "--resume or --force" in again.output
    other = plb("learn", "train", config, "--out", tmp_path / "out", "--resume", "--seed", 5)
    assert other.exit_code == 2
    assert "other settings" in other.output
    train(config, tmp_path / "out", "--iterations", 1, "--force")


def test_a_policy_is_measured_for_each_number_of_machines(config: Path, tmp_path: Path):
    """Beside the baselines of the file; the figures stand in the directory, too."""
    train(config, tmp_path / "out")
    policy = tmp_path / "out" / "policy.pt"
    figures = tmp_path / "figures.json"
    options = ["--policy", policy, "--jobs", 1, "--json", figures, "--out", tmp_path / "out"]
    run = plb("learn", "evaluate", config, *options)
    assert run.exit_code == 0, run.output
    found = json.loads(figures.read_text())
    assert [one["machines"] for one in found["evaluations"]] == [3, 6]
    assert set(found["evaluations"][0]["policies"]) == {"learned", "tetris-mean", "best-fit-peak"}
    assert found["evaluations"][0]["policies"]["best-fit-peak"]["over_use"]["mean"] == pytest.approx(0.0, abs=1e-12)
    assert json.loads((tmp_path / "out" / "evaluation.json").read_text()) == found
    assert "tetris-mean" in run.stdout
    for machines in (3, 6):
        assert (tmp_path / "out" / f"evaluation-{machines}.png").stat().st_size > 1000
    again = plb("learn", "evaluate", config, *options)
    assert again.exit_code == 2
    assert "or --force" in again.output
    assert plb("learn", "evaluate", config, *options, "--sequences", 3, "--force").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["evaluate", "{config}", "--policy", "{folder}/none.pt"], "none.pt: cannot be read"),
        (["evaluate", "{config}", "--policy", "{config}"], "is damaged, or no policy"),
        (["train", "{folder}/none.toml"], "No such file"),
        (["train", "{config}", "--seed", "-1"], "seed = -1"),
        (["evaluate", "{config}", "--sequences", "1", "--policy", "{config}"], "sequences = 1"),
    ],
)
def test_what_cannot_be_done_is_said(config: Path, tmp_path: Path, arguments: list[str], words: str):
    """In a sentence, without a traceback."""
    run = plb("learn", *(one.format(config=config, folder=tmp_path) for one in arguments))
    assert run.exit_code == 2
    assert words in run.output
    assert "Traceback" not in run.output


def test_a_policy_for_one_number_of_machines_says_so(config: Path, tmp_path: Path):
    """That of the network over the whole state."""
    config.write_text(SMALL.replace("[training]", '[training]\nnetwork = "image"'))
    train(config, tmp_path / "out", "--iterations", 1)
    run = plb(
        "learn",
        "evaluate",
        config,
        "--policy",
        tmp_path / "out" / "policy.pt",
        "--machines",
        6,
        "--jobs",
        1,
        "--out",
        tmp_path,
    )
    assert run.exit_code == 2
    assert "3, with which this policy was trained" in run.output
