"""Fuzzing targets: a folder of valid files, the damaged one of them, and its reader."""

from __future__ import annotations

import bz2
import gzip
import io
from collections.abc import Callable, Mapping
from pathlib import Path

import attrs
import polars as pl
from hypothesis import strategies as st

from cluster.learning.config import read_config
from cluster.runs.journal import Journal, TaskOutcome
from cluster.scenario.scenario_file import read_scenario
from cluster.studies.provisioning.design import COLUMNS as PUBLISHED_COLUMNS
from cluster.studies.provisioning.design import PublishedMeans
from cluster.studies.runner import check_study
from plb.provisioning import Affinity, provision
from tests.cluster.small_provisioning import base, write_base, write_curves
from tests.robustness import mutations as damaged
from tests.robustness.commands import EXAMPLES
from tests.robustness.parquet_mutations import parquet as damaged_parquet
from tests.workloads.trace_strategies import one_tenant
from workloads.compression import compress
from workloads.provisioning import (
    NodeSpec,
    build_instance,
    read_contest_placement,
    read_instance,
    read_plan,
    write_plan,
)
from workloads.task_samples import read_cell, read_task_samples
from workloads.trace import concatenate
from workloads.trace_description import describe
from workloads.trace_files import check_traces, read_history, read_traces, write_history, write_traces

Files = Mapping[str, bytes]


@attrs.frozen
class Target:
    """A reader and its valid files, by path in the folder."""

    files: Files
    victim: str
    """Path of the damaged file."""
    damage: st.SearchStrategy[bytes]
    """Its contents."""
    read: Callable[[Path], object]


def written_by(write: Callable[[Path], object], folder: Path) -> Files:
    """Return the files that a function writes into an empty folder."""
    folder.mkdir(parents=True)
    write(folder)
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


SCENARIO = """
name = "small"

[cluster]
nodes = 10
capacities = { cpu = 128.0, memory = 1000.0, disk = 4000.0 }
upgrade_domains = 5
groups = [{ nodes = 2, capacities = { cpu = 64.0, memory = 500.0, disk = 2000.0 } }]

[workload]
density = 1.5
history_tenants = 300
region_parameters = { size_bias = 1.1 }
growth = [{ tenant_class = "GP_*", at_hours = 1.0, hours = 0.5, factor = 1.5 }]

[run]
days = 0.1
seed = 3
policies = ["original", "own"]

[metrics.cpu]
weight = 2.0

[faults]
crashes = [{ node = "n3", at_hours = 1.0, hours = 0.5 }]

[upgrades]
starts_hours = [1.5]

[engine]
chains = 1
repetitions = 20

[policies.own]
w_failovers = 0.2
"""
LEARNING = """
name = "small"

[machines]
machines = 3
resources = ["cpu", "memory"]

[bootstrap]
jobs = 6
long_steps = [4, 6]
iterations = 2

[jobs]
kind = "region"
region = "region1"
jobs = 8
steps = [2, 5]

[training]
iterations = 3
sequences = 2
hidden = 8

[evaluation]
sequences = 2
baselines = ["tetris-mean", "best-fit-peak"]
machines = [3, 6]
"""


def _toml(text: str, read: Callable[[Path], object]) -> Target:
    return Target(
        {"file.toml": text.encode()}, "file.toml", damaged.toml(text), lambda folder: read(folder / "file.toml")
    )


def _traces(folder: Path) -> None:
    write_traces(concatenate([one_tenant([1.0, 2.0, 3.0], name="a"), one_tenant([4.0, 5.0], name="b")]), folder)


def table_target(files: Files, victim: str, read: Callable[[Path], object], separator: str = ",") -> Target:
    return Target(files, victim, damaged.table(files[victim].decode(), separator), read)


def parquet_target(files: Files, victim: str, read: Callable[[Path], object], key: str | None = None) -> Target:
    """Return a target whose damaged file is Parquet, with JSON under a key of its metadata."""
    return Target(files, victim, damaged_parquet(files[victim], key), read)


def as_parquet(frame: pl.DataFrame) -> bytes:
    file = io.BytesIO()
    frame.write_parquet(file)
    return file.getvalue()


def project_formats(scratch: Path) -> dict[str, Target]:
    traces = written_by(_traces, scratch / "traces")
    history = written_by(
        lambda folder: write_history(compress(read_traces(scratch / "traces")), folder / "h.parquet"), scratch / "h"
    )
    samples = (EXAMPLES / "task_samples.csv").read_bytes()
    table = pl.read_csv(samples)
    with Journal(scratch / "journal.jsonl", "code") as outcomes:
        for n in range(3):
            outcomes.add(TaskOutcome(f"k{n}", {"totals": {"x": n}, "timings": {}}, 0.5))
    journal = (scratch / "journal.jsonl").read_text()

    def read_journal(folder: Path) -> None:
        with Journal(folder / "journal.jsonl", "code"):
            pass

    return {
        "scenario": _toml(SCENARIO, read_scenario),
        "learning": _toml(LEARNING, read_config),
        "traces": parquet_target(traces, "traces.parquet", read_traces, "plb"),
        "tenants": parquet_target(traces, "tenants.parquet", read_traces, "plb"),
        "traces, a batch at a time": parquet_target(traces, "traces.parquet", check_traces, "plb"),
        "described traces": parquet_target(traces, "tenants.parquet", describe, "plb"),
        "history": parquet_target(history, "h.parquet", lambda folder: read_history(folder / "h.parquet"), "plb"),
        "task samples": table_target({"s.csv": samples}, "s.csv", lambda folder: read_task_samples(folder / "s.csv")),
        "task samples, Parquet": parquet_target(
            {"s.parquet": as_parquet(table)}, "s.parquet", lambda folder: read_task_samples(folder / "s.parquet")
        ),
        "cell of task samples": table_target({"s.csv": samples}, "s.csv", lambda folder: read_cell(folder / "s.csv")),
        "journal": Target(
            {"journal.jsonl": journal.encode()}, "journal.jsonl", damaged.json_lines(journal), read_journal
        ),
        "study": Target(
            {"study.json": b'{"study": "annealing", "versions": {"plb": "1"}}'},
            "study.json",
            damaged.json_file('{"study": "annealing", "versions": {"plb": "1"}}'),
            lambda folder: check_study(folder / "study.json", "annealing"),
        ),
    }


def provisioning(scratch: Path) -> dict[str, Target]:
    """Return the targets of instances, plans and published means."""
    instance = build_instance(
        name="tiny",
        resources=("cpu", "memory"),
        applications=["a", "b", "c"],
        replicas=base().replicas[:3],
        demand=base().demand[:3] * 0 + 2.5,
        affinity=Affinity.from_columns([0, 1], [1, 2], [0, 1], 3),
        nodes=[NodeSpec("64x128", (64.0, 128.0), 20)],
    )
    authors = written_by(lambda folder: write_base(folder / "i.csv"), scratch / "authors")
    contest = written_by(write_curves, scratch / "contest")
    plan = provision(instance, "FF")
    plans = written_by(
        lambda folder: (write_plan(folder / "p.csv", plan), write_plan(folder / "p.parquet", plan)), scratch / "p"
    )
    interference, apps, deploy, machines = sorted(contest)
    whole = read_instance(scratch / "contest")
    means = ",".join(PUBLISHED_COLUMNS) + "\nset,group,FF,1.5,2.5\nset,group,BF,1.0,2.0\n"

    def placement(folder: Path) -> None:
        read_contest_placement(folder, whole)

    return {
        "authors' instance": table_target(authors, "i.csv", lambda folder: read_instance(folder / "i.csv"), "\t"),
        "authors' instance, packed": Target(
            {"i.csv.gz": gzip.compress(authors["i.csv"])},
            "i.csv.gz",
            damaged.damaged_bytes(gzip.compress(authors["i.csv"], mtime=0)),
            lambda folder: read_instance(folder / "i.csv.gz"),
        ),
        "authors' instance, packed otherwise": Target(
            {"i.csv.bz2": bz2.compress(authors["i.csv"])},
            "i.csv.bz2",
            damaged.damaged_bytes(bz2.compress(authors["i.csv"])),
            lambda folder: read_instance(folder / "i.csv.bz2"),
        ),
        "contest's applications": table_target(contest, apps, read_instance),
        "contest's instances": table_target(contest, deploy, read_instance),
        "contest's limits": table_target(contest, interference, read_instance),
        "contest's machines": table_target(contest, machines, read_instance),
        "contest's placement": table_target(contest, deploy, placement),
        "machines of a placement": table_target(contest, machines, placement),
        "plan": table_target(plans, "p.csv", lambda folder: read_plan(folder / "p.csv", instance)),
        "plan, Parquet": parquet_target(plans, "p.parquet", lambda folder: read_plan(folder / "p.parquet", instance)),
        "published means": table_target(
            {"m.csv": means.encode()}, "m.csv", lambda folder: PublishedMeans(folder / "m.csv")
        ),
    }
