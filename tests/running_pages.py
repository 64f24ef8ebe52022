"""What pages of the documentation show: their examples, run; their tables; the changes that they walk through."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import attrs

ROOT = Path(__file__).parent.parent
SEPARATOR = "=" * 8
_CODE = re.compile(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```)?", re.DOTALL)


def examples_of(page: Path) -> list[tuple[str, str]]:
    """Return the blocks of code of a page, each with the output that stands below it."""
    return _CODE.findall(page.read_text())


def printed(blocks: list[str]) -> list[str]:
    """Run the blocks of code one after the other in one fresh interpreter; return what each prints."""
    code = f"print({SEPARATOR!r})\n".join(blocks)
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout.split(f"{SEPARATOR}\n")


def headings_of(page: Path) -> list[str]:
    """Return the headings of the second level, in order; comments in code are none."""
    return re.findall(r"^## (.*)$", re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL), re.MULTILINE)


def parameters_of(page: Path) -> list[list[str]]:
    """Return the rows of the first table below Parameters, without its head: five cells each."""
    table = page.read_text().split("## Parameters")[1].split("##")[0].strip().split("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


@attrs.frozen
class Hunk:
    """A part of a change: what stands in a file, about where, and what is to stand there."""

    line: int
    before: str
    after: str


def hunks_of(diff: Path) -> dict[str, list[Hunk]]:
    """Return the hunks of a unified diff by file; a new file has one with nothing before."""
    files: dict[str, list[Hunk]] = {}
    for part in re.split(r"^(?=--- )", diff.read_text(), flags=re.MULTILINE)[1:]:
        name = re.search(r"^\+\+\+ b/(.*)$", part, re.MULTILINE)
        assert name, f"{diff.name}: {part.splitlines()[0]} without +++"
        hunks = re.findall(r"^@@ -(\d+).*? @@.*\n((?:[ +-].*\n)*)", part, re.MULTILINE)
        files[name[1]] = [Hunk(int(line), _side(body, " -"), _side(body, " +")) for line, body in hunks]
    return files


def _side(body: str, signs: str) -> str:
    return "".join(line[1:] + "\n" for line in body.splitlines() if line[0] in signs)


def applied(hunks: list[Hunk], text: str) -> str:
    """Return a text with the hunks applied, each where it stands nearest to the line that it names."""
    for hunk in reversed(hunks):
        if not hunk.before:
            assert not text, "a new file is there already"
            return hunk.after
        starts = [match.start() for match in re.finditer(f"^{re.escape(hunk.before)}", text, re.MULTILINE)]
        assert starts, f"nowhere in the file:\n{hunk.before}"
        start = min(starts, key=lambda at: abs(text.count("\n", 0, at) + 1 - hunk.line))
        text = text[:start] + hunk.after + text[start + len(hunk.before) :]
    return text
