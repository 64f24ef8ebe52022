"""The heuristics: the chosen machine, and when they wait."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.learning.baselines import (
    BASELINES,
    FitRule,
    LeastPenalty,
    RandomPlacement,
    capacity,
    play,
    requirement,
)
from cluster.learning.episode import NOT_PLACED, Dimensions, Episode
from cluster.learning.jobs import Job, JobSequence
from plb.learning.placement_game import WAIT
from tests.cluster.learning.strategies import dimensions, job, jobs, one_resource, penalties, sequences

TWO = Dimensions(machines=3, horizon=4)


def episode_with(head: list[list[float]], *others: list[list[float]]) -> Episode:
    """Return an episode of three machines, with one job on each of the first ones and a head to place."""
    episode = Episode(JobSequence([*(Job(0, other) for other in others), Job(0, head)]), TWO)
    for machine in range(len(others)):
        episode.decide(machine + 1)
    return episode


@pytest.mark.parametrize(
    ("policy", "action"),
    [
        pytest.param("tetris-present", 3, id="tetris chooses the most aligned free capacity"),
        pytest.param("best-fit-present", 2, id="best fit chooses the least free capacity of the dominant resource"),
        pytest.param("worst-fit-present", 1, id="worst fit chooses the most"),
    ],
)
def test_each_heuristic_has_its_measure_of_free_capacity(policy, action):
    """The head needs much CPU and some memory. The machines differ in their free capacity of both."""
    episode = episode_with([[0.4, 0.2]], [[0.0, 0.8]], [[0.5, 0.0]], [[0.1, 0.1]])
    assert BASELINES[policy](episode) == action


@pytest.mark.parametrize("kind", ["tetris", "best-fit", "worst-fit", "random"])
def test_all_wait_if_the_head_fits_on_no_machine(kind):
    episode = episode_with([[0.1, 0.6]], [[0.0, 0.5]], [[0.0, 0.5]], [[0.0, 0.5]])
    assert BASELINES[f"{kind}-present"](episode) == WAIT
    assert all(BASELINES[f"{kind}-{fit.value}"](episode_with([[0.1, 0.5]])) != WAIT for fit in FitRule)


def test_feasibility_depends_on_the_compared_usage():
    """Two jobs begin low and end high. The second fits by present usage, not by mean or by peak."""
    curve = [[0.2, 0.0], [0.8, 0.0]]
    one_machine = Episode(jobs(job(0, 0.2, 0.8), job(0, 0.2, 0.9)), one_resource(1))
    one_machine.decide(1)
    assert [BASELINES[f"best-fit-{fit.value}"](one_machine) for fit in FitRule] == [1, WAIT, WAIT]
    episode = episode_with(curve, curve)
    assert [requirement(episode, fit)[0] for fit in FitRule] == pytest.approx([0.2, 0.5, 0.8])
    assert [capacity(episode, fit)[0, 0] for fit in FitRule] == pytest.approx([0.8, 0.5, 0.2])


def test_finished_jobs_use_no_capacity():
    episode = Episode(jobs(job(0, 0.5), job(0, 0.25, 0.25), job(1, 0.5)), one_resource(1))
    episode.decide(1)
    episode.decide(1)
    assert episode.time == 1
    assert [capacity(episode, fit).item() for fit in FitRule] == [0.75, 0.75, 0.75]


@pytest.mark.parametrize("name", [name for name in BASELINES if not name.startswith("random")])
def test_ties_go_to_the_first_machine(name):
    assert BASELINES[name](episode_with([[0.5, 0.25]])) == 1


@given(st.data(), dimensions(), penalties)
def test_baselines_place_the_head_only_on_feasible_machines(data, sizes, weights):
    """Placement by peaks never overloads a machine. All baselines place if a machine is feasible, and all terminate."""
    sequence = data.draw(sequences(sizes))
    name = data.draw(st.sampled_from([name for name in BASELINES if name != "least-penalty"]))
    policy, fit = BASELINES[name], FitRule(name.rpartition("-")[2])
    episode = Episode(sequence, sizes, weights)
    while not episode.over:
        fits = (requirement(episode, fit) <= capacity(episode, fit) + 1e-9).all(axis=1)
        action = policy(episode)
        assert (action == WAIT) == (not fits.any())
        assert action == WAIT or fits[action - 1]
        episode.decide(action)
    if fit is FitRule.PEAK:
        assert episode.states().usage.max() <= 1.0 + 1e-6


@given(st.data(), dimensions(), penalties)
def test_least_penalty_is_the_least_of_all_machines(data, sizes, weights):
    sequence = data.draw(sequences(sizes))
    episode = Episode(JobSequence([Job(0, each.usage) for each in sequence.jobs]), sizes, weights)
    while episode.queue > 1:
        episode.decide(data.draw(st.integers(1, sizes.machines)))
    rewards = [copy.deepcopy(episode).decide(machine + 1) for machine in range(sizes.machines)]
    assert rewards[LeastPenalty()(episode) - 1] == pytest.approx(max(rewards), abs=1e-9)
    assert play(episode, LeastPenalty())["wait"] == 0.0


def test_random_placement_is_seeded_and_uses_all_machines():
    """Equal seeds give equal placements regardless of earlier episodes; another seed gives others."""
    sequence = jobs(*[job(0, 0.01)] * 40)
    placed = []
    for seed in (0, 0, 1):
        episode, policy = Episode(sequence, one_resource(4)), RandomPlacement(seed=seed)
        play(episode, policy)
        placed.append(episode.machine.tolist())
    assert placed[0] == placed[1] != placed[2]
    assert set(placed[0]) == {0, 1, 2, 3}


def test_a_job_larger_than_a_machine_waits_until_the_end():
    episode = Episode(jobs(job(0, 1.5), job(0, 0.5)), one_resource(2))
    found = play(episode, BASELINES["tetris-present"])
    assert episode.truncated
    assert found["unplaced"] == 2.0
    assert (episode.placed == NOT_PLACED).all()
