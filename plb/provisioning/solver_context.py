"""The data of an instance for all algorithms, made once: arrays, nodes, and the conversion of a packing to a plan."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property

import numpy as np

from plb.array_types import Float, Int
from plb.compiler import working_time
from plb.provisioning.instance import Instance, degrees, lower_bound
from plb.provisioning.packing import Packing, empty_packing, used_slots
from plb.provisioning.plan import ProvisioningPlan
from plb.provisioning.replicas_by_node import ReplicasByNode, add_all, no_replicas
from plb.validation import check_number

ReportProgress = Callable[[str], None]
"""Called with progress, one line at a time."""


def say_nothing(_: str) -> None:
    """Ignore progress."""


class SolverContext:
    """An instance as kernels read it, and the time for it: `stop` is set after `seconds`; None: never.

    `demand` is (L, D) of a replica, `capacity` (D,) of the largest node, `stop` (1,).
    """

    def __init__(self, instance: Instance, seconds: float | None = None) -> None:
        if seconds is not None:
            check_number("provisioning", "time_limit", seconds)
        self.instance = instance
        self.demand = instance.dimensions()
        self.capacity = instance.largest_capacity()
        self.lower_bound = lower_bound(instance)
        self.stop = np.zeros(1, np.int64)
        self.seconds = seconds
        self._began = working_time()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Set `stop` when the time is over, while the block runs."""
        if self.seconds is None:
            yield
            return
        # kernels run without the interpreter lock, so that this thread gets its turn while they do
        timer = threading.Timer(
            min(max(0.0, self.seconds - self.elapsed()), threading.TIMEOUT_MAX), self.stop.fill, [1]
        )
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    @property
    def time_is_over(self) -> bool:
        """Whether `stop` is set."""
        return bool(self.stop[0])

    def elapsed(self) -> float:
        """Return the seconds since the start."""
        return working_time() - self._began

    @cached_property
    def shares(self) -> Float:
        """Demand of a replica relative to the largest node, (L, D)."""
        return np.asarray(self.demand / self.capacity)

    @cached_property
    def degrees(self) -> Int:
        """Number of applications with which each application shares a limit, (L,)."""
        return degrees(self.instance.neighbours)

    @property
    def most_nodes(self) -> int:
        """Number of nodes that always suffices, or that there are: one for each replica."""
        return sum(self.instance.offered(int(self.instance.replicas.sum())))

    def packing(self, nodes: int) -> Packing:
        """Return an empty packing with up to `nodes` nodes of each kind, for algorithms that open nodes as they go."""
        return self._packing_of(self.instance.offered(nodes))

    def packing_of_first(self, nodes: int) -> Packing:
        """Return an empty packing of the first `nodes` nodes, kind after kind."""
        counts, remaining = [], nodes
        for node_type in self.instance.nodes:
            counts.append(remaining if node_type.count is None else min(node_type.count, remaining))
            remaining -= counts[-1]
        return self._packing_of(counts)

    def _packing_of(self, counts: list[int]) -> Packing:
        """Return an empty packing with `counts` nodes, (kinds,)."""
        capacity = np.stack([self.instance.capacity(node_type) for node_type in self.instance.nodes])
        free = np.repeat(capacity, counts, axis=0)
        instance = self.instance
        return empty_packing(instance.replicas, self.demand, instance.neighbours, free, np.cumsum(counts), self.stop)

    def reach(self, plan: ProvisioningPlan) -> int:
        """Return the least number of nodes with which `packing_of_first` has all that a plan uses; 0: none has all."""
        reach, before = 0, 0
        for node_type, used in zip(
            self.instance.nodes, np.bincount(plan.kind, minlength=len(self.instance.nodes)).tolist(), strict=True
        ):
            if used:
                reach = before + used
            if node_type.count is None:
                break
            before += node_type.count
        return reach

    def packing_for(self, plan: ProvisioningPlan, spare: int = 0) -> tuple[Packing, Int]:
        """Return an empty packing with a plan's nodes and `spare` more of each kind, and their indices in it."""
        used = np.bincount(plan.kind, minlength=len(self.instance.nodes))
        counts = [
            used_of_kind + spare if node_type.count is None else min(used_of_kind + spare, node_type.count)
            for node_type, used_of_kind in zip(self.instance.nodes, used.tolist(), strict=True)
        ]
        packing = self._packing_of(counts)
        first = packing.end - counts
        packing.unused[:] = first + used
        order = np.argsort(plan.kind, kind="stable")
        node_of_plan = np.empty(plan.nodes, np.int64)
        node_of_plan[order] = np.repeat(first - (np.cumsum(used) - used), used) + np.arange(plan.nodes)
        return packing, node_of_plan

    def by_node(self, plan: ProvisioningPlan) -> tuple[Packing, ReplicasByNode]:
        """Return the packing of a plan, nodes by kind, and the replicas of each node."""
        packing, node_of_plan = self.packing_for(plan)
        by_node = no_replicas(packing)
        node = node_of_plan[plan.node].astype(np.int32)
        add_all(packing, by_node, plan.application, node, plan.count)
        return packing, by_node

    def plan(self, packing: Packing, algorithm: str, names: Sequence[str] | None = None) -> ProvisioningPlan:
        """Return the plan of a packing with all replicas, without empty nodes.

        `names`, (N,), are of all nodes of the packing; `algorithm`: name of the one that made it.
        """
        slot, application = used_slots(packing)
        used, node = np.unique(packing.node[slot], return_inverse=True)
        return ProvisioningPlan(
            instance=self.instance,
            kind=np.searchsorted(packing.end, used, side="right").astype(np.int32),
            application=application.astype(np.int32),
            node=node.astype(np.int32),
            count=packing.placed[slot],
            algorithm=algorithm,
            seconds=self.elapsed(),
            lower_bound=self.lower_bound,
            names=None if names is None else tuple(names[index] for index in used.tolist()),
        )


def order_of(sizes: Float) -> Int:
    """Return the applications, (L,), by descending size, stably; `sizes`: (L,)."""
    return np.argsort(-sizes, kind="stable")
