"""Tokens, rights, and what is refused before any endpoint."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from cluster.service.interfaces import access as access_module
from cluster.service.interfaces.access import Access
from plb.errors import InvalidValueError
from tests.cluster.service.clients import ITS_PATH, with_client

TOKENS = {"read": "r" * 16, "report": "p" * 16, "apply": "a" * 16}
NODE = {"name": "n9"}


def tokens(folder: Path) -> Access:
    path = folder / "tokens"
    path.write_text("# who\n" + "".join(f"{role} {role}-er {token}\n" for role, token in TOKENS.items()))
    return Access.of_file(path)


def bearer(role: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {TOKENS[role]}"}


def test_each_right_includes_those_before_it_and_nothing_else(tmp_path: Path) -> None:
    async def story(client: httpx.AsyncClient) -> None:
        statuses = []
        for role in TOKENS:
            client.headers.update(bearer(role))
            read = await client.get(ITS_PATH)
            report = await client.put(f"{ITS_PATH}/nodes/n9", json=NODE)
            hidden = await client.post(f"{ITS_PATH}/events", json=[{"type": "apply", "plan": "p1"}])
            applied = await client.post(f"{ITS_PATH}/plans/p1/apply")
            statuses.append([one.status_code for one in (read, report, hidden, applied)])
        assert statuses == [[200, 403, 403, 403], [200, 200, 403, 403], [200, 200, 200, 404]]

    with_client(tmp_path / "data", story, tokens(tmp_path))


def test_a_request_without_a_token_of_the_file_is_asked_for_one(tmp_path: Path) -> None:
    async def story(client: httpx.AsyncClient) -> None:
        for value in (None, "Bearer x", "Bearer", "Basic ///", "Negotiate abc", "Bearer \xff"):
            headers = {} if value is None else {"Authorization": value.encode("latin-1")}
            response = await client.get(ITS_PATH, headers=headers)  # type: ignore[arg-type]
            assert response.status_code == 401
            assert "Basic" in response.headers["www-authenticate"]
        assert (await client.get(ITS_PATH, auth=("anyone", TOKENS["read"]))).status_code == 200
        assert (await client.get("/healthz")).status_code == 200

    with_client(tmp_path / "data", story, tokens(tmp_path))


def test_pages_of_other_sites_and_other_names_of_the_machine_are_refused(tmp_path: Path) -> None:
    async def story(client: httpx.AsyncClient) -> None:
        path = f"{ITS_PATH}/nodes/n9"
        own, other = "http://127.0.0.1", "http://127.0.0.1.example"
        assert (await client.put(path, json=NODE, headers={"Origin": own})).status_code == 200
        for headers in ({"Origin": other}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}):
            assert (await client.put(path, json=NODE, headers=headers)).status_code == 403
        for host in ("evil.example", "127.0.0.1.example", ""):
            assert (await client.get(ITS_PATH, headers={"Host": host})).status_code == 421
        for host in ("localhost:8765", "[::1]:8765"):
            assert (await client.get(ITS_PATH, headers={"Host": host})).status_code == 200

    with_client(tmp_path, story)


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ("read", "words"),
        ("admin abcdefghijklmnop", "role"),
        ("read me short", "letters of the token"),
        ("read service abcdefghijklmnop", "name"),
        ("read a abcdefghijklmnop\nread b abcdefghijklmnop", "token"),
        ("read a abcdefghijklmnop\napply a ponmlkjihgfedcba", "name"),
        ("\ufeffread a abcdefghijklmnop", "begin"),
        ("# none", "tokens"),
    ],
)
def test_a_wrong_token_file_is_refused_and_no_token_is_shown(line: str, field: str, tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text(line)
    with pytest.raises(InvalidValueError) as caught:
        Access.of_file(path)
    assert caught.value.field == field
    assert "abcdefghijklmnop" not in str(caught.value)


def test_a_token_file_of_other_bytes_or_that_everybody_may_write_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_bytes(b"read \xff abcdefghijklmnop")
    with pytest.raises(InvalidValueError, match="UTF-8"):
        Access.of_file(path)
    path.write_text("read a abcdefghijklmnop")
    path.chmod(0o666)
    with pytest.raises(InvalidValueError, match="666"):
        Access.of_file(path)


@pytest.mark.parametrize(("mode", "warnings"), [(0o600, 0), (0o640, 1), (0o644, 1)])
def test_a_token_file_that_others_may_read_is_warned_of(
    tmp_path: Path, mode: int, warnings: int, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "tokens"
    path.write_text("read a abcdefghijklmnop")
    path.chmod(mode)
    Access.of_file(path)
    assert len(caplog.records) == warnings


def test_an_actor_that_sends_too_much_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    access = tokens(tmp_path)
    access.clock = lambda: now[0]
    monkeypatch.setattr(access_module, "MOST_REQUESTS", 3)
    monkeypatch.setattr(access_module, "RATE", 2.0)

    async def story(client: httpx.AsyncClient) -> None:
        async def statuses(role: str, times: int) -> list[int]:
            return [(await client.get(ITS_PATH, headers=bearer(role))).status_code for _ in range(times)]

        assert await statuses("read", 4) == [200, 200, 200, 429]
        assert await statuses("apply", 1) == [200]
        now[0] += 1.0
        assert await statuses("read", 3) == [200, 200, 429]
        wrong = [(await client.get(ITS_PATH, auth=("a", "b"))).status_code for _ in range(4)]
        assert wrong == [401, 401, 401, 429]

    with_client(tmp_path / "data", story, access)
