"""Fixtures for the tests of the engine."""

from __future__ import annotations

import pytest

from plb.testing import Cluster

from .stories import three_nodes


@pytest.fixture
def small_cluster() -> Cluster:
    """Three nodes, a stateful partition of two replicas and two instances, with a history of four repetitions."""
    return three_nodes()
