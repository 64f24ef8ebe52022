"""Compiles every kernel in advance, so that later processes do not wait: `plb warmup`.

The work is divided into tasks, each with a tiny engine or instance, which run in as many processes as there are
cores. Each process finds the kernels of the others on disk, and none compiles a kernel that another one is compiling
(`plb.compiler.cache`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import attrs

from cluster.runs.sweep import Task, TaskOutcome, outcomes
from cluster.warmup.compilations import noted
from cluster.warmup.tasks import (
    balance,
    change_terms,
    evict,
    go_by_samples,
    hand_over_and_drop,
    place_beside_others,
    place_new_replicas,
    place_one_at_a_time,
    plan_by_reports,
    plan_with_extension_terms,
    predict_a_machine,
    predict_peaks,
    provision_anew,
    provision_as_in_the_paper,
    provision_as_released,
    provision_by_search,
    repair,
    replay_past_tenants,
)

PROVISIONING: Mapping[str, Callable[[], None]] = {
    "provisioning as in the paper": provision_as_in_the_paper,
    "provisioning by search": provision_by_search,
    "provisioning anew": provision_anew,
    "provisioning as released": provision_as_released,
}
TASKS: Mapping[str, Callable[[], None]] = {
    "placement": place_new_replicas,
    **PROVISIONING,
    "repair": repair,
    "peak predictions": predict_peaks,
    "extension terms": plan_with_extension_terms,
    "energy terms": change_terms,
    "placement policies": place_one_at_a_time,
    "evictions for new replicas": evict,
    "peaks of a machine": predict_a_machine,
    "placement with affinity": place_beside_others,
    "risk from past tenants": replay_past_tenants,
    "estimators": plan_by_reports,
    "upgrades": hand_over_and_drop,
    "risk by samples": go_by_samples,
    "balancing": balance,
}
"""The longest first, so that processes finish at about the same time. The first ones compile what tasks share."""


@attrs.frozen
class Warmed:
    """The result of a task.

    Parameters
    ----------
    task
        Name of the task.
    seconds
        From its beginning to its end.
    kernels
        What it compiled: names, and seconds until the next one began.
    warnings
        What the engine warned of meanwhile.
    error
        The traceback, if it failed.
    """

    task: str
    seconds: float = 0.0
    kernels: Sequence[tuple[str, float]] = ()
    warnings: Sequence[str] = ()
    error: str | None = None

    @classmethod
    def of(cls, outcome: TaskOutcome) -> Warmed:
        """Return the result of a task from that of its process."""
        return cls(outcome.key, **(outcome.values or {}), error=outcome.error)


def warm_up(jobs: int | None = None) -> Iterator[Warmed]:
    """Compile every kernel that is not on disk, and yield the result of each task as it ends.

    Parameters
    ----------
    jobs
        Number of processes; None: one for each core. 1: this process.

    Raises
    ------
    PlbError
        A process ended unexpectedly.
    """
    tasks = [Task(name, {"task": name}) for name in TASKS]
    return map(Warmed.of, outcomes(_do, tasks, jobs=jobs))


def warm_up_provisioning() -> None:
    """Compile every kernel of provisioning, in this process."""
    for task in PROVISIONING.values():
        task()


def _do(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Run a task; return the fields of `Warmed` that a process has."""
    begun = time.perf_counter()
    with noted() as compilations:
        TASKS[arguments["task"]]()
    seconds = time.perf_counter() - begun
    return {"seconds": seconds, "kernels": compilations.kernels(), "warnings": compilations.warnings}
