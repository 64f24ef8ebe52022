"""The rules of an episode in plain Python, one time step after another, as a reference."""

from __future__ import annotations

from cluster.learning.episode import Dimensions, Penalties
from cluster.learning.jobs import JobSequence


class NaiveJob:
    """A job, with the machine and the step of its placement."""

    def __init__(self, arrival: int, usage: list[list[float]]) -> None:
        self.arrival, self.usage = arrival, usage
        self.machine: int | None = None
        self.placed = 0

    def uses(self, step: int, resource: int) -> float:
        place = step - self.placed
        return self.usage[place][resource] if 0 <= place < len(self.usage) else 0.0

    def runs(self, step: int) -> bool:
        return self.machine is not None and self.placed <= step < self.placed + len(self.usage)


class NaiveEpisode:
    """An episode that goes through every step."""

    def __init__(self, sizes: Dimensions, weights: Penalties, sequence: JobSequence, longest: int | None) -> None:
        self.sizes, self.weights = sizes, weights
        self.jobs = [NaiveJob(job.arrival, job.usage.tolist()) for job in sequence.jobs]
        self.longest = self.jobs[-1].arrival + 4 * sizes.horizon if longest is None else longest
        self.queue: list[NaiveJob] = []
        self.time = 0
        self.over = self.truncated = False
        self.log: list[dict[str, float]] = []
        self._arrive()
        while not self.queue and not self.over:
            self._end_step()

    def _arrive(self) -> None:
        self.queue += [job for job in self.jobs if job.arrival == self.time]

    def decide(self, action: int) -> float:
        if action:
            job = self.queue.pop(0)
            job.machine, job.placed = action - 1, self.time
            if self.queue:
                return 0.0
        reward = self._end_step()
        while not self.queue and not self.over:
            reward += self._end_step()
        return reward

    def _end_step(self) -> float:
        """Count the penalties of the step, advance the time, and return the reward."""
        if self.time == self.longest:
            self.over = self.truncated = True
            return 0.0
        parts = self.penalties()
        self.log.append(parts)
        self.time += 1
        self._arrive()
        if all(job.machine is not None and not job.runs(self.time) for job in self.jobs):
            self.over = True
        elif self.time == self.longest:
            self.over = self.truncated = True
        return -sum(parts.values())

    def on(self, machine: int) -> list[NaiveJob]:
        return [job for job in self.jobs if job.machine == machine and job.runs(self.time)]

    def penalties(self) -> dict[str, float]:
        contention = over = under = 0.0
        for machine in range(self.sizes.machines):
            placed = self.on(machine)
            for resource in range(len(self.sizes.resources)):
                used = [job.uses(self.time, resource) for job in placed]
                contention += sum(one * other for i, one in enumerate(used) for other in used[i + 1 :])
                over += max(0.0, sum(used) - 1.0)
                under += max(0.0, 1.0 - sum(used)) if placed else 0.0
        return {
            "contention": self.weights.contention * contention,
            "over_use": self.weights.over_use * over,
            "wait": self.weights.wait * len(self.queue),
            "under_use": self.weights.under_use * under,
        }

    def observe(self) -> dict[str, list]:
        sizes, now = self.sizes, self.time
        resources = range(len(sizes.resources))
        placed = [job for job in self.jobs if job.machine is not None]
        machines = [
            [
                [
                    sum(job.uses(step, resource) for job in placed if job.machine == machine)
                    for step in range(now - sizes.past, now + sizes.horizon)
                ]
                for resource in resources
            ]
            for machine in range(sizes.machines)
        ]
        shown = self.queue[: sizes.visible]
        nothing = [[0.0] * sizes.horizon for _ in resources]
        profiles = [
            [
                [job.usage[step][resource] if step < len(job.usage) else 0.0 for step in range(sizes.horizon)]
                for resource in resources
            ]
            for job in shown
        ]
        empty = sizes.visible - len(shown)
        return {
            "machines": machines,
            "occupied": [len(self.on(machine)) / 10 for machine in range(sizes.machines)],
            "queue": profiles + [nothing] * empty,
            "waited": [(now - job.arrival) / sizes.horizon for job in shown] + [0.0] * empty,
            "backlog": [(len(self.queue) - len(shown)) / sizes.machines],
            "arrivals": [
                sum(job.arrival == step for job in self.jobs) / sizes.machines
                for step in range(now - sizes.arrivals + 1, now + 1)
            ],
        }
