"""Counting of violations, case by case."""

from __future__ import annotations

import numpy as np
import pytest

from cluster.simulation.ledger import Metering
from cluster.simulation.violations import ViolationOutcome, classify, needs_repair
from plb.model import Role
from plb.model.move import Move, MoveKind, Phase, Reason

NODES, METRICS = ("n0", "n1"), ("cpu", "disk")
THRESHOLD = np.array([[9.5, 95.0], [9.5, 95.0]])


def metering(standing: list[list[float]], departing: list[list[float]] | None = None) -> Metering:
    """Return a metering of two nodes and two metrics."""
    zeros = np.zeros((2, 2))
    none, stands = np.zeros((0, 2)), np.array(standing)
    departs = zeros if departing is None else np.array(departing)
    return Metering(np.zeros(0, np.int64), none, none, stands, departs, stands)


def move(node: str | None, rule: str = "capacity", metric: str | None = "disk", kind: MoveKind = MoveKind.MOVE) -> Move:
    """Return a move away from n0 with the given reason."""
    return Move(kind, "p", Role.PRIMARY, "n0", "n1", Reason(Phase.REPAIR, rule, node, metric), 1.0)


CASES = [
    ("below the threshold: nothing", [[9.4, 94.9], [0, 0]], None, [], []),
    (
        "at the threshold with a move: a violation",
        [[0, 95.0], [0, 0]],
        None,
        [move("n0")],
        [(0, 1, "violation")],
    ),
    ("a move due to a predicted load: no violation", [[0, 60.0], [0, 0]], None, [move("n0")], []),
    ("at the threshold without a move: unresolved", [[0, 95.0], [0, 0]], None, [], [(0, 1, "unresolved")]),
    (
        "two metrics of one node: two rows, one outcome",
        [[9.6, 96.0], [0, 0]],
        None,
        [move("n0")],
        [(0, 0, "violation"), (0, 1, "violation")],
    ),
    ("departing load alone: covered", [[0, 60.0], [0, 0]], [[0, 45.0], [0, 0]], [], [(0, 1, "covered")]),
    (
        "short without the departing load: a violation",
        [[0, 96.0], [0, 0]],
        [[0, 45.0], [0, 0]],
        [move("n0")],
        [(0, 1, "violation")],
    ),
    ("a move for another node does not resolve this one", [[0, 94.9999], [0, 96.0]], None, [move("n0")], "both"),
    (
        "a swap of roles for the node of the secondary: a violation",
        [[0, 0], [9.6, 0]],
        None,
        [move("n1", "capacity", "cpu", MoveKind.SWAP)],
        [(1, 0, "violation")],
    ),
    (
        "a swap of roles for the energy: unresolved",
        [[9.6, 0], [0, 0]],
        None,
        [move(None, "energy", None, MoveKind.SWAP)],
        [(0, 0, "unresolved")],
    ),
    (
        "just below the threshold with a move due to rounding: a violation",
        [[0, 94.999], [0, 0]],
        None,
        [move("n0")],
        [(0, 1, "violation")],
    ),
    ("a move for a domain: no violation", [[0, 50.0], [0, 0]], None, [move("n0", "fault_domain", None)], []),
]


@pytest.mark.parametrize(
    ("standing", "departing", "moves", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_outcomes(standing, departing, moves, expected):
    """Every kind of shortage has the class of the definition."""
    found = classify(metering(standing, departing), THRESHOLD, moves, NODES, METRICS)
    if expected == "both":
        expected = [(0, 1, "violation"), (1, 1, "unresolved")]
    assert [(one.node, one.metric, one.outcome.value) for one in found] == expected


def test_no_capacity_is_never_short():
    """A metric without capacity has an infinite threshold and no shortage."""
    found = classify(metering([[0, 1e9], [0, 0]]), np.array([[9.5, np.inf], [9.5, np.inf]]), [], NODES, METRICS)
    assert found == []


def test_capacity_zero_is_short_only_under_load():
    """With capacity 0, only a positive load is a violation."""
    zero = np.zeros((2, 2))
    assert classify(metering([[0, 0], [0, 0]]), zero, [], NODES, METRICS) == []
    assert not needs_repair(metering([[0, 0], [0, 0]]), zero)
    assert needs_repair(metering([[0, 0], [0, 1.0]]), zero)
    found = classify(metering([[0, 0], [0, 1.0]]), zero, [], NODES, METRICS)
    assert [(one.node, one.metric, one.outcome) for one in found] == [(1, 1, ViolationOutcome.UNRESOLVED)]


def test_standing_load_requires_a_repair():
    """Departing load requires no repair. Standing load at the threshold does."""
    assert not needs_repair(metering([[0, 60.0], [0, 0]], [[0, 45.0], [0, 0]]), THRESHOLD)
    assert needs_repair(metering([[0, 95.0], [0, 0]]), THRESHOLD)
