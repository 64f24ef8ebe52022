"""Tables and lines that compare results directories."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs
from rich.table import Table

from cluster.results.intervals import Interval
from cluster.results.reading import Results
from cluster.results.recorded_run import (
    other_tenants_code,
    scenario_differences,
    version_differences,
    why_other_tenants,
)
from cluster.results.summary_tables import (
    FIGURES,
    Estimate,
    cell,
    compare,
    extension_figures,
    further_figures,
    heading_of,
    ratio_cell,
)
from cluster.simulation.recorder import RunSummary
from plb import ConflictError
from plb.phrasing import counted, listed


@attrs.frozen
class Row:
    """A policy of a directory."""

    directory: str
    """Path of the directory."""
    policy: str
    """Name of the policy."""
    repeats: int
    """Number of its finished runs; only these are counted."""
    figures: Mapping[str, Estimate]
    """Mean, interval and ratio to the first row, by figure; a row without an extension term lacks its figure."""
    pairs: int
    """Repeats with the same tenants as the first row; 0 in the first row itself."""
    differences: Mapping[str, Interval]
    """Difference to the first row, by figure of both; empty without pairs."""
    unpaired: str
    """Why there are no pairs; empty if there are any, and in the first row itself."""

    def as_json(self) -> dict[str, Any]:
        """Return the row as plain JSON values."""
        figures = {name: attrs.asdict(estimate) for name, estimate in self.figures.items()}
        for name, difference in self.differences.items():
            figures[name] |= {"difference": difference.mean, "difference_half_width": difference.half_width}
        head = {"directory": self.directory, "policy": self.policy, "repeats": self.repeats, "pairs": self.pairs}
        return {**head, "figures": figures}


@attrs.frozen(eq=False)
class ResultsComparison:
    """A comparison of several results directories."""

    results: tuple[Results, ...]
    """The directories."""
    rows: tuple[Row, ...]
    """By directory, then in the order of its policies; policies without a finished run are omitted."""
    scenario_differences: Mapping[str, Sequence[Any]]
    """The value in each directory, by the keys in which the scenarios differ."""
    version_differences: Mapping[str, Sequence[Any]]
    """The version in each directory, by the packages whose versions differ."""

    @property
    def extension_figures(self) -> tuple[str, ...]:
        """The figures of the extension terms of any row."""
        return further_figures(row.figures for row in self.rows)

    @property
    def interrupted(self) -> list[tuple[Results, RunSummary]]:
        """Interrupted runs with their directories; they are not counted."""
        return [(result, run) for result in self.results for run in result.runs if not run.complete]

    @property
    def missing(self) -> list[tuple[Results, int]]:
        """Directories with runs that have not started, each with the number of these runs."""
        runs = [(result, sum(map(len, result.not_begun.values()))) for result in self.results]
        return [(result, number) for result, number in runs if number]

    @property
    def origin(self) -> tuple[dict[str, Any], int | None]:
        """The inputs, for the stamp of the figures: hash, seed and versions of each; and the seed if all are equal."""
        fields = ("scenario_sha256", "seed", "versions")
        compared = [{name: result.summary[name] for name in fields} for result in self.results]
        seeds = {result["seed"] for result in compared}
        return {"compared": compared}, seeds.pop() if len(seeds) == 1 else None

    def as_json(self) -> dict[str, Any]:
        """Return the comparison as plain JSON values under stable keys."""
        directories = [
            {
                "directory": str(result.folder),
                "name": result.name,
                "scenario_sha256": result.summary["scenario_sha256"],
                "seed": result.summary["seed"],
                "complete": result.summary["complete"],
                "interrupted": [
                    {"policy": run.policy, "repeat": run.repeat} for run in result.runs if not run.complete
                ],
            }
            for result in self.results
        ]
        return {
            "directories": directories,
            "rows": [row.as_json() for row in self.rows],
            "scenario_differences": {key: list(values) for key, values in self.scenario_differences.items()},
            "version_differences": {key: list(values) for key, values in self.version_differences.items()},
        }


def compare_results(results: Sequence[Results]) -> ResultsComparison:
    """Compare different results directories by their finished runs; raise `ConflictError` if there is none."""
    folders = [result.folder.resolve() for result in results]
    for index, folder in enumerate(folders):
        if folder in folders[:index]:
            raise ConflictError(f"{results[index].folder}: is given twice")
    finished = {
        (index, policy): [run for run in result.runs if run.policy == policy and run.complete]
        for index, result in enumerate(results)
        for policy in result.policies
    }
    finished = {key: runs for key, runs in finished.items() if runs}
    if not finished:
        raise ConflictError(f"{', '.join(str(result.folder) for result in results)}: no run is finished")
    label_of_key = {key: f"{index}" for index, key in enumerate(finished)}
    labelled_runs = [attrs.evolve(run, policy=label_of_key[key]) for key, runs in finished.items() for run in runs]
    figures = compare(labelled_runs, list(label_of_key.values())).figures
    first_key, *_ = finished
    rows = [
        _row(results, key, first_key, runs, finished[first_key], figures[label_of_key[key]])
        for key, runs in finished.items()
    ]
    return ResultsComparison(tuple(results), tuple(rows), scenario_differences(results), version_differences(results))


def _row(
    results: Sequence[Results],
    key: tuple[int, str],
    first: tuple[int, str],
    runs: Sequence[RunSummary],
    first_runs: Sequence[RunSummary],
    figures: Mapping[str, Estimate],
) -> Row:
    """Return the row of the policy that `key` names, by the index of its directory and its name.

    `first`: the key of the first row; `runs`, `first_runs`: the finished runs of both; `figures`: the estimates of the
    policy.
    """
    (index, policy), pairs, why_unpaired = key, [], ""
    if key != first and not (why_unpaired := why_other_tenants(results[first[0]], results[index])):
        first_by_repeat = {run.repeat: run for run in first_runs}
        runs_by_both = [(first_by_repeat[run.repeat], run) for run in runs if run.repeat in first_by_repeat]
        # equal scenarios of different versions may have different tenants; their number reveals it
        pairs = [pair for pair in runs_by_both if pair[0].totals["tenants"] == pair[1].totals["tenants"]]
        if not pairs:
            why_unpaired = (
                "the number of tenants differs in every repeat" if runs_by_both else "no repeat is finished in both"
            )
    extensions_of_first = extension_figures(first_runs)
    shared_names = (*FIGURES, *(name for name in extension_figures(runs) if name in extensions_of_first))
    differences = {
        name: Interval.of([run.figure(name) - reference.figure(name) for reference, run in pairs])
        for name in shared_names
        if pairs
    }
    return Row(str(results[index].folder), policy, len(runs), figures, len(pairs), differences, why_unpaired)


def verdict(comparison: ResultsComparison) -> str:
    """Return in words which policy has the fewest avoidable violations, by how much, and how sure that is."""
    first, *other_rows = comparison.rows
    name = (
        "violations_avoidable"
        if all("violations_avoidable" in row.figures for row in comparison.rows)
        else "violations"
    )
    words = IN_WORDS.get(name, name)
    if not any(row.figures[name].mean for row in comparison.rows):
        return f"No policy had {words}."
    if not other_rows:
        return f"{first.policy} had {cell(first.figures[name])} {words} a run. No other policy ran."
    best = min(other_rows, key=lambda row: row.figures[name].mean)
    fewer = first.figures[name].mean - best.figures[name].mean
    if fewer <= 0.0:
        return f"No policy had fewer {words} than {first.policy}, with {cell(first.figures[name])} a run."
    percent = f"{100.0 * fewer / first.figures[name].mean:.0f} %"
    counts = f"{cell(best.figures[name])} against {cell(first.figures[name])} a run"
    return f"{best.policy} had {percent} fewer {words} than {first.policy}: {counts}. {_certainty(best, name)}"


def _certainty(row: Row, name: str) -> str:
    """Return in words how sure the difference of a figure to the first row is."""
    if row.pairs < 2:
        return "That is one run, which says little; --repeats 10 tells how sure it is."
    difference = row.differences[name]
    paired = f"In {row.pairs} repeats with equal tenants the difference is {cell(difference, signed=True)}"
    if difference.sign:
        return f"{paired}; this 95 % interval excludes 0."
    return f"{paired}; this 95 % interval includes 0, so the policies may be equal."


IN_WORDS = {
    "violations_avoidable": "avoidable violations",
    "violations_unavoidable": "unavoidable violations",
    "shortages_unresolved": "unresolved shortages",
}
"""Figures whose heading alone says too little."""
LONGEST_VALUE = 60
"""Maximum number of characters of a printed value."""


def table_of_rows(comparison: ResultsComparison, figures: Sequence[str]) -> Table:
    """Return a table of the means of every row with their intervals, and of the ratios of the first figure."""
    first = comparison.rows[0]
    caption = f"ratio: {IN_WORDS.get(figures[0], heading_of(figures[0]))} by those of the first row"
    if max(row.repeats for row in comparison.rows) > 1:
        caption += "; means over repeats with 95 % intervals"
    labels = _labels(comparison)
    where = f"{counted(len(comparison.results), 'result')}, compared with {first.policy} of {labels[first.directory]}"
    table = _table(where, caption)
    table.add_column("repeats", justify="right", no_wrap=True)
    for name in figures:
        table.add_column(heading_of(name), justify="right", no_wrap=True)
        if name == figures[0]:
            table.add_column("ratio", justify="right", no_wrap=True)
    for row in comparison.rows:
        cells = [cell(row.figures.get(name)) for name in figures]
        cells.insert(1, ratio_cell(row.figures.get(figures[0])))
        table.add_row(labels[row.directory], row.policy, f"{row.repeats}", *cells)
    return table


def table_of_differences(comparison: ResultsComparison, figures: Sequence[str]) -> Table | None:
    """Return a table of the differences to the first row, of rows with the same tenants; None without such a row."""
    rows = [row for row in comparison.rows if row.pairs]
    if not rows:
        return None
    caption = "for each repeat in which both have the same tenants"
    if max(row.pairs for row in rows) > 1:
        caption += "; means with 95 % intervals"
    labels, table = _labels(comparison), _table("difference to the first row", caption)
    table.add_column("pairs", justify="right")
    for name in figures:
        table.add_column(heading_of(name), justify="right", no_wrap=True)
    for row in rows:
        cells = [cell(row.differences.get(name), signed=True) for name in figures]
        table.add_row(labels[row.directory], row.policy, f"{row.pairs}", *cells)
    return table


def lines(comparison: ResultsComparison) -> Iterator[str]:
    """Yield lines of text: the differences between the directories, and the runs that are not counted."""
    hashes = {result.summary["scenario_sha256"] for result in comparison.results}
    if len(comparison.results) > 1 and len(hashes) == 1:
        yield f"All ran the same scenario, {next(iter(hashes))[:12]}."
    yield from _unpaired(comparison)
    remade = other_tenants_code(comparison.results)
    if remade:
        labels = _labels(comparison)
        other_folders = listed([labels[str(result.folder)] for result in remade])
        first = labels[str(comparison.results[0].folder)]
        yield f"The code that makes tenants differs between {first} and {other_folders}, so their tenants may differ."
    yield from _differing("The scenarios differ", comparison.scenario_differences)
    yield from _differing("They were made with different versions", comparison.version_differences)
    for result, run in comparison.interrupted:
        run_in_words = f"{run.policy}, repeat {run.repeat + 1} of {result.folder}"
        yield f"Interrupted after {run.days:.2f} days and omitted: {run_in_words}"
    for result, count in comparison.missing:
        yield f"Not started: {counted(count, 'run')} of {result.folder}"


def _unpaired(comparison: ResultsComparison) -> Iterator[str]:
    """Yield a line for the rows without differences to the first one, for each reason."""
    labels = _labels(comparison)
    policies: dict[tuple[str, str], list[str]] = {}
    for row in comparison.rows:
        if row.unpaired:
            policies.setdefault((labels[row.directory], row.unpaired), []).append(row.policy)
    for (label, why), names in policies.items():
        yield f"No difference to the first row for {listed(names)} of {label}, as its tenants may differ: {why}."


def _differing(heading: str, values: Mapping[str, Sequence[Any]]) -> Iterator[str]:
    """Yield lines of keys with their value in each directory, below a heading, unless there are none."""
    if values:
        yield f"{heading}:"
    for key, key_values in values.items():
        yield f"  {key}: {' | '.join(map(_text, key_values))}"


def _text(value: Any) -> str:
    """Return a JSON value as text, cut off after `LONGEST_VALUE` characters."""
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 3]}..."


def _labels(comparison: ResultsComparison) -> dict[str, str]:
    """Return labels of the directories by path: their paths relative to their common parent directory."""
    full_paths = {str(result.folder): result.folder.resolve() for result in comparison.results}
    common = os.path.commonpath([full_path.parent for full_path in full_paths.values()])
    return {path: full_path.relative_to(common).as_posix() for path, full_path in full_paths.items()}


def _table(title: str, caption: str) -> Table:
    """Return a table without rows, with columns for directory and policy."""
    table = Table(title=title, caption=caption)
    table.add_column("directory", overflow="fold")
    table.add_column("policy", no_wrap=True)
    return table
