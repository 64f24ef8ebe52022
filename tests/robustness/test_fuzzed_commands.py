"""For any file content, a command ends with its result or a message, never with a traceback."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from cluster.errors import ScenarioError
from cluster.scenario.scenario_file import read_scenario
from tests.command_line import plb
from tests.robustness import mutations as damaged
from tests.robustness.commands import POLICY, SAMPLES, SCENARIO

Arguments = Callable[[Path, Path, Path], Sequence[Any]]
"""Arguments from the damaged file, the folder of the other inputs, and the output path."""


def contents_of(inputs: Path, name: str) -> st.SearchStrategy[bytes]:
    tables = {"samples.csv": SAMPLES, "instance.csv": (inputs / "instance.csv").read_text()}
    if name in tables:
        return damaged.table(tables[name], "\t" if name == "instance.csv" else ",")
    if name == "plan.csv":
        return damaged.table((inputs / "plan.csv").read_text())
    if name == "scenario.toml":
        return damaged.toml(SCENARIO)
    if name == "policy.pt":
        return damaged.damaged_bytes(POLICY.read_bytes())
    return damaged.table((inputs / "planetlab" / "20110303" / "host").read_text())


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("samples.csv", lambda file, _, out: ("predict", file, "oracle", "--out", out / "p.csv")),
        ("instance.csv", lambda file, _, out: ("provision", file, "--algorithm", "FF", "--out", out / "p.csv")),
        ("plan.csv", lambda file, given, _: ("replan", given / "instance.csv", file)),
        ("20110303/host", lambda file, _, out: ("traces", "convert", file.parent.parent, out, "--format", "planetlab")),
        ("20110303/host", lambda file, *_: ("traces", "describe", file.parent.parent, "--format", "planetlab")),
        (
            "policy.pt",
            lambda file, given, out: ("learn", "evaluate", given / "learning.toml", "--policy", file, "--out", out),
        ),
    ],
    ids=["predict", "provision", "replan", "traces convert", "traces describe", "learn evaluate"],
)
def test_commands_end_with_a_message(inputs: Path, name: str, arguments: Arguments):

    @settings(deadline=None, max_examples=12, suppress_health_check=list(HealthCheck))
    @given(contents=contents_of(inputs, name))
    def damage(contents: bytes) -> None:
        with TemporaryDirectory() as folder:
            file, out = Path(folder, "in", name), Path(folder, "out")
            file.parent.mkdir(parents=True)
            file.write_bytes(contents)
            run = plb(*arguments(file, inputs, out))
            assert run.exception is None or isinstance(run.exception, SystemExit), run.output
            assert run.exit_code in (0, 2), run.output
            if run.exit_code == 2:
                assert "plb: " in run.stderr
                assert not out.exists() or not list(out.iterdir())

    damage()


def test_damaged_scenarios_end_with_a_message(tmp_path: Path):

    @settings(deadline=None, max_examples=15, suppress_health_check=list(HealthCheck))
    @given(contents=damaged.toml(SCENARIO))
    def damage(contents: bytes) -> None:
        path = tmp_path / "damaged.toml"
        path.write_bytes(contents)
        try:
            read_scenario(path)
        except ScenarioError:
            run = plb("simulate", path, "--out", tmp_path / "out")
            assert isinstance(run.exception, SystemExit), run.output
            assert run.exit_code == 2
            assert f"plb: {path}" in run.stderr
            return
        assume(False)

    damage()
    assert not (tmp_path / "out").exists()
