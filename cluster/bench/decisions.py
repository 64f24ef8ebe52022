"""Time that a placement policy needs to choose the node of a replica."""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np

from plb.compiler import working_time
from plb.engine import PlacementAndLoadBalancing
from plb.extensions.configuration import Configuration
from plb.extensions.policies import PlacementPolicy, PreparedPolicy, RepackingPolicy
from plb.model import Partition
from plb.policies import BUILT_IN
from plb.testing import configuration_of

RUNS = 5
"""Number of runs, of which the fastest counts, because other work on the machine slows runs down."""


def fastest(run: Callable[[], object], runs: int = RUNS) -> float:
    """Return the seconds of the fastest of several runs, without compilation."""

    def once() -> float:
        begun = working_time()
        run()
        return working_time() - begun

    return min(once() for _ in range(runs))


DECISIONS = 20
"""Decisions in one run, because the time of a single one is too short to be measured."""


def decision_seconds(engine: PlacementAndLoadBalancing, service: str) -> dict[str, float]:
    """Return the seconds that each policy needs to choose the node of a new replica, with the check of the rules."""
    name = "newcomer"
    engine.update_partition(Partition(name, service=service))
    row = engine.replicas(name)[0].index
    configuration = configuration_of(engine)
    found = {policy.name: seconds_of(policy, configuration, row) for policy in BUILT_IN}
    engine.remove_partition(name)
    return found


def seconds_of(policy: PlacementPolicy, configuration: Configuration, row: int) -> float:
    """Return the seconds of one decision, without the moves that the policy makes before it."""
    policy = copy.deepcopy(policy)
    if isinstance(policy, PreparedPolicy):
        policy.begin(configuration, np.random.default_rng(0))

    def decide() -> None:
        for _ in range(DECISIONS):
            if isinstance(policy, RepackingPolicy):
                policy.evict(configuration, row)
            policy.choose(configuration, row, configuration.nodes_for(row))

    decide()
    return fastest(decide) / DECISIONS
