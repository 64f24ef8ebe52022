"""Sizes beyond the memory of a machine are refused early, with the range."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cluster.errors import ScenarioError
from cluster.learning.config import EvaluationSection, LearningConfig, read_config
from cluster.learning.episode import Dimensions, Episode
from cluster.learning.jobs import Job, JobSequence, SyntheticJobs
from cluster.scenario.scenario_file import scenario_from
from plb.errors import InvalidValueError


@pytest.mark.parametrize(
    ("section", "key", "value", "allowed"),
    [
        ("cluster", "nodes", 2**31, "<= 100000"),
        ("cluster", "fault_domains", 10**400, "<= 100000"),
        ("workload", "history_tenants", 10**12, "<= 1e+06"),
        ("workload", "oracle_hours", 1e300, "<= 1e+06"),
        ("run", "repeats", 10**9, "<= 10000"),
        ("run", "days", 1e12, "<= 41666.7"),
    ],
)
def test_scenarios_have_a_largest_size(section: str, key: str, value: Any, allowed: str):
    with pytest.raises(ScenarioError) as raised:
        scenario_from({section: {key: value}})
    assert f"{section}.{key}" in str(raised.value)
    assert allowed in str(raised.value)


def test_jobs_on_machines_have_a_largest_size(tmp_path: Path):
    """Many jobs with a long horizon, or many machines over many steps, are errors.

    A file reports all with their sections.
    """
    far = Dimensions(horizon=10_000)
    with pytest.raises(InvalidValueError, match=r"jobs = 100000 is not allowed; expected a whole number <= 13421, "):
        LearningConfig(machines=far, jobs=SyntheticJobs(jobs=100_000))
    slow = SyntheticJobs(jobs=10_000, rate=0.01)
    with pytest.raises(InvalidValueError, match=r"jobs / rate = 1000000 is not allowed; expected <= \d+, with 1000 "):
        LearningConfig(machines=Dimensions(machines=1000), jobs=slow)
    with pytest.raises(InvalidValueError, match="evaluation: machines = 10000 is not allowed"):
        LearningConfig(jobs=SyntheticJobs(jobs=10_000), evaluation=EvaluationSection(machines=(10_000,)))
    path = tmp_path / "large.toml"
    path.write_text("[machines]\nhorizon = 10000\n[jobs]\njobs = 100000\n[bootstrap]\njobs = 90000\n")
    with pytest.raises(ScenarioError) as raised:
        read_config(path)
    assert [problem.place for problem in raised.value.problems] == ["jobs", "bootstrap"]


def test_episodes_of_given_jobs_have_a_largest_size():
    late = JobSequence([Job(1_000_000, np.ones((1, 2)))])
    with pytest.raises(InvalidValueError, match=r"last step = 1000080 is not allowed; expected at most \d+, "):
        Episode(late, Dimensions(machines=10_000))


def test_numpy_numbers_are_written_as_python_numbers():
    of_numpy = LearningConfig(
        jobs=SyntheticJobs(jobs=np.int64(8), rate=np.float32(3.5)),
        evaluation=EvaluationSection(machines=(np.int32(4),)),
    )
    plain = LearningConfig(jobs=SyntheticJobs(jobs=8, rate=3.5), evaluation=EvaluationSection(machines=(4,)))
    assert of_numpy.as_json() == plain.as_json()
    assert of_numpy.digest() == plain.digest()
