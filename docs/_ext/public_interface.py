"""Public Python interface, errors and tables of results as Markdown, from the code."""

from __future__ import annotations

import inspect
from importlib import import_module
from pkgutil import walk_packages
from typing import Any

from docstrings import summary

import cluster
import plb
import workloads
from cluster.simulation.run_tables import column_descriptions
from plb import PlbError


def interface(module: str, *names: str) -> str:
    """Return names of a module with their docstrings: those that are given, then the others that it exports."""
    found = import_module(module)
    requested = dict.fromkeys([*names, *getattr(found, "__all__", ())])
    return "\n\n".join(_documented(module, name, getattr(found, name)) for name in requested)


def errors() -> str:
    """Return every error of the project: where it comes from, and what it means."""
    for package in (plb, workloads, cluster):
        for one in walk_packages(package.__path__, f"{package.__name__}."):
            if one.name.endswith("errors"):
                import_module(one.name)
    rows = [
        f"| `{kind.__module__}.{kind.__name__}` | {_others(kind)} | {' '.join(summary(kind).split())} |"
        for kind in sorted(_subclasses(PlbError), key=lambda kind: (kind.__module__, kind.__name__))
    ]
    return "\n".join(["| error | is also | meaning |", "|---|---|---|", *rows])


def result_tables() -> str:
    """Return the tables of a results directory, column by column."""
    return "\n\n".join(
        "\n".join(
            [
                f"## {table}.parquet\n",
                "| column | type | meaning |\n|---|---|---|",
                *(f"| `{name}` | {one['type']} | {one['meaning']} |" for name, one in columns.items()),
            ]
        )
        for table, columns in column_descriptions().items()
    )


def _documented(module: str, name: str, member: Any) -> str:
    if inspect.isclass(member):
        directive, options = "autoclass", "   :members:\n   :inherited-members: Exception, object, int, str, Protocol\n"
    elif callable(member):
        directive, options = "autofunction", ""
    else:
        return f"## {name}\n\n```python\n{name} = {member!r}\n```"
    return f"## {name}\n\n```{{eval-rst}}\n.. {directive}:: {module}.{name}\n{options}```"


def _subclasses(kind: type) -> set[type]:
    return {kind}.union(*(_subclasses(one) for one in kind.__subclasses__()))


def _others(kind: type) -> str:
    names = [base.__name__ for base in kind.__mro__[1:] if base.__module__ == "builtins"]
    return ", ".join(f"`{name}`" for name in names if name not in ("object", "Exception", "BaseException"))
