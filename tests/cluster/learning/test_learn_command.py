"""`plb learn`: training, evaluation, resumption and error messages."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from cluster.learning.config import LearningConfig, read_config
from cluster.learning.evaluation import cell
from cluster.learning.jobs import SyntheticJobs
from cluster.learning.training import stages
from cluster.learning.training import train as train_policy
from cluster.results.intervals import Interval
from cluster.runs import code_digest
from tests.command_line import plb

pytest.importorskip("torch")

if TYPE_CHECKING:
    from plb.learning.checkpoints import CurveRow


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
def test_cells_show_the_first_digit_of_the_interval(mean: float, half: float, text: str):
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


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path


def train(config: Path, out: Path, *options: Any) -> dict[str, Any]:
    figures = out.with_suffix(".json")
    run = plb("learn", "train", config, "--out", out, "--jobs", 1, "--json", figures, *options)
    assert run.exit_code == 0, run.output
    found: dict[str, Any] = json.loads(figures.read_text())
    return found


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of a small training; its figures are beside it."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "small.toml").write_text(SMALL)
    train(folder / "small.toml", folder / "out")
    return folder / "out"


@pytest.fixture
def out(trained: Path, tmp_path: Path) -> Path:
    return shutil.copytree(trained, tmp_path / "out")


def test_training_leaves_a_policy_and_its_curve(trained: Path):
    found = json.loads(trained.with_suffix(".json").read_text())
    curve = pl.read_csv(trained / "curve.csv")
    assert curve["stage"].to_list() == ["bootstrap"] * 2 + ["training"] * 3
    assert curve["iteration"].to_list() == [1, 2, 1, 2, 3]
    assert curve["reward"].to_list() == pytest.approx([row["reward"] for row in found["curve"]])
    summary = json.loads((trained / "training.json").read_text())
    assert summary["complete"]
    assert summary["policy_sha256"] == found["policy_sha256"]
    assert summary["config"]["training"]["hidden"] == 8
    assert (trained / "curve.png").stat().st_size > 1000


def test_equal_seeds_give_equal_weights_and_curves(trained: Path, config: Path, tmp_path: Path):
    first = json.loads(trained.with_suffix(".json").read_text())
    second = train(config, tmp_path / "b", "--jobs", 2)
    other = train(config, tmp_path / "d", "--seed", 1)
    assert first["policy_sha256"] == second["policy_sha256"]
    assert first["curve"] == second["curve"]
    assert other["policy_sha256"] != first["policy_sha256"]


@pytest.mark.parametrize("stage", ["bootstrap", "training"])
def test_an_interrupted_training_resumes_exactly(config: Path, tmp_path: Path, stage: str):
    """After a checkpoint in either stage, weights and curve equal those of an uninterrupted training."""
    long = SMALL.replace("iterations = 2", "iterations = 12").replace("iterations = 3", "iterations = 12")
    config.write_text(long.replace("sequences = 2", "sequences = 1", 1))

    def interrupt(reached: str, _iterations: int, row: CurveRow) -> None:
        if (reached, row.iteration) == (stage, 11):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_policy(read_config(config), tmp_path / "a", progress=interrupt)
    assert not (tmp_path / "a" / "policy.pt").exists()
    assert train(config, tmp_path / "a", "--resume") == {
        **train(config, tmp_path / "b"),
        "policy": str(tmp_path / "a" / "policy.pt"),
    }


def test_training_starts_from_the_bootstrapped_policy(config: Path, tmp_path: Path):
    with_bootstrap = train(config, tmp_path / "a")
    config.write_text(SMALL.replace("[bootstrap]\njobs = 6\nlong_steps = [4, 6]\niterations = 2\n", ""))
    without = train(config, tmp_path / "b")
    assert with_bootstrap["policy_sha256"] != without["policy_sha256"]
    first, second = stages(read_config(config), tmp_path), stages(LearningConfig(bootstrap=SyntheticJobs()), tmp_path)
    assert [stage.name for stage in (*first, *second)] == ["training", "bootstrap", "training"]
    assert second[1].start == second[0].file
    assert second[0].seed != second[1].seed == 0


@pytest.mark.parametrize("damage", ["{", "[1]", "", "[" * 100_000, None], ids=lambda text: repr(text)[:5])
def test_a_training_that_cannot_resume_is_refused(config: Path, out: Path, damage: str | None):
    summary, policy = out / "training.json", (out / "policy.pt").read_bytes()
    summary.unlink()
    if damage is not None:
        summary.write_text(damage)
    run = plb("learn", "train", config, "--out", out, "--resume")
    assert run.exit_code == 2
    assert "has no training, or one with other settings" in run.output
    assert (out / "policy.pt").read_bytes() == policy


def test_a_failed_start_keeps_the_previous_training(config: Path, out: Path):
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    config.write_text(SMALL.replace("[jobs]", '[jobs]\nkind = "traces"\npath = "nowhere"\nsteps = [2, 3]'))
    run = plb("learn", "train", config, "--out", out, "--force", "--jobs", 1)
    assert run.exit_code == 2
    assert "nowhere" in run.output
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


def test_a_policy_of_other_resources_is_refused(config: Path, out: Path, tmp_path: Path):
    """Resources are compared by name, even if their number is equal."""
    other = 'resources = ["gpu", "net"]'
    config.write_text(SMALL.replace("[machines]", f"[machines]\n{other}").replace("jobs = ", f"{other}\njobs = "))
    run = plb("learn", "evaluate", config, "--policy", out / "policy.pt", "--out", tmp_path)
    assert run.exit_code == 2
    assert "was trained with cpu, memory" in run.output


@pytest.mark.usefixtures("drawn_figures")
def test_names_are_printed_and_drawn_literally(config: Path, tmp_path: Path):
    """They are read neither as markup nor as formulas."""
    config.write_text(SMALL.replace('name = "small"', 'name = "[bold]$x^$"'))
    out = tmp_path / "[red]out"
    run = plb("learn", "train", config, "--out", out, "--jobs", 1)
    assert run.exit_code == 0, run.output
    assert "[bold]$x^$: 5 iterations" in run.output
    run = plb("learn", "evaluate", config, "--policy", out / "policy.pt", "--out", out, "--machines", 3, "--jobs", 1)
    assert run.exit_code == 0, run.output
    assert "[bold]$x^$: 3 machines" in run.output


def test_a_training_is_overwritten_only_with_force(config: Path, tmp_path: Path):
    train(config, tmp_path / "out", "--iterations", 1)
    again = plb("learn", "train", config, "--out", tmp_path / "out")
    assert again.exit_code == 2
    assert "--resume or --force" in again.output
    for changed in (["--seed", 5], ["--iterations", 2]):
        other = plb("learn", "train", config, "--out", tmp_path / "out", "--resume", *changed)
        assert other.exit_code == 2
        assert "other settings" in other.output
    (tmp_path / "file").touch()
    assert "is a file" in plb("learn", "train", config, "--out", tmp_path / "file", "--force").output
    train(config, tmp_path / "out", "--iterations", 1, "--force")


def test_a_policy_is_evaluated_for_each_number_of_machines(config: Path, out: Path, tmp_path: Path):
    policy = out / "policy.pt"
    figures = tmp_path / "figures.json"
    options = ["--policy", policy, "--jobs", 1, "--json", figures, "--out", out]
    run = plb("learn", "evaluate", config, *options)
    assert run.exit_code == 0, run.output
    found = json.loads(figures.read_text())
    assert [one["machines"] for one in found["evaluations"]] == [3, 6]
    assert set(found["evaluations"][0]["policies"]) == {"learned", "tetris-mean", "best-fit-peak"}
    assert found["evaluations"][0]["policies"]["best-fit-peak"]["over_use"]["mean"] == pytest.approx(0.0, abs=1e-12)
    assert json.loads((out / "evaluation.json").read_text()) == found
    assert "tetris-mean" in run.stdout
    for machines in (3, 6):
        assert (out / f"evaluation-{machines}.png").stat().st_size > 1000
    again = plb("learn", "evaluate", config, *options)
    assert again.exit_code == 2
    assert "or --force" in again.output
    assert plb("learn", "evaluate", config, *options, "--sequences", 3, "--force").exit_code == 0
    over = plb("learn", "evaluate", config, *options, "--force", "--json", out / "policy.pt")
    assert over.exit_code == 2
    assert "is read; give another file to write to" in over.output


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
def test_bad_input_gives_one_message(config: Path, tmp_path: Path, arguments: list[str], words: str):
    run = plb("learn", *(one.format(config=config, folder=tmp_path) for one in arguments))
    assert run.exit_code == 2
    assert words in run.output
    assert "Traceback" not in run.output


def test_a_policy_for_one_number_of_machines_is_refused_for_others(config: Path, tmp_path: Path):
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


def test_a_training_of_another_pytorch_does_not_resume(
    config: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = code_digest.version
    monkeypatch.setattr(code_digest, "version", lambda name: "0.0" if name == "torch" else real(name))
    run = plb("learn", "train", config, "--out", out, "--resume")
    assert run.exit_code == 2
    assert "another version of PyTorch, has begun the training" in " ".join(run.output.split())


def test_a_training_of_other_code_begins_again_on_request_only(
    config: Path, out: Path, change_code: Callable[[str], None]
):
    summary = out / "training.json"
    first = json.loads(summary.read_text())
    change_code("CHANGED = True")
    run = plb("learn", "train", config, "--out", out, "--resume")
    assert run.exit_code == 2
    assert "other code, or another version of PyTorch, has begun the training" in " ".join(run.output.split())
    train(config, out, "--resume", "--force")
    again = json.loads(summary.read_text())
    assert again["versions"]["code"] != first["versions"]["code"]
    assert again["policy_sha256"] == first["policy_sha256"]
