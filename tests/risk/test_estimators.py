"""Estimators from observed samples, compared with a computation from the reports, and with sums from scratch."""

from __future__ import annotations

import math
from typing import NamedTuple

import attrs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from plb import (
    ConflictError,
    InvalidValueError,
    Metric,
    Node,
    Partition,
    PlacementAndLoadBalancing,
    PlbConfig,
    Replica,
    Role,
    Service,
    UnknownNameError,
)
from plb.extensions.configuration import Admission, Proposal, built_in_term
from plb.risk.estimators import Evaluation, Gaussian, estimator_of, reads_limits
from plb.risk.peaks import BorgDefault, Form, Maximum, NSigma, RcLike
from plb.testing import configuration_of

pytestmark = pytest.mark.kernels

NODES, LIMIT, HISTORY, WARMUP = 3, 40.0, 8, 3
CAPACITIES = {"cpu": 100.0, "disk": 200.0}
THRESHOLD = 0.95
WINDOW = f"warmup={WARMUP},history={HISTORY}"
SPECS = (
    f"gaussian:{WINDOW}",
    "borg-default:phi=0.8",
    f"rc-like:percentile=75,{WINDOW}",
    f"per-machine-percentile:percentile=60,{WINDOW}",
    f"n-sigma:n=1,form=paper,cap=false,{WINDOW}",
    f"n-sigma:n=2,{WINDOW}",
    f"max(rc-like:percentile=50,{WINDOW};n-sigma:n=0.5,{WINDOW})",
)


def engine_with(spec, places, reports, *, limits=True, **extensions):
    """Return an engine whose replica i is on ``places[i]`` and has reported the loads in ``reports[i]``, (S, 2)."""
    metrics = [Metric(name, violation_threshold=THRESHOLD) for name in CAPACITIES]
    config = PlbConfig(metrics=metrics, estimator=spec, w_failovers=1.0, chains=1, threads=1, checks="step")
    engine = PlacementAndLoadBalancing(config, seed=3, **extensions)
    for node in range(NODES):
        engine.update_node(Node(f"n{node}", capacities=CAPACITIES))
    promised = dict.fromkeys(CAPACITIES, LIMIT) if limits else {}
    for number, place in enumerate(places):
        engine.update_service(Service(f"s{number}", stateful=False, limits=promised))
        engine.update_partition(Partition(f"p{number}", service=f"s{number}", replicas=[Replica("instance", place)]))
    for step in range(max(map(len, reports), default=0)):
        for number, series in enumerate(reports):
            late = step - (max(map(len, reports)) - len(series))
            if late >= 0:
                engine.report_load(
                    f"p{number}", places[number], dict(zip(CAPACITIES, map(float, series[late]), strict=True))
                )
    return engine


class Reported(NamedTuple):
    """What a replica has shown."""

    samples: np.ndarray
    """(S, 2) the newest samples, the oldest first."""
    seen: int
    """How many samples there were."""
    limit: np.ndarray
    """(2,)"""


def reported(series):
    return Reported(np.array(series, float).reshape(-1, 2), len(series), np.full(2, LIMIT))


def reported_by(forecast):
    """Return what a forecast says that a replica has shown."""
    samples = np.array([forecast.samples[name] for name in CAPACITIES]).T
    return Reported(samples, forecast.seen, np.array([forecast.limits[name] for name in CAPACITIES]))


def windows_of(estimator, replicas):
    """Return the window of each replica, (S, 2), the newest first; its limit as long as it is not warm."""
    windows = []
    for samples, seen, limit in replicas:
        newest = samples[::-1][: estimator.history]
        capped = np.minimum(newest, limit) if estimator.cap else newest
        windows.append(capped if seen >= estimator.warmup else limit[np.newaxis])
    return windows


def predicted(estimator, replicas):
    """Return the predicted peaks of the two metrics of a machine with these replicas."""
    if isinstance(estimator, Maximum):
        return np.max([predicted(each, replicas) for each in estimator.of], axis=0)
    limits = np.sum([replica.limit for replica in replicas], axis=0)
    if isinstance(estimator, BorgDefault):
        return estimator.phi * limits
    windows = windows_of(estimator, replicas)
    if isinstance(estimator, RcLike):
        return np.sum([np.percentile(window, estimator.percentile, axis=0) for window in windows], axis=0)
    total = np.sum([window[np.arange(estimator.history) % len(window)] for window in windows], axis=0)
    if isinstance(estimator, NSigma):
        peak = total.mean(axis=0) + estimator.n * total.std(axis=0, ddof=1)
        return peak if estimator.form is Form.PAPER else np.minimum(peak, limits)
    return np.minimum(np.percentile(total, estimator.percentile, axis=0), limits)


def expected(spec, replicas):
    """Return the violation probability of a machine with these replicas."""
    bounds, estimator = THRESHOLD * np.array([*CAPACITIES.values()]), estimator_of(spec)
    if not replicas:
        return 0.0
    if not isinstance(estimator, Gaussian):
        return float((predicted(estimator, replicas) >= bounds).any())
    windows = windows_of(estimator, replicas)
    mean = np.sum([window.mean(axis=0) for window in windows], axis=0)
    variance = np.sum([window.var(axis=0) for window in windows], axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        excess = np.where(variance > 0, norm.sf((bounds - mean) / np.sqrt(variance)), mean >= bounds)
    return 1.0 - float(np.prod(1.0 - excess))


LOADS = st.tuples(st.integers(0, 60), st.integers(0, 100))
REPLICAS = st.lists(st.tuples(st.integers(0, NODES - 1), st.lists(LOADS, max_size=HISTORY + 3)), min_size=1, max_size=6)


@pytest.mark.parametrize("spec", SPECS)
@settings(deadline=None, max_examples=20)
@given(replicas=REPLICAS)
def test_probability_equals_that_from_the_reports(spec, replicas):
    engine = engine_with(spec, [f"n{place}" for place, _ in replicas], [series for _, series in replicas])
    configuration = configuration_of(engine)
    tolerance = 1e-4  # means and variances are rounded up
    for node in range(NODES):
        there = [reported(series) for place, series in replicas if place == node]
        assert math.isclose(configuration.violation_probabilities[node], expected(spec, there), abs_tol=tolerance)
    row = int(configuration.rows[0])
    for node in set(range(NODES)) - {configuration.node_of(row)}:
        own = replicas[_number(configuration, row)][1]
        there = [reported(series) for series in (*(series for place, series in replicas if place == node), own)]
        found = configuration.violation_probabilities_with(row)[node]
        assert math.isclose(found, expected(spec, there), abs_tol=tolerance)


def _number(configuration, row):
    return int(configuration.partition_of(row).removeprefix("p"))


@pytest.mark.parametrize("spec", SPECS)
@settings(deadline=None, max_examples=20)
@given(replicas=REPLICAS, data=st.data())
def test_deltas_agree_with_sums_from_scratch(spec, replicas, data):
    engine = engine_with(spec, [f"n{place}" for place, _ in replicas], [series for _, series in replicas])
    configuration, term = configuration_of(engine), built_in_term("expected_failovers")
    rows = configuration.rows.tolist()
    for _ in range(4):
        row, target = data.draw(st.sampled_from(rows)), data.draw(st.integers(0, NODES - 1))
        if configuration.node_of(row) == target:
            continue
        partner = data.draw(st.sampled_from([-1, *(one for one in rows if configuration.node_of(one) == target)]))
        proposal, before = Proposal(row, target, partner), term.total(configuration)
        change = term.delta(configuration, proposal)
        back = configuration.apply(proposal)
        configuration.check()
        assert math.isclose(term.total(configuration), before + change, abs_tol=1e-9)
        if data.draw(st.booleans()):
            configuration.apply(back)
            configuration.check()
            assert term.total(configuration) == before


@pytest.mark.parametrize("spec", SPECS)
def test_search_lowers_the_expected_failovers(spec):
    random = np.random.default_rng(5)
    places = [f"n{number % 2}" for number in range(10)]
    reports = random.integers((5, 10), (30, 50), size=(10, HISTORY, 2)).tolist()
    plans = []
    for threads in (1, 2):
        engine = engine_with(spec, places, reports)
        quick = {"chains": 2, "threads": threads, "max_simulated_annealing_iterations": 10}
        engine.configure(attrs.evolve(engine.config, w_imbalance=1.0, **quick))
        plans.append(engine.balance(now=1.0))
    assert plans[0].moves == plans[1].moves
    assert plans[0].energy_after.expected_failovers <= plans[0].energy_before.expected_failovers
    assert plans[0].energy_after.total < plans[0].energy_before.total
    assert plans[0].energy_after.expected_overload == 0.0


def test_replica_without_samples_or_limit_counts_with_its_largest_demand():
    """It counts with its load without a report, and with a larger past demand after one."""
    engine = engine_with("rc-like:warmup=50", ["n0"], [[(10, 20), (96, 30), (12, 30)]], limits=False)
    assert configuration_of(engine).violation_probabilities.tolist() == [1.0, 0.0, 0.0]
    engine = engine_with("rc-like:warmup=50", ["n0"], [[(10, 20), (12, 30)]], limits=False)
    assert configuration_of(engine).violation_probabilities.tolist() == [0.0, 0.0, 0.0]


def test_samples_move_and_end_with_their_replica():
    low, high = [(5, 5)] * HISTORY, [(39, 39)] * HISTORY
    spec = f"rc-like:percentile=100,{WINDOW}"
    engine = engine_with(spec, ["n0", "n0", "n0"], [high, high, high])
    assert configuration_of(engine).violation_probabilities.tolist() == [1.0, 0.0, 0.0]
    engine.update_partition(Partition("p2", service="s2", replicas=[Replica(Role.INSTANCE, "n1")]))
    assert configuration_of(engine).violation_probabilities.tolist() == [0.0, 0.0, 0.0]
    engine = engine_with(spec, ["n0", "n0", "n0"], [low, low, low])
    assert configuration_of(engine).violation_probabilities.tolist() == [0.0, 0.0, 0.0]
    for number in range(3):
        engine.remove_partition(f"p{number}")
        new = Partition(f"q{number}", service=f"s{number}", replicas=[Replica(Role.INSTANCE, "n0")])
        engine.update_partition(new)
    assert configuration_of(engine).violation_probabilities.tolist() == [1.0, 0.0, 0.0], "three limits of 40"


def test_samples_are_kept_unless_the_history_changes():
    engine = engine_with(f"rc-like:percentile=100,{WINDOW}", ["n0"] * 3, [[(39, 0)] * HISTORY] * 3)
    engine.configure(attrs.evolve(engine.config, w_failovers=2.0))
    assert configuration_of(engine).violation_probabilities[0] == 1.0
    engine.configure(attrs.evolve(engine.config, estimator=f"n-sigma:n=0,{WINDOW}"))
    assert configuration_of(engine).violation_probabilities[0] == 1.0
    engine.configure(attrs.evolve(engine.config, estimator="gaussian:history=50,warmup=2"))
    assert configuration_of(engine).violation_probabilities[0] == 1.0, "three limits of 40"
    for number in 2 * [*range(3)]:
        engine.report_load(f"p{number}", "n0", {"cpu": 1.0})
    assert configuration_of(engine).violation_probabilities[0] == 0.0


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("gausian", UnknownNameError, "gaussian"),
        ("n-sigma:n=-1", InvalidValueError, "n"),
        ("gaussian:history=1", InvalidValueError, "history"),
        ("gaussian:history=999999999999999", InvalidValueError, "history = .* <= 1000000"),
        ("oracle:horizon=3", InvalidValueError, "past only"),
        ("historical-simulation:stride=3", UnknownNameError, "unknown parameter 'stride'"),
        ("max(n-sigma;historical-simulation)", InvalidValueError, "historical-simulation is none here"),
        ("max(max(monte-carlo))", InvalidValueError, "monte-carlo is none here"),
        ("monte-carlo:horizon=-1", InvalidValueError, "monte-carlo: horizon = -1"),
        ("monte-carlo:maximum_from=-0.5", InvalidValueError, "monte-carlo: maximum_from = -0.5"),
        ("monte-carlo:maximum_from=50", InvalidValueError, "monte-carlo: maximum_from = 50.*<= 1"),
        (7, InvalidValueError, "estimator"),
    ],
)
def test_unknown_estimators_are_refused(text, error, message):
    with pytest.raises(error, match=message):
        PlbConfig(metrics=[Metric("cpu")], estimator=text)


def test_admission_checks_whether_a_replica_fits():
    """A new replica goes to a node where it fits, or to none; placed replicas stay."""
    loads = [[(50, 20), (20, 20), (80, 20)] * 2] * 2
    engine = engine_with(f"gaussian:{WINDOW}", ["n0", "n1"], loads, extension_constraints=[Admission(0.05)])
    engine.configure(attrs.evolve(engine.config, policy="best_fit_max"))
    engine.update_service(Service("new", stateful=False, target_replicas=1, limits={"cpu": 60.0, "disk": 60.0}))
    engine.update_partition(Partition("new/0", service="new"))
    chances = engine.violation_probabilities(partition="new/0")
    assert chances["n0"] > 0.05 > chances["n2"] == 0.0
    plan = engine.place("new/0", now=1.0)
    assert [move.target for move in plan.moves] == ["n2"], "best fit alone would use a fuller node"
    engine.apply(plan)
    with pytest.raises(ConflictError, match="new/0: misses no replica"):
        engine.violation_probabilities(partition="new/0")
    engine.update_partition(Partition("new/1", service="new"))
    plan = engine.place("new/1", now=2.0)
    assert not plan.moves
    assert plan.unplaced[0].partition == "new/1"
    assert "admission" in plan.explain("new/1")
    assert not engine.repair(now=3.0).moves


def test_single_and_bulk_reports_give_the_same_samples():
    loads = np.random.default_rng(1).integers(0, 50, size=(HISTORY, 3, 2)).astype(float)
    single = engine_with(SPECS[0], ["n0"] * 3, loads.transpose(1, 0, 2).tolist())
    bulk = engine_with(SPECS[0], ["n0"] * 3, [[], [], []])
    index = [bulk.replicas(f"p{number}")[0].index for number in range(3)]
    for step in loads:
        bulk.report_loads(index, step)
    assert bulk.violation_probabilities() == single.violation_probabilities()
    assert 0.0 < bulk.violation_probabilities()["n0"] < 1.0


@pytest.mark.parametrize("policy", ["annealing", "best_fit_max", "prv_worst_fit"])
def test_admission_holds_in_every_phase(policy):
    """Where a violation is certain on every node, nothing is placed; primary and secondary are both checked."""
    engine = engine_with("borg-default:phi=1", [], [], extension_constraints=[Admission(0.5)])
    engine.configure(attrs.evolve(engine.config, policy=policy))
    for name, limit in (("large", 99.0), ("small", 60.0)):
        engine.update_service(Service(name, target_replicas=3, limits={"cpu": limit, "disk": 1.0}))
        engine.update_partition(Partition(f"{name}/0", service=name))
    assert not [move for move in engine.place("large/0").moves if move.partition == "large/0"]
    plan = engine.place("small/0")
    assert sorted(move.target for move in plan.moves) == ["n0", "n1", "n2"]
    engine.apply(plan)
    engine.update_partition(Partition("small/1", service="small"))
    assert not engine.place("small/1").moves, "two limits of 60 on one node are too much"
    assert max(engine.violation_probabilities().values()) == 0.0


def test_invalid_limits_are_refused_and_change_nothing():
    with pytest.raises(InvalidValueError, match=r"service s: limits\[cpu\] = -1"):
        Service("s", limits={"cpu": -1.0})
    engine = engine_with("rc-like", ["n0"], [[(5, 5)]])
    with pytest.raises(UnknownNameError, match="service new: limits: unknown metric 'gpu'"):
        engine.update_service(Service("new", limits={"gpu": 1.0}))
    assert not engine.balance(now=1.0).moves
    with pytest.raises(UnknownNameError):
        engine.update_partition(Partition("new/0", service="new"))


@pytest.mark.parametrize("spec", SPECS)
def test_demand_beyond_the_largest_node_and_without_bound_is_counted(spec):
    """A metric without a limit on the node has no violation; demand above the capacity of a node is one."""
    engine = engine_with(spec, ["n0", "n1"], [[(90, 10), (0, 10)] * HISTORY] * 2, limits=False)
    engine.update_service(Service("big", stateful=False, limits={"cpu": 1e5, "disk": 1.0}))
    engine.update_partition(Partition("big/0", service="big", replicas=[Replica("instance", "n1")]))
    assert engine.violation_probabilities()["n1"] > 0.8
    for node in range(NODES):
        engine.update_node(Node(f"n{node}", capacities={"disk": 200.0}))
    assert set(engine.violation_probabilities().values()) == {0.0}


def test_replica_is_known_after_a_warmup_longer_than_the_history():
    """The history limits the kept samples, not the count of samples."""
    for spec in ("gaussian:history=2,warmup=5", "n-sigma:history=2,warmup=5", "rc-like:history=1,warmup=5"):
        engine = engine_with(spec, ["n0"] * 3, [[(1, 1)] * 4] * 3)
        assert engine.violation_probabilities()["n0"] == 1.0, "three limits of 40"
        for number in range(3):
            engine.report_load(f"p{number}", "n0", {"cpu": 1.0, "disk": 1.0})
        assert engine.violation_probabilities()["n0"] == 0.0


def test_metrics_that_a_service_does_not_have_do_not_count():
    """Neither their limits nor their old samples count, even after a change of the limits."""
    engine = engine_with(SPECS[2], ["n0"] * 3, [[(39, 1)] * HISTORY] * 3)
    assert engine.violation_probabilities()["n0"] == 1.0
    for number in range(3):
        engine.update_service(
            Service(f"s{number}", stateful=False, metrics={"disk": 1.0}, limits={"cpu": 90.0, "disk": LIMIT})
        )
    assert engine.violation_probabilities()["n0"] == 0.0
    engine = engine_with("borg-default:phi=1", ["n0"] * 3, [[(1, 1)]] * 3)
    assert engine.violation_probabilities()["n0"] == 1.0
    for number in range(3):
        engine.update_service(Service(f"s{number}", stateful=False, limits={"cpu": 20.0, "disk": LIMIT}))
    assert engine.violation_probabilities()["n0"] == 0.0


KEPT = "warmup=2,history=3"
OF_PLACES = ("borg-default:phi=1", f"n-sigma:n=1,{KEPT}")
"""One that reads the limits alone, and one that reads the samples, as all others do."""


@pytest.mark.parametrize("spec", OF_PLACES)
@pytest.mark.parametrize("limits", [{"cpu": 150.0, "disk": 500.0}, {}], ids=["limits", "none"])
@pytest.mark.parametrize("reports", [0, 1, 3])
@pytest.mark.parametrize(
    "kind", ["whole", "vacant", "standby", "dropped", "leaving", "without disk", "loses disk", "role load"]
)
def test_forecast_of_a_replica_equals_that_of_the_engine(spec, limits, reports, kind):
    engine = engine_with(spec, [], [])
    metrics = {"cpu": 1.0} if kind == "without disk" else None
    engine.update_service(Service("s", target_replicas=2, limits=limits, metrics=metrics))
    both = [Replica("primary", "n0"), Replica("secondary", "n1")]
    engine.update_partition(Partition("p", service="s", replicas=both))
    for number in range(reports):
        engine.report_load("p", "n1", {"cpu": 60.0 + 10.0 * number, "disk": 150.0})
    if kind == "role load":
        engine.report_role_load("p", "secondary", {"cpu": 96.0})
    if kind == "loses disk":
        engine.update_service(Service("s", target_replicas=2, limits=limits, metrics={"cpu": 1.0}))
    changed = {
        "vacant": [both[0], Replica("secondary", "n1", state="dropped", upgrade="replica_returns")],
        "standby": [both[0], Replica("secondary", "n1", state="standby")],
        "dropped": [both[0], Replica("secondary", "n1", state="dropped")],
        "leaving": [both[0], Replica("secondary", "n1", leaving=True), Replica("secondary", "n2")],
    }
    if kind in changed:
        engine.update_partition(Partition("p", service="s", replicas=changed[kind]))
    configuration = configuration_of(engine)
    for node in range(NODES):
        on_node = [reported_by(configuration.forecast_of(int(row))) for row in configuration.rows_on(node)]
        assert math.isclose(configuration.violation_probabilities[node], expected(spec, on_node), abs_tol=1e-4)


@pytest.mark.parametrize(
    ("spec", "reads"),
    [
        ("monte-carlo", False),
        ("monte-carlo:horizon=24", False),
        ("monte-carlo:maximum_from=0.5", True),
        (SPECS[0], True),
    ],
)
def test_estimators_that_read_promises_are_known(spec, reads):
    """Monte Carlo reads them only for the size of a replica."""
    assert reads_limits(estimator_of(spec)) is reads


def test_a_horizon_without_effect_is_refused():
    """Traces as recorded, by their peaks, have no time."""
    settings = {"metrics": [Metric("cpu")], "estimator": "monte-carlo:horizon=24", "replay": "as_recorded"}
    with pytest.raises(ConflictError, match="has a horizon, without effect with replay as_recorded"):
        PlbConfig(**settings)
    assert PlbConfig(**settings, evaluation="timeline").evaluation is Evaluation.TIMELINE
