"""Invalid values are refused when they are created, with a message that names item, field and range."""

from __future__ import annotations

import math
import pickle
import re
from collections.abc import Callable
from functools import partial

import pytest

from plb import (
    ConflictError,
    InvalidValueError,
    Metric,
    Node,
    Partition,
    PlacementAndLoadBalancing,
    PlbConfig,
    PlbError,
    Replica,
    Role,
    Service,
    UnknownNameError,
)
from plb.errors import MOST_COMPARED, _candidates
from plb.search.budget import Budget

NAN, INF = math.nan, math.inf
PRIMARY = Role.PRIMARY
Call = Callable[[], object]
config = partial(PlbConfig, metrics=[Metric("cpu")])

INVALID: dict[str, Call] = {
    "node: name = '  ' is not allowed": lambda: Node("  "),
    "node n0: capacities[cpu] = -1 is not allowed; expected a finite number >= 0": lambda: Node(
        "n0", capacities={"cpu": -1}
    ),
    "node n0: capacities[cpu] = nan is not allowed": lambda: Node("n0", capacities={"cpu": NAN}),
    "node n0: capacities[cpu] = inf is not allowed": lambda: Node("n0", capacities={"cpu": INF}),
    "node n0: properties[ssd] = True is not allowed; expected a string": lambda: Node("n0", properties={"ssd": True}),
    "partition p: created = inf is not allowed": lambda: Partition("p", service="s", created=INF),
    "service s: target_replicas = -1 is not allowed; expected a whole number >= 0": lambda: Service(
        "s", target_replicas=-1
    ),
    "service s: target_replicas = 1.5 is not allowed": lambda: Service("s", target_replicas=1.5),
    "service s: move_cost = -0.5 is not allowed; expected a finite number >= 0": lambda: Service("s", move_cost=-0.5),
    "service s: move_cost = 'huge' is not allowed; expected one of zero, low, medium, high": lambda: Service(
        "s", move_cost="huge"
    ),
    "service s: default_load = <Role.PRIMARY: 0> is not allowed; expected roles among ['INSTANCE']": lambda: Service(
        "s", stateful=False, default_load={PRIMARY: {"cpu": 1}}
    ),
    "service s: affinity_to = 's' is not allowed; expected the name of another service": lambda: Service(
        "s", affinity_to="s"
    ),
    "service s: default_load[PRIMARY][cpu] = -1 is not allowed": lambda: Service(
        "s", default_load={PRIMARY: {"cpu": -1}}
    ),
    "metric cpu: quantum = 0.3 is not allowed; expected a power of two, at most 1": lambda: Metric("cpu", quantum=0.3),
    "metric cpu: quantum = 2.0 is not allowed; expected a power of two, at most 1": lambda: Metric("cpu", quantum=2.0),
    "metric cpu: violation_threshold = 0 is not allowed; expected a finite number > 0 and <= 1": lambda: Metric(
        "cpu", violation_threshold=0
    ),
    "PlbConfig: metrics = () is not allowed; expected at least one Metric": lambda: PlbConfig(metrics=[]),
    "PlbConfig: metrics = 'cpu' is not allowed; expected a Metric": lambda: PlbConfig(metrics=["cpu"]),
    "PlbConfig: combination = 'product' is not allowed; expected one of additive, service_fabric": lambda: config(
        combination="product"
    ),
    "PlbConfig: checks = 'always' is not allowed; expected one of off, phase, step": lambda: config(checks="always"),
    "PlbConfig: capacity_limit = 'none' is not allowed; expected one of threshold, capacity": lambda: config(
        capacity_limit="none"
    ),
    "PlbConfig: swap_primary_probability = 1.1 is not allowed; expected a finite number >= 0 and <= 1": lambda: config(
        swap_primary_probability=1.1
    ),
    "PlbConfig: chains = 0 is not allowed; expected a whole number >= 1": lambda: config(chains=0),
    "PlbConfig: fault_domain_constraint_priority = 3 is not allowed; expected -1 (off), 0 (hard), 1 (soft) or 2 "
    "(optimisation)": lambda: config(fault_domain_constraint_priority=3),
    "engine: seed = -1 is not allowed; expected a whole number >= 0": lambda: PlacementAndLoadBalancing(
        config(), seed=-1
    ),
}
CONFLICTS: dict[str, Call] = {
    "partition db/0: two primaries, on nodes n0 and n1": lambda: Partition(
        "db/0", service="db", replicas=[Replica(PRIMARY, "n0"), Replica(PRIMARY, "n1")]
    ),
    "PlbConfig: metrics has a name twice": lambda: PlbConfig(metrics=[Metric("cpu"), Metric("cpu")]),
}
BY_ERROR = {InvalidValueError: INVALID, ConflictError: CONFLICTS}
REFUSED = [(error, *item) for error, values in BY_ERROR.items() for item in values.items()]


@pytest.mark.parametrize(("error", "message", "make"), REFUSED, ids=[message for _, message, _ in REFUSED])
def test_invalid_value_is_refused_when_it_is_created(error, message, make):
    """Values of the model and settings validate themselves before an engine gets them."""
    with pytest.raises(error, match=re.escape(message)):
        make()


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: Node("n", fault_domain=3), "fault_domain"),
        (lambda: Node("n", up="no"), "up"),
        (lambda: Node("n", capacities={"cpu": True}), "capacities[cpu]"),
        (lambda: Metric("cpu", weight="2"), "weight"),
        (lambda: Metric("cpu", quantum="0.5"), "quantum"),
        (lambda: Service("s", placement_constraint=None), "placement_constraint"),
        (lambda: Replica(PRIMARY, None), "node"),
        (lambda: Replica(7, "n"), "role"),
        (lambda: config(max_percentage_to_move="0.3"), "max_percentage_to_move"),
        (lambda: config(w_failovers="0"), "w_failovers"),
        (lambda: config(use_move_cost_reports="no"), "use_move_cost_reports"),
        (lambda: config(min_load_balancing_interval="600"), "min_load_balancing_interval"),
    ],
)
def test_value_of_another_type_is_refused_with_its_field(make, field):
    """Text is no number, a number is no text, and neither is a Boolean."""
    with pytest.raises(InvalidValueError) as error:
        make()
    assert error.value.field == field


@pytest.mark.parametrize("value", [[5] * 1000, "x" * 1000, 10**400, 10**5000, [10**5000]], ids=type)
def test_message_shows_the_beginning_of_a_long_value(value):
    """It says all the same what would have been allowed; the error has the whole value."""
    error = InvalidValueError("node n", "up", value, "True or False")
    assert len(str(error)) < 300
    assert str(error).startswith("node n: up = ")
    assert str(error).endswith(" is not allowed; expected True or False")
    assert error.value is value


@pytest.mark.parametrize(
    "error",
    [
        InvalidValueError("node n", "up", 3, "True or False"),
        UnknownNameError("node", "n1", ["n0"], "partition p"),
        ConflictError("two"),
        PlbError("words"),
    ],
)
def test_error_can_be_pickled_and_rebuilt(error):
    """Pickle and SimPy, which calls the class with `args`, create it with the same text and fields."""
    for again in (pickle.loads(pickle.dumps(error)), type(error)(*error.args)):
        assert str(again) == str(error)
        assert vars(again) == vars(error)


def test_nearest_of_many_names_are_found_without_comparing_all():
    """The error may be at the end or at the beginning of the name."""
    names = [f"service-{index}/0" for index in range(20_000)]
    assert "service-12345/0" in UnknownNameError("partition", "service-12345/1", names).nearest
    assert "service-12345/0" in UnknownNameError("partition", "zervice-12345/0", names).nearest
    assert len(_candidates("service-12345/1", names)) <= MOST_COMPARED


def test_unknown_name_may_be_any_value():
    assert "unknown node None" in str(UnknownNameError("node", None, ["n0"]))
    with pytest.raises(InvalidValueError, match="2\\^40"):
        Budget(proposals=10**30)
