"""Instances of the ROADEF/EURO challenge 2012, "Google machine reassignment": files, costs and constraints.

Costs and constraints follow the problem statement in plain NumPy, without the engine, so that they check its
results. Source of statement and instances: https://roadef.org/challenge/2012/en/.
"""

from __future__ import annotations

import lzma
from collections.abc import Iterator
from pathlib import Path

import attrs
import numpy as np

from cluster.errors import InstanceFileError
from plb.array_types import Bool, Int

MODEL, ASSIGNMENT = "model_", "assignment_"
ENDINGS = (".txt", ".txt.xz")


@attrs.frozen(eq=False)
class Balance:
    """A balance cost: weight · Σ over machines of max(0, target · free(first) − free(second))."""

    first: int
    second: int
    """Indices of the two resources, whose free capacity is compared."""
    target: int
    """Free units of the second resource for each free unit of the first."""
    weight: int
    """Cost of a missing unit."""


@attrs.frozen(eq=False)
class ReassignmentInstance:
    """An instance of M machines, P processes, S services and R resources."""

    name: str
    """Name of the instance."""
    transient: Bool
    """(R,) whether a moved process uses the resource on both machines."""
    load_weight: Int
    """(R,) cost of a unit above a safety capacity."""
    capacity: Int
    """(M, R) capacity of each machine."""
    safety: Int
    """(M, R) usage of each machine above which its load has a cost."""
    neighbourhood: Int
    """(M,) number of the neighbourhood of each machine."""
    location: Int
    """(M,) number of the location of each machine."""
    machine_cost: Int
    """(M, M) cost of the move of a process from one machine to another machine, before its weight."""
    spread: Int
    """(S,) least number of locations of a service."""
    needs: Int
    """(D, 2) pairs of a service and a service that it needs in the same neighbourhood."""
    service: Int
    """(P,) service of each process."""
    requirement: Int
    """(P, R) usage of each resource by each process."""
    process_cost: Int
    """(P,) cost of the move of a process, before its weight."""
    balances: tuple[Balance, ...]
    """Balance costs."""
    weights: tuple[int, int, int]
    """Weights of process, service and machine moves."""
    original: Int
    """(P,) machine of each process in the original assignment."""

    def usage(self, assignment: Int) -> Int:
        """Return the usage of each resource on each machine, (M, R), under an assignment, (P,)."""
        used = np.zeros_like(self.capacity)
        np.add.at(used, assignment, self.requirement)
        return used

    def costs(self, assignment: Int) -> dict[str, int]:
        """Return the weighted costs of an assignment, (P,), by name; their sum is the objective."""
        usage = self.usage(assignment)
        free = self.capacity - usage
        moved = assignment != self.original
        moved_by_service = np.bincount(self.service[moved], minlength=len(self.spread))
        machine_moves = self.machine_cost[self.original, assignment].sum()
        return {
            "load": int((np.maximum(0, usage - self.safety) @ self.load_weight).sum()),
            "balance": sum(
                balance.weight
                * int(np.maximum(0, balance.target * free[:, balance.first] - free[:, balance.second]).sum())
                for balance in self.balances
            ),
            "process moves": self.weights[0] * int(self.process_cost[moved].sum()),
            "service moves": self.weights[1] * int(moved_by_service.max(initial=0)),
            "machine moves": self.weights[2] * int(machine_moves),
        }

    def cost(self, assignment: Int) -> int:
        """Return the objective of an assignment, (P,)."""
        return sum(self.costs(assignment).values())

    def violations(self, assignment: Int) -> list[str]:
        """Return the constraints that an assignment, (P,), breaks, in words with numbers; empty if it is feasible."""
        usage = self.usage(assignment)
        moved = assignment != self.original
        np.add.at(usage, self.original[moved], self.requirement[moved] * self.transient)
        broken = [
            f"machine {machine} uses {usage[machine, resource]} of {self.capacity[machine, resource]}"
            f" of resource {resource}"
            for machine, resource in np.argwhere(usage > self.capacity).tolist()
        ]
        service_machine_pairs, process_counts = np.unique(
            np.stack([self.service, assignment]), axis=1, return_counts=True
        )
        broken += [
            f"machine {machine} has {processes} processes of service {service}"
            for (service, machine), processes in zip(
                service_machine_pairs.T.tolist(), process_counts.tolist(), strict=True
            )
            if processes > 1
        ]
        service_of_location = np.unique(np.stack([self.service, self.location[assignment]]), axis=1)[0]
        location_counts = np.bincount(service_of_location, minlength=len(self.spread))
        broken += [
            f"service {service} is in {location_counts[service]} of {self.spread[service]} locations"
            for service in np.flatnonzero(location_counts < self.spread).tolist()
        ]
        return broken + list(self._lacking(assignment))

    def _lacking(self, assignment: Int) -> Iterator[str]:
        """Yield, in words, the dependencies that an assignment, (P,), breaks."""
        is_present = np.zeros((len(self.spread), int(self.neighbourhood.max()) + 1), np.bool_)
        is_present[self.service, self.neighbourhood[assignment]] = True
        for service, required in self.needs.tolist():
            for neighbourhood in np.flatnonzero(is_present[service] & ~is_present[required]).tolist():
                yield f"service {service} lacks service {required} in neighbourhood {neighbourhood}"


class _Numbers:
    """The whole numbers in a file, taken in order."""

    def __init__(self, path: Path) -> None:
        self._path, self._taken = path, 0
        try:
            with lzma.open(path) if path.suffix == ".xz" else path.open("rb") as file:
                lines = [np.array(line.split(), np.int64) for line in file]  # all texts at once would need 1 GB or more
            self._values = np.concatenate(lines) if lines else np.zeros(0, np.int64)
        except (OSError, lzma.LZMAError, ValueError) as error:
            raise InstanceFileError(f"{path}: {error}") from None

    def take(self, count: int, columns: int | None = None) -> Int:
        """Return the next numbers, (count,), or in rows of some columns, (count, columns)."""
        end = self._taken + count * (1 if columns is None else columns)
        if count < 0 or end > len(self._values):
            raise InstanceFileError(f"{self._path}: {len(self._values)} numbers, where at least {end} are expected")
        values = self._values[self._taken : end]
        self._taken = end
        return values if columns is None else values.reshape(count, columns)

    def number(self) -> int:
        """Return the next number."""
        return int(self.take(1)[0])

    def end(self) -> None:
        """Raise an error if numbers are left."""
        if self._taken < len(self._values):
            raise InstanceFileError(f"{self._path}: {len(self._values)} numbers, where {self._taken} are expected")

    def check(self, values: Int, name: str, high: int) -> Int:
        """Return values that are indices below `high`, or raise an error that calls them `name`."""
        if len(values) and (values.min() < 0 or values.max() >= high):
            span = f"from {values.min()} to {values.max()}"
            raise InstanceFileError(f"{self._path}: {name} {span}, expected 0 to {high - 1}")
        return values


def find_instances(directory: Path) -> list[Path]:
    """Return the model files of a directory that have an assignment, by name.

    Raise `InstanceFileError` if there are none.
    """
    models = [path for ending in ENDINGS for path in directory.glob(f"{MODEL}*{ending}")]
    models = sorted(path for path in models if _assignment_of(path).is_file())
    if not models:
        raise InstanceFileError(
            f"{directory}: no instance, a pair of files {MODEL}NAME.txt and {ASSIGNMENT}NAME.txt, or .xz"
        )
    return models


def _assignment_of(model: Path) -> Path:
    """Return the path of the assignment that belongs to a model file."""
    return model.with_name(ASSIGNMENT + model.name.removeprefix(MODEL))


def read_instance(model: Path) -> ReassignmentInstance:
    """Read an instance from its model file and the assignment beside it, or raise `InstanceFileError`."""
    numbers = _Numbers(model)
    resource_rows = numbers.take(numbers.number(), 2)
    resource_count = len(resource_rows)
    machine_count = numbers.number()
    machine_rows = numbers.take(machine_count, 2 + 2 * resource_count + machine_count)
    spread, needs = _services(numbers)
    process_rows = numbers.take(numbers.number(), 2 + resource_count)
    balances = []
    for _ in range(numbers.number()):
        first, second, target = numbers.take(3).tolist()
        balances.append(Balance(first, second, target, numbers.number()))
    weights = tuple(numbers.take(3).tolist())
    numbers.end()
    numbers.check(process_rows[:, 0], "services of processes", len(spread))
    numbers.check(needs[:, 1], "services that others depend on", len(spread))
    numbers.check(
        np.array([[balance.first, balance.second] for balance in balances]).reshape(-1),
        "resources of balances",
        resource_count,
    )
    assignment = _Numbers(_assignment_of(model))
    original = assignment.check(assignment.take(len(process_rows)), "machines of processes", machine_count)
    assignment.end()
    return ReassignmentInstance(
        name=model.name.removeprefix(MODEL).partition(".")[0],
        transient=resource_rows[:, 0] != 0,
        load_weight=resource_rows[:, 1],
        capacity=machine_rows[:, 2 : 2 + resource_count],
        safety=machine_rows[:, 2 + resource_count : 2 + 2 * resource_count],
        neighbourhood=machine_rows[:, 0],
        location=machine_rows[:, 1],
        machine_cost=machine_rows[:, 2 + 2 * resource_count :],
        spread=spread,
        needs=needs,
        service=process_rows[:, 0],
        requirement=process_rows[:, 1:-1],
        process_cost=process_rows[:, -1],
        balances=tuple(balances),
        weights=weights,
        original=original,
    )


def _services(numbers: _Numbers) -> tuple[Int, Int]:
    """Return the least number of locations of each service, (S,), and the pairs of dependent services, (D, 2).

    `numbers`: the model file, at the number of services.
    """
    spread, pairs = [], []
    for service in range(numbers.number()):
        locations, count = numbers.take(2).tolist()
        spread.append(locations)
        pairs += [(service, required) for required in numbers.take(count).tolist()]
    return np.array(spread, np.int64), np.array(pairs, np.int64).reshape(-1, 2)
