"""The rebalancer: what it proposes for the example, what it leaves alone, and what it asks an API server to do."""

from __future__ import annotations

import copy
import json
import ssl
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from cluster.cli.app import app
from cluster.service.events import ClusterEvent
from cluster.service.kubernetes.description import KubernetesCluster, obstacle, partitions_of, takes
from cluster.service.kubernetes.pods import KubernetesNode, Pod
from cluster.service.kubernetes.rebalancer import Rebalancer
from cluster.service.kubernetes.sources import ApiServer, Files, Observed, token_of
from plb import Metric, PlbConfig
from plb.errors import ConflictError, InvalidValueError, PlbError
from tests.cluster.service.kubernetes.fake_api import DOCUMENTS, EXAMPLE, api_server


def pod_of(**changes: Any) -> Pod:
    """Return a pod of the example, of a Deployment, with other parts."""
    document = copy.deepcopy(DOCUMENTS["pods"]["items"][0])
    for part, values in changes.items():
        document[part] |= values
    return msgspec.convert(document, Pod)


def node_of(**changes: Any) -> KubernetesNode:
    """Return a node of the example with other parts."""
    document = copy.deepcopy(DOCUMENTS["nodes"]["items"][0])
    for part, values in changes.items():
        document[part] |= values
    return msgspec.convert(document, KubernetesNode)


def written(folder: Path, documents: dict[str, Any], usages: int = 1) -> Files:
    """Return files with documents; with several usages, the loads of one hour after another, the last one now."""
    for name in ("nodes", "pods"):
        (folder / f"{name}.json").write_text(json.dumps(documents[name]))
    paths = [folder / f"usage{hour}.json" for hour in range(usages)]
    for hour, path in enumerate(paths):
        usage = copy.deepcopy(documents["usage"])
        for item in usage["items"]:
            item["timestamp"] = datetime.fromtimestamp(1_772_442_000 + 3600 * hour, UTC).isoformat()
            if "busy" in item and hour % 24 in item["busy"]:
                item["containers"][0]["usage"]["cpu"] = "5"
        path.write_text(json.dumps(usage))
    return Files(folder / "nodes.json", folder / "pods.json", paths)


def lines_of(source: Files | ApiServer, *, rounds: int = 1, **options: Any) -> list[dict[str, Any]]:
    """Return what a rebalancer logs in some rounds, an hour apart."""
    lines: list[dict[str, Any]] = []
    rebalancer = Rebalancer(lines.append, **options)
    for number in range(rounds):
        rebalancer.run(source.read(), 1_772_442_900.0 + 3600 * number)
    return lines


def edited(**changes: Any) -> dict[str, Any]:
    """Return the documents of the example, with pods changed by their names."""
    documents = copy.deepcopy(DOCUMENTS)
    for pod in documents["pods"]["items"]:
        change = changes.get(pod["metadata"]["name"].replace("-", "_"))
        if change is not None:
            change(pod)
    return documents


# what may not move


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, None),
        ({"metadata": {"annotations": {"kubernetes.io/config.mirror": "1"}}}, "static pod"),
        ({"metadata": {"ownerReferences": []}}, "no controller"),
        ({"metadata": {"ownerReferences": [{"kind": "Job", "name": "j", "controller": True}]}}, "pod of a Job"),
        ({"metadata": {"deletionTimestamp": "2026-03-02T09:14:00Z"}}, "not running"),
        ({"status": {"phase": "Pending"}}, "not running"),
        ({"spec": {"priorityClassName": "system-node-critical"}}, "critical for the system"),
        (
            {"metadata": {"annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}}},
            "annotation safe-to-evict",
        ),
        ({"spec": {"volumes": [{"name": "scratch", "emptyDir": {}}]}}, "volumes"),
        ({"spec": {"volumes": [{"name": "token", "projected": {}}]}}, None),
        (
            {
                "spec": {"volumes": [{"name": "scratch", "emptyDir": {}}]},
                "metadata": {"annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}},
            },
            None,
        ),
        (
            {"spec": {"topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule", "maxSkew": 1}]}},
            "rules on its place that plans do not know",
        ),
        ({"spec": {"topologySpreadConstraints": [{"whenUnsatisfiable": "ScheduleAnyway"}]}}, None),
        ({"spec": {"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{}]}}}}, None),
    ],
)
def test_a_pod_moves_unless_something_speaks_against_it(changes: dict[str, Any], reason: str | None) -> None:
    assert obstacle(pod_of(**changes)) == reason


@pytest.mark.parametrize(
    ("taint", "toleration", "allowed"),
    [
        ({"key": "gpu", "value": "a", "effect": "NoSchedule"}, {}, False),
        ({"key": "gpu", "value": "a", "effect": "PreferNoSchedule"}, {}, True),
        ({"key": "gpu", "value": "a", "effect": "NoSchedule"}, {"key": "gpu", "value": "a"}, True),
        ({"key": "gpu", "value": "a", "effect": "NoSchedule"}, {"key": "gpu", "value": "b"}, False),
        ({"key": "gpu", "value": "a", "effect": "NoExecute"}, {"key": "gpu", "operator": "Exists"}, True),
        ({"key": "gpu", "effect": "NoExecute"}, {"operator": "Exists"}, True),
        ({"key": "gpu", "effect": "NoExecute"}, {"operator": "Exists", "effect": "NoSchedule"}, False),
    ],
)
def test_taints_keep_pods_away_that_do_not_tolerate_them(
    taint: dict[str, str], toleration: dict[str, str], allowed: bool
) -> None:
    pod = pod_of(spec={"tolerations": [{"key": "other", "operator": "Exists"}, *([toleration] if toleration else [])]})
    assert takes(node_of(spec={"taints": [taint]}), pod) == allowed


def test_node_selectors_are_equalities_of_labels() -> None:
    assert takes(node_of(), pod_of(spec={"nodeSelector": {"kubernetes.io/os": "linux"}}))
    assert not takes(node_of(), pod_of(spec={"nodeSelector": {"kubernetes.io/os": "windows"}}))


# what an engine is told


def told(description: KubernetesCluster, nodes: list[Any], pods: list[Any], refused: str = "") -> list[str]:
    """Return the kinds of the events that a description sends; an event of the kind `refused` is refused."""
    kinds: list[str] = []

    def send(events: Sequence[ClusterEvent]) -> list[str | None]:
        kinds.extend(event.kind for event in events)
        return ["no" if event.kind == refused else None for event in events]

    description.tell(Observed(nodes, pods, []), 0.0, send)
    return kinds


NODES = [msgspec.convert(item, KubernetesNode) for item in DOCUMENTS["nodes"]["items"]]
PODS = [msgspec.convert(item, Pod) for item in DOCUMENTS["pods"]["items"]]


def test_only_changes_are_told_and_a_new_pod_takes_the_place_of_one_that_is_gone() -> None:
    description = KubernetesCluster(("cpu", "memory"))
    assert told(description, NODES, PODS).count("partition") == len(PODS)
    assert told(description, NODES, PODS) == []
    partition = next(name for name, pod in description.pods.items() if pod is PODS[0])
    assert partition == "shop/Deployment/web/0"
    successor = pod_of(metadata={"name": "web-5f7-new", "uid": "new"}, spec={"nodeName": "worker-c"})
    ending = pod_of(metadata={"deletionTimestamp": "2026-03-02T09:14:00Z"})
    told(description, NODES, [ending, successor, *PODS[1:]])
    assert description.pods[partition] is successor
    assert description.pods["shop/Deployment/web/3"] is ending
    kinds = told(description, NODES[:-1], [successor, *PODS[1:-1]])
    kinds = [kind for kind in kinds if kind != "service"]  # whose blocked nodes are fewer
    assert kinds == ["remove_partition", "remove_partition", "remove_service", "remove_node"]
    assert description.pods[partition] is successor


def test_what_was_refused_is_told_again_and_loads_of_refused_pods_are_not_sent() -> None:
    description = KubernetesCluster(("cpu", "memory"))
    assert "loads" not in told(description, NODES, PODS, refused="partition")
    assert description.pods == {}
    assert told(description, NODES, PODS) == ["partition"] * len(PODS) + ["loads"]
    assert told(description, NODES, PODS) == []


def test_a_known_cluster_is_told_again_as_a_whole_and_another_one_is_refused() -> None:
    first = KubernetesCluster(("cpu", "memory"))
    told(first, NODES, PODS)
    places = {name: str(pod.spec.node_name) for name, pod in first.pods.items()}
    places["shop/Deployment/web/9"] = "worker-a"
    partitions = partitions_of(PODS, places)
    assert partitions == {**first.partitions, "shop/Deployment/web/9": "shop/Deployment/web/9"}
    again = KubernetesCluster(("cpu", "memory"), [node.metadata.name for node in NODES], partitions)
    assert Counter(told(again, NODES, PODS)) == Counter(node=4, service=7, partition=12, remove_partition=1, loads=1)
    assert again.partitions == first.partitions
    with pytest.raises(ConflictError, match=r"another cluster.*\(control-d, worker-a, worker-b\)"):
        told(again, [node_of(metadata={"name": "elsewhere"})], [])
    assert told(again, NODES, PODS) == []


# what it proposes


def test_the_example_moves_pods_from_the_busiest_node_and_leaves_fixed_ones(tmp_path: Path) -> None:
    plan, *moves = lines_of(written(tmp_path, DOCUMENTS))
    assert plan["plan"] == "thresholds"
    assert sum(plan["fixed"].values()) == 7
    assert plan["moves"] == len(moves) > 0
    assert all(move["from"] == "worker-a" and move["outcome"] == "proposed" for move in moves)
    assert {move["to"] for move in moves} <= {"worker-b", "worker-c"}  # not control-d, which has a taint
    assert all(move["pod"].startswith(("shop/web", "shop/search")) for move in moves)


def test_no_more_moves_are_planned_than_asked_for(tmp_path: Path) -> None:
    for most in (0, 1):
        assert len(lines_of(written(tmp_path, DOCUMENTS), most_moves=most)) == 1 + most


def test_a_target_must_have_room_for_what_pods_request(tmp_path: Path) -> None:
    def larger(pod: dict[str, Any]) -> None:
        pod["spec"]["containers"][0]["resources"]["requests"]["example.com/slots"] = "1"

    documents = edited(search_0=larger, web_6d4cf56db6_2xkqp=larger, web_6d4cf56db6_7pl9d=larger)
    outcomes = {line["outcome"] for line in lines_of(written(tmp_path, documents))[1:]}
    assert outcomes == {"no room for what it requests"}
    for node in documents["nodes"]["items"]:
        node["status"]["allocatable"]["example.com/slots"] = "4"
    outcomes = {line["outcome"] for line in lines_of(written(tmp_path, documents))[1:]}
    assert outcomes == {"proposed"}


def test_with_a_past_it_moves_what_is_busy_at_the_same_time(tmp_path: Path) -> None:
    """Two pods of the web are busy by night, so that worker-a is short of CPU then; now only memory is uneven."""
    documents = copy.deepcopy(DOCUMENTS)
    for item in documents["usage"]["items"]:
        item["containers"][0]["usage"]["cpu"] = "500m"
        if item["metadata"]["name"] in ("web-6d4cf56db6-2xkqp", "web-6d4cf56db6-7pl9d"):
            item["busy"] = [*range(6)]
    plan, *moves = lines_of(written(tmp_path, documents, usages=48))
    assert (plan["plan"], plan["past_hours"]) == ("past", 47.0)
    assert {move["from"] for move in moves} == {"worker-a"}
    assert all("node worker-a would reach its threshold for cpu" in move["reason"] for move in moves)
    plan, *moves = lines_of(written(tmp_path, documents, usages=48), past_hours=100.0)
    assert plan["plan"] == "thresholds"
    assert all("imbalance of memory" in move["reason"] for move in moves)


def test_usage_is_read_again_in_each_round_and_requests_stand_in_for_it(tmp_path: Path) -> None:
    assert [line["past_hours"] for line in lines_of(written(tmp_path, DOCUMENTS), rounds=2) if "plan" in line] == [0, 0]
    plan, *_ = lines_of(Files(tmp_path / "nodes.json", tmp_path / "pods.json"))
    assert (plan["plan"], plan["past_hours"], plan["pods"]) == ("thresholds", 0.0, 12)


# what it remembers


def test_runs_with_a_state_plan_as_one_long_run_does(tmp_path: Path) -> None:
    """Each hour one more file of usage: by one process, and by a process an hour."""
    files = written(tmp_path, DOCUMENTS, usages=30)
    state = tmp_path / "state"
    in_turn: list[dict[str, Any]] = []
    lines: list[dict[str, Any]] = []
    steady = Rebalancer(lines.append, past_hours=20.0)
    for hour in range(0, 30, 6):
        observed = Files(files.nodes, files.pods, files.usage[hour : hour + 6]).read()
        steady.run(observed, 0.0)
        Rebalancer(in_turn.append, past_hours=20.0, state=state).run(observed, 0.0)
    assert in_turn == lines
    assert [line["plan"] for line in lines if "plan" in line][-1] == "past"


def test_evictions_of_earlier_runs_count(tmp_path: Path) -> None:
    documents = copy.deepcopy(DOCUMENTS)
    for item in documents["usage"]["items"][:2]:
        item["containers"][0]["usage"]["cpu"] = "5"
    with api_server(documents) as server:
        api = ApiServer(server.url)
        for _ in range(3):
            lines_of(api, api=api, most_moves=2, state=tmp_path / "state")
        assert len(server.evictions) == 2


def test_an_eviction_counts_even_if_the_round_does_not_end(tmp_path: Path) -> None:
    class End(BaseException):
        """The end of a process."""

    def log(line: dict[str, Any]) -> None:
        if line.get("outcome") == "evicted":
            raise End

    with api_server() as server:
        api = ApiServer(server.url)
        with pytest.raises(End):
            Rebalancer(log, api=api, state=tmp_path / "state").run(api.read(), 1_772_442_900.0)
        lines_of(api, api=api, most_moves=1, state=tmp_path / "state")
        assert len(server.evictions) == 1


def test_a_damaged_or_foreign_state_is_refused_and_stays(tmp_path: Path) -> None:
    files, state = written(tmp_path, DOCUMENTS), tmp_path / "state"
    lines_of(files, state=state)
    whole = state.read_bytes()
    for content in (
        b"",
        b"{}",
        whole[:-100],
        whole[:1000] + b"?" + whole[1001:],
        (tmp_path / "pods.json").read_bytes(),
    ):
        state.write_bytes(content)
        with pytest.raises(PlbError, match="state: not a state that this rebalancer can go on from: "):
            lines_of(files, state=state)
        assert state.read_bytes() == content
    state.write_bytes(whole)
    with pytest.raises(PlbError, match=r"state: not a state .*metric"):
        lines_of(files, state=state, settings=PlbConfig(metrics=[Metric("memory")]))
    assert state.read_bytes() == whole


# API servers


def test_in_shadow_mode_an_api_server_is_only_read() -> None:
    with api_server() as server:
        lines = lines_of(ApiServer(server.url), rounds=3)
        assert [line for line in lines if "outcome" in line]
        assert not server.evictions


def test_pods_are_evicted_once_it_is_told_to_and_refusals_are_reported() -> None:
    with api_server(search_0=429) as server:
        api = ApiServer(server.url)
        plan, *moves = lines_of(api, api=api)
        assert plan["moves"] == len(moves) == len(server.evictions) == 2
        outcomes = {move["pod"]: move["outcome"] for move in moves}
        assert outcomes.pop("shop/search-0") == "refused by a disruption budget"
        assert [*outcomes.values()] == ["evicted"]
        assert "disruption budget" in next(move["message"] for move in moves if "message" in move)
        path, body = server.evictions[0]
        name = body["metadata"]["name"]
        assert path == f"/api/v1/namespaces/shop/pods/{name}/eviction"
        assert (body["apiVersion"], body["kind"]) == ("policy/v1", "Eviction")
        assert body["deleteOptions"] == {"preconditions": {"uid": f"uid-{name}"}}


def test_no_more_pods_are_evicted_in_a_day_than_allowed() -> None:
    """The fake server moves no pod, so that worker-a stays above its capacity, and each round has to relieve it."""
    documents = copy.deepcopy(DOCUMENTS)
    for item in documents["usage"]["items"][:2]:
        item["containers"][0]["usage"]["cpu"] = "5"
    with api_server(documents) as server:
        api = ApiServer(server.url)
        lines = lines_of(api, rounds=26, api=api, most_moves=2)
        hours = [index for index, line in enumerate(line for line in lines if "plan" in line) if line["moves"]]
        assert len(server.evictions) == 4
        assert hours == [0, 24]


def test_the_token_is_read_for_each_request_and_never_sent_in_the_clear(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first\n")
    with pytest.raises(InvalidValueError, match="http without a token"):
        ApiServer("http://127.0.0.1:1", token)
    with api_server() as server:
        api = ApiServer(server.url)
        api._http.auth = token_of(token)
        api.read()
        token.write_text("second\n")
        api.read()
        assert server.tokens == {"Bearer first", "Bearer second"}


def test_a_server_without_metrics_is_read_without_usage() -> None:
    with api_server({name: DOCUMENTS[name] for name in ("nodes", "pods")}) as server:
        plan, *_ = lines_of(ApiServer(server.url))
        assert plan["past_hours"] == 0.0
    with api_server({"pods": DOCUMENTS["pods"]}) as server, pytest.raises(PlbError, match=r"/api/v1/nodes: status 404"):
        ApiServer(server.url).read()
    with pytest.raises(PlbError, match=r"^http://127\.0\.0\.1:1: "):
        ApiServer("http://127.0.0.1:1").read()


@pytest.mark.parametrize("url", ["ftp://host", "https://", "host:6443", ""])
def test_odd_addresses_are_refused(url: str) -> None:
    with pytest.raises(InvalidValueError, match="API server: URL"):
        ApiServer(url)


def test_https_needs_a_trusted_certificate(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        ApiServer("https://localhost:1", authority=tmp_path / "missing")
    transport: Any = ApiServer("https://localhost:1")._http._transport
    assert transport._pool._ssl_context.verify_mode is ssl.CERT_REQUIRED


# the command


def run(*arguments: object) -> Any:
    """Return the result of the command."""
    return CliRunner().invoke(app, ["kubernetes", "rebalance", *map(str, arguments)])


def test_the_command_prints_lines_of_json(tmp_path: Path) -> None:
    settings = tmp_path / "settings.json"
    settings.write_text('{"metrics": [{"name": "memory", "balancing_threshold": 1.05}]}')
    files = [word for name in ("nodes", "pods", "usage") for word in (f"--{name}", EXAMPLE / f"{name}.json")]
    for more in ([], ["--settings", settings, "--max-moves", "1"]):
        result = run(*files, *more)
        assert result.exit_code == 0, result.output
        lines = [json.loads(line) for line in result.output.splitlines()]
        assert lines[0]["moves"] == len(lines) - 1
    assert "memory" in lines[1]["reason"]


def test_wrong_options_and_damaged_files_end_with_a_message(tmp_path: Path) -> None:
    nodes, pods = ("--nodes", EXAMPLE / "nodes.json"), ("--pods", EXAMPLE / "pods.json")
    assert "give either --nodes and --pods" in run(*nodes).output
    assert "give either --nodes and --pods" in run(*nodes, *pods, "--server", "http://127.0.0.1:1").output
    assert "--execute needs --server" in run(*nodes, *pods, "--execute").output
    damaged = tmp_path / "damaged.json"
    for content, message in (
        ('{"items": [', "damaged.json: document: "),
        ('{"items": [{"spec": {}}]}', "damaged.json: items[0].spec: "),
        (
            '{"items": [{"metadata": {"name": "p"}, "spec": {"containers": 3}}]}',
            "damaged.json: items[0].spec.containers",
        ),
    ):
        damaged.write_text(content)
        result = run(*nodes, "--pods", damaged)
        assert (result.exit_code, message in result.output) == (2, True), result.output
    damaged.write_text('{"items": [{"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "many"}}}]}')
    assert "node n: allocatable[cpu]" in run("--nodes", damaged, *pods).output
