"""Who may do what: tokens, the rights that they give, and how many requests each may send."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import logging
import stat
import time
from collections.abc import Mapping
from enum import IntEnum
from pathlib import Path

import attrs

from cluster.service.interfaces.problems import RefusedError
from cluster.service.service import SERVICE
from plb.errors import InvalidValueError

logger = logging.getLogger(__name__)

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
    """What a token allows; each right includes the lower rights."""

    READ = 0
    """Read the cluster, its plans and its log."""
    REPORT = 1
    """Describe the cluster, report loads and the outcomes of moves, and ask for plans."""
    APPLY = 2
    """Make a cluster, change its settings, and apply or discard plans."""


@attrs.frozen
class Actor:
    """Who sends a request."""

    name: str
    """Name of the owner of a token, as in the log."""
    right: Right
    """What the token allows."""


class Access:
    """The tokens of a service.

    `tokens`: whose each token is, by its SHA-256, or None: every request has all rights, because only this machine, or
    holders of a certificate, can connect; `anyone`: name of the actor without tokens.
    """

    def __init__(self, tokens: Mapping[bytes, Actor] | None = None, anyone: str = "loopback") -> None:
        self._tokens, self._anyone = tokens, Actor(anyone, Right.APPLY)
        self._left: dict[str, tuple[float, float]] = {}
        """Requests that an actor has left, and the time of the last one, in seconds, by its name."""
        self.clock = time.monotonic
        self.has_tokens = tokens is not None
        """Whether every client needs a token."""
        self.checks_host = tokens is None and anyone == "loopback"
        """Whether the header Host must name this machine, so that no web page reaches it by the page's own name."""

    @classmethod
    def of_file(cls, path: Path) -> Access:
        """Return the tokens of a file with lines ``role token`` or ``role name token``.

        Raise `InvalidValueError` if a line is wrong, which names its number and never shows a token, or if others may
        write the file; `OSError` if the file cannot be read.
        """
        _check_mode(path)
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            raise InvalidValueError(str(path), "encoding", "other bytes", "UTF-8") from None
        if lines and lines[0].startswith("\ufeff"):
            raise InvalidValueError(str(path), "begin", "a byte order mark", "UTF-8 without one")
        tokens: dict[bytes, Actor] = {}
        for number, line in enumerate(lines, 1):
            words = line.split()
            if words and not words[0].startswith("#"):
                _add_token(tokens, f"{path}, line {number}", words)
        if not tokens:
            raise InvalidValueError(str(path), "tokens", 0, "at least one line: role name token")
        return cls(tokens)

    def admit(self, authorization: str | None, right: Right) -> Actor:
        """Return who sends a request with the header Authorization, or a line, and count it.

        Raise `RefusedError` without a token of the file or the right to it, or after too many.
        """
        actors = [self._anyone]
        if self._tokens is not None:
            digest = hashlib.sha256(_secret(authorization)).digest()
            # all are compared, so that the time does not tell which
            actors = [actor for own, actor in self._tokens.items() if hmac.compare_digest(own, digest)]
        self._take(actors[0].name if actors else "")
        if not actors:
            raise RefusedError(401, "a token is needed; send it as Authorization: Bearer TOKEN", SCHEMES)
        check_right(actors[0], right)
        return actors[0]

    def _take(self, name: str) -> None:
        """Count a request of an actor; the number of requests that the actor has left grows over time."""
        now = self.clock()
        left, at = self._left.get(name, (MOST_REQUESTS, now))
        left = min(MOST_REQUESTS, left + (now - at) * RATE)
        self._left[name] = left - (left >= 1), now
        if left < 1:
            raise RefusedError(
                TOO_MANY, f"more than {RATE:g} requests a second; send events in batches", {"Retry-After": "1"}
            )


def check_right(actor: Actor, right: Right) -> None:
    """Raise `RefusedError` if an actor does not have a right."""
    if actor.right < right:
        have, needed = actor.right.name.lower(), right.name.lower()
        raise RefusedError(403, f"the role {needed} is needed, and the token of {actor.name} has the role {have}")


def _check_mode(path: Path) -> None:
    """Raise `InvalidValueError` if everybody may write a file of tokens; warn if they, or its group, may read it."""
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & stat.S_IWOTH:
        raise InvalidValueError(str(path), "mode", f"{mode:o}", "one in which others cannot write, such as 600")
    if mode & (stat.S_IROTH | stat.S_IRWXG):
        logger.warning("%s has the mode %o: others can read the tokens; chmod 600 keeps them secret", path, mode)


def _add_token(tokens: dict[bytes, Actor], item: str, words: list[str]) -> None:
    """Add the token in the `words` of a line, role, perhaps name, token, to `tokens`, by SHA-256; `item`: the line."""
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
    digest = hashlib.sha256(secret.encode()).digest()
    if digest in tokens:
        raise InvalidValueError(item, "token", "that of another line", "a token of its own")
    if any(actor.name == name for actor in tokens.values()):
        raise InvalidValueError(item, "name", name, "a name that no other line has")
    tokens[digest] = Actor(name, Right[words[0].upper()])


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
