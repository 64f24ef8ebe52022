"""Property tests for energy terms, constraints, policies and risk models: strategies, invariants, state machines.

``TestMyTerm = machine_of(MyTerm())`` in a test file is a whole test; docs/property-testing.md has examples. Begin
reading in `plb.testing.state_machines`.
"""

from plb.testing.cluster import Cluster, configuration_of
from plb.testing.cluster_strategies import (
    CONSTRAINTS,
    METRICS,
    all_clusters,
    busy_clusters,
    clusters,
    nodes,
    partitions,
    services,
    settings_of_engines,
    small_clusters,
    walks,
)
from plb.testing.facts import BrokenInvariantError, Facts, Invariant, verify
from plb.testing.histories import CLASSES, histories, history_columns, replica_forecasts
from plb.testing.policies import policy_test
from plb.testing.state_machines import counterexample, machine_of

__all__ = [
    "CLASSES",
    "CONSTRAINTS",
    "METRICS",
    "BrokenInvariantError",
    "Cluster",
    "Facts",
    "Invariant",
    "all_clusters",
    "busy_clusters",
    "clusters",
    "configuration_of",
    "counterexample",
    "histories",
    "history_columns",
    "machine_of",
    "nodes",
    "partitions",
    "policy_test",
    "replica_forecasts",
    "services",
    "settings_of_engines",
    "small_clusters",
    "verify",
    "walks",
]
