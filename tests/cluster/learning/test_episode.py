"""The rules of an episode, as stories and compared with the plain Python of `naive`."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from cluster.learning.episode import NOT_PLACED, PARTS, Dimensions, Episode, Penalties
from cluster.learning.jobs import Job, JobSequence
from plb.errors import ConflictError, InvalidValueError
from tests.cluster.learning.naive import NaiveEpisode
from tests.cluster.learning.strategies import dimensions, job, jobs, one_resource, penalties, sequences

ONLY = {"contention": 0.0, "over_use": 0.0, "wait": 0.0, "under_use": 0.0}


def begun(machines: int, *given: Job, only: str = "wait", longest: int | None = None, **sizes: int) -> Episode:
    """Return an episode with these jobs in which one part of the reward has weight 1 and the others 0."""
    weights = Penalties(**(ONLY | {only: 1.0}))
    return Episode(jobs(*given), one_resource(machines, **sizes), weights, longest_steps=longest)


def assert_equal_observations(episode: Episode, naive: NaiveEpisode) -> None:
    seen = episode.observe()._asdict()
    for name, requested in naive.observe().items():
        assert seen[name].dtype == np.float32
        np.testing.assert_allclose(seen[name], np.array(requested, np.float64), rtol=1e-5, atol=1e-6, err_msg=name)


@given(st.data(), dimensions(), penalties, st.none() | st.integers(1, 20))
def test_an_episode_follows_the_rules(data, sizes, weights, longest):
    """For any decisions, observations, times, rewards by part and the end equal those of plain Python."""
    sequence = data.draw(sequences(sizes))
    assume(longest is None or sequence.jobs[0].arrival < longest)
    episode = Episode(sequence, sizes, weights, longest_steps=longest)
    naive = NaiveEpisode(sizes, weights, sequence, longest)
    total = 0.0
    while not naive.over:
        assert not episode.over
        assert (episode.time, episode.queue) == (naive.time, len(naive.queue))
        assert_equal_observations(episode, naive)
        action = data.draw(st.integers(0, sizes.machines))
        reward, requested = episode.decide(action), naive.decide(action)
        assert reward == pytest.approx(requested, abs=1e-9)
        total += reward
    assert (episode.over, episode.truncated, episode.time) == (True, naive.truncated, naive.time)
    assert_equal_observations(episode, naive)
    parts = weights.of(episode.states()).sum(axis=1)
    requested = [sum(step[part] for step in naive.log) for part in PARTS]
    np.testing.assert_allclose(parts, requested, atol=1e-9)
    assert -parts.sum() == pytest.approx(total, abs=1e-9)
    machines = [NOT_PLACED if each.machine is None else each.machine for each in naive.jobs]
    assert episode.machine.tolist() == machines
    assert [at for at in episode.placed if at != NOT_PLACED] == [
        each.placed for each in naive.jobs if each.machine is not None
    ]


def test_a_job_runs_from_the_step_in_which_it_is_placed():
    """After a wait and a placement in step 1, it uses its first value in that step."""
    episode = begun(1, job(0, 0.75, 0.25), job(5, 0.5), past=2)
    episode.decide(0)
    episode.decide(1)
    assert episode.time == 5
    episode = begun(1, job(0, 0.75, 0.25), job(0, 0.5), past=2)
    episode.decide(0)
    episode.decide(1)
    assert episode.observe().machines.tolist() == [[[0, 0, 0.75, 0.25, 0, 0]]]


def test_an_episode_of_waiting_is_truncated():
    """Four horizons after the last arrival, the episode is truncated, and the job was never placed."""
    episode = begun(1, job(0, 0.5), job(3, 0.5))
    waits = 0
    while not episode.over:
        episode.decide(0)
        waits += 1
    assert (waits, episode.time, episode.truncated) == (19, 19, True)
    assert episode.placed.tolist() == [NOT_PLACED] * 2


def test_observations_are_copies():
    episode = begun(2, job(0, 0.5, 0.5), job(0, 0.5), job(0, 0.25))
    seen, before = episode.observe(), episode.observe()
    episode.decide(1)
    for array, same in zip(seen, before, strict=True):
        np.testing.assert_array_equal(array, same)


def test_running_jobs_are_those_on_a_machine():
    episode = begun(1, job(0, 0.5), job(0, 0.5, 0.5), job(1, 0.5), job(1, 0.5))
    assert episode.running().tolist() == []
    episode.decide(1)
    assert episode.running().tolist() == [0]
    episode.decide(1)
    assert (episode.time, episode.running().tolist()) == (1, [1])
    assert episode.upcoming(3).usage.tolist() == [[[0.5, 0.0, 0.0]]]


@pytest.mark.parametrize("action", [-1, 3, 1.0, None])
def test_other_actions_are_refused(action):
    with pytest.raises(InvalidValueError, match="action"):
        begun(2, job(0, 0.5)).decide(action)


def test_decisions_after_the_end_are_errors():
    episode = begun(1, job(0, 0.5))
    episode.decide(1)
    with pytest.raises(ConflictError, match="begin another"):
        episode.decide(0)


def test_jobs_that_an_observation_cannot_represent_are_refused():
    with pytest.raises(InvalidValueError, match=r"'jobs'.*at most the horizon, 4"):
        begun(1, job(0, *[0.5] * 5))
    with pytest.raises(InvalidValueError, match=r"'jobs': resources = 1"):
        Episode(JobSequence([job(0, 0.5)]), Dimensions())


def test_an_episode_without_a_decision_is_refused():
    with pytest.raises(InvalidValueError, match="longest_steps = 3 is not allowed; expected more than 5"):
        begun(1, job(5, 0.5), longest=3)
