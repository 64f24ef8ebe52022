"""The guide to estimators is true: its programs run, and it names every estimator there is."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

from plb import Metric, PlbConfig
from plb.risk.estimators import Gaussian, MonteCarlo
from plb.risk.peaks import Maximum, PeakOracle
from plb.risk.peaks.specs import KINDS

GUIDE = (Path(__file__).parent.parent / "docs" / "estimators.md").read_text()


def test_program_of_the_guide_prints_what_it_says():
    """The one that prints something."""
    ((code, wanted),) = re.findall(r"```python\n((?:(?!```).)*)```\n\n```\n(.*?)```", GUIDE, re.DOTALL)
    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        exec(code, {})
    assert told.getvalue() == wanted


def test_admission_of_the_guide_can_be_chosen():
    """Registered and asked for as it stands there."""
    (code,) = (code for code in re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL) if "Admission" in code)
    made = {"PlbConfig": PlbConfig}
    code = code.replace("[...]", "metrics").replace("PlbConfig(", "config = PlbConfig(")
    exec(code, made | {"metrics": [Metric("cpu")]}, made)
    assert made["config"].own_constraints == ("admission",)


def test_table_of_the_guide_has_all_estimators():
    """By the names that settings know."""
    named = {name.removesuffix("(...;...)") for name in re.findall(r"^\| `([^`]+)`", GUIDE, re.MULTILINE)}
    assert named == {*KINDS, MonteCarlo.kind, Gaussian.kind, Maximum.kind} - {PeakOracle.kind}
