"""The learned policy in scenarios: path of its file, and identification in results."""

from __future__ import annotations

import json
import shutil
from hashlib import sha256
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cluster.cli.app import app
from cluster.errors import ScenarioError
from cluster.scenario.scenario_file import read_scenario

TRAINED = Path(__file__).parents[3] / "examples" / "learning" / "tenants.pt"
SCENARIO = """
[cluster]
nodes = 6
upgrade_domains = 6
fault_domains = 3
[workload]
density = 0.5
history_tenants = 300
[run]
days = 0.1
policies = ["learned", "chosen"]
[policies.learned]
policy_options = { checkpoint = "trained/policy.pt" }
[policies.chosen]
policy = "learned"
policy_options = { checkpoint = "trained/policy.pt", step_minutes = 30 }
"""


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    (tmp_path / "trained").mkdir()
    shutil.copy(TRAINED, tmp_path / "trained" / "policy.pt")
    path = tmp_path / "scenario.toml"
    path.write_text(SCENARIO)
    return path


def test_the_path_of_its_file_is_relative_to_the_scenario(scenario: Path):
    options = read_scenario(scenario).policies["chosen"]["policy_options"]
    assert options == {"checkpoint": str(scenario.parent / "trained" / "policy.pt"), "step_minutes": 30}


def test_results_identify_a_file_by_its_content(scenario: Path, tmp_path: Path):
    """The same scenario in another folder has the same digest; with another file, it has another digest."""
    found = read_scenario(scenario)
    digest = sha256(TRAINED.read_bytes()).hexdigest()
    assert found.as_json()["policies"]["learned"]["policy_options"] == {"checkpoint": {"policy.pt": digest}}
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(scenario.parent / "trained", elsewhere / "trained")
    shutil.copy(scenario, elsewhere)
    assert read_scenario(elsewhere / "scenario.toml").digest() == found.digest()
    (elsewhere / "trained" / "policy.pt").write_bytes(b"other")
    assert read_scenario(elsewhere / "scenario.toml").digest() != found.digest()


def test_a_policy_file_is_identified_by_its_content(scenario: Path):
    """The section [engine] may contain the policy, too."""
    text = SCENARIO.replace("[policies.learned]", '[engine]\npolicy = "learned"\n[policies.mine]')
    scenario.write_text(text.replace('["learned", "chosen"]', '["mine"]'))
    found = read_scenario(scenario)
    before = found.digest()
    assert str(scenario.parent) not in json.dumps(found.as_json()["policies"])
    (scenario.parent / "trained" / "policy.pt").write_bytes(b"other")
    assert read_scenario(scenario).digest() != before


@pytest.mark.parametrize("section", ["[engine]", "[policies.learned]"])
@pytest.mark.parametrize(
    "options", ["5", "[]", '"x"', "true", "{ checkpoint = 5 }", '{ checkpoint = ["a"] }', "{ x = 1 }"]
)
def test_options_of_a_wrong_kind_are_refused(scenario: Path, section: str, options: str):
    scenario.write_text(f"{section}\npolicy = 'learned'\npolicy_options = {options}\n")
    with pytest.raises(ScenarioError, match="policy_options"):
        read_scenario(scenario)


@pytest.mark.parametrize("value", ["", "none.pt", "trained", "a\\u0000b"])
def test_a_missing_file_is_refused_with_the_scenario(scenario: Path, value: str):
    scenario.write_text(SCENARIO.replace("trained/policy.pt", value))
    with pytest.raises(ScenarioError, match=r"policies.learned.policy_options.checkpoint"):
        read_scenario(scenario)


def test_without_its_file_the_policy_cannot_run(scenario: Path):
    scenario.write_text("[run]\npolicies = ['learned']\n")
    with pytest.raises(ScenarioError, match=r"policies.learned: policy_options.checkpoint = '' is not allowed"):
        read_scenario(scenario)


@pytest.mark.slow
def test_it_runs_in_several_processes(scenario: Path, tmp_path: Path):
    pytest.importorskip("torch")
    summaries = []
    for jobs in ("1", "2"):
        out = tmp_path / jobs
        run = CliRunner().invoke(app, ["simulate", str(scenario), "--out", str(out), "--jobs", jobs, "--quiet"])
        assert run.exit_code == 0, run.output
        summaries.append(json.loads((out / "summary.json").read_text()))
    assert summaries[0] == summaries[1]
    totals = {run["policy"]: run for run in summaries[0]["runs"]}
    assert set(totals) == {"learned", "chosen"}
    assert all(run["placement_failures"] == 0 for run in totals.values())
