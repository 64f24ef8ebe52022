"""Who may do what: tokens, the rights that they give, and how many requests each may send."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import time
from collections.abc import Awaitable, Callable, Sequence
from enum import IntEnum
from functools import wraps
from pathlib import Path
from typing import TypeAlias

import attrs
from starlette.requests import Request
from starlette.responses import Response

from cluster.service.problems import RefusedError
from cluster.service.service import SERVICE
from plb.errors import InvalidValueError

SHORTEST_TOKEN = 16
"""Fewest letters of a token."""
MOST_REQUESTS = 4000
"""Requests that an actor may send at once."""
RATE = 2000.0
"""Requests a second that an actor may send over a longer time."""
TOO_MANY = 429
"""Status of HTTP for a request beyond these limits, which had no effect."""
SCHEMES = {"WWW-Authenticate": 'Bearer realm="plb", Basic realm="plb", charset="UTF-8"'}
"""Headers that ask for a token; a browser then asks its user for a password, which is the token."""


class Right(IntEnum):
    """What a token allows; each includes those before it."""

    READ = 0
    """Read the cluster, its plans and its log."""
    REPORT = 1
    """Describe the cluster, report loads and the outcomes of moves, and ask for plans."""
    APPLY = 2
    """Make a cluster, change its settings, and apply or discard plans."""


@attrs.frozen
class Token:
    """A token, without its text."""

    right: Right
    name: str
    """Name of its owner, the actor in the log."""
    digest: bytes = attrs.field(repr=False)
    """SHA-256 of the token."""


@attrs.frozen
class Actor:
    """Who sends a request."""

    name: str
    right: Right


@attrs.define
class Bucket:
    """Requests that an actor has left; they come back over time."""

    left: float
    at: float
    """Time of the last request, in seconds."""

    def take(self, now: float) -> bool:
        """Return whether a request is left at a time, and use it."""
        self.left, self.at = min(MOST_REQUESTS, self.left + (now - self.at) * RATE), now
        is_left = self.left >= 1
        self.left -= is_left
        return is_left


class Access:
    """The tokens of a service.

    Parameters
    ----------
    tokens
        The tokens; None: every request has all rights, because only this machine, or holders of a certificate, can
        connect.
    anyone
        Name of the actor without tokens.
    """

    def __init__(self, tokens: Sequence[Token] | None = None, anyone: str = "loopback") -> None:
        self._tokens, self._anyone = tokens, Actor(anyone, Right.APPLY)
        self._buckets: dict[str, Bucket] = {}
        self.clock = time.monotonic
        self.has_tokens = tokens is not None
        """Whether every client needs a token."""
        self.checks_host = tokens is None and anyone == "loopback"
        """Whether the header Host must name this machine, so that no web page can reach it under a name of its own."""

    @classmethod
    def of_file(cls, path: Path) -> Access:
        """Return the tokens of a file with lines ``role token`` or ``role name token``.

        Raises
        ------
        InvalidValueError
            If a line is wrong; the error names its number, and never shows a token.
        OSError
            If the file cannot be read.
        """
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        tokens: list[Token] = []
        for number, line in enumerate(lines, 1):
            words = line.split()
            if words and not words[0].startswith("#"):
                tokens.append(_token(f"{path}, line {number}", words, tokens))
        if not tokens:
            raise InvalidValueError(str(path), "tokens", 0, "at least one line: role name token")
        return cls(tokens)

    def actor(self, authorization: str | None) -> Actor:
        """Return whose token the header Authorization has; raise `RefusedError` if it has none of the file."""
        if self._tokens is None:
            return self._anyone
        digest = hashlib.sha256(_secret(authorization)).digest()
        actor: Actor | None = None
        for token in self._tokens:  # all of them, so that the time does not tell which
            if hmac.compare_digest(token.digest, digest):
                actor = Actor(token.name, token.right)
        if actor is None:
            self._take("")
            raise RefusedError(401, "a token is needed; send it as Authorization: Bearer TOKEN", SCHEMES)
        return actor

    def admit(self, authorization: str | None, right: Right) -> Actor:
        """Return who sends a request with the header Authorization, or a line, and count it.

        Raise `RefusedError` without the right to it, or after too many.
        """
        actor = self.actor(authorization)
        self._take(actor.name)
        check_right(actor, right)
        return actor

    def _take(self, name: str) -> None:
        """Count a request of an actor."""
        now = self.clock()
        if not self._buckets.setdefault(name, Bucket(MOST_REQUESTS, now)).take(now):
            raise RefusedError(
                TOO_MANY, f"more than {RATE:g} requests a second; send events in batches", {"Retry-After": "1"}
            )


def check_right(actor: Actor, right: Right) -> None:
    """Raise `RefusedError` if an actor does not have a right."""
    if actor.right < right:
        have, needed = actor.right.name.lower(), right.name.lower()
        raise RefusedError(403, f"the role {needed} is needed, and the token of {actor.name} has the role {have}")


def _token(item: str, words: list[str], tokens: list[Token]) -> Token:
    """Return the token of a line of a file; `item` names the line in errors."""
    names = [right.name.lower() for right in Right]
    if len(words) not in (2, 3):
        raise InvalidValueError(item, "words", len(words), "role token, or role name token")
    if words[0] not in names:
        raise InvalidValueError(item, "role", words[0], f"one of {', '.join(names)}")
    name, secret = words[-2], words[-1]
    if name == SERVICE:
        raise InvalidValueError(item, "name", name, "another name; this is the service's own")
    if len(secret) < SHORTEST_TOKEN:
        raise InvalidValueError(item, "letters of the token", len(secret), f"at least {SHORTEST_TOKEN}")
    token = Token(Right[words[0].upper()], name, hashlib.sha256(secret.encode()).digest())
    if any(token.digest == earlier.digest for earlier in tokens):
        raise InvalidValueError(item, "token", "that of another line", "a token of its own")
    return token


def _secret(authorization: str | None) -> bytes:
    """Return the token in a header, or the password of a browser; empty: there is none."""
    scheme, _, value = (authorization or "").partition(" ")
    if scheme.lower() == "bearer":
        return value.strip().encode()
    try:
        pair = base64.b64decode(value, validate=True) if scheme.lower() == "basic" else b""
    except (binascii.Error, ValueError):
        pair = b""
    return pair.partition(b":")[2]


Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]


def needs(right: Right | None) -> Callable[[Endpoint], Endpoint]:
    """Return a decorator for an endpoint that only those with a right may use; None: everybody.

    The endpoint finds the `Actor` in ``request.state.actor``. `cluster.service.rest.application` refuses routes without
    this decorator.
    """

    def decorate(endpoint: Endpoint) -> Endpoint:
        @wraps(endpoint)
        async def checked(request: Request) -> Response:
            if right is not None:
                request.state.actor = request.app.state.access.admit(request.headers.get("authorization"), right)
            return await endpoint(request)

        checked.right = right  # type: ignore[attr-defined]
        return checked

    return decorate
