"""A few facts in one line, and assertions on a term or a constraint.

``verify(MyTerm()).given(nodes=[10, 10], replicas=[(0, 4), (0, 2)]).moves((1, 1)).changes_by(-2.0)``
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import deepcopy
from enum import Enum

import attrs

from plb.array_types import NOWHERE
from plb.energy.from_scratch import solution_from_scratch
from plb.engine import PlacementAndLoadBalancing
from plb.errors import InvalidValueError
from plb.extensions.configuration import Configuration, Proposal
from plb.extensions.constraints import Constraint
from plb.extensions.energy_terms import EnergyTerm, apply_proposal_of_terms, begin, cost_at_node, delta
from plb.model import Metric, Node, Partition, Replica, Role, Service
from plb.settings.config import PlbConfig
from plb.testing.cluster import configuration_of


class Invariant(Enum):
    """What a state machine checks; the value is how a failure names it."""

    INCREMENT = "increment equals total"
    """The change that a term returns for a proposal is the difference of its totals, and its sums follow the moves."""
    UNDO = "undo restores"
    """After a proposal is undone, values and sums are as before it."""
    ORDER = "order does not matter"
    """The same places reached by moves in another order give the same value."""
    ASKING = "asking changes nothing"
    """No replica moves while a term or a constraint evaluates a proposal."""
    NODES = "relabelling nodes does not matter"
    """With the indices of two nodes swapped, the value is the same."""
    REPLICAS = "relabelling replicas does not matter"
    """With the rows of two replicas swapped, the value is the same."""
    SCALE = "scale does not matter"
    """Loads and capacities in units half as large give the same value."""
    AGREEMENT = "refusals agree with what is broken"
    """A proposal that a constraint allows breaks nothing new; one that it refuses would leave something broken."""
    RANGE = "a probability is between 0 and 1"
    REPEATS = "the same question has the same answer"
    EMPTY = "an empty node is safe"
    MORE_REPLICAS = "another replica never lowers the risk"
    HIGHER_THRESHOLD = "a higher threshold never raises the risk"


LABELS = (Invariant.NODES, Invariant.REPLICAS, Invariant.SCALE)
"""The invariants under other indices and units."""
OF_TERMS = (Invariant.INCREMENT, Invariant.ASKING, Invariant.UNDO, Invariant.ORDER, *LABELS)
OF_CONSTRAINTS = (Invariant.INCREMENT, Invariant.AGREEMENT, Invariant.ASKING, Invariant.UNDO, *LABELS)
OF_RISK_MODELS = (
    Invariant.RANGE,
    Invariant.REPEATS,
    Invariant.ORDER,
    Invariant.EMPTY,
    Invariant.MORE_REPLICAS,
    Invariant.HIGHER_THRESHOLD,
)

TOLERANCE = 1e-9
"""Largest difference, relative to the larger of the values and 1, at which two values are the same."""


class BrokenInvariantError(AssertionError):
    """An invariant does not hold; `story` says in words what happened, with numbers."""

    def __init__(self, invariant: Invariant, story: str) -> None:
        super().__init__(invariant, story)
        self.invariant, self.story = invariant, story

    def __str__(self) -> str:
        return f"{self.invariant.value}: {self.story}"


def same(value: float, expected: float, size: float = 1.0) -> bool:
    """Return whether two values agree within `TOLERANCE`, relative to the largest of them, of `size` and of 1."""
    largest = max(abs(value), abs(expected), abs(size), 1.0)
    return math.isfinite(value) and math.isfinite(expected) and abs(value - expected) <= TOLERANCE * largest


def begun(term: EnergyTerm, configuration: Configuration) -> EnergyTerm:
    """Return a copy of a term with sums that are computed anew for a configuration."""
    recomputed = deepcopy(term)
    begin(recomputed, configuration)
    return recomputed


def value_from_scratch(term: EnergyTerm, configuration: Configuration) -> float:
    """Return the value of a configuration from a new copy of a term."""
    return float(begun(term, configuration).total(configuration))


def check_increment(term: EnergyTerm, configuration: Configuration, before: float, proposal: Proposal) -> None:
    """Raise an error if the change that a term returns for a proposal is not the difference of its totals.

    `before` is the value of the configuration from scratch.
    """
    twin = copy_of(configuration)
    predicted = float(delta(term, configuration, proposal))
    twin.apply(proposal)
    after = value_from_scratch(term, twin)
    if not same(predicted, after - before, max(abs(before), abs(after))):
        raise BrokenInvariantError(
            Invariant.INCREMENT,
            f"delta says {predicted:.9g} for {text_of_proposal(proposal)}, "
            f"but the total goes from {before:.9g} to {after:.9g}",
        )


def check_total(term: EnergyTerm, configuration: Configuration, right: float, invariant: Invariant) -> None:
    """Raise an error if the total of a term, from the sums that it keeps, is not `right`, the value from scratch."""
    total = float(term.total(configuration))
    if not same(total, right):
        raise BrokenInvariantError(invariant, f"total says {total:.9g}, from scratch it is {right:.9g}")


def check_order(term: EnergyTerm, configuration: Configuration, right: float, first: int) -> None:
    """Raise an error if single moves from the original nodes to the present ones do not give the value `right`.

    Replicas move in the order of rows, from the one at position `first` on; `right` is the value from scratch.
    """
    problem = configuration.problem
    twin = Configuration(problem, solution_from_scratch(problem, problem.origin.copy()), configuration.description)
    term = begun(term, twin)
    changed = [int(row) for row in configuration.rows if configuration.node_of(row) != twin.node_of(row)]
    rows = [row for row in changed if configuration.node_of(row) != NOWHERE]
    for row in sorted(set(changed) - set(rows)):
        apply_proposal_of_terms((term,), twin, Proposal(row, NOWHERE))
    summed = float(term.total(twin))
    first = first % len(rows) if rows else 0
    for row in rows[first:] + rows[:first]:
        move = Proposal(row, configuration.node_of(row))
        summed += float(delta(term, twin, move))
        apply_proposal_of_terms((term,), twin, move)
    if not (same(summed, right) and same(float(term.total(twin)), right)):
        story = f"single moves of rows {rows[first:] + rows[:first]} end at {summed:.9g}, the total is {right:.9g}"
        raise BrokenInvariantError(Invariant.ORDER, story)


def check_label(term: EnergyTerm, before: float, relabelled: Configuration, invariant: Invariant) -> None:
    """Raise an error if a relabelled configuration has another value than `before`, the value from scratch without."""
    after = value_from_scratch(term, relabelled)
    if not same(before, after):
        raise BrokenInvariantError(invariant, f"the total goes from {before:.9g} to {after:.9g}")


def check_agreement(
    constraint: Constraint, configuration: Configuration, before: frozenset[int], proposal: Proposal
) -> None:
    """Raise an error if a constraint allows a proposal that breaks rows, or refuses one that leaves none broken.

    `before` are the rows that break the constraint without the proposal.
    """
    twin = copy_of(configuration)
    refused = constraint.refuses(configuration, proposal)
    twin.apply(proposal)
    after = broken_rows(constraint, twin)
    moved = {relocation.row for relocation in configuration.relocations(proposal)}
    if not refused and not after <= before:
        story = f"{text_of_proposal(proposal)} is allowed, but breaks rows {sorted(after - before)}"
        raise BrokenInvariantError(Invariant.AGREEMENT, story)
    if refused and not after & (moved | (after - before)):
        story = f"{text_of_proposal(proposal)} is refused, but would leave none of the rows it concerns broken"
        raise BrokenInvariantError(Invariant.AGREEMENT, story)


def broken_rows(constraint: Constraint, configuration: Configuration) -> frozenset[int]:
    """Return the rows that break a constraint, from a new copy of it."""
    return frozenset(int(row) for row in deepcopy(constraint).broken(configuration))


def copy_of(configuration: Configuration) -> Configuration:
    """Return a configuration that shares no mutable data with this one."""
    return Configuration(configuration.problem, configuration.solution.copy(), configuration.description)


def text_of_proposal(proposal: Proposal) -> str:
    """Return a proposal in words."""
    if proposal.target == NOWHERE:
        return f"taking row {proposal.row} off"
    if proposal.partner == NOWHERE:
        return f"moving row {proposal.row} to node {proposal.target}"
    return f"exchanging rows {proposal.row} and {proposal.partner}"


Quantity = float | Mapping[str, float]
"""A load or a capacity: of the first metric, or by metric."""
Standing = tuple[int, Quantity] | tuple[int, Quantity, str]
"""Of a replica, the index of its node, its load, and the name of its partition if that has several replicas."""


@attrs.frozen
class Verification:
    """A term or a constraint, before facts are given."""

    subject: EnergyTerm | Constraint
    """The term or the constraint."""

    def given(
        self,
        *,
        nodes: int | Sequence[Quantity | Node],
        replicas: Sequence[Standing],
        metrics: Sequence[str] = ("cpu",),
    ) -> Facts:
        """Return facts about the subject in an engine with these nodes and replicas.

        `nodes`: how many there are, without limits; or the capacity of each; or each as a `Node`.
        `replicas`: of each the number of its node and its load, and, if it is not alone in its partition, the
        partition's name: the first of these is the primary.
        `metrics`: names of the metrics.
        """
        partitions = [name[0] if name else f"replica {number}" for number, (_, _, *name) in enumerate(replicas)]
        engine = _engine(nodes, replicas, partitions, metrics)
        ranks = [partitions[:number].count(name) for number, name in enumerate(partitions)]
        rows = [engine.replicas(name)[rank].index for name, rank in zip(partitions, ranks, strict=True)]
        return Facts(self.subject, configuration_of(engine), rows)


class Facts:
    """A configuration with assertions; every method returns the facts, so that calls can be chained.

    `rows` has the row of each replica, by its number in `Verification.given`. `before` is the value of a term at first,
    `predicted` the sum of the changes that it returned, `refused` the refused moves of a constraint in words.
    """

    def __init__(self, subject: EnergyTerm | Constraint, configuration: Configuration, rows: Sequence[int]) -> None:
        self.subject, self.configuration, self._rows = deepcopy(subject), configuration, rows
        self.before = self.predicted = 0.0
        self.refused: list[str] = []
        if isinstance(self.subject, EnergyTerm):
            begin(self.subject, configuration)
            self.before = value_from_scratch(self.subject, configuration)

    def moves(self, *moves: tuple[int, int]) -> Facts:
        """Move replicas, each given by its number and the number of its new node."""
        for number, node in moves:
            self._ask_and_apply(Proposal(self._rows[number], node))
        return self

    def exchanges(self, *pairs: tuple[int, int]) -> Facts:
        """Let pairs of replicas, given by their numbers, change nodes."""
        for numbers in pairs:
            first, second = (self._rows[number] for number in numbers)
            self._ask_and_apply(Proposal(first, self.configuration.node_of(second), second))
        return self

    def totals(self, value: float) -> Facts:
        """Assert that the present value of the term, from scratch, is `value`."""
        self._expect("total", value, value_from_scratch(self._term, self.configuration))
        return self

    def changes_by(self, value: float) -> Facts:
        """Assert that the moves changed the term by `value`: its total from scratch, and the sum of its increments."""
        self._expect("change of the total", value, value_from_scratch(self._term, self.configuration) - self.before)
        self._expect("sum of the increments", value, self.predicted)
        return self

    def costs_by_node(self, *values: float) -> Facts:
        """Assert what each node contributes to the term now, by its `node_cost`."""
        assert len(values) == self.configuration.nodes, f"there are {self.configuration.nodes} nodes"
        for node, value in enumerate(values):
            self._expect(f"cost of node {node}", value, cost_at_node(self._term, self.configuration, node))
        return self

    def is_refused(self) -> Facts:
        """Assert that the constraint refuses one of the moves."""
        assert self.refused, f"{self._constraint.name} refuses none of the moves"
        return self

    def is_allowed(self) -> Facts:
        """Assert that the constraint refuses none of the moves."""
        assert not self.refused, f"{self._constraint.name} refuses {', '.join(self.refused)}"
        return self

    def breaks(self, *replicas: int) -> Facts:
        """Assert which replicas, by number, break the constraint now."""
        broken = broken_rows(self._constraint, self.configuration)
        right = {self._rows[number] for number in replicas}
        numbers = sorted(self._rows.index(row) for row in broken)
        assert broken == right, f"{self._constraint.name} is broken by replicas {numbers}, not by {sorted(replicas)}"
        return self

    @property
    def _term(self) -> EnergyTerm:
        """The subject; raises `InvalidValueError` unless it is a term."""
        if not isinstance(self.subject, EnergyTerm):
            raise InvalidValueError("verify", "subject", self.subject, "an energy term, because a value is asserted")
        return self.subject

    @property
    def _constraint(self) -> Constraint:
        """The subject; raises `InvalidValueError` unless it is a constraint."""
        if not isinstance(self.subject, Constraint):
            raise InvalidValueError("verify", "subject", self.subject, "a constraint, because refusals are asserted")
        return self.subject

    def _ask_and_apply(self, proposal: Proposal) -> None:
        """Apply a proposal after the subject is asked about it, and record its answer."""
        if isinstance(self.subject, EnergyTerm):
            self.predicted += float(delta(self.subject, self.configuration, proposal))
            apply_proposal_of_terms((self.subject,), self.configuration, proposal)
            return
        if self.subject.refuses(self.configuration, proposal):
            self.refused.append(text_of_proposal(proposal))
        self.configuration.apply(proposal)

    def _expect(self, quantity: str, expected: float, value: float) -> None:
        """Assert that a value, called `quantity` in the message, is the expected one."""
        assert same(value, expected), f"{self.subject.name}: the {quantity} is {value:.9g}, expected {expected:.9g}"


def verify(subject: EnergyTerm | Constraint) -> Verification:
    """Return a term or a constraint that is ready for facts."""
    return Verification(subject)


def _engine(
    nodes: int | Sequence[Quantity | Node],
    replicas: Sequence[Standing],
    partitions: Sequence[str],
    metrics: Sequence[str],
) -> PlacementAndLoadBalancing:
    """Return an engine with nodes and replicas; `partitions` has the name of the partition of each replica.

    `nodes`: their number, capacities, or nodes; `replicas`: node number, load and perhaps partition of each.
    """
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=[Metric(name) for name in metrics]))
    descriptions = [{}] * nodes if isinstance(nodes, int) else nodes
    node_objects = [
        node if isinstance(node, Node) else Node(f"n{i}", capacities=_by_metric(node, metrics))
        for i, node in enumerate(descriptions)
    ]
    for node in node_objects:
        engine.update_node(node)
    for name in dict.fromkeys(partitions):
        members = [number for number, partition in enumerate(partitions) if partition == name]
        stateful = len(replicas[members[0]]) > 2
        engine.update_service(Service(name, stateful=stateful, target_replicas=len(members)))
        roles = [Role.PRIMARY, *[Role.SECONDARY] * len(members)] if stateful else [Role.INSTANCE]
        placed = [Replica(role, node_objects[replicas[n][0]].name) for n, role in zip(members, roles, strict=False)]
        engine.update_partition(Partition(name, service=name, replicas=placed))
        for number in members:
            engine.report_load(name, node_objects[replicas[number][0]].name, _by_metric(replicas[number][1], metrics))
    return engine


def _by_metric(quantity: Quantity, metrics: Sequence[str]) -> Mapping[str, float]:
    """Return a load or a capacity by metric; a number is of the first metric."""
    return quantity if isinstance(quantity, Mapping) else {metrics[0]: quantity}
