"""The face of the engine: what host programs call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import attrs
import numpy as np
import numpy.typing as npt

from plb.arrays import Float, Int
from plb.config import PlbConfig
from plb.errors import InvalidValueError
from plb.model import Node, Partition, Role, Service, check_count, check_loads, check_number
from plb.plan import MoveKind, Plan
from plb.state import ClusterState
from plb.steps import UNLIMITED

if TYPE_CHECKING:
    from plb.arrays import Problem
    from plb.outlook import Outlook
    from plb.risk.demand import DemandHistory
    from plb.search.annealing import Budget
    from plb.topology import Topology


INTERVALS = {
    "placement": "min_placement_interval",
    "repair": "min_constraint_check_interval",
    "balancing": "min_load_balancing_interval",
}
"""The setting that says how often each phase may run by itself."""


@attrs.frozen
class PlacedReplica:
    """A replica as the engine sees it.

    Parameters
    ----------
    index
        Its row in bulk reports; stays the same while the replica exists, also when it moves.
    role
        Its role.
    node
        Name of its node; None while it waits for a place.
    leaving
        True for the departing end of a move under way.
    """

    index: int
    role: Role
    node: str | None
    leaving: bool


@attrs.frozen
class NodeViolation:
    """A node whose load of a metric has reached the violation threshold.

    Parameters
    ----------
    load, threshold
        In user units; departing replicas do not count.
    """

    node: str
    metric: str
    load: float
    threshold: float

    def __str__(self) -> str:
        return f"{self.metric} of node {self.node} is {self.load:g}, at or above its threshold of {self.threshold:g}"


class PlacementAndLoadBalancing:
    """Places replicas on nodes, repairs broken constraints and balances load, by simulated annealing.

    Parameters
    ----------
    config
        The settings.
    seed
        Seed of every random draw. The same seed, inputs and budgets give the same plans, whatever the number of
        threads.
    history
        Past tenants as demand models; with it and a ``w_failovers`` above 0, plans know the expected failovers of each
        configuration.
    """

    def __init__(self, config: PlbConfig, *, seed: int = 0, history: DemandHistory | None = None) -> None:
        from plb.outlook import Outlook

        self.config = config
        self.seed = check_count("engine", "seed", seed)
        self._state = ClusterState(config)
        self._outlook: Outlook = Outlook(config, history, seed)
        self._topology: Topology | None = None
        self._searches = 0
        self._last_run: dict[str, float] = {}
        self._now = 0.0

    # what the host reports

    def update_node(self, node: Node) -> None:
        """Add a node, or replace the one of this name.

        Raises
        ------
        UnknownNameError
            If a capacity names a metric that the engine does not know.
        """
        self._state.put_node(node)

    def update_service(self, service: Service) -> None:
        """Add a service, or replace the one of this name.

        Raises
        ------
        InvalidValueError
            If its placement constraint does not parse.
        UnknownNameError
            If a default load names a metric that the engine does not know.
        """
        self._state.put_service(service)

    def update_partition(self, partition: Partition) -> None:
        """Add a partition, or bring the known one to the replicas given.

        Replicas missing to the service's target are the engine's to place. A replica that stands on another node than
        before keeps its age and largest demand.

        Raises
        ------
        UnknownNameError
            If the service or a node is not known.
        InvalidValueError
            If a role does not suit the service.
        """
        self._state.put_partition(partition)

    def remove_partition(self, name: str) -> None:
        """Forget a partition and its replicas."""
        self._state.remove_partition(name)

    def remove_service(self, name: str) -> None:
        """Forget a service that has no partitions."""
        self._state.remove_service(name)

    def report_load(self, partition: str, node: str, loads: Mapping[str, float]) -> None:
        """Report the load of the replica of `partition` on `node`, in user units; metrics not named keep theirs.

        Raises
        ------
        UnknownNameError
            If partition, node or metric is not known.
        ConflictError
            If the partition has no replica there.
        InvalidValueError
            If a load is negative or not finite.
        """
        item = f"partition {partition} on node {node}"
        checked = check_loads(item, "load", loads)
        self._state.set_load(self._state.row_on(partition, node), item, dict(checked))

    def report_loads(self, replica_index: npt.ArrayLike, loads: npt.ArrayLike) -> None:
        """Report the loads of many replicas at once.

        Parameters
        ----------
        replica_index
            (m,) indices from `replicas`, each at most once.
        loads
            (m, R) loads in user units, metrics in the order of the configuration.

        Raises
        ------
        InvalidValueError
            If an index is not that of a replica, a shape does not fit, or a load is negative or not finite; nothing
            is changed then.
        """
        self._state.set_loads(_indices(replica_index), _numbers(loads))

    # what the host asks

    def replicas(self, partition: str) -> tuple[PlacedReplica, ...]:
        """Return the replicas of a partition: its role slots in order, then departing ends."""
        table = self._state.rows
        found = [
            PlacedReplica(
                row, Role(int(table.role[row])), self._name_of(int(table.node[row])), bool(table.leaving[row])
            )
            for row in self._state.partition(partition).rows
        ]
        return tuple(sorted(found, key=lambda replica: replica.leaving))

    def violations(self) -> tuple[NodeViolation, ...]:
        """Return the nodes that are up and whose load has reached a violation threshold."""
        problem, _ = self._problem(self._now)
        from plb.problem import start_solution

        load = start_solution(problem, self.config.metric_names).node_load
        limited = problem.limit < UNLIMITED
        found = np.argwhere((load >= problem.threshold) & limited & problem.counted[:, None])
        steps, metrics = self._state.steps, self.config.metric_names
        return tuple(
            NodeViolation(
                self._state.nodes[node].name,
                metrics[metric],
                steps.to_user(metrics[metric], int(load[node, metric])),
                steps.to_user(metrics[metric], int(problem.threshold[node, metric])),
            )
            for node, metric in found
        )

    def place(
        self,
        partition: str | Sequence[str] | None = None,
        *,
        now: float | None = None,
        budget: Budget | int | None = None,
    ) -> Plan:
        """Find places for the missing replicas of a partition, of several, or of all.

        Parameters
        ----------
        now
            Time in seconds on the host's clock; None: the latest seen.
        budget
            A `Budget`, or a number of proposals over all chains; None: as configured.
        """
        names = [partition] if isinstance(partition, str) else partition
        return self._run(["placement"], now, budget, self._state.missing(names))

    def repair(self, *, now: float | None = None, budget: Budget | int | None = None) -> Plan:
        """Mend broken constraints with as few moves as the search finds. Parameters as in `place`."""
        return self._run(["repair"], now, budget, [])

    def balance(self, *, now: float | None = None, budget: Budget | int | None = None) -> Plan:
        """Lower the energy by moving replicas, if a metric is out of balance. Parameters as in `place`."""
        return self._run(["balancing"], now, budget, [])

    def refresh(self, now: float, *, budget: Budget | int | None = None) -> Plan:
        """Run the phases that are due: placement, then repair, then balancing if neither had anything to do.

        Changes nothing outside the engine, nor what the engine knows of the cluster: see `apply`.
        """
        at = self._time(now)
        due = [phase for phase in ("placement", "repair", "balancing") if self._is_due(phase, at)]
        plan = self._run(due, at, budget, self._state.missing() if "placement" in due else [])
        self._last_run.update(dict.fromkeys(due, at))
        return plan

    def apply(self, plan: Plan, *, leaving: bool = False) -> None:
        """Note that the moves of a plan were carried out.

        Parameters
        ----------
        leaving
            True: the moves have begun. Every replica that moves keeps a departing end on its source, whose load counts
            when capacity is checked, until `vacate`.

        Raises
        ------
        ConflictError
            If the cluster has changed so that a move no longer makes sense; nothing is changed then.
        """
        self._state.check_moves(plan.moves, leaving=leaving)
        for move in plan.moves:
            self._state.carry_out(move, leaving=leaving)

    def vacate(self, partition: str, node: str) -> None:
        """Note that the departing end of a move is gone from `node`.

        Raises
        ------
        ConflictError
            If no replica of the partition is leaving that node.
        """
        self._state.vacate(partition, node)

    # inside

    def _name_of(self, node: int) -> str | None:
        return None if node < 0 else self._state.nodes[node].name

    def _time(self, now: float | None) -> float:
        return self._now if now is None else check_number("engine", "now", now, low=-np.inf)

    def _is_due(self, phase: str, now: float) -> bool:
        interval = getattr(self.config, INTERVALS[phase])
        if interval is None:
            return False
        return phase not in self._last_run or now - self._last_run[phase] >= interval

    def _problem(self, now: float) -> tuple[Problem, int]:
        from plb.problem import build_problem
        from plb.topology import build_topology, topology_version

        redrawn = self._outlook.update(self._state, now)
        if self._topology is None or self._topology.version != topology_version(self._state):
            self._topology = build_topology(self._state)
        return build_problem(self._state, self._topology, self._outlook), redrawn

    def _run(self, phases: Sequence[str], now: float | None, budget: Budget | int | None, missing: list[int]) -> Plan:
        from plb.search.annealing import Budget
        from plb.search.run import Run

        at, spending = self._time(now), Budget.of(budget)
        if not self._state.nodes:
            raise InvalidValueError("engine", "nodes", 0, "at least one node before a plan is asked for")
        seed = np.random.SeedSequence([self.seed, self._searches + 1])
        run = Run(self._state, self._problem(at)[0], seed, spending)
        self._now, self._searches = at, self._searches + 1
        if "placement" in phases and missing:
            run.place(missing)
        if "repair" in phases:
            run.repair()
        if "balancing" in phases and not run.changed:
            run.balance()
        return run.plan(missing)


def _indices(values: npt.ArrayLike) -> Int:
    """Return indices of replicas as an array, refusing what is no whole number."""
    found = np.asarray(values)
    if found.size and found.dtype.kind not in "iu":
        raise InvalidValueError("report_loads", "replica_index", found.flat[0].item(), "whole numbers")
    return found.astype(np.int64)


def _numbers(values: npt.ArrayLike) -> Float:
    """Return loads as an array, refusing what is no number."""
    try:
        return np.asarray(values, np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InvalidValueError("report_loads", "loads", values, "numbers, one row a replica") from None


__all__ = ["MoveKind", "NodeViolation", "PlacedReplica", "PlacementAndLoadBalancing"]
