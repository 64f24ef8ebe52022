"""The state machines: replicas move, are exchanged, removed and placed again; a risk model follows one node."""

from __future__ import annotations

import unittest
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from itertools import combinations
from typing import Any, ClassVar

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from plb.array_types import NOWHERE
from plb.errors import InvalidValueError
from plb.extensions.configuration import Configuration, Proposal
from plb.extensions.constraints import Constraint, count_in, sums_from_scratch
from plb.extensions.energy_terms import EnergyTerm, apply_proposal_of_terms, begin, missing_methods, take_back
from plb.extensions.kernel_data import difference
from plb.risk.risk_model import ReplicaForecast, RiskModel
from plb.testing.cluster import Cluster, configuration_of
from plb.testing.cluster_strategies import small_clusters
from plb.testing.facts import (
    OF_CONSTRAINTS,
    OF_RISK_MODELS,
    OF_TERMS,
    BrokenInvariantError,
    Invariant,
    broken_rows,
    check_agreement,
    check_increment,
    check_label,
    check_order,
    check_total,
    same,
    text_of_proposal,
    value_from_scratch,
)
from plb.testing.histories import replica_forecasts
from plb.testing.relabelling import with_nodes_swapped, with_rows_swapped, with_units_halved
from plb.validation import check_names

some_row = st.integers(0, 15)
"""Numbers of rows; larger ones than there are wrap around."""
some_node = st.integers(0, 7)
"""Indices of nodes; larger ones than there are wrap around."""
NOW = 10
"""Time of every estimate of a risk model, in seconds."""


class ConfigurationMachine(RuleBasedStateMachine):
    """Random proposals, one after the other; rows and nodes are numbered from 0 and wrap around.

    The subject decides what is done with them: subclasses have `ask`, `apply_proposal`, `take_back` and `compare`.
    """

    subject: ClassVar[Any]
    """The term or constraint; every example tests a copy."""
    asked: ClassVar[frozenset[Invariant]]
    """The invariants that are checked."""
    made_for: ClassVar[tuple[Callable[[Cluster], Any]] | None]
    """Makes the subject of an example; in a tuple, as it is no method."""
    configuration: Configuration
    """The present configuration."""
    ask: Callable[[Proposal], None]
    """Checks the answer for a proposal."""
    apply_proposal: Callable[[Proposal], None]
    """Applies a proposal, and records it in `applied`."""
    take_back: Callable[[], None]
    """Undoes the last proposal, and checks that values and sums are as before it."""
    compare: Callable[[Configuration, Invariant], None]
    """Compares with a configuration that differs in irrelevant properties."""

    @classmethod
    def begins_with(cls, clusters: st.SearchStrategy[Cluster]) -> dict[str, Any]:
        """Return the attributes of a subclass whose examples begin with a cluster of a strategy: the rule `begin`."""

        def begin(machine: ConfigurationMachine, cluster: Cluster) -> None:
            """Begin an example in a cluster."""
            machine.begin_in(cluster)

        return {"begin": initialize(cluster=clusters)(begin)}

    def begin_in(self, cluster: Cluster) -> None:
        """Start from a cluster, and check every proposal from there without applying it."""
        self.configuration = configuration_of(cluster.engine())
        self.tested = deepcopy(self.subject) if self.made_for is None else self.made_for[0](cluster)
        self.applied: list[Any] = []
        self.start()
        for proposal in self._all_proposals():
            self._ask_only(proposal)

    def start(self) -> None:
        """Let the subject form its sums from the first configuration."""

    def propose(self, proposal: Proposal) -> None:
        """Check a proposal, and apply it."""
        self._ask_only(proposal)
        self.apply_proposal(proposal)

    def _ask_only(self, proposal: Proposal) -> None:
        """Check the answer for a proposal, and that it moves no replica."""
        before = self.configuration.solution.node.copy()
        self.ask(proposal)
        if Invariant.ASKING in self.asked and (self.configuration.solution.node != before).any():
            raise BrokenInvariantError(
                Invariant.ASKING, f"replicas have moved after a question about {text_of_proposal(proposal)}"
            )

    @rule(row=some_row, node=some_node)
    def move(self, row: int, node: int) -> None:
        """Move a replica, or place one that waits."""
        moved = self._row(row)
        if moved is not None and self.configuration.node_of(moved) != node % self.configuration.nodes:
            self.propose(Proposal(moved, node % self.configuration.nodes))

    @rule(row=some_row, partner=some_row)
    def exchange(self, row: int, partner: int) -> None:
        """Let two replicas change nodes; of one partition they swap roles."""
        first, second = self._row(row), self._row(partner)
        if first is None or second is None:
            return
        source, target = self.configuration.node_of(first), self.configuration.node_of(second)
        if NOWHERE not in (source, target) and source != target:
            self.propose(Proposal(first, target, second))

    @rule(row=some_row)
    def take_off(self, row: int) -> None:
        """Take a replica off its node."""
        placed_row = self._row(row)
        if placed_row is not None and self.configuration.node_of(placed_row) != NOWHERE:
            self.propose(Proposal(placed_row, NOWHERE))

    @rule()
    def undo(self) -> None:
        """Take the last proposal back."""
        if self.applied:
            self.take_back()

    @rule(first=some_node, second=some_node)
    def relabel_nodes(self, first: int, second: int) -> None:
        """Let two nodes have each other's index."""
        first, second = first % self.configuration.nodes, second % self.configuration.nodes
        if first != second and Invariant.NODES in self.asked:
            self.compare(with_nodes_swapped(self.configuration, first, second), Invariant.NODES)

    @rule(first=some_row, second=some_row)
    def relabel_replicas(self, first: int, second: int) -> None:
        """Let two replicas have each other's row."""
        rows = self._row(first), self._row(second)
        if None not in rows and rows[0] != rows[1] and Invariant.REPLICAS in self.asked:
            self.compare(with_rows_swapped(self.configuration, *rows), Invariant.REPLICAS)  # type: ignore[arg-type]

    @rule()
    def halve_units(self) -> None:
        """Count loads and capacities in units half as large."""
        if Invariant.SCALE in self.asked:
            self.compare(with_units_halved(self.configuration), Invariant.SCALE)

    def _all_proposals(self) -> Iterator[Proposal]:
        """Yield every move of a replica, and every exchange of two."""
        rows = [int(row) for row in self.configuration.rows]
        for row in rows:
            for node in range(self.configuration.nodes):
                if node != self.configuration.node_of(row):
                    yield Proposal(row, node)
        for row, partner in combinations(rows, 2):
            source, target = self.configuration.node_of(row), self.configuration.node_of(partner)
            if NOWHERE not in (source, target) and source != target:
                yield Proposal(row, target, partner)

    def _row(self, number: int) -> int | None:
        """Return the row of a replica by its number, which wraps around; None without replicas."""
        rows = self.configuration.rows
        return int(rows[number % len(rows)]) if len(rows) else None


class TermMachine(ConfigurationMachine):
    """Random proposals, for which an energy term is checked."""

    tested: EnergyTerm
    _value: float | None = None

    @property
    def value(self) -> float:
        """The value of the present configuration from scratch, computed once after each change."""
        if self._value is None:
            self._value = value_from_scratch(self.tested, self.configuration)
        return self._value

    def start(self) -> None:
        """Let the term form its sums."""
        begin(self.tested, self.configuration)

    def ask(self, proposal: Proposal) -> None:
        """Compare the change that the term returns with its totals."""
        if Invariant.INCREMENT in self.asked and proposal.target != NOWHERE:  # no search evaluates dropped replicas
            check_increment(self.tested, self.configuration, self.value, proposal)

    def apply_proposal(self, proposal: Proposal) -> None:
        """Apply a proposal, and compare the total with one from scratch."""
        back = apply_proposal_of_terms((self.tested,), self.configuration, proposal)
        self._value = None
        self.applied.append((proposal, back))
        check_total(self.tested, self.configuration, self.value, Invariant.INCREMENT)

    def take_back(self) -> None:
        """Undo the last proposal, and compare the total with one from scratch."""
        proposal, back = self.applied.pop()
        take_back((self.tested,), self.configuration, proposal, back)
        self._value = None
        if Invariant.UNDO in self.asked:
            check_total(self.tested, self.configuration, self.value, Invariant.UNDO)

    def compare(self, relabelled: Configuration, invariant: Invariant) -> None:
        """Compare the total with the total of a relabelled configuration."""
        check_label(self.tested, self.value, relabelled, invariant)

    @rule(first=some_row)
    def reorder(self, first: int) -> None:
        """Reach the present places from the start by single moves in the order of rows, from the row `first` on."""
        if Invariant.ORDER in self.asked:
            check_order(self.tested, self.configuration, self.value, first)


class ConstraintMachine(ConfigurationMachine):
    """Random proposals, for which a constraint is checked."""

    tested: Constraint
    _broken: frozenset[int] | None = None

    @property
    def broken(self) -> frozenset[int]:
        """The rows that break the constraint now, from a new copy of it, computed once after each change."""
        if self._broken is None:
            self._broken = broken_rows(self.tested, self.configuration)
        return self._broken

    def start(self) -> None:
        """Let the constraint form its sums."""
        self.sums = sums_from_scratch(self.tested, self.configuration)

    def ask(self, proposal: Proposal) -> None:
        """Compare the answer of the constraint for the proposal with the broken rows after it."""
        if Invariant.AGREEMENT in self.asked:
            check_agreement(self.tested, self.configuration, self.broken, proposal)

    def apply_proposal(self, proposal: Proposal) -> None:
        """Apply a proposal, record the rows broken before it, and compare the sums with those from scratch."""
        before = self.broken
        self._count(proposal)
        self.applied.append((self.configuration.apply(proposal), before))
        self._broken = None
        self._check_sums(Invariant.INCREMENT)

    def take_back(self) -> None:
        """Undo the last proposal.

        Compare the broken rows with those before it, and the sums with those from scratch.
        """
        back, before = self.applied.pop()
        self._count(back)
        self.configuration.apply(back)
        self._broken = None
        self._check_sums(Invariant.UNDO)
        after = frozenset(int(row) for row in self.tested.broken(self.configuration))
        if after != before and Invariant.UNDO in self.asked:
            raise BrokenInvariantError(Invariant.UNDO, f"rows {sorted(after)} are broken, before {sorted(before)}")

    def _count(self, proposal: Proposal) -> None:
        """Update the sums of the constraint for the replicas that a proposal moves."""
        for relocation in self.configuration.relocations(proposal):
            for node, sign in ((relocation.source, -1), (relocation.target, 1)):
                if node != NOWHERE:
                    count_in(self.tested, self.configuration, self.sums, relocation.row, node, sign)

    def _check_sums(self, invariant: Invariant) -> None:
        """Raise an error for an invariant if the sums of the constraint are not those from scratch."""
        wrong = difference(self.sums, sums_from_scratch(self.tested, self.configuration))
        if wrong is not None and invariant in self.asked:
            index, kept, right = wrong
            raise BrokenInvariantError(invariant, f"sum {index} is {kept}, from scratch it is {right}")

    def compare(self, relabelled: Configuration, invariant: Invariant) -> None:
        """Compare the number of broken rows with the number in a relabelled configuration."""
        before, after = len(self.broken), len(broken_rows(self.tested, relabelled))
        if before != after:
            raise BrokenInvariantError(invariant, f"the broken rows go from {before} to {after}")


class RiskMachine(RuleBasedStateMachine):
    """Replicas are added to a node and removed, and a risk model estimates the risk."""

    subject: ClassVar[RiskModel]
    """The risk model; every example tests a copy."""
    asked: ClassVar[frozenset[Invariant]]
    """The invariants that are checked."""
    metrics: ClassVar[tuple[str, ...]]
    """Names of the metrics."""

    @initialize(data=st.data())
    def begin(self, data: Any) -> None:
        """Start with an empty node."""
        levels = st.fixed_dictionaries({name: st.integers(1, 40).map(float) for name in self.metrics})
        self.thresholds: dict[str, float] = data.draw(levels, label="thresholds")
        self.replicas: list[ReplicaForecast] = []
        self.model = deepcopy(self.subject)
        risk = self._risk(self.replicas)
        self._expect(Invariant.EMPTY, risk == 0.0, f"its risk is {risk:.9g}")

    @rule(data=st.data())
    def join(self, data: Any) -> None:
        """Add a replica."""
        before = self._risk(self.replicas)
        self.replicas.append(data.draw(replica_forecasts(self.metrics, now=NOW), label="replica"))
        after = self._risk(self.replicas)
        story = f"the risk goes from {before:.9g} to {after:.9g} as a replica joins"
        self._expect(Invariant.MORE_REPLICAS, after >= before or same(after, before), story)

    @rule(number=st.integers(0, 7))
    def leave(self, number: int) -> None:
        """Remove a replica."""
        if self.replicas:
            del self.replicas[number % len(self.replicas)]
            self._risk(self.replicas)

    @rule()
    def ask_again(self) -> None:
        """Estimate the same risk with a new copy of the model."""
        risk, again = self._risk(self.replicas), self._risk(self.replicas, deepcopy(self.subject))
        self._expect(Invariant.REPEATS, risk == again, f"the risk is {risk:.9g}, a copy says {again:.9g}")

    @rule(first=st.integers(0, 7))
    def reorder(self, first: int) -> None:
        """Give the replicas in another order."""
        first = first % len(self.replicas) if self.replicas else 0
        before, after = self._risk(self.replicas), self._risk(self.replicas[first:] + self.replicas[:first])
        self._expect(Invariant.ORDER, same(before, after), f"the risk goes from {before:.9g} to {after:.9g}")

    @rule(metric=st.integers(0, 7))
    def raise_threshold(self, metric: int) -> None:
        """Increase the capacity of the node."""
        before, name = self._risk(self.replicas), self.metrics[metric % len(self.metrics)]
        self.thresholds[name] += 1.0
        after = self._risk(self.replicas)
        story = f"the risk goes from {before:.9g} to {after:.9g} as {name} has more capacity"
        self._expect(Invariant.HIGHER_THRESHOLD, after <= before or same(after, before), story)

    def _risk(self, replicas: list[ReplicaForecast], model: RiskModel | None = None) -> float:
        """Return the probability of a violation of the node with replicas, by `model` or the tested one."""
        estimator = self.model if model is None else model
        risk = float(
            estimator.probability_of_violation(list(replicas), thresholds=dict(self.thresholds), now=float(NOW))
        )
        self._expect(Invariant.RANGE, 0.0 <= risk <= 1.0, f"it is {risk:.9g}")
        return risk

    def _expect(self, invariant: Invariant, holds: bool, story: str) -> None:
        """Raise an error with `story` if an invariant is checked and does not hold."""
        if invariant in self.asked and not holds:
            raise BrokenInvariantError(invariant, story)


KINDS: tuple[tuple[type, type[RuleBasedStateMachine], tuple[Invariant, ...]], ...] = (
    (EnergyTerm, TermMachine, OF_TERMS),
    (Constraint, ConstraintMachine, OF_CONSTRAINTS),
    (RiskModel, RiskMachine, OF_RISK_MODELS),
)
"""The kinds of subjects, their machines, and their invariants."""
SETTINGS = settings(
    deadline=None,
    report_multiple_bugs=False,
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.too_slow],
)
"""The first example compiles kernels, so a deadline would measure the compiler."""
REPEATABLE = settings(SETTINGS, derandomize=True, database=None, print_blob=False)
"""Settings with the same examples in every run."""


def machine_of(
    subject: EnergyTerm | Constraint | RiskModel,
    *,
    without: Iterable[Invariant] = (),
    metrics: Iterable[str] = ("cpu", "disk"),
    clusters: st.SearchStrategy[Cluster] | None = None,
    made_for: Callable[[Cluster], EnergyTerm | Constraint] | None = None,
) -> type[unittest.TestCase]:
    """Return a test case for a term, a constraint or a risk model: ``TestMyTerm = machine_of(MyTerm())``.

    Parameters
    ----------
    subject
        The subject; every example uses a copy.
    without
        Invariants that do not apply to it, such as `Invariant.SCALE` for a term in units of load.
    metrics
        For a risk model: names of its metrics.
    clusters
        For a term or a constraint: the strategy of its clusters, such as ``small_clusters(nodes=...)`` with the fields
        of nodes that its data are about. None: `small_clusters`.
    made_for
        For a term or a constraint: makes the subject of an example from its cluster, so that its data are about the
        nodes, services and partitions that are drawn. None: a copy of `subject`.

    Raises
    ------
    InvalidValueError
        `subject` is of another kind, or a term with only some of the methods for sums, or `metrics` is not a
        collection of names, or a risk model is to have clusters.
    """
    base, invariants = _kind_of(subject)
    if issubclass(base, ConfigurationMachine):
        begin = base.begins_with(small_clusters() if clusters is None else clusters)
    elif clusters is not None or made_for is not None:
        extra = clusters if made_for is None else made_for
        raise InvalidValueError("machine_of", "clusters or made_for", extra, "None for a risk model")
    else:
        begin = {}
    checked = frozenset(invariants) - frozenset(without)
    fields: dict[str, Any] = {
        "subject": subject,
        "asked": checked,
        "metrics": check_names("machine_of", "metrics", metrics),
        "made_for": None if made_for is None else (made_for,),
        **begin,
    }
    machine: Any = type(f"{type(subject).__name__}Machine", (base,), {**fields, "__doc__": base.__doc__})
    case: Any = machine.TestCase
    case.settings, case.machine = SETTINGS, machine
    return case  # type: ignore[no-any-return]


def counterexample(
    subject: EnergyTerm | Constraint | RiskModel,
    *,
    without: Iterable[Invariant] = (),
    clusters: st.SearchStrategy[Cluster] | None = None,
    made_for: Callable[[Cluster], EnergyTerm | Constraint] | None = None,
) -> str | None:
    """Return the shortest story found in which an invariant does not hold, or None; the same at every call.

    Parameters as for `machine_of`.
    """
    case: Any = machine_of(subject, without=without, clusters=clusters, made_for=made_for)
    try:
        run_state_machine_as_test(case.machine, settings=REPEATABLE)
    except Exception as error:
        notes = "\n".join(getattr(error, "__notes__", []))
        steps = [line.strip() for line in notes.splitlines() if line.strip() and "teardown" not in line]
        return "\n".join([*steps[1:], f"{type(error).__name__}: {error}"])
    return None


def _kind_of(subject: object) -> tuple[type[RuleBasedStateMachine], tuple[Invariant, ...]]:
    """Return the state machine and the invariants of a subject.

    Raise `InvalidValueError` for another kind of object.
    """
    for kind, machine, invariants in KINDS:
        if isinstance(subject, kind):
            if missing := missing_methods(subject) if kind is EnergyTerm else []:  # type: ignore[arg-type]
                raise InvalidValueError("machine_of", "subject", subject, f"one that also has {', '.join(missing)}")
            return machine, invariants
    raise InvalidValueError("machine_of", "subject", subject, "an energy term, a constraint or a risk model")
