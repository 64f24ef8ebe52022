"""The studies that are not in [1], among them that of risk, and that of overheads: comparisons and tenants."""

from __future__ import annotations

import json
import re

import attrs
import numpy as np
import pytest

from cluster.scenario.scenario import BUILT_IN_POLICIES
from cluster.studies import configurations, policies, risk, sensitivity
from cluster.studies.base import base_of_regions
from cluster.studies.configurations import ConfigurationStudy
from cluster.studies.design import StudySetting, middle_of_each
from cluster.studies.policies import OverheadStudy
from cluster.studies.request import PILOT_DENSITIES, PILOT_SEED, StudyRequest
from cluster.studies.runner import OutputDirectory
from cluster.studies.violations import Violations
from plb import Metric, PlbConfig
from plb.testing import configuration_of
from tests.cluster.small_studies import ONE_SETTING, design_of, small_study, study
from tests.command_line import plb
from workloads.region_parameters import RegionParameters, highest
from workloads.regions import REGIONS, generate


@pytest.mark.parametrize(
    ("name", "arms"), [("forms", configurations.FORM_ARMS), ("configurations", configurations.ARMS)]
)
def test_configurations_are_compared_on_the_cluster_of_a_scenario(tmp_path, name, arms):
    figures = study(tmp_path / "c", name, *ONE_SETTING[:-1], "1", "--jobs", "1")
    names = [arm.name for arm in arms]
    assert len({*names}) == len(names)
    assert list(figures["settings"][0]["violations"]) == names
    by_reports = {"original+oracle / modified, by reported loads"} if name == "forms" else set()
    assert set(figures["ratios"]) == {f"{name} / modified" for name in names[1:]} | by_reports
    assert set(figures["arms"][configurations.DEFAULT]) == {"failovers", "moves", "downtime", "not_placed"}


@pytest.mark.parametrize("setting", ["w_failovers = 2.0", "w_imbalance = 1.0", 'replay = "from_present"'])
def test_scenario_with_settings_of_configurations_is_refused(tmp_path, setting):
    """Otherwise arms would not have the settings in their names."""
    result = small_study(tmp_path / "out", "configurations", more=f"{setting}\n")
    assert result.exit_code == 2
    assert f"sets engine.{setting.split()[0]}; remove it" in re.sub(r"\s+", " ", result.stderr)


def test_overheads_are_those_of_the_energies_of_the_paper(monkeypatch):
    seen = []

    class Bench:
        def __init__(self, engine, _proposals, _seed):
            config = engine.config
            seen.append((config.w_failovers, config.w_overload, configuration_of(engine).problem.peak.shape[2] > 0))

        def temperature_for(self, _share):
            return 1.0

        def early(self, _temperature):
            return (1.0,)

    monkeypatch.setattr(policies, "SizeBench", Bench)
    policies.scoring_claims(nodes=4, proposals=10)
    assert seen == [(0.0, 0.0, False), (0.1, 0.0, True)]


def test_kernels_are_loaded_once_before_a_run_is_measured(monkeypatch):
    days = []
    monkeypatch.setattr(policies, "run_simulation", lambda arguments: days.append(arguments["scenario"]["run"]["days"]))
    for density in (1.0, 1.5):
        design = design_of(arms=policies.MEASURED[:1], density=density, days=3.0, engine={"chains": 3})
        OverheadStudy.run(design.tasks()[0].arguments)
    assert days == [policies.WARM_UP_DAYS, 3.0, 3.0]


def test_configurations_are_compared_on_separate_tenants(tmp_path):
    request = StudyRequest(base=base_of_regions(), output=OutputDirectory(tmp_path), seed=5)
    design = ConfigurationStudy.of(request).design
    assert [setting.workload for setting in design.settings] == [*REGIONS]
    assert design.seed - request.seed == configurations.FIRST_SEED not in (0, PILOT_SEED)


def test_the_default_configuration_is_the_default_of_the_engine():
    default = next(arm for arm in configurations.ARMS if arm.name == configurations.DEFAULT)
    usual = PlbConfig(metrics=[Metric("cpu")])
    assert attrs.evolve(usual, **{**BUILT_IN_POLICIES[default.policy], **default.engine}) == usual


@pytest.mark.parametrize("region", REGIONS)
def test_a_population_changes_all_free_parameters_within_their_ranges(region):
    """All other parameters are published or coupled with another parameter."""
    base = sensitivity.with_populations(base_of_regions([region]), 3)
    usual = attrs.asdict(REGIONS[region])
    for fields in base.variants.values():
        changed = attrs.asdict(REGIONS[region].changed(fields["region_parameters"]))
        for name in sensitivity.FREE:
            field, _, part = name.partition(".")
            value, before = (values[field][part] if part else values[field] for values in (changed, usual))
            assert before / sensitivity.FACTOR <= value + 1e-6 <= before * sensitivity.FACTOR + 2e-6, name
            assert value != before or value == highest(name)
    of_usage = {name.partition(".")[0] for name in sensitivity.FREE}
    published = {"growth_within", "disk_drop_share", "memory_drop_share"}
    paired = {"initial_low", "secondary_cpu_low", "secondary_memory_high"}
    assert of_usage | published | paired | {"name"} == set(attrs.fields_dict(RegionParameters))


def test_populations_have_factors_and_tenants_of_their_own():
    """With the same tenants, differences between populations would not be independent."""
    factors = [sensitivity.random_parameters(REGIONS[region], index) for region in REGIONS for index in range(8)]
    assert len({json.dumps(of_population) for of_population in factors}) == 32
    base = sensitivity.with_populations(base_of_regions(["region1"]), 2)
    first, second = (
        generate(REGIONS["region1"].changed(fields["region_parameters"]), 2_000, fields["trace_seed"]).lifetime_steps
        for fields in base.variants.values()
    )
    assert abs(np.corrcoef(np.log(first), np.log(second))[0, 1]) < 0.1
    again = generate(REGIONS["region1"].changed(base.variants["region1, population 2"]["region_parameters"]), 2_000, 0)
    assert np.corrcoef(np.log(first), np.log(again.lifetime_steps))[0, 1] > 0.9, (
        "with one seed they are nearly the same"
    )


def test_ratios_of_populations_show_how_many_are_left_out():
    settings = tuple(StudySetting(f"region{1 + index // 3}, population {index}", 80.0, 2.0) for index in range(6))
    counts = {"original": np.full((6, 2), 6.0), "modified": np.array([[1, 3], [2, 2], [0, 0], [4, 2], [3, 3], [6, 6]])}
    violations = Violations(settings, {**counts, "expected_overload": counts["modified"] * 2.0})
    claims = {claim.label: claim.ours for claim in sensitivity.SensitivityStudy(design_of()).claims(violations)}
    ratio = claims["original / modified"]
    assert (ratio.mean, ratio.settings, ratio.without) == (pytest.approx((3 + 3 + 2 + 2 + 1) / 5), 5, 1)
    assert (claims["original / modified, region1"].mean, claims["original / modified, region1"].without) == (3.0, 1)
    assert claims["original / modified, region2"].mean == pytest.approx(5 / 3)
    assert claims["original / modified: 10, 50 and 90 % of populations"] == "1.40, 2.00, 3.00"
    assert str(claims["modified against original, populations"]).startswith("5 fewer, 1 equal, 0 more")


@pytest.mark.usefixtures("drawn_figures")
@pytest.mark.slow
def test_pilot_of_sensitivity_finds_a_density_for_each_population(tmp_path, monkeypatch):
    monkeypatch.setattr(sensitivity, "POPULATIONS", 2)
    monkeypatch.setattr(sensitivity, "QUICK_HISTORY_TENANTS", 300)
    small = attrs.evolve(sensitivity.PILOT, days=0.05, marks=(0.0,))
    monkeypatch.setattr(sensitivity, "PILOT", small)
    figures = tmp_path / "figures.json"
    command = ["study", "sensitivity", "--region", "region1", "--out", tmp_path / "out", "--json", figures]
    command += ["--jobs", 1, "--repeats", 1, "--days", 1, "--quiet"]
    result = plb(*command)
    assert result.exit_code == 0, result.output
    found = json.loads(figures.read_text())
    populations = [f"region1, population {number}" for number in (1, 2)]
    assert [setting["workload"] for setting in found["settings"]] == populations
    by_region = {f"{label}, region1" for label in found["ratios"] if "," not in label}
    assert by_region < set(found["ratios"])
    assert {setting["density"] for setting in found["settings"]} <= {*PILOT_DENSITIES}
    assert set(found["settings"][0]["violations"]) == {"original", "modified", "expected_overload"}
    assert (tmp_path / "out/sensitivity.png").stat().st_size > 5_000
    made_of = json.loads((tmp_path / "out/study.json").read_text())["workloads"]
    assert made_of[populations[1]]["region_parameters"] == sensitivity.random_parameters(REGIONS["region1"], 1)
    pilot = (tmp_path / "out/pilot/journal.jsonl").read_text()
    again = plb(*command, "--region", "region2")
    assert again.exit_code == 0, again.output
    assert (tmp_path / "out/pilot/journal.jsonl").read_text().startswith(pilot)
    assert len((tmp_path / "out/pilot/journal.jsonl").read_text().splitlines()) == 4


def test_failures_of_a_pilot_are_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(sensitivity, "POPULATIONS", 1)
    monkeypatch.setattr(sensitivity, "QUICK_HISTORY_TENANTS", 300)
    monkeypatch.setattr(sensitivity, "PILOT", attrs.evolve(sensitivity.PILOT, vcores=0.01, days=0.05))
    result = plb("study", "sensitivity", "--region", "region1", "--out", tmp_path / "out", "--jobs", 1, "--quiet")
    assert result.exit_code == 1, result.output
    assert str(tmp_path / "out/pilot/failures.json") in result.stderr.replace("\n", "")


def test_estimators_are_compared_by_the_mean_ratio_over_settings():
    settings = tuple(StudySetting("w", 80.0, density) for density in (1.0, 2.0, 3.0))
    arms = {arm.name: np.array([[2.0], [4.0], [6.0]]) for arm in risk.ARMS}
    arms["prv_worst_fit, gaussian"] = np.array([[1.0], [2.0], [6.0]])
    claims = {claim.label: claim.ours for claim in risk.RiskStudy(None).claims(Violations(settings, arms))}
    assert claims["prv_worst_fit: gaussian / monte-carlo"].mean == pytest.approx((0.5 + 0.5 + 1.0) / 3)
    assert claims["original / expected_overload, n-sigma"].mean == pytest.approx(1.0)


@pytest.mark.usefixtures("drawn_figures")
def test_risk_study_has_the_figures_of_every_estimator(tmp_path):
    one = study(tmp_path / "one", "risk", *ONE_SETTING[:-1], "1", "--jobs", "1")
    assert set(one["settings"][0]["violations"]) == {arm.name for arm in risk.ARMS}
    assert f"placement of a tenant, {risk.RiskStudy.compared}" in one["counts"]
    assert (tmp_path / "one" / "risk.png").stat().st_size > 10_000


BETTER = "settings where no estimator is better than monte-carlo"


def violations(repeats: int, **of_arms: list[list[float]]) -> Violations:
    """Return the violations in as many settings as the arms have, or three: 10 in each run of an arm without counts."""
    count = max((len(counts) for counts in of_arms.values()), default=3)
    settings = tuple(StudySetting("w", 80.0, 1.0 + number) for number in range(count))
    usual = {arm.name: np.full((count, repeats), 10.0) for arm in risk.ARMS}
    return Violations(settings, usual | {name: np.array(counts) for name, counts in of_arms.items()})


def claims_of(found: Violations) -> dict[str, object]:
    """Return the figures by label."""
    return {claim.label: claim.ours for claim in risk.RiskStudy(None).claims(found)}


def test_default_is_good_where_no_other_estimator_is_better_beyond_the_interval():
    """Fewer violations in each repeat are better; fewer in some repeats, more in others, are not.

    In the last setting, the best by its mean varies more and is not certain to be better, but the second best is.
    """
    arms = {
        "expected_overload, gaussian": [[9] * 5, [4, 13, 9, 14, 8], [20] * 5, [0, 0, 20, 4, 16]],
        "expected_overload, n-sigma": [*[[10] * 5] * 3, [9] * 5],
        "prv_worst_fit, monte-carlo": [[0] * 5, [9] * 5, [11] * 5, [10] * 5],
    }
    claims = claims_of(violations(5, **arms))
    assert claims[f"expected_overload: {BETTER}"] == "2 of 4"
    assert claims[f"prv_worst_fit: {BETTER}"] == "3 of 4"
    mean = (10 / 9 + 10 / 9.6 + 10 / 20 + 10 / 8) / 4
    assert claims["original / expected_overload, gaussian"].mean == pytest.approx(mean)


def test_a_single_repeat_does_not_say_whether_the_default_is_good():
    assert [label for label in claims_of(violations(1)) if label.endswith(BETTER)] == []


def test_tables_have_the_original_energy_and_all_estimators_with_each_policy():
    given = {"prv_worst_fit, max": [[1.0], [2.0], [3.0]], "expected_overload, max": [[4.0], [5.0], [6.0]]}
    search, placement = risk.RiskStudy(None).tables(violations(1, **given))
    assert (search.remark, placement.remark) == (", expected_overload", ", prv_worst_fit")
    assert list(search.columns) == list(placement.columns) == ["original", *risk.ESTIMATORS]
    assert search.columns["max"].tolist() == [4.0, 5.0, 6.0]
    assert placement.columns["max"].tolist() == [1.0, 2.0, 3.0]
    assert search.columns["original"].tolist() == placement.columns["original"].tolist() == [10.0] * 3


@pytest.mark.parametrize("given", [None, (1.5, 1.9)])
def test_study_has_the_higher_density_of_each_region_or_those_of_the_user(tmp_path, given):
    """The regions have the densities of the study of annealing."""
    base = base_of_regions(["region3", "region4"])
    request = StudyRequest(base=base, output=OutputDirectory(tmp_path), densities=given)
    chosen = [(one.workload, one.density) for one in risk.RiskStudy.of(request).design.settings]
    of_user = [("region3", 1.5), ("region3", 1.9), ("region4", 1.5), ("region4", 1.9)]
    assert chosen == ([("region3", 1.68), ("region4", 1.55)] if given is None else of_user)


def test_the_middle_densities_of_each_workload_are_compared():
    four = [StudySetting("a", 80.0, density) for density in (4.0, 2.0, 3.0, 1.0)]
    five = [StudySetting("b", 80.0, density) for density in (1.0, 2.0, 3.0, 4.0, 5.0)]
    assert [(one.workload, one.density) for one in middle_of_each([*four, *five], 2)] == [
        ("a", 2.0),
        ("a", 3.0),
        ("b", 3.0),
        ("b", 4.0),
    ]
    assert [one.density for one in middle_of_each([*four, *five], 1)] == [3.0, 3.0]
    assert middle_of_each(four[:1], 2) == four[:1]
