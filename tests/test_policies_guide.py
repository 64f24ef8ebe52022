"""The guide to placement policies is true: its code and its output are those of the example, and its names exist."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import attrs
import pytest

from cluster.scenario_file import read_scenario, scenario_from
from plb import Metric
from plb.configuration import Configuration
from plb.policies import BUILT_IN
from plb.policies.prv import PrvWorstFit
from plb.registry import own_policy

ROOT = Path(__file__).parent.parent
GUIDE = (ROOT / "docs" / "policies.md").read_text()
EXAMPLE = ROOT / "examples" / "apart_by_class.py"
CODE = re.search(r"```python\n(class .*?)```", GUIDE, re.DOTALL)[1]


def bare(code: str) -> list[str]:
    """Return lines of code without what the guide leaves out: types, docstrings and empty lines."""
    typed = re.sub(r": (Configuration|int|np\.ndarray)\b|->[^:]*(?=:\n)", "", code)
    lines = [line.rstrip().replace(" :", ":") for line in re.sub(r'"""[^"]*"""', "", typed).splitlines()]
    return [line for line in lines if line.strip()]


def test_code_of_the_guide_is_that_of_the_example():
    """But for types and docstrings."""
    example = "\n".join(bare(EXAMPLE.read_text()))
    assert "\n".join(bare(CODE)) in example


def test_output_of_the_guide_is_that_of_the_example():
    """What the two policies do."""
    shown = re.search(r"```\n(first_fit: .*?)```", GUIDE, re.DOTALL)[1]
    assert shown in EXAMPLE.with_suffix(".out").read_text()


def test_keys_of_the_guide_are_those_of_the_scenario():
    """Every line of its excerpt stands in examples/own_policy.toml, and the policy is the one of the guide."""
    excerpt = re.search(r"```toml\n(.*?)```", GUIDE, re.DOTALL)[1]
    scenario = ROOT / "examples" / "own_policy.toml"
    whole = [line.split("#")[0].strip() for line in scenario.read_text().splitlines()]
    assert {line for line in excerpt.splitlines() if line} <= set(whole)
    assert read_scenario(scenario).policies["apart"]["policy"] == "apart_by_class"


def test_options_of_the_guide_are_those_of_the_policies():
    """With their defaults; and its scenario can be read."""
    table = re.findall(r"^\| ([^|]*) \| `(\w+)` \| `?\"?(\w[\w.]*)\"?`? \| ", GUIDE, re.MULTILINE)
    shown = {(policy, option): value for names, option, value in table for policy in re.findall(r"`(\w+)`", names)}
    known = {
        (policy.name, field.alias): str(getattr(field.default, "value", field.default))
        for policy in BUILT_IN
        if attrs.has(type(policy))
        for field in attrs.fields(type(policy))
        if field.alias != "name"
    }
    assert shown == known
    excerpt = re.findall(r"```toml\n(.*?)```", GUIDE, re.DOTALL)[1]
    config = scenario_from(tomllib.loads(excerpt)).config("careful", (Metric("cpu"),))
    assert own_policy(config.policy, config.policy_options) == PrvWorstFit(theta=0.001, held_out=5)


@pytest.mark.parametrize("policy", BUILT_IN, ids=lambda policy: policy.name)
def test_guide_has_every_built_in_policy(policy):
    """In its first table."""
    assert f"| `{policy.name}` |" in GUIDE


def test_names_that_policies_read_exist():
    """The table of what a configuration tells, and the further verbs."""
    table = GUIDE.split("Of the configuration a policy reads")[1].split("\n\n")[1]
    rows = [line for line in table.splitlines() if line.startswith("| `")]
    names = [name for row in rows for name in re.findall(r"`(\w+)(?:\(row\))?`", row.split(" | ")[0])]
    assert len(names) > 8
    assert [name for name in names if not hasattr(Configuration, name)] == []
    for verb in ("begin", "leaving", "make_room"):
        assert f"- `{verb}(configuration, " in GUIDE
