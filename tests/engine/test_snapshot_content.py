"""What a snapshot holds, what it needs to be read, and the errors of one that cannot be read."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb import (
    ConflictError,
    InvalidValueError,
    Metric,
    MoveCost,
    Node,
    Partition,
    PlacementAndLoadBalancing,
    PlbConfig,
    PlbError,
    Replica,
    Role,
    Service,
    Snapshot,
    UnknownNameError,
)
from plb.engine_extensions import EngineExtensions
from plb.planning import snapshots
from plb.planning.scheduler import DomainRecord, Scheduler, Stage
from plb.policies import BUILT_IN
from plb.risk import DemandHistory
from plb.risk.estimators import Kept
from plb.state.cluster_state import PartitionRecord
from plb.state.replica_table import RowTable

from .strategies import examples
from .twins import check_same_arrays, check_same_state, restored

METRICS = [Metric("cpu"), Metric("memory", quantum=0.25)]


def engine_of(partitions: int = 6, *, history: DemandHistory | None = None, **settings: Any) -> Any:
    """Return an engine with four nodes and partitions of three replicas, some of which are placed.

    `settings`: fields of `PlbConfig`, and objects that extend the engine.
    """
    own = {name: settings.pop(name) for name in [*settings] if name.startswith("extension_")}
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=METRICS, **settings), seed=5, history=history, **own)
    for index in range(4):
        engine.update_node(Node(f"n{index}", capacities={"cpu": 40, "memory": 80}, fault_domain=f"fd:/{index}"))
    engine.update_service(Service("db", target_replicas=3, tenant_class="gold"))
    for index in range(partitions):
        engine.update_partition(Partition(f"db/{index}", service="db", replicas=[Replica(Role.PRIMARY, "n0")]))
        engine.report_load(f"db/{index}", "n0", {"cpu": 3, "memory": 2.5})
    return engine


def history_of(level: float = 4.0) -> DemandHistory:
    return DemandHistory.from_columns(
        ["cpu", "memory"],
        tenant_class=["gold", "gold"],
        role=[Role.PRIMARY, Role.SECONDARY],
        lifetime=[10_000.0, 20_000.0],
        initial=[[1.0, 1.0]] * 2,
        level=[[level, level]] * 2,
        growth=[[3600.0, 0.0]] * 2,
        maximum=[[9.0, 9.0]] * 2,
    )


def changed(snapshot: Snapshot, *, document: Any = None, **arrays: Any) -> Snapshot:
    """Return a snapshot with other arrays, by name with _ for a dot, and a document that a function has changed."""
    with np.load(io.BytesIO(snapshot.to_bytes()), allow_pickle=False) as file:
        known = {name: file[name] for name in file.files}
    if document is not None:
        values = json.loads(known["document"].tobytes())
        document(values)
        known["document"] = np.frombuffer(json.dumps(values).encode(), np.uint8)
    known |= {name.replace("__", "."): value for name, value in arrays.items() if value is not None}
    for name in [name.replace("__", ".") for name, value in arrays.items() if value is None]:
        del known[name]
    data = io.BytesIO()
    np.savez(data, **known)
    return Snapshot.from_bytes(data.getvalue())


# what it holds


def test_snapshot_is_an_archive_of_arrays_without_pickle():
    """NumPy reads all of it with `allow_pickle=False`, other programs as ``.npy`` files; the names are JSON."""
    data = io.BytesIO(engine_of().snapshot().to_bytes())
    with np.load(data, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    with zipfile.ZipFile(data) as file:
        assert all(name.endswith(".npy") for name in file.namelist())
    assert all(array.dtype.kind in "biuf" for array in arrays.values())
    document = json.loads(arrays["document"].tobytes())
    assert arrays["plb_snapshot_version"].tolist() == [3]
    assert document["partition_names"] == [f"db/{index}" for index in range(6)]


def test_size_grows_with_the_number_of_replicas():
    """A replica takes less than 200 bytes, and ten times as many replicas take less than ten times as much."""
    sizes = {count: len(engine_of(count).snapshot().to_bytes()) for count in (100, 1000)}
    assert sizes[1000] < 10 * sizes[100]
    assert (sizes[1000] - sizes[100]) / (900 * 3) < 200


def test_equal_snapshots_have_equal_bytes():
    """They share nothing with the engine, so later calls do not change them."""
    engine = engine_of()
    engine.apply(engine.refresh(0.0, budget=100))
    first = engine.snapshot()
    data = first.to_bytes()
    assert engine.snapshot().to_bytes() == data
    engine.report_load("db/0", "n0", {"cpu": 9})
    engine.update_partition(Partition("db/9", service="db"))
    assert first.to_bytes() == data
    assert engine.snapshot() != first


@pytest.mark.parametrize("kind", [np.uint8, np.int16, np.uint64, np.int64])
def test_type_of_whole_numbers_does_not_matter(kind):
    """The values do, and the sign of a zero."""
    snapshot = Snapshot.of({}, {"a": np.array([0, 1], kind)})
    assert snapshot == Snapshot.of({}, {"a": np.array([0, 1])}) == Snapshot.from_bytes(snapshot.to_bytes())
    for values in ([0, 2], [[0, 1]], [0.0, 1.0], [-0.0, 1.0]):
        other = Snapshot.of({}, {"a": np.array(values)})
        assert snapshot != other == Snapshot.from_bytes(other.to_bytes())
    assert Snapshot.of({}, {"a": np.array([0.0])}) != Snapshot.of({}, {"a": np.array([-0.0])})


def names_of(kind: type) -> set[str]:
    return {*attrs.fields_dict(kind)}


def test_snapshot_names_each_field_of_the_state():
    """A new field has to be written, or named here as one that follows from others or is written otherwise."""
    engine = engine_of()
    planner, state = engine._planner, engine._state
    follows = {"config", "node_index", "row_partition", "service_partitions", "service_table", "free_services"}
    follows |= {"capacity", "availability_changes", "_partition_names", "default_loads"}
    otherwise = {"service_index", "applications", "partitions", "quanta", "rows"}
    otherwise |= {"feasibility_classes", "feasibility_class_index"}
    assert {*vars(state)} == names_of(snapshots._ClusterFields) | follows | otherwise
    follows = {"state", "_history", "_topology", "_tables", "domains", "_live", "_fixed_point"}
    follows |= {"_has_advanced"}  # from the time, unless it is 0
    otherwise = {"demand_forecast", "scheduler", "extensions"}
    assert {*vars(planner)} == names_of(snapshots._PlannerFields) | follows | otherwise
    assert names_of(Scheduler) == names_of(snapshots._SchedulerFields) | {"config"}
    written = {*snapshots.COLUMNS} | names_of(snapshots._PartitionFields)
    assert names_of(PartitionRecord) == written | {"name", "rows", "slot_keys"}
    others = {name for name, value in vars(state.rows).items() if not isinstance(value, np.ndarray)}
    assert others == {"changes", "_free", "past"}
    assert {*vars(state.rows.past)} == {"values", "newest", "slot_minutes"}


def test_every_array_of_the_rows_comes_back():
    random, table, kept = np.random.default_rng(0), RowTable(2, 8), Kept(samples=3, slots=4, slot_minutes=60)
    table.keep_reports(kept)
    table.take(5)
    for name, array in table._arrays().items():
        if name != "used":
            array[:5] = random.integers(0, 2, array[:5].shape)
    table.past.enter(9, random.integers(0, 5, (8, 2)), table.used)
    table.generation[:5] = 1
    twin = RowTable.from_arrays(table.to_arrays(), kept, 2, nodes=4, services=4)
    for one, other in ((table, twin), (table.past, twin.past)):
        for name, array in vars(one).items():
            if isinstance(array, np.ndarray):
                np.testing.assert_array_equal(array, getattr(other, name), name)
    assert twin.past.newest == 9
    assert twin._free == table._free


def test_domain_record_with_every_field_comes_back():
    """Versions are tuples again, and keys are members."""
    full = DomainRecord(
        made=3.0,
        last_run={Stage.BALANCING: 1.5},
        tries={Stage.PLACEMENT: 2},
        tried_at={Stage.PLACEMENT: ((3, 4, 5),), Stage.BALANCING: ((1, 2), (7,))},
        at_fixed_point=((1, 2), (7,)),
        under_way={"p": (2.5, 7, 1)},
    )
    for record in (full, DomainRecord()):
        values = json.loads(json.dumps(snapshots.CONVERTER.unstructure(record)))
        assert attrs.asdict(snapshots.CONVERTER.structure(values, DomainRecord)) == attrs.asdict(record)


def test_reports_and_descriptions_come_back():
    """Loads by role and by node, a cost, a number of the description, and surplus replicas, to the last bit."""
    engine = engine_of(use_separate_secondary_load=True)
    engine.update_partition(Partition("db/0", service="db", missing=-1, version=2**70))
    engine.report_role_load("db/1", "secondary", {"cpu": 0.1 + 0.2})
    engine.report_secondary_loads("db/2", {"n1": {"cpu": 1 / 3}, "n2": {"memory": 5}})
    engine.report_move_cost("db/3", "primary", 2.5)
    engine.report_move_cost("db/3", "secondary", "high")
    check_same_state(engine, restored(engine))


def test_settings_of_a_snapshot_equal_those_of_the_engine():
    """Settings, budgets and descriptions may be given with numbers of NumPy."""
    metrics = [Metric("cpu", weight=np.float32(0.5), empty_nodes=2), Metric("memory", placement_strategy=1)]
    config = PlbConfig(
        metrics=metrics,
        policy="first_fit",
        max_moves=np.int64(3),
        global_movement_throttle_threshold_percentage=0.25,
        threads=None,
        combination="service_fabric",
    )
    engine = PlacementAndLoadBalancing(config)
    engine.update_service(Service("s", max_moves=np.int64(2), move_cost=MoveCost.HIGH, blocked_nodes={"b", "a"}))
    engine.update_node(Node("n", properties={"zone": "é\u2028"}))
    twin = restored(engine)
    assert twin.config == config
    assert twin._state.services == engine._state.services
    assert twin._state.nodes == engine._state.nodes


def test_where_searches_have_ended_is_forgotten():
    """The engine of the snapshot has nothing to do; the other one searches once more."""
    engine = engine_of(w_imbalance=1000.0)
    engine.apply(engine.refresh(0.0))
    for _ in range(3):
        engine.apply(engine.balance())
    twin = PlacementAndLoadBalancing.from_snapshot(engine.snapshot())
    assert [one.balance().proposals.generated > 0 for one in (engine, twin, twin)] == [False, True, False]


def test_seeds_of_any_size_are_accepted_everywhere():
    """At the start, later and in a snapshot; the plans are those of the seed."""
    history = history_of()
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=METRICS), seed=2**64, history=history)
    assert engine.seed == restored(engine, history).seed == 2**64
    engine.seed = 2**200
    engine.update_node(Node("n0"))
    engine.update_service(Service("db", tenant_class="gold"))
    engine.update_partition(Partition("db/0", service="db"))
    twin = restored(engine, history)
    assert engine.place() == twin.place()
    check_same_arrays(engine, twin, 100.0)


def test_twin_with_other_settings_equals_an_engine_that_is_configured():
    """The settings of the snapshot are not used then."""
    engine = engine_of()
    engine.apply(engine.refresh(0.0, budget=100))
    other = attrs.evolve(engine.config, w_imbalance=1000.0, estimator="gaussian")
    twin = PlacementAndLoadBalancing.from_snapshot(engine.snapshot(), config=other)
    engine.configure(other)
    assert twin.config == other
    assert engine.refresh(1.0, budget=100) == twin.refresh(1.0, budget=100)
    with pytest.raises(ConflictError, match="metrics"):
        PlacementAndLoadBalancing.from_snapshot(engine.snapshot(), config=PlbConfig(metrics=[Metric("disk")]))


# extensions and policies


class Alternating:
    """A policy that remembers on which side it placed last."""

    name = "alternating"

    def __init__(self) -> None:
        self.turn = np.zeros(2, np.int64)

    def choose(self, configuration: Any, row: int, nodes: Any) -> int:
        """Return the first and the last node in turn."""
        del configuration, row
        self.turn[0] += 1
        return int(nodes[0] if self.turn[0] % 2 else nodes[-1])


class Remembering(Alternating):
    """The same, with the methods for snapshots."""

    name = "mine"

    def memory(self) -> dict[str, Any]:
        """Return the turn."""
        return {"turn": self.turn, "said": ["so far"]}

    def recall(self, memory: Any) -> None:
        """Go on with the turn."""
        assert memory["said"] == ["so far"]
        self.turn = memory["turn"]


class Extension:
    """A term and a constraint that change nothing."""

    name = "mine"

    def total(self, configuration: Any) -> float:
        """Return no energy."""
        del configuration
        return 0.0

    def refuses(self, configuration: Any, proposal: Any) -> bool:
        """Refuse nothing."""
        del configuration, proposal
        return False

    def broken(self, configuration: Any) -> list[int]:
        """Return no row."""
        del configuration
        return []


def test_policy_with_a_memory_continues():
    """Its next choice is that of the engine that was never stopped."""
    engine = engine_of(1, extension_policy=Remembering())
    engine.place(now=0.0)
    twin = restored(engine, extension_policy=Remembering())
    assert [move.target for move in engine.place().moves] == [move.target for move in twin.place().moves]
    assert engine._planner.extensions.policy.turn[0] == twin._planner.extensions.policy.turn[0] == 4


def test_policy_that_has_kept_something_without_a_memory_is_refused():
    """The message names the attribute and the cure; before its first choice there is nothing to lose."""
    engine = engine_of(1, extension_policy=Alternating())
    restored(engine, extension_policy=Alternating())
    engine.place(now=0.0)
    with pytest.raises(ConflictError, match=r"policy alternating: has kept turn, .* methods memory and recall"):
        engine.snapshot()


@pytest.mark.parametrize("memory", [{"x": {1, 2}}, {"x": np.array([object()])}, {"x": float("nan")}])
def test_memory_that_is_no_data_is_refused(memory):
    """It consists of arrays and of values of JSON."""
    policy = Remembering()
    policy.memory = lambda: memory
    engine = engine_of(1, extension_policy=policy)
    with pytest.raises(InvalidValueError, match="policy mine: memory"):
        engine.snapshot()


@pytest.mark.parametrize("name", [policy.name for policy in BUILT_IN])
def test_built_in_policies_continue(name):
    """Plans after a snapshot equal those without it."""
    engine = engine_of(policy=name)
    engine.apply(engine.refresh(0.0))
    engine.update_service(Service("db", target_replicas=4, tenant_class="gold"))
    twin = restored(engine)
    assert engine.refresh(1.0) == twin.refresh(1.0)


def test_learned_policy_remembers_how_full_nodes_were():
    """Shares of nodes by name, which may differ from time to time."""
    from plb.policies import Learned

    config = PlbConfig(metrics=METRICS, policy="learned", policy_options={"checkpoint": "x"})
    extensions, twin = EngineExtensions.resolve(config), Learned(checkpoint="x")
    policy = extensions.policy
    policy._past = [(0.0, {"a": np.ones(2)}), (1.0, {}), (2.5, {"a": np.zeros(2), "b": np.full(2, 0.5)})]
    values, arrays = snapshots._memory_of(extensions)
    twin.recall({**json.loads(json.dumps(values)), **arrays})
    assert [(time, {name: list(one) for name, one in shares.items()}) for time, shares in twin._past] == [
        (time, {name: list(one) for name, one in shares.items()}) for time, shares in policy._past
    ]


def test_options_of_a_policy_come_back():
    """A tuple stays a tuple; an object that is no data is refused with its name."""
    options = {"checkpoint": "file", "metrics": ("cpu",), "step_minutes": 30.0, "may_wait": True}
    config = PlbConfig(metrics=METRICS, policy="learned", policy_options=options)
    assert restored(PlacementAndLoadBalancing(config)).config == config
    wrong = PlbConfig(metrics=METRICS, policy="learned", policy_options={"metrics": frozenset({"cpu"})})
    with pytest.raises(InvalidValueError, match=r"policy_options\[metrics\]"):
        PlacementAndLoadBalancing(wrong).snapshot()


@pytest.mark.parametrize(
    ("kind", "extensions"),
    [
        ("energy term", {"extension_terms": [Extension()]}),
        ("constraint", {"extension_constraints": [Extension()]}),
        ("placement policy", {"extension_policy": Remembering()}),
    ],
)
def test_extension_that_is_not_given_is_named(kind, extensions):
    """Terms, constraints and policies are code, so that the next process has to give them."""
    snapshot = engine_of(1, **extensions).snapshot()
    PlacementAndLoadBalancing.from_snapshot(snapshot, **extensions)
    with pytest.raises(UnknownNameError, match=f"unknown {kind} 'mine'"):
        PlacementAndLoadBalancing.from_snapshot(snapshot)


# errors


@pytest.mark.parametrize(
    ("of", "given", "message"),
    [
        (4.0, None, "history = None is not allowed; expected the history with the digest [0-9a-f]{64}"),
        (4.0, 5.0, "history = 'digest [0-9a-f]{64}' is not allowed; expected the history with the digest"),
        (None, 4.0, "expected None, as the engine had no history"),
    ],
)
def test_another_history_is_refused(of, given, message):
    """The history is compared by its digest; the same content is the same history."""
    past, other = (None if level is None else history_of(level) for level in (of, given))
    engine = engine_of(history=past)
    with pytest.raises(InvalidValueError, match=message):
        PlacementAndLoadBalancing.from_snapshot(engine.snapshot(), history=other)
    if of is not None:
        restored(engine, history_of(of))


def test_another_version_is_refused():
    with pytest.raises(InvalidValueError, match=r"snapshot: version = \[1\] is not allowed; expected \[3\]"):
        changed(DAMAGED, plb_snapshot_version=np.array([1]))


@pytest.mark.parametrize("data", [b"", b"PK", b"\x93NUMPY", b"\x80\x04N.", "text", None])
def test_data_that_are_no_snapshot_are_refused(data):
    """Neither other bytes nor other types are read."""
    with pytest.raises(InvalidValueError, match="snapshot: data"):
        Snapshot.from_bytes(data)


def test_other_archives_are_refused():
    """An archive of arrays without document and version, or with pickled objects, is no snapshot."""
    for arrays in ({"x": np.zeros(3)}, {"document": np.zeros(0, np.uint8)}, {"x": np.array([{}])}):
        data = io.BytesIO()
        np.savez(data, **arrays)
        with pytest.raises(InvalidValueError, match="snapshot: data"):
            Snapshot.from_bytes(data.getvalue())


@examples(200)
@given(st.data())
def test_damaged_bytes_are_refused_or_harmless(data):
    """A changed byte is noticed, unless it is one that means nothing; nothing but an error of plb is raised."""
    whole = DAMAGED.to_bytes()
    at = data.draw(st.integers(0, len(whole) - 1))
    bytes_then = data.draw(
        st.sampled_from(
            [whole[:at], whole[:at] + bytes([whole[at] ^ data.draw(st.integers(1, 255))]) + whole[at + 1 :]]
        )
    )
    try:
        found = Snapshot.from_bytes(bytes_then)
    except InvalidValueError:
        return
    assert found == DAMAGED


DAMAGED = engine_of().snapshot()


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"rows__node": None}, r"rows\.node = None is not allowed; expected an array of int64"),
        ({"rows__node": np.zeros((2, 2))}, r"rows\.node = 'float64 \(2, 2\)'"),
        ({"rows__node": np.full(18, 4)}, r"rows\.node = 4 is not allowed; expected entries of at most 3"),
        ({"rows__node": np.full(18, -2)}, r"rows\.node = -2 .* entries of at least -1"),
        ({"rows__role": np.full(18, 3)}, r"rows\.role = 3"),
        ({"rows__service": np.full(18, 1)}, r"rows\.service = 1"),
        ({"rows__arriving": np.full(18, 18)}, r"rows\.arriving = 18"),
        ({"rows__newest": np.array([2**62 + 1])}, r"rows\.newest = 4611686018427387905"),
        ({"rows__free": np.arange(46)}, r"rows\.free"),
        ({"rows__free": np.arange(10)}, r"rows\.free"),
        ({"partitions__rows": np.zeros(18, np.int64)}, r"partitions\.rows"),
        ({"partitions__service": np.ones(6, np.int64)}, r"partitions\.service = 1"),
    ],
)
def test_arrays_that_contradict_others_are_refused(arrays, message):
    """The message names the array, its content and what would be allowed."""
    with pytest.raises(InvalidValueError, match=message):
        PlacementAndLoadBalancing.from_snapshot(changed(DAMAGED, **arrays))


@pytest.mark.parametrize(
    ("name", "value"),
    [("node", 2), ("arriving", 0), ("load", [1, 0]), ("leaving", True), ("standby", True), ("past", 5)],
)
def test_row_out_of_use_with_a_replica_is_refused(name, value):
    """Else it would be a replica of no partition."""
    engine = engine_of(estimator="historical-simulation:slots=4,slot_minutes=1,horizon=2")
    engine.remove_partition("db/5")
    snapshot = engine.snapshot()
    array = snapshot.arrays[f"rows.{name}"].copy()
    array[-1] = value
    with pytest.raises(InvalidValueError, match=rf"rows\.{name} = 'a row out of use"):
        PlacementAndLoadBalancing.from_snapshot(changed(snapshot, **{f"rows__{name}": array}))


@pytest.mark.parametrize("rows", [0, 1])
def test_table_of_rows_grows_from_any_size(rows):
    """Also from one that no engine has written."""
    snapshot = engine_of(0).snapshot()
    engine = PlacementAndLoadBalancing.from_snapshot(changed(snapshot, rows__free=np.arange(rows)))
    engine.update_partition(Partition("db/0", service="db"))
    assert len(engine.place().moves) == 3


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("settings", ..., r"settings = None"),
        ("settings.w_failovers", -1, r"PlbConfig: w_failovers = -1"),
        ("settings.checks", "some", r"settings\.checks = 'some'"),
        ("settings.w_failovers", ..., r"settings = "),
        ("settings.more", 1, r"settings = .*Extra fields .*more"),
        ("cluster", ..., r"cluster = None"),
        ("cluster.nodes.2.up", 1, r"cluster\.nodes\[2\]\.up = 1 .*expected bool"),
        ("cluster.nodes.2", [], r"cluster\.nodes\[2\] = \[\]"),
        ("cluster.upgraded_domains", "ab", r"cluster = "),
        ("cluster.services_version", 2**70, r"cluster: a version = 1180591620717411303424"),
        ("cluster.load_version", [], r"content = "),
        ("quanta", [0.3, None], r"quanta\[cpu\] = 0\.3 .* a power of two"),
        ("feasibility_classes", [["a ==", []]], r"a =="),
        ("present_services", [7], r"present_services = 7"),
        ("service_feasibility_class", [-1], r"service_feasibility_class = -1"),
        ("partition_names", ["x"] * 7, r"partitions\.row_count"),
        ("partition_names", ["x"] * 6, r"partition_names = '6 names'"),
        ("partitions.missing", {"db/0": "x"}, r"partitions\.missing\[db/0\] = 'x'"),
        ("partitions.missing", {"db/0": 2**70}, r"partitions\.missing = 1180591620717411303424"),
        ("partitions.missing", {"db/9": 1}, r"partitions\.missing: .*'db/9'"),
        ("partitions.role_load", {"db/0": [[1, {"disk": 1}]]}, r"unknown metric 'disk'"),
        ("partitions.move_cost", {"db/0": [[1, "dear"]]}, r"move_cost = 'dear'"),
        ("scheduler.issued", [["x"]], r"scheduler\.issued\[0\]\[0\] = 'x'"),
        ("scheduler.moved", [["soon", "db/0", 1]], r"scheduler\.moved\[0\]\[0\] = 'soon'"),
        ("scheduler.node_events", [[[0, "down"], None]], r"scheduler\.node_events\[0\]\[1\] = None"),
        ("scheduler.records", {"x": {}}, r"scheduler\.records"),
        ("planner.batch.last_run", [["min_placement_interval", []]], r"planner\.batch\.last_run\[0\]\[1\] = \[\]"),
        ("planner.batch.under_way", {"db/0": [0.0, "x", 0]}, r"planner\.batch\.under_way\[db/0\]\[1\] = 'x'"),
        ("planner.batch.last_action", "Nothing", r"planner\.batch\.last_action = 'Nothing'"),
        ("planner.now", "soon", r"planner\.now = 'soon' .*expected float"),
        ("planner.seed", -1, r"seed = -1"),
    ],
)
def test_documents_that_are_no_engine_are_refused(path, value, message):
    """The error of plb names the field and its value; ... stands for none."""

    def change(values: Any) -> None:
        *parents, field = (int(key) if key.isdecimal() else key for key in path.split("."))
        for key in parents:
            values = values[key]
        values[field] = value
        if value is ...:
            del values[field]

    with pytest.raises(PlbError, match=message):
        PlacementAndLoadBalancing.from_snapshot(changed(DAMAGED, document=change))


def test_arguments_of_another_type_are_refused():
    """A snapshot is not its bytes, and a history is no path."""
    with pytest.raises(InvalidValueError, match="from_snapshot: snapshot"):
        PlacementAndLoadBalancing.from_snapshot(DAMAGED.to_bytes())
    with pytest.raises(InvalidValueError, match="from_snapshot: history"):
        PlacementAndLoadBalancing.from_snapshot(DAMAGED, history="history.parquet")


def test_what_a_policy_keeps_has_its_own_types():
    """Counts that it goes on with must not wrap, in a copy by a snapshot and by its bytes."""
    counts = np.array([250, 255])
    snapshot = Snapshot.of({}, {"a": counts}, {"policy.counts": counts})
    for copy in (snapshot, Snapshot.from_bytes(snapshot.to_bytes())):
        assert (copy.arrays["a"].dtype, copy.arrays["policy.counts"].dtype) == (np.uint8, np.int64)
