"""The face of the engine: what host programs call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy.typing as npt

from plb.errors import ConflictError
from plb.model import MoveCost, Node, Partition, Role, Service
from plb.model.alternatives import Alternatives
from plb.model.move import Phase
from plb.model.plan import Plan
from plb.model.violations import Violation
from plb.planning.queries import DomainState, PlacedReplica, loads_of_nodes, placed_replicas, states_of_domains
from plb.planning.scheduler import node_event
from plb.registry import check_extensions
from plb.search.budget import Budget
from plb.settings.config import PlbConfig
from plb.state.applied_moves import apply_move, vacate
from plb.state.cluster import ClusterState
from plb.state.load_reports import set_load, set_loads, set_move_cost, set_role_load, set_secondary_loads
from plb.state.move_checks import check_moves
from plb.state.updates import (
    put_node,
    put_partition,
    put_service,
    put_upgraded_domains,
    remove_node,
    remove_partition,
    remove_service,
)
from plb.validation import check_count, check_kind, check_names, check_switch

if TYPE_CHECKING:
    from plb.risk.demand import DemandHistory


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
        Past tenants as demand models; with it and a ``w_failovers`` or ``w_overload`` above 0, plans know what is to be
        expected of each configuration.

    Raises
    ------
    InvalidValueError
        If `config` or `history` is something else, or `seed` no whole number of at least 0.
    UnknownNameError
        If the history lacks one of the metrics, and the estimator asks it, or if nothing is registered under the name
        of an extension.
    """

    def __init__(self, config: PlbConfig, *, seed: int = 0, history: DemandHistory | None = None) -> None:
        from plb.planning.planner import Planner
        from plb.risk.demand import DemandHistory

        self.config = check_kind("engine", "config", config, PlbConfig)
        check_extensions(config)
        if history is not None:
            check_kind("engine", "history", history, DemandHistory)
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
            If the metrics are others, or the quantum of one changes.
        InvalidValueError
            If it is no `PlbConfig`.
        UnknownNameError
            If the engine's history lacks one of the metrics, and the estimator comes to ask it, or if nothing is
            registered under the name of an extension.
        """
        check_kind("configure", "config", config, PlbConfig)
        check_extensions(config)
        if config.metric_names != self.config.metric_names:
            raise ConflictError(f"configure: metrics {config.metric_names} are not those of before")
        for metric, before in zip(config.metrics, self.config.metrics, strict=True):
            if metric.quantum != before.quantum:
                raise ConflictError(f"configure: quantum of metric {metric.name} is {before.quantum}; it cannot change")
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
            If a capacity is too large for the metric's quantum, or `now` is not finite.
        """
        check_kind("update_node", "node", node, Node)
        at = self._planner.time(now)
        self._note_node_event(put_node(self._state, node), node, at)

    def remove_node(self, name: str, *, now: float | None = None) -> None:
        """Forget a node on which no replica stands: none that is placed, and no departing end or standby.

        Parameters
        ----------
        now
            When it happened, in seconds on the host's clock, as in `update_node`.

        Raises
        ------
        UnknownNameError
            If it is not known.
        ConflictError
            If replicas stand on it; the message names their partitions.
        InvalidValueError
            If `now` is not finite.
        """
        at = self._planner.time(now)
        self._note_node_event(remove_node(self._state, name), None, at)

    def update_service(self, service: Service) -> None:
        """Add a service, or replace the one of this name.

        Raises
        ------
        InvalidValueError
            If its placement constraint does not parse, or a default load or a limit is too large for the quantum.
        UnknownNameError
            If a default load, a limit or a weight names a metric that the engine does not know.
        ConflictError
            If `stateful` is not what it was.
        """
        put_service(self._state, check_kind("update_service", "service", service, Service))

    def update_partition(self, partition: Partition) -> None:
        """Add a partition, or bring the known one to the replicas given.

        Replicas missing to the service's target are the engine's to place. A replica that stands on another node than
        before keeps its age and largest demand.

        Raises
        ------
        UnknownNameError
            If the service or a node is not known.
        InvalidValueError
            If a role does not suit the service, or a default load of the service is too large for the metric's quantum.
        ConflictError
            If it belonged to another service before.
        """
        put_partition(self._state, check_kind("update_partition", "partition", partition, Partition))

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
            If a load is negative, not finite, or too large for the metric's quantum.
        """
        set_load(self._state, partition, node, loads)

    def report_role_load(self, partition: str, role: Role | str, loads: Mapping[str, float]) -> None:
        """Report the load, in user units, of all replicas of a role without one of their own, also of those to come.

        Raises
        ------
        UnknownNameError
            If partition or metric is not known.
        InvalidValueError
            If the role does not suit the service, or a load is negative, not finite, or too large for the metric's
            quantum.
        """
        set_role_load(self._state, partition, role, loads)

    def report_secondary_loads(self, partition: str, loads: Mapping[str, Mapping[str, float]]) -> None:
        """Report the loads of a partition's secondaries by node, in user units.

        Secondaries to come carry the average of all values reported so far, rounded to a whole number; one that stands
        and was never reported keeps its load. Without `use_separate_secondary_load` all carry the average.

        Raises
        ------
        UnknownNameError
            If partition, node or metric is not known.
        InvalidValueError
            If a load is negative, not finite, or too large for the metric's quantum.
        """
        set_secondary_loads(self._state, partition, loads)

    def report_move_cost(self, partition: str, role: Role | str, cost: MoveCost | str) -> None:
        """Report what a move of the replicas of a role costs, instead of the service's move cost.

        Raises
        ------
        UnknownNameError
            If the partition is not known.
        InvalidValueError
            If the role does not suit the service, or there is no such cost.
        """
        set_move_cost(self._state, partition, role, cost)

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
            If an index is not that of a replica or comes twice, a shape does not fit, or a load is negative, not finite
            or too large for the metric's quantum; nothing is changed then.
        """
        set_loads(self._state, replica_index, loads)

    # what the host asks

    def replicas(self, partition: str) -> tuple[PlacedReplica, ...]:
        """Return the replicas of a partition: its role slots in order, then departing ends.

        Of a service on every node, none waits for a place: which nodes it misses shows only when a plan is made.

        Raises
        ------
        UnknownNameError
            If the partition is not known.
        """
        return placed_replicas(self._state, partition)

    def node_loads(self) -> dict[str, dict[str, float]]:
        """Return the load of every node by metric, in user units; departing replicas do not count."""
        return loads_of_nodes(self._state)

    def service_domains(self) -> tuple[DomainState, ...]:
        """Return the service domains, which are searched apart, with what the last refresh did for each."""
        return states_of_domains(self._state, self._planner.scheduler, self._planner.service_domains())

    def violation_probabilities(self, now: float | None = None, *, partition: str | None = None) -> dict[str, float]:
        """Return how likely each node is to run into a violation, as the estimator of the settings has it.

        All are 0 where neither `w_failovers` nor `w_overload` makes the engine ask, and on nodes that do not count.

        Parameters
        ----------
        now
            Time in seconds on the host's clock; None: the latest seen.
        partition
            Name of a partition that misses a replica: as if it stood on the node as well. So it tells where it still
            fits.

        Raises
        ------
        UnknownNameError
            If the partition is not known.
        ConflictError
            If the partition misses no replica.
        InvalidValueError
            If `now` is not finite.
        """
        found = self._planner.violation_probabilities(self._planner.time(now), partition)
        return {node.name: float(one) for node, one in zip(self._state.nodes, found, strict=True)}

    def alternatives(self, partition: str, *, now: float | None = None) -> tuple[Alternatives, ...]:
        """Return, for each replica of a partition, where it could stand instead and what rules the other nodes out.

        The replicas come in the order of `replicas`, departing ends and standbys aside; without nodes there are none.
        Each is judged with all others where they stand; the rules are those of placement.

        Parameters
        ----------
        now
            Time in seconds on the host's clock; None: the latest seen.

        Raises
        ------
        UnknownNameError
            If the partition is not known.
        InvalidValueError
            If `now` is not finite.
        """
        return self._planner.alternatives(partition, self._planner.time(now))

    def violations(self, *, soft: bool = False) -> tuple[Violation, ...]:
        """Return what is wrong with the cluster as it stands.

        These are the nodes that are up and whose load has reached a violation threshold, then the broken constraints:
        replicas on nodes that their service does not want, fault and upgrade domains that hold too many or too few of a
        partition, children apart from their parents, and replicas that break a constraint of the user's own.

        Parameters
        ----------
        soft
            Whether broken constraints that are soft or only wished for are told too.

        Raises
        ------
        InvalidValueError
            If `soft` is neither True nor False.
        """
        return self._planner.violations(soft=check_switch("violations", "soft", soft))

    def place(
        self,
        partition: str | Iterable[str] | None = None,
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
        if partition is None:
            return self._run(Phase.PLACEMENT, now, budget)
        names = (partition,) if isinstance(partition, str) else check_names("place", "partition", partition)
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
        InvalidValueError
            If the plan was made by hand and has what is no move.
        """
        check_kind("apply", "plan", plan, Plan)
        check_switch("apply", "leaving", leaving)
        check_moves(self._state, plan.moves, leaving=leaving)
        for move in plan.moves:
            apply_move(self._state, move, leaving=leaving)

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
        self, phase: Phase, now: float | None, budget: Budget | int | None, names: tuple[str, ...] | None = None
    ) -> Plan:
        return self._planner.run([phase], self._planner.time(now), Budget.of(budget), names)

    def _note_node_event(self, before: Node | None, after: Node | None, at: float) -> None:
        """Hold balancing back for a while where a node came or went."""
        event = node_event(before, after)
        if event is not None:
            self._planner.scheduler.note_node_event(event, self._state.living_indices(), at)
