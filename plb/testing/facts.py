"""A few facts in one line, and assertions on a term or a constraint.

``verify(MyTerm()).given(nodes=[10, 10], replicas=[(0, 4), (0, 2)]).moves((1, 1)).changes_by(-2.0)``
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy

import attrs

from plb.engine import PlacementAndLoadBalancing
from plb.errors import InvalidValueError
from plb.extensions.configuration import Configuration, Proposal
from plb.extensions.constraints import Constraint
from plb.extensions.energy_terms import EnergyTerm, apply_proposal_of_terms, begin, cost_at_node, delta
from plb.model import Metric, Node, Partition, Replica, Role, Service
from plb.settings.config import PlbConfig
from plb.testing.cluster import configuration_of
from plb.testing.invariants import broken_rows, same, text_of_proposal, value_from_scratch

Quantity = float | Mapping[str, float]
"""A load or a capacity: of the first metric, or by metric."""
Standing = tuple[int, Quantity] | tuple[int, Quantity, str]
"""The number of the node of a replica, its load, and the name of its partition, if it is not alone there."""


@attrs.frozen
class Verification:
    """A term or a constraint, before facts are given."""

    subject: EnergyTerm | Constraint

    def given(
        self,
        *,
        nodes: int | Sequence[Quantity | Node],
        replicas: Sequence[Standing],
        metrics: Sequence[str] = ("cpu",),
    ) -> Facts:
        """Return the facts.

        Parameters
        ----------
        nodes
            How many there are, without limits; or the capacity of each; or each as a `Node`.
        replicas
            Of each the number of its node and its load, and, if it is not alone in its partition, the partition's name:
            the first of these is the primary.
        metrics
            Names of the metrics.
        """
        partitions = [given[2] if len(given) > 2 else f"replica {number}" for number, given in enumerate(replicas)]
        engine = _engine(nodes, replicas, partitions, metrics)
        places = [partitions[:number].count(name) for number, name in enumerate(partitions)]
        rows = [engine.replicas(name)[place].index for name, place in zip(partitions, places, strict=True)]
        return Facts(self.subject, configuration_of(engine), rows)


class Facts:
    """A configuration with assertions; every method returns the facts, so that calls can be chained.

    Parameters
    ----------
    subject
        The term or the constraint.
    configuration
        What is given; changed by `moves`.
    rows
        Row of each replica that was given.
    """

    def __init__(self, subject: EnergyTerm | Constraint, configuration: Configuration, rows: Sequence[int]) -> None:
        self.subject, self.configuration, self._rows = deepcopy(subject), configuration, rows
        self.before = self.predicted = 0.0
        self.refused: list[str] = []
        if isinstance(self.subject, EnergyTerm):
            begin(self.subject, configuration)
            self.before = value_from_scratch(self.subject, configuration)

    def moves(self, *moves: tuple[int, int]) -> Facts:
        """Move replicas, each given by its number and that of its new node."""
        for number, node in moves:
            self._apply_moves(Proposal(self._rows[number], node))
        return self

    def exchanges(self, *pairs: tuple[int, int]) -> Facts:
        """Let pairs of replicas change nodes."""
        for one, two in pairs:
            first, second = self._rows[one], self._rows[two]
            self._apply_moves(Proposal(first, self.configuration.node_of(second), second))
        return self

    def totals(self, value: float) -> Facts:
        """Assert the present value of the term."""
        self._expect("total", value, value_from_scratch(self._term, self.configuration))
        return self

    def changes_by(self, value: float) -> Facts:
        """Assert by how much the moves changed the term: its totals, and the sum of its increments."""
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
        found = broken_rows(self._constraint, self.configuration)
        right = {self._rows[number] for number in replicas}
        numbers = sorted(self._rows.index(row) for row in found)
        assert found == right, f"{self._constraint.name} is broken by replicas {numbers}, not by {sorted(replicas)}"
        return self

    @property
    def _term(self) -> EnergyTerm:
        if not isinstance(self.subject, EnergyTerm):
            raise InvalidValueError("verify", "subject", self.subject, "an energy term, because a value is asserted")
        return self.subject

    @property
    def _constraint(self) -> Constraint:
        if not isinstance(self.subject, Constraint):
            raise InvalidValueError("verify", "subject", self.subject, "a constraint, because refusals are asserted")
        return self.subject

    def _apply_moves(self, proposal: Proposal) -> None:
        if isinstance(self.subject, EnergyTerm):
            self.predicted += float(delta(self.subject, self.configuration, proposal))
            apply_proposal_of_terms((self.subject,), self.configuration, proposal)
            return
        if self.subject.refuses(self.configuration, proposal):
            self.refused.append(text_of_proposal(proposal))
        self.configuration.apply(proposal)

    def _expect(self, what: str, expected: float, found: float) -> None:
        assert same(found, expected), f"{self.subject.name}: the {what} is {found:.9g}, expected {expected:.9g}"


def verify(subject: EnergyTerm | Constraint) -> Verification:
    """Return a term or a constraint that is ready for facts."""
    return Verification(subject)


def _engine(
    nodes: int | Sequence[Quantity | Node],
    replicas: Sequence[Standing],
    partitions: Sequence[str],
    metrics: Sequence[str],
) -> PlacementAndLoadBalancing:
    """Return an engine with nodes and replicas, of each of which the partition is named."""
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=[Metric(name) for name in metrics]))
    described = [{}] * nodes if isinstance(nodes, int) else nodes
    made = [
        one if isinstance(one, Node) else Node(f"n{i}", capacities=_by_metric(one, metrics))
        for i, one in enumerate(described)
    ]
    for node in made:
        engine.update_node(node)
    for name in dict.fromkeys(partitions):
        members = [number for number, partition in enumerate(partitions) if partition == name]
        stateful = len(replicas[members[0]]) > 2
        engine.update_service(Service(name, stateful=stateful, target_replicas=len(members)))
        roles = [Role.PRIMARY, *[Role.SECONDARY] * len(members)] if stateful else [Role.INSTANCE]
        standing = [Replica(role, made[replicas[n][0]].name) for n, role in zip(members, roles, strict=False)]
        engine.update_partition(Partition(name, service=name, replicas=standing))
        for number in members:
            engine.report_load(name, made[replicas[number][0]].name, _by_metric(replicas[number][1], metrics))
    return engine


def _by_metric(quantity: Quantity, metrics: Sequence[str]) -> Mapping[str, float]:
    return quantity if isinstance(quantity, Mapping) else {metrics[0]: quantity}
