"""Simulating from Python, and results that a notebook shows as a table and a plot.

``plb simulate`` does the same with progress, and keeps what there is after Ctrl-C.
"""

from __future__ import annotations

from html import escape
from io import BytesIO
from pathlib import Path
from typing import Any

import attrs

from cluster.results.reading import Results, read_results
from cluster.results.summary_tables import compare, comparison_caption, comparison_rows, violations_figure
from cluster.results.writing import ResultsFolder
from cluster.runs.experiment import prepare
from cluster.scenario.scenario_file import override, read_scenario


@attrs.frozen(eq=False)
class Run(Results):
    """Results that a notebook shows: the comparison of the policies, and the violations over time."""

    @classmethod
    def read(cls, folder: str | Path) -> Run:
        """Return the results in a directory; invalid results raise `ResultsError`."""
        results = read_results(Path(folder))
        return cls(**{field.name: getattr(results, field.name) for field in attrs.fields(Results)})

    def _repr_html_(self) -> str:
        """Return the table and the plot."""
        comparison = compare(self.runs, self.policies)
        headings, rows = comparison_rows(comparison)
        head = "".join(f"<th>{escape(text)}</th>" for text in headings)
        body = "".join(f"<tr>{''.join(f'<td>{escape(text)}</td>' for text in row)}</tr>" for row in rows)
        caption = escape(f"{self.name}; {comparison_caption(comparison)}")
        target = BytesIO()
        violations_figure(self).savefig(target, format="svg")
        _, _, picture = target.getvalue().decode().partition("<svg")
        table = f"<table><caption>{caption}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        return f"{table}<svg{picture}"


def simulate(scenario: str | Path, folder: str | Path, *, force: bool = False, jobs: int = 1, **options: Any) -> Run:
    """Run a scenario file under its policies, write the results to a directory, and return them.

    Parameters
    ----------
    scenario
        Path of the scenario, a TOML file.
    folder
        Directory of the results.
    force
        True: overwrite results in the directory.
    jobs
        Processes. The results do not depend on it.
    options
        Values in place of the scenario's: ``policy`` (a list of names), ``seed``, ``repeats``, ``density``, ``days``,
        ``traces``.

    Raises
    ------
    PlbError
        If the scenario is invalid, or the directory has results and `force` is False.
    """
    changed = override(read_scenario(Path(scenario)), **{"traces": None, **options})
    experiment = prepare(changed)
    results = ResultsFolder(Path(folder), changed, experiment.source, force=force)
    for run in experiment.runs(jobs=jobs):
        results.add(run)
    return Run.read(folder)
