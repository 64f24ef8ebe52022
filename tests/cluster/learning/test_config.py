"""Learning files: contents and error messages."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from cluster.errors import ScenarioError
from cluster.learning.config import LearningConfig, read_config
from cluster.learning.job_sources import TraceSource, longest_of, scaled
from cluster.learning.jobs import SyntheticJobs
from plb.learning.settings import TrainingSettings

EXAMPLES = Path(__file__).parents[3] / "examples" / "learning"
WHOLE = """
name = "both"
[machines]
machines = 4
horizon = 12
[bootstrap]
kind = "traces"
path = "past"
steps = [2, 8]
iterations = 7
[jobs]
jobs = 30
long_steps = [5, 12]
[penalties]
over_use = 2
[training]
network = "image"
seed = 3
[evaluation]
machines = [4, 8]
baselines = ["tetris-peak"]
"""


def config_of(folder: Path, text: str) -> LearningConfig:
    path = folder / "learning.toml"
    path.write_text(text)
    return read_config(path)


def test_an_empty_file_gives_the_defaults(tmp_path: Path):
    assert config_of(tmp_path, "") == LearningConfig(name="learning")


def test_every_section_is_read(tmp_path: Path):
    config = config_of(tmp_path, WHOLE)
    assert (config.name, config.machines.machines, config.machines.horizon) == ("both", 4, 12)
    assert config.bootstrap == TraceSource(kind="traces", path=str(tmp_path / "past"), steps=(2, 8))
    assert config.bootstrap_iterations == 7
    assert config.jobs == SyntheticJobs(jobs=30, long_steps=(5, 12))
    assert config.penalties.over_use == 2.0
    assert config.training == TrainingSettings(network="image", seed=3)
    assert (config.evaluation.machines, config.evaluation.baselines) == ((4, 8), ("tetris-peak",))


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("[machine]", "machine", "did you mean 'machines'?"),
        ("[jobs]\nkind = 'synthetics'", "jobs.kind", "did you mean 'synthetic'?"),
        ("[jobs]\nkind = 'traces'", "jobs.path", "the directory of the traces"),
        ("[jobs]\nrate = 0", "jobs.rate", "rate = 0"),
        ("[jobs]\nrates = 1", "jobs.rates", "did you mean 'rate'?"),
        ("[machines]\nhorizon = 10", "jobs", "jobs of up to 20 steps; the horizon of [machines] is 10"),
        ("[machines]\nresources = ['cpu']", "jobs.resources", "[machines] has ['cpu']"),
        ("[training]\nnetwork = 'images'", "training.network", "did you mean 'image'?"),
        ("[training]\ntrajectories = 1", "training.trajectories", "trajectories = 1"),
        ("[bootstrap]\niterations = 0", "bootstrap.iterations", ">= 1"),
        ("[bootstrap]\niterations = 'x'", "bootstrap.iterations", "whole number"),
        ("[evaluation]\nbaselines = ['tetris']", "evaluation.baselines", "did you mean 'tetris-"),
        ("[evaluation]\nmachines = [3, 3]", "evaluation.machines", "each once"),
        (
            "[evaluation]\nmachines = [10000]",
            "evaluation",
            "machines = 10000 is not allowed; expected a number",
        ),
        ("[machines]\nmachines = 10000\nhorizon = 10000", "machines", "expected fewer, with 10000 machines"),
        ("[evaluation]\nsequences = 1", "evaluation.sequences", ">= 2"),
        ("jobs = 3", "jobs", "is not a table"),
        ("name = 3", "name", "text in quotes"),
        ("name = 'a/b'", "name", "a valid name of a directory"),
        ("[jobs", "not valid TOML", ""),
    ],
)
def test_errors_are_located(tmp_path: Path, text: str, place: str, words: str):
    with pytest.raises(ScenarioError) as error:
        config_of(tmp_path, text)
    problems = {problem.place: problem.message for problem in error.value.problems}
    assert words in problems[place]


def test_all_problems_are_reported_together(tmp_path: Path):
    with pytest.raises(ScenarioError) as error:
        config_of(tmp_path, "[jobs]\nrate = -1\n[machines]\nmachine = 1\n[training]\nseed = -1\n")
    assert {problem.place for problem in error.value.problems} == {"jobs.rate", "machines.machine", "training.seed"}


def test_the_digest_covers_all_inputs_of_the_weights():
    config = LearningConfig()
    evaluation = attrs.evolve(config.evaluation, sequences=3)
    assert attrs.evolve(config, name="other", evaluation=evaluation).digest() == config.digest()
    assert attrs.evolve(config, training=TrainingSettings(seed=1)).digest() != config.digest()
    assert attrs.evolve(config, bootstrap=SyntheticJobs()).digest() != config.digest()


def test_the_number_of_jobs_grows_with_the_cluster():
    jobs = SyntheticJobs(rate=2.0, jobs=50)
    assert scaled(jobs, 4.0) == SyntheticJobs(rate=8.0, jobs=200)
    assert scaled(jobs, 1.0) == jobs
    assert longest_of(jobs) == 20


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.toml")), ids=lambda path: path.stem)
def test_examples_can_be_read(path: Path):
    if "[cluster]" not in path.read_text():
        assert path.stem in read_config(path).name
