"""The guides to capacity and comparing contain all keys of the written figures."""

from __future__ import annotations

import re
from pathlib import Path

from cluster.capacity.report import answer, figures
from cluster.results.comparison import compare_results
from cluster.results.summary_tables import FIGURES
from tests.cluster.capacity.synthetic import point, question_of
from tests.cluster.cli.test_compare import summary_of, written
from tests.docs.pages import ROOT

GUIDES = {name: (ROOT / "docs" / f"{name}.md").read_text() for name in ("capacity", "comparing")}


def test_guide_has_the_keys_of_capacity():
    question = question_of()
    answers = answer(question, ["any"], lambda pairs: [point(question, value, 0.0) for _, value in pairs])
    found = figures(question, answers, repeats=2, days=2.0)
    of_policy = found["policies"]["any"]
    keys = {*found, *found["question"], *of_policy["points"][0], *(f"policies.NAME.{key}" for key in of_policy)}
    named = set(re.findall(r"`([\w.]+)`", GUIDES["capacity"]))
    assert keys - {"policies"} <= named


def test_guide_has_the_keys_and_figures_of_compare(tmp_path: Path):
    results = [written(tmp_path / name, summary_of(), {"original": [1], "modified": [2]}) for name in "ab"]
    found = compare_results(results).as_json()
    (difference,) = {frozenset(row["figures"]["moves"]) for row in found["rows"] if row["pairs"] and row["policy"]}
    keys = {*found, *found["directories"][0], *found["rows"][0], *difference, *FIGURES}
    assert keys <= set(re.findall(r"`([\w.]+)`", GUIDES["comparing"]))
