"""The entry point of ``plb``, outside of its packages: it says where another module hides one of them."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec

PACKAGES = ("cluster", "workloads", "plb")
BAD_INPUT = 2
"""`cluster.console.BAD_INPUT`, which may be hidden."""


def main() -> None:
    """Run the command line, if all packages are those beside this file."""
    folder = os.path.dirname(os.path.realpath(__file__))
    for name in PACKAGES:
        place = _place(name)
        if place is None or os.path.dirname(os.path.realpath(place)) != os.path.join(folder, name):
            sys.stderr.write(_message(name, place, folder))
            raise SystemExit(BAD_INPUT)
    from cluster.cli.start import main as run

    run()


def _place(name: str) -> str | None:
    """Return the file that an import of this name loads, or a file that its folder would have; None: there is none."""
    spec = find_spec(name)
    if spec is None:
        return None
    folders = list(spec.submodule_search_locations or [])
    return spec.origin if spec.has_location or not folders else os.path.join(folders[0], "__init__.py")


def _message(name: str, place: str | None, folder: str) -> str:
    package = os.path.join(folder, name)
    if place is None:
        return f"plb: its package {name!r} is missing in {folder}; install plb again\n"
    return (
        f"plb: {place} hides {package}, because both are called {name!r}. Rename it, take its folder out of PYTHONPATH "
        "or uninstall its distribution; docs/troubleshooting.md says more\n"
    )
