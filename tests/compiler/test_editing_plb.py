"""The kernels of plb that are compiled again after an edit of its sources, tested with a copy of them."""

from __future__ import annotations

import ast
import shutil
from pathlib import Path

import pytest

from tests.compiler.processes import ROOT, Ran, Server, write

EXAMPLE = """
import numpy as np
from plb.energy.imbalance import imbalance
from plb.energy.score import TermValues, energy_of
from plb.state.arrays import Weights

def run():
    three, weights = np.full(2, 3), Weights(*[1.0] * 12)
    return [imbalance(three, 2 * three, 9 * three, np.ones(2)), energy_of(weights, TermValues(1, 0.5, 0.0, 0, 0))]
"""
IMBALANCE = "plb/energy/imbalance.py"


def with_other_docstrings(source: str) -> str:
    """Return a source with other text in every docstring, node more line at its top, and a comment at its end."""
    lines = source.splitlines(keepends=True)
    places = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            text = node.body[0]
            assert text.end_lineno is not None
            assert text.end_col_offset is not None
            places.append((text.end_lineno - 1, text.end_col_offset - 3))
    for line, column in sorted(places, reverse=True):
        encoded = lines[line].encode()
        lines[line] = (encoded[:column] + b" And more." + encoded[column:]).decode()
    return "\n" + "".join(lines) + "# The end.\n"


class Copy:
    """A copy of plb's sources with its own cache, which has the two kernels of an example."""

    def __init__(self, processes: Server, folder: Path) -> None:
        self.processes = processes
        self.folder = folder
        write(folder, example=EXAMPLE)
        self.restore()
        self.first = self.run()

    def restore(self) -> None:
        shutil.rmtree(self.folder / "plb", ignore_errors=True)
        shutil.copytree(ROOT / "plb", self.folder / "plb", ignore=shutil.ignore_patterns("__pycache__"))

    def edit(self, path: str, old: str, new: str) -> None:
        file = self.folder / path
        source = file.read_text(encoding="utf-8")
        assert source.count(old) == 1
        file.write_text(source.replace(old, new), encoding="utf-8")

    def edit_all_docstrings(self) -> int:
        """Edit every docstring of plb, and return the number of files."""
        files = sorted(self.folder.glob("plb/**/*.py"))
        for file in files:
            file.write_text(with_other_docstrings(file.read_text(encoding="utf-8")), encoding="utf-8")
        return len(files)

    def run(self) -> Ran:
        return self.processes.run("example:run", cache=self.folder / "cache", path=[self.folder], plb=self.folder)


@pytest.fixture(scope="module")
def few(processes: Server, tmp_path_factory: pytest.TempPathFactory) -> Copy:
    return Copy(processes, tmp_path_factory.mktemp("few"))


def test_edited_docstrings_of_all_of_plb_compile_nothing_again(few: Copy):
    few.restore()
    assert few.first.compiled == ["plb.energy.imbalance.imbalance", "plb.energy.score.energy_of"]
    assert few.edit_all_docstrings() > 200
    assert few.run() == Ran(few.first.result, [], [])


def test_edited_term_compiles_its_callers_again(few: Copy):
    few.restore()
    few.edit(IMBALANCE, "mean_square_ratio - 1.0", "mean_square_ratio - 0.5")
    edited = few.run()
    assert edited.compiled == ["plb.energy.imbalance.imbalance"]
    assert edited.result[0] > few.first.result[0]
    assert edited.result[1] == few.first.result[1]


def test_edited_compiler_compiles_everything_again(few: Copy):
    few.restore()
    few.edit("plb/compiler/modules.py", "passes.add_jump_threading_pass()", "passes.add_jump_threading_pass(7)")
    assert few.run().compiled == few.first.compiled
