"""The learned policy on an engine's cluster: what it sees, what it answers, and what it needs."""

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
from plb.registry import extension_policy, register_policy
from plb.risk import DemandHistory
from plb.testing import policy_test

HOUR = 3600.0
SHAPE = ObservationShape(machines=3, resources=1, past=2, horizon=4, visible=2, arrivals=3)


class Stub:
    """Stands for a trained network: it takes the allowed node with the least usage to come, and keeps what it saw."""

    def __init__(self, shape: ObservationShape = SHAPE, answer: int | None = None) -> None:
        self.shape, self.answer, self.resources = shape, answer, ()
        self.seen: list[Observation] = []
        self.asked: list[tuple[list[bool], bool]] = []

    def act(self, observation: Observation, allowed: np.ndarray, *, may_wait: bool) -> int:
        """Return the action."""
        self.seen.append(observation)
        self.asked.append((allowed.tolist(), may_wait))
        if self.answer is not None:
            return self.answer
        usage = observation.machines[:, :, self.shape.past :].sum(axis=(1, 2))
        return int(np.where(allowed, usage, np.inf).argmin()) + 1


def learned(stub: Stub, **options: object) -> Learned:
    """Return the policy with a stub for its network."""
    policy = Learned(checkpoint="stub.pt", **options)
    policy._network = stub
    return policy


test_with_a_network_of_its_own = policy_test(learned(Stub(attrs.evolve(SHAPE, resources=1))))


def engine_of(policy: Learned, history: DemandHistory | None = None, **fields: object) -> PlacementAndLoadBalancing:
    """Return an engine with three nodes of 10, 10 and 20, under the policy."""
    register_policy(policy)
    settings = {"policy": policy.name, **fields}
    if history is None:
        settings = {"w_failovers": 0.0, "w_overload": 0.0, **settings}
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=[Metric("cpu")], **settings), history=history)
    for name, capacity in (("a", 10), ("b", 10), ("c", 20)):
        engine.update_node(Node(name, capacities={"cpu": capacity}))
    return engine


def add(engine: PlacementAndLoadBalancing, name: str, load: float, node: str | None = None) -> None:
    """Let the engine know of a replica, and where it stands."""
    engine.update_service(
        Service(name, stateful=False, tenant_class="gold", default_load={Role.INSTANCE: {"cpu": load}})
    )
    replicas = [Replica(Role.INSTANCE, node)] if node else []
    engine.update_partition(Partition(f"{name}/0", service=name, replicas=replicas))


def test_it_sees_nodes_and_what_is_to_be_placed():
    """As shares: of each node, and of the mean capacity of those that are offered."""
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
    assert stub.asked == [([True, True, True], False)]
    assert plan.moves[0].target == "b"


def test_replicas_are_placed_one_after_the_other():
    """Each sees where those before it went, and how many still wait."""
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


def test_waiting_is_an_answer_where_it_may_be():
    """The replica then stays unplaced."""
    stub = Stub(answer=WAIT)
    engine = engine_of(learned(stub, name="waiting", may_wait=True))
    add(engine, "new", 4.0)
    plan = engine.place()
    assert not plan.moves
    assert len(plan.unplaced) == 1
    assert stub.asked[0][1] is True


def test_the_past_is_what_it_saw_at_earlier_plans():
    """An hour a step; before the first plan, as at that."""
    stub = Stub()
    engine = engine_of(learned(stub, name="remembering"))
    add(engine, "old", 5.0, "a")
    add(engine, "new1", 1.0)
    engine.place(now=0.0)
    engine.report_load("old/0", "a", {"cpu": 8.0})
    add(engine, "new2", 1.0)
    engine.place(now=2 * HOUR)
    np.testing.assert_allclose(stub.seen[0].machines[0, 0, :2], [0.5, 0.5])
    later = next(seen for seen in stub.seen[1:] if seen.machines[0, 0, 2] > 0.7)
    np.testing.assert_allclose(later.machines[0, 0, :3], [0.5, 0.5, 0.8])


def test_what_was_seen_last_holds_until_something_else_is_seen():
    """However long ago that was."""
    stub = Stub()
    engine = engine_of(learned(stub, name="far_apart"))
    add(engine, "old", 1.0, "a")
    add(engine, "new", 1.0)
    engine.place(now=0.0)
    engine.report_load("old/0", "a", {"cpu": 5.0})
    past = []
    for hours in (12.0, 24.0):
        engine.place(now=hours * HOUR)
        past.append(stub.seen[-1].machines[0, 0, :3])
    np.testing.assert_allclose(past, [[0.1, 0.1, 0.5], [0.5, 0.5, 0.5]])


def test_a_replica_that_is_to_move_counts_nowhere():
    """Its node is seen as it will be without it."""
    stub = Stub()
    engine = engine_of(learned(stub, name="moving"))
    add(engine, "one", 6.0, "a")
    add(engine, "two", 6.0, "a")
    plan = engine.repair()
    assert len(plan.moves) == 1
    (seen,) = stub.seen
    np.testing.assert_allclose(seen.machines[:, 0, 2], [0.6, 0.0, 0.0])
    np.testing.assert_allclose(seen.occupied, [0.1, 0.0, 0.0])


def test_the_future_is_that_of_past_tenants():
    """Gold tenants grow by 2 in two hours, and half of them are gone after three."""
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
    ("options", "words"),
    [
        ({"checkpoint": 3}, "checkpoint = 3 is not allowed"),
        ({"step_minutes": 0.0}, "step_minutes = 0.0 is not allowed"),
        ({"step_minutes": float("nan")}, "step_minutes = nan is not allowed"),
        ({"metrics": "cpu"}, "metrics = 'cpu' is not allowed"),
        ({"may_wait": 1}, "may_wait = 1 is not allowed"),
    ],
)
def test_options_are_checked_at_the_door(options: dict[str, object], words: str):
    """With the policy and the option."""
    with pytest.raises(InvalidValueError, match=f"policy learned: {words}"):
        extension_policy("learned", options)


def test_without_a_checkpoint_it_says_what_it_needs():
    """When it is first asked."""
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=[Metric("cpu")], policy="learned"))
    engine.update_node(Node("a", capacities={"cpu": 10}))
    add(engine, "new", 1.0)
    with pytest.raises(InvalidValueError, match="policy learned: checkpoint = '' is not allowed; expected the file of"):
        engine.place()


def test_metrics_stand_for_resources():
    """As many as it was trained with, by name."""
    for metrics, error, words in (
        (("disk",), UnknownNameError, "policy naming: metrics: unknown metric 'disk'"),
        (("cpu", "cpu"), InvalidValueError, "expected 1 metrics, one for each resource"),
    ):
        engine = engine_of(learned(Stub(), name="naming", metrics=metrics))
        add(engine, "new", 1.0)
        with pytest.raises(error, match=words):
            engine.place()


def test_a_copy_has_seen_nothing():
    """It shares the network, and begins with a past of its own."""
    policy = learned(Stub(), name="copied", step_minutes=5.0)
    policy._past.append((0.0, {}))
    copy = deepcopy(policy)
    assert (copy.step_minutes, copy._past) == (5.0, [])
    assert copy._network is policy._network


def test_a_trained_policy_decides(tmp_path):
    """From its file; a scorer takes any number of nodes."""
    pytest.importorskip("torch")
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
