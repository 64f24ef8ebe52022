"""Adds the outcome of a session of ``nox`` to docs/data/pythons.json; ``make pages`` makes a table of it."""

from __future__ import annotations

import json
import platform
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

ROOT = Path(__file__).parents[1]
FILE = ROOT / "docs" / "data" / "pythons.json"


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


if __name__ == "__main__":
    session, outcome, *arguments = sys.argv[1:]
    record(session, outcome_of(Path(outcome), arguments) if outcome.endswith(".xml") else outcome)
