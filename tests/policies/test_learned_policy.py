"""The learned policy on an engine's cluster: its observations, its actions, and its requirements."""

from __future__ import annotations

from copy import deepcopy

import attrs
import numpy as np
import pytest

from plb import (
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
from plb.learning.placement_game import WAIT, Observation, ObservationShape
from plb.policies.learned import Learned
from plb.risk import DemandHistory
from tests.machines import short_policy_test

HOUR = 3600.0
SHAPE = ObservationShape(machines=3, resources=1, past=2, horizon=4, visible=2, arrivals=3)


class Stub:
    """Replaces a trained network: it takes the allowed node with the least future usage, and keeps its observations."""

    def __init__(self, shape: ObservationShape = SHAPE, answer: int | None = None) -> None:
        self.shape, self.answer, self.resources = shape, answer, ()
        self.seen: list[Observation] = []
        self.calls: list[tuple[list[bool], bool]] = []

    def act(self, observation: Observation, allowed: np.ndarray, *, may_wait: bool) -> int:
        self.seen.append(observation)
        self.calls.append((allowed.tolist(), may_wait))
        if self.answer is not None:
            return self.answer
        usage = observation.machines[:, :, self.shape.past :].sum(axis=(1, 2))
        return int(np.where(allowed, usage, np.inf).argmin()) + 1


def learned(stub: Stub, **options: object) -> Learned:
    policy = Learned(checkpoint="stub.pt", **options)
    policy._network = stub
    return policy


test_learned_policy_with_a_stub = short_policy_test(learned(Stub(attrs.evolve(SHAPE, resources=1))))


def engine_of(policy: Learned, history: DemandHistory | None = None, **fields: object) -> PlacementAndLoadBalancing:
    """Return an engine with three nodes of 10, 10 and 20, under the policy."""
    settings = {"policy": policy.name, **fields}
    if history is None:
        settings = {"w_failovers": 0.0, "w_overload": 0.0, **settings}
    config = PlbConfig(metrics=[Metric("cpu")], **settings)
    engine = PlacementAndLoadBalancing(config, history=history, extension_policy=policy)
    for name, capacity in (("a", 10), ("b", 10), ("c", 20)):
        engine.update_node(Node(name, capacities={"cpu": capacity}))
    return engine


def add(engine: PlacementAndLoadBalancing, name: str, load: float, node: str | None = None) -> None:
    """Report a replica to the engine, with its node if it has one."""
    engine.update_service(
        Service(name, stateful=False, tenant_class="gold", default_load={Role.INSTANCE: {"cpu": load}})
    )
    replicas = [Replica(Role.INSTANCE, node)] if node else []
    engine.update_partition(Partition(f"{name}/0", service=name, replicas=replicas))


def test_observation_has_nodes_and_waiting_replicas():
    """Loads are shares of the capacity of each node; demand is a share of the mean capacity of the offered nodes."""
    stub = Stub()
    engine = engine_of(learned(stub, name="seeing"))
    add(engine, "old", 5.0, "a")
    add(engine, "new", 4.0)
    plan = engine.place()
    (seen,) = stub.seen
    np.testing.assert_allclose(seen.machines[:, 0, 2:], [[0.5] * 4, [0.0] * 4, [0.0] * 4])
    np.testing.assert_allclose(seen.queue[0, 0], 4.0 / (40.0 / 3.0))
    np.testing.assert_allclose(seen.queue[1], 0.0)
    np.testing.assert_allclose(seen.occupied, [0.1, 0.0, 0.0])
    assert [array.dtype for array in seen] == [np.float32] * 6
    assert stub.calls == [([True, True, True], False)]
    assert plan.moves[0].target == "b"


def test_replicas_are_placed_in_sequence():
    stub = Stub()
    engine = engine_of(learned(stub, name="following"))
    for name in ("x", "y", "z"):
        add(engine, name, 4.0)
    engine.place()
    taken = [seen.machines[:, 0, 2].tolist() for seen in stub.seen]
    assert taken == pytest.approx(np.array([[0.0, 0.0, 0.0], [0.4, 0.0, 0.0], [0.4, 0.4, 0.0]]))
    waiting = [int((seen.queue.sum(axis=(1, 2)) > 0).sum()) for seen in stub.seen]
    assert waiting == [2, 2, 1]
    assert [float(seen.backlog[0]) for seen in stub.seen] == pytest.approx([1 / 3, 0.0, 0.0])


def test_policy_may_wait_if_that_is_allowed():
    stub = Stub(answer=WAIT)
    engine = engine_of(learned(stub, name="waiting", may_wait=True))
    add(engine, "new", 4.0)
    plan = engine.place()
    assert not plan.moves
    assert len(plan.unplaced) == 1
    assert stub.calls[0][1] is True


def test_past_has_the_observations_of_earlier_plans():
    """A step is an hour; the first observation also holds before it, and the last one until the next."""
    stub = Stub()
    engine = engine_of(learned(stub, name="remembering"))
    add(engine, "old", 1.0, "a")
    add(engine, "new", 1.0)
    engine.place(now=0.0)
    engine.report_load("old/0", "a", {"cpu": 5.0})
    for hours in (2.0, 12.0):
        engine.place(now=hours * HOUR)
    seen = [observation.machines[0, 0, :3] for observation in stub.seen]
    np.testing.assert_allclose(seen, [[0.1, 0.1, 0.1], [0.1, 0.1, 0.5], [0.5, 0.5, 0.5]])


def test_replica_that_is_to_move_does_not_count():
    stub = Stub()
    engine = engine_of(learned(stub, name="moving"))
    add(engine, "one", 6.0, "a")
    add(engine, "two", 6.0, "a")
    plan = engine.repair()
    assert len(plan.moves) == 1
    (seen,) = stub.seen
    np.testing.assert_allclose(seen.machines[:, 0, 2], [0.6, 0.0, 0.0])
    np.testing.assert_allclose(seen.occupied, [0.1, 0.0, 0.0])


def test_forecast_is_that_of_past_tenants():
    """Gold tenants grow by 2 in two hours, and half of them leave after three."""
    history = DemandHistory.from_columns(
        ["cpu"],
        tenant_class=["gold", "gold"],
        role=[Role.INSTANCE, Role.INSTANCE],
        lifetime=[2.5 * HOUR, 9 * HOUR],
        level=[[6.0], [6.0]],
        initial=[[4.0], [4.0]],
        growth=[[2 * HOUR], [2 * HOUR]],
        maximum=[[6.0], [6.0]],
    )
    stub = Stub()
    engine = engine_of(learned(stub, name="foreseeing"), history, w_failovers=0.1)
    add(engine, "new", 4.0)
    engine.place(now=0.0)
    np.testing.assert_allclose(stub.seen[0].queue[0, 0] * 40 / 3, [4.0, 5.0, 6.0, 3.0], rtol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"checkpoint": 3}, "checkpoint = 3 is not allowed"),
        ({"step_minutes": 0.0}, "step_minutes = 0.0 is not allowed"),
        ({"step_minutes": float("nan")}, "step_minutes = nan is not allowed"),
        ({"metrics": "cpu"}, "metrics = 'cpu' is not allowed"),
        ({"may_wait": 1}, "may_wait = 1 is not allowed"),
    ],
)
def test_invalid_options_are_refused(options: dict[str, object], message: str):
    with pytest.raises(InvalidValueError, match=f"policy learned: {message}"):
        PlacementAndLoadBalancing(PlbConfig(metrics=[Metric("cpu")], policy="learned", policy_options=options))


def test_policy_without_a_checkpoint_names_the_missing_option():
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=[Metric("cpu")], policy="learned"))
    engine.update_node(Node("a", capacities={"cpu": 10}))
    add(engine, "new", 1.0)
    with pytest.raises(InvalidValueError, match="policy learned: checkpoint = '' is not allowed; expected the file of"):
        engine.place()


def test_metrics_name_the_resources_of_the_training():
    for metrics, error, message in (
        (("disk",), UnknownNameError, "policy naming: metrics: unknown metric 'disk'"),
        (("cpu", "cpu"), InvalidValueError, "expected 1 metrics, one for each resource"),
    ):
        engine = engine_of(learned(Stub(), name="naming", metrics=metrics))
        add(engine, "new", 1.0)
        with pytest.raises(error, match=message):
            engine.place()


def test_copy_has_no_past():
    policy = learned(Stub(), name="copied", step_minutes=5.0)
    policy._past.append((0.0, {}))
    copy = deepcopy(policy)
    assert (copy.step_minutes, copy._past) == (5.0, [])
    assert copy._network is policy._network


def test_trained_policy_places_a_replica(tmp_path):
    pytest.importorskip("torch")
    pytest.importorskip("gymnasium")
    from plb.learning.checkpoints import write_checkpoint
    from plb.learning.settings import TrainingSettings
    from plb.learning.training import train
    from tests.learning.games import EmptierMachine

    trained = train(TrainingSettings(iterations=1, sequences=1, trajectories=2, hidden=4), EmptierMachine)
    write_checkpoint(tmp_path / "policy.pt", trained.policy_alone())
    resources = EmptierMachine().shape.resources
    names = [f"m{number}" for number in range(resources)]
    options = {"checkpoint": str(tmp_path / "policy.pt")}
    config = PlbConfig(metrics=[Metric(name) for name in names], policy="learned", policy_options=options)
    engine = PlacementAndLoadBalancing(config)
    for number in range(7):
        engine.update_node(Node(f"n{number}", capacities=dict.fromkeys(names, 10)))
    engine.update_service(Service("s", stateful=False, default_load={Role.INSTANCE: dict.fromkeys(names, 3)}))
    engine.update_partition(Partition("p", service="s"))
    assert len(engine.place().moves) == 1
