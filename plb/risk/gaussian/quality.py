"""How good a packing is: normalised machines m and frequency of overload q ([2] section 5.1)."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from plb.array_types import Bool, Float
from plb.errors import ConflictError
from plb.risk.gaussian.arrays import check_by_task, check_capacity, check_realisations
from plb.risk.gaussian.packing import GaussianPacking, tasks_by_machine


def overload_by_machine(packing: GaussianPacking, realisations: npt.ArrayLike, *, capacity: npt.ArrayLike) -> Float:
    """Return the share of realisations in which each machine exceeds its capacity, ``q(j)/|E|``; q is the mean.

    With several resources, a machine exceeds its capacity where any resource does. Totals are summed in double
    precision: they are exact for whole numbers, so keep usage in units in which it is whole, such as percent.

    Parameters
    ----------
    packing
        Of the N tasks.
    realisations
        Of the evaluation set, (N, K) or (N, K, R).
    capacity
        Of each machine, (R,) or a number. A total of just this much does not exceed it.

    Returns
    -------
    Array of shape (M,), in [0, 1].
    """
    values = check_realisations(realisations)
    if len(values) != len(packing.machine):
        raise ConflictError(f"realisations: {len(values)} tasks, expected {len(packing.machine)}, as were packed")
    limit = check_capacity(capacity, values.shape[2])
    shares = np.zeros(packing.machines)
    for machine, tasks in enumerate(tasks_by_machine(packing.machine, packing.machines)):
        totals = values[tasks].sum(axis=0, dtype=np.float64)
        exceeds: Bool = (totals > limit).any(axis=1)
        shares[machine] = exceeds.mean()
    return shares


def normalised_machines(machines: int, mean: npt.ArrayLike, *, capacity: npt.ArrayLike) -> float:
    """Return m: the machines by those that would do if all of them were full on average.

    With several resources, the one that needs most machines counts.

    Parameters
    ----------
    machines
        m_abs.
    mean
        Mean usage of each task over all its realisations, (N, R) or (N,).
    capacity
        Of each machine, (R,) or a number.
    """
    means = check_by_task("mean", mean)
    limit = check_capacity(capacity, means.shape[1])
    needed = means.sum(axis=0)
    if np.any((needed > 0) & (limit == 0)):
        raise ConflictError("machine: capacity is 0 for a resource that tasks use")
    full = np.divide(needed, limit, out=np.zeros_like(needed), where=needed > 0)
    return machines / max(1, math.ceil(float(full.max())))
