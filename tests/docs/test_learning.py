"""Names and defaults of the guide to learning are those of the project."""

from __future__ import annotations

import re
from pathlib import Path

import attrs
import pytest

from cluster.learning.baselines import BASELINES, FitRule
from cluster.learning.config import read_config
from cluster.learning.episode import Penalties
from cluster.scenario.scenario_file import read_scenario
from plb.policies.learned import Learned
from tests.docs.pages import ROOT

GUIDE = (ROOT / "docs" / "learning.md").read_text()


def rows(first_cell: str) -> list[list[str]]:
    """Return the cells of the rows of the table whose header begins with this text."""
    table = GUIDE.split(f"| {first_cell} |")[1].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


def test_weights_of_the_guide_are_the_defaults():
    shown = {name.replace("-", "_"): float(weight) for name, _, weight in rows("penalty")}
    assert shown == attrs.asdict(Penalties())


def test_heuristics_of_the_guide_are_the_baselines():
    """The part after a hyphen is the compared usage."""
    names = [name for cells in rows("name") for name in re.findall(r"`([\w-]+)`", cells[0])]
    fits = {f"-{fit.value}" for fit in FitRule}
    assert {name.removesuffix(next((fit for fit in fits if name.endswith(fit)), "")) for name in BASELINES} == set(
        names
    )
    assert {f"tetris-{fit.value}" for fit in FitRule} <= set(BASELINES)


def test_options_of_the_guide_are_those_of_the_policy():
    shown = {cells[0].strip("`"): cells[1] for cells in rows("option")}
    options = {field.alias: field.default for field in attrs.fields(Learned) if field.init and field.alias != "name"}
    assert set(shown) == set(options)
    assert (shown["step_minutes"], shown["may_wait"]) == (
        f"{options['step_minutes']:g}",
        str(options["may_wait"]).lower(),
    )


def test_scenario_of_the_guide_finds_its_policy():
    path = ROOT / "examples" / "learning" / "simulate.toml"
    options = read_scenario(path).policies["learned"]["policy_options"]
    assert Path(options["checkpoint"]).samefile(path.parent / "tenants.pt")


@pytest.mark.parametrize("name", ["deepplace", "tenants"])
def test_policies_of_the_examples_agree_with_their_files(name: str):
    """Their training has the settings of the file in the same folder."""
    pytest.importorskip("torch")
    from plb.learning.policy import LearnedPolicy

    config = read_config(ROOT / "examples" / "learning" / f"{name}.toml")
    policy = LearnedPolicy.load(ROOT / "examples" / "learning" / f"{name}.pt")
    assert policy.settings == config.training
    assert policy.shape == config.machines.shape
