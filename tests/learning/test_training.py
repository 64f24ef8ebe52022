"""Training in small games with known best policies."""

from __future__ import annotations

from functools import partial

import attrs
import numpy as np
import pytest
import torch

from plb.errors import CheckpointError, DivergedError, InvalidValueError
from plb.learning.checkpoints import read_checkpoint, weights_digest, write_checkpoint
from plb.learning.placement_game import Observation
from plb.learning.policy import LearnedPolicy
from plb.learning.settings import TrainingSettings
from plb.learning.training import train
from tests.learning.games import EmptierMachine, WaitingPays

QUICK = TrainingSettings(iterations=6, sequences=3, trajectories=4, hidden=8, seed=5)
LEARNING = TrainingSettings(iterations=30, sequences=4, trajectories=8, hidden=32, learning_rate=3e-3, seed=3)


def result_of(trained):
    """Return what equal trainings have in common: weights and curve."""
    return weights_digest(trained.weights), trained.curve


@pytest.fixture(scope="module")
def whole():
    """Return the result of the quick training without an interruption."""
    return result_of(train(QUICK, EmptierMachine))


@pytest.fixture(scope="module")
def skilled():
    return train(LEARNING, EmptierMachine)


def test_training_learns_the_emptiest_machine_of_any_number(skilled):
    policy = LearnedPolicy(skilled)
    for machines in (3, 8):
        game = EmptierMachine(machines=machines, steps=50)
        (seen, _), right = game.reset(seed=99), 0
        for _ in range(50):
            action = policy.act(Observation(**seen))
            right += action == 1 + game.best
            seen, *_ = game.step(action)
        assert right >= (50 if machines == 3 else 45)


@pytest.mark.parametrize(("network", "iterations"), [("scorer", 30), ("image", 60)])
def test_training_learns_to_wait_if_waiting_pays(network, iterations):
    policy = LearnedPolicy(train(attrs.evolve(LEARNING, network=network, iterations=iterations, seed=1), WaitingPays))
    game = WaitingPays()
    (seen, _), actions = game.reset(seed=0), []
    for _ in range(8):
        actions.append(policy.act(Observation(**seen)))
        seen, *_ = game.step(actions[-1])
    assert actions == [0, 1] * 4


def test_equal_seeds_give_equal_trainings(whole):
    """Weights and curve are equal bit for bit, with any global stream of PyTorch; its thread count is restored."""
    threads = torch.get_num_threads()
    torch.manual_seed(123)
    assert result_of(train(QUICK, EmptierMachine)) == whole
    assert torch.get_num_threads() == threads
    assert result_of(train(attrs.evolve(QUICK, seed=6), EmptierMachine)) != whole


def test_order_of_sequences_does_not_matter(whole):

    def backwards(function, items):
        return [function(item) for item in reversed(list(items))][::-1]

    assert result_of(train(QUICK, EmptierMachine, over=backwards)) == whole


class StoppedError(Exception):
    """Replaces any early end of a training."""


def stop_after(iterations, kind, row):
    """End the training after the given number of reported iterations."""
    if row.iteration == iterations:
        raise kind


@pytest.mark.parametrize(
    ("kind", "stop"), [(StoppedError, 1), (KeyboardInterrupt, 2), (StoppedError, 3), (KeyboardInterrupt, 5)]
)
def test_resumed_training_equals_an_uninterrupted_one(stop, kind, whole, tmp_path):
    """It does so after any interruption, even before the first checkpoint; only the checkpoint file remains."""
    file = tmp_path / "policy.pt"
    with pytest.raises(kind):
        train(QUICK, EmptierMachine, checkpoint=file, every=2, progress=partial(stop_after, stop, kind))
    assert file.exists() == (stop >= 2)
    if stop >= 2:
        assert read_checkpoint(file).iteration == stop - stop % 2
    rows = []
    resumed = train(QUICK, EmptierMachine, checkpoint=file, every=2, resume=True, progress=rows.append)
    assert result_of(resumed) == whole
    assert [row.iteration for row in rows] == list(range(1 + stop - stop % 2, 7))
    assert [path.name for path in tmp_path.iterdir()] == ["policy.pt"]
    assert LearnedPolicy.load(file).digest == whole[0]


def test_finished_training_can_be_resumed_for_more_iterations(tmp_path):
    """More iterations continue from the last; fewer are refused, and so are other settings or games."""
    file = tmp_path / "policy.pt"
    train(attrs.evolve(QUICK, iterations=2), EmptierMachine, checkpoint=file)
    longer = train(QUICK, EmptierMachine, checkpoint=file, resume=True)
    assert [row.iteration for row in longer.curve] == [1, 2, 3, 4, 5, 6]
    for settings, game, reason in (
        (attrs.evolve(QUICK, iterations=3), EmptierMachine, "6 iterations already, 3 are asked for"),
        (attrs.evolve(QUICK, hidden=9), EmptierMachine, "other settings"),
        (QUICK, partial(EmptierMachine, machines=4), "another shape"),
    ):
        with pytest.raises(CheckpointError, match=reason):
            train(settings, game, checkpoint=file, resume=True)


def test_training_can_start_from_a_policy(skilled, tmp_path):
    """A policy trained with three machines continues with five from its skill; other networks are refused."""
    file = tmp_path / "policy.pt"
    write_checkpoint(file, skilled)
    short = attrs.evolve(LEARNING, iterations=1)
    game = partial(EmptierMachine, machines=5)
    assert train(short, game, start=file).curve[0].reward > train(short, game).curve[0].reward + 3
    with pytest.raises(CheckpointError, match="another network"):
        train(attrs.evolve(short, network="image"), game, start=file)


def test_policy_without_training_can_start_one_but_not_resume(tmp_path):
    whole, alone = tmp_path / "whole.pt", tmp_path / "alone.pt"
    checkpoint = train(attrs.evolve(QUICK, iterations=2), EmptierMachine, checkpoint=whole)
    write_checkpoint(alone, checkpoint.policy_alone())
    started = [result_of(train(QUICK, EmptierMachine, start=file)) for file in (whole, alone)]
    assert started[0] == started[1]
    with pytest.raises(CheckpointError, match=r"alone\.pt: holds a policy alone, whose training cannot be resumed"):
        train(QUICK, EmptierMachine, checkpoint=alone, resume=True)


class InfiniteRewards(EmptierMachine):
    """Gives infinite rewards in some games."""

    def reset(self, *, seed=None, options=None):
        self.broken = seed % 7 == 0
        return super().reset(seed=seed, options=options)

    def reward(self, action):
        return float("inf") if self.broken else super().reward(action)


def test_number_that_is_not_finite_ends_the_training():
    rows = []
    with pytest.raises(DivergedError, match="diverged in iteration") as caught:
        train(attrs.evolve(QUICK, iterations=50), InfiniteRewards, progress=rows.append)
    assert caught.value.iteration == len(rows) + 1
    assert "a reward of the game is not finite" in str(caught.value)


def test_diverging_weights_end_the_training(tmp_path):
    file = tmp_path / "policy.pt"
    state = train(attrs.evolve(QUICK, iterations=1), EmptierMachine)
    large = {name: torch.full_like(value, 1e30) for name, value in state.weights.items()}
    write_checkpoint(file, attrs.evolve(state, weights=large))
    with pytest.raises(DivergedError, match="in iteration 2: a logit of the network is not finite"):
        train(QUICK, EmptierMachine, checkpoint=file, resume=True)
    for moments in state.optimiser["state"].values():
        moments["exp_avg"].fill_(1e38)
        moments["exp_avg_sq"].fill_(0.0)
    settings = attrs.evolve(QUICK, learning_rate=1e3)
    state.optimiser["param_groups"][0]["lr"] = 1e3
    write_checkpoint(file, attrs.evolve(state, settings=settings))
    with pytest.raises(DivergedError, match="in iteration 2: a weight is not finite"):
        train(settings, EmptierMachine, checkpoint=file, resume=True)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, 1e38])
def test_gradient_that_is_not_finite_ends_the_training(wrong):

    def over(function, items):
        for result in map(function, items):
            yield attrs.evolve(result, gradient={n: np.full_like(value, wrong) for n, value in result.gradient.items()})

    with pytest.raises(DivergedError, match="in iteration 1: the gradient is not finite"):
        train(QUICK, EmptierMachine, over=over)


@pytest.mark.parametrize("every", [0, -1, 1.5])
def test_checkpoints_are_at_least_one_iteration_apart(every):
    with pytest.raises(InvalidValueError, match=f"training: every = {every} is not allowed"):
        train(QUICK, EmptierMachine, every=every)


def test_training_is_resumed_only_with_the_same_resources(whole, tmp_path):
    file = tmp_path / "policy.pt"
    train(attrs.evolve(QUICK, iterations=2), EmptierMachine, checkpoint=file, resources=["cpu"])
    for others in ((), ("memory",)):
        with pytest.raises(CheckpointError, match="other resources"):
            train(QUICK, EmptierMachine, checkpoint=file, resume=True, resources=others)
    resumed = train(QUICK, EmptierMachine, checkpoint=file, resume=True, resources=("cpu",))
    assert resumed.resources == ("cpu",)
    assert train(QUICK, EmptierMachine, resources=("cpu",)).digest == whole[0]
    with pytest.raises(InvalidValueError, match="resources"):
        train(QUICK, EmptierMachine, resources=("cpu", "memory"))


def test_curve_describes_the_games():
    for row in train(QUICK, EmptierMachine).curve:
        assert row.decisions == 3 * 4 * 8
        assert row.lowest <= row.reward <= row.highest <= 0
        assert 0 < row.entropy <= np.log(4) + 1e-6
        assert row.gradient_norm > 0


def test_long_gradient_is_shortened():
    first = []
    for limit in (1e6, 1e-3):
        trained = train(attrs.evolve(QUICK, iterations=1, gradient_norm=limit), EmptierMachine)
        moments = trained.optimiser["state"].values()
        first.append(np.concatenate([moment["exp_avg"].numpy().ravel() for moment in moments]))
    norm = trained.curve[0].gradient_norm
    assert np.linalg.norm(first[0]) == pytest.approx((1 - 0.9) * norm, rel=1e-4)
    assert first[1] == pytest.approx(first[0] * 1e-3 / norm, rel=1e-3)
