"""Small games with known best policies, and a cheap game as large as the real one."""

from __future__ import annotations

import attrs
import numpy as np

from plb.learning.placement_game import WAIT, Observation, ObservationShape

SMALL = ObservationShape(machines=3, resources=1, past=1, horizon=2, visible=2, arrivals=2)
LARGE = ObservationShape(machines=10, resources=2, past=5, horizon=20, visible=5, arrivals=10)


@attrs.define
class EmptierMachine:
    """Each step has a job of 0.6 and new usages; the job fits only on the emptiest machine; waiting costs 1."""

    steps: int = 8
    machines: int = 3
    time: int = attrs.field(default=0, init=False)
    _usage: np.ndarray = attrs.field(init=False, default=None)
    _random: np.random.Generator = attrs.field(init=False, default=None)

    @property
    def shape(self) -> ObservationShape:
        """Shape of its observations."""
        return attrs.evolve(SMALL, machines=self.machines)

    def reset(self, seed: int) -> Observation:
        """Start the game."""
        self.time = 0
        self._random = np.random.default_rng(seed)
        return self._observation()

    def step(self, action: int) -> tuple[Observation, float, bool]:
        """Apply an action."""
        good = action != WAIT and action - 1 == self.best
        self.time += 1
        return self._observation(), 0.0 if good else -1.0, self.time == self.steps

    @property
    def best(self) -> int:
        """Index of the emptiest machine."""
        return int(self._usage.argmin())

    def _observation(self) -> Observation:
        self._usage = self._random.permutation(np.linspace(0.2, 0.9, self.machines))
        machines = np.zeros((self.machines, 1, 3), dtype=np.float32)
        machines[:, 0, 1:] = self._usage[:, np.newaxis]
        queue = np.zeros((2, 1, 2), dtype=np.float32)
        queue[0] = 0.6
        return _observation(machines, queue, self.time)


@attrs.define
class WaitingPays:
    """One machine is full in even steps and free in odd ones: a job placed on a full machine costs 1."""

    steps: int = 8
    time: int = attrs.field(default=0, init=False)

    @property
    def shape(self) -> ObservationShape:
        """Shape of its observations."""
        return attrs.evolve(SMALL, machines=1)

    def reset(self, seed: int) -> Observation:
        """Start the game; all games are equal."""
        del seed
        self.time = 0
        return self._observation()

    def step(self, action: int) -> tuple[Observation, float, bool]:
        """Apply an action."""
        full = self.time % 2 == 0
        reward = -0.5 if action == WAIT and not full else -1.0 if action != WAIT and full else 0.0
        self.time += 1
        return self._observation(), reward, self.time == self.steps

    def _observation(self) -> Observation:
        machines = np.zeros((1, 1, 3), dtype=np.float32)
        machines[0, 0, 1:] = 1.0 if self.time % 2 == 0 else 0.0
        return _observation(machines, np.full((2, 1, 2), 0.5, dtype=np.float32), 0)


@attrs.define
class Cheap:
    """A game as large as a real one without content, to measure speed."""

    decisions: int = 100
    shape: ObservationShape = LARGE
    time: int = attrs.field(default=0, init=False)
    _seen: list[Observation] = attrs.field(init=False, factory=list)

    def reset(self, seed: int) -> Observation:
        """Start the game."""
        self.time = 0
        random = np.random.default_rng(seed)
        self._seen = [random_observation(random, self.shape) for _ in range(8)]
        return self._seen[0]

    def step(self, action: int) -> tuple[Observation, float, bool]:
        """Apply an action."""
        self.time += 1
        return self._seen[self.time % 8], -float(action), self.time == self.decisions


def random_observation(random: np.random.Generator, shape: ObservationShape) -> Observation:
    """Return an observation of random numbers."""
    one = shape
    arrays = (
        random.random((one.machines, one.resources, one.past + one.horizon)),
        random.integers(0, 3, one.machines) / 10,
        random.random((one.visible, one.resources, one.horizon)),
        random.random(one.visible),
        random.random(1),
        random.random(one.arrivals),
    )
    return Observation(*(array.astype(np.float32) for array in arrays))


def _observation(machines: np.ndarray, queue: np.ndarray, time: int) -> Observation:
    return Observation(
        machines=machines,
        occupied=np.full(len(machines), 0.1, dtype=np.float32),
        queue=queue,
        waited=np.zeros(2, dtype=np.float32),
        backlog=np.array([time / 60], dtype=np.float32),
        arrivals=np.ones(2, dtype=np.float32),
    )


def weights_of(network):
    """Return copies of a network's weights by name."""
    return {name: value.numpy().copy() for name, value in network.state_dict().items()}
