"""Compares results directories: a row for each directory and policy, compared with the first row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from cluster.results.intervals import Interval
from cluster.results.policy_comparison import FIGURES, Estimate, compare
from cluster.results.reading import Results
from cluster.results.scenario_differences import scenario_differences, version_differences, why_other_tenants
from cluster.simulation.recorder import RunSummary
from plb import ConflictError


@attrs.frozen
class Row:
    """A policy of a directory.

    Parameters
    ----------
    directory, policy
        Names of the directory and the policy.
    repeats
        Number of its finished runs; only these are counted.
    figures
        Mean, interval and ratio to the first row, by figure.
    pairs
        Repeats with the same tenants as the first row; 0 in the first row itself.
    differences
        Difference to the first row, by figure; empty without pairs.
    unpaired
        Why there are no pairs; empty if there are any, and in the first row itself.
    """

    directory: str
    policy: str
    repeats: int
    figures: Mapping[str, Estimate]
    pairs: int
    differences: Mapping[str, Interval]
    unpaired: str

    def as_json(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        figures = {name: attrs.asdict(estimate) for name, estimate in self.figures.items()}
        for name, difference in self.differences.items():
            figures[name] |= {"difference": difference.mean, "difference_half_width": difference.half_width}
        kept = {"directory": self.directory, "policy": self.policy, "repeats": self.repeats, "pairs": self.pairs}
        return {**kept, "figures": figures}


@attrs.frozen(eq=False)
class ResultsComparison:
    """A comparison of several results directories.

    Parameters
    ----------
    results
        The directories.
    rows
        By directory, then in the order of its policies; those without a finished run are omitted.
    scenario_differences, version_differences
        Keys with different values, with the value in each directory.
    """

    results: tuple[Results, ...]
    rows: tuple[Row, ...]
    scenario_differences: Mapping[str, Sequence[Any]]
    version_differences: Mapping[str, Sequence[Any]]

    @property
    def interrupted(self) -> list[tuple[Results, RunSummary]]:
        """Interrupted runs with their directories; they are not counted."""
        return [(one, run) for one in self.results for run in one.runs if not run.complete]

    @property
    def missing(self) -> list[tuple[Results, int]]:
        """Directories with runs that have not started, and the number of these runs."""
        runs = [(one, sum(map(len, one.not_begun.values()))) for one in self.results]
        return [(one, number) for one, number in runs if number]

    @property
    def origin(self) -> tuple[dict[str, Any], int | None]:
        """The inputs, for the stamp of the figures: hashes, seeds and versions; and the seed if all are equal."""
        kept = ("scenario_sha256", "seed", "versions")
        compared = [{name: one.summary[name] for name in kept} for one in self.results]
        seeds = {one["seed"] for one in compared}
        return {"compared": compared}, seeds.pop() if len(seeds) == 1 else None

    def as_json(self) -> dict[str, Any]:
        """Return the comparison as plain JSON values under stable keys."""
        directories = [
            {
                "directory": str(one.folder),
                "name": one.name,
                "scenario_sha256": one.summary["scenario_sha256"],
                "seed": one.summary["seed"],
                "complete": one.summary["complete"],
                "interrupted": [{"policy": run.policy, "repeat": run.repeat} for run in one.runs if not run.complete],
            }
            for one in self.results
        ]
        return {
            "directories": directories,
            "rows": [row.as_json() for row in self.rows],
            "scenario_differences": {key: list(of) for key, of in self.scenario_differences.items()},
            "version_differences": {key: list(of) for key, of in self.version_differences.items()},
        }


def compare_results(results: Sequence[Results]) -> ResultsComparison:
    """Compare results directories by their finished runs.

    Raises
    ------
    ConflictError
        A directory is given twice, or none has a finished run.
    """
    places = [one.folder.resolve() for one in results]
    for number, place in enumerate(places):
        if place in places[:number]:
            raise ConflictError(f"{results[number].folder}: is given twice")
    finished = {
        (number, policy): [run for run in one.runs if run.policy == policy and run.complete]
        for number, one in enumerate(results)
        for policy in one.policies
    }
    finished = {key: runs for key, runs in finished.items() if runs}
    if not finished:
        raise ConflictError(f"{', '.join(str(one.folder) for one in results)}: no run is finished")
    labels = {key: f"{number}" for number, key in enumerate(finished)}
    labelled = [attrs.evolve(run, policy=labels[key]) for key, runs in finished.items() for run in runs]
    figures = compare(labelled, list(labels.values())).figures
    first, *_ = finished
    rows = [_row(results, key, first, runs, finished[first], figures[labels[key]]) for key, runs in finished.items()]
    return ResultsComparison(tuple(results), tuple(rows), scenario_differences(results), version_differences(results))


def _row(
    results: Sequence[Results],
    key: tuple[int, str],
    first: tuple[int, str],
    runs: Sequence[RunSummary],
    first_runs: Sequence[RunSummary],
    figures: Mapping[str, Estimate],
) -> Row:
    (number, policy), pairs, why = key, [], ""
    if key != first and not (why := why_other_tenants(results[first[0]], results[number])):
        known = {run.repeat: run for run in first_runs}
        both = [(known[run.repeat], run) for run in runs if run.repeat in known]
        # equal scenarios of different versions may have different tenants; their number reveals it
        pairs = [(one, other) for one, other in both if one.totals["tenants"] == other.totals["tenants"]]
        if not pairs:
            why = "the number of tenants differs in every repeat" if both else "no repeat is finished in both"
    differences = {
        name: Interval.of([run.figure(name) - one.figure(name) for one, run in pairs]) for name in FIGURES if pairs
    }
    return Row(str(results[number].folder), policy, len(runs), figures, len(pairs), differences, why)
