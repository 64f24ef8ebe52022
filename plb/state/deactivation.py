"""Deactivated nodes: which replicas they still receive, from which a repair may move replicas, and which it empties."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from plb.array_types import Bool
from plb.model import DeactivationIntent, DeactivationStatus, Node


def receiving_nodes(nodes: Sequence[Node]) -> Bool:
    """Return `Problem.receives`: which nodes take an existing replica, a new one, a new one that is on every node.

    A node that is paused or restarts takes new replicas until its safety check is complete, then only those of
    stateless services on every node, and existing ones never; one that is removed takes nothing.
    """
    receives = np.zeros((3, len(nodes)), np.bool_)
    for index, node in enumerate(nodes):
        active = node.deactivation_intent is DeactivationIntent.NONE
        comes_back = node.deactivation_intent in (DeactivationIntent.PAUSE, DeactivationIntent.RESTART)
        checking = comes_back and node.deactivation_status is DeactivationStatus.SAFETY_CHECK_IN_PROGRESS
        checked = comes_back and node.deactivation_status is DeactivationStatus.SAFETY_CHECK_COMPLETE
        receives[:, index] = active, active or checking, active or checking or checked
        receives[:, index] &= node.up
    return receives


def evacuating_nodes(nodes: Sequence[Node]) -> Bool:
    """Return from which deactivated nodes a repair may move replicas: they restart or go, and are being checked."""
    goes = (DeactivationIntent.RESTART, DeactivationIntent.REMOVE_DATA, DeactivationIntent.REMOVE_NODE)
    checking = DeactivationStatus.SAFETY_CHECK_IN_PROGRESS
    found = [node.up and node.deactivation_intent in goes and node.deactivation_status is checking for node in nodes]
    return np.array(found, np.bool_)


def drained_nodes(nodes: Sequence[Node], *, drains: bool) -> Bool:
    """Return `Problem.drained`: nodes to be removed that are not being activated again; none without `drains`."""
    goes = (DeactivationIntent.REMOVE_DATA, DeactivationIntent.REMOVE_NODE)
    back = DeactivationStatus.ACTIVATION_IN_PROGRESS
    found = [node.up and node.deactivation_intent in goes and node.deactivation_status is not back for node in nodes]
    return np.array(found, np.bool_) & drains
