"""What is fuzzed: a folder of valid files, the one of them that is damaged, and the reader that it is given to."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs
import polars as pl
from hypothesis import strategies as st

from cluster.learning.config import read_config
from cluster.scenario_file import read_scenario
from cluster.studies.carrying_out import check_study
from cluster.studies.provisioning.published import COLUMNS as PUBLISHED_COLUMNS
from cluster.studies.provisioning.published import PublishedMeans
from cluster.sweep import Journal, Outcome
from plb.provisioning import Affinity, provision
from tests.cluster.small_provisioning import base, write_base, write_curves
from tests.robustness import mutations as damaged
from tests.workloads.public_traces import (
    BITBRAINS_HEADER,
    alibaba_meta,
    alibaba_row,
    azure_machine,
    google2011_row,
    google2019_line,
    packing_database,
    text,
)
from tests.workloads.trace_strategies import one_tenant
from workloads.cells import read_cell
from workloads.compression import compress
from workloads.describe import describe
from workloads.format import check_traces, read_traces, write_history, write_traces
from workloads.history_format import read_history
from workloads.provisioning import (
    NodeSpec,
    build_instance,
    read_contest_placement,
    read_instance,
    read_plan,
    write_plan,
)
from workloads.readers import READERS, Options, read_public
from workloads.realisation_files import BITBRAINS_COLUMNS, read_samples
from workloads.task_samples import read_task_samples
from workloads.trace import concatenate

Files = Mapping[str, bytes]
EXAMPLES = Path(__file__).parent.parent.parent / "examples"
OPTIONS = Options(min_hours=0.0)


@attrs.frozen
class Target:
    """A reader and what it reads.

    Parameters
    ----------
    files
        Valid files, by their path in the folder.
    victim
        The one that is damaged.
    damage
        Strategy of its contents.
    read
        Reads the folder.
    """

    files: Files
    victim: str
    damage: st.SearchStrategy[bytes]
    read: Callable[[Path], object]


def _bytes(write: Callable[[Path], object], folder: Path) -> Files:
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


def _table(files: Files, victim: str, read: Callable[[Path], object], separator: str = ",") -> Target:
    return Target(files, victim, damaged.table(files[victim].decode(), separator), read)


def _parquet(files: Files, victim: str, read: Callable[[Path], object], key: str | None = None) -> Target:
    return Target(files, victim, damaged.parquet(files[victim], key), read)


def _public(name: str) -> Callable[[Path], object]:
    return lambda folder: read_public(READERS[name], folder, OPTIONS)


def _plain(frame: pl.DataFrame) -> bytes:
    file = io.BytesIO()
    frame.write_parquet(file)
    return file.getvalue()


def own_formats(scratch: Path) -> dict[str, Target]:
    """Return the targets of the project's own files."""
    traces = _bytes(_traces, scratch / "traces")
    history = _bytes(
        lambda folder: write_history(compress(read_traces(scratch / "traces")), folder / "h.parquet"), scratch / "h"
    )
    samples = (EXAMPLES / "task_samples.csv").read_bytes()
    table = pl.read_csv(samples)
    with Journal(scratch / "journal.jsonl") as outcomes:
        for n in range(3):
            outcomes.add(Outcome(f"k{n}", {"totals": {"x": n}, "timings": {}}, 0.5))
    journal = (scratch / "journal.jsonl").read_text()

    def read_journal(folder: Path) -> None:
        with Journal(folder / "journal.jsonl"):
            pass

    return {
        "scenario": _toml(SCENARIO, read_scenario),
        "learning": _toml(LEARNING, read_config),
        "traces": _parquet(traces, "traces.parquet", read_traces, "plb"),
        "tenants": _parquet(traces, "tenants.parquet", read_traces, "plb"),
        "traces, a batch at a time": _parquet(traces, "traces.parquet", check_traces, "plb"),
        "described traces": _parquet(traces, "tenants.parquet", describe, "plb"),
        "history": _parquet(history, "h.parquet", lambda folder: read_history(folder / "h.parquet"), "plb"),
        "task samples": _table({"s.csv": samples}, "s.csv", lambda folder: read_task_samples(folder / "s.csv")),
        "task samples, Parquet": _parquet(
            {"s.parquet": _plain(table)}, "s.parquet", lambda folder: read_task_samples(folder / "s.parquet")
        ),
        "cell of task samples": _table({"s.csv": samples}, "s.csv", lambda folder: read_cell(folder / "s.csv")),
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
    """Return the targets of instances, plans and what is published about them."""
    instance = build_instance(
        name="tiny",
        resources=("cpu", "memory"),
        applications=["a", "b", "c"],
        replicas=base().replicas[:3],
        demand=base().demand[:3] * 0 + 2.5,
        affinity=Affinity.from_columns([0, 1], [1, 2], [0, 1], 3),
        nodes=[NodeSpec("64x128", (64.0, 128.0), 20)],
    )
    authors = _bytes(lambda folder: write_base(folder / "i.csv"), scratch / "authors")
    contest = _bytes(write_curves, scratch / "contest")
    plan = provision(instance, "FF")
    plans = _bytes(
        lambda folder: (write_plan(folder / "p.csv", plan), write_plan(folder / "p.parquet", plan)), scratch / "p"
    )
    interference, apps, deploy, machines = sorted(contest)
    whole = read_instance(scratch / "contest")
    means = ",".join(PUBLISHED_COLUMNS) + "\nset,group,FF,1.5,2.5\nset,group,BF,1.0,2.0\n"

    def placement(folder: Path) -> None:
        read_contest_placement(folder, whole)

    return {
        "authors' instance": _table(authors, "i.csv", lambda folder: read_instance(folder / "i.csv"), "\t"),
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
        "contest's applications": _table(contest, apps, read_instance),
        "contest's instances": _table(contest, deploy, read_instance),
        "contest's limits": _table(contest, interference, read_instance),
        "contest's machines": _table(contest, machines, read_instance),
        "contest's placement": _table(contest, deploy, placement),
        "machines of a placement": _table(contest, machines, placement),
        "plan": _table(plans, "p.csv", lambda folder: read_plan(folder / "p.csv", instance)),
        "plan, Parquet": _parquet(plans, "p.parquet", lambda folder: read_plan(folder / "p.parquet", instance)),
        "published means": _table({"m.csv": means.encode()}, "m.csv", lambda folder: PublishedMeans(folder / "m.csv")),
    }


def _database(folder: Path) -> None:
    types = [(1, 16, 0.5, 0.25, None, 0.125, 0.0), (2, 16, 0.25, 0.5, 0.0, 0.0, None)]
    packing_database(folder / "t.sqlite", types, [(1, 70, 1, 0, -0.5, 0.5), (2, 70, 2, 1, 89.0, None)])


@st.composite
def _databases(draw: st.DrawFn) -> bytes:
    """Return databases with other values in a few places."""
    types = [[1, 16, 0.5, 0.25, None, 0.125, 0.0], [2, 16, 0.25, 0.5, 0.0, 0.0, None]]
    requests = [[1, 70, 1, 0, -0.5, 0.5], [2, 70, 2, 1, 89.0, None]]
    values = st.one_of(
        st.none(), st.sampled_from((-1, 0, 1e300, -1e300, 1e15, 2**62, "x", "", b"\xff", float("inf"))), st.floats()
    )
    for _ in range(draw(st.integers(1, 3))):
        row = draw(st.sampled_from([*types, *requests]))
        row[draw(st.integers(0, len(row) - 1))] = draw(values)
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE vmType (id, vmTypeId, machineId, core, memory, hdd, ssd, nic)")
    database.execute("CREATE TABLE vm (vmId, tenantId, vmTypeId, priority, starttime, endtime)")
    database.executemany("INSERT INTO vmType VALUES (0, ?, ?, ?, ?, ?, ?, ?)", types)
    database.executemany("INSERT INTO vm VALUES (?, ?, ?, ?, ?, ?)", requests)
    database.commit()
    data = database.serialize()
    database.close()
    return data


def public_formats(scratch: Path) -> dict[str, Target]:
    """Return the targets of public traces."""
    bins = pl.DataFrame(
        {
            "vm": [1] * 30,
            "bin": range(30),
            "cores": [2] * 30,
            "cap_mhz": [4000.0] * 30,
            **dict.fromkeys(BITBRAINS_COLUMNS, [100.0, 200.0, 300.0] * 10),
            "memcap_mb": [2048.0] * 30,
        }
    )
    days = pl.DataFrame({"day": ["20110309", "20110303"], "vm": ["h", "i"], "cpu_pct": [[*range(30)], [4, 5]]})
    google = {"time": [600 * 10**6, 900 * 10**6], "collection_id": [113] * 2, "instance_index": [4] * 2}
    google |= {"avg_cpu_usage": [0.25, 0.75], "avg_memory_usage": [0.125, 0.25], "p90_cpu_usage": [0.3, 0.8]}
    google |= {
        "max_cpu_usage": [0.5, 1.5],
        "max_memory_usage": [0.25, 0.5],
        "cpu_limit": [2.0] * 2,
        "memory_limit": [0.5] * 2,
    }
    flat = _plain(pl.DataFrame(google))
    alibaba = {
        "container_usage.csv": _text([alibaba_row("c_1", at, 50, 20) for at in range(10, 100, 30)]),
        "container_meta.csv": _text([alibaba_meta("c_1", 400, 2.5)]),
    }
    azure = {
        "vmtable.csv": _text([azure_machine("a", 9000, 4, 7)]),
        "vm_cpu_readings-file-1-of-2.csv": _text([[at, "a", 0.0, 2.0, 1.0] for at in (0, 300, 600)]),
    }
    google2011 = {
        "task_usage/part-00000-of-00500.csv": _text([google2011_row(0, 600), google2011_row(0, 900)]),
        "task_events/part-00000-of-00500.csv": _text([[0, None, 9, 0, 77, 0, "user", 2, 9, 0.5, 0.25, 0.5, 0]]),
    }
    lines = "".join(json.dumps(google2019_line(at, 0.25, 0.125)) + "\n" for at in (600, 900))
    events = json.dumps({"collection_id": "113", "instance_index": 4, "resource_request": {"cpus": 2.0, "memory": 1.0}})
    google2019 = {"instance_usage-000.json": lines.encode(), "instance_events-000.json": f"{events}\n".encode()}
    rows = [[1_372_629_600 + at, 4, 8000, 1000, 5, 16, 2, 0, 0, 0, 0] for at in range(0, 1200, 300)]
    published = {"2013-7/1.csv": _text([BITBRAINS_HEADER, *rows], ";\t")}
    packing = _bytes(_database, scratch / "packing")
    return {
        "bitbrains": _table(published, "2013-7/1.csv", _public("bitbrains"), ";"),
        "bitbrains, Parquet": _parquet({"rnd_5min.parquet": _plain(bins)}, "rnd_5min.parquet", _public("bitbrains")),
        "realisations of bitbrains": _parquet({"rnd_5min.parquet": _plain(bins)}, "rnd_5min.parquet", read_samples),
        "planetlab": _table({"20110303/h": b"10\n20\n30\n"}, "20110303/h", _public("planetlab")),
        "planetlab, Parquet": _parquet({"p.parquet": _plain(days)}, "p.parquet", _public("planetlab")),
        "realisations of planetlab": _parquet({"planetlab.parquet": _plain(days)}, "planetlab.parquet", read_samples),
        "alibaba's usage": _table(alibaba, "container_usage.csv", _public("alibaba2018")),
        "alibaba's machines": _table(alibaba, "container_meta.csv", _public("alibaba2018")),
        "azure's readings": _table(azure, "vm_cpu_readings-file-1-of-2.csv", _public("azure2019")),
        "azure's machines": _table(azure, "vmtable.csv", _public("azure2017")),
        "google 2011's usage": _table(google2011, "task_usage/part-00000-of-00500.csv", _public("google2011")),
        "google 2011's events": _table(google2011, "task_events/part-00000-of-00500.csv", _public("google2011")),
        "google 2019's usage": Target(
            google2019, "instance_usage-000.json", damaged.json_lines(lines), _public("google2019")
        ),
        "google 2019's events": Target(
            google2019, "instance_events-000.json", damaged.json_lines(events), _public("google2019")
        ),
        "google 2019, Parquet": _parquet(
            {"x_instance_usage.parquet": flat}, "x_instance_usage.parquet", _public("google2019")
        ),
        "cell of google 2019": _parquet(
            {"google2019_instance_usage_sample.parquet": flat}, "google2019_instance_usage_sample.parquet", read_cell
        ),
        "tianchi's applications": _contest(scratch, 1),
        "tianchi's instances": _contest(scratch, 2),
        "packing": Target(packing, "t.sqlite", _databases(), _public("azure-packing2020")),
        "packing, bytes": Target(
            packing, "t.sqlite", damaged.damaged_bytes(packing["t.sqlite"]), _public("azure-packing2020")
        ),
    }


def _contest(scratch: Path, number: int) -> Target:
    files = _bytes(write_curves, scratch / f"tianchi{number}")
    return _table(files, sorted(files)[number], _public("tianchi2018"))


def _text(rows: list[list[Any]], separator: str = ",") -> bytes:
    return "".join(separator.join("" if one is None else str(one) for one in row) + "\n" for row in rows).encode()


__all__ = ["Target", "own_formats", "provisioning", "public_formats", "text"]
