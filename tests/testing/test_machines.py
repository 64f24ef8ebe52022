"""State machines of constraints and risk models, facts in one line, and refused arguments."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plb import InvalidValueError, Node
from plb.risk import DemandHistory, MonteCarloRisk
from plb.state.arrays import Problem
from plb.testing import Invariant, configuration_of, counterexample, machine_of, small_clusters, verify
from plb.testing.relabelling import (
    NODE_AXIS,
    NODE_VALUES,
    ROW_AXIS,
    ROW_VALUES,
    with_rows_swapped,
    with_units_halved,
)

from . import planted
from .conftest import first_failure


class AtMostTwo:
    """A node has at most two replicas."""

    name = "at_most_two"

    def refuses(self, configuration, proposal):
        """Refuse a third replica."""
        gone = 1 if proposal.partner >= 0 else 0
        targets = [one.target for one in configuration.relocations(proposal) if one.target >= 0]
        return any(len(configuration.rows_on(target)) + 1 - gone > 2 for target in targets)

    def broken(self, configuration):
        """Return the replicas of nodes with more than two."""
        on = [configuration.rows_on(node) for node in range(configuration.nodes)]
        return [row for rows in on if len(rows) > 2 for row in rows.tolist()]


class AllowsAThird(AtMostTwo):
    """The limit is off by one: a third replica is allowed."""

    def refuses(self, configuration, proposal):
        """Refuse a fourth replica."""
        return proposal.target >= 0 and len(configuration.rows_on(proposal.target)) >= 3


class RefusesValidProposals(AtMostTwo):
    """Refuses valid proposals."""

    def refuses(self, configuration, proposal):
        """Refuse every proposal to the first node."""
        return proposal.target == 0


HISTORY = DemandHistory.from_columns(
    ["cpu", "disk"],
    tenant_class=["gold", "gold", "silver"],
    role=[0, 1, 2],
    lifetime=[10, 20, 30],
    level=[[4, 8], [2, 8], [16, 1]],
    initial=[[0, 0]] * 3,
    growth=[[0, 0]] * 3,
    maximum=[[4, 8], [2, 8], [16, 1]],
)


class Certain:
    """A risk model that depends only on the first replica, not on the thresholds."""

    def probability_of_violation(self, replicas, *, thresholds, now):
        """Return a number from the first key."""
        return replicas[0].key % 8 / 7 if replicas else 0.0


class Percent(Certain):
    """A risk model that returns percentages."""

    def probability_of_violation(self, replicas, *, thresholds, now):
        """Return 100 if there is a replica."""
        return 100.0 if replicas else 0.0


TestAtMostTwo = machine_of(AtMostTwo())
TestMonteCarlo = machine_of(MonteCarloRisk(HISTORY, quanta={"cpu": 1.0, "disk": 1.0}, repetitions=8, seed=1))


@pytest.mark.parametrize(
    ("subject", "broken"),
    [
        (AllowsAThird(), {Invariant.AGREEMENT}),
        (RefusesValidProposals(), {Invariant.AGREEMENT}),
        (Certain(), {Invariant.ORDER, Invariant.MORE_REPLICAS}),
        (Percent(), {Invariant.RANGE}),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, set) else "",
)
def test_planted_error_of_a_constraint_or_risk_model_is_found(subject, broken):
    """The error breaks the expected invariant."""
    assert first_failure(subject) in broken


def test_excluded_invariant_is_not_checked():
    """A term in units of load breaks the invariant of scale; `TestCrowding` passes without it."""
    assert first_failure(planted.Crowding()) is Invariant.SCALE


def test_same_call_has_the_same_result():
    """A counterexample is the same in every call."""
    text = counterexample(planted.TrialNotTakenBack())
    assert text is not None
    assert text == counterexample(planted.TrialNotTakenBack())


def test_facts_may_be_given_in_one_line():
    """Facts have loads by number or by metric, nodes by count, capacity or description, moves and exchanges."""
    crowding = verify(planted.Crowding())
    crowding.given(nodes=2, replicas=[(0, 4), (0, 2)]).totals(36).moves((1, 1)).changes_by(-16).totals(20)
    crowding.given(nodes=[10, 10], replicas=[(0, 4), (0, 1), (1, 2)]).exchanges((1, 2)).changes_by(8)
    two = [(0, {"cpu": 1, "disk": 2}, "a"), (1, {"disk": 1}, "a")]
    crowding.given(nodes=[Node("x"), Node("y")], replicas=two, metrics=["cpu", "disk"]).totals(6).exchanges((0, 1))
    facts = verify(AtMostTwo()).given(nodes=2, replicas=[(0, 1), (0, 1), (1, 1)])
    facts.breaks().moves((2, 0)).is_refused().breaks(0, 1, 2)
    verify(AtMostTwo()).given(nodes=2, replicas=[(0, 1), (0, 1), (1, 1)]).moves((1, 1)).is_allowed()


def test_wrong_facts_report_the_right_values():
    """Totals, deltas, refusals and broken replicas have the numbers that were found."""
    with pytest.raises(AssertionError, match="crowding: the total is 16, expected 5"):
        verify(planted.Crowding()).given(nodes=1, replicas=[(0, 4)]).totals(5)
    facts = verify(planted.WrongSign()).given(nodes=2, replicas=[(0, 4), (0, 2)]).moves((1, 1))
    with pytest.raises(AssertionError, match="the sum of the increments is 16, expected -16"):
        facts.changes_by(-16)
    limit = verify(AtMostTwo()).given(nodes=2, replicas=[(0, 1), (0, 1), (1, 1)]).moves((2, 0))
    with pytest.raises(AssertionError, match="at_most_two refuses moving row 2 to node 0"):
        limit.is_allowed()
    with pytest.raises(AssertionError, match=r"is broken by replicas \[0, 1, 2\], not by \[0\]"):
        limit.breaks(0)
    with pytest.raises(InvalidValueError, match="an energy term"):
        limit.totals(1)
    with pytest.raises(InvalidValueError, match="a constraint"):
        facts.is_refused()


def test_invalid_subjects_are_refused():
    """The objects are of no kind, or have half of the methods for sums."""

    class Half(planted.Peaks):
        def begin(self, configuration):
            """Compute sums that nothing updates."""

    with pytest.raises(InvalidValueError, match="an energy term, a constraint or a risk model"):
        machine_of(object())
    with pytest.raises(InvalidValueError, match="also has apply, undo"):
        machine_of(Half())


def test_relabelling_changes_every_array_of_nodes_and_replicas(small_problem):
    """Each array of a problem with an axis of nodes or of replicas is one that relabelling changes."""
    nodes, rows = small_problem.limit.shape[0], small_problem.origin.shape[0]
    for name in Problem._fields:
        shape = np.shape(getattr(small_problem, name))
        # arrays of domains have one entry per node; the number of weights equals it by chance
        if nodes in shape and name not in ("parent", "siblings", "weights"):
            assert name in {*NODE_AXIS, *NODE_VALUES}, name
        if {rows, rows + 1} & set(shape):
            assert name in {*ROW_AXIS, *ROW_VALUES}, name


@given(small_clusters(), st.integers(0, 7), st.integers(0, 7))
@settings(deadline=None)
def test_forecasts_belong_to_the_replicas(cluster, one, other):
    """Row and unit of a replica do not change its forecast, in the units of the rest."""
    configuration = configuration_of(cluster.engine())
    rows = configuration.rows.tolist()
    one, other = rows[one % len(rows)], rows[other % len(rows)]
    swapped, doubled = with_rows_swapped(configuration, one, other), with_units_halved(configuration)
    for row in rows:
        known = configuration.forecast_of(row)
        assert swapped.forecast_of({one: other, other: one}.get(row, row)) == known
        twice = doubled.forecast_of(row)
        for field in ("largest_demand", "limits"):
            assert getattr(twice, field) == {name: 2 * value for name, value in getattr(known, field).items()}


def test_single_name_is_no_collection_of_metrics():
    """The letters of a string would be read as names."""
    with pytest.raises(InvalidValueError, match="machine_of: metrics = 'cpu'"):
        machine_of(AtMostTwo(), metrics="cpu")
