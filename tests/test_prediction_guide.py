"""The guide to peak prediction is true: its files, its table and its programs."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path
from typing import Any

import attrs
from typer.testing import CliRunner

from cluster.cli import app
from plb.risk.peaks.specs import KINDS

ROOT = Path(__file__).parent.parent
GUIDE = (ROOT / "docs" / "prediction.md").read_text()


def blocks(kind: str) -> list[str]:
    """Return the code blocks of a kind."""
    return re.findall(rf"```{kind}\n(.*?)```", GUIDE, re.DOTALL)


def test_files_and_table_of_the_guide_are_those_of_its_command(tmp_path: Path):
    """Run as it stands there."""
    given, wanted = blocks("csv")
    assert (ROOT / "examples" / "task_samples.csv").read_text() == given
    command = re.search(r"    \.venv/bin/plb (predict .*)", GUIDE)[1]
    arguments = [part.replace("examples", str(ROOT / "examples")) for part in shlex.split(command)]
    out = tmp_path / arguments.pop()
    run = CliRunner().invoke(app, [*arguments, str(out)])
    assert run.exit_code == 0, run.output
    assert out.read_text() == wanted
    shown = [line.strip() for line in GUIDE.splitlines()]
    assert {line.strip() for line in run.stdout.splitlines()[:-1]} <= set(shown)


def test_programs_of_the_guide_print_what_it_says():
    """Each, in a namespace of its own."""
    printed = re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```", GUIDE, re.DOTALL)
    assert len(printed) == len(blocks("python"))
    for code, wanted in printed:
        told = io.StringIO()
        with contextlib.redirect_stdout(told):
            exec(code, {})
        assert told.getvalue() == wanted


def test_parameters_of_the_guide_are_those_of_the_predictors():
    """With their defaults."""
    shown = {}
    for kind, cells in re.findall(r"^\| `([a-z-]+)` \| [^|]+ \| (`[^|]+`) \|$", GUIDE, re.MULTILINE):
        shown[kind] = dict(re.findall(r"`(\w+)=([\w.]+)`", cells))
    assert shown == {kind: defaults(one) for kind, one in KINDS.items()}


def defaults(kind: type[Any]) -> dict[str, str]:
    """Return the parameters of a predictor, as they are written."""
    return {field.name: f"{field.default}".removesuffix(".0").lower() for field in attrs.fields(kind)}
