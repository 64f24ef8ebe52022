"""Damage of the files of a log, and logs of earlier versions."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from cluster.service import searches
from cluster.service.events import ApplyPlan, DrainNode, MakeCluster, RemoveCluster, RequestPlan
from cluster.service.log import NAME, Log, LogError
from cluster.service.service import PlacementService
from tests.cluster.service.served import CLUSTER, SETTINGS, make, planned, send, with_service


@contextmanager
def database(folder: Path) -> Iterator[sqlite3.Connection]:
    """Open the database of a log that no service has open."""
    with closing(sqlite3.connect(folder / NAME)) as connection, connection:
        yield connection


async def story(service: PlacementService) -> object:
    """Make a cluster with a plan that was carried out, and return its state."""
    await make(service)
    plan = await planned(service, RequestPlan(now=10.0))
    await send(service, ApplyPlan(plan=plan.id))
    await send(service, DrainNode(name="n0", id="drained"))
    return await state(service)


async def state(service: PlacementService) -> object:
    """Return the state of the cluster, and its next plan."""
    reader = service.cluster(CLUSTER).reader
    replicas = [reader.engine.replicas(f"db/{index}") for index in range(3)]
    return reader.state.generation, replicas, reader.engine.node_loads()


@pytest.mark.parametrize("damage", ["engine = x'0102'", "state = x'0102'", "engine = zeroblob(length(engine))"])
def test_a_damaged_saved_state_is_made_again_from_the_log_with_a_warning(
    tmp_path: Path, damage: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(searches, "SAVED_EVERY", 4)
    before = with_service(tmp_path, story)
    with database(tmp_path) as connection:
        assert connection.execute(f"UPDATE snapshots SET {damage}").rowcount == 1
    with caplog.at_level(logging.WARNING):
        assert with_service(tmp_path, state) == before
    (warning,) = caplog.records
    assert f"saved state of cluster {CLUSTER} is damaged" in warning.getMessage()


def test_a_damaged_entry_is_an_error_that_names_it(tmp_path: Path) -> None:
    with_service(tmp_path, story)
    with database(tmp_path) as connection:
        connection.execute("UPDATE entries SET event = x'c1' WHERE sequence = 3")
    with pytest.raises(LogError, match=r"plb\.sqlite: entry 3 cannot be read"):
        with_service(tmp_path, state)


def test_a_cluster_with_a_damaged_entry_is_refused_until_it_is_removed_and_the_others_are_served(
    tmp_path: Path,
) -> None:
    async def two(service: PlacementService) -> None:
        await story(service)
        await service.submit("other", MakeCluster(settings=SETTINGS), "a test")

    async def restarted(service: PlacementService) -> None:
        assert service.cluster("other").sequence
        for event in (MakeCluster(settings=SETTINGS), DrainNode(name="n0")):
            with pytest.raises(LogError, match=r"cluster main is not served: .* entry 3 cannot be read"):
                await send(service, event)
        await send(service, RemoveCluster())
        await make(service)

    with_service(tmp_path, two)
    with database(tmp_path) as connection:
        connection.execute("UPDATE entries SET event = x'c1' WHERE sequence = 3")
    with_service(tmp_path, restarted)
    with_service(tmp_path, state)


def test_a_damaged_page_is_an_error_that_names_the_place(tmp_path: Path) -> None:
    with_service(tmp_path, story)
    path = tmp_path / NAME
    with database(tmp_path) as connection:
        (root,) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'entries'").fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    data = bytearray(path.read_bytes())
    data[(root - 1) * size : root * size] = b"\xff" * size
    path.write_bytes(data)
    with pytest.raises(LogError, match=r"plb\.sqlite: .* cannot be read"):
        with_service(tmp_path, state)


AUTOMATIC = ("sqlite_autoindex_snapshots_1", "sqlite_autoindex_removals_1")
NOISE = b"\xff" * 4096
EMPTY = b"\x0a\0\0\0\0\x10" + b"\0" * 4090
"""The page of a sound index without entries."""


@pytest.mark.parametrize(
    ("index", "content"),
    [
        ("ids", NOISE),
        *((index, content) for index in ("of_cluster", *AUTOMATIC) for content in (NOISE, EMPTY)),
    ],
)
def test_a_damaged_index_is_made_again_and_nothing_is_lost(
    tmp_path: Path, index: str, content: bytes, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(searches, "SAVED_EVERY", 4)

    async def two(service: PlacementService) -> object:
        await make(service)
        await send(service, RemoveCluster())
        return await story(service)

    async def again(service: PlacementService) -> object:
        assert (await send(service, DrainNode(name="n0", id="drained"))).repeated
        return await state(service)

    before = with_service(tmp_path, two)
    with database(tmp_path) as connection:
        entries = connection.execute("SELECT * FROM entries").fetchall()
        (root,) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (index,)).fetchone()
    data = bytearray((tmp_path / NAME).read_bytes())
    data[(root - 1) * 4096 : root * 4096] = content
    (tmp_path / NAME).write_bytes(data)
    with pytest.raises(LogError, match="an index is damaged; plb serve makes it again"):
        Log(tmp_path, reads_only=True)
    assert with_service(tmp_path, again) == before
    assert "an index is damaged; all are made again" in caplog.text
    caplog.clear()
    assert with_service(tmp_path, again) == before
    assert not caplog.text
    with database(tmp_path) as connection:
        assert connection.execute("SELECT * FROM entries").fetchall() == entries
        problems = connection.execute("PRAGMA integrity_check").fetchall()
        assert all("is never used" in line for (text,) in problems for line in text.splitlines()[1:])


def test_only_its_user_may_read_the_files_of_a_log(tmp_path: Path) -> None:
    async def modes(service: PlacementService) -> set[int]:
        await make(service)
        return {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}

    assert with_service(tmp_path, modes) == {0o600}


def test_a_log_of_the_first_format_is_read(tmp_path: Path) -> None:
    """It has no table of removals."""
    before = with_service(tmp_path, story)
    with database(tmp_path) as connection:
        connection.execute("DROP TABLE removals")
        connection.execute("PRAGMA user_version = 1")
    assert with_service(tmp_path, state) == before


def test_a_log_of_a_later_format_is_refused(tmp_path: Path) -> None:
    with_service(tmp_path, story)
    with database(tmp_path) as connection:
        connection.execute("PRAGMA user_version = 9")
    with pytest.raises(LogError, match="format 9"):
        Log(tmp_path)
