"""Counting of violations, case by case."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.simulation.ledger import Metering
from cluster.simulation.recorder import Recorder
from cluster.simulation.tenant_arrivals import TenantSequence
from cluster.simulation.violations import NodeShortage, ViolationOutcome, classify, count_reported, needs_repair
from plb import Node
from plb.array_types import Float, Int
from plb.model import Role
from plb.model.move import Move, MoveKind, Phase, Reason
from tests.cluster.tiny import Tenant, traces_of

NODES, METRICS = ("n0", "n1"), ("cpu", "disk")
THRESHOLD = np.array([[9.5, 95.0], [9.5, 95.0]])


def metering(
    standing: list[list[float]] | Float,
    departing: list[list[float]] | None = None,
    predicted: Float | None = None,
) -> Metering:
    zeros = np.zeros((2, 2))
    none, stands = np.zeros((0, 2)), np.array(standing)
    departs = zeros if departing is None else np.array(departing)
    return Metering(np.zeros(0, np.int64), none, none, stands, departs, stands if predicted is None else predicted)


def move(node: str | None, rule: str = "capacity", metric: str | None = "disk", kind: MoveKind = MoveKind.MOVE) -> Move:
    return Move(kind, "p", Role.PRIMARY, "n0", "n1", Reason(Phase.REPAIR, rule, node, metric), 1.0)


def no_replica(nodes: Int) -> Float:
    return np.zeros((len(nodes), 2))


CPU, DISK = (0, 0, "violation"), (0, 1, "violation")
OTHER = move("n1", "capacity", "cpu", MoveKind.SWAP)
ENERGY = move(None, "energy", None, MoveKind.SWAP)


@pytest.mark.parametrize(
    ("standing", "departing", "moves", "expected"),
    [
        pytest.param([9.4, 94.9, 0, 0], 0.0, [], [], id="below the threshold: nothing"),
        pytest.param([0, 95.0, 0, 0], 0.0, [move("n0")], [DISK], id="at the threshold with a move"),
        pytest.param([0, 60.0, 0, 0], 0.0, [move("n0")], [], id="a move due to a predicted load"),
        pytest.param([0, 95.0, 0, 0], 0.0, [], [(0, 1, "unresolved")], id="at the threshold without a move"),
        pytest.param([9.6, 96.0, 0, 0], 0.0, [move("n0")], [CPU, DISK], id="two metrics of one node: two rows"),
        pytest.param([0, 60.0, 0, 0], 45.0, [], [(0, 1, "covered")], id="departing load alone"),
        pytest.param([0, 96.0, 0, 0], 45.0, [move("n0")], [DISK], id="short without the departing load"),
        pytest.param(
            [0, 94.9999, 0, 96], 0.0, [move("n0")], [DISK, (1, 1, "unresolved")], id="a move for another node"
        ),
        pytest.param([0, 0, 9.6, 0], 0.0, [OTHER], [(1, 0, "violation")], id="a swap for the node of the secondary"),
        pytest.param([9.6, 0, 0, 0], 0.0, [ENERGY], [(0, 0, "unresolved")], id="a swap of roles for the energy"),
        pytest.param([0, 94.999, 0, 0], 0.0, [move("n0")], [DISK], id="a move due to rounding"),
        pytest.param([0, 50.0, 0, 0], 0.0, [move("n0", "fault_domain", None)], [], id="a move for a domain"),
    ],
)
def test_outcomes(standing, departing, moves, expected):
    loads = metering(np.reshape(standing, (2, 2)), [[0, departing], [0, 0]])
    found = classify(loads, THRESHOLD, moves, NODES, METRICS, no_replica)
    assert [(one.node, one.metric, one.outcome.value) for one in found] == expected


def test_no_capacity_is_never_short():
    found = classify(
        metering([[0, 1e9], [0, 0]]), np.array([[9.5, np.inf], [9.5, np.inf]]), [], NODES, METRICS, no_replica
    )
    assert found == []


def test_capacity_zero_is_short_only_under_load():
    zero = np.zeros((2, 2))
    assert classify(metering([[0, 0], [0, 0]]), zero, [], NODES, METRICS, no_replica) == []
    assert not needs_repair(metering([[0, 0], [0, 0]]), zero)
    assert needs_repair(metering([[0, 0], [0, 1.0]]), zero)
    found = classify(metering([[0, 0], [0, 1.0]]), zero, [], NODES, METRICS, no_replica)
    assert [(one.node, one.metric, one.outcome) for one in found] == [(1, 1, ViolationOutcome.UNRESOLVED)]


def test_standing_load_requires_a_repair():
    assert not needs_repair(metering([[0, 60.0], [0, 0]], [[0, 45.0], [0, 0]]), THRESHOLD)
    assert needs_repair(metering([[0, 95.0], [0, 0]]), THRESHOLD)


@pytest.mark.parametrize(
    ("largest", "threshold", "avoidable"),
    [
        ([9.4, 50.0], THRESHOLD, [True, True]),
        ([9.5, 50.0], THRESHOLD, [False, True]),  # CPU alone, with memory short, too
        ([9.4, 95.0], THRESHOLD, [True, False]),
        ([9.4, 94.995], THRESHOLD, [True, False]),  # the engine rounds up
        ([9.6, 96.0], THRESHOLD, [False, False]),
        ([9.6, 96.0], np.array([[9.5, 95.0], [19.0, 95.0]]), [True, False]),  # the other node has more CPU
        ([9.6, 96.0], np.array([[9.5, 95.0], [np.inf, np.inf]]), [True, True]),  # the other node has no limit
    ],
)
def test_one_replica_at_the_largest_threshold_is_unavoidable(largest, threshold, avoidable):
    """Each metric has its own flag. The largest threshold among all nodes decides."""
    standing = metering([[9.7, 97.0], [0, 0]])
    for moves in ([], [move("n0")]):
        found = classify(standing, threshold, moves, NODES, METRICS, lambda nodes: np.array([largest] * len(nodes)))
        assert [(one.node, one.metric) for one in found] == [(0, 0), (0, 1)]
        assert [one.avoidable for one in found] == avoidable


def test_without_a_shortage_no_replica_is_inspected():
    def refused(nodes: Int) -> Float:
        raise AssertionError(nodes)

    assert classify(metering([[9.4, 94.0], [0, 0]]), THRESHOLD, [], NODES, METRICS, refused) == []
    assert classify(metering([[9.4, 60.0], [0, 0]]), THRESHOLD, [move("n0")], NODES, METRICS, refused) == []
    requested: list[list[int]] = []

    def noted(nodes: Int) -> Float:
        requested.append(nodes.tolist())
        return no_replica(nodes)

    assert classify(metering([[9.4, 60.0], [9.6, 0]]), THRESHOLD, [], NODES, METRICS, noted)
    assert requested == [[1]]


LOADS = st.lists(st.sampled_from([0.0, 0.6, 0.9998, 0.99995, 1.0, 2.0]), min_size=4, max_size=4).map(
    lambda shares: np.reshape(shares, (2, 2)) * THRESHOLD
)
MOVES = st.lists(
    st.builds(
        move,
        st.sampled_from([*NODES, None]),
        st.sampled_from(["capacity", "capacity", "fault_domain"]),
        st.sampled_from([*METRICS, None]),
    ),
    max_size=4,
)


def nodes_in_violation(load: Float, moves: list[Move]) -> set[str]:
    """Return the nodes that a move for capacity names and whose load is at a threshold, or within 0.01 % of it.

    Within 0.01 %, only the metric counts that the move names.
    """
    shares = {
        (node, metric): load[i, j] / THRESHOLD[i, j] for i, node in enumerate(NODES) for j, metric in enumerate(METRICS)
    }
    named = {
        (one.reason.node, metric, 1.0 if metric != one.reason.metric else 0.9999)
        for one in moves
        if one.reason.rule == "capacity" and one.reason.node is not None
        for metric in METRICS
    }
    return {node for node, metric, least in named if node is not None and shares[node, metric] >= least}


@given(LOADS, LOADS, MOVES)
def test_violations_by_reported_loads(load: Float, highest: Float, moves: list[Move]) -> None:
    """Without an oracle they are the violations, with one at least the violations; without a move there is none."""
    predicted = np.maximum(load, highest)

    def counts(metered: Metering) -> tuple[int, int]:
        found = classify(metered, THRESHOLD, moves, NODES, METRICS, no_replica)
        violations = {one.node for one in found if one.outcome is ViolationOutcome.VIOLATION}
        return len(violations), count_reported(metered, THRESHOLD, moves, NODES, METRICS)

    by_demand, by_prediction = len(nodes_in_violation(load, moves)), len(nodes_in_violation(predicted, moves))
    assert counts(metering(load)) == (by_demand, by_demand)
    assert counts(metering(load, predicted=predicted)) == (by_demand, by_prediction)
    assert by_demand <= by_prediction <= len({one.reason.node for one in moves if one.reason.rule == "capacity"})


ROWS = st.tuples(
    st.integers(0, 2), st.integers(0, 1), st.integers(0, 1), st.sampled_from(list(ViolationOutcome)), st.booleans()
)


@given(st.lists(ROWS, max_size=20))
def test_avoidable_and_unavoidable_violations_add_up(rows):
    """A violation is unavoidable if a row of it is. The sum is the number of violations."""
    outcomes = {(time, node): outcome for time, node, _, outcome, _ in rows}  # the same for all metrics of a node
    avoidable = {(time, node, metric): flag for time, node, metric, _, flag in rows}
    sequence = TenantSequence(traces_of([Tenant("a", 0, [1.0])]), np.zeros(1, np.int64), 1, 100.0, 0)
    recorder = Recorder([Node(name) for name in NODES], METRICS, np.ones((2, 2)), sequence, 600)
    for now in range(3):
        at_once = [
            NodeShortage(node, metric, 1.0, 0.0, 1.0, outcomes[time, node], flag)
            for (time, node, metric), flag in avoidable.items()
            if time == now
        ]
        recorder.shortages(now, at_once)
    totals = recorder.result("any", 0, 0, {}, complete=True).totals
    unavoidable = {(time, node) for (time, node, _), flag in avoidable.items() if not flag}
    of = {outcome: {place for place, found in outcomes.items() if found is outcome} for outcome in ViolationOutcome}
    assert totals["violations"] == len(of[ViolationOutcome.VIOLATION])
    assert totals["violations_unavoidable"] == len(of[ViolationOutcome.VIOLATION] & unavoidable)
    assert totals["violations_avoidable"] + totals["violations_unavoidable"] == totals["violations"]
    assert totals["shortages_unresolved_unavoidable"] == len(of[ViolationOutcome.UNRESOLVED] & unavoidable)
