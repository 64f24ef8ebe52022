"""Every example runs as it stands."""

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
BITBRAINS = DATA / "bitbrains_rnd"
SCRIPTS = sorted(EXAMPLES.glob("*.py"))
ABSENT = {
    "embedding_in_salabim": find_spec("salabim") is None,
    "learning_environment": find_spec("gymnasium") is None,
    "embedding_recorded_arrivals": not (DATA / "azure_v1_arrivals").exists(),
}
"""Whether what a script needs, beside what is installed with the project, is not here."""
SCENARIOS = sorted([*EXAMPLES.glob("*.toml"), EXAMPLES / "learning" / "simulate.toml"])


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_script_prints_what_stands_beside_it(script: Path) -> None:
    """A script prints exactly the text of its ``.out`` file, in a process of its own."""
    if ABSENT.get(script.stem):
        pytest.skip(f"what {script.name} needs is not here; it says how to get it")
    run = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    assert run.stdout == script.with_suffix(".out").read_text()


def test_salabim_example_says_what_it_needs() -> None:
    """Without salabim it ends in one sentence that tells how to get it."""
    script = EXAMPLES / "embedding_in_salabim.py"
    without = f"import runpy, sys; sys.modules['salabim'] = None; runpy.run_path({str(script)!r})"
    run = subprocess.run([sys.executable, "-c", without], capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert run.stderr == "salabim is not installed; get it by: .venv/bin/pip install salabim\n"


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda path: path.stem)
def test_scenario_is_valid(scenario: Path) -> None:
    """A scenario file is read without an error and names at least two policies to compare."""
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
    """The quick start, cut to an hour of simulated time, ends with figures of all policies and its plots."""
    assert list(simulate("quickstart.toml", tmp_path, "--days", "0.042")) == [
        "original",
        "modified",
        "expected_overload",
    ]
    assert (tmp_path / "out" / "violations.png").exists()


def test_scenario_with_traces_runs_from_the_shipped_traces(tmp_path: Path) -> None:
    """A scenario finds its traces relative to its own folder."""
    assert set(simulate("own_traces.toml", tmp_path)) == {"original", "modified"}


@pytest.mark.slow
@pytest.mark.skipif(not BITBRAINS.exists(), reason="the Bitbrains trace is not here")
def test_bitbrains_runs_from_the_real_trace(tmp_path: Path) -> None:
    """The Bitbrains scenario runs from the directory given with ``--traces``."""
    figures = simulate("bitbrains.toml", tmp_path, "--days", "0.5", "--traces", str(BITBRAINS))
    assert set(figures) == {"original", "modified"}
