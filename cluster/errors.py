"""The errors of the simulated cluster. All are `PlbError`, so the command line turns each into a clear message."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import attrs

from plb.errors import PlbError


@attrs.frozen
class ScenarioProblem:
    """One error in a scenario."""

    place: str
    """Key in the file, such as ``"cluster.nodes"``; empty for the file as a whole."""
    message: str
    """What is wrong, and what would be right."""
    line: int | None = None
    """Line in the file, counted from 1; None if unknown."""

    def __str__(self) -> str:
        place_in_file = f"line {self.line}, {self.place}" if self.line is not None else self.place
        return f"{place_in_file}: {self.message}" if place_in_file else self.message


class ScenarioError(PlbError, ValueError):
    """A scenario cannot be run; `problems` lists every error in `source`, a file or another name."""

    def __init__(self, source: str, problems: Sequence[ScenarioProblem]) -> None:
        super().__init__(source, tuple(problems))
        self.source, self.problems = source, tuple(problems)
        self._message = "\n".join(f"{source}: {problem}" for problem in self.problems)


def refusal(source: str, place: str, message: str) -> ScenarioError:
    """Return an error with one problem: what is wrong with the key `place` of a scenario.

    `source`: the file, or another name.
    """
    return ScenarioError(source, [ScenarioProblem(place, message)])


class DensityError(PlbError, ValueError):
    """A tenant density cannot be reached with the given tenants and nodes."""


class ResultsExistError(PlbError, FileExistsError):
    """A results directory is not empty or is a file, or a results file exists already; ``--force`` does `forced`."""

    def __init__(self, folder: Path, of_directory: bool = True, forced: str = "overwrite it") -> None:
        super().__init__(folder, of_directory, forced)
        self.folder, self.of_directory = folder, of_directory
        if not of_directory:
            self._message = f"{folder}: exists already; give another file, or --force to {forced}"
        elif folder.is_dir():
            self._message = f"{folder}: is not empty; give another directory, or --force to {forced}"
        else:
            self._message = f"{folder}: is a file; give a directory"


class ResultsError(PlbError, ValueError):
    """A file of a results directory, or the directory itself, is missing or damaged; `problems` lists every error."""

    def __init__(self, path: Path, problems: Sequence[str]) -> None:
        super().__init__(path, tuple(problems))
        self.path, self.problems = path, tuple(problems)
        self._message = "\n".join(f"{path}: {problem}" for problem in self.problems)


class InstanceFileError(PlbError, ValueError):
    """A file of a public instance cannot be read; the message names the file and what is wrong."""
