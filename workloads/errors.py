"""Errors of trace files: all problems of a file at once, each with its row and its column."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from plb.errors import PlbError

MAX_LISTED = 20
"""Problems that a message spells out; the rest are counted."""


@attrs.frozen
class TraceProblem:
    """One thing that is wrong with a trace file.

    Parameters
    ----------
    file
        Path of the file.
    row
        First row where it shows, counted from 1; None where the whole column or file is meant.
    column
        Name of the column; None if the problem is in the whole row or file.
    found
        The value.
    expected
        The expected value.
    count
        Number of all rows with the same problem, given with the last of those that are listed; 1 with the others.
    """

    file: str
    row: int | None
    column: str | None
    found: str
    expected: str
    count: int = 1

    def __str__(self) -> str:
        place = [self.file]
        if self.row is not None:
            place.append(f"row {self.row}")
        if self.column is not None:
            place.append(f"column {self.column}")
        more = f" ({self.count} rows in all)" if self.count > 1 else ""
        return f"{', '.join(place)}: found {self.found}; expected {self.expected}{more}"


class TraceError(PlbError, ValueError):
    """A trace file cannot be used; `problems` holds every problem that was found in it.

    Parameters
    ----------
    problems
        At least one problem.
    """

    def __init__(self, problems: Sequence[TraceProblem]) -> None:
        super().__init__(tuple(problems))
        self.problems = tuple(problems)
        lines = [str(problem) for problem in self.problems[:MAX_LISTED]]
        if len(self.problems) > MAX_LISTED:
            lines.append(f"... and {len(self.problems) - MAX_LISTED} more problems")
        self._message = "\n".join(lines)
