"""Evaluation: all policies on the same jobs, and confidence intervals."""

from __future__ import annotations

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from cluster.learning.baselines import BASELINES, play
from cluster.learning.config import EvaluationSection as EvaluationSettings
from cluster.learning.config import LearningConfig
from cluster.learning.episode import Episode
from cluster.learning.evaluation import LEARNED, EvaluationResult, evaluate, play_sequence
from cluster.learning.job_sources import RegionSource, SourceOf
from cluster.learning.jobs import SyntheticJobs
from cluster.results.intervals import Interval
from cluster.simulation.random_streams import stream_seed
from plb.errors import InvalidValueError

VALUES = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=12)
CONFIG = LearningConfig(
    jobs=SyntheticJobs(jobs=12),
    evaluation=EvaluationSettings(sequences=3, baselines=("tetris-mean", "best-fit-present")),
)


@pytest.fixture
def first_is_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the trained policy with a heuristic, so that PyTorch is not needed."""
    monkeypatch.setattr("cluster.learning.evaluation.learned", lambda _path: BASELINES["tetris-mean"])


@given(VALUES)
def test_intervals_are_those_of_student(values: list[float]):
    found = Interval.of(values)
    if np.std(values) > 1e-6 * (1 + abs(np.mean(values))):
        low, high = stats.t.interval(0.95, len(values) - 1, np.mean(values), stats.sem(values))
        assert found.as_json() == pytest.approx({"mean": np.mean(values), "low": low, "high": high}, rel=1e-6, abs=1e-6)
        assert found.sign == int(low > 0) - int(high < 0)


def evaluation(learned: tuple[float, ...], other: tuple[float, ...], figure: str) -> EvaluationResult:
    figures = {LEARNED: {figure: learned}, "other": {figure: other}}
    return EvaluationResult(10, figures)


def test_a_better_policy_is_marked_only_if_the_difference_is_significant():
    """Differences are paired by sequence: both vary more than they differ.

    A higher reward and less over-use are better.
    """
    low, high = (1.0, 5.0, 9.0), (2.0, 6.1, 10.0)
    assert evaluation(high, low, "reward").verdict("other", "reward") == "better"
    assert evaluation(low, high, "reward").verdict("other", "reward") == "worse"
    assert evaluation(low, high, "over_use").verdict("other", "over_use") == "better"
    assert evaluation(high, low, "over_use").verdict("other", "over_use") == "worse"
    assert evaluation(low, (9.0, 5.0, 1.0), "reward").verdict("other", "reward") == "equal"
    assert evaluation(low, low, "reward").verdict("other", "reward") == "equal"
    assert evaluation(low, high, "steps").verdict("other", "steps") == "equal", "neither is better"


@pytest.mark.usefixtures("first_is_learned")
def test_every_policy_plays_the_same_sequences():
    """These are the sequences of the evaluation seed. The substitute heuristic gives the figures of the original."""
    calls: list[int] = []
    found = evaluate(CONFIG, "none", progress=lambda: calls.append(1))
    assert list(found.figures) == [LEARNED, "tetris-mean", "best-fit-present"]
    assert found.figures[LEARNED] == found.figures["tetris-mean"]
    assert found.figures["best-fit-present"] != found.figures["tetris-mean"]
    assert (found.machines, found.sequences, len(calls)) == (10, 3, 3)
    for number, reward in enumerate(found.figures["best-fit-present"]["reward"]):
        seed = stream_seed(CONFIG.evaluation.seed, "evaluation", number)
        episode = Episode(SourceOf(CONFIG.jobs, held_back=True).sequence(seed), CONFIG.machines, CONFIG.penalties)
        assert play(episode, BASELINES["best-fit-present"])["reward"] == reward


@pytest.mark.usefixtures("first_is_learned")
def test_evaluation_uses_the_reserved_jobs():
    jobs = RegionSource(tenants=30, jobs=8, steps=(2, 4), sizes=(0.5, 1.0))
    config = attrs.evolve(CONFIG, jobs=jobs)
    found = evaluate(config, "none").figures["tetris-mean"]["reward"]
    for held_back in (True, False):
        rewards = []
        for number in range(3):
            seed = stream_seed(config.evaluation.seed, "evaluation", number)
            episode = Episode(SourceOf(jobs, held_back).sequence(seed), config.machines, config.penalties)
            rewards.append(play(episode, BASELINES["tetris-mean"])["reward"])
        assert (found == tuple(rewards)) is held_back


def test_impossible_numbers_of_machines_are_refused_first():
    with pytest.raises(InvalidValueError, match=r"machines = 10000 .* with which rate of the jobs, 3500, is a finite"):
        evaluate(CONFIG, "none", machines=10_000)


@pytest.mark.usefixtures("first_is_learned")
def test_json_has_means_differences_and_verdicts():
    found = evaluate(CONFIG, "none").as_json()
    assert set(found["policies"]) == {LEARNED, "tetris-mean", "best-fit-present"}
    assert set(found["differences"]) == {"tetris-mean", "best-fit-present"}
    same = found["differences"]["tetris-mean"]["reward"]
    assert same == {"mean": 0.0, "low": 0.0, "high": 0.0, "verdict": "equal"}


def test_without_a_policy_the_file_is_named(tmp_path):
    pytest.importorskip("torch")
    from plb.errors import CheckpointError

    with pytest.raises(CheckpointError, match=r"nothing\.pt"):
        play_sequence(CONFIG, str(tmp_path / "nothing.pt"), 10, 0)
