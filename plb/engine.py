"""The face of the engine: what host programs call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import attrs
import numpy as np
import numpy.typing as npt

from plb.arrays import NOWHERE, Float, Int
from plb.carrying_out import carry_out, check_moves, vacate
from plb.config import PlbConfig
from plb.counting import standing_load
from plb.errors import ConflictError, InvalidValueError
from plb.load_reports import row_on, set_load, set_loads, set_move_cost, set_role_load, set_secondary_loads
from plb.model import (
    MoveCost,
    Node,
    Partition,
    Role,
    Service,
    check_count,
    check_loads,
    check_move_cost,
)
from plb.plan import MoveKind, Phase, Plan
from plb.scheduler import node_event
from plb.search.budget import Budget
from plb.state import ClusterState
from plb.updates import put_node, put_partition, put_service, put_upgraded_domains, remove_partition, remove_service
from plb.violations import NodeViolation, Violation

if TYPE_CHECKING:
    from plb.risk.demand import DemandHistory


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
class DomainState:
    """Services that are searched together.

    Parameters
    ----------
    name
        Name of its first service.
    services, metrics
        Names of its services and of the metrics that they have.
    last_action
        What the last refresh that did not pass it over did for it, under Service Fabric's name, such as
        ``"NewReplicaPlacement"``.
    """

    name: str
    services: tuple[str, ...]
    metrics: tuple[str, ...]
    last_action: str


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
        from plb.planning import Planner

        self.config = config
        self._state = ClusterState(config)
        self._planner = Planner(self._state, seed=check_count("engine", "seed", seed), history=history)

    @property
    def seed(self) -> int:
        """Seed of the searches to come, a whole number of at least 0; another raises `InvalidValueError`."""
        return self._planner.seed

    @seed.setter
    def seed(self, seed: int) -> None:
        self._planner.seed = check_count("engine", "seed", seed)

    # what the host reports

    def configure(self, config: PlbConfig) -> None:
        """Replace the settings; the metrics must keep their names.

        Raises
        ------
        ConflictError
            If the metrics are others, or the step of one changes.
        """
        if config.metric_names != self.config.metric_names:
            raise ConflictError(f"configure: metrics {config.metric_names} are not those of before")
        for metric, before in zip(config.metrics, self.config.metrics, strict=True):
            if metric.step != before.step:
                raise ConflictError(f"configure: step of metric {metric.name} is {before.step}; it cannot change")
        self._planner.configure(config)
        self.config = config

    def update_node(self, node: Node, *, now: float | None = None) -> None:
        """Add a node, or replace the one of this name.

        Parameters
        ----------
        now
            When it happened, in seconds on the host's clock; None: the latest time seen. Balancing waits for a while
            after a node came or went, where the settings say so.

        Raises
        ------
        UnknownNameError
            If a capacity names a metric that the engine does not know.
        InvalidValueError
            If a capacity is too large for the metric's step, or `now` is not finite.
        """
        at = self._planner.time(now)
        before = self._state.nodes[self._state.node_index[node.name]] if node.name in self._state.node_index else None
        put_node(self._state, node)
        event = node_event(before, node)
        if event is not None:
            self._planner.scheduler.note_node_event(event, self._state.living_indices(), at)

    def update_service(self, service: Service) -> None:
        """Add a service, or replace the one of this name.

        Raises
        ------
        InvalidValueError
            If its placement constraint does not parse, or a default load is too large for the metric's step.
        UnknownNameError
            If a default load or a weight names a metric that the engine does not know.
        ConflictError
            If `stateful` is not what it was.
        """
        put_service(self._state, service)

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
        ConflictError
            If it belonged to another service before.
        """
        put_partition(self._state, partition)

    def update_upgraded_domains(self, domains: Iterable[str]) -> None:
        """Say which upgrade domains are done in the upgrade that goes on; none: there is no upgrade.

        They are preferred locations: what has to move or to be placed goes there rather than where it would soon have
        to leave again (semantics.md section 4; `prefer_upgraded_uds`).

        Raises
        ------
        InvalidValueError
            If `domains` is one text instead of a collection of names.
        """
        put_upgraded_domains(self._state, domains)

    def remove_partition(self, name: str) -> None:
        """Forget a partition and its replicas.

        Raises
        ------
        UnknownNameError
            If it is not known.
        """
        remove_partition(self._state, name)

    def remove_service(self, name: str) -> None:
        """Forget a service that has no partitions.

        Raises
        ------
        UnknownNameError
            If it is not known.
        ConflictError
            If it has partitions.
        """
        remove_service(self._state, name)

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
        set_load(self._state, row_on(self._state, partition, node), item, dict(checked))

    def report_role_load(self, partition: str, role: Role, loads: Mapping[str, float]) -> None:
        """Report the load, in user units, of all replicas of a role without one of their own, also of those to come.

        Raises
        ------
        UnknownNameError
            If partition or metric is not known.
        InvalidValueError
            If the role does not suit the service, or a load is negative or not finite.
        """
        checked = check_loads(f"partition {partition}", f"load[{role.name}]", loads)
        set_role_load(self._state, partition, role, dict(checked))

    def report_secondary_loads(self, partition: str, loads: Mapping[str, Mapping[str, float]]) -> None:
        """Report the loads of a partition's secondaries by node, in user units.

        Secondaries to come carry the average of all values reported so far, rounded to a whole number; one that stands
        and was never reported keeps its load. Without `use_separate_secondary_load` all carry the average.

        Raises
        ------
        UnknownNameError
            If partition, node or metric is not known.
        InvalidValueError
            If a load is negative or not finite.
        """
        checked = {node: check_loads(f"partition {partition}", f"loads[{node}]", load) for node, load in loads.items()}
        set_secondary_loads(self._state, partition, checked)

    def report_move_cost(self, partition: str, role: Role, cost: MoveCost | str) -> None:
        """Report what a move of the replicas of a role costs, instead of the service's move cost.

        Raises
        ------
        UnknownNameError
            If the partition is not known.
        InvalidValueError
            If the role does not suit the service, or there is no such cost.
        """
        set_move_cost(self._state, partition, role, check_move_cost(f"partition {partition}", cost))

    def service_domains(self) -> tuple[DomainState, ...]:
        """Return the service domains, which are searched apart, with what the last refresh did for each."""
        return tuple(
            DomainState(
                name=self._state.services[domain.key].name,
                services=tuple(self._state.services[index].name for index in domain.services),
                metrics=tuple(sorted(domain.metrics)),
                last_action=self._planner.scheduler.last_action(domain.key).value,
            )
            for domain in self._planner.service_domains()
        )

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
            If an index is not that of a replica or comes twice, a shape does not fit, or a load is negative or not
            finite; nothing is changed then.
        """
        rows = _indices(replica_index)
        reported = _numbers(loads)
        if rows.size == 0 and reported.size == 0:
            return  # an empty list has no columns that could be counted
        set_loads(self._state, rows, reported)

    # what the host asks

    def replicas(self, partition: str) -> tuple[PlacedReplica, ...]:
        """Return the replicas of a partition: its role slots in order, then departing ends.

        Of a service on every node, none waits for a place: which nodes it misses shows only when a plan is made.

        Raises
        ------
        UnknownNameError
            If the partition is not known.
        """
        table, record = self._state.rows, self._state.partition(partition)
        everywhere = self._state.services[record.service].on_every_node
        found = [
            PlacedReplica(
                row, Role(int(table.role[row])), self._name_of(int(table.node[row])), bool(table.leaving[row])
            )
            for row in record.rows
            if not (everywhere and table.node[row] == NOWHERE)
        ]
        return tuple(sorted(found, key=lambda replica: replica.leaving))

    def node_loads(self) -> dict[str, dict[str, float]]:
        """Return the load of every node by metric, in user units; departing replicas do not count."""
        steps, load = self._state.steps, standing_load(self._state)
        names = self.config.metric_names
        return {
            node.name: {name: steps.to_user(name, int(load[index, metric])) for metric, name in enumerate(names)}
            for index, node in enumerate(self._state.nodes)
        }

    def violations(self, *, soft: bool = False) -> tuple[Violation, ...]:
        """Return what is wrong with the cluster as it stands.

        These are the nodes that are up and whose load has reached a violation threshold, then the broken constraints:
        replicas on nodes that their service does not want, fault and upgrade domains that hold too many or too few of a
        partition, and children apart from their parents.

        Parameters
        ----------
        soft
            Whether broken constraints that are soft or only wished for are told too.
        """
        inspection = self._planner.inspection()
        return (*inspection.overloads(), *inspection.breaches(up_to=2 if soft else 0))

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
        partition
            Name of a partition, or names of several; None: all that miss a replica.
        now
            Time in seconds on the host's clock; None: the latest seen.
        budget
            A `Budget`, or a number of proposals over all chains; None: as configured.

        Raises
        ------
        UnknownNameError
            If a partition is not known.
        InvalidValueError
            If `now` is not finite, or `budget` is no whole number of at least 0.
        """
        names = [partition] if isinstance(partition, str) else partition
        return self._run(Phase.PLACEMENT, now, budget, names)

    def repair(self, *, now: float | None = None, budget: Budget | int | None = None) -> Plan:
        """Mend broken constraints with as few moves as the search finds.

        `now` (seconds), `budget` and errors are as in `place`. On the result of the last repair, with nothing changed
        since, it moves nothing, unless a budget of moves cut the last one short.
        """
        return self._run(Phase.REPAIR, now, budget)

    def balance(self, *, now: float | None = None, budget: Budget | int | None = None) -> Plan:
        """Lower the energy by moving replicas, if a metric is out of balance.

        `now` (seconds), `budget` and errors are as in `place`. On the result of the last balancing it moves nothing, as
        `repair` on that of the last repair.
        """
        return self._run(Phase.BALANCING, now, budget)

    def refresh(self, now: float, *, budget: Budget | int | None = None) -> Plan:
        """Run the phases that are due: placement, then repair, then balancing if neither had anything to do.

        Changes nothing outside the engine, nor what the engine knows of the cluster: see `apply`.

        Parameters
        ----------
        now
            Time in seconds on the host's clock; it may start anywhere.
        budget
            As in `place`.

        Raises
        ------
        InvalidValueError
            If `now` is not finite, or `budget` is no whole number of at least 0.
        """
        return self._planner.refresh(self._planner.time(now), Budget.of(budget))

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
        UnknownNameError
            If a partition or a node of the plan is no longer known; nothing is changed then.
        """
        check_moves(self._state, plan.moves, leaving=leaving)
        for move in plan.moves:
            carry_out(self._state, move, leaving=leaving)

    def vacate(self, partition: str, node: str) -> None:
        """Note that the departing end of a move is gone from `node`.

        Raises
        ------
        ConflictError
            If no replica of the partition is leaving that node.
        UnknownNameError
            If partition or node is not known.
        """
        vacate(self._state, partition, node)

    def _run(
        self, phase: Phase, now: float | None, budget: Budget | int | None, names: Sequence[str] | None = None
    ) -> Plan:
        return self._planner.run([phase], self._planner.time(now), Budget.of(budget), names)

    def _name_of(self, node: int) -> str | None:
        return None if node < 0 else self._state.nodes[node].name


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
