"""The feed: from an API server through a served cluster to the answers of the extender."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from cluster.cli.app import app
from cluster.service.client import Client
from cluster.service.kubernetes.feed import Feed
from cluster.service.kubernetes.sources import ApiServer, Files
from plb import Metric, PlbConfig
from plb.errors import PlbError
from tests.cluster.service.kubernetes.fake_api import DOCUMENTS, EXAMPLE, FakeServer, api_server
from tests.cluster.service.test_client import with_address
from tests.sources import ROOT

SETTINGS = PlbConfig(metrics=[Metric("cpu"), Metric("memory")])
NOW = 1_772_442_900.0


class Unsteady(httpx.HTTPTransport):
    """A connection that can fail, before or after a request has arrived."""

    left = 10**6
    """Requests that succeed."""
    arrives = False
    """Whether those that fail arrive."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.left -= 1
        if self.left >= 0:
            return super().handle_request(request)
        if self.arrives:
            super().handle_request(request).close()
        raise httpx.ReadError("the connection is lost")


class Fed:
    """A feed from a fake API server to a served cluster."""

    def __init__(self, address: str, kubernetes: FakeServer) -> None:
        self.kubernetes, self.connection = kubernetes, Unsteady()
        self.documents = kubernetes.documents
        self.client = Client(address, "main", transport=self.connection)
        self.client.make(SETTINGS)
        self.lines: list[dict[str, Any]] = []
        self.restart()

    def restart(self) -> None:
        """Begin with a feed that knows nothing."""
        self.feed = Feed(self.client, self.lines.append)

    def round(self, now: float) -> dict[str, int]:
        """Return what a round at a time after `NOW` has told."""
        self.feed.run(ApiServer(self.kubernetes.url).read(), NOW + now)
        told: dict[str, int] = self.lines[-1]["events"]
        return told

    def pods_on(self, node: str) -> int:
        """Return the number of pods that the service knows on a node."""
        return len(self.client.get(f"nodes/{node}")["partitions"])

    def move(self, pod: int, node: str) -> None:
        """Let a pod be gone, and have a successor on a node."""
        self.documents["pods"]["items"][pod]["spec"]["nodeName"] = node
        self.documents["pods"]["items"][pod]["metadata"]["name"] += "-new"


def with_feed(folder: Path, story: Callable[[Fed], None]) -> None:
    """Tell a story of a feed."""

    def run(address: str) -> None:
        with api_server(copy.deepcopy(DOCUMENTS)) as kubernetes:
            fed = Fed(address, kubernetes)
            with fed.client:
                story(fed)

    with_address(folder, lambda address: asyncio.to_thread(run, address))


def test_the_scheduler_is_answered_from_what_the_api_server_says(tmp_path: Path) -> None:
    pod = copy.deepcopy(DOCUMENTS["pods"]["items"][0])
    pod["metadata"]["name"], pod["spec"]["nodeName"] = "web-6d4cf56db6-next", None
    names = [node["metadata"]["name"] for node in DOCUMENTS["nodes"]["items"]]
    arguments = {"Pod": pod, "NodeNames": names}

    def story(fed: Fed) -> None:
        def ask(verb: str) -> Any:
            return httpx.post(f"{fed.client._base}/kubernetes/{verb}", json=arguments).json()

        assert fed.round(0) == {"node": 4, "service": 7, "partition": 12, "loads": 12}
        assert ask("filter")["NodeNames"] == ["worker-a", "worker-b", "worker-c"]  # control-d has a taint
        scores = {entry["Host"]: entry["Score"] for entry in ask("prioritize")}
        assert scores["worker-a"] < max(scores.values()) == 10
        for item in fed.documents["usage"]["items"]:
            if item["metadata"]["name"] == "web-6d4cf56db6-2xkqp":
                item["containers"][0]["usage"]["cpu"] = "7500m"
        fed.documents["nodes"]["items"][1]["spec"]["unschedulable"] = True
        assert fed.round(60) == {"node": 1, "loads": 12}
        refused = {**ask("filter")["FailedNodes"], **ask("filter")["FailedAndUnresolvableNodes"]}
        assert ask("filter")["NodeNames"] == ["worker-c"]
        assert refused["worker-a"] == "capacity (placement service)"
        assert refused["worker-b"] == "node (placement service)"

    with_feed(tmp_path, story)


def test_only_changes_are_sent_and_what_is_gone_is_removed(tmp_path: Path) -> None:
    def story(fed: Fed) -> None:
        fed.round(0)
        assert fed.round(60) == {"loads": 12}
        del fed.documents["usage"]
        assert fed.round(120) == {}
        before = fed.pods_on("worker-a")
        fed.move(0, "worker-c")
        assert fed.round(180) == {"partition": 1}
        assert fed.pods_on("worker-a") == before - 1
        fed.documents["pods"]["items"] = fed.documents["pods"]["items"][:1]
        fed.documents["nodes"]["items"] = [
            node for node in fed.documents["nodes"]["items"] if node["metadata"]["name"] == "worker-c"
        ]
        fed.round(240)
        assert [node["name"] for node in fed.client.get("nodes")] == ["worker-c"]
        assert fed.pods_on("worker-c") == 1

    with_feed(tmp_path, story)


def test_a_feed_that_starts_again_goes_on_from_what_the_service_has(tmp_path: Path) -> None:
    def story(fed: Fed) -> None:
        fed.round(0)
        names = {node: fed.client.get(f"nodes/{node}")["partitions"] for node in ("worker-a", "worker-b", "worker-c")}
        del fed.documents["pods"]["items"][-1]
        fed.restart()
        assert fed.round(60)["remove_partition"] == 1
        for node, partitions in names.items():
            assert {*fed.client.get(f"nodes/{node}")["partitions"]} <= {*partitions}
        assert fed.round(120) == {"loads": 11}
        fed.restart()
        with pytest.raises(PlbError, match=r"the service is at 1772443020\.0, after 1772442900\.0"):
            fed.round(0)

    with_feed(tmp_path, story)


@pytest.mark.parametrize("arrives", [False, True])
@pytest.mark.parametrize(("rounds", "left"), [(0, 0), (0, 3), (0, 4), (1, 0), (1, 1)])
def test_after_a_lost_connection_the_service_is_told_what_it_misses(
    tmp_path: Path, rounds: int, left: int, arrives: bool
) -> None:
    """Without usage, so that the loads that pods request must not be lost either."""

    def story(fed: Fed) -> None:
        del fed.documents["usage"]
        for _ in range(rounds):
            fed.round(0)
        fed.documents["pods"]["items"].append(copy.deepcopy(fed.documents["pods"]["items"][0]))
        fed.move(0, "worker-c")
        fed.connection.left, fed.connection.arrives = left, arrives
        with pytest.raises(PlbError, match=r"^the service does not answer: the connection is lost$"):
            fed.round(60)
        fed.connection.left = 10**6
        fed.round(180)
        assert fed.round(240) == {}
        loads = fed.client.get("node_loads")
        fed.restart()
        fed.round(300)
        assert fed.client.get("node_loads") == loads
        assert loads["worker-c"]["cpu"] > 0

    with_feed(tmp_path, story)


def test_refusals_are_printed_and_a_plan_that_was_applied_there_is_undone_by_the_next_rounds(tmp_path: Path) -> None:
    def story(fed: Fed) -> None:
        fed.round(0)
        before = fed.pods_on("worker-a")
        plan = fed.client.plan(call="balance")
        assert plan["document"]["moves"]
        fed.client.apply(plan["id"])
        assert fed.pods_on("worker-a") < before
        assert fed.round(60) == {"refused loads": 12}
        assert "has no replica on node worker-a" in fed.lines[-2]["error"]
        assert "refused loads" not in fed.round(120)
        assert fed.pods_on("worker-a") == before
        assert fed.round(180) == {"loads": 12}

    with_feed(tmp_path, story)


# the command


def test_the_session_of_the_page_runs(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "kubernetes.md").read_text()
    session = [line.strip() for line in page.split("## Feed of the service")[1].split("The files are")[0].splitlines()]
    (line,) = (line for line in session if line.startswith("plb kubernetes feed "))

    def story(fed: Fed) -> None:
        base = fed.client._base
        words = line.replace("--cluster kubernetes", "--cluster main").split()[4:]
        assert run(base.partition("/v1")[0], *words).output == session[session.index(line) + 1] + "\n"
        for verb in ("filter", "prioritize"):
            ask = f"curl --json @examples/kubernetes/filter.json $C/kubernetes/{verb}"
            answer = httpx.post(f"{base}/kubernetes/{verb}", content=(EXAMPLE / "filter.json").read_bytes())
            assert answer.text == session[session.index(ask) + 1]

    with_feed(tmp_path, story)


def run(*arguments: object) -> Any:
    """Return the result of the command."""
    return CliRunner().invoke(app, ["kubernetes", "feed", *map(str, arguments)])


def test_the_command_feeds_files_and_usage_only_once(tmp_path: Path) -> None:
    files = [word for name in ("nodes", "pods", "usage") for word in (f"--{name}", EXAMPLE / f"{name}.json")]

    def story(fed: Fed) -> None:
        address = fed.client._base.partition("/v1")[0]
        lines = [json.loads(run(address, *files).output) for _ in range(2)]
        assert lines[0]["time"] == "2026-03-02T09:15:00+00:00"
        assert lines[0]["events"].pop("loads") == 12
        assert lines[1]["events"] == lines[0]["events"]
        result = run(address, "--cluster", "missing", *files)
        assert (result.exit_code, "missing" in result.output) == (2, True)

    with_feed(tmp_path, story)


def test_a_service_that_is_away_ends_one_round_and_not_a_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = ["--nodes", EXAMPLE / "nodes.json", "--pods", EXAMPLE / "pods.json"]
    result = run("http://127.0.0.1:9", *files)
    assert (result.exit_code, "the service does not answer: " in result.output) == (2, True)

    def story(fed: Fed) -> None:
        reads = iter([Files.read, None, Files.read])

        def read(source: Files) -> Any:
            step = next(reads, KeyboardInterrupt)
            if step is None:
                raise PlbError("http://api: away")
            if step is KeyboardInterrupt:
                raise KeyboardInterrupt
            return original(source)

        original = Files.read
        monkeypatch.setattr(Files, "read", read)
        monkeypatch.setattr("time.sleep", lambda _: None)
        result = run(fed.client._base.partition("/v1")[0], *files, "--every", "5")
        assert [*json.loads(result.output.splitlines()[1])] == ["error"]
        assert json.loads(result.output.splitlines()[2])["events"] == {}

    with_feed(tmp_path, story)
