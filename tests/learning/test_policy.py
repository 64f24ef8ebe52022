"""Decisions of a learned policy."""

from __future__ import annotations

import pickle

import attrs
import numpy as np
import pytest

from plb.errors import ConflictError, InvalidValueError
from plb.learning.checkpoints import Checkpoint, write_checkpoint
from plb.learning.placement_game import WAIT
from plb.learning.policy import LearnedPolicy
from plb.learning.settings import NETWORKS, TrainingSettings
from tests.learning.games import LARGE, SMALL, random_observation
from tests.learning.test_networks import logits_of, network_of


def checkpoint_of(kind, shape):
    settings = TrainingSettings(network=kind, hidden=16)
    return Checkpoint(settings, shape, 0, dict(network_of(kind, shape).state_dict()), optimiser={})


def seen(shape, seed=0):
    return random_observation(np.random.default_rng(seed), shape)


@pytest.mark.parametrize(
    "part", [lambda checkpoint: checkpoint, Checkpoint.policy_alone], ids=["whole", "without training"]
)
@pytest.mark.parametrize("kind", NETWORKS)
def test_policy_takes_the_most_likely_action(kind, part, tmp_path):
    write_checkpoint(tmp_path / "policy.pt", part(checkpoint_of(kind, LARGE)))
    policy = LearnedPolicy.load(tmp_path / "policy.pt")
    for seed in range(20):
        logits = logits_of(network_of(kind, LARGE), seen(LARGE, seed))[0]
        assert policy.logits(seen(LARGE, seed)) == pytest.approx(logits, abs=1e-6)
        assert policy.act(seen(LARGE, seed)) == logits.argmax()


def test_only_allowed_actions_are_chosen():
    policy = LearnedPolicy(checkpoint_of("scorer", LARGE))
    logits = policy.logits(seen(LARGE))
    allowed = np.arange(10) % 3 == 1
    for may_wait in (True, False):
        may = np.array([may_wait, *allowed])
        assert policy.act(seen(LARGE), allowed, may_wait=may_wait) == np.where(may, logits, -np.inf).argmax()
    assert policy.act(seen(LARGE), np.full(10, False)) == WAIT


def test_no_allowed_action_is_refused():
    policy = LearnedPolicy(checkpoint_of("scorer", LARGE))
    with pytest.raises(ConflictError, match="no machine is allowed"):
        policy.act(seen(LARGE), np.full(10, False), may_wait=False)
    with pytest.raises(InvalidValueError, match="one truth value for each of 10"):
        policy.act(seen(LARGE), np.full(9, True))


def test_first_of_equal_machines_is_taken():
    """The last bits of a sum do not decide, for any number of machines."""
    policy = LearnedPolicy(checkpoint_of("scorer", SMALL))
    for seed in range(10):
        one = seen(attrs.evolve(SMALL, machines=1), seed)
        for machines in (2, 7, 33, 200):
            many = one._replace(machines=one.machines.repeat(machines, 0), occupied=one.occupied.repeat(machines))
            assert policy.act(many, may_wait=False) == 1
            some = np.arange(machines) >= machines // 2
            assert policy.act(many, some, may_wait=False) == 1 + machines // 2


def test_scorer_accepts_any_number_of_machines_and_image_does_not():
    many = seen(attrs.evolve(SMALL, machines=40))
    scorer, image = (LearnedPolicy(checkpoint_of(kind, SMALL)) for kind in ("scorer", "image"))
    assert scorer.logits(many).shape == (41,)
    with pytest.raises(InvalidValueError, match="machines = 40 is not allowed; expected 3, with which"):
        image.act(many)


@pytest.mark.parametrize("field", ["resources", "past", "horizon", "visible", "arrivals"])
def test_observation_of_another_shape_is_refused(field):
    policy = LearnedPolicy(checkpoint_of("scorer", SMALL))
    other = attrs.evolve(SMALL, **{field: getattr(SMALL, field) + 1})
    with pytest.raises(InvalidValueError, match="an array of shape"):
        policy.act(seen(other))


def test_policy_can_be_sent_to_another_process():
    policy = LearnedPolicy(checkpoint_of("scorer", LARGE))
    again = pickle.loads(pickle.dumps(policy))
    assert np.array_equal(again.logits(seen(LARGE)), policy.logits(seen(LARGE)))
    assert again.digest == policy.digest
