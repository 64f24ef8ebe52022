"""The pages of constraints and terms are complete and agree with the code."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from enum import Enum
from pathlib import Path

import attrs
import pytest

from plb import Application, Metric, Node, Partition, PlbConfig, Replica, Service
from plb.model.plan import Energy
from plb.model.rules import BUDGETS, Rule
from plb.model.setting_fields import Setting, settings_of
from tests.docs.pages import ROOT
from tests.docs.shown_changes import applied, headings_of, hunks_of, parameters_of, section_of

DOCS = ROOT / "docs"
SKELETON = ["Meaning", "Formula", "Parameters", "Example", "Edge cases", "Source"]
PAGES = [
    page for kind in ("constraints", "terms") for page in sorted((DOCS / kind).glob("*.md")) if page.stem != "index"
]
CHANGES = sorted((DOCS / "extending").glob("*.diff"))
KINDS = {kind.__name__: kind for kind in (Application, Metric, Node, Partition, PlbConfig, Replica, Service)}
SHARED = {
    **dict.fromkeys((*BUDGETS, Rule.THROTTLING), "budgets"),
    **dict.fromkeys((Rule.SCALE_OUT, Rule.APPLICATION_CAPACITY), "applications"),
    Rule.RANGE: "capacity",
    Rule.UPGRADE_DOMAIN: "fault_domain",
}
"""The page of each rule that has none of its own."""
NO_SETTING = Setting("", None, "", lambda _item, _field, value: value)


def name_of(path: Path) -> str:
    return str(path.relative_to(DOCS))


def default_of(field: attrs.Attribute[object]) -> str:
    """Return the default of a field as on the pages: names bare, members of enumerations by value."""
    default = field.default.factory() if isinstance(field.default, attrs.Factory) else field.default  # type: ignore[attr-defined]
    plain = default.value if isinstance(default, Enum) else default
    return plain if plain and isinstance(plain, str) else repr(plain)


@pytest.mark.parametrize("rule", Rule, ids=lambda rule: rule.name)
def test_every_rule_has_a_page(rule):
    """The page has the name of the rule in plans, or is one that several rules share."""
    stem = SHARED.get(rule, rule.name.lower())
    page = DOCS / "constraints" / f"{stem}.md"
    assert page.exists()
    assert rule not in SHARED or f"`{rule.name.lower()}`" in page.read_text()


@pytest.mark.parametrize("term", [*Energy(0, 0, 0, 0, 0).terms], ids=str)
def test_every_term_has_a_page(term):
    assert (DOCS / "terms" / f"{term}.md").exists()


@pytest.mark.parametrize("kind", ["constraints", "terms"])
def test_index_links_every_page_of_its_kind(kind):
    index = (DOCS / kind / "index.md").read_text()
    pages = {page.name for page in PAGES if page.parent.name == kind}
    assert {name for name in pages if f"({name})" in index} == pages


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_page_follows_the_skeleton(page):
    """Each page has the same headings in order, an example with output, and at least three edge cases."""
    assert headings_of(page) == SKELETON
    assert re.search(r"```python\n.*?```\n\n```text\n", section_of(page, "Example"), re.DOTALL)
    assert section_of(page, "Edge cases").count("\n- ") >= 3


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_parameters_are_fields_with_their_defaults(page):
    """Class, field and default are those of the code, and unit and name in Service Fabric where a page has them."""
    rows = parameters_of(page)
    assert rows
    for row in rows:
        kind, name = row["field"].strip("`").split(".")
        fields = attrs.fields_dict(KINDS[kind])
        assert name in fields, row
        setting = settings_of(KINDS[kind]).get(name, NO_SETTING)
        assert row["default"] == f"`{default_of(fields[name])}`", row
        original = f"`{setting.name}`" if setting.name else "–"
        assert row.get("Service Fabric name", original) == original, row
        assert setting.unit in ("", row.get("unit", setting.unit)), row


@pytest.mark.slow
@pytest.mark.parametrize("name", ["constraint", "term"])
def test_machines_of_the_guide_pass(name, tmp_path):
    """The code is a complete test file with state machines."""
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / "extending" / f"{name}.md").read_text(), re.DOTALL)
    code = "\n".join(blocks)
    (tmp_path / "test_guide.py").write_text(code)
    assert f"{code.count('machine_of(')} passed" in run_tests(["test_guide.py"], tmp_path, {})


@pytest.mark.parametrize("change", CHANGES, ids=name_of)
def test_change_applies_to_the_sources(change):
    """Every hunk of a change in a guide applies, and the guide names each changed file."""
    guide = change.with_suffix(".md").read_text()
    for name, hunks in hunks_of(change).items():
        path = ROOT / name
        assert (f"`{name}`" if path.exists() else f"`{Path(name).parent}/` `{path.name}`, new") in guide
        assert applied(hunks, path.read_text() if path.exists() else "")


@pytest.mark.slow
@pytest.mark.parametrize("change", CHANGES, ids=name_of)
def test_change_passes_its_tests(change, tmp_path):
    """In a copy with the change, its tests pass and its example prints the shown output.

    Kernels run as plain Python.
    """
    for folder in ("plb", "tests", "docs", "cluster", "workloads", "examples", "benchmarks"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__", "*.png"))
    for path in (ROOT / "pyproject.toml", *ROOT.glob("*.md")):
        shutil.copy(path, tmp_path)
    changed = hunks_of(change)
    for name, hunks in changed.items():
        path = tmp_path / name
        path.write_text(applied(hunks, path.read_text() if path.exists() else ""))
    tests = [name for name in changed if Path(name).name.startswith("test_")]
    pages = ["tests/docs/test_constraint_and_term_pages.py", "tests/docs/test_blocks.py", "-k", "crowding"]
    for arguments in (tests, pages):
        assert "passed" in run_tests(arguments, tmp_path, {"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(tmp_path)})


def run_tests(arguments: list[str], folder: Path, environment: dict[str, str]) -> str:
    """Run tests in a folder, which must pass; return their output."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    setting = {**os.environ, **environment}
    run = subprocess.run(command, cwd=folder, env=setting, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout
    return run.stdout
