"""The guides to capacity and to comparing are true: commands, outputs, keys."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cluster.capacity.answers import answer, figures
from cluster.cli import app
from cluster.comparison import FIGURES
from cluster.results_comparison import compare_results
from tests.cluster.capacity.made_up import point, question_of
from tests.cluster.test_compare_command import summary_of, written

ROOT = Path(__file__).parent.parent
GUIDES = {name: (ROOT / "docs" / f"{name}.md").read_text() for name in ("capacity", "comparing")}
COMMANDS = [
    (name, line.split("#")[0].strip())
    for name, guide in GUIDES.items()
    for line in re.findall(r"^    (?:\.venv/bin/plb|sed) .*", guide, re.MULTILINE)
]


def run(command: str, folder: Path) -> str:
    """Run a command of a guide, with its results in a folder, and return what it prints."""
    paths = {"examples/": f"{ROOT / 'examples'}/", "results/": f"{folder}/"}
    for place, there in paths.items():
        command = command.replace(place, there)
    if command.startswith("sed"):
        return _edit(command)
    found = CliRunner().invoke(app, shlex.split(command)[1:])
    assert found.exit_code == 0, found.output
    return found.stdout


def _edit(command: str) -> str:
    """Do what ``sed 's/A/B/; s/C/D/' FROM > TO`` does."""
    _, edits, source, _, target = shlex.split(command)
    text = Path(source).read_text()
    for one in edits.split("; "):
        _, before, after, _ = one.split("/")
        assert before in text
        text = text.replace(before, after)
    Path(target).write_text(text)
    return ""


def shown(guide: str) -> set[str]:
    """Return the lines of a guide, without spaces around them."""
    return {line.strip() for line in guide.splitlines()}


@pytest.mark.parametrize("command", [one for _, one in COMMANDS if not one.startswith("sed")])
def test_options_of_commands_exist(command: str):
    """Each that a command of a guide gives."""
    words = shlex.split(command)
    help_text = CliRunner().invoke(app, [words[1], "--help"], env={"COLUMNS": "200", "TERM": "dumb"}).stdout
    for option in (word for word in words if word.startswith("--")):
        assert option in help_text


@pytest.mark.slow
def test_output_of_capacity_is_that_of_the_guide(tmp_path: Path):
    """Of the first command, whose runs take 40 seconds of processor time."""
    command = next(one for name, one in COMMANDS if name == "capacity")
    printed = run(f"{command} --out {tmp_path / 'out'}", tmp_path)
    assert {line.strip() for line in printed.splitlines()[:-1]} <= shown(GUIDES["capacity"])


@pytest.mark.slow
def test_output_of_compare_is_that_of_the_guide(tmp_path: Path):
    """Of the last command, after those before it; their runs take 25 seconds of processor time."""
    commands = [one for name, one in COMMANDS if name == "comparing"]
    printed = [run(one, tmp_path) for one in commands[:4]]
    assert {line.strip() for line in printed[-1].splitlines()} <= shown(GUIDES["comparing"])


def test_keys_of_capacity_are_those_of_the_guide():
    """All keys that are written stand there."""
    question = question_of()
    answers = answer(question, ["any"], lambda pairs: [point(question, value, 0.0) for _, value in pairs])
    found = figures(question, answers, repeats=2, days=2.0)
    of_policy = found["policies"]["any"]
    keys = {*found, *found["question"], *of_policy["points"][0], *(f"policies.NAME.{key}" for key in of_policy)}
    named = set(re.findall(r"`([\w.]+)`", GUIDES["capacity"]))
    assert keys - {"policies"} <= named


def test_keys_and_figures_of_compare_are_those_of_the_guide(tmp_path: Path):
    """All keys that are written stand there, and all figures that can be asked for."""
    results = [written(tmp_path / name, summary_of(), {"original": [1], "modified": [2]}) for name in "ab"]
    found = compare_results(results).as_json()
    (difference,) = {frozenset(row["figures"]["moves"]) for row in found["rows"] if row["pairs"] and row["policy"]}
    keys = {*found, *found["directories"][0], *found["rows"][0], *difference, *FIGURES}
    assert keys <= set(re.findall(r"`([\w.]+)`", GUIDES["comparing"]))


def test_images_of_the_guides_exist():
    """Every plot that they show."""
    images = re.findall(r"\]\((images/[^)]+)\)", "".join(GUIDES.values()))
    assert images
    assert all((ROOT / "docs" / image).is_file() for image in images)


@pytest.mark.parametrize("name", GUIDES)
def test_readme_leads_to_the_guides(name: str):
    """By a link."""
    assert f"docs/{name}.md)" in (ROOT / "README.md").read_text()
