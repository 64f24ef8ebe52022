"""A whole test of a placement policy in one line: ``test_my_policy = policy_test(MyPolicy())``."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import TypeVar

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from plb.array_types import NOWHERE, Int
from plb.evaluation.delta import comparable_values
from plb.extensions.configuration import Configuration
from plb.extensions.policies import PlacementPolicy, choose, leaving_order, moves_for, prepares, repacks
from plb.state.arrays import SCRATCH, Solution
from plb.testing.cluster import Cluster, configuration_of
from plb.testing.cluster_strategies import clusters as all_kinds
from plb.testing.state_machines import SETTINGS

Answer = TypeVar("Answer")
Story = list[tuple[object, ...]]
"""Answers of a policy: name of the question, row or node, and what the policy chose."""


def policy_test(
    policy: PlacementPolicy,
    *,
    clusters: st.SearchStrategy[Cluster] | None = None,
    made_for: Callable[[Cluster], PlacementPolicy] | None = None,
) -> Callable[[], None]:
    """Return a test that calls a policy for random clusters, replica after replica.

    It fails if the policy chooses a node that was not offered, lets an immovable replica leave, or evicts with
    an invalid move; if the same seed gives another result; and if the configuration is changed.

    Parameters
    ----------
    clusters
        Strategy of the clusters; None: `plb.testing.clusters`.
    made_for
        Makes the policy of an example from its cluster; None: a copy of `policy`.
    """

    @SETTINGS
    @given(all_kinds() if clusters is None else clusters, st.integers(0, 3))
    def test(cluster: Cluster, seed: int) -> None:
        """Compare the answers of two runs of the policy in one cluster."""
        tested = policy if made_for is None else made_for(cluster)
        first, second = (answers(tested, configuration_of(cluster.engine()), seed) for _ in range(2))
        assert first == second, f"{policy.name}: the same seed brings {_difference(first, second)}"

    return test


def answers(policy: PlacementPolicy, configuration: Configuration, seed: int) -> Story:
    """Return the answers of a copy of a policy: to the placement of each missing replica, then to leaving each node.

    Raise `InvalidValueError` if it chooses a node or replica that was not offered.
    Raise `AssertionError` if the policy changes the configuration.
    """
    recorded = _RecordedPolicy(deepcopy(policy), configuration, seed)
    for row in configuration.rows.tolist():
        if configuration.node_of(row) == NOWHERE:
            recorded.place(row)
    for node in range(configuration.nodes):
        recorded.leave(node)
    return recorded.story


class _RecordedPolicy:
    """A policy in one search; `story` records its answers."""

    def __init__(self, policy: PlacementPolicy, configuration: Configuration, seed: int) -> None:
        self.policy, self.configuration = policy, configuration
        self.story: Story = []
        if prepares(policy):
            self._unchanged("begin", lambda: policy.begin(configuration, np.random.default_rng(seed)))

    def place(self, row: int) -> None:
        """Let the policy evict replicas for a row, if it does that, and choose the node of the row."""
        policy, configuration = self.policy, self.configuration
        if repacks(policy):
            moves = self._unchanged("evict", lambda: moves_for(policy, configuration, row))
            self.story.append(("evict", row, *moves))
        nodes = configuration.nodes_for(row)
        if len(nodes):
            node = self._unchanged("choose", lambda: choose(policy, configuration, row, nodes))
            self.story.append(("choose", row, node))

    def leave(self, node: int) -> None:
        """Let the policy choose the replicas that leave a node, and the node of each."""
        policy, configuration = self.policy, self.configuration
        rows: Int = configuration.rows_on(node)
        rows = rows[configuration.problem.movable[rows]]
        if len(rows):
            order = self._unchanged("leaving", lambda: leaving_order(policy, configuration, node, rows))
            self.story.append(("leaving", node, *order))
            for row in order:
                self.place(row)

    def _unchanged(self, method: str, ask: Callable[[], Answer]) -> Answer:
        """Return what `ask`, a call of the policy's `method`, returns; fail if it changes the configuration."""
        before = self.configuration.solution.copy()
        answer = ask()
        changed = _changed(before, self.configuration.solution)
        assert not changed, f"{self.policy.name}: {method} does not take back what it changes: {', '.join(changed)}"
        return answer


def _changed(before: Solution, after: Solution) -> list[str]:
    """Return the names of the fields that differ, without fields that have no meaning between two calls."""
    names = [name for name in Solution._fields if name not in SCRATCH]
    return [
        name for name in names if not np.array_equal(comparable_values(before, name), comparable_values(after, name))
    ]


def _difference(first: Story, second: Story) -> str:
    """Return in words the first answers in which two stories differ."""
    pairs = zip(first, second, strict=False)
    return next((f"{a} and then {b}" for a, b in pairs if a != b), f"{len(first)} answers and then {len(second)}")
