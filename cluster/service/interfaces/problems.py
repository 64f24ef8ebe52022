"""Errors over HTTP: each becomes a document of the type ``application/problem+json`` (RFC 9457)."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from cluster.service.events import RequestError
from cluster.service.log import LogError
from cluster.service.replica import DefectError
from plb import errors
from plb.errors import PlbError

logger = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
STATUSES: Mapping[type[PlbError], int] = {
    RequestError: 400,
    errors.UnknownNameError: 404,
    errors.InsufficientCapacityError: 409,
    errors.ConflictError: 409,
    LogError: 503,
    errors.ExtensionError: 500,
    errors.KernelError: 500,
    DefectError: 500,
    PlbError: 422,
}
"""Status by class of error; the first that fits."""
FULL = 507
"""Status where the disk is full."""
FULL_WORDS = "cannot be written: .*(is full|disk I/O error)"
"""What SQLite says then, also at a limit of the size of files, and beyond a quota."""
PARTS = {"item": "item", "field": "field", "allowed": "allowed", "problem": "allowed", "name": "name", "kind": "item"}
"""Field of a problem by attribute of an error."""


class RefusedError(PlbError):
    """The service does not accept a request, whatever the cluster is; `status`: of HTTP."""

    def __init__(self, status: int, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(status, detail, headers)
        self.status, self.headers = status, headers
        self._message = detail


class HttpProblem(msgspec.Struct, omit_defaults=True):
    """Why a request, or an event of one, was refused."""

    type: str
    """Kind of the problem, the same for all of the kind."""
    title: str
    """The kind in words."""
    status: int
    """Status of HTTP."""
    detail: str
    """What is wrong, and what would be right."""
    item: str | None = None
    """The item that it is about, such as ``node n0``."""
    field: str | None = None
    """Field of the item."""
    name: str | None = None
    """The name that is not known."""
    allowed: str | None = None
    """The allowed values in words."""


def status_of(error: PlbError) -> int:
    """Return the status of HTTP of an error."""
    if isinstance(error, RefusedError):
        return error.status
    if isinstance(error, LogError) and re.search(FULL_WORDS, str(error)):
        return FULL
    return next(status for kind, status in STATUSES.items() if isinstance(error, kind))


def problem_of(error: PlbError) -> HttpProblem:
    """Return the problem that an error is."""
    name = type(error).__name__.removesuffix("Error")
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()
    parts = {PARTS[key]: getattr(error, key) for key in PARTS if isinstance(getattr(error, key, None), str)}
    kind = f"urn:plb:{words.replace(' ', '-')}"
    return HttpProblem(kind, words.capitalize(), status_of(error), str(error), **parts)


def response_of(problem: HttpProblem, headers: Mapping[str, str] | None = None) -> Response:
    """Return the response with a problem."""
    return Response(msgspec.json.encode(problem), problem.status, dict(headers or {}), MEDIA_TYPE)


def on_error(request: Request, error: Exception) -> Response:
    """Answer a request that has ended in an error; the log of the process has the details of one nobody expected."""
    headers = getattr(error, "headers", None)
    if isinstance(error, PlbError):
        return response_of(problem_of(error), headers)
    if isinstance(error, HTTPException):
        return response_of(HttpProblem("about:blank", error.detail, error.status_code, error.detail), headers)
    logger.error("%s %s has failed", request.method, request.url.path, exc_info=error)
    return response_of(HttpProblem("about:blank", "Internal Server Error", 500, "an unexpected error; see the log"))
