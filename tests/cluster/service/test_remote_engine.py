"""Engines of a service in simulations: the same tables, also with a demand history and after the service has saved."""

from __future__ import annotations

import asyncio
import socket
import threading
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest

from cluster.errors import ScenarioError
from cluster.runs.experiment import Experiment, prepare
from cluster.scenario.scenario_file import scenario_from
from cluster.service import searches
from cluster.service.events import MakeCluster, ReportLoads, RequestPlan
from cluster.service.interfaces import access
from cluster.service.interfaces.lines import LineServer
from cluster.service.past_tenants import PastTenants
from cluster.service.remote_engine import RemoteEngine, RemoteError, check_scenario, served
from cluster.service.service import PlacementService
from plb import Metric, Node, Partition, PlbConfig
from plb import Service as DescribedService
from plb.errors import ConflictError, InvalidValueError, PlbError
from plb.risk import DemandHistory
from tests.cluster.service.served import CLUSTER, described, planned, send, with_service
from tests.cluster.service.served import served as service_in
from tests.cluster.tiny import small_region
from tests.sources import ROOT

EXAMPLES = Path(__file__).parents[3] / "examples"


@contextmanager
def lines_of(folder: Path) -> Iterator[str]:
    """Serve the clusters of a directory line by line in a thread, and yield the address."""
    ready, addresses = threading.Event(), list[str]()
    loop = asyncio.new_event_loop()
    ending = asyncio.Event()

    async def serve() -> None:
        async with service_in(folder) as service:
            lines = LineServer(service)
            addresses.append(await lines.start("127.0.0.1:0"))
            ready.set()
            await ending.wait()
            await lines.stop()

    thread = threading.Thread(target=loop.run_until_complete, args=[serve()])
    thread.start()
    try:
        assert ready.wait(60)
        yield addresses[0]
    finally:
        loop.call_soon_threadsafe(ending.set)
        thread.join()
        loop.close()


def check_equal(experiment: Experiment, folder: Path) -> dict[str, int]:
    """Check that the tables of runs are equal with the engines of a service; return their heights over all runs."""
    heights: dict[str, int] = {}
    with lines_of(folder) as address:
        runs = zip(experiment.runs(), served(experiment, address).runs(), strict=True)
        for here, there in runs:
            assert (there.policy, there.totals) == (here.policy, here.totals)
            for name, table in here.tables.items():
                assert table.equals(there.tables[name]), (here.policy, name)
                heights[name] = heights.get(name, 0) + table.height
    return heights


def eventful(**run: Any) -> dict[str, Any]:
    """Return a scenario in which nodes fail, domains are upgraded, tenants are scaled, and balancing moves replicas."""
    tables = small_region(policies=["expected_overload"], **run)
    tables["faults"] = {"crashes": [{"node": "n3", "at_hours": 1.0, "hours": 0.7}], "rebuild_after_minutes": 10.0}
    tables["upgrades"] = {"starts_hours": [2.5], "minutes_per_node": 5.0}
    tables["applications"] = {"all": {"tenants": 5, "most_nodes": 6}}
    scaling = {"metric": "cpu", "interval_minutes": 30.0, "lower_load": 0.3, "upper_load": 0.6}
    tables["scaling"] = {"most": {**scaling, "mechanism": "partitions", "maximum": 3}}
    tables["engine"]["min_load_balancing_interval"] = 1200.0
    return tables


def test_a_served_engine_writes_the_same_tables_also_when_the_service_saves_its_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searches, "SAVED_EVERY", 2000)
    heights = check_equal(prepare(scenario_from(eventful())), tmp_path)
    assert min(heights[name] for name in ("moves", "plans", "node_events", "upgrades", "scalings")) > 3, heights


def test_a_served_engine_knows_the_past_of_its_tenants(tmp_path: Path) -> None:
    tables = tomllib.loads((EXAMPLES / "recorded_arrivals.toml").read_text())
    tables["workload"] |= {"path": str(EXAMPLES / tables["workload"]["path"]), "past_days": 0.5}
    tables["policies"] = {"original": {"estimator": "historical-simulation:slots=48", "w_failovers": 0.1}}
    tables["run"] |= {"days": 0.1, "policies": ["original"]}
    assert check_equal(prepare(scenario_from(tables)), tmp_path)["plans"] > 3


def history(traces: int = 40) -> DemandHistory:
    """Return a history of traces of one metric."""
    rng = np.random.default_rng(5)
    level = rng.uniform(1.0, 12.0, (traces, 1))
    return DemandHistory.from_columns(
        ["cpu"],
        tenant_class=[f"class {index % 3}" for index in range(traces)],
        role=np.arange(traces) % 2,
        lifetime=rng.uniform(1e4, 1e6, traces),
        level=level,
        initial=level / 2,
        growth=np.full((traces, 1), 5e4),
        maximum=level,
        censored=np.arange(traces) % 4 == 0,
    )


def test_a_cluster_with_a_history_plans_after_a_restart_as_if_it_had_never_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searches, "SAVED_EVERY", 12)
    settings = {"metrics": [{"name": "cpu"}], "w_failovers": 1.0, "w_overload": 0.0}
    first = MakeCluster(settings=settings, seed=3, history=PastTenants.of(history()))

    async def begin(service: PlacementService) -> None:
        await send(service, first)
        for receipt in await service.submit_all(CLUSTER, described(partitions=6), "a test"):
            assert receipt.refusal is None
        await planned(service, RequestPlan(now=10.0))

    async def go_on(service: PlacementService) -> Any:
        engine = service.cluster(CLUSTER).reader.engine
        before = engine._planner._history
        assert before is not None
        assert before.digest == history().digest
        plan = await planned(service, RequestPlan(now=20.0))
        assert plan.document is not None
        assert plan.document["energy_after"]["expected_failovers"] > 0
        return plan.document

    async def without_stop(service: PlacementService) -> Any:
        await begin(service)
        return await go_on(service)

    with_service(tmp_path / "stopped", begin)
    assert with_service(tmp_path / "stopped", go_on) == with_service(tmp_path / "running", without_stop)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"level": b"123"}, "whole rows"),
        ({"tenant_class": np.full(40, 3, np.int16).tobytes()}, "positions in the 3 classes"),
        ({"role": np.full(40, 7, np.int8).tobytes()}, "instance"),
        ({"metrics": []}, "metric"),
        ({"lifetime": b""}, "shape"),
        ({"lifetime": np.full(40, np.nan, np.float32).tobytes()}, "finite"),
    ],
)
def test_damaged_columns_of_a_history_are_refused(changes: dict[str, Any], words: str) -> None:
    past = PastTenants.of(history())
    assert past.history().digest == history().digest
    for name, value in changes.items():
        setattr(past, name, value)
    with pytest.raises(PlbError, match=words):
        past.history()


def test_what_the_service_refuses_is_an_error_at_the_next_answer_and_only_the_last_plan_is_applied(
    tmp_path: Path,
) -> None:
    with lines_of(tmp_path) as address:
        engine = RemoteEngine(address, PlbConfig(metrics=[Metric("cpu")]))
        engine.update_node(Node("n0", capacities={"cpu": 8.0}))
        engine.update_service(DescribedService("db", target_replicas=1))
        engine.update_partition(Partition("db/0", service="db"))
        plan = engine.place(["db/0"], now=5.0)
        with pytest.raises(ConflictError, match="last plan"):
            engine.apply(attrs.evolve(plan))
        engine.apply(plan)
        assert [replica.node for replica in engine.replicas("db/0")] == ["n0"]
        engine.vacate("db/0", "n0")
        with pytest.raises(RemoteError, match="vacate"):
            engine.replicas("db/0")
        with pytest.raises(RemoteError, match="none"):
            engine.replicas("none")
    with pytest.raises(RemoteError, match=r"closed|reset|Broken"):
        engine.replicas("db/0")


def test_a_line_that_is_one_too_many_is_sent_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "MOST_REQUESTS", 1)
    monkeypatch.setattr(access, "RATE", 50.0)
    with lines_of(tmp_path) as address:
        engine = RemoteEngine(address, PlbConfig(metrics=[Metric("cpu")]))
        engine.update_node(Node("n0"))
        engine.update_service(DescribedService("db", target_replicas=1))
        for name in ("db/0", "db/1", "db/2"):
            engine.update_partition(Partition(name, service="db"))
            assert engine.replicas(name)[0].node is None


def test_scenarios_with_files_for_the_engine_and_wrong_addresses_are_refused() -> None:
    scenario = scenario_from(small_region())
    extended = attrs.evolve(scenario, extensions=(f"{ROOT}/examples/racks.py:BusyRacks",))
    with pytest.raises(ScenarioError, match="a served engine has no extensions"):
        check_scenario(extended)
    learned = attrs.evolve(
        scenario,
        policies={"l": {"policy": "learned", "policy_options": {"checkpoint": "weights"}}},
        run=attrs.evolve(scenario.run, policies=("l",)),
    )
    with pytest.raises(ScenarioError, match="reads a file"):
        check_scenario(learned)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    experiment = prepare(scenario)
    for address, kind in {
        f"tcp://127.0.0.1:{port}": RemoteError,
        "127.0.0.1:8766": InvalidValueError,
        "unix:///no/such/socket": RemoteError,
        "tcp://127.0.0.1:99999": InvalidValueError,
    }.items():
        with pytest.raises(kind):
            served(experiment, address)


def test_loads_by_index_are_of_replicas_with_or_without_a_node() -> None:
    with pytest.raises(InvalidValueError, match="one length"):
        ReportLoads(indices=[1, 2], loads=[[1.0]])
