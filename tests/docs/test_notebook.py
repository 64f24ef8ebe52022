"""The example notebook runs, and its cells show what they say."""

from __future__ import annotations

import ast
import json
import shutil
from typing import Any

from tests.docs.pages import ROOT


def values_of(cells: list[dict[str, Any]]) -> list[Any]:
    """Run the code of cells, and return the value of the last expression of each, which a notebook shows."""
    names: dict[str, Any] = {}
    values = []
    for cell in cells:
        *statements, last = ast.parse("".join(cell["source"])).body
        assert isinstance(last, ast.Expr)
        exec(compile(ast.Module(statements, []), "cell", "exec"), names)
        values.append(eval(compile(ast.Expression(last.value), "cell", "eval"), names))
    return values


def test_the_notebook_shows_its_table_and_plots(tmp_path, monkeypatch):
    shutil.copy(ROOT / "examples/quickstart.toml", tmp_path)
    monkeypatch.chdir(tmp_path)
    notebook = json.loads((ROOT / "examples/notebook.ipynb").read_text())
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] for cell in code), "outputs belong to the reader's run"
    results, loads, figure = values_of(code)
    page = results._repr_html_()
    assert page.count("<tr>") == 1 + len(results.policies)
    assert all(f"<td>{policy}</td>" in page for policy in results.policies)
    assert page.count("<svg") == 1
    assert len(loads) == 5
    assert [ax.get_ylabel() for ax in figure.axes] == ["cpu (% of capacity)"]
