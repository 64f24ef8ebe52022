"""Errors of extensions, raised as errors that name the extension and its method."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from plb.errors import ExtensionError, PlbError

TERM, CONSTRAINT, POLICY, NEIGHBOURHOOD = "energy term", "constraint", "policy", "neighbourhood"
"""Kinds of extensions."""


def named(error: BaseException, kind: str, name: str, method: str) -> BaseException:
    """Return an error of an extension as an `ExtensionError` with it as the cause.

    A `PlbError` says itself what is wrong, and an interrupt by the user is no error of the extension: both are
    returned as they are.
    """
    if isinstance(error, PlbError) or not isinstance(error, Exception):
        return error
    failure = ExtensionError(kind, name, method, f"{type(error).__name__}: {error}")
    failure.__cause__ = error
    return failure


@contextmanager
def errors_of(kind: str, name: str, method: str) -> Iterator[None]:
    """Raise an error of a method of an extension as an `ExtensionError`; see `named`."""
    try:
        yield
    except Exception as error:
        failure = named(error, kind, name, method)
        if failure is error:
            raise
        raise failure from error
