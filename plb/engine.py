"""The public interface of the engine: the calls of host programs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from plb.compiler import uninterrupted
from plb.described_cluster import DescribedCluster
from plb.engine_extensions import EngineExtensions, GivenExtensions
from plb.errors import ConflictError
from plb.extensions.constraints import Constraint
from plb.extensions.energy_terms import EnergyTerm
from plb.extensions.neighbourhoods import AnyNeighbourhood
from plb.extensions.policies import PlacementPolicy
from plb.model import Partition, Role
from plb.model.alternatives import Alternatives, NodeScores
from plb.model.move import Phase
from plb.model.plan import Plan
from plb.model.rules import Violation
from plb.model.snapshot import Snapshot
from plb.planning.explanations.queries import (
    DomainState,
    load_of_next,
    loads_of_nodes,
    states_of_domains,
    total_capacities,
)
from plb.search.budget import Budget
from plb.settings.config import PlbConfig
from plb.state.applied_moves import apply_moves, vacate
from plb.state.cluster_state import ClusterState
from plb.validation import check_count, check_kind, check_loads, check_names, check_switch

if TYPE_CHECKING:
    from plb.risk.demand_history import DemandHistory


class PlacementAndLoadBalancing(DescribedCluster):
    """Places replicas on nodes, repairs broken constraints and balances load, by simulated annealing.

    In all methods `now` is a time in seconds on the host's clock, which may start anywhere; None is the latest time
    seen. A `budget` is a `Budget`, or a number of proposals over all chains; None is the budget of the settings. A
    `now` that is not finite, or a budget that is not a whole number of at least 0, raises `InvalidValueError`.

    An error of an extension ends the call with an `ExtensionError`, and the engine is as before the call. So it is
    after Ctrl-C in a search or a query; calls that change the cluster or the settings end before Ctrl-C takes effect.
    So do SIGTERM and SIGALRM, if their handlers raise.

    Parameters
    ----------
    config
        The settings.
    seed
        Seed of all random numbers, of any size. The same seed, inputs and budgets give the same plans for any number of
        threads.
    history
        Past tenants as demand models. With a ``w_failovers`` or ``w_overload`` above 0, searches use it to estimate
        violations.
    extension_terms, extension_constraints
        Energy terms and constraints of the engine's own, which it copies. `config` sets the weights of terms by their
        names; a term that it does not name has the weight 1. Each name in `config` is the name of one of them.
    extension_policy
        A placement policy of the engine's own, or None. `config` names it or no policy.
    extension_neighbourhoods
        Neighbourhoods of the engine's own, which it copies, for the steps of several moves in balancing. They follow
        the neighbourhoods of `config`; its `larger_neighbourhood_share` has to be above 0.

    Raises
    ------
    InvalidValueError
        If `config` or `history` has another type, `seed` is not a whole number of at least 0, or an extension lacks
        a method.
    UnknownNameError
        If the estimator needs a metric that the history lacks, or no extension has a name of `config`.
    ConflictError
        If two extensions of a kind have one name, one has the name of a built-in, `config` names a policy other than
        the given one, or a neighbourhood has no part of the budget.
    """

    def __init__(
        self,
        config: PlbConfig,
        *,
        seed: int = 0,
        history: DemandHistory | None = None,
        extension_terms: Iterable[EnergyTerm] = (),
        extension_constraints: Iterable[Constraint] = (),
        extension_policy: PlacementPolicy | None = None,
        extension_neighbourhoods: Iterable[AnyNeighbourhood] = (),
    ) -> None:
        from plb.planning.planner import Planner
        from plb.risk.demand_history import DemandHistory

        check_kind("engine", "config", config, PlbConfig)
        objects = GivenExtensions.of(extension_terms, extension_constraints, extension_policy, extension_neighbourhoods)
        extensions = EngineExtensions.resolve(config, objects)
        if history is not None:
            check_kind("engine", "history", history, DemandHistory)
        self._state = ClusterState(extensions.config)
        seed = check_count("engine", "seed", seed)
        self._planner = Planner(self._state, seed=seed, history=history, extensions=extensions)

    @classmethod
    def from_snapshot(
        cls,
        snapshot: Snapshot,
        *,
        history: DemandHistory | None = None,
        config: PlbConfig | None = None,
        extension_terms: Iterable[EnergyTerm] = (),
        extension_constraints: Iterable[Constraint] = (),
        extension_policy: PlacementPolicy | None = None,
        extension_neighbourhoods: Iterable[AnyNeighbourhood] = (),
    ) -> PlacementAndLoadBalancing:
        """Return an engine that continues from a snapshot: it plans as the engine of the snapshot does.

        Its next repair or balancing may search once more where that engine has nothing to do. Its extensions have to be
        given as before.

        Parameters
        ----------
        history
            History of the snapshot's engine; its digest is compared. It is not part of the snapshot, because it can
            be larger than all else, stays the same from snapshot to snapshot, and hosts have it anyway.
        config
            Settings to continue with, as by `configure`; None: the settings of the snapshot.
        extension_terms, extension_constraints, extension_policy, extension_neighbourhoods
            As for a new engine. A snapshot holds their names, not the objects.

        Raises
        ------
        InvalidValueError
            If `history` is another one, the snapshot does not hold what an engine consists of, or an argument has
            another type.
        UnknownNameError
            If no extension has a name of the settings.
        ConflictError
            If the metrics of `config`, or their quanta, are others, or the given extensions conflict.
        """
        from plb.planning.snapshots import planner_of
        from plb.risk.demand_history import DemandHistory

        check_kind("from_snapshot", "snapshot", snapshot, Snapshot)
        if history is not None:
            check_kind("from_snapshot", "history", history, DemandHistory)
        engine = cls.__new__(cls)
        objects = GivenExtensions.of(extension_terms, extension_constraints, extension_policy, extension_neighbourhoods)
        engine._planner = planner_of(snapshot, history, objects)
        engine._state = engine._planner.state
        if config is not None:
            engine.configure(config)
        return engine

    def snapshot(self) -> Snapshot:
        """Return the state of the engine, without the history and where searches have ended; the engine stays as it is.

        Raises
        ------
        ConflictError
            If the placement policy keeps something from plan to plan, but has no `memory`
            (`plb.extensions.policies.RememberingPolicy`).
        InvalidValueError
            If an option of the policy is no number, text, switch, list or tuple.
        """
        from plb.planning.snapshots import snapshot_of

        return snapshot_of(self._planner)

    @property
    def config(self) -> PlbConfig:
        """The settings; they also name the extensions that the engine was given."""
        return self._state.config

    @property
    def seed(self) -> int:
        """Seed of the searches to come, a whole number of at least 0; another raises `InvalidValueError`."""
        return self._planner.seed

    @seed.setter
    def seed(self, seed: int) -> None:
        self._planner.reseed(check_count("engine", "seed", seed))

    def configure(self, config: PlbConfig) -> None:
        """Replace the settings; the metrics must keep their names.

        Raises
        ------
        ConflictError
            If the metrics or the quantum of a metric change, or a policy other than the given one is named.
        InvalidValueError
            If it is not a `PlbConfig`.
        UnknownNameError
            If the estimator needs a metric that the history lacks, or no extension has a name of the settings.
        """
        check_kind("configure", "config", config, PlbConfig)
        before = self._planner.extensions
        extensions = EngineExtensions.resolve(config, before.host_extensions, before)
        if config.metric_names != self.config.metric_names:
            raise ConflictError(f"configure: metrics {config.metric_names} differ from {self.config.metric_names}")
        for metric, present in zip(config.metrics, self.config.metrics, strict=True):
            if metric.quantum != present.quantum:
                raise ConflictError(
                    f"configure: quantum of metric {metric.name} is {present.quantum}; it cannot change"
                )
        self._planner.configure(extensions)

    # queries

    def expected_load(self, partition: str, role: Role | str) -> dict[str, float]:
        """Return the load by metric, in user units, that the next replica of a role has until its own report.

        Raises
        ------
        UnknownNameError
            If the partition is not known.
        InvalidValueError
            If the role does not fit the service.
        """
        return load_of_next(self._state, partition, role)

    def total_capacities(self) -> dict[str, float]:
        """Return the capacity by metric, in user units, of all nodes that are up and not deactivated.

        A node without a capacity for a metric adds nothing.
        """
        return total_capacities(self._state)

    def node_loads(self) -> dict[str, dict[str, float]]:
        """Return the load of every node by metric, in user units; departing replicas do not count.

        Raises
        ------
        InvalidValueError
            If loads, or expected demand, are too large for the sums that searches use.
        """
        if not self._state.nodes:
            return {}
        planner = self._planner
        return loads_of_nodes(self._state, planner.start(planner.problem(planner.now)).node_load)

    def service_domains(self) -> tuple[DomainState, ...]:
        """Return the service domains, each with what the last refresh did for it; each is searched separately."""
        return states_of_domains(self._state, self._planner.scheduler, self._planner.domains.found())

    def violation_probabilities(
        self, now: float | None = None, *, partition: str | None = None, within: float | None = None
    ) -> dict[str, float]:
        """Return the probability of a violation of each node, from the estimator of the settings.

        All are 0 if `w_failovers` and `w_overload` are 0, and for nodes that do not count. With
        ``historical-simulation`` they also depend on the present demand, and are smoothed
        (`plb.risk.historical_simulation`).

        Parameters
        ----------
        partition
            Name of a partition that misses a replica; each probability then holds with this replica on the node.
        within
            Seconds within which a violation counts, in whole slots of ``historical-simulation``, rounded up. None: the
            horizon of the estimator. Other estimators cannot change theirs, and refuse one.

        Raises
        ------
        UnknownNameError
            If the partition is not known.
        ConflictError
            If the partition misses no replica, or the estimator cannot change its horizon.
        InvalidValueError
            If `within` is not above 0, or is more than the slots that the estimator keeps.
        """
        probabilities = self._planner.violation_probabilities(self._planner.time(now), partition, within)
        return {
            node.name: float(probability) for node, probability in zip(self._state.nodes, probabilities, strict=True)
        }

    def alternatives(self, partition: str, *, now: float | None = None) -> tuple[Alternatives, ...]:
        """Return, for each replica of a partition, the nodes that could take it and the rules that refuse the others.

        Replicas are in the order of `replicas`, without departing ends and standbys; without nodes the result is empty.
        All other replicas stay in their places. The rules of placement hold.

        Raises
        ------
        UnknownNameError
            If the partition is not known.
        """
        return self._planner.alternatives(partition, self._planner.time(now))

    def score(self, partition: str, *, now: float | None = None) -> NodeScores:
        """Return what every node is worth for the next replica that a partition misses, in one pass over the nodes.

        For hosts that choose the nodes themselves. The order of the missing replicas is that of `replicas`; all others
        stay in their places. The rules of placement hold, without budgets of moves.

        Raises
        ------
        UnknownNameError
            If the partition is not known.
        ConflictError
            If the partition misses no replica.
        """
        return self._planner.score(partition, self._planner.time(now))

    def score_new(
        self, partition: Partition, *, loads: Mapping[str, float] | None = None, now: float | None = None
    ) -> NodeScores:
        """Return what every node is worth for a replica of a partition that the engine does not have.

        As `score` once the partition was added with one missing replica; the engine is as before afterwards.

        Parameters
        ----------
        loads
            Loads of the replica by metric, in user units, in place of the default loads of its service.

        Raises
        ------
        UnknownNameError
            If its service or a metric is not known.
        ConflictError
            If the partition is known, or its service is on every node.
        InvalidValueError
            If a load is negative, not finite, or too large for the metric's quantum.
        """
        check_kind("score_new", "partition", partition, Partition)
        checked = check_loads("score_new", "loads", {} if loads is None else loads)
        return self._planner.score_of_new(partition, checked, self._planner.time(now))

    def violations(self, *, soft: bool = False) -> tuple[Violation, ...]:
        """Return the violations of the present cluster.

        These are the nodes that are up and whose load has reached a violation threshold, then the broken constraints:
        replicas on nodes that have to be emptied or that their service excludes, fault and upgrade domains with too
        many or too few replicas of a partition, children apart from their parents, and replicas that break an
        extension.

        Parameters
        ----------
        soft
            Whether broken soft and preferred constraints are included. A value that is not a bool raises
            `InvalidValueError`.
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
            Name of a partition, or names of several; None: all that miss a replica. An unknown name raises
            `UnknownNameError`.
        """
        if partition is None:
            return self._run(Phase.PLACEMENT, now, budget)
        names = (partition,) if isinstance(partition, str) else check_names("place", "partition", partition)
        return self._run(Phase.PLACEMENT, now, budget, names)

    def repair(self, *, now: float | None = None, budget: Budget | int | None = None) -> Plan:
        """Repair broken constraints with as few moves as the search finds.

        A repair of an unchanged cluster after a repair makes no move, unless a budget of moves limited the last one.
        """
        return self._run(Phase.REPAIR, now, budget)

    def balance(
        self, *, now: float | None = None, budget: Budget | int | None = None, start: Plan | None = None
    ) -> Plan:
        """Lower the energy by moving replicas, if a metric is out of balance.

        Balancing an unchanged cluster after balancing makes no move, with the same exception as `repair`.

        Parameters
        ----------
        start
            A plan of this cluster that has not been applied. The search begins where it leads, and the new plan takes
            its place: moves count from the present nodes, and the energy is no higher. So a long search is made in
            several calls. None: the search begins at the present nodes.

        Raises
        ------
        InvalidValueError
            If `start` does more than move replicas and swap roles.
        ConflictError
            If a move of it no longer fits the cluster, or breaks a hard rule now.
        UnknownNameError
            If a partition or a node of it is no longer known.
        """
        if start is not None:
            check_kind("balance", "start", start, Plan)
        return self._run(Phase.BALANCING, now, budget, start=start)

    def refresh(self, now: float, *, budget: Budget | int | None = None) -> Plan:
        """Run the phases that are due: placement, then repair, then balancing if the others had nothing to do.

        The cluster that the engine knows does not change until `apply`.
        """
        return self._planner.refresh(self._planner.time(now), Budget.of(budget))

    def advance(self, now: float) -> None:
        """Let the time `now` come without a plan: what follows is as after a plan at that time that was not applied.

        Services on every node have slots for the present nodes, and historical simulation enters the slot of the time.
        For hosts in which one engine plans and another one, that is told the same, answers. A `now` that is not finite
        raises `InvalidValueError`.
        """
        self._planner.advance(self._planner.time(now))

    @uninterrupted
    def apply(self, plan: Plan, *, leaving: bool = False) -> None:
        """Apply the moves of a plan to the cluster that the engine knows.

        Parameters
        ----------
        leaving
            True: the moves have begun. Every replica that moves keeps a departing end on its source until `vacate`; its
            load counts in the checks of capacity. A move back to that source ends the departing end, too.

        Raises
        ------
        ConflictError
            If a move no longer fits the cluster; nothing is changed then.
        UnknownNameError
            If a partition or a node of the plan is no longer known; nothing is changed then.
        InvalidValueError
            If a plan made by hand contains something that is not a move.
        """
        check_kind("apply", "plan", plan, Plan)
        check_switch("apply", "leaving", leaving)
        apply_moves(self._state, plan.moves, leaving=leaving)
        self._planner.note_applied(plan)

    @uninterrupted
    def vacate(self, partition: str, node: str) -> None:
        """Remove the departing end of a move from `node`.

        Raises
        ------
        ConflictError
            If no replica of the partition is leaving that node.
        UnknownNameError
            If partition or node is not known.
        """
        vacate(self._state, partition, node)

    def _run(
        self,
        phase: Phase,
        now: float | None,
        budget: Budget | int | None,
        names: tuple[str, ...] | None = None,
        start: Plan | None = None,
    ) -> Plan:
        """Return the plan of one phase; `names` are the partitions to place (None: all), `start` is as in `balance`."""
        return self._planner.run([phase], self._planner.time(now), Budget.of(budget), names, start=start)
