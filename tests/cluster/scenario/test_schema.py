"""The JSON schema of scenario files accepts what the reader accepts, and refuses unknown keys and wrong values."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cluster.cli.app import app
from cluster.scenario.scenario_file import scenario_from, scenario_schema
from plb import Plan, PlbError

jsonschema = pytest.importorskip("jsonschema_rs")
EXAMPLES = Path(__file__).parents[3] / "examples"
SCENARIOS = sorted([*EXAMPLES.glob("*.toml"), *EXAMPLES.glob("gallery/*.toml")])
SCHEMA = jsonschema.validator_for(scenario_schema())


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_examples_are_valid(path: Path) -> None:
    SCHEMA.validate(tomllib.loads(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    "wrong",
    [
        "colour = 1",
        "[run]\ndayz = 2",
        "[run]\ndays = 0",
        "[run]\nseed = 1.5",
        "[cluster]\nnodes = 'many'",
        "[engine]\nmax_move = 3",
        "[engine]\nmetrics = []",
        "[policies.mine]\ncombination = 'sum'",
        "[policies.mine]\napplications = 'some'",
        "[workload]\nkind = 'none'",
        "[metrics.cpu]\nname = 'disk'",
    ],
)
def test_what_the_reader_refuses_is_not_valid(wrong: str) -> None:
    document = tomllib.loads(wrong)
    assert not SCHEMA.is_valid(document)
    with pytest.raises(PlbError):
        scenario_from(document)


def test_every_key_has_a_description() -> None:
    sections = scenario_schema()["properties"]
    for name in ("cluster", "workload", "run", "engine"):
        keys = sections[name]["properties"]
        assert [key for key, schema in keys.items() if "description" not in schema] == []


def test_the_command_prints_the_schemas() -> None:
    for name, schema in (("scenario", scenario_schema()), ("plan", Plan.json_schema())):
        assert json.loads(CliRunner().invoke(app, ["schema", name]).output) == schema
    refused = CliRunner().invoke(app, ["schema", "scenarios"])
    assert refused.exit_code != 0
    assert "did you mean 'scenario'" in refused.output
