"""One episode: jobs arrive, wait, are placed one after another, and run ([4], "Solution - Workflow").

Time is divided into steps. Arriving jobs join the end of a queue. Only the head of the queue can be placed: it then
runs from the present step to its end on the chosen machine. Usage of machines beyond their capacity reduces the reward
and has no other effect.

- While jobs wait, each decision places the head on a machine, or waits. A step ends when the decision is to wait, or
  when the queue is empty.
- The reward of a step is minus the sum of four weighted penalties at its end ([4], "Reward Function - Art of
  Penalizing"). Steps without waiting jobs need no decision.
- The episode ends when all jobs have arrived, been placed and finished, or is truncated at its last step.

Shapes: M machines, D resources, N jobs, S steps, P, H, Q and A as in `plb.learning.placement_game`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import attrs
import numpy as np

from cluster.learning.jobs import RESOURCES, JobArrays, JobSequence, job_arrays, resource_conflicts
from cluster.scenario.sections import Section, count, number
from plb.array_types import Float, Int
from plb.errors import ConflictError, InvalidValueError, PlbError
from plb.learning.placement_game import WAIT, Observation, ObservationShape
from plb.validation import check_count

MOST_CELLS = 2**28
"""Largest number of values in one array of an episode, 2 GiB: machines or jobs, by resources, by steps."""
NOT_PLACED = -1
"""Machine, and step of the placement, of a job that is not placed."""
HORIZONS = 4
"""Horizons from the last arrival to the truncation of an episode."""
TENTH = 10
"""Divisor of the number of jobs on a machine in observations."""
PARTS = ("contention", "over_use", "wait", "under_use")
"""The penalties, in the order of the rows of `Penalties.of`."""


@attrs.frozen(kw_only=True)
class Dimensions(Section):
    """The dimensions of an episode and of its observations."""

    machines: int = count(10, low=1, high=10_000)
    """M, number of machines. They are identical, with capacity 1 of each resource."""
    resources: tuple[str, ...] = RESOURCES
    """Names of the D resources."""
    horizon: int = count(20, low=1, high=10_000)
    """H, observed steps of the future. No job is longer."""
    past: int = count(5, high=10_000)
    """P, observed steps of the past."""
    visible: int = count(5, low=1, high=10_000)
    """Q, jobs of the queue that are observed with their usage."""
    arrivals: int = count(10, low=1, high=10_000)
    """A, steps of the arrival pattern."""

    @classmethod
    def conflicts(cls, values: Mapping[str, Any]) -> Iterator[tuple[str, PlbError]]:
        """Yield field and error for invalid names of resources."""
        yield from resource_conflicts("dimensions", values)

    @property
    def shape(self) -> ObservationShape:
        """Dimensions of an observation."""
        return ObservationShape(**{**attrs.asdict(self), "resources": len(self.resources)})


class RewardState(NamedTuple):
    """The usage of machines by jobs, and the queue, over some steps."""

    usage: Float
    """Σu, total usage of the jobs on each machine, (M, D, S)."""
    squares: Float
    """Σu² over the same jobs, (M, D, S)."""
    jobs: Int
    """Number of jobs on each machine, (M, S)."""
    queue: Int
    """Number of waiting jobs, (S,)."""


def contention(usage: Float, squares: Float) -> Float:
    """Return Σ u_i·u_j over the pairs of jobs on a machine and over resources, by machine and step, (M, S).

    `usage`, `squares`: as in `RewardState`. The sum over the steps is Cr(i, j, d) of [4], but with both jobs at the
    times at which they run; in [4] both start at time 0. The sum over pairs is ((Σu)² - Σu²) / 2.
    """
    return np.asarray((usage * usage - squares).sum(axis=1)) / 2.0


def over_use(usage: Float) -> Float:
    """Return the usage, (M, D, S), of machines beyond their capacity, summed over resources, (M, S)."""
    return np.asarray(np.maximum(usage - 1.0, 0.0).sum(axis=1))


def under_use(usage: Float, jobs: Int) -> Float:
    """Return the unused capacity of machines with a job, summed over resources, (M, S); 0 without a job.

    `usage`, `jobs`: as in `RewardState`.
    """
    return np.asarray(np.maximum(1.0 - usage, 0.0).sum(axis=1)) * (jobs > 0)


@attrs.frozen(kw_only=True)
class Penalties(Section):
    """Weights of the penalties, of which [4] gives none.

    All are subtracted, although [4] prints contention and under-use with a plus sign.
    """

    contention: float = number(0.25, high=1e6)
    """C, for the product of the usage of a resource by two jobs on one machine in the same step."""
    over_use: float = number(4.0, high=1e6)
    """K, for usage beyond the capacity of a machine."""
    wait: float = number(0.25, high=1e6)
    """W, for each waiting job, also beyond the visible queue."""
    under_use: float = number(0.25, high=1e6)
    """U, for unused capacity of machines with a job."""

    def of(self, state: RewardState) -> Float:
        """Return the weighted penalties, at least 0, by part and step: (4, S), in the order of `PARTS`."""
        parts: Float = np.empty((len(PARTS), len(state.queue)))
        parts[0] = self.contention * contention(state.usage, state.squares).sum(axis=0)
        parts[1] = self.over_use * over_use(state.usage).sum(axis=0)
        parts[2] = self.wait * state.queue
        parts[3] = self.under_use * under_use(state.usage, state.jobs).sum(axis=0)
        return parts

    def of_machines(self, usage: Float, squares: Float, jobs: Int) -> Float:
        """Return the weighted penalties of each machine except for waiting, summed over the steps, (M,).

        `usage`, total usage by jobs, and `squares`, of its squares, are (M, D, S); `jobs`, their number, is (M, S).
        """
        penalties = self.contention * contention(usage, squares)
        penalties += self.over_use * over_use(usage)
        penalties += self.under_use * under_use(usage, jobs)
        return np.asarray(penalties.sum(axis=1))


class Episode:
    """An episode of a sequence of jobs, which begins with empty machines in the step of the first arrival.

    It is truncated in step `longest_steps`, so that it also ends for a policy that always waits; None: four horizons
    after the last arrival.
    """

    machine: Int
    """Machine of each job, (N,); `NOT_PLACED` for jobs that are not placed."""
    placed: Int
    """Step of the placement of each job, (N,), or `NOT_PLACED`."""

    def __init__(
        self,
        sequence: JobSequence,
        dimensions: Dimensions | None = None,
        penalties: Penalties | None = None,
        *,
        longest_steps: int | None = None,
    ) -> None:
        """Begin in the step of the first arrival; `longest_steps`: where it is truncated, None: some horizons later."""
        self.dimensions = Dimensions() if dimensions is None else dimensions
        self.penalties = Penalties() if penalties is None else penalties
        self.name, self.jobs = sequence.name, self._arrays(sequence)
        self._arrival: list[int] = self.jobs.arrival.tolist()
        """Step of the arrival of each job."""
        self._steps: list[int] = self.jobs.steps.tolist()
        """Duration of each job."""
        self.time: int = self._arrival[0]
        """The present step."""
        self.last_step = self._last_step(longest_steps)
        """The step in which the episode is truncated."""
        self.truncated = self.over = False
        """Whether the episode was truncated, and whether it has ended, truncated or not."""
        self.decisions = self.head = 0
        """Number of decisions so far, and index of the first job of the queue."""
        self._arrived = self._end = 0
        """Number of jobs that have arrived, and the step in which the last placed job ends."""
        self._allocate()
        self._arrive()

    def _arrays(self, sequence: JobSequence) -> JobArrays:
        """Return the jobs as arrays; raise an error if they have other resources than the machines."""
        resources = len(self.dimensions.resources)
        if sequence.resources != resources:
            item, allowed = f"job sequence {sequence.name!r}", f"{resources}, as the machines have"
            raise InvalidValueError(item, "resources", sequence.resources, allowed)
        return job_arrays(sequence, self.dimensions.horizon)

    def _last_step(self, longest_steps: int | None) -> int:
        """Return the step of the truncation; raise an error if no step is before it, or its arrays are too large."""
        dimensions, first_step = self.dimensions, self.time
        if longest_steps is None:
            last_step = self._arrival[-1] + HORIZONS * dimensions.horizon
        else:
            last_step = check_count("episode", "longest_steps", longest_steps, low=1, high=2_000_000)
        if last_step <= first_step:
            allowed = f"more than {first_step}, the step in which the first job arrives"
            raise InvalidValueError("episode", "longest_steps", last_step, allowed)
        most_steps = (
            MOST_CELLS // (dimensions.machines * len(dimensions.resources)) - dimensions.past - dimensions.horizon
        )
        if last_step > most_steps:
            allowed = f"at most {most_steps}, with {dimensions.machines} machines"
            raise InvalidValueError(f"job sequence {self.name!r}", "last step", last_step, allowed)
        return last_step

    def _allocate(self) -> None:
        """Make the arrays of an episode in which no job is placed; usage has `dimensions.past` steps before step 0."""
        dimensions, jobs = self.dimensions, self.jobs
        steps = dimensions.past + self.last_step + dimensions.horizon
        self._usage = np.zeros((dimensions.machines, len(dimensions.resources), steps))
        self._squares = np.zeros_like(self._usage)
        self._count = np.zeros((dimensions.machines, steps), np.int64)
        self._queue = np.zeros(self.last_step, np.int64)
        self._profiles = jobs.usage.astype(np.float32)
        arriving = np.bincount(jobs.arrival, minlength=self.last_step + 1) / dimensions.machines
        self._arriving = np.concatenate([np.zeros(dimensions.arrivals - 1), arriving]).astype(np.float32)
        self.machine = np.full(len(jobs.steps), NOT_PLACED, np.int64)
        self.placed = np.full(len(jobs.steps), NOT_PLACED, np.int64)

    def _arrive(self) -> None:
        """Add the jobs that have arrived to the queue."""
        while self._arrived < len(self._arrival) and self._arrival[self._arrived] <= self.time:
            self._arrived += 1

    @property
    def queue(self) -> int:
        """Number of waiting jobs; the first waiting job is `head`."""
        return self._arrived - self.head

    @property
    def usage(self) -> Float:
        """Usage of each machine in the present step by the jobs placed so far, (M, D)."""
        return self._usage[:, :, self.dimensions.past + self.time]

    def upcoming(self, steps: int) -> RewardState:
        """Return the state of the next `steps` steps, from the present on, without further placements and queue."""
        now = self.dimensions.past + self.time
        window = slice(now, now + check_count("episode", "steps", steps, low=1, high=self.dimensions.horizon))
        return RewardState(
            usage=self._usage[:, :, window].copy(),
            squares=self._squares[:, :, window].copy(),
            jobs=self._count[:, window].copy(),
            queue=np.zeros(steps, np.int64),
        )

    def running(self) -> Int:
        """Return the indices of the jobs that are on a machine now."""
        placed_at = self.placed[: self.head]
        return np.flatnonzero(placed_at + self.jobs.steps[: self.head] > self.time)

    def decide(self, action: int) -> float:
        """Wait, or place the head of the queue on a machine; return the reward until the next decision.

        `action`: `WAIT`, or the machine + 1.
        """
        if self.over:
            raise ConflictError("the episode is over; begin another")
        action = check_count("decision", "action", action, high=self.dimensions.machines)
        self.decisions += 1
        if action == WAIT:
            return self._move_on(self.time + 1)
        self._place(action - 1)
        if self.queue:
            return 0.0
        return self._move_on(self._end if self.head == len(self._arrival) else self._arrival[self.head])

    def _place(self, machine: int) -> None:
        """Place the head of the queue on a machine, from the present step on."""
        job, step, steps = self.head, self.time, self._steps[self.head]
        first = self.dimensions.past + step
        window, usage = slice(first, first + steps), self.jobs.usage[job, :, :steps]
        self._usage[machine, :, window] += usage
        self._squares[machine, :, window] += usage * usage
        self._count[machine, window] += 1
        self.machine[job], self.placed[job] = machine, step
        self._end = max(self._end, step + steps)
        self.head += 1

    def _move_on(self, until: int) -> float:
        """End the steps before `until`, in which nothing is decided, and return the sum of their rewards."""
        until = min(until, self.last_step)
        self._queue[self.time : until] = self.queue
        reward = -float(self.penalties.of(self._states(self.time, until)).sum())
        self.time = until
        self._arrive()
        finished = self.head == len(self._arrival) and until >= self._end
        self.truncated = until == self.last_step and not finished
        self.over = finished or self.truncated
        return reward

    def states(self) -> RewardState:
        """Return usage and queue in each step, from the first arrival to the present step."""
        return self._states(self._arrival[0], self.time)

    def _states(self, begin: int, end: int) -> RewardState:
        """Return views of usage and queue in the steps from `begin` to before `end`."""
        past = self.dimensions.past
        steps = slice(past + begin, past + end)
        return RewardState(
            usage=self._usage[:, :, steps],
            squares=self._squares[:, :, steps],
            jobs=self._count[:, steps],
            queue=self._queue[begin:end],
        )

    def observe(self) -> Observation:
        """Return the present observation, in new arrays."""
        dimensions, step, head = self.dimensions, self.time, self.head
        visible_jobs = min(self.queue, dimensions.visible)
        queue = np.zeros((dimensions.visible, len(dimensions.resources), dimensions.horizon), np.float32)
        queue[:visible_jobs] = self._profiles[head : head + visible_jobs]
        waited = np.zeros(dimensions.visible, np.float32)
        waited[:visible_jobs] = (step - self.jobs.arrival[head : head + visible_jobs]) / dimensions.horizon
        return Observation(
            machines=self._usage[:, :, step : step + dimensions.past + dimensions.horizon].astype(np.float32),
            occupied=(self._count[:, dimensions.past + step] / TENTH).astype(np.float32),
            queue=queue,
            waited=waited,
            backlog=np.array([(self.queue - visible_jobs) / dimensions.machines], np.float32),
            arrivals=self._arriving[step : step + dimensions.arrivals].copy(),
        )
