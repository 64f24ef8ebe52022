"""The engine driven by recorded cluster events: a day of virtual machines in Azure in 2017.

The recording has arrivals, sizes and lifetimes. Usage is sampled from
a synthetic region. The nodes have less capacity than the machines may use.

Run it with `.venv/bin/python examples/embedding_recorded_arrivals.py FOLDER`. The folder has the files of
`resources/traces` and `resources/maps` of `huaweicloud/trace_generation_rnn` on GitHub, each compressed with xz. The
default is `azure_v1_arrivals` in the data of `PLB_SHARED`, or of `../shared`.
"""

import lzma
import os
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

import attrs
import numpy as np
import numpy.typing as npt

from plb import Metric, Node, Partition, PlacementAndLoadBalancing, PlbConfig, Role, Service
from workloads.regions import REGIONS, generate

REPOSITORY = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("PLB_SHARED", REPOSITORY.parent / "shared"))
BIN = 300  # seconds; the resolution of arrivals and departures
METERING = 600  # seconds
HOUR = 3_600  # seconds
DAY = 24 * HOUR
SAMPLED = 20  # one of this number of batches is used
METRICS = ("cpu", "memory")
NODES = 20
CAPACITIES = {"cpu": 32, "memory": 128}  # vCores and GB


@attrs.frozen
class Machine:
    """A recorded virtual machine."""

    number: int
    flavour: str
    arrival: int  # seconds from the start of the recording
    departure: int

    @property
    def name(self) -> str:
        """Name of its partition."""
        return f"vm{self.number}"


def lines(folder: Path, name: str) -> Iterator[list[str]]:
    """Return the lines of a recorded file, each split at its blank."""
    with lzma.open(folder / f"{name}.xz", "rt") as file:
        yield from (line.split() for line in file)


def sizes_of_flavours(folder: Path) -> dict[str, list[float]]:
    """Return the largest usage of a machine of each flavour, in vCores and GB."""
    return {flavour: [float(part) for part in size.split(",")] for size, flavour in lines(folder, "flav_map.txt")}


def shortest_lifetimes(folder: Path) -> dict[int, int]:
    """Return the shortest lifetime in seconds for each code."""
    shortest: dict[int, int] = {}
    for seconds, number in lines(folder, "v1.interval_map.txt"):
        shortest.setdefault(int(number), int(seconds))
    return shortest


def batches(folder: Path) -> Iterator[tuple[int, list[tuple[str, str]]]]:
    """Return the time of each batch of a day, with flavour and lifetime of its machines."""
    recorded = zip(lines(folder, "v1.test.txt"), lines(folder, "v1.test.c2591400.txt"), strict=True)
    for (seconds, flavours), (_, lifetimes) in islice(recorded, DAY // BIN):
        for batch, lives in zip(flavours.split("|"), lifetimes.split("|"), strict=True):
            yield int(seconds), list(zip(batch.strip(",").split(","), lives.strip(",").split(","), strict=True))


def read_machines(folder: Path) -> list[Machine]:
    """Return a sample of the machines of a day, in the order of their arrivals."""
    shortest = shortest_lifetimes(folder)
    machines: list[Machine] = []
    for seconds, batch in islice(batches(folder), 0, None, SAMPLED):
        for flavour, lifetime in batch:
            if flavour:
                end = seconds + shortest[int(lifetime[1:])]  # the letter before it states whether the end was observed
                machines.append(Machine(len(machines), flavour, seconds, end))
    return machines


class Usage:
    """Usage of machines over their lifetimes, as a share of their size, from the tenants of a synthetic region."""

    def __init__(self, tenants: int) -> None:
        self.traces = generate(REGIONS["region1"], tenants, seed=7)
        self.columns = [self.traces.metric_names.index(name) for name in METRICS]

    def share(self, tenant: int, age: int) -> npt.NDArray[np.float32]:
        """Return the usage of a tenant at an age in seconds, as shares of the metrics.

        A trace repeats after its end.
        """
        first = self.traces.series_start[self.traces.series_index[tenant, Role.PRIMARY]]
        step = age // METERING % self.traces.lifetime_steps[tenant]
        used: npt.NDArray[np.float32] = self.traces.values[first + step] / self.traces.max_usage[tenant]
        return used[self.columns]


class Host:
    """The program around the engine: it has the present machines, their usage, and counts of events."""

    def __init__(self, sizes: Mapping[str, Sequence[float]], usage: Usage) -> None:
        metrics = [Metric("cpu", trend=False), Metric("memory")]
        self.engine = PlacementAndLoadBalancing(PlbConfig(metrics=metrics), seed=7)
        self.sizes, self.usage = sizes, usage
        self.running: dict[Machine, int] = {}
        self.counts: Counter[str] = Counter()
        for index in range(NODES):
            self.engine.update_node(Node(f"n{index}", capacities=CAPACITIES))
        for flavour, (cpu, memory) in sizes.items():
            expected = {"cpu": 0.1 * cpu, "memory": 0.5 * memory}  # until the first report
            self.engine.update_service(Service(flavour, stateful=False, default_load={Role.INSTANCE: expected}))

    def place(self, arrivals: Sequence[Machine], now: int) -> None:
        """Place arriving machines; reject those without a feasible node."""
        for machine in arrivals:
            self.engine.update_partition(Partition(machine.name, service=machine.flavour, created=now))
        self.engine.apply(self.engine.place([machine.name for machine in arrivals], now=now))
        for machine in arrivals:
            replica = self.engine.replicas(machine.name)[0]
            if replica.node is None:
                self.engine.remove_partition(machine.name)
                self.counts["refused"] += 1
            else:
                self.running[machine] = replica.index
                self.counts["placed"] += 1

    def remove_departed(self, now: int) -> None:
        """Remove the machines at the end of their lifetimes."""
        for machine in [machine for machine in self.running if machine.departure <= now]:
            del self.running[machine]
            self.engine.remove_partition(machine.name)

    def meter(self, now: int) -> None:
        """Report the usage of each machine, count the overloaded nodes, and apply the plans of the engine."""
        loads = [self.load(machine, now) for machine in self.running]
        self.engine.report_loads(list(self.running.values()), loads)
        self.counts["violations"] += len(self.engine.violations())
        plan = self.engine.refresh(now)
        self.engine.apply(plan)
        self.counts["moves"] += len(plan.moves)

    def load(self, machine: Machine, now: int) -> npt.NDArray[np.float64]:
        """Return the load of a machine by metric, in vCores and GB."""
        return self.usage.share(machine.number, now - machine.arrival) * np.array(self.sizes[machine.flavour])


def main(folder: Path) -> None:
    """Replay the recorded day, and print the counts every four hours."""
    machines = read_machines(folder)
    arrivals = defaultdict(list)
    for machine in machines:
        arrivals[machine.arrival].append(machine)
    host = Host(sizes_of_flavours(folder), Usage(len(machines)))
    start = machines[0].arrival
    print(f"{len(machines)} machines, {NODES} nodes")
    print("hour   running  placed  refused  moves  violations")
    for now in range(start, start + DAY + 1, BIN):
        host.remove_departed(now)
        host.place(arrivals[now], now)
        if (now - start) % METERING == 0:
            host.meter(now)
        if (now - start) % (4 * HOUR) == 0:
            counted = host.counts
            print(
                f"{(now - start) // HOUR:4} {len(host.running):9} {counted['placed']:7} {counted['refused']:8}"
                f" {counted['moves']:6} {counted['violations']:11}"
            )


if __name__ == "__main__":
    data = Path(sys.argv[1]) if len(sys.argv) > 1 else SHARED / "data" / "azure_v1_arrivals"
    if not data.is_dir():
        sys.exit(f"{data} is not here: say as an argument where the recorded files are")
    main(data)
