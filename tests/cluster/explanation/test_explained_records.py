"""`plb explain` refuses records that differ from the replay of the run."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from cluster.console import BAD_INPUT
from cluster.explanation.explanation import RunReplay
from cluster.results.recorded_run import RecordedRun, read_run
from cluster.results.writing import stamp, versions
from cluster.scenario.scenario_file import read_scenario, scenario_from
from plb import PlbError
from tests.cluster.cli.test_compare import summary_of, written
from tests.cluster.small_runs import TWO_CRASHES
from tests.cluster.tiny import Tenant, small_region, source_of, traces_of
from tests.command_line import plb

EXAMPLES = Path(__file__).parents[3] / "examples"


def damaged(explained: Path, tmp_path: Path, **changes: Any) -> Path:
    """Return a copy of the results with another summary."""
    folder = Path(shutil.copytree(explained, tmp_path / "damaged"))
    summary = json.loads((explained / "summary.json").read_text())
    (folder / "summary.json").write_text(json.dumps(summary | changes))
    return folder


def error_of(folder: Path, run: RecordedRun, *more: Any) -> str:
    """Return the error message of a question about a directory."""
    done = plb("explain", folder, "--partition", run.table("tenants")["tenant"][0], "--time", "20m", *more)
    assert done.exit_code == BAD_INPUT, done.output
    return " ".join(done.output.split())


def test_results_of_other_versions_are_not_explained(explained: Path, run: RecordedRun, tmp_path: Path):
    versions = json.loads((explained / "summary.json").read_text())["versions"]
    folder = damaged(explained, tmp_path, versions=versions | {"numpy": "1.0"})
    assert "the results were made with numpy 1.0 (here" in error_of(folder, run)


def test_results_of_another_scenario_are_not_explained(explained: Path, run: RecordedRun, tmp_path: Path):
    scenario = json.loads((explained / "summary.json").read_text())["scenario"]
    scenario["run"]["seed"] = 4
    assert "simulate again, then explain" in error_of(damaged(explained, tmp_path, scenario=scenario), run)


def with_table(explained: Path, tmp_path: Path, table: str, change: Callable[[pl.DataFrame], pl.DataFrame]) -> Path:
    """Return a copy of the results with a changed table of the first run."""
    folder = Path(shutil.copytree(explained, tmp_path / "altered"))
    path = folder / "runs" / "modified-0" / f"{table}.parquet"
    change(pl.read_parquet(path)).write_parquet(path)
    return folder


def altered(frame: pl.DataFrame, column: str, time: str) -> pl.DataFrame:
    """Return a table with another value in a column of its first row, or of the first row with a value."""
    row = frame[column].is_not_null().arg_max() or 0
    value = frame[column][row]
    other = f"not {value}" if isinstance(value, str) else not value if isinstance(value, bool) else value + 1
    changed = frame[column].to_list()
    changed[row] = other
    assert frame[time][row] <= 6000, "the question is about a later time"
    return frame.with_columns(pl.Series(column, changed, frame[column].dtype))


@pytest.mark.parametrize(
    ("table", "time", "columns"),
    [
        ("tenants", "arrival_s", ("tenant", "tenant_class", "replicas", "departure_s")),
        ("moves", "time_s", ("time_s", "tenant", "kind", "target", "cause", "end_s", "outcome", "why")),
        ("refusals", "time_s", ("time_s", "tenant", "ruled_out", "nodes")),
        ("plans", "time_s", ("time_s", "occasion", "moves", "unplaced")),
        ("interruptions", "begin_s", ("tenant", "begin_s", "end_s", "cause")),
        ("node_events", "time_s", ("time_s", "node", "goes_down", "cause")),
        ("node_load", "time_s", ("time_s", "load", "share")),
    ],
)
def test_any_changed_value_prevents_an_explanation(
    explained: Path, run: RecordedRun, tmp_path: Path, table: str, time: str, columns: tuple[str, ...]
):
    replay = RunReplay(run)
    for until, column in enumerate(columns, 7000):  # a replay only moves forward in time
        folder = with_table(explained, tmp_path, table, lambda frame, of=column: altered(frame, of, time))  # type: ignore[misc]
        replay.run = read_run(folder)
        with pytest.raises(PlbError, match=f"{table} differ from the recorded ones"):
            replay.look_at("nobody", [], until)
        shutil.rmtree(folder)


def test_an_altered_arrival_is_reported_before_the_replay(explained: Path, run: RecordedRun, tmp_path: Path):
    """Otherwise a tenant that arrived at time 0 would be reported as absent."""
    at_once = run.table("tenants").filter(pl.col("arrival_s") == 0)["tenant"][0]
    late = pl.when(pl.col("tenant") == at_once).then(1800).otherwise(pl.col("arrival_s")).alias("arrival_s")
    folder = with_table(explained, tmp_path, "tenants", lambda frame: frame.with_columns(late.cast(pl.Int64)))
    done = plb("explain", folder, "--partition", at_once, "--time", "20m")
    assert done.exit_code == BAD_INPUT
    assert "tenants differ from the recorded ones" in done.output


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        (None, 0, "found 2 rows; expected one"),
        ("arrival_s", -5, "arrival_s: found -5; expected a time from 0 to the end of the run, 8640"),
        ("arrival_s", 10**12, "arrival_s: found 1000000000000; expected a time from 0"),
        ("departure_s", -1, "departure_s: found -1; expected none before the arrival at 0"),
    ],
)
def test_an_impossible_stay_is_refused(
    explained: Path, run: RecordedRun, tmp_path: Path, column: str | None, value: int, words: str
):
    def change(frame: pl.DataFrame) -> pl.DataFrame:
        return frame.with_columns(pl.lit(value, pl.Int64).alias(column)) if column else pl.concat([frame, frame])

    folder = with_table(explained, tmp_path, "tenants", change)
    message = error_of(folder, run)
    assert words in message
    assert "tenants.parquet" in message


NOTHING = """
class Nothing:
    name = "nothing"

    def total(self, configuration):
        return 0.0
"""


def test_files_of_extensions_need_the_scenario_file(tmp_path: Path):
    """Results contain only the content hashes of the files. Without the scenario file, a replay is impossible."""
    (tmp_path / "own.py").write_text(NOTHING)
    text = TWO_CRASHES.replace('"modified", "first_fit"', '"first_fit"').replace("0.1", "0.02")
    (tmp_path / "small.toml").write_text(f'extensions = ["own.py:Nothing"]\n{text}')
    assert plb("simulate", tmp_path / "small.toml", "--out", tmp_path / "out", "--quiet").exit_code == 0
    tenant = pl.read_parquet(tmp_path / "out" / "runs" / "first_fit-0" / "tenants.parquet")["tenant"][0]
    question: Sequence[Any] = ("explain", tmp_path / "out", "--partition", tenant, "--time", "0")
    refused = plb(*question)
    assert refused.exit_code == BAD_INPUT
    assert "the run requires the file 'own.py:Nothing'; give its scenario with --scenario" in refused.output
    done = plb(*question, "--scenario", tmp_path / "small.toml")
    assert done.exit_code == 0, done.output
    (tmp_path / "own.py").write_text(f"{NOTHING}# other than it was")
    assert plb(*question, "--scenario", tmp_path / "small.toml").exit_code == BAD_INPUT


def test_a_different_scenario_is_refused(explained: Path, run: RecordedRun, tmp_path: Path):
    other = tmp_path / "other.toml"
    other.write_text(TWO_CRASHES.replace("nodes = 5", "nodes = 7").replace("chains = 1", "chains = 2"))
    message = error_of(explained, run, "--scenario", other)
    differing = "cluster.nodes is 7, not 5; also: engine.chains"
    assert f"the given scenario differs from the one that was run: {differing}" in message
    head = summary_of(policies={"mine": {"w_imbalance": 2.0}}, run={"policies": ["mine"]})
    recorded = written(tmp_path / "mine", head | {"versions": versions()}, {"mine": [1]})
    with pytest.raises(PlbError, match=r"policies\.mine\.w_imbalance is '-', not 2\.0"):
        read_run(recorded.folder, present=scenario_from(small_region(repeats=3)))


def test_a_scenario_may_differ_in_overridable_settings(explained: Path, run: RecordedRun, tmp_path: Path):
    """These are policies, seed, repeats, days, density, the folder of the traces, and the name of the scenario."""
    file = tmp_path / "renamed.toml"
    text = TWO_CRASHES.replace("days = 0.1", "days = 3.0").replace("seed = 3", "seed = 4\nrepeats = 2")
    file.write_text(text.replace('"modified", "first_fit"', '"original"').replace("density = 1.5", "density = 1.2"))
    assert read_run(explained, present=read_scenario(file)).scenario == run.scenario


@pytest.fixture(scope="module")
def of_traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the results directory of an hour with the traces of the examples."""
    out = tmp_path_factory.mktemp("of_traces") / "out"
    run = plb("simulate", EXAMPLES / "own_traces.toml", "--days", 0.05, "--policy", "original", "--out", out, "--quiet")
    assert run.exit_code == 0, run.output
    return out


def test_traces_are_identified_by_content(of_traces: Path, tmp_path: Path):
    moved = tmp_path / "moved"
    shutil.copytree(EXAMPLES / "small_traces", moved)
    RunReplay(read_run(of_traces, traces=moved))
    file = moved / "traces.parquet"
    less = pl.read_parquet(file).with_columns(pl.col("cpu") / 2)
    less.write_parquet(file, metadata={"plb": pl.read_parquet_metadata(file)["plb"]})
    with pytest.raises(PlbError, match="traces differ from the recorded ones"):
        RunReplay(read_run(of_traces, traces=moved))
    with pytest.raises(PlbError, match="the tenants come from nowhere, which does not exist"):
        read_run(of_traces, traces=Path("nowhere"))


READS_FILE = """
from typing import ClassVar

import attrs


@attrs.define
class ReadsFile:
    name: ClassVar[str] = "reads_file"
    weights: str = attrs.field(default="", metadata={"path": True})

    def choose(self, configuration, row, nodes):
        return nodes[0]
"""


def test_files_of_one_name_are_distinguished_by_their_content(tmp_path: Path):
    """An example is two trained policies that are both called policy.pt."""
    (tmp_path / "own.py").write_text(READS_FILE)
    policies = ""
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "policy.pt").write_text(name)
        options = f'policy_options = {{ weights = "{name}/policy.pt" }}'
        policies += f'[policies.{name}]\npolicy = "reads_file"\n{options}\n'
    (tmp_path / "two.toml").write_text(
        f'extensions = ["own.py:ReadsFile"]\n[run]\npolicies = ["first", "second"]\n{policies}'
    )
    scenario = read_scenario(tmp_path / "two.toml")
    head = stamp(scenario, source_of(traces_of([Tenant("a", 0, [1.0])])))
    recorded = written(tmp_path / "out", head, {"first": [1], "second": [1]})
    assert read_run(recorded.folder, present=scenario).scenario.policies == scenario.policies
