"""The table of supported versions of Python, from the outcomes that ``make pythons`` adds to docs/data/pythons.json."""

from __future__ import annotations

import tomllib

from docs.tables.markdown import ROOT, figures, table

CLASSIFIER = "Programming Language :: Python :: "
HEAD = ("Python", "wheel in an empty environment", "tests", "tried with")


def supported() -> list[str]:
    """Return the versions in the classifiers of the project."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = [text.removeprefix(CLASSIFIER) for text in project["classifiers"] if text.startswith(CLASSIFIER)]
    return [name for name in names if name[-1].isdigit()]


def table_of_versions() -> str:
    """Return the outcomes by version."""
    outcomes = figures("pythons")
    rows = []
    for name in supported():
        row = outcomes.get(name, {})
        rows.append([name, *(row.get(key, "not tried") for key in ("wheel", "tests")), row.get("with", "")])
    return table(HEAD, rows)


TABLES = {"pythons": table_of_versions}
