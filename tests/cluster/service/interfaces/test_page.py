"""The session on the page of the service prints what the page shows."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from cluster.service.interfaces.access import Access, Right
from tests.cluster.service.clients import PLB, server
from tests.docs.pages import blocks_of

PAGE = "docs/service.md"
ADDRESS = "http://127.0.0.1:8765"


def session() -> list[tuple[str, str]]:
    """Return the commands of the session, each with the shown output."""
    found: list[tuple[str, list[str]]] = []
    for block in blocks_of(PAGE):
        if block.heading == "A session in curl" and "not run" in block.markers:
            for line in block.content.splitlines():
                if line.startswith(("curl ", "C=")):
                    found.append((line, []))
                else:
                    found[-1][1].append(line)
    return [(command, "\n".join(lines)) for command, lines in found]


def save_blocks(folder: Path) -> None:
    """Save the blocks that the page tells the reader to save."""
    for block in blocks_of(PAGE):
        if "saved as" in block.markers:
            (folder / block.markers["saved as"]).write_text(block.content)


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_session_prints_what_the_page_shows(tmp_path: Path) -> None:
    (variable, _), *commands = session()
    assert len(commands) > 10
    save_blocks(tmp_path)
    with server(tmp_path / "data") as here:
        for command, shown in commands:
            line = f"{variable.replace(ADDRESS, here.url)}; {command.replace('curl', 'curl -s', 1)}"
            run = subprocess.run(["bash", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=False)
            printed = re.sub(r"\n+", "\n", run.stdout).strip()
            if "/events" in command and "--max-time" in command:  # the plan may be ready before the first event
                shown, printed = shown.splitlines()[-1], printed.splitlines()[-1]
            assert printed == shown, command
    (replay,) = (block.content for block in blocks_of(PAGE) if block.content.startswith("plb replay"))
    run = subprocess.run([*PLB, "replay", str(tmp_path / "data")], capture_output=True, text=True, check=True)
    assert run.stdout == replay.partition("\n")[2].rstrip("\n") + "\n"


def test_the_tokens_of_the_page_are_valid(tmp_path: Path) -> None:
    save_blocks(tmp_path)
    access = Access.of_file(tmp_path / "tokens")
    secrets = [line.split()[2] for line in (tmp_path / "tokens").read_text().splitlines()[1:]]
    rights = [access.admit(f"Bearer {secret}", Right.READ).right for secret in secrets]
    assert rights == [Right.READ, Right.REPORT, Right.APPLY]
