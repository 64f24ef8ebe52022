"""What is checked of every request before it reaches its endpoint, and added to every response."""

from __future__ import annotations

import asyncio
import ipaddress
import time
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cluster.service.interfaces.metrics import Metrics
from cluster.service.interfaces.problems import RefusedError, problem_of, response_of
from plb.errors import InvalidValueError

MOST_BYTES = 16 * 2**20
"""Most bytes of the body of a request."""
SECONDS_OF_BODY = 30.0
"""Longest pause in the body of a request."""
SAFE = ("GET", "HEAD", "OPTIONS")
"""Methods that change nothing."""
SECURITY_HEADERS = {
    "content-security-policy": "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
    "object-src 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class Guard:
    """Refuses requests that a web page of another site has sent, and bodies that are too large or too slow."""

    def __init__(self, app: ASGIApp, metrics: Metrics, checks_host: bool, most_bytes: int = MOST_BYTES) -> None:
        self._app, self._metrics, self._checks_host, self._most_bytes = app, metrics, checks_host, most_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request, pass it on with a limited body, add security headers, and count it with its duration."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun, status = time.perf_counter(), 500

        async def guarded_send(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            self._check(scope)
            await self._app(scope, self._limited(receive), guarded_send)
        except RefusedError as error:
            await response_of(problem_of(error), error.headers)(scope, receive, guarded_send)
        finally:
            self._metrics.note(scope, status, time.perf_counter() - begun)

    def _check(self, scope: Scope) -> None:
        """Raise `RefusedError` for a request under another name, for a cross-site one, and for a large one."""
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if self._checks_host and not is_loopback(_name(host)):
            raise RefusedError(421, "the header Host must be localhost or 127.0.0.1, as no tokens are used")
        if scope["method"] not in SAFE:
            origin, site = headers.get("origin"), headers.get("sec-fetch-site")
            is_own = origin is None or (origin != "null" and urlsplit(origin).netloc == host)
            if not is_own or site not in (None, "same-origin", "none"):
                raise RefusedError(403, "a page of another site may not change anything here")
        length = headers.get("content-length", "")
        if length.isdecimal() and int(length[:20]) > self._most_bytes:
            raise self._too_large()

    def _limited(self, receive: Receive) -> Receive:
        """Return `receive` with the limits of the body."""
        size, is_complete = 0, False

        async def limited() -> Message:
            nonlocal size, is_complete
            if is_complete:
                return await receive()
            try:
                async with asyncio.timeout(SECONDS_OF_BODY):
                    message = await receive()
            except TimeoutError:
                raise RefusedError(408, f"the body has paused for {SECONDS_OF_BODY:g} s") from None
            size += len(message.get("body", b""))
            is_complete = not message.get("more_body", False)
            if size > self._most_bytes:
                raise self._too_large()
            return message

        return limited

    def _too_large(self) -> RefusedError:
        """Return the error for a large body; the connection ends, as the rest is not read."""
        return RefusedError(413, f"the body has more than {self._most_bytes:,} bytes", {"Connection": "close"})


def host_and_port(item: str, field: str, address: str, allowed: str) -> tuple[str, int]:
    """Return the host and the port of ``HOST:PORT``.

    Raise `InvalidValueError` with `item`, `field` and the `allowed` values in words if it is something else.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or int(port) >= 2**16:
        raise InvalidValueError(item, field, address, allowed)
    return host.strip("[]"), int(port)


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine, which no other can reach."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _name(host: str) -> str:
    """Return the name in a header Host, without the port."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
