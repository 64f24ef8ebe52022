"""``plb serve`` as a process: it ends cleanly, comes back after a kill, and refuses what is not safe."""

from __future__ import annotations

import asyncio
import gc
import shutil
import signal
import ssl
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from typer.testing import CliRunner
from uvicorn.server import ServerState

from cluster.cli.app import app
from cluster.service.interfaces import server as server_module
from cluster.service.interfaces.server import TimedProtocol, Transport, spare_long_lived_objects
from plb.errors import ConflictError, InvalidValueError
from tests.cluster.service.clients import ITS_PATH, PLB, SETTINGS, server

NODE = {"name": "a", "capacities": {"cpu": 8}}


def message_of(*options: str) -> str:
    """Return the message of a server that does not start."""
    run = subprocess.run([*PLB, "serve", *options], capture_output=True, text=True, check=False, timeout=300)
    assert run.returncode == 2, run.stdout + run.stderr
    return run.stderr


def test_after_a_kill_all_that_was_acknowledged_is_there(tmp_path: Path) -> None:
    with server(tmp_path) as here:
        httpx.put(here.url + ITS_PATH, json={"settings": SETTINGS})
        for number in range(20):
            node = {**NODE, "name": f"n{number}"}
            assert httpx.put(f"{here.url}{ITS_PATH}/nodes/n{number}", json=node).status_code == 200
        before = [httpx.get(f"{here.url}{path}").json() for path in (ITS_PATH, f"{ITS_PATH}/node_loads")]
        assert "another plb serves this directory" in message_of("--data", str(tmp_path), "--listen", "127.0.0.1:0")
        here.process.kill()
        here.process.wait()
    with server(tmp_path) as here:
        assert before == [httpx.get(f"{here.url}{path}").json() for path in (ITS_PATH, f"{ITS_PATH}/node_loads")]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_cleanly_also_with_a_stream_that_nobody_reads(number: signal.Signals, tmp_path: Path) -> None:
    with server(tmp_path) as here:
        httpx.put(here.url + ITS_PATH, json={"settings": SETTINGS})
        with httpx.stream("GET", f"{here.url}{ITS_PATH}/events") as stream:
            assert next(stream.iter_lines()).startswith('data: {"sequence":1,')
            here.process.send_signal(number)
            assert here.process.wait(60) == 0
        assert here.process.stdout is not None
        assert here.process.stdout.read() == ""


def test_an_address_for_others_needs_tokens_or_certificates_of_clients(tmp_path: Path) -> None:
    files = {"certificate": tmp_path, "key": tmp_path}
    for address in ("0.0.0.0:1", "[::]:1", "example.org:1", "10.0.0.1:1"):
        with pytest.raises(ConflictError, match="could move replicas"):
            Transport.of(address, **files).check(has_tokens=False)
        Transport.of(address).check(has_tokens=True)
        Transport.of(address, **files, client_ca=tmp_path).check(has_tokens=False)
    for address in ("127.0.0.1:1", "127.0.0.2:1", "localhost:1", "[::1]:1"):
        Transport.of(address).check(has_tokens=False)
    with pytest.raises(ConflictError, match="belong together"):
        Transport.of("127.0.0.1:1", certificate=tmp_path).check(has_tokens=False)
    with pytest.raises(ConflictError, match="needs both"):
        Transport.of("127.0.0.1:1", client_ca=tmp_path).check(has_tokens=False)
    for address in ("8765", ":1", "host:", "host:x", "host:65536", "host:-1"):
        with pytest.raises(InvalidValueError, match="listen"):
            Transport.of(address)


def test_what_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no certificate")
    here = ("--listen", "127.0.0.1:0", "--data", str(tmp_path / "data"))
    files = ("--certificate", str(tmp_path / "file"), "--key", str(tmp_path / "file"))
    assert "--certificate, --key or --client-ca cannot be used" in message_of(*here, *files)
    assert "the log cannot be opened" in message_of("--listen", "127.0.0.1:0", "--data", str(tmp_path / "file"))


def certificates(folder: Path) -> dict[str, str]:
    """Return files of an authority, and of a certificate of this machine that it has signed."""
    name = {kind: str(folder / f"{kind}.pem") for kind in ("ca", "ca-key", "certificate", "key", "request", "names")}
    Path(name["names"]).write_text("subjectAltName=IP:127.0.0.1\n")
    new = ["openssl", "req", "-newkey", "rsa:2048", "-nodes", "-subj"]
    sign = ["-CA", name["ca"], "-CAkey", name["ca-key"], "-CAcreateserial", "-extfile", name["names"]]
    for command in (
        [*new, "/CN=authority", "-x509", "-days", "2", "-keyout", name["ca-key"], "-out", name["ca"]],
        [*new, "/CN=machine", "-keyout", name["key"], "-out", name["request"]],
        ["openssl", "x509", "-req", "-days", "2", "-in", name["request"], *sign, "-out", name["certificate"]],
    ):
        subprocess.run(command, check=True, capture_output=True)
    return name


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_with_an_authority_only_clients_with_its_certificates_connect(tmp_path: Path) -> None:
    files = certificates(tmp_path)
    options = ("--certificate", files["certificate"], "--key", files["key"], "--client-ca", files["ca"])
    context = ssl.create_default_context(cafile=files["ca"])
    with server(tmp_path / "data", *options) as here:
        assert here.url.startswith("https://")
        with pytest.raises(httpx.HTTPError), httpx.Client(verify=context) as client:
            client.get(f"{here.url}/healthz")
        context.load_cert_chain(files["certificate"], files["key"])
        with httpx.Client(verify=context) as client:
            assert client.put(here.url + ITS_PATH, json={"settings": SETTINGS}).json()["sequence"] == 1


def test_a_missing_package_of_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "cluster.service.interfaces.server")
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    result = CliRunner().invoke(app, ["serve"])
    assert result.exit_code == 2
    assert "uvicorn is not installed. It belongs to the extra 'service': pip install 'httpx>=" in result.output


def test_a_connection_without_a_whole_request_is_closed_and_a_slow_answer_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server_module, "SECONDS_TO_BEGIN", 0.1)

    async def slow(_scope: Any, _receive: Any, send: Any) -> None:
        await asyncio.sleep(0.3)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"late"})

    async def story() -> list[bytes]:
        config = uvicorn.Config(slow, log_config=None)
        state = ServerState()
        listening = await asyncio.get_running_loop().create_server(
            lambda: TimedProtocol(config, state, {}), "127.0.0.1", 0
        )
        answers = []
        for data in (b"", b"GET / HTTP/1.1\r\nHost: here\r\n", b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"):
            reader, writer = await asyncio.open_connection(*listening.sockets[0].getsockname())
            writer.write(data)
            answers.append(await reader.read())
            writer.close()
        listening.close()
        return answers

    nothing, half, whole = asyncio.run(story())
    assert (nothing, half) == (b"", b"")
    assert b"late" in whole


def test_the_collector_looks_at_long_lived_objects_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    class Cycle:
        def __init__(self) -> None:
            self.itself = self

    before = [*gc.callbacks]
    try:
        spare_long_lived_objects()
        cycle = Cycle()
        gone = weakref.ref(cycle)
        gc.collect()  # the cycle is used, so it is long-lived now
        del cycle
        gc.collect()
        assert gone() is not None
        monkeypatch.setattr(server_module, "SECONDS_TO_COLLECT", 0.0)
        gc.collect()
        assert gone() is None
    finally:
        gc.callbacks[:] = before
        gc.unfreeze()
