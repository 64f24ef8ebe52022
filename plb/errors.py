"""The errors of the project: one small family.

Misuse raises early, with the item, the field, the value and what would have been allowed. Expected refusals (a replica
that fits on no node, a used budget) are values in a plan, never exceptions.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from os import PathLike, fspath


class PlbError(Exception):
    """Base of every error that this project raises intentionally.

    `args` are the arguments of the constructor, so that an error can be made again: in another process, or by SimPy.
    """

    _message: str | None = None
    """The whole message; None: made from `args`."""

    def __str__(self) -> str:
        return super().__str__() if self._message is None else self._message

    def place(self, place: str) -> None:
        """Put in front of the message where the error was raised, unless it is there."""
        if not str(self).startswith(f"{place}: "):
            self._message = f"{place}: {self}"


class InvalidValueError(PlbError, ValueError):
    """A value is outside its allowed range.

    Parameters
    ----------
    item
        The item with the value, such as ``"node n0"``.
    field
        Field of the item, such as ``"capacities[cpu]"``.
    value
        The refused value.
    allowed
        The allowed range in words, such as ``"a finite number >= 0"``.
    """

    def __init__(self, item: str, field: str, value: object, allowed: str) -> None:
        super().__init__(item, field, value, allowed)
        self.item, self.field, self.value, self.allowed = item, field, value, allowed
        self._message = f"{item}: {field} = {_shown(value)} is not allowed; expected {allowed}"


MOST_SHOWN = 200
"""Largest number of letters of a value that a message shows."""


def _shown(value: object) -> str:
    """Return the `repr` of a value, cut off after `MOST_SHOWN` letters."""
    try:
        text = repr(value)
    except ValueError:  # a whole number of thousands of digits
        return f"<{type(value).__name__}>"
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."


class UnknownNameError(PlbError, LookupError):
    """A name is unknown.

    Parameters
    ----------
    kind
        Kind of the name, such as ``"node"``.
    name
        The unknown name.
    known
        The names that exist; the nearest are suggested, or all of them where none is near and they are few. Where there
        are many, the nearest are sought among names that begin or end alike.
    context
        Context of the name, a prefix of the message.
    """

    def __init__(self, kind: str, name: str, known: Iterable[str] = (), context: str = "") -> None:
        names = list(known)
        super().__init__(kind, name, names, context)
        self.kind, self.name = kind, name
        self.nearest: Sequence[str] = get_close_matches(str(name), _candidates(str(name), names), n=3, cutoff=0.6)
        hint = f"; did you mean {' or '.join(map(repr, self.nearest))}?" if self.nearest else _listed(names)
        prefix = f"{context}: " if context else ""
        self._message = f"{prefix}unknown {kind} {name!r}{hint}"


MOST_LISTED = 16
"""Largest number of names that a message lists if none is near."""
MOST_COMPARED = 1000
"""Largest number of names that are compared letter by letter; all names of a large cluster would take seconds."""


def _candidates(name: str, names: list[str]) -> list[str]:
    """Return the names that are compared with an unknown one.

    Of more than `MOST_COMPARED`, they are its neighbours in alphabetical order, by first letters and by last letters.
    """
    if len(names) <= MOST_COMPARED:
        return names
    forwards = _neighbours_in(name, sorted(names))
    backwards = _neighbours_in(name[::-1], sorted(word[::-1] for word in names))
    return list(dict.fromkeys([*forwards, *(word[::-1] for word in backwards)]))


def _neighbours_in(name: str, ordered: list[str]) -> list[str]:
    """Return the sorted names in `ordered` that are next to the position at which `name` would stand."""
    position = bisect_left(ordered, name)
    return ordered[max(0, position - MOST_COMPARED // 4) : position + MOST_COMPARED // 4]


def _listed(names: list[str]) -> str:
    """Return the end of a message that lists all names, if they are few."""
    return f"; known: {', '.join(map(repr, names))}" if 0 < len(names) <= MOST_LISTED else ""


class ConflictError(PlbError, ValueError):
    """Two things that are each fine contradict one another, such as two primaries of a partition."""


class CheckFailedError(PlbError, AssertionError):
    """A self-check found incremental state that differs from a computation from scratch."""


class KernelError(PlbError):
    """A kernel cannot be compiled; `reason`: the message of the compiler."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name, reason)
        self.name, self.reason = name, reason
        self._message = f"kernel {name} cannot be compiled: {reason}"


class ExtensionError(PlbError):
    """A method or a kernel of an extension has failed; `__cause__` is the error that it raised.

    A `PlbError` that an extension raises reaches the caller with the name of the extension before its text, and an
    interrupt by the user as it is.

    Parameters
    ----------
    kind
        ``"energy term"``, ``"constraint"``, ``"policy"`` or ``"neighbourhood"``.
    name
        Name of the extension.
    method
        The method or kernel, such as ``"delta"``.
    reason
        The error in words.
    """

    def __init__(self, kind: str, name: str, method: str, reason: str) -> None:
        super().__init__(kind, name, method, reason)
        self.kind, self.name, self.method, self.reason = kind, name, method, reason
        self._message = f"{kind} {name}: {method} has failed: {reason}"


EXTRAS: Mapping[str, tuple[str, ...]] = {
    "dask": ("distributed>=2025.1",),
    "learning": ("torch>=2.9", "gymnasium>=1.2"),
    "service": ("httpx>=0.28", "msgspec>=0.20", "prometheus-client>=0.23", "starlette>=1", "uvicorn>=0.40"),
}
"""What commands need beyond the installation: requirements by extra, as in pyproject.toml."""


def project_of(requirement: str) -> str:
    """Return the name of a requirement without its versions."""
    return re.split(r"[^\w.-]", requirement, maxsplit=1)[0]


def extra_of(module: str) -> str | None:
    """Return the extra that a module belongs to."""
    project = module.partition(".")[0].replace("_", "-")
    extras = (extra for extra, needed in EXTRAS.items() if project in map(project_of, needed))
    return next(extras, None)


class MissingExtraError(PlbError, ImportError):
    """A package of an extra of this project, such as ``"torch"`` of ``"learning"``, is not installed."""

    def __init__(self, package: str, extra: str = "learning") -> None:
        super().__init__(package, extra)
        self.package, self.extra = package, extra
        needed = " ".join(f"'{requirement}'" for requirement in EXTRAS.get(extra, (package,)))
        self._message = f"{package} is not installed. It belongs to the extra {extra!r}: pip install {needed}"


class CheckpointError(PlbError):
    """A file holds no policy that can be used here, for a reason in words."""

    def __init__(self, path: str | PathLike[str], reason: str) -> None:
        super().__init__(path, reason)
        self.path, self.reason = path, reason
        self._message = f"checkpoint {fspath(path)}: {reason}"


class DivergedError(PlbError):
    """Numbers of the training are not finite: `what`, in words with a verb, in an iteration, from 1."""

    def __init__(self, iteration: int, what: str) -> None:
        super().__init__(iteration, what)
        self.iteration, self.what = iteration, what
        self._message = (
            f"training diverged in iteration {iteration}: {what} not finite; a smaller learning rate may help, "
            "and a game must give finite observations and rewards"
        )


class InsufficientCapacityError(PlbError):
    """An application reserves, or a new service needs, more than the cluster has left; nothing is changed.

    Service Fabric calls the error InsufficientClusterCapacity.

    Parameters
    ----------
    item
        The application or the service, such as ``"application web"``.
    metric
        Name of the metric.
    needed, left
        What it needs further, and what the cluster has left, in user units.
    """

    def __init__(self, item: str, metric: str, needed: float, left: float) -> None:
        super().__init__(item, metric, needed, left)
        self.item, self.metric, self.needed, self.left = item, metric, needed, left
        self._message = f"{item}: needs {needed:g} {metric}, but the cluster has {left:g} left"


class NoPlanError(PlbError):
    """An algorithm finds no place for all replicas of an instance on the nodes that there are."""

    def __init__(self, instance: str, algorithm: str, nodes: int) -> None:
        super().__init__(instance, algorithm, nodes)
        self._message = f"instance {instance}: {algorithm} cannot place all replicas on {nodes:,} nodes"


class NoCapacityError(PlbError):
    """A replica fits on no node, with the others on theirs."""

    def __init__(self, instance: str, application: str) -> None:
        super().__init__(instance, application)
        self._message = (
            f"instance {instance}: application {application} fits on no node, with the other replicas on theirs"
        )
