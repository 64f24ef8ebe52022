"""Scenario files: contents, and errors with their places."""

from __future__ import annotations

import pickle
import re
import tomllib
from pathlib import Path

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.errors import ResultsExistError, ScenarioError, ScenarioProblem
from cluster.scenario.cluster_sections import Crash, Flapping, NodeGroup, Outage
from cluster.scenario.scenario import FIXED_METRIC_FIELDS
from cluster.scenario.scenario_file import NAMED_SECTIONS, SECTIONS, read_scenario, scenario_from
from cluster.scenario.sections import check_directory_name, directory_name
from cluster.scenario.times import in_words, seconds_of
from cluster.scenario.workload_sections import Growth
from plb import InvalidValueError, Metric, PlbConfig, PlbError
from plb.engine_extensions import among
from workloads.column_checks import TraceError, TraceProblem


def test_arms_of_the_study_differ_in_one_weight():
    scenario, metrics = scenario_from({}), (Metric("cpu"),)
    original, modified = (scenario.config(name, metrics) for name in ("original", "modified"))
    different = [name for name in original.__slots__ if getattr(original, name, 0) != getattr(modified, name, 0)]
    assert different == ["w_failovers"]
    assert (original.w_failovers, modified.w_failovers) == (0.0, 0.10)
    default = PlbConfig(metrics=metrics, min_load_balancing_interval=None)
    assert (
        scenario.config("expected_overload", metrics)
        == default
        == attrs.evolve(modified, w_overload=default.w_overload)
    )


def test_policies_override_the_engine():
    tables = {"engine": {"chains": 2}, "policies": {"x": {"w_failovers": 0.5, "chains": 3}}, "run": {"policies": ["x"]}}
    config = scenario_from(tables).config("x", (Metric("cpu"),))
    assert (config.chains, config.w_failovers, config.min_load_balancing_interval) == (3, 0.5, None)
    config = scenario_from({"policies": {"original": {"w_imbalance": 1.0}}}).config("original", (Metric("cpu"),))
    assert (config.w_failovers, config.w_imbalance) == (0.0, 1.0), "a built-in policy keeps its other fields"


def test_derived_fields_of_a_metric_are_no_keys_of_a_scenario():
    """An example is the quantum, which follows from the capacity. Such fields belong to `Metric`."""
    for field in FIXED_METRIC_FIELDS:
        assert field in attrs.fields_dict(Metric)
        with pytest.raises(ScenarioError, match=f"metrics.cpu.{field}: cannot be set in a scenario"):
            scenario_from({"metrics": {"cpu": {field: 0.5}}})


OPTIONS = """
[run]
policies = ["original", "worst_fit_max", "prv_worst_fit", "prv_best_fit", "careful"]
[engine]
policy = "prv_worst_fit"
policy_options = { theta = 0.5 }
[policies.prv_best_fit]
policy_options = { theta = 0.25 }
[policies.careful]
policy_options = { theta = 0.02 }
"""


def test_options_belong_to_one_policy():
    scenario = scenario_from(tomllib.loads(OPTIONS))
    configs = {name: scenario.config(name, (Metric("cpu"),)) for name in scenario.run.policies}
    assert {name: (config.policy, dict(config.policy_options)) for name, config in configs.items()} == {
        "original": ("prv_worst_fit", {"theta": 0.5}),
        "worst_fit_max": ("worst_fit_max", {}),
        "prv_worst_fit": ("prv_worst_fit", {"theta": 0.5}),
        "prv_best_fit": ("prv_best_fit", {"theta": 0.25}),
        "careful": ("prv_worst_fit", {"theta": 0.02}),
    }
    other = scenario_from(tomllib.loads(OPTIONS.replace("0.02", "0.03")))
    assert scenario.digest() != other.digest()


def test_bad_options_are_reported_with_their_place(tmp_path: Path):
    path = tmp_path / "bad.toml"
    path.write_text(
        OPTIONS.replace("0.5", "1.5").replace("theta = 0.02", "thet = 0.02") + "[policies.original]\nchains = 0"
    )
    with pytest.raises(ScenarioError) as caught:
        read_scenario(path)
    found = {(problem.line, problem.place): problem.message for problem in caught.value.problems}
    assert found.keys() == {
        (6, "engine.policy_options"),
        (10, "policies.careful.policy_options"),
        (12, "policies.original.chains"),
    }
    assert "policy prv_worst_fit: theta = 1.5 is not allowed" in found[6, "engine.policy_options"]
    assert "unknown option 'thet'; did you mean 'theta'" in found[10, "policies.careful.policy_options"]


BAD = """
[cluster]
noodes = 4
nodes = 0
vcores = "many"
[workload]
kind = "regoin"
density = -1
[run]
policies = ["orignal"]
days = 0
repeats = 1.5
[engine]
w_failover = 1
chains = 0
[policies.x]
combination = "sum"
[clutser]
"""


def test_conflicts_are_reported_with_errors_of_other_sections():
    with pytest.raises(ScenarioError) as caught:
        scenario_from({"cluster": {"nodes": 0}, "workload": {"kind": "plan", "density": 1.5}})
    assert [problem.place for problem in caught.value.problems] == ["cluster.nodes", "workload.density"]


def test_all_errors_are_reported_together(tmp_path: Path):
    path = tmp_path / "bad.toml"
    path.write_text(BAD)
    with pytest.raises(ScenarioError) as caught:
        read_scenario(path)
    found = {(problem.line, problem.place): problem.message for problem in caught.value.problems}
    expected = {
        (3, "cluster.noodes"): "did you mean 'nodes'?",
        (4, "cluster.nodes"): "a whole number >= 1",
        (5, "cluster.vcores"): "expected a number",
        (7, "workload.kind"): "'region', 'bitbrains', 'traces', 'plan'",
        (8, "workload.density"): "a finite number > 0",
        (10, "run.policies"): "did you mean 'original'?",
        (11, "run.days"): "a finite number > 0",
        (12, "run.repeats"): "expected a whole number",
        (14, "engine.w_failover"): "did you mean 'w_failovers'?",
        (15, "engine.chains"): "a whole number >= 1",
        (17, "policies.x.combination"): "expected one of 'additive', 'service_fabric'",
        (18, "clutser"): "did you mean 'cluster'?",
    }
    assert found.keys() == expected.keys()
    for place, words in expected.items():
        assert words in found[place]
    assert all(str(path) in line for line in str(caught.value).splitlines())


def test_all_bad_parameters_of_a_region_are_reported_together(tmp_path: Path):
    """Each has its line. Parameters of a region are refused for other kinds of tenants."""
    path = tmp_path / "bad.toml"
    changes = "region_parameters = { size_bias = -1, lifetime = 2, cpu.median = 7, cpu.sigma = 0.5 }"
    path.write_text(f"[workload]\nregion = 'region2'\n{changes}\n")
    with pytest.raises(ScenarioError) as caught:
        read_scenario(path)
    assert {(problem.line, problem.place) for problem in caught.value.problems} == {(3, "workload.region_parameters")}
    messages = [problem.message for problem in caught.value.problems]
    assert len(messages) == 3
    for words in ("size_bias = -1 is not allowed", "unknown parameter of region region2 'lifetime'", "cpu.median = 7"):
        assert sum(words in message for message in messages) == 1
    path.write_text("[workload]\nkind = 'traces'\npath = '.'\nregion_parameters = { size_bias = 1.0 }\n")
    with pytest.raises(ScenarioError, match=r'line 4, workload\.region_parameters: .*none except with kind = "region"'):
        read_scenario(path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[cluster", "not valid TOML"),
        ('name = "tenant-\\udce9"', "not valid TOML"),
        ("cluster = 3", "3 is not a table"),
        ("[run]\npolicies = []", "line 2, run.policies: .*at least one"),
        ("[run]\npolicies = 'original'", "expected a list"),
        ("[run]\npolicies = ['original', 'original']", "every policy once"),
        ("[policies.'a/b']\nchains = 1", "a valid name of a directory"),
        ("name = ''", "line 1, name: scenario: name = '' is not allowed; expected a valid name of a directory"),
        ("[cluster]\ncapacities = { cpu = 8, disk = nan }", "capacities.disk = nan is not allowed"),
        ("[cluster]\ncapacities = { cpu = -1 }", "a finite number >= 0"),
        ("[cluster]\ngroups = [{ nodes = 0 }]", "group: nodes = 0"),
        ("[workload]\ndensity = 1e308", r"line 2, workload\.density: .*<= 1e\+100"),
        ("[workload]\ndensity_end = 1e101", r"line 2, workload\.density_end: .*<= 1e\+100"),
        (b"\xff\xfe", "not text in UTF-8"),
        ("\ufeffname = 'a'\n", r"bad\.toml: begins with a byte order mark.*; save it as UTF-8 without one"),
        (None, r"bad\.toml.*No such file"),
    ],
)
def test_files_that_are_no_scenarios(tmp_path: Path, text: str | bytes | None, words: str):
    path = tmp_path / "bad.toml"
    if text is not None:
        path.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(ScenarioError, match=words):
        read_scenario(path)


def test_digest_follows_the_scenario():
    one, same, other = scenario_from({}), scenario_from({}), scenario_from({"run": {"seed": 1}})
    assert one.digest() == same.digest() != other.digest()


def test_filling_ends_before_the_run():
    with pytest.raises(PlbError, match="fill_hours"):
        scenario_from({"run": {"days": 0.1, "fill_hours": 48}})


@pytest.mark.parametrize(
    "tables", [{"engine": {"allow_chained_moves": True}}, {"policies": {"original": {"allow_chained_moves": True}}}]
)
def test_chained_moves_need_an_order_that_simulations_do_not_have(tables):
    with pytest.raises(PlbError, match=r"policies.original: allow_chained_moves"):
        scenario_from(tables)


@pytest.mark.parametrize(
    "error",
    [
        ScenarioError("a.toml", [ScenarioProblem("run.days", "too few", 3)]),
        ResultsExistError(Path("nowhere")),
        TraceError([TraceProblem("a.parquet", 3, "cpu", "text", "a number")]),
    ],
)
def test_errors_can_be_copied(error):
    for again in (pickle.loads(pickle.dumps(error)), type(error)(*error.args)):
        assert str(again) == str(error)


PARTS = [*SECTIONS.values(), *NAMED_SECTIONS.values(), NodeGroup, Crash, Outage, Flapping, Growth]
PAGE = (Path(__file__).parents[3] / "docs" / "scenarios.md").read_text()
FILE_OF_PAGE = PAGE.partition("```toml\n")[2].partition("```")[0]


@pytest.mark.parametrize("kind", PARTS, ids=lambda kind: kind.__name__)
def test_file_of_the_page_has_every_key(kind: type) -> None:
    names = [field.name for field in attrs.fields(kind)]
    written = re.findall(r"(?<![\w.])(\w+) =", FILE_OF_PAGE)
    assert set(names) - set(written) == set()


def test_file_of_the_page_has_the_defaults() -> None:
    assert scenario_from(tomllib.loads(FILE_OF_PAGE)) == scenario_from({"name": "scenario"})


def test_sections_that_the_file_of_the_page_leaves_out_are_valid() -> None:
    sections = re.sub(r"^# (?=\[|\w+ = )", "", FILE_OF_PAGE.partition("# [engine]")[2], flags=re.MULTILINE)
    scenario = scenario_from(tomllib.loads(f"[engine]{sections}"))
    assert (*scenario.applications, *scenario.scaling) == ("web", "web")


TERM = '''
class Heat:
    """Nothing yet."""

    name = "heat"

    def total(self, configuration):
        return 0.0
'''


def test_a_scenario_has_objects_of_files_as_extensions(tmp_path: Path) -> None:
    (tmp_path / "heat.py").write_text(TERM + "HOT = Heat()\n")
    path = tmp_path / "s.toml"
    for name in ("Heat", "HOT"):
        path.write_text(f'extensions = ["heat.py:{name}"]\n[engine]\nextension_terms = {{ heat = 2.0 }}\n')
        scenario = read_scenario(path)
        assert scenario.config("original", (Metric("cpu"),)).extension_terms == {"heat": 2.0}
        assert [item.name for item in scenario.extension_objects] == ["heat"]
    before = scenario.digest()
    (tmp_path / "heat.py").write_text(TERM + "\n")
    assert scenario.digest() != before
    assert "extensions" not in scenario_from({}).as_json()


WRONG = """
class Needy:
    def __init__(self, needed):
        pass

class Nameless:
    pass

class Numbered(Heat):
    name = 5

class Movement(Heat):
    name = "movement"
"""


@pytest.mark.parametrize(
    ("extension", "words"),
    [
        ("none.py:Heat", r"none\.py: is not a Python file"),
        ("broken.py:Heat", "ZeroDivisionError"),
        ("heat.py:Head", "expected FILE.py:OBJECT; the file has no 'Head'; did you mean 'Heat'"),
        ("heat.py:Nameless", "Nameless: extension = .* expected an object with a `name` and `total`"),
        ("heat.py:Numbered", "Numbered: name = 5 is not allowed"),
        ("heat.py:Movement", "'movement' is the name of a built-in term"),
        ("heat.py:Needy", "TypeError: .*missing 1 required positional argument"),
        ("heat.py", "'heat.py': expected FILE.py:OBJECT"),
    ],
)
def test_an_extension_that_fails_is_named(tmp_path: Path, extension: str, words: str) -> None:
    (tmp_path / "broken.py").write_text("1 / 0")
    (tmp_path / "heat.py").write_text(TERM + WRONG)
    path = tmp_path / "s.toml"
    path.write_text(f'extensions = ["{extension}"]\n[engine]\nextension_terms = {{ cold = 2.0 }}\n')
    with pytest.raises(ScenarioError, match=words) as caught:
        read_scenario(path)
    assert "unknown energy term 'cold'" in str(caught.value)


def test_extensions_of_files_of_one_name_are_refused(tmp_path):
    """Results identify the files by name."""
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "own.py").write_text(TERM)
    (tmp_path / "two.toml").write_text('extensions = ["a/own.py:Heat", "b/own.py:Heat"]\n')
    with pytest.raises(ScenarioError, match=r"expected every FILE\.py:OBJECT once, by the last part of its path"):
        read_scenario(tmp_path / "two.toml")


NEIGHBOURHOOD = """
from moves_of_mine import MOVES

class Mine:
    name = "mine"

    def propose(self, configuration, row, random):
        return MOVES
"""


def test_a_file_of_extensions_may_import_its_neighbours(tmp_path):
    """A neighbourhood is named with its share in one section."""
    (tmp_path / "moves_of_mine.py").write_text("MOVES = []\n")
    (tmp_path / "own.py").write_text(NEIGHBOURHOOD)
    engine = '[engine]\nlarger_neighbourhood_share = 0.5\nlarger_neighbourhoods = ["node", "mine"]\n'
    (tmp_path / "s.toml").write_text(f'extensions = ["own.py:Mine"]\n{engine}')
    scenario = read_scenario(tmp_path / "s.toml")
    config = scenario.config("original", (Metric("cpu"),))
    assert [item.name for item in among(scenario.extension_objects, config)["extension_neighbourhoods"]] == ["mine"]


@given(st.text(max_size=5))
def test_any_text_has_a_name_for_a_directory(text):
    check_directory_name("scenario", directory_name(text))
    assert directory_name(directory_name(text)) == directory_name(text)
    assert directory_name("a b.c") == "a b.c"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("345600", 345_600),
        ("4d", 345_600),
        ("2d4h30m", 189_000),
        ("36h", 129_600),
        ("1.5h", 5400),
        (" 2D 4H ", 187_200),
        ("90m", 5400),
        ("5min", 300),
        ("1m30s", 90),
    ],
)
def test_times_are_read_and_written(text: str, seconds: int):
    """A time is in seconds, or in days, hours, minutes and seconds in this order. A written time is read back."""
    assert seconds_of(text) == seconds
    assert seconds_of(in_words(seconds)) == seconds


@pytest.mark.parametrize(
    "text", ["", "d", "4h2d", "-3", "3 weeks", "1e5", "nan", "9" * 400, f"{'9' * 400}d", "9" * 307 + "d"]
)
def test_other_times_are_refused(text: str):
    with pytest.raises(InvalidValueError, match="2d4h30m"):
        seconds_of(text)
