"""Small games with known best policies, and a cheap game as large as the real one."""

from __future__ import annotations

from typing import Any

import attrs
import gymnasium
import numpy as np

from plb.learning.placement_game import WAIT, Observation, ObservationShape

SMALL = ObservationShape(machines=3, resources=1, past=1, horizon=2, visible=2, arrivals=2)
LARGE = ObservationShape(machines=10, resources=2, past=5, horizon=20, visible=5, arrivals=10)


class Game(gymnasium.Env):
    """A game of some steps, each with one decision."""

    shape = SMALL

    def __init__(self, steps: int = 8, machines: int | None = None) -> None:
        self.steps, self.time = steps, 0
        self.shape = attrs.evolve(self.shape, machines=machines or self.shape.machines)
        shapes = self.shape.arrays(self.shape.machines)
        boxes = {name: gymnasium.spaces.Box(-np.inf, np.inf, shape) for name, shape in shapes.items()}
        self.observation_space = gymnasium.spaces.Dict(boxes)
        self.action_space = gymnasium.spaces.Discrete(1 + self.shape.machines)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed, options=options)
        self.time = 0
        return self.observe()._asdict(), {}

    def step(self, action: int):
        reward = self.reward(int(action))
        self.time += 1
        return self.observe()._asdict(), reward, self.time == self.steps, False, {}

    def observe(self) -> Observation:
        raise NotImplementedError

    def reward(self, action: int) -> float:
        raise NotImplementedError


class EmptierMachine(Game):
    """Each step has a job of 0.6 and new usages; the job fits only on the emptiest machine; waiting costs 1."""

    def reward(self, action: int) -> float:
        return 0.0 if action != WAIT and action - 1 == self.best else -1.0

    @property
    def best(self) -> int:
        return int(self.usage.argmin())

    def observe(self) -> Observation:
        machines = self.shape.machines
        self.usage = self.np_random.permutation(np.linspace(0.2, 0.9, machines))
        curves = np.zeros((machines, 1, 3), dtype=np.float32)
        curves[:, 0, 1:] = self.usage[:, np.newaxis]
        queue = np.zeros((2, 1, 2), dtype=np.float32)
        queue[0] = 0.6
        return _observation(curves, queue, self.time)


class WaitingPays(Game):
    """One machine is full in even steps and free in odd ones: a job placed on a full machine costs 1."""

    shape = attrs.evolve(SMALL, machines=1)

    def reward(self, action: int) -> float:
        full = self.time % 2 == 0
        return -0.5 if action == WAIT and not full else -1.0 if action != WAIT and full else 0.0

    def observe(self) -> Observation:
        machines = np.zeros((1, 1, 3), dtype=np.float32)
        machines[0, 0, 1:] = 1.0 if self.time % 2 == 0 else 0.0
        return _observation(machines, np.full((2, 1, 2), 0.5, dtype=np.float32), 0)


def random_observation(random: np.random.Generator, shape: ObservationShape) -> Observation:
    """Return an observation of random numbers; jobs on a machine are whole numbers."""
    arrays = {name: random.random(size).astype("f4") for name, size in shape.arrays(shape.machines).items()}
    arrays["occupied"] = random.integers(0, 3, shape.machines).astype("f4") / 10
    return Observation(**arrays)


def stacked(*observations: Observation) -> dict[str, np.ndarray]:
    """Return observations as arrays by name, (B, …)."""
    return {name: np.stack([getattr(each, name) for each in observations]) for name in Observation._fields}


def _observation(machines: np.ndarray, queue: np.ndarray, time: int) -> Observation:
    return Observation(
        machines=machines,
        occupied=np.full(len(machines), 0.1, dtype=np.float32),
        queue=queue,
        waited=np.zeros(2, dtype=np.float32),
        backlog=np.array([time / 60], dtype=np.float32),
        arrivals=np.ones(2, dtype=np.float32),
    )
