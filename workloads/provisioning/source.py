"""Instances of provisioning in any format."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from plb.errors import InvalidValueError
from plb.provisioning import Instance
from workloads.provisioning.authors import read_authors
from workloads.provisioning.contest import read_contest
from workloads.provisioning.user_units import PAPER_NODES, NodeSpec

_NODE = re.compile(r"((?P<name>[^=,]+)=)?(?P<capacity>\d+(\.\d+)?(,\d+(\.\d+)?)*)(x(?P<count>\d{1,9}))?")


def read_instance(path: str | Path, nodes: Sequence[NodeSpec] | None = None) -> Instance:
    """Read an instance: the files of the contest if the path is a directory, else a file of the authors of [3].

    Parameters
    ----------
    path
        File or directory.
    nodes
        The kinds of nodes, those to be used first in front. None: the contest's machines, and for the authors' files
        those of [3] section 5.1.

    Raises
    ------
    TraceError, InvalidValueError
        As `read_contest` and `read_authors` do.
    """
    path = Path(path)
    if path.is_dir():
        return read_contest(path, nodes=nodes)
    return read_authors(path, nodes=PAPER_NODES if nodes is None else nodes)


def parse_nodes(specs: Sequence[str]) -> list[NodeSpec]:
    """Return kinds of nodes from texts: ``64,128``, ``large=92,288`` or ``large=92,288x3000``.

    Raises
    ------
    InvalidValueError
        A text is not valid.
    """
    return [_parse_node(number, text) for number, text in enumerate(specs)]


def _parse_node(number: int, text: str) -> NodeSpec:
    match = _NODE.fullmatch(text.strip())
    if match is None:
        raise InvalidValueError("nodes", f"kind {number}", text, "capacities such as 64,128 or large=92,288x3000")
    capacity = tuple(float(value) for value in match["capacity"].split(","))
    count = None if match["count"] is None else int(match["count"])
    return NodeSpec(match["name"] or ("node" if number == 0 else f"node{number + 1}"), capacity, count)
