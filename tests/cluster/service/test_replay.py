"""A replay applies a log again, and says where something else comes of it."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import msgspec
import pytest

from cluster.service.events import LOGGED, ApplyPlan, PlanMade, RemoveNode, ReportLoads, RequestPlan
from cluster.service.log import NAME, Log, LogError
from cluster.service.replay import replay
from cluster.service.service import PlacementService
from tests.cluster.service.served import CLUSTER, make, planned, send, with_service
from tests.command_line import plb


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the directory of a service with two plans, of which one was carried out, and a refused event."""

    async def story(service: PlacementService) -> None:
        await make(service)
        first = await planned(service, RequestPlan(now=10.0))
        await send(service, ApplyPlan(plan=first.id))
        assert (await send(service, RemoveNode(name="n7"))).refusal is not None
        await planned(service, RequestPlan(now=20.0, call="balance", proposals=2000))

    with_service(tmp_path, story)
    return tmp_path


def test_a_log_comes_out_the_same(folder: Path) -> None:
    result = plb("replay", folder)
    assert result.exit_code == 0, result.output
    assert result.output == f"{CLUSTER}: 15 events applied, 2 plans made again, 0 differences\n"


def test_other_decisions_are_told_with_their_entries(folder: Path) -> None:
    """One plan of the log gets other moves, and one event another refusal, as another version may have had them."""
    with sqlite3.connect(folder / NAME) as database:
        rows = database.execute("SELECT sequence, event FROM entries").fetchall()
        made = [(sequence, event) for sequence, data in rows if isinstance(event := LOGGED.decode(data), PlanMade)]
        sequence, event = made[0]
        event.document["moves"] = event.document["moves"][:-1]
        database.execute("UPDATE entries SET event = ? WHERE sequence = ?", (msgspec.msgpack.encode(event), sequence))
        database.execute("UPDATE entries SET refusal = NULL, time = time - 60 WHERE refusal IS NOT NULL")
    differences = replay(Log(folder, reads_only=True), CLUSTER).differences
    assert [difference.kind for difference in differences[:2]] == ["plan", "remove_node"]
    assert differences[0].logged.startswith("8 moves")
    assert differences[0].replayed.startswith("9 moves")
    assert differences[1].logged == "applied"
    assert "n7" in differences[1].replayed
    assert plb("replay", folder).exit_code == 1


def test_a_list_has_who_sent_which_event(folder: Path) -> None:
    lines = plb("replay", folder, "--list").output.splitlines()
    assert len(lines) == 15
    assert "a test plb" in lines[0]
    assert "remove_node n7; refused: unknown node 'n7'" in "\n".join(lines)
    assert [" ".join(line.split()[7:]) for line in lines[1:3]] == ["node n0", "node n1"]


def test_control_characters_of_earlier_versions_are_escaped(folder: Path) -> None:
    with sqlite3.connect(folder / NAME) as database:
        event = msgspec.msgpack.encode(RemoveNode(name="n0\n99 forged\x1b[2J"))
        database.execute("UPDATE entries SET event = ? WHERE sequence = 2", (event,))
    assert r"remove_node n0\n99 forged\x1b[2J" in plb("replay", folder, "--list").output.splitlines()[1]


def test_a_log_that_lacks_its_begin_is_refused(folder: Path) -> None:
    with sqlite3.connect(folder / NAME) as database:
        database.execute("DELETE FROM entries WHERE sequence = 1")
    with pytest.raises(LogError, match="does not begin"):
        replay(Log(folder, reads_only=True), CLUSTER)


def test_plans_after_a_time_limit_are_not_compared(tmp_path: Path) -> None:
    async def story(service: PlacementService) -> None:
        await make(service)
        first = await planned(service, RequestPlan(now=10.0))
        await send(service, ApplyPlan(plan=first.id))
        node = str(service.cluster(CLUSTER).reader.engine.replicas("db/0")[0].node)
        await send(service, ReportLoads(partitions=["db/0"], nodes=[node], loads=[[25.0]]))
        limited = await planned(service, RequestPlan(now=20.0, call="balance", seconds=1e-9))
        assert limited.document is not None
        assert not limited.document["reproducible"]
        await planned(service, RequestPlan(now=30.0, call="balance", proposals=2000))

    with_service(tmp_path, story)
    result = plb("replay", tmp_path)
    assert result.exit_code == 0, result.output
    assert "1 plans made again, 0 differences" in result.output
    assert "later plans were not compared" in result.output
