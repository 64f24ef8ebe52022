"""The initial machines of the instances of the contest, as a start for replanning."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from plb.array_types import Int32
from plb.provisioning import Instance, ProvisioningPlan, lower_bound
from workloads.checks import Checker
from workloads.provisioning.building import user_nodes
from workloads.provisioning.contest import MACHINES_FILE, check_resources, read_instances, read_machines
from workloads.provisioning.plans import FROM_FILE
from workloads.provisioning.tables import positions
from workloads.readers.tianchi2018 import INSTANCES_FILE, one_file


def read_contest_placement(directory: str | Path, instance: Instance) -> ProvisioningPlan:
    """Read the initial machines of the instances of the contest; about one in ten has none.

    Nodes have the names of the machines.

    Parameters
    ----------
    directory
        Where the contest's files are.
    instance
        Read from the same files, with the machines as its nodes.

    Raises
    ------
    TraceError
        A file is missing or damaged, or names an application or a machine that is not there, or a machine is of no
        kind that the instance has.
    """
    directory = Path(directory)
    resources = check_resources(instance.resources)
    rows = read_instances(directory, instance.applications)
    machines = read_machines(directory, resources)
    check = Checker(one_file(directory, INSTANCES_FILE))
    on = positions(rows["machine"], machines["machine"].to_list())
    unknown = (on < 0) & rows["machine"].is_not_null().to_numpy()
    check.bad_rows(unknown, "machine", rows["machine"], f"a machine of {MACHINES_FILE}")
    check.raise_problems()
    pairs = pl.DataFrame({"machine": on, "application": rows["application"]}).filter(pl.col("machine") >= 0)
    pairs = pairs.group_by("machine", "application").len("count").sort("machine", "application")
    used, node = np.unique(pairs["machine"].to_numpy(), return_inverse=True)
    of_kind = _kinds(directory, machines, instance)[used]
    return ProvisioningPlan(
        instance=instance,
        kind=of_kind,
        application=pairs["application"].to_numpy(),
        node=node.astype(np.int32),
        count=pairs["count"].cast(pl.Int32).to_numpy(),
        algorithm=FROM_FILE,
        seconds=0.0,
        lower_bound=lower_bound(instance),
        names=tuple(machines["machine"].gather(used).to_list()),
    )


def _kinds(directory: Path, machines: pl.DataFrame, instance: Instance) -> Int32:
    """Return the number of each machine's kind among the node types of the instance."""
    capacity = machines.select(instance.resources).to_numpy()
    kind = np.full(len(machines), -1, np.int32)
    for number, node in reversed(list(enumerate(user_nodes(instance)))):
        kind[(capacity == np.array(node.capacity)).all(axis=1)] = number
    check = Checker(one_file(directory, MACHINES_FILE))
    found = machines.select(pl.concat_str(instance.resources, separator=", ")).to_series()
    allowed = " or ".join(", ".join(f"{value:g}" for value in node.capacity) for node in user_nodes(instance))
    check.bad_rows(kind < 0, ", ".join(instance.resources), found, f"what a node of the instance has, {allowed}")
    check.raise_problems()
    return kind
