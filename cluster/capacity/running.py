"""Runs a search, with progress, in a directory that keeps finished runs, and writes a report at the end.

::

    OUT/journal.jsonl    the finished runs in the order in which they ended; a search resumes from here
    OUT/capacity.json    scenario, versions, question, all tried values, answers; the same bytes for any --jobs
    OUT/capacity.png     violations a day by nodes or density
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cluster.capacity.evaluation import Subject, run_at, tenants_at
from cluster.capacity.plots import save_capacity
from cluster.capacity.question import Question
from cluster.capacity.report import in_words
from cluster.capacity.search_results import Answer, Point, answer, figures, point_of
from cluster.results.writing import check_free, json_object, stamp, write_json
from cluster.runs.code_digest import code_of
from cluster.runs.journal import Journal
from cluster.runs.sweep import sweep
from cluster.simulation.engine_setup import metrics_of, nodes_of
from cluster.simulation.faults import make_faults
from cluster.studies.runner import JOURNAL, progress_bar, report_other_code
from plb import PlbError

if TYPE_CHECKING:
    from rich.console import Console

REPORT, PLOT = "capacity.json", "capacity.png"


class CapacitySearch:
    """A search in a directory; its results so far are in `answers`.

    Parameters
    ----------
    subject, question
        The question on a scenario.
    folder
        Directory of the results; created if it does not exist.
    jobs
        Processes; None: one for each core.
    force
        True: another question in the directory is replaced. Finished runs that fit are kept.
    console
        Console for progress and intermediate results.

    Raises
    ------
    ResultsExistError
        The directory has something other than this search, and `force` is False.
    """

    def __init__(
        self,
        subject: Subject,
        question: Question,
        folder: Path,
        *,
        jobs: int | None,
        force: bool,
        console: Console,
    ) -> None:
        self.subject, self.question, self.folder = subject, question, folder
        self._jobs, self._console = jobs, console
        self._code = code_of(run_at)
        self._said_other_code = False
        self.answers: Mapping[str, Answer] = {policy: Answer(policy) for policy in subject.scenario.run.policies}
        if not _is_of(folder, self.asked):
            check_free(folder, force=force, forced="write the answer again, from the finished runs that fit")
            if folder.exists():
                (folder / PLOT).unlink(missing_ok=True)

    @property
    def figures(self) -> dict[str, Any]:
        """Question and answers so far, as plain JSON values."""
        run = self.subject.scenario.run
        return figures(self.question, self.answers, run.repeats, run.days)

    @property
    def code(self) -> dict[str, Any]:
        """What ``versions`` have of the code of the runs."""
        return {"code": self._code}

    @property
    def asked(self) -> dict[str, Any]:
        """The question on a scenario, as plain JSON values."""
        return {"scenario_sha256": self.subject.scenario.digest(), "question": self.figures["question"]}

    def run(self) -> Mapping[str, Answer]:
        """Search to the end, or until Ctrl-C, and write report and plot.

        Raises
        ------
        DensityError
            The cluster cannot hold the tenants even at the easiest value, or the workload has too few.
        PlbError
            A run failed.
        """
        scenario = self.subject.scenario
        with self._console.status("Reading the workload and sampling the tenants ..."):
            source = self.subject.source
            nodes = nodes_of(scenario.cluster, metrics_of(scenario, source))
            make_faults(scenario, nodes)  # raises errors for unknown names
            tenants_at(self.question, scenario, source, self.question.easiest)
        head = stamp(scenario, source)
        head["versions"] |= self.code
        with Journal(self.folder / JOURNAL, self._code) as journal:

            def evaluate(pairs: Sequence[tuple[str, float]]) -> list[Point]:
                return self._evaluate(journal, pairs)

            def note(answers: Mapping[str, Answer]) -> None:
                self.answers = dict(answers)
                write_json(self.folder / REPORT, {**head, **self.figures})

            note(self.answers)
            answer(self.question, scenario.run.policies, evaluate, note)
        save_capacity(self.folder / PLOT, self.question, list(self.answers.values()), scenario.name)
        return self.answers

    def _evaluate(self, journal: Journal, pairs: Sequence[tuple[str, float]]) -> list[Point]:
        """Run policies at values; runs with the same tenants are consecutive."""
        repeats = range(self.subject.scenario.run.repeats)
        runs = sorted((value, repeat, place) for place, (_, value) in enumerate(pairs) for repeat in repeats)
        tasks = [self.subject.task(self.question, value, pairs[place][0], repeat) for value, repeat, place in runs]
        if not self._said_other_code:  # once, as most tasks depend on earlier outcomes
            self._said_other_code = report_other_code(journal, tasks, self._console, self.folder)
        known = sum(task.key in journal.finished for task in tasks)
        name = f"{self.question.searched}: {', '.join(f'{policy} {value:g}' for policy, value in pairs)}"
        quiet = self._console.quiet or known == len(tasks)
        with progress_bar(name, len(tasks), known, quiet) as report:
            outcomes = sweep(run_at, tasks, journal, jobs=self._jobs, progress=report)
        found: list[list[Mapping[str, Any]]] = [[] for _ in pairs]
        for (_, _, place), outcome in zip(runs, outcomes, strict=True):
            if outcome.values is None:
                message = f"a run failed: {outcome.key}: {outcome.last_line}"
                raise PlbError(f"{message}; finished runs are kept in {self.folder}")
            found[place].append(outcome.values)
        points = [point_of(self.question, value, of) for (_, value), of in zip(pairs, found, strict=True)]
        for (policy, _), point in zip(pairs, points, strict=True):
            self._console.print(f"{policy}: {in_words(self.question, point)}")
        return points


def _is_of(folder: Path, asked: Mapping[str, Any]) -> bool:
    """Return whether a directory has the report of the same question."""
    there = json_object(folder / REPORT)
    return there is not None and {name: there.get(name) for name in asked} == asked
