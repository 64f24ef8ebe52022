"""The digest of the code that makes runs: it identifies finished runs, with the inputs of each.

The digest covers all modules of the three packages except `PRESENTATION`, so that a new module counts without being
named. It does not cover code of extensions of a scenario, because the scenario has the digests of this code.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import MappingProxyType
from typing import Any

from plb.compiler.source_code import digest_of_modules, digest_of_source, modules_in

PACKAGES = ("plb", "workloads", "cluster")
LIBRARIES = ("numba", "numpy", "scipy", "simpy")
"""Distributions whose versions count: results may differ in the last bits, or in the order of simultaneous events.

PyTorch counts for trainings only (`with_versions`), as few runs of a simulation use a learned policy, and many
installations lack it.
"""
PRESENTATION = (
    "cluster.capacity.report",
    "cluster.cli",
    "cluster.console",
    "cluster.explanation",
    "cluster.plots",
    "cluster.report",
    "cluster.results",
    "cluster.service",
    "cluster.studies.calibration.scores",
    "cluster.studies.figures",
    "cluster.studies.gaussian.figures",
    "cluster.studies.provisioning.figures",
    "cluster.tables",
    "cluster.traces",
)
"""Modules and packages that only ask for runs, or present, store and compare what they return."""


@cache
def roots() -> Mapping[str, Path]:
    """Return the directories of the packages by name."""
    folders = {}
    for name in PACKAGES:
        file = import_module(name).__file__
        assert file is not None
        folders[name] = Path(file).parent
    return MappingProxyType(folders)


@cache
def code_digest() -> str:
    """Return the digest of the code of this process, in hexadecimal digits; its files are read at the first call."""
    return digest_of_code(roots())


def digest_of_code(folders: Mapping[str, Path], presentation: tuple[str, ...] = PRESENTATION) -> str:
    """Return the digest of packages, by name and directory, and of the versions of `LIBRARIES`.

    `presentation`: modules and packages that are left out.
    """
    files: dict[str, Path] = {}
    for folder in folders.values():
        files |= {name: path for name, path in modules_in(folder).items() if not is_below(name, presentation)}
    return with_versions(digest_of_modules(files), *LIBRARIES)


def with_versions(code: str, *libraries: str) -> str:
    """Return a digest of the digest `code` and the versions of `libraries`; libraries that are missing do not count."""
    digest = hashlib.sha256(code.encode())
    for name in libraries:
        with suppress(PackageNotFoundError):
            digest.update(f"\n{name} {version(name)}".encode())
    return digest.hexdigest()


def is_below(module: str, names: tuple[str, ...]) -> bool:
    """Return whether a module is one of `names`, modules and packages, or in such a package."""
    return any(module == name or module.startswith(f"{name}.") for name in names)


@cache
def code_of(run: Callable[..., Any]) -> str:
    """Return the digest of the code that makes the runs of a function.

    It is `code_digest`, combined with the module of the function if that is in none of the packages, such as a user's
    study.
    """
    function = run
    while isinstance(function, functools.partial):
        function = function.func
    function = inspect.unwrap(function)
    if is_below(str(function.__module__), PACKAGES):
        return code_digest()
    try:
        file = Path(inspect.getfile(function))
        source = file.read_bytes()
    except (OSError, TypeError):  # typed into an interpreter, for example
        return code_digest()
    return hashlib.sha256(f"{code_digest()} {digest_of_source(source, file)}".encode()).hexdigest()
