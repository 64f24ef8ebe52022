"""Instances of provisioning, whatever they are written in."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from plb.provisioning import Instance
from workloads.provisioning.authors import read_authors
from workloads.provisioning.building import PAPER_NODES, NodeSpec
from workloads.provisioning.contest import read_contest


def read_instance(path: str | Path, nodes: Sequence[NodeSpec] | None = None) -> Instance:
    """Read an instance: of the contest's files where the path is a directory, else of a file of [3]'s authors.

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
