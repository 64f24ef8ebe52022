"""Every example runs unchanged."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cluster.cli.app import app
from cluster.scenario.scenario_file import read_scenario

EXAMPLES = Path(__file__).parent.parent / "examples"
DATA = Path(os.environ.get("PLB_SHARED", EXAMPLES.parent.parent / "shared")) / "data"
BITBRAINS, PLANETLAB = DATA / "bitbrains_rnd", DATA / "planetlab"
SCRIPTS = sorted(EXAMPLES.glob("*.py"))
ABSENT = {
    "embedding_in_salabim": find_spec("salabim") is None,
    "learning_environment": find_spec("gymnasium") is None,
    "embedding_recorded_arrivals": not (DATA / "azure_v1_arrivals").exists(),
}
"""Whether a requirement of a script, in addition to the installation, is missing."""
SCENARIOS = sorted([*EXAMPLES.glob("*.toml"), EXAMPLES / "learning" / "simulate.toml"])


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_script_prints_its_output_file(script: Path) -> None:
    """In a new process, a script prints exactly the text of its ``.out`` file."""
    if ABSENT.get(script.stem):
        pytest.skip(f"requirements of {script.name} are missing")
    run = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    assert run.stdout == script.with_suffix(".out").read_text()


def test_salabim_example_names_its_requirement() -> None:
    """Without salabim, it ends with one sentence that states how to install it."""
    script = EXAMPLES / "embedding_in_salabim.py"
    without = f"import runpy, sys; sys.modules['salabim'] = None; runpy.run_path({str(script)!r})"
    run = subprocess.run([sys.executable, "-c", without], capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert run.stderr == "salabim is not installed; get it by: .venv/bin/pip install salabim\n"


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda path: path.stem)
def test_scenario_is_valid(scenario: Path) -> None:
    """A scenario file has no errors and at least two policies to compare."""
    assert len(read_scenario(scenario).run.policies) >= 2


def simulate(scenario: str, folder: Path, *options: str) -> dict[str, dict[str, float]]:
    """Run ``plb simulate`` and return its figures by policy."""
    figures = folder / "figures.json"
    arguments = ["simulate", str(EXAMPLES / scenario), "--out", str(folder / "out"), "--json", str(figures), *options]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    policies: dict[str, dict[str, float]] = json.loads(figures.read_text())["policies"]
    return policies


def test_quick_start_compares_the_energies(tmp_path: Path) -> None:
    """One hour of the quick start, with a fifth of its tenants, gives figures for all policies, and its plots."""
    assert list(simulate("quickstart.toml", tmp_path, "--days", "0.042", "--density", "0.4")) == [
        "original",
        "modified",
        "expected_overload",
    ]
    assert (tmp_path / "out" / "violations.png").exists()


def test_scenario_with_traces_uses_the_included_traces(tmp_path: Path) -> None:
    assert set(simulate("own_traces.toml", tmp_path)) == {"original", "modified"}


@pytest.mark.slow
@pytest.mark.skipif(not BITBRAINS.exists(), reason="the Bitbrains trace is not here")
@pytest.mark.parametrize("name", ["bitbrains.toml", "bitbrains_months.toml"])
def test_bitbrains_uses_the_original_trace(name: str, tmp_path: Path) -> None:
    figures = simulate(name, tmp_path, "--days", "0.5", "--traces", str(BITBRAINS))
    assert set(figures) == {"original", "modified"}


@pytest.mark.slow
@pytest.mark.skipif(not PLANETLAB.exists(), reason="the PlanetLab traces are not here")
def test_planetlab_uses_the_converted_traces(tmp_path: Path) -> None:
    """The command that the scenario names converts them."""
    converted = str(tmp_path / "traces")
    result = CliRunner().invoke(app, ["traces", "convert", str(PLANETLAB), converted, "--format", "planetlab"])
    assert result.exit_code == 0, result.output
    figures = simulate("planetlab.toml", tmp_path, "--days", "1", "--traces", converted)
    assert set(figures) == {"original", "modified"}
