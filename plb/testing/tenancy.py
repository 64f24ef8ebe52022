"""A state machine over the replicas of one node: they are added and removed, and a risk model estimates the risk."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from plb.risk.interface import ReplicaForecast, RiskModel
from plb.testing.histories import replica_forecasts
from plb.testing.invariants import BrokenInvariantError, Invariant, same

NOW = 10
"""Time of every estimate, in seconds."""


class RiskMachine(RuleBasedStateMachine):
    """Replicas that are added to a node and removed."""

    subject: ClassVar[RiskModel]
    asked: ClassVar[frozenset[Invariant]]
    metrics: ClassVar[tuple[str, ...]]

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
        """Let a replica come."""
        before = self._risk(self.replicas)
        self.replicas.append(data.draw(replica_forecasts(self.metrics, now=NOW), label="replica"))
        after = self._risk(self.replicas)
        story = f"the risk goes from {before:.9g} to {after:.9g} as a replica joins"
        self._expect(Invariant.MORE_REPLICAS, after >= before or same(after, before), story)

    @rule(number=st.integers(0, 7))
    def leave(self, number: int) -> None:
        """Let a replica go."""
        if self.replicas:
            del self.replicas[number % len(self.replicas)]
            self._risk(self.replicas)

    @rule()
    def ask_again(self) -> None:
        """Estimate the same risk with a new copy of the model."""
        one, two = self._risk(self.replicas), self._risk(self.replicas, deepcopy(self.subject))
        self._expect(Invariant.REPEATS, one == two, f"the risk is {one:.9g}, a copy says {two:.9g}")

    @rule(first=st.integers(0, 7))
    def reorder(self, first: int) -> None:
        """Give the replicas in another order."""
        first = first % len(self.replicas) if self.replicas else 0
        one, two = self._risk(self.replicas), self._risk(self.replicas[first:] + self.replicas[:first])
        self._expect(Invariant.ORDER, same(one, two), f"the risk goes from {one:.9g} to {two:.9g}")

    @rule(metric=st.integers(0, 7))
    def raise_threshold(self, metric: int) -> None:
        """Increase the capacity of the node."""
        before, name = self._risk(self.replicas), self.metrics[metric % len(self.metrics)]
        self.thresholds[name] += 1.0
        after = self._risk(self.replicas)
        story = f"the risk goes from {before:.9g} to {after:.9g} as {name} has more room"
        self._expect(Invariant.HIGHER_THRESHOLD, after <= before or same(after, before), story)

    def _risk(self, replicas: list[ReplicaForecast], model: RiskModel | None = None) -> float:
        asked = self.model if model is None else model
        risk = float(asked.probability_of_violation(list(replicas), thresholds=dict(self.thresholds), now=float(NOW)))
        self._expect(Invariant.RANGE, 0.0 <= risk <= 1.0, f"it is {risk:.9g}")
        return risk

    def _expect(self, invariant: Invariant, holds: bool, story: str) -> None:
        if invariant in self.asked and not holds:
            raise BrokenInvariantError(invariant, story)
