"""State machines of constraints and risk models, facts in one line, and refused arguments."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plb import InvalidValueError, Node
from plb.state.arrays import Problem
from plb.testing import Invariant, configuration_of, counterexample, machine_of, small_clusters, verify
from plb.testing.relabelling import NODE_AXIS, NODE_VALUES, ROW_AXIS, ROW_VALUES, with_rows_swapped, with_units_halved
from tests.machines import short_machine_of

from . import planted
from .conftest import first_failure


class AtMostTwo:
    """A node has at most two replicas."""

    name = "at_most_two"

    def refuses(self, configuration, proposal):
        gone = 1 if proposal.partner >= 0 else 0
        targets = [one.target for one in configuration.relocations(proposal) if one.target >= 0]
        return any(len(configuration.rows_on(target)) + 1 - gone > 2 for target in targets)

    def broken(self, configuration):
        on = [configuration.rows_on(node) for node in range(configuration.nodes)]
        return [row for rows in on if len(rows) > 2 for row in rows.tolist()]


class AllowsAThird(AtMostTwo):
    """The limit is off by one: a third replica is allowed."""

    def refuses(self, configuration, proposal):
        return proposal.target >= 0 and len(configuration.rows_on(proposal.target)) >= 3


class RefusesValidProposals(AtMostTwo):
    """Refuses valid proposals."""

    def refuses(self, configuration, proposal):
        return proposal.target == 0


class Fees:
    """Each node has a fee, for replicas of services that pay; the data are known by name."""

    name = "fees"

    def __init__(self, fees=None, paying=()):
        self.fees, self.paying = fees or {}, paying

    def fee_of(self, configuration, row, node):
        pays = configuration.service_of(row).name in self.paying
        return self.fees[configuration.node(node).name] if node >= 0 and pays else 0

    def total(self, configuration):
        return float(sum(self.fee_of(configuration, row, configuration.node_of(row)) for row in configuration.rows))

    def delta(self, configuration, proposal):
        moved = configuration.relocations(proposal)
        return float(
            sum(self.fee_of(configuration, one.row, one.target) for one in moved)
            - sum(self.fee_of(configuration, one.row, one.source) for one in moved)
        )


class WrongFees(Fees):
    """Takes the fees of services that do not pay."""

    def fee_of(self, configuration, row, node):
        return self.fees[configuration.node(node).name] if node >= 0 else 0

    total = Fees.total

    def delta(self, configuration, proposal):
        change = Fees.delta(self, configuration, proposal)
        return change if configuration.service_of(proposal.row).name in self.paying else 0.0


class OnlyPayingOnFirst:
    """The node with the highest fee takes replicas of paying services only."""

    name = "only_paying"
    fee_of = Fees.fee_of

    def __init__(self, fees=None, paying=()):
        self.fees, self.paying = fees or {}, paying

    def refuses(self, configuration, proposal):
        return any(self._bad(configuration, one.row, one.target) for one in configuration.relocations(proposal))

    def broken(self, configuration):
        return [row for row in configuration.rows.tolist() if self._bad(configuration, row, configuration.node_of(row))]

    def _bad(self, configuration, row, node):
        expensive = node >= 0 and self.fees[configuration.node(node).name] == max(self.fees.values())
        return expensive and configuration.service_of(row).name not in self.paying


FEES = small_clusters(
    nodes=st.fixed_dictionaries({"properties": st.fixed_dictionaries({"fee": st.sampled_from(["0", "3", "7"])})}),
    services=st.fixed_dictionaries({"tenant_class": st.sampled_from(["gold", "silver"]), "max_moves": st.none()}),
)


def suited(kind):
    """Return a function that makes a term or a constraint from the data of a cluster."""

    def made(cluster):
        fees = {node.name: int(node.properties["fee"]) for node in cluster.nodes}
        return kind(fees, {one.name for one in cluster.services if one.tenant_class == "gold"})

    return made


TestFees = short_machine_of(Fees(), clusters=FEES, made_for=suited(Fees))
TestOnlyPaying = short_machine_of(OnlyPayingOnFirst(), clusters=FEES, made_for=suited(OnlyPayingOnFirst))


def test_errors_are_found_in_clusters_that_suit_the_data():
    """A counterexample has the drawn fields, and needs a fee and a service that does not pay as it should."""
    story = counterexample(WrongFees(), clusters=FEES, made_for=suited(WrongFees))
    assert "increment equals total" in story
    assert "properties={'fee': " in story


@settings(max_examples=40, deadline=None)
@given(FEES)
def test_fields_of_nodes_and_services_replace_those_that_are_drawn(cluster):
    assert {node.properties["fee"] for node in cluster.nodes} <= {"0", "3", "7"}
    assert {(one.tenant_class, one.max_moves) for one in cluster.services} <= {("gold", None), ("silver", None)}
    cluster.engine().place(budget=10)


def test_risk_models_have_no_clusters():
    for wrong in ({"clusters": FEES}, {"made_for": suited(Fees)}):
        with pytest.raises(InvalidValueError, match=r"machine_of: clusters or made_for = .* None for a risk model"):
            machine_of(Summed(), **wrong)


class Summed:
    """A risk model that is certain where the largest demands reach a threshold together."""

    def probability_of_violation(self, replicas, *, thresholds, now):
        sums = {name: sum(one.largest_demand[name] for one in replicas) for name in thresholds}
        return float(any(sums[name] >= threshold for name, threshold in thresholds.items()))


class Certain:
    """A risk model that depends only on the first replica, not on the thresholds."""

    def probability_of_violation(self, replicas, *, thresholds, now):
        return replicas[0].key % 8 / 7 if replicas else 0.0


class Percent(Certain):
    """A risk model that returns percentages."""

    def probability_of_violation(self, replicas, *, thresholds, now):
        return 100.0 if replicas else 0.0


TestAtMostTwo = short_machine_of(AtMostTwo())
TestSummed = machine_of(Summed())


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
    assert first_failure(subject) in broken


def test_excluded_invariant_is_not_checked():
    """A term in units of load breaks the invariant of scale; `TestCrowding` passes without it."""
    assert first_failure(planted.Crowding()) is Invariant.SCALE


def test_same_call_has_the_same_result():
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
