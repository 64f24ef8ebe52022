"""The figures of an episode ([4], "Evaluations")."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from cluster.learning.episode import NOT_PLACED, PARTS, Episode
from plb.array_types import Float

ROUNDING = 1e-9
"""Largest usage beyond capacity that does not count."""
UTILISATION = "utilisation_"
"""Prefix of the names of the utilisations of single resources."""


@attrs.frozen
class LearningFigure:
    """The description of a figure."""

    heading: str
    """Heading of its column in a table."""
    meaning: str
    """What the figure measures, with its unit."""
    less_is_better: bool | None
    """None: neither less nor more is better."""


LESS, MORE = True, False
"""Values of `LearningFigure.less_is_better`."""
FIGURES: Mapping[str, LearningFigure] = {
    "reward": LearningFigure("reward", "sum of the rewards", MORE),
    "over_use": LearningFigure("over-use", "usage beyond capacity, in machines, mean over steps", LESS),
    "overloaded": LearningFigure("overloaded", "share of steps of used machines with over-use", LESS),
    "machines": LearningFigure("machines", "machines with a job, mean over steps", LESS),
    "most_machines": LearningFigure("most machines", "machines with a job, the most at a time", LESS),
    "utilisation": LearningFigure("utilisation", "usage of used machines, at most 1, mean", MORE),
    "fragmentation": LearningFigure(
        "fragmentation", "share of the free capacity that is not on the freest machine", LESS
    ),
    "wait": LearningFigure("wait", "steps from arrival to placement, mean over jobs", LESS),
    "unplaced": LearningFigure("unplaced", "jobs that were not placed", LESS),
    "penalty_contention": LearningFigure("contention", "penalty for contention, weighted sum", LESS),
    "penalty_over_use": LearningFigure("over-use penalty", "penalty for over-use, weighted sum", LESS),
    "penalty_wait": LearningFigure("wait penalty", "penalty for waiting, weighted sum", LESS),
    "penalty_under_use": LearningFigure("under-use", "penalty for under-use, weighted sum", LESS),
    "steps": LearningFigure("steps", "steps from the first arrival to the end", None),
}
"""The figures of every episode, by name, without the utilisations of the single resources."""


def figure(name: str) -> LearningFigure:
    """Return the description of the figure called `name`, also of the utilisation of a single resource."""
    if name in FIGURES or not name.startswith(UTILISATION):
        return FIGURES[name]
    resource = name.removeprefix(UTILISATION)
    return LearningFigure(resource, f"usage of {resource} of used machines, at most 1, mean", MORE)


def figures(episode: Episode) -> dict[str, float]:
    """Return the figures of an episode by name, in the order of `FIGURES`; the resources' utilisations come last.

    Steps count from the first arrival to the end. A mean without values is 0. Utilisation is a mean over pairs of a
    step and a machine with a job in it, and over resources. A job that was never placed counts as waiting until the
    end.
    """
    states = episode.states()
    usage, _, jobs, queue = states
    is_used = jobs > 0
    excess = np.maximum(usage - 1.0, 0.0)
    penalties = episode.penalties.of(states).sum(axis=1)
    utilisations = [_mean(np.minimum(resource_usage, 1.0)[is_used]) for resource_usage in usage.swapaxes(0, 1)]
    used_machines = is_used.sum(axis=0)
    arrival = episode.jobs.arrival
    placed_at = np.where(episode.placed == NOT_PLACED, episode.time, episode.placed)
    values = {
        "reward": -float(penalties.sum()),
        "over_use": _mean(excess.sum(axis=(0, 1))),
        "overloaded": _mean((excess.max(axis=1) > ROUNDING)[is_used]),
        "machines": _mean(used_machines),
        "most_machines": float(used_machines.max(initial=0)),
        "utilisation": float(np.mean(utilisations)),
        "fragmentation": fragmentation(usage),
        "wait": _mean((placed_at - arrival)[arrival <= episode.time]),
        "unplaced": float((episode.placed == NOT_PLACED).sum()),
        **{f"penalty_{part}": float(sum_) for part, sum_ in zip(PARTS, penalties, strict=True)},
        "steps": float(len(queue)),
    }
    resources = zip(episode.dimensions.resources, utilisations, strict=True)
    return values | {f"{UTILISATION}{resource}": mean for resource, mean in resources}


def fragmentation(usage: Float) -> float:
    """Return the average fragmentation of free capacity, mean over resources ([4], "Evaluations – Fragmentation").

    `usage`: (M, D, S). It is 1 - (1/T) Σ_t (free capacity of the freest machine) / (free capacity of all), over the T
    steps with free capacity. [4] calls this an average and prints it without 1/T.
    """
    free = np.maximum(1.0 - usage, 0.0)
    total, largest = free.sum(axis=0), free.max(axis=0, initial=0.0)
    shares = [
        largest[resource, has_free] / total[resource, has_free] for resource, has_free in enumerate(total > ROUNDING)
    ]
    return float(np.mean([1.0 - share.mean() if len(share) else 0.0 for share in shares]))


def _mean(values: npt.NDArray[Any]) -> float:
    """Return the mean of all values; 0 without any."""
    return float(values.mean()) if values.size else 0.0
