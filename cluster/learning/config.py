"""The contents of a learning file: machines, jobs, rewards, training and evaluation. `read_config` reads one from TOML.

Every field has the same name in the file, in the section named like the class: ``[machines]``, ``[jobs]``,
``[bootstrap]``, ``[penalties]``, ``[training]``, ``[evaluation]``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from cluster.learning.baselines import BASELINES
from cluster.learning.episode import HORIZONS, MOST_CELLS, Dimensions, Penalties
from cluster.learning.job_sources import Jobs, RegionSource, TraceSource, expected_steps, longest_of, scaled
from cluster.learning.jobs import SyntheticJobs
from cluster.scenario.digests import digest_of
from cluster.scenario.sections import Section, SectionReader, check_directory_name, count, nearest, read_toml
from plb import InvalidValueError, PlbError, UnknownNameError
from plb.learning.settings import TrainingSettings
from plb.validation import check_count

SYNTHETIC = "synthetic"
JOB_KINDS: Mapping[str, type[Jobs]] = {
    SYNTHETIC: SyntheticJobs,
    "traces": TraceSource,
    "bitbrains": TraceSource,
    "region": RegionSource,
}
"""Values of ``kind`` in a section of jobs, and the classes of its other fields."""
TOP_LEVEL = ("name", "machines", "jobs", "bootstrap", "penalties", "training", "evaluation")
TRAINING_FIELDS = tuple(field.name for field in attrs.fields(TrainingSettings))
BOOTSTRAP_ITERATIONS = 100


@attrs.frozen(kw_only=True)
class EvaluationSection(Section):
    """The evaluation of a trained policy, and its baselines."""

    sequences: int = count(20, low=2)
    """Number of job sequences, which are not used for training. Jobs of traces are from other tenants."""
    machines: tuple[int, ...] = count((), low=1, high=10_000)
    """Numbers of machines. With more than in ``[machines]``, jobs increase in proportion; empty: that number."""
    baselines: tuple[str, ...] = tuple(BASELINES)
    """Names of the baselines (`cluster.learning.baselines.BASELINES`)."""
    seed: int = count(0)
    """Seed of the sequences."""

    @classmethod
    def conflicts(cls, values: Mapping[str, Any]) -> Iterator[tuple[str, PlbError]]:
        """Yield field and error for unknown names of baselines, and for repeated values."""
        for name in values.get("baselines", ()):
            if name not in BASELINES:
                yield "baselines", UnknownNameError("baseline", name, BASELINES, "evaluation")
        for field in ("machines", "baselines"):
            entries = values.get(field, ())
            if len(set(entries)) < len(entries):
                yield field, InvalidValueError("evaluation", field, list(entries), "each once")


@attrs.frozen(kw_only=True)
class LearningConfig:
    """Everything on which a policy and its evaluation depend."""

    name: str = "learning"
    """Name of the policy, for tables and directories."""
    machines: Dimensions = attrs.field(factory=Dimensions)
    """Dimensions of an episode."""
    jobs: Jobs = attrs.field(factory=SyntheticJobs)
    """Jobs of the training and, from other sequences, of the evaluation."""
    bootstrap: Jobs | None = None
    """Jobs of the first stage of the training, for example of historical traces ([4], "Boot-strapping Learning");
    None: there is no such stage."""
    bootstrap_iterations: int = BOOTSTRAP_ITERATIONS
    """Updates of the weights in that stage."""
    penalties: Penalties = attrs.field(factory=Penalties)
    """Penalties of the reward."""
    training: TrainingSettings = attrs.field(factory=TrainingSettings)
    """Settings of the training."""
    evaluation: EvaluationSection = attrs.field(factory=EvaluationSection)
    """Settings of the evaluation."""

    def __attrs_post_init__(self) -> None:
        check_directory_name("learning file", self.name)
        check_count("bootstrap", "iterations", self.bootstrap_iterations, low=1)
        for _, error in out_of_range(self.machines, self.evaluation.machines, self.jobs, self.bootstrap):
            raise error

    def as_json(self) -> dict[str, Any]:
        """Return the configuration as plain JSON values; NumPy numbers become Python numbers."""
        return json.loads(json.dumps(attrs.asdict(self), default=lambda number: number.item()))  # type: ignore[no-any-return]

    def digest(self) -> str:
        """Return the SHA-256 of everything on which the trained policy depends, in hexadecimal digits.

        The evaluation, the name and the directory of the traces do not count.
        """
        plain = self.as_json()
        del plain["evaluation"], plain["name"]
        for jobs in (plain["jobs"], plain["bootstrap"] or {}):
            jobs.pop("path", None)
        return digest_of(plain)


def out_of_range(
    dimensions: Dimensions, evaluated: Sequence[int], jobs: Jobs, bootstrap: Jobs | None
) -> Iterator[tuple[str, PlbError]]:
    """Yield section and error where episodes would need too much memory, or jobs would have an invalid rate.

    `dimensions`: of the training; `evaluated`: further numbers of machines, for the evaluation.
    """
    for section_name, section, counts in (("jobs", jobs, evaluated), ("bootstrap", bootstrap, ())):
        if section is None:
            continue
        for machines in (dimensions.machines, *counts):
            try:
                scaled(section, machines / dimensions.machines)
            except InvalidValueError as error:
                allowed = f"a number with which {error.field} of the jobs, {error.value:g}, is {error.allowed}"
                yield "evaluation", InvalidValueError("evaluation", "machines", machines, allowed)
                continue
            jobs_in_memory, most_steps = _most_jobs_and_steps(attrs.evolve(dimensions, machines=machines))
            if most_steps < 1:
                allowed = f"fewer, with {machines} machines and {len(dimensions.resources)} resources"
                yield "machines", InvalidValueError("machines", "horizon", dimensions.horizon, allowed)
                continue
            most_jobs = int(jobs_in_memory * dimensions.machines / machines)
            sizes = f"with {machines} machines, {len(dimensions.resources)} resources"
            sizes += f" and a horizon of {dimensions.horizon} steps"
            if section.jobs > most_jobs:
                yield (
                    section_name,
                    InvalidValueError(section_name, "jobs", section.jobs, f"a whole number <= {most_jobs}, {sizes}"),
                )
            if expected_steps(section) > most_steps:
                yield (
                    section_name,
                    InvalidValueError(
                        section_name, "jobs / rate", expected_steps(section), f"<= {most_steps}, {sizes}"
                    ),
                )


def _most_jobs_and_steps(dimensions: Dimensions) -> tuple[int, int]:
    """Return the largest number of jobs of an episode, and the largest number of steps until the last arrival."""
    resources = len(dimensions.resources)
    steps = MOST_CELLS // (resources * dimensions.machines) - (HORIZONS + 1) * dimensions.horizon - dimensions.past
    return MOST_CELLS // (resources * dimensions.horizon), steps


def read_config(path: str | Path) -> LearningConfig:
    """Read a learning file, with paths of traces relative to its folder; `ScenarioError` names every problem."""
    file = Path(path)
    text, data = read_toml(file)
    reader = _ConfigReader(text, file.parent)
    return reader.checked(str(path), reader.config({"name": file.stem, **data}))


class _ConfigReader(SectionReader):
    """Reads the tables of a learning file."""

    def config(self, data: Mapping[str, Any]) -> LearningConfig | None:
        """Return the configuration, or None if there is a problem."""
        self.unknown_keys("", data, TOP_LEVEL)
        name = self.value("name", data["name"], str)
        training = self.settings("training", data.get("training", {}), TRAINING_FIELDS, TrainingSettings, {})
        bootstrap = dict(self.table("bootstrap", data.get("bootstrap", {})))
        iterations = self.value("bootstrap.iterations", bootstrap.pop("iterations", BOOTSTRAP_ITERATIONS), int)
        sections = {
            "machines": self.section("machines", data.get("machines", {}), Dimensions),
            "penalties": self.section("penalties", data.get("penalties", {}), Penalties),
            "evaluation": self.section("evaluation", data.get("evaluation", {}), EvaluationSection),
            "jobs": self._jobs("jobs", data.get("jobs", {})),
            "bootstrap": self._jobs("bootstrap", bootstrap) if "bootstrap" in data else None,
        }
        if not self.problems:
            self.attempt("name", lambda: check_directory_name("learning file", name))
            self.attempt("bootstrap.iterations", lambda: check_count("bootstrap", "iterations", iterations, low=1))
            machines, evaluated = sections["machines"], sections["evaluation"].machines
            for dotted_key, error in out_of_range(machines, evaluated, sections["jobs"], sections["bootstrap"]):
                self.add(dotted_key, str(error))
        if self.problems:
            return None
        config = LearningConfig(
            name=name, training=TrainingSettings(**training), bootstrap_iterations=iterations, **sections
        )
        self._agree(config)
        return config

    def _jobs(self, dotted_key: str, table: Any) -> Any:
        """Return the settings of jobs in a table; None if there are problems."""
        fields = dict(self.table(dotted_key, table))
        kind = self.value(f"{dotted_key}.kind", fields.get("kind", SYNTHETIC), str)
        if kind is None:
            return None
        if kind not in JOB_KINDS:
            self.add(f"{dotted_key}.kind", f"unknown kind {kind!r}{nearest(kind, JOB_KINDS)}")
            return None
        if JOB_KINDS[kind] is not TraceSource:
            fields.pop("kind", None)
        jobs = self.section(dotted_key, fields, JOB_KINDS[kind])
        return attrs.evolve(jobs, path=str(self.folder / jobs.path)) if isinstance(jobs, TraceSource) else jobs

    def _agree(self, config: LearningConfig) -> None:
        """Record a problem for jobs whose resources or length do not match the machines."""
        machines = config.machines
        for dotted_key, jobs in (("jobs", config.jobs), ("bootstrap", config.bootstrap)):
            if jobs is None:
                continue
            if jobs.resources != machines.resources:
                self.add(
                    f"{dotted_key}.resources", f"{list(jobs.resources)}; [machines] has {list(machines.resources)}"
                )
            if longest_of(jobs) > machines.horizon:
                self.add(
                    dotted_key,
                    f"jobs of up to {longest_of(jobs)} steps; the horizon of [machines] is {machines.horizon}",
                )
