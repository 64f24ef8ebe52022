"""Runs a search, with progress, in a directory that keeps finished runs, and writes a report at the end.

::

    OUT/journal.jsonl    the finished runs in the order in which they ended; a search resumes from here
    OUT/capacity.json    scenario, versions, question, all tried values, answers; the same bytes for any --jobs
    OUT/capacity.png     violations a day by nodes or density
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from cluster.capacity.question import Question, Searched
from cluster.capacity.report import Answer, Point, answer, differences, figures, in_words, point_of, save_capacity
from cluster.errors import DensityError
from cluster.results.writing import check_free, json_object, stamp, write_json
from cluster.runs.code_digest import code_of
from cluster.runs.journal import Journal
from cluster.runs.sweep import Task, sweep
from cluster.scenario.digests import code_of_tenants_in
from cluster.scenario.scenario import Scenario
from cluster.scenario.scenario_file import override, read_scenario
from cluster.simulation.faults import make_faults
from cluster.simulation.ledger import check_classes
from cluster.simulation.services import metrics_of, nodes_of
from cluster.simulation.tenant_arrivals import TenantSequence, make_tenants
from cluster.simulation.tenant_pools import Source, read_source
from cluster.studies.base import digests_of_inputs
from cluster.studies.design import digest, on_one_thread, totals_and_timings
from cluster.studies.runner import JOURNAL, progress_bar, report_other_code
from plb import PlbError

if TYPE_CHECKING:
    from rich.console import Console


@attrs.frozen(eq=False)
class Subject:
    """The scenario of the question, from its file and the command line."""

    file: str
    """The scenario file."""
    overrides: Mapping[str, Any]
    """Changes of the command line: keywords of `cluster.scenario.scenario_file.override`, as plain JSON values."""
    scenario: Scenario
    """The resulting scenario."""
    inputs: Mapping[str, str]
    """Digests of the files with its tenants, or of the region and of the code that makes its tenants."""

    @classmethod
    def read(cls, file: Path, changes: Mapping[str, Any]) -> Subject:
        """Read a scenario; None keeps the value of the file. Raises `ScenarioError` if a policy lacks a history."""
        traces = changes.get("traces")
        scenario = override(read_scenario(file), **{**changes, "traces": None if traces is None else Path(traces)})
        scenario.check_history()
        inputs = digests_of_inputs(scenario) | code_of_tenants_in(scenario.workload.kind)
        return cls(str(file), changes, scenario, inputs)

    @property
    def source(self) -> Source:
        """Source of its tenants, which is read once."""
        return _read(_text(self._as_json()))[1]

    def _as_json(self) -> dict[str, Any]:
        """Return the subject as plain JSON values, with digests that tell whether it has changed."""
        return {
            "file": self.file,
            "overrides": dict(self.overrides),
            "scenario_sha256": self.scenario.digest(),
            "inputs": dict(self.inputs),
        }

    def task(self, question: Question, value: float, policy: str, repeat: int) -> Task:
        """Return the run of a policy at a value; its key has all that the run depends on, so not limits and range."""
        varied = question.scenario(self.scenario, value)
        run = attrs.evolve(varied.run, policies=(policy,), repeats=1)
        capacity = {"capacity": self.scenario.cluster.total_capacity(self.scenario.workload.density_metric)}
        key = digest(attrs.evolve(varied, run=run).as_json(), capacity, self.inputs)
        arguments = {
            "subject": self._as_json(),
            "question": attrs.asdict(question),
            "value": value,
            "policy": policy,
            "repeat": repeat,
        }
        return Task(f"{value:g} {question.searched}, {policy}, repeat {repeat}, {key}", arguments)


def run_at(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Simulate a task; return ``totals`` and ``timings``; or the reason why the tenants cannot be made."""
    subject, question = (_text(arguments[name]) for name in ("subject", "question"))
    scenario, source = _read(subject)
    value, repeat = float(arguments["value"]), int(arguments["repeat"])
    varied = _question(question).scenario(scenario, value)
    try:
        tenants = _tenants(subject, question, value, repeat)
    except DensityError as error:
        return {"impossible": str(error)}
    return totals_and_timings(on_one_thread(varied), source.of_repeat(repeat), tenants, arguments["policy"], repeat)


def tenants_at(question: Question, scenario: Scenario, source: Source, value: float, repeat: int = 0) -> TenantSequence:
    """Return the tenants of a repeat at a value: the same for all numbers of nodes, others for another density."""
    varied, source = question.scenario(scenario, value), source.of_repeat(repeat)
    if question.searched is Searched.DENSITY:
        tenants = make_tenants(varied, source, repeat)
    else:
        tenants = make_tenants(scenario, source, repeat, cluster_of_tenants=varied.cluster)
    check_classes(scenario.workload.growth, tenants.traces)
    return tenants


def _text(table: Mapping[str, Any]) -> str:
    """Return a table as a text, which is the key of a cache."""
    return json.dumps(table, sort_keys=True)


def _question(text: str) -> Question:
    """Return the question whose fields are in a JSON text."""
    fields = json.loads(text)
    return Question(**{**fields, "searched": Searched(fields["searched"])})


@lru_cache(maxsize=1)
def _read(subject: str) -> tuple[Scenario, Source]:
    """Return the scenario of a subject, and the source of its tenants."""
    fields = json.loads(subject)
    read = Subject.read(Path(fields["file"]), fields["overrides"])
    if (read.scenario.digest(), dict(read.inputs)) != (fields["scenario_sha256"], fields["inputs"]):
        raise PlbError(f"{read.file}: the file or its inputs have changed since the search began; use --force")
    return read.scenario, read_source(read.scenario)


@lru_cache(maxsize=1)  # runs with the same tenants are consecutive, and traces are large
def _tenants(subject: str, question: str, value: float, repeat: int) -> TenantSequence:
    """Return the tenants of `tenants_at`; subject and question are JSON texts, which can be keys of the cache."""
    return tenants_at(_question(question), *_read(subject), value, repeat)


REPORT, PLOT = "capacity.json", "capacity.png"


class CapacitySearch:
    """A search in a directory, where `force` replaces another question; its results so far are in `answers`."""

    def __init__(
        self,
        subject: Subject,
        question: Question,
        folder: Path,
        *,
        jobs: int | None,
        force: bool,
        console: Console,
        each_repeat: bool = False,
    ) -> None:
        """Begin a search, or go on with the same one in `folder`; `jobs`: processes; `force`: replace another one."""
        self.subject, self.question, self.folder = subject, question, folder
        self.each_repeat = each_repeat
        """Whether each repeat is also searched by itself."""
        self.found_by_repeat: Mapping[str, Sequence[float | None]] = {}
        """The value that suffices in each repeat, by policy; None if there is none. Empty before they are known."""
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
        plain = figures(self.question, self.answers, run.repeats, run.days)
        if not self.each_repeat:
            return plain
        plain["question"]["each_repeat"] = True
        plain["complete"] &= bool(self.found_by_repeat)
        answers = {policy: list(values) for policy, values in self.found_by_repeat.items()}
        return {**plain, "repeats": answers, "differences": differences(answers)}

    @property
    def code(self) -> dict[str, Any]:
        """What ``versions`` have of the code of the runs."""
        return {"code": self._code}

    @property
    def asked(self) -> dict[str, Any]:
        """The question on a scenario, as plain JSON values."""
        return {"scenario_sha256": self.subject.scenario.digest(), "question": self.figures["question"]}

    def run(self) -> Mapping[str, Answer]:
        """Search to the end, or until Ctrl-C, and write report and plot."""
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
            if self.each_repeat:
                self.found_by_repeat = self._search_each_repeat(journal)
                note(self.answers)
        save_capacity(self.folder / PLOT, self.question, list(self.answers.values()), scenario.name)
        return self.answers

    def _search_each_repeat(self, journal: Journal) -> dict[str, list[float | None]]:
        """Return the value that suffices in each repeat, by policy."""
        run = self.subject.scenario.run
        searches = {f"{policy} {repeat}": (repeat, policy) for policy in run.policies for repeat in range(run.repeats)}

        def evaluate(pairs: Sequence[tuple[str, float]]) -> list[Point]:
            triples = [(value, *searches[name]) for name, value in pairs]
            outcomes = self._outcomes(journal, "each repeat", triples)
            return [
                point_of(self.question, value, [outcome])
                for (value, *_), outcome in zip(triples, outcomes, strict=True)
            ]

        answers = answer(self.question, list(searches), evaluate)
        return {
            policy: [answers[f"{policy} {repeat}"].found for repeat in range(run.repeats)] for policy in run.policies
        }

    def _evaluate(self, journal: Journal, pairs: Sequence[tuple[str, float]]) -> list[Point]:
        """Run all repeats of each pair of a policy and a number of nodes or a density; return results by pair."""
        repeats = range(self.subject.scenario.run.repeats)
        triples = [(value, repeat, policy) for policy, value in pairs for repeat in repeats]
        name = ", ".join(f"{policy} {value:g}" for policy, value in pairs)
        outcomes = iter(self._outcomes(journal, name, triples))
        points = [point_of(self.question, value, [next(outcomes) for _ in repeats]) for _, value in pairs]
        for (policy, _), point in zip(pairs, points, strict=True):
            self._console.print(f"{policy}: {in_words(self.question, point)}")
        return points

    def _outcomes(
        self, journal: Journal, name: str, asked: Sequence[tuple[float, int, str]]
    ) -> list[Mapping[str, Any]]:
        """Return totals and timings of each value, repeat and policy `asked`, in order; `name`: for the progress."""
        order = sorted(range(len(asked)), key=lambda place: asked[place][:2])  # with the same tenants one after another
        tasks = [self.subject.task(self.question, value, policy, repeat) for value, repeat, policy in asked]
        tasks = [tasks[place] for place in order]
        if not self._said_other_code:  # once, as most tasks depend on earlier outcomes
            self._said_other_code = report_other_code(journal, tasks, self._console, self.folder)
        finished = sum(task.key in journal.finished for task in tasks)
        quiet = self._console.quiet or finished == len(tasks)
        with progress_bar(f"{self.question.searched}: {name}", len(tasks), finished, quiet) as report:
            outcomes = sweep(run_at, tasks, journal, jobs=self._jobs, progress=report)
        values: dict[int, Mapping[str, Any]] = {}
        for place, outcome in zip(order, outcomes, strict=True):
            if outcome.values is None:
                message = f"a run failed: {outcome.key}: {outcome.last_line}"
                raise PlbError(f"{message}; finished runs are kept in {self.folder}")
            values[place] = outcome.values
        return [values[place] for place in range(len(asked))]


def _is_of(folder: Path, asked: Mapping[str, Any]) -> bool:
    """Return whether the report in a directory has the question `asked`, so that its search may continue."""
    there = json_object(folder / REPORT)
    return there is not None and {name: there.get(name) for name in asked} == asked
