"""The study of [3]: groups, algorithms, published figures, and the whole command."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import polars as pl
import pytest

from cluster.studies.provisioning.design import (
    ALGORITHMS,
    AlgorithmArm,
    InstanceGroup,
    Published,
    PublishedFigure,
    PublishedMeans,
    arms,
)
from cluster.studies.provisioning.figures import agreement, group_means, nodes_by_first_fit, plans_frame
from cluster.studies.provisioning.study import ProvisioningStudy, base_of, draw, run_planning
from plb import PlbError
from plb.provisioning import AUTO, Rules, algorithm_names, lower_bound, provision
from tests.cluster.small_provisioning import APPLICATIONS, write_base, write_curves
from tests.command_line import plb
from workloads.provisioning import GraphKind

ARBITRARY = InstanceGroup(PublishedFigure.DENSITIES, GraphKind.ARBITRARY, 0.01)
TINY = ("--instances", "2", "--density", "0.1", "--applications", "40", "--auto-seconds", "0.1")


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """Return a file of constant demand."""
    return write_base(tmp_path / "base.csv")


@pytest.fixture
def curves(tmp_path: Path) -> Path:
    """Return a directory of demand that varies."""
    return write_curves(tmp_path / "curves")


study = partial(plb, "study", "provisioning")


def run(out: Path, *arguments: Any) -> tuple[Any, dict[str, Any]]:
    """Run a tiny study; return the result of the command and its figures."""
    json_file = Path(f"{out}.json")
    result = study("--out", out, "--json", json_file, "--jobs", 1, *TINY, *arguments)
    assert result.exit_code == 0, result.output
    return result, json.loads(json_file.read_text())


def small(base: Path) -> ProvisioningStudy:
    """Return a study of one instance of each graph."""
    groups: dict[str, Any] = {"figures": (PublishedFigure.DENSITIES,), "densities": (0.1,), "instances": 1}
    return ProvisioningStudy(base=base, auto_seconds=0.1, **groups)


def test_groups_are_those_of_table_5(base: Path, curves: Path) -> None:
    study = ProvisioningStudy(base=base, curves=curves, sizes=(10_000, 50_000, 100_000), instances=10)
    groups = study.groups()
    assert len(groups) == len(set(groups)) == 36
    assert len(study.tasks()) == 360
    assert {group.density for group in groups if group.applications} == {0.005}
    for changes, figures in (
        ({"curves": None}, {PublishedFigure.DENSITIES, PublishedFigure.SIZES}),
        ({"figures": (PublishedFigure.SIZES,)}, {PublishedFigure.SIZES}),
    ):
        assert {group.figure for group in attrs.evolve(study, **changes).groups()} == figures


@pytest.mark.parametrize("figure", list(PublishedFigure))
def test_algorithms_of_the_figures_exist(figure: PublishedFigure) -> None:
    found = arms(figure)
    assert set(ALGORITHMS[figure]) < set(algorithm_names())
    assert len({arm.name for arm in found}) == len(found)
    of_curves = figure in (PublishedFigure.CURVE_DENSITIES, PublishedFigure.CURVE_SIZES)
    assert {arm.rules for arm in found} == ({Rules.PAPER} if of_curves else set(Rules))
    assert [arm.name for arm in found if arm.algorithm == AUTO] == ["auto"]


def test_keys_of_runs_contain_all_inputs(base: Path) -> None:
    study = ProvisioningStudy(base=base, instances=2)
    keys = {task.key for task in study.tasks()}
    assert keys < {task.key for task in attrs.evolve(study, instances=3).tasks()}
    for other in (attrs.evolve(study, seed=1), attrs.evolve(study, auto_seconds=1.0)):
        assert not keys & {task.key for task in other.tasks()}
    base.write_bytes(base.read_bytes() + b"\n")
    assert not keys & {task.key for task in study.tasks()}


def test_instances_of_a_group_are_distinct_and_seeded(base: Path) -> None:
    given = base_of(str(base))
    drawn = [draw(given, ARBITRARY, part, seed) for part, seed in ((0, 0), (1, 0), (0, 1), (0, 0))]
    targets = [tuple(instance.affinity.target) for instance in drawn]
    assert targets[0] == targets[3]
    assert len(set(targets)) == 3
    assert all(np.array_equal(instance.demand, given.demand) for instance in drawn)
    larger = draw(given, attrs.evolve(ARBITRARY, figure=PublishedFigure.SIZES, applications=50), 0, 0)
    assert len(larger.applications) == 50


def test_a_run_plans_its_instance_by_every_algorithm(base: Path) -> None:
    study = small(base)
    task = study.tasks()[0]
    values = run_planning(task.arguments)
    instance = draw(base_of(str(base)), study.groups()[0], 0, 0)
    assert values["totals"]["lower_bound"] == lower_bound(instance)
    assert values["totals"]["limits"] == len(instance.affinity) == int(0.1 * APPLICATIONS * (APPLICATIONS - 1))
    for arm in arms(PublishedFigure.DENSITIES)[:-1]:
        assert values["totals"]["nodes"][arm.name] == provision(instance, arm.algorithm, rules=arm.rules).nodes
    assert set(values["timings"]["seconds"]) == {*values["totals"]["nodes"], AUTO}
    assert values["totals"] == run_planning(task.arguments)["totals"]


def test_means_come_from_the_runs() -> None:
    names = [arm.name for arm in arms(PublishedFigure.CURVE_DENSITIES)[:-1]]
    rows: list[dict[str, Any]] = []
    timings: list[dict[str, Any]] = []
    for part, bound in enumerate((100, 200)):
        group = {"figure": "6", "graph": "arbitrary", "density": 0.01, "applications": None, "part": part}
        nodes = {name: bound + 10 * number for number, name in enumerate(names)}
        rows.append({**group, "lower_bound": bound, "nodes": nodes})
        timings.append({"auto_nodes": bound, "seconds": dict.fromkeys([*names, AUTO], 1.0 + part)})
    plans = plans_frame(rows, timings)
    (one,) = group_means(plans)
    assert (one.group, one.instances) == (attrs.evolve(ARBITRARY, figure=PublishedFigure.CURVE_DENSITIES), 2)
    assert one.means[AlgorithmArm("BFD-Avg", Rules.PAPER)].deviation == pytest.approx((10.0 + 5.0) / 2)
    assert one.means[AlgorithmArm("BFD-Avg", Rules.PAPER)].half_width == pytest.approx(2.5 * 12.7062, rel=1e-4)
    assert one.means[AlgorithmArm(AUTO, Rules.PAPER)] == one.means[AlgorithmArm("FF", Rules.PAPER)]
    assert one.means[AlgorithmArm("FF", Rules.PAPER)].seconds == 1.5
    ratio = nodes_by_first_fit(plans)["figure 6: BFD-Avg, paper/FF"]
    assert (ratio.mean, ratio.settings) == (pytest.approx((1.1 + 1.05) / 2), 2)
    assert ratio.low is not None
    assert ratio.low < 1.075


def test_means_from_the_text_of_the_paper() -> None:
    """They are averages of arbitrary graphs, upper bounds of times, and the result of spread on threshold graphs."""
    published = PublishedMeans()
    first = published.of(ARBITRARY, "FF")
    assert (str(first.deviation), str(first.seconds)) == ("12.1", "<5")
    assert published.of(ARBITRARY, "SpreadWFD-Avg-BinSearch").seconds == Published(225.0)
    assert published.of(attrs.evolve(ARBITRARY, graph=GraphKind.NORMAL), "FF").deviation is None
    threshold = attrs.evolve(ARBITRARY, graph=GraphKind.THRESHOLD, density=0.1)
    assert published.of(threshold, "SpreadWFD-Avg-Decr2").deviation == Published(10.5)
    largest = InstanceGroup(PublishedFigure.SIZES, GraphKind.ARBITRARY, 0.005, 100_000)
    assert published.of(largest, "SpreadWFD-Avg-BinSearch").seconds == Published(7 * 3600.0)
    assert published.of(attrs.evolve(largest, figure=PublishedFigure.CURVE_SIZES), "FF").seconds == Published(14 * 60.0)
    assert published.of(attrs.evolve(largest, applications=10_000), "FF").seconds is None


def test_a_file_of_published_means_uses_the_names_of_the_authors(tmp_path: Path, base: Path) -> None:
    path = tmp_path / "published.csv"
    path.write_text(
        "set,group,algorithm,mean_deviation_percent,mean_seconds,instances\n"
        "density2D_64_128,arbitrary_d10,FFD-Degree,12.34,3.75,10\n"
        "density2D_64_128,arbitrary_d10,FF,88.25,4.5,10\n"
        "large2D_64_128,large_scale_40_arbitrary_d005,SpreadWFD-Avg,1.87,86.25,10\n"
    )
    published = PublishedMeans(path)
    tenth = attrs.evolve(ARBITRARY, density=0.1)
    assert published.of(tenth, "Medea-TagPopularity").deviation == Published(12.34)
    forty = InstanceGroup(PublishedFigure.SIZES, GraphKind.ARBITRARY, 0.005, 40)
    assert published.of(forty, "SpreadWFD-Avg-BinSearch").seconds == Published(86.25)
    assert published.of(tenth, "WFD-AvgExp").deviation is None
    result, figures = run(tmp_path / "out", "--base", base, "--published", path, "--figure", 4, "--graph", "arbitrary")
    assert "88.25" in result.stdout
    assert "86.25" not in result.stdout
    (setting,) = figures["settings"]
    assert setting["published_deviation_percent"]["FF"] == {"value": 88.25, "at_most": False}
    assert setting["published_seconds"]["Medea-TagPopularity"]["value"] == 3.75
    found = group_means(pl.read_parquet(tmp_path / "out/plans.parquet"))
    means = next(iter(found[0].means.values()))
    near, far = (
        attrs.evolve(found[0], means={AlgorithmArm("FF", Rules.RELEASED): attrs.evolve(means, deviation=deviation)})
        for deviation in (88.0, 87.9)
    )
    assert agreement([near, far], published) == (1, 2)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("set,group,algorithm,mean_seconds\n", "row 1: found no column mean_deviation_percent"),
        (
            "set,group,algorithm,mean_deviation_percent,mean_seconds\na,b,FF,x,1\n",
            "row 2, column mean_deviation_percent: found x; expected a finite number",
        ),
        ("set,group,algorithm,mean_deviation_percent,mean_seconds\na,b,FF,1\n", "row 2, column mean_seconds"),
    ],
)
def test_a_damaged_file_of_published_means_is_refused(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "published.csv"
    path.write_text(text)
    with pytest.raises(PlbError, match=words):
        PublishedMeans(path)


def test_the_whole_study(base: Path, curves: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result, figures = run(out, "--base", base, "--curves", curves, "--graph", "arbitrary")
    for words in ("[3] figure 3", "[3] figure 4", "[3] figure 5", "[3] figure 6", "[3] figure 7", "arbitrary, 10 %"):
        assert words in re.sub(r"\s+", " ", result.stdout)
    assert {f"figure{number}.png" for number in range(3, 8)} <= {path.name for path in out.iterdir()}
    plans = pl.read_parquet(out / "plans.parquet")
    assert len(plans) == 2 * sum(len(arms(figure)) for figure in PublishedFigure)
    assert (plans["nodes"] >= plans["lower_bound"]).all()
    assert figures["study"] == "provisioning"
    assert [one["figure"] for one in figures["settings"]] == ["4", "5", "6", "7"]
    assert set(figures["settings"][0]["deviation_percent"]) == {arm.name for arm in arms(PublishedFigure.DENSITIES)}
    assert figures["settings"][0]["published_deviation_percent"]["FF"]["value"] == 12.1
    assert figures["settings"][1]["applications"] == 40
    assert figures["settings"][1]["published_deviation_percent"] == {}, "the paper has none for so few applications"
    assert figures["ratios"]["figure 4: auto/FF"]["mean"] <= 1.0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "needs --base FILE for figures 3 to 5"),
        (["--base", "nowhere.csv"], "nowhere.csv"),
        (["--base", "BASE", "--figure", "6"], "figure 6 needs --curves DIRECTORY"),
        (["--base", "BASE", "--figure", "8"], "figure = '8'"),
        (["--base", "BASE", "--graph", "random"], "graph = 'random'"),
        (["--base", "BASE", "--density", "0.7"], "density = 0.7"),
        (["--base", "BASE", "--auto-seconds", "-1"], "auto_seconds = -1.0"),
        (["--base", "BASE", "--published", "nowhere.csv"], "nowhere.csv: No such file"),
        (["--base", "BASE", "--instances", "0"], "--instances"),
        (["--base", "BASE", "--instances", "1000000000"], "instances = 1000000000 is not allowed"),
    ],
)
def test_bad_arguments_are_refused_before_anything_runs(
    base: Path, tmp_path: Path, arguments: list[str], words: str
) -> None:
    result = study(*(base if word == "BASE" else word for word in arguments), "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert words in re.sub(r"[\s│]+", " ", result.stderr)
    assert not (tmp_path / "out").exists()
