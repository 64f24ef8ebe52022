"""The container file and the unit of systemd: their commands serve, and their health check sees it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cluster.service.clients import PLB
from tests.sources import ROOT

CONTAINER = (ROOT / "examples" / "service" / "Dockerfile").read_text()
UNIT = ROOT / "examples" / "service" / "plb.service"


def words(line: str) -> list[str]:
    """Return the words of an instruction of the container file."""
    (found,) = re.findall(rf"^{line} (\[.*\])$", CONTAINER, re.MULTILINE)
    return [*json.loads(found)]


@contextmanager
def started(command: list[str], folder: Path) -> Iterator[str]:
    """Run a command with a directory, tokens and a port of its own, and return the port."""
    tokens = folder / "tokens"
    tokens.write_text("read dashboard 3f0c6b1ad7a1e5b2c4c9f0a7d8e6b3a1\n")
    tokens.chmod(0o600)
    places = {"/data": folder / "data", "/var/lib/plb": folder / "data", "/tokens": tokens}
    arguments = [str(places.get(word.removeprefix("${CREDENTIALS_DIRECTORY}"), word)) for word in command[1:]]
    arguments = [word.replace(":8765", ":0") for word in arguments]
    with subprocess.Popen([*PLB, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            port = re.match(r"http://[0-9.]+:(\d+) ", line)
            assert port is not None, line + process.stdout.read()
            yield port[1]
        finally:
            process.terminate()
    assert process.returncode == 0


def test_the_container_serves_and_its_health_check_sees_it(tmp_path: Path) -> None:
    check = words("HEALTHCHECK --start-period=60s CMD")
    with started(words("ENTRYPOINT"), tmp_path) as port:
        code = check[2].replace("8765", port)
        assert subprocess.run([sys.executable, check[1], code], check=False).returncode == 0
    assert subprocess.run([sys.executable, check[1], code], check=False, capture_output=True).returncode == 1


def test_the_container_has_all_that_the_wheel_is_made_of() -> None:
    copied = {word for line in re.findall(r"^COPY (?!--)(.*) \S+$", CONTAINER, re.MULTILINE) for word in line.split()}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    packed = project["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]
    assert copied == {"pyproject.toml", "README.md", "LICENSE", *packed}
    assert all((ROOT / name).exists() for name in copied)


def test_the_unit_serves(tmp_path: Path) -> None:
    (command,) = re.findall(r"^ExecStart=(.*)$", UNIT.read_text(), re.MULTILINE)
    with started(command.split(), tmp_path):
        pass


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd")
def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / "plb.service"
    unit.write_text(UNIT.read_text().replace("/opt/plb/bin/plb", "/bin/true"))
    result = subprocess.run(["systemd-analyze", "verify", str(unit)], check=False, capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "")
