"""Headings, tables and changes that pages of the documentation show."""

from __future__ import annotations

import re
from pathlib import Path

import attrs


def headings_of(page: Path) -> list[str]:
    """Return the headings of the second level, in order, without comments in code."""
    return re.findall(r"^## (.*)$", re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL), re.MULTILINE)


def section_of(page: Path, heading: str) -> str:
    """Return the text below a heading of the second level."""
    return page.read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]


def parameters_of(page: Path) -> list[dict[str, str]]:
    """Return the rows of the first table below Parameters, by the names of its columns."""
    table = section_of(page, "Parameters").strip().split("\n\n")[0]
    header, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    return [dict(zip(header, row, strict=True)) for row in rows]


@attrs.frozen
class Hunk:
    """A part of a change: old lines of a file, their approximate place, and new lines."""

    line: int
    before: str
    after: str


def hunks_of(diff: Path) -> dict[str, list[Hunk]]:
    """Return the hunks of a unified diff by file. A new file has one hunk without old lines."""
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
    """Return a text with the hunks applied, each at the matching place nearest to its line."""
    for hunk in reversed(hunks):
        if not hunk.before:
            assert not text, "a new file exists already"
            return hunk.after
        starts = [match.start() for match in re.finditer(f"^{re.escape(hunk.before)}", text, re.MULTILINE)]
        assert starts, f"not in the file:\n{hunk.before}"
        start = min(starts, key=lambda at: abs(text.count("\n", 0, at) + 1 - hunk.line))
        text = text[:start] + hunk.after + text[start + len(hunk.before) :]
    return text
