"""The table of supported versions of Python in docs/install.md.

``nox`` runs it in its environments: it adds the outcome of a session to docs/data/pythons.json, and writes the table.
"""

from __future__ import annotations

import json
import platform
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

ROOT = Path(__file__).parents[1]
FILE, PAGE = ROOT / "docs" / "data" / "pythons.json", ROOT / "docs" / "install.md"
BEGIN, END = "<!-- table: pythons -->\n\n", "\n\n<!-- table: end -->"
CLASSIFIER = "Programming Language :: Python :: "
HEAD = "| Python | wheel in an empty environment | tests | tried with |\n|---|---|---|---|"


def supported() -> list[str]:
    """Return the versions in the classifiers of the project."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = [text.removeprefix(CLASSIFIER) for text in project["classifiers"] if text.startswith(CLASSIFIER)]
    return [name for name in names if name[-1].isdigit()]


def outcome_of(report: Path, arguments: list[str]) -> str:
    """Return in words how many tests of a JUnit file passed, and which were asked for."""
    (suite,) = ElementTree.parse(report).getroot().iter("testsuite")
    total, skipped, bad = (sum(int(suite.get(key, 0)) for key in keys) for keys in KEYS)
    counts = f"{total - skipped - bad:,} passed, {skipped:,} skipped"
    asked = " ".join(word for word in arguments if word.startswith("tests"))
    return f"{counts}, of `{asked}`" if asked else counts


KEYS = (("tests",), ("skipped",), ("failures", "errors"))


def record(session: str, outcome: str) -> None:
    """Add the outcome of a session with this Python to the file."""
    outcomes: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    tried = f"{platform.python_version()}, Numba {version('numba')}, NumPy {version('numpy')}"
    name = "{}.{}".format(*sys.version_info[:2])
    outcomes[name] = {**outcomes.get(name, {}), session: outcome, "with": tried}
    FILE.write_text(json.dumps(dict(sorted(outcomes.items())), indent=2) + "\n", encoding="utf-8")


def table() -> str:
    """Return the table of supported versions."""
    outcomes = json.loads(FILE.read_text(encoding="utf-8"))
    rows = []
    for name in supported():
        row = outcomes.get(name, {})
        cells = [name, *(row.get(key, "not tried") for key in ("wheel", "tests")), row.get("with", "")]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join([HEAD, *rows])


def write_page() -> None:
    """Replace the table of the page."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    PAGE.write_text(before + BEGIN + table() + END + rest.partition(END)[2], encoding="utf-8")


if __name__ == "__main__":
    session, outcome, *arguments = sys.argv[1:]
    record(session, outcome_of(Path(outcome), arguments) if outcome.endswith(".xml") else outcome)
    write_page()
