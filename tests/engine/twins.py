"""An engine that was never stopped, and its twin from a snapshot: the same calls to both, and what has to be equal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from plb import Metric, PlacementAndLoadBalancing, Plan, PlbError, Role, Snapshot
from plb.evaluation.delta import comparable_values
from plb.risk import DemandHistory
from plb.state.arrays import SCRATCH

from .fingerprint import snapshot as fingerprint
from .whole_strategies import mostly, whole_settings
from .world import World

OF_SAMPLES = ("peak", "peak_ceiling", "trace")
"""Arrays of what is sampled, without a meaning for rows that are free or leave."""
UNSEEN = {
    "config",
    "service_partitions",
    "service_table",
    "free_services",
    "feasibility_class_index",
    "availability_changes",
    "_partition_names",
    "default_loads",
    "rows",
    "partitions",
}
"""Fields of a cluster that are compared otherwise, or kept from call to call to save time."""


def restored(
    engine: PlacementAndLoadBalancing, history: DemandHistory | None = None, **extensions: Any
) -> PlacementAndLoadBalancing:
    """Return the twin of an engine, by way of bytes; the engine forgets where searches have ended, as its twin does."""
    snapshot = Snapshot.from_bytes(engine.snapshot().to_bytes())
    engine._planner._fixed_point.forget()
    return PlacementAndLoadBalancing.from_snapshot(snapshot, history=history, **extensions)


def check_same_state(one: PlacementAndLoadBalancing, two: PlacementAndLoadBalancing) -> None:
    """Compare all that two engines remember, without a query that would bring their arrays up to date."""
    states = [fingerprint(engine) for engine in (one, two)]
    for whole in states:
        del whole["demand_forecast"]
        whole["rows"] = {name: value for name, value in whole["state"]["rows"].items() if name != "changes"}
        whole["partitions"] = [
            (name, {field: value for field, value in record.items() if field != "slot_keys"})
            for name, record in whole["state"]["partitions"].items()
        ]
        whole["state"] = {name: value for name, value in whole["state"].items() if name not in UNSEEN}
    for part in states[0]:
        assert states[0][part] == states[1][part], part
    assert one.config == two.config
    assert one.seed == two.seed
    assert one.snapshot() == two.snapshot()


def check_same_arrays(one: PlacementAndLoadBalancing, two: PlacementAndLoadBalancing, now: float) -> None:
    """Compare problem, solution and work lists of two engines, and what they tell of their cluster."""
    planners = [engine._planner for engine in (one, two)]
    problems = [planner.problem(now) for planner in planners]
    table = one._state.rows
    sampled = np.append(table.used & ~table.leaving, True)
    for name in problems[0]._fields:
        pair = [np.asarray(getattr(problem, name)) for problem in problems]
        if name in OF_SAMPLES and pair[0].size:
            pair = [array[sampled[: len(array)]] for array in pair]
        np.testing.assert_array_equal(*pair, name)
    solutions = [planner.start(problem) for planner, problem in zip(planners, problems, strict=True)]
    for name in solutions[0]._fields:
        if name not in SCRATCH:
            np.testing.assert_array_equal(*(comparable_values(solution, name) for solution in solutions), name)
    lists = [planner._live.work for planner in planners]
    assert lists[0].unfinished == lists[1].unfinished
    assert lists[0].immovable == lists[1].immovable
    assert lists[0].breaking == lists[1].breaking
    assert one.node_loads() == two.node_loads()
    assert one.service_domains() == two.service_domains()
    assert one.violations(soft=True) == two.violations(soft=True)
    assert one.violation_probabilities(now) == two.violation_probabilities(now)


def outcome(verb: Callable[[PlacementAndLoadBalancing], Any], engine: PlacementAndLoadBalancing) -> Any:
    try:
        return verb(engine)
    except PlbError as error:
        return type(error), str(error)


class TwinWorld(World):
    """Two engines with the same calls; no call is made to compare them, as queries bring their arrays up to date."""

    def past(self, metrics: tuple[Metric, ...]) -> DemandHistory:
        """Return a history whose traces grow for up to half an hour and live for up to five days."""
        traces, width = 24, len(metrics)
        level = [[trace % 12] * width for trace in range(traces)]
        return DemandHistory.from_columns(
            [metric.name for metric in metrics],
            tenant_class=["gold", "silver"] * 12,
            role=[role for role in Role for _ in range(8)],
            lifetime=[10.0 * 3.0**trace for trace in range(12)] * 2,
            level=level,
            initial=[[trace % 3 and trace % 12 // 2] * width for trace in range(traces)],
            growth=[[150.0 * (trace % 12)] * width for trace in range(traces)],
            maximum=level,
        )

    def call(self, verb: Callable[[PlacementAndLoadBalancing], None]) -> None:
        """Make the same call to both engines; both may refuse it."""
        one, two = (outcome(verb, engine) for engine in (self.one, self.two))
        assert one == two
        self.version += 1

    def refuse(self, verb: Callable[[PlacementAndLoadBalancing], object]) -> None:
        """Make an invalid call to both engines."""
        assert outcome(verb, self.one) == outcome(verb, self.two)

    def ask(self, verb: Callable[[PlacementAndLoadBalancing], Plan], *, balancing: bool = False) -> Plan:
        """Ask both engines for the same plan."""
        del balancing
        one, two = (outcome(verb, engine) for engine in (self.one, self.two))
        assert one == two
        self.plan = one if isinstance(one, Plan) else None
        self.planned_at = self.version
        return one

    def apply_plan(self, *, leaving: bool) -> None:
        """Apply the last plan to both engines if nothing has changed since."""
        if self.plan is not None and self.planned_at == self.version:
            plan = self.plan
            self.call(lambda engine: engine.apply(plan, leaving=leaving))

    def restart(self) -> None:
        """Replace one engine by a twin of the other; the other is as before."""
        before = fingerprint(self.one)
        twin = restored(self.one, self.history)
        assert fingerprint(self.one) == before, "a snapshot changes nothing"
        self.two = twin
        check_same_state(self.one, self.two)


ESTIMATORS_FROM_REPORTS = (
    "gaussian:warmup=2,history=4",
    "n-sigma:n=3,warmup=2,history=3",
    "historical-simulation:slots=4,slot_minutes=1,horizon=2",
)


@st.composite
def settings_of_monte_carlo(draw: st.DrawFn) -> dict[str, Any]:
    """Draw every way to use sampled traces: from which demand, within which horizon, and how they are tested."""
    horizon, maximum_from = draw(mostly(0.0, 0.01, 1.0)), draw(mostly(0.0, 0.5))
    replay, evaluation = (
        draw(st.sampled_from(["anchored", "from_present", "as_recorded"])),
        draw(mostly("peak", "timeline")),
    )
    if replay == "as_recorded" and evaluation == "peak":
        horizon = 0.0
    estimator = f"monte-carlo:horizon={horizon},maximum_from={maximum_from}"
    return {"estimator": estimator, "replay": replay, "evaluation": evaluation}


@st.composite
def settings_with_forecasts(draw: st.DrawFn) -> dict[str, Any]:
    """Draw settings of every kind, with sampled and observed demand and all throttles."""
    return {
        **draw(whole_settings()),
        **draw(settings_of_monte_carlo()),
        **({"estimator": other} if (other := draw(mostly(None, *ESTIMATORS_FROM_REPORTS))) is not None else {}),
        "movement_per_partition_throttle_threshold": draw(mostly(None, 1, 2)),
        "use_separate_secondary_load": draw(st.booleans()),
    }
