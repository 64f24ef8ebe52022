"""Tables and names of pages agree with the code: estimators, policies, algorithms, report, capacity, architecture."""

from __future__ import annotations

import re
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import attrs
import pytest

import plb.provisioning
import plb.risk.gaussian
import workloads.provisioning
from cluster.capacity.report import answer, figures
from cluster.plots.moves import plot_energy
from cluster.report import sections
from cluster.report.writing import SECTIONS
from cluster.results.comparison import compare_results
from cluster.results.summary_tables import FIGURES
from cluster.scenario.scenario_file import read_scenario, scenario_from
from plb import Metric
from plb.engine_extensions import NOTHING_GIVEN
from plb.extensions.configuration import Configuration
from plb.policies import BUILT_IN
from plb.policies.fits import PrvWorstFit
from plb.provisioning.algorithms import parse_algorithm
from plb.risk.estimators import Gaussian, HistoricalSimulation, MonteCarlo
from plb.risk.peaks import Maximum, PeakOracle
from plb.risk.peaks.predictors import KINDS
from plb.testing import Invariant
from plb.testing.facts import OF_CONSTRAINTS, OF_TERMS
from tests.cluster.capacity.synthetic import point, question_of
from tests.cluster.cli.test_compare import summary_of, written
from tests.docs.pages import ROOT, blocks_of

ESTIMATORS, GAUSSIAN, POLICIES, PREDICTION, PROPERTIES, PROVISIONING = (
    (ROOT / "docs" / f"{name}.md").read_text()
    for name in ("estimators", "gaussian", "policies", "prediction", "property-testing", "provisioning")
)
AUTHORS = (ROOT / "docs" / "extending" / "policy.md").read_text()
ALGORITHMS = re.findall(r"`((?:FF|BF|WF|FFD|BFD|WFD|NCD|SpreadWFD|Match|Medea|LRASched)(?:-[\w.]+)*)`", PROVISIONING)


def test_estimators_are_complete() -> None:
    first_table = ESTIMATORS.partition("\n## ")[0]
    named = {name.removesuffix("(...;...)") for name in re.findall(r"^\| `([^`]+)`", first_table, re.MULTILINE)}
    others = {one.kind for one in (MonteCarlo, HistoricalSimulation, Gaussian, Maximum)}
    assert named == {*KINDS, *others} - {PeakOracle.kind}


def test_predictors_have_their_parameters() -> None:
    shown = {}
    for kind, cells in re.findall(r"^\| `([a-z-]+)` \| [^|]+ \| (`[^|]+`) \|$", PREDICTION, re.MULTILINE):
        shown[kind] = dict(re.findall(r"`(\w+)=([\w.]+)`", cells))
    assert shown == {kind: defaults(one) for kind, one in KINDS.items()}


def defaults(kind: type[Any]) -> dict[str, str]:
    return {field.name: f"{field.default}".removesuffix(".0").lower() for field in attrs.fields(kind)}


def test_names_of_gaussian_packing_exist() -> None:
    named = set(re.findall(r"`([A-Z]\w+)(?:\(|\.|`)", GAUSSIAN)) | {"pack", "observe"}
    kept = named - {"FitBin"}
    assert {
        "GPA",
        "Cantelli",
        "MeanTimes",
        "Percentile",
        "TaskStatistics",
        "Total",
        "FitTest",
        "GaussianPacking",
    } <= kept
    assert [name for name in kept if not hasattr(plb.risk.gaussian, name)] == []


@pytest.mark.parametrize("policy", BUILT_IN, ids=lambda policy: policy.name)
def test_policies_are_complete(policy: Any) -> None:
    assert f"| `{policy.name}` |" in POLICIES


def test_policies_have_their_options() -> None:
    """Defaults are compared, and the scenario with options sets the documented ones."""
    table = re.findall(r"^\| ([^|]*) \| `(\w+)` \| `?\"?(\w[\w.]*)\"?`? \| ", POLICIES, re.MULTILINE)
    shown = {(policy, option): value for names, option, value in table for policy in re.findall(r"`(\w+)`", names)}
    known = {
        (policy.name, field.alias): str(getattr(field.default, "value", field.default))
        for policy in BUILT_IN
        if attrs.has(type(policy))
        for field in attrs.fields(type(policy))
        if field.alias != "name"
    }
    assert shown == known
    excerpt = next(block.content for block in blocks_of("docs/policies.md") if block.language == "toml")
    config = scenario_from(tomllib.loads(excerpt)).config("careful", (Metric("cpu"),))
    assert NOTHING_GIVEN.new_policy(config) == PrvWorstFit(theta=0.001, held_out=5)


def test_guide_quotes_the_policy_of_the_example() -> None:
    """The quoted scenario runs that policy."""
    scenario = read_scenario(ROOT / "examples" / "extension_policy.toml")
    assert scenario.policies["apart"]["policy"] == "apart_by_class"


def test_names_that_policies_read_exist() -> None:
    """They are in the table of the configuration, and in that of further methods."""
    table = AUTHORS.split("Of the configuration a policy reads")[1].split("\n\n")[1]
    rows = [line for line in table.splitlines() if line.startswith("| `")]
    names = [name for row in rows for name in re.findall(r"`(\w+)(?:\(row\))?`", row.split(" | ")[0])]
    assert len(names) > 8
    assert [name for name in names if not hasattr(Configuration, name)] == []
    for verb in ("begin", "leaving", "evict"):
        assert f"- `{verb}(configuration, " in AUTHORS


def test_invariants_are_complete() -> None:
    """These are the invariants of terms. The section on constraints names that of constraints."""
    table = set(
        re.findall(r"`([A-Z]+)`", PROPERTIES.split("Invariants, by name")[1].split("For a term that counts")[0])
    )
    assert table == {invariant.name for invariant in OF_TERMS}
    assert set(OF_CONSTRAINTS) - set(OF_TERMS) == {Invariant.AGREEMENT}
    assert "Invariant.AGREEMENT" in PROPERTIES


def test_algorithms_of_provisioning_exist() -> None:
    assert len(set(ALGORITHMS)) > 12
    assert [name for name in ALGORITHMS if parse_algorithm(name).name != name] == []


def test_names_of_provisioning_exist() -> None:
    assert "`ProvisioningPlan.faults`" in PROVISIONING
    assert "`build_instance`" in PROVISIONING
    for name in ("Instance", "ProvisioningPlan", "provision"):
        assert f"`{name}" in PROVISIONING
        assert hasattr(plb.provisioning, name)
    assert hasattr(workloads.provisioning, "build_instance")


RESULTS = (ROOT / "docs" / "results.md").read_text()


def test_the_guide_names_every_section():
    """They have the order of the page, and the moves are the last."""
    rows = re.findall(r"^\| ([A-Z][^|]*?) \|", RESULTS, re.MULTILINE)
    assert rows[:-2] == [heading for heading, _ in SECTIONS.values()]


def test_the_guide_states_the_limits():
    assert f"first {sections.MOST_MOVES:,} moves of each run, and {sections.MOST_IN_ALL:,} of all runs" in RESULTS
    assert sections.SLOWEST_SHOWN == 20
    assert "the twenty plans" in RESULTS


def test_the_functions_of_the_guide_exist():
    from importlib import import_module

    names = re.findall(r"`(cluster(?:\.\w+)+)\.(\w+)`", RESULTS)
    assert (plot_energy.__module__, plot_energy.__name__) in names
    assert all(callable(getattr(import_module(module), name)) for module, name in names)


CAPACITY = (ROOT / "docs" / "capacity.md").read_text()


def test_guide_has_the_keys_of_capacity():
    question = question_of()
    answers = answer(question, ["any"], lambda pairs: [point(question, value, 0.0) for _, value in pairs])
    found = figures(question, answers, repeats=2, days=2.0)
    of_policy = found["policies"]["any"]
    keys = {*found, *found["question"], *of_policy["points"][0], *(f"policies.NAME.{key}" for key in of_policy)}
    named = set(re.findall(r"`([\w.]+)`", CAPACITY))
    assert keys - {"policies"} <= named


def test_guide_has_the_keys_and_figures_of_compare(tmp_path: Path):
    results = [written(tmp_path / name, summary_of(), {"original": [1], "modified": [2]}) for name in "ab"]
    found = compare_results(results).as_json()
    (difference,) = {frozenset(row["figures"]["moves"]) for row in found["rows"] if row["pairs"] and row["policy"]}
    keys = {*found, *found["directories"][0], *found["rows"][0], *difference, *FIGURES}
    assert keys <= set(re.findall(r"`([\w.]+)`", RESULTS))


ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()
PICTURE = (ROOT / "docs" / "images" / "architecture.svg").read_text()
MODULES = sorted(set(re.findall(r"`((?:plb|cluster|workloads)(?:\.\w+)+)`", ARCHITECTURE)))


@pytest.mark.parametrize("name", MODULES)
def test_a_module_of_the_page_exists(name: str) -> None:
    """If a module is renamed or moved, the page changes, too."""
    import_module(name)


@pytest.mark.parametrize("root", ["plb", "cluster", "workloads"])
def test_the_picture_has_every_package(root: str) -> None:
    """If a package is added, the picture changes, too."""
    shown = set(re.findall(r"\w+", PICTURE))
    packages = {path.parent.name for path in (ROOT / root).glob("*/__init__.py")}
    assert packages - shown == set()
