"""The number of machines for tasks whose usage varies: packing by `plb.risk.gaussian`, see docs/gaussian.md.

Run it with `.venv/bin/python examples/colocation.py`.
"""

import numpy as np

from plb.risk.gaussian import (
    GPA,
    PERCENTS,
    Fit,
    Machines,
    MeanTimes,
    Percentile,
    Total,
    normalised_machines,
    observe,
    overload_by_machine,
    pack,
)

CAPACITY = 400.0
"""Percent of a CPU: a machine of four cores."""


def usage() -> np.ndarray:
    """Return 1,000 tasks × 2,000 realisations, in percent of a CPU.

    Most tasks are small, and all are idle most of the time.
    """
    rng = np.random.default_rng(1)
    scale = rng.lognormal(2.5, 0.8, (1000, 1))
    return np.minimum(np.rint(rng.gamma(0.5, scale, (1000, 2000))), 100.0)


def main() -> None:
    """Pack all tasks with three tests, place one more, and compute the frequency of overload."""
    realisations = usage()
    known = observe(realisations, PERCENTS)
    for test in (MeanTimes(1.0), GPA(0.05), Percentile(100.0)):
        packing = pack(known, capacity=CAPACITY, test=test)
        overload = overload_by_machine(packing, realisations, capacity=CAPACITY).mean()
        m = normalised_machines(packing.machines, known.mean, capacity=CAPACITY)
        print(f"{test.name:8} {packing.machines:3} machines, {m:.2f} by the lower bound; overload {overload:.4f}")

    gpa = GPA(0.05)
    demands = gpa.demands(known)
    machines = Machines(CAPACITY, gpa, Fit.FIRST)
    for size, variance in zip(demands.size[:100], demands.variance[:100], strict=True):
        machines.place(size, variance)
    print("the next task fits on", machines.fits(demands.size[100], demands.variance[100]).tolist())

    total = Total.of_independent(known.mean[:40], known.variance[:40])
    print(f"forty tasks reach 400 % with a probability of {total.probability_of_reaching(CAPACITY)[0]:.4f}")
    print(f"and stay below {total.percentile(0.99)[0]:.0f} % for 99 % of the time")


if __name__ == "__main__":
    main()
