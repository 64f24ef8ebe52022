"""Training, in small games whose best policies are known."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import attrs
import numpy as np
import pytest
import torch

from plb.errors import CheckpointError, DivergedError, InvalidValueError
from plb.learning.checkpoints import read_checkpoint, weights_digest, write_checkpoint
from plb.learning.policy import LearnedPolicy
from plb.learning.settings import NETWORKS, TrainingSettings
from plb.learning.training import train
from tests.learning.games import EmptierMachine, WaitingPays

QUICK = TrainingSettings(iterations=6, sequences=3, trajectories=4, hidden=8, seed=5)
LEARNING = TrainingSettings(iterations=60, sequences=4, trajectories=8, hidden=32, learning_rate=3e-3, seed=3)


def result_of(trained):
    """Return what must be equal for trainings to be equal: weights and curve."""
    return weights_digest(trained.weights), trained.curve


@pytest.fixture(scope="module")
def whole():
    """Return the result of the quick training, never interrupted."""
    return result_of(train(QUICK, EmptierMachine))


def test_it_learns_which_machine_is_the_emptiest_of_any_number():
    """Trained with three machines, the policy chooses rightly among eight, too."""
    policy = LearnedPolicy(train(LEARNING, EmptierMachine))
    for machines in (3, 8):
        game = EmptierMachine(machines=machines, steps=50)
        seen, right = game.reset(99), 0
        for _ in range(50):
            action = policy.act(seen)
            right += action == 1 + game.best
            seen, _, _ = game.step(action)
        assert right >= (50 if machines == 3 else 45)


@pytest.mark.parametrize("network", NETWORKS)
def test_it_learns_to_wait_where_waiting_pays(network):
    """At the end nothing is placed on the machine while it is full, and everything while it is free."""
    policy = LearnedPolicy(train(attrs.evolve(LEARNING, network=network, seed=1), WaitingPays))
    game = WaitingPays()
    seen, actions = game.reset(0), []
    for _ in range(8):
        actions.append(policy.act(seen))
        seen, _, _ = game.step(actions[-1])
    assert actions == [0, 1] * 4


@pytest.mark.parametrize("network", NETWORKS)
def test_the_reward_rises(network):
    """Both networks learn; the curve shows it."""
    curve = train(attrs.evolve(LEARNING, network=network), EmptierMachine).curve
    assert np.mean([row.reward for row in curve[-5:]]) > np.mean([row.reward for row in curve[:5]]) + 1.5


def test_equal_seeds_train_alike_and_others_do_not(whole):
    """Weights and curve are equal bit for bit, whatever PyTorch's global stream and threads; threads are given back."""
    threads = torch.get_num_threads()
    torch.manual_seed(123)
    assert result_of(train(QUICK, EmptierMachine)) == whole
    assert torch.get_num_threads() == threads
    assert result_of(train(attrs.evolve(QUICK, seed=6), EmptierMachine)) != whole


def test_workers_in_other_processes_change_nothing(whole):
    """Two of them, or none: the gradients are added in the order of the sequences."""
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        assert result_of(train(QUICK, EmptierMachine, over=pool.map)) == whole


def test_the_order_in_which_sequences_are_played_does_not_matter(whole):
    """Each has its own random streams."""

    def backwards(function, items):
        return [function(item) for item in reversed(list(items))][::-1]

    assert result_of(train(QUICK, EmptierMachine, over=backwards)) == whole


class StoppedError(Exception):
    """Stands for whatever ends a training early."""


def stop_after(iterations, kind, row):
    """End the training once so many iterations are reported."""
    if row.iteration == iterations:
        raise kind


@pytest.mark.parametrize("kind", [StoppedError, KeyboardInterrupt])
@pytest.mark.parametrize("stop", [1, 2, 3, 5])
def test_a_resumed_training_ends_as_if_it_had_not_been_interrupted(stop, kind, whole, tmp_path):
    """Whenever it was, and if no checkpoint was written yet; the file is whole then, and nothing else lies about."""
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


def test_a_finished_training_can_be_resumed_for_more(tmp_path):
    """Further iterations go on from the last; fewer than are done are refused, and so are other settings or games."""
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


def test_training_can_begin_with_a_policy(tmp_path):
    """Trained with three machines, it goes on with five and need not find out again; other networks are refused."""
    file = tmp_path / "policy.pt"
    write_checkpoint(file, train(LEARNING, EmptierMachine))
    short = attrs.evolve(LEARNING, iterations=1)
    game = partial(EmptierMachine, machines=5)
    assert train(short, game, start=file).curve[0].reward > train(short, game).curve[0].reward + 3
    with pytest.raises(CheckpointError, match="another network"):
        train(attrs.evolve(short, network="image"), game, start=file)


def test_a_policy_alone_can_be_begun_with_but_not_resumed(tmp_path):
    """A new training needs the weights only; to go on with the former one takes its optimiser, too."""
    whole, alone = tmp_path / "whole.pt", tmp_path / "alone.pt"
    checkpoint = train(attrs.evolve(QUICK, iterations=2), EmptierMachine, checkpoint=whole)
    write_checkpoint(alone, checkpoint.policy_alone())
    begun = [result_of(train(QUICK, EmptierMachine, start=file)) for file in (whole, alone)]
    assert begun[0] == begun[1]
    with pytest.raises(CheckpointError, match=r"alone\.pt: holds a policy alone, whose training cannot be resumed"):
        train(QUICK, EmptierMachine, checkpoint=alone, resume=True)


@attrs.define
class BrokenInTime(EmptierMachine):
    """Gives rewards that are no numbers in some games."""

    broken: bool = False

    def reset(self, seed):
        """Begin."""
        self.broken = seed % 7 == 0
        return super().reset(seed)

    def step(self, action):
        """Decide."""
        seen, reward, over = super().step(action)
        return seen, float("inf") if self.broken else reward, over


def test_a_number_that_is_not_finite_ends_the_training_with_its_iteration():
    """The curve says how far it came."""
    rows = []
    with pytest.raises(DivergedError, match="diverged in iteration") as caught:
        train(attrs.evolve(QUICK, iterations=50), BrokenInTime, progress=rows.append)
    assert caught.value.iteration == len(rows) + 1
    assert "a reward of the game is not finite" in str(caught.value)


def all_of(weights, value):
    """Return arrays of the same names and shapes, full of a value."""
    return {name: np.full_like(each, value) for name, each in weights.items()}


def test_weights_that_run_away_end_the_training(tmp_path):
    """No policy comes of numbers that are not finite."""
    file = tmp_path / "policy.pt"
    state = train(attrs.evolve(QUICK, iterations=1), EmptierMachine)
    write_checkpoint(file, attrs.evolve(state, weights=all_of(state.weights, 1e30)))
    with pytest.raises(DivergedError, match="in iteration 2: a logit of the network is not finite"):
        train(QUICK, EmptierMachine, checkpoint=file, resume=True)
    steep = attrs.evolve(state.optimiser, first=all_of(state.weights, 1e38), second=all_of(state.weights, 0.0))
    write_checkpoint(file, attrs.evolve(state, settings=attrs.evolve(QUICK, learning_rate=1e3), optimiser=steep))
    with pytest.raises(DivergedError, match="in iteration 2: a weight is not finite"):
        train(attrs.evolve(QUICK, learning_rate=1e3), EmptierMachine, checkpoint=file, resume=True)


@pytest.mark.parametrize("every", [0, -1, 1.5])
def test_checkpoints_lie_at_least_an_iteration_apart(every):
    """Said before anything is played."""
    with pytest.raises(InvalidValueError, match=f"training: every = {every} is not allowed"):
        train(QUICK, EmptierMachine, every=every)


def test_a_training_is_resumed_with_the_same_resources_only(whole, tmp_path):
    """Their names change no weight."""
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


def test_the_curve_says_what_was_played():
    """Decisions are counted, and the mean reward lies between the extremes."""
    for row in train(QUICK, EmptierMachine).curve:
        assert row.decisions == 3 * 4 * 8
        assert row.lowest <= row.reward <= row.highest <= 0
        assert 0 < row.entropy <= np.log(4) + 1e-6
        assert row.gradient_norm > 0


def test_a_long_gradient_is_shortened():
    """All parts of it by the same factor; a short one stays as it is."""
    first = []
    for limit in (1e6, 1e-3):
        trained = train(attrs.evolve(QUICK, iterations=1, gradient_norm=limit), EmptierMachine)
        first.append(np.concatenate([one.ravel() for one in trained.optimiser.first.values()]))
    norm = trained.curve[0].gradient_norm
    assert np.linalg.norm(first[0]) == pytest.approx((1 - 0.9) * norm, rel=1e-4)
    assert first[1] == pytest.approx(first[0] * 1e-3 / norm, rel=1e-3)
