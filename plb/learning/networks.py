"""The networks that compute a policy: observations in, one logit an action out ([4], "Policy Network").

B observations at once, M machines, D resources, P past and H coming steps, Q visible jobs, A steps of arrivals.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from plb.array_types import Float32
from plb.errors import MissingExtraError
from plb.learning.placement_game import ObservationShape
from plb.learning.settings import IMAGE, TrainingSettings

try:
    import torch
except ModuleNotFoundError as error:
    raise MissingExtraError("torch") from error

__all__ = ["Batch", "StateDict", "batch_of", "empty_network", "first_weights", "one_thread", "torch"]

StateDict = dict[str, torch.Tensor]
"""Weights by name."""

SMALL = 0.01
"""Scale of the first weights of the last layers: the first policy takes all actions with similar probability."""
SUMMARIES = 9
"""How many single numbers summarise a machine with the next job placed on it, over resources and coming steps."""


class Batch(NamedTuple):
    """An `Observation` as tensors, each with a leading axis, (B, …)."""

    machines: torch.Tensor
    occupied: torch.Tensor
    queue: torch.Tensor
    waited: torch.Tensor
    backlog: torch.Tensor
    arrivals: torch.Tensor
    """Each as in `plb.learning.placement_game.Observation`, with the axis B first."""


def batch_of(observations: Mapping[str, Float32]) -> Batch:
    """Return observations, arrays by name with a leading axis of B, as tensors that share their memory."""
    return Batch(**{name: torch.from_numpy(array) for name, array in observations.items()})


@contextmanager
def one_thread() -> Iterator[None]:
    """Let PyTorch compute with one thread in the block: sums have one order, and workers do not share processors."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class ImageNetwork(torch.nn.Module):
    """A deep network over the whole state, as in [4]; it is made for one number of machines.

    `hidden`: width of its hidden layers.
    """

    def __init__(self, shape: ObservationShape, hidden: int) -> None:
        super().__init__()
        machines = shape.machines * (1 + shape.resources * (shape.past + shape.horizon))
        queue = shape.visible * (1 + shape.resources * shape.horizon)
        self.first = torch.nn.Linear(machines + queue + 1 + shape.arrivals, hidden)
        self.second = torch.nn.Linear(hidden, hidden)
        self.last = torch.nn.Linear(hidden, 1 + shape.machines)

    def forward(self, batch: Batch) -> torch.Tensor:
        """Return the logit of each action for B observations, (B, 1 + M): waiting, then each of M machines."""
        state = torch.cat([part.flatten(1) for part in batch], dim=1)
        return self.last(torch.relu(self.second(torch.relu(self.first(state)))))


class MachineScorer(torch.nn.Module):
    """A small network that scores each machine for the next job; the same weights apply to any number of machines.

    The input of a machine are its curves, its curves with the next job, and the mean and maximum over all machines;
    waiting is scored by these and the queue. A relabelling of the machines relabels the scores. `hidden`: width of its
    hidden layers.
    """

    def __init__(self, shape: ObservationShape, hidden: int) -> None:
        super().__init__()
        curve = shape.resources * shape.horizon
        self.past = shape.past
        self.own = torch.nn.Linear(3 * curve + shape.resources * shape.past + SUMMARIES, hidden)
        self.context = torch.nn.Linear(2 * curve + 2 + shape.visible + shape.arrivals, hidden)
        self.embedding = torch.nn.Linear(hidden, hidden)
        self.pooled = torch.nn.Linear(3 * hidden, hidden)
        self.again = torch.nn.Linear(hidden, hidden)
        self.beside = torch.nn.Linear(hidden, hidden)
        self.last_machine = torch.nn.Linear(hidden, 1)
        self.last_direct = torch.nn.Linear(SUMMARIES, 1)
        self.last_wait = torch.nn.Linear(hidden, 1)

    def forward(self, batch: Batch) -> torch.Tensor:
        """Return the logit of each action for B observations, (B, 1 + M): waiting, then each of M machines."""
        curves, summaries = self._machine_inputs(batch)
        context = self.context(_context_inputs(batch))
        own = torch.relu(self.own(torch.cat([curves, summaries], dim=2)) + context.unsqueeze(1))
        machines = torch.relu(self.embedding(own))
        everything = torch.cat([torch.relu(context), machines.mean(dim=1), machines.amax(dim=1)], dim=1)
        pooled = torch.relu(self.pooled(everything))
        again = torch.relu(self.again(machines) + self.beside(pooled).unsqueeze(1))
        scores = (self.last_machine(again) + self.last_direct(summaries)).squeeze(2)
        return torch.cat([self.last_wait(pooled), scores], dim=1)

    def _machine_inputs(self, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        """Return curves, (B, M, …), and summaries, (B, M, SUMMARIES), of each machine with the next job on it."""
        usage = batch.machines[..., self.past :]
        job = batch.queue[:, :1]
        resources, horizon = job.shape[2:]
        above = usage - 1.0
        above_with_job = above + job
        excess, free = torch.relu(above_with_job), torch.relu(-above_with_job)
        over_use = excess.sum(dim=(2, 3))
        is_busy = (usage.amax(dim=2) > 0).to(usage.dtype)
        job_runs = (job.amax(dim=2) > 0).to(usage.dtype)
        idle = (torch.relu(-above).sum(dim=2) * is_busy).sum(dim=2)
        idle_with_job = (free.sum(dim=2) * torch.maximum(is_busy, job_runs)).sum(dim=2)
        summaries = [
            (over_use - torch.relu(above).sum(dim=(2, 3))) / resources,  # what the job adds to the over-use
            over_use / resources,
            (usage * job).sum(dim=(2, 3)) / resources,  # contention with the jobs there
            (idle_with_job - idle) / (resources * horizon),  # what the job adds to the under-use
            (job_runs * (1.0 - is_busy)).sum(dim=2) / horizon,  # steps in which it would be the only job
            (free.sum(dim=2) * job_runs).sum(dim=2) / (resources * horizon),  # free capacity with the job
            above_with_job.amax(dim=(2, 3)),  # highest peak
            batch.occupied,
            (batch.occupied == 0).to(usage.dtype),
        ]
        past = batch.machines[..., : self.past]
        curves = torch.cat([part.flatten(2) for part in (past, usage, excess, free)], dim=2)
        return curves, torch.stack(summaries, dim=2)


def _context_inputs(batch: Batch) -> torch.Tensor:
    """Return the inputs that are the same for all machines, (B, …): the next job, the rest of the queue, arrivals."""
    share_waiting = (batch.queue.amax(dim=(2, 3)) > 0).to(batch.queue.dtype).mean(dim=1, keepdim=True)
    rest_of_queue = batch.queue[:, 1:].sum(dim=1) / max(1, batch.queue.shape[1] - 1)
    parts = (batch.queue[:, 0], rest_of_queue, share_waiting, batch.waited, batch.backlog, batch.arrivals)
    return torch.cat([part.flatten(1) for part in parts], dim=1)


def empty_network(settings: TrainingSettings, shape: ObservationShape) -> ImageNetwork | MachineScorer:
    """Return a network without memory for its weights, which `load_state_dict` with ``assign=True`` gives it."""
    kind = ImageNetwork if settings.network == IMAGE else MachineScorer
    with torch.device("meta"):
        return kind(shape, settings.hidden)


def first_weights(network: torch.nn.Module, random: np.random.Generator) -> StateDict:
    """Return initial weights by name: uniform, scaled as by He et al. for ReLU; biases zero, last layers small.

    The direct path from the summaries to the scores starts at zero, because it has few inputs and learns first.
    """
    weights = {}
    for name, value in network.state_dict().items():
        width = math.sqrt(6.0 / value.shape[-1]) * (SMALL if name.startswith("last") else 1.0)
        if value.dim() == 1 or name.startswith("last_direct"):
            width = 0.0
        drawn = random.uniform(-width, width, size=tuple(value.shape))
        weights[name] = torch.from_numpy(drawn.astype(np.float32))
    return weights
