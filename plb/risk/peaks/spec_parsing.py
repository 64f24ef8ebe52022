"""Predictors as text: ``n-sigma:n=5,warmup=24``, ``max(rc-like:percentile=99;n-sigma)``, ``oracle:horizon=288``.

A kind, then its parameters after a colon, separated by commas; missing ones have their defaults. ``max(...)`` has
predictors separated by semicolons.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Any, TypeAlias

import attrs

from plb.errors import InvalidValueError, UnknownNameError
from plb.risk.peaks.predictor_settings import (
    BorgDefault,
    HistoricalPeak,
    MachinePercentile,
    Maximum,
    NSigma,
    PeakOracle,
    Predictor,
    RcLike,
)
from plb.validation import check_text

PredictorOrOracle: TypeAlias = Predictor | PeakOracle
"""A predictor or the oracle."""
KINDS: dict[str, type[Any]] = {
    one.kind: one for one in (BorgDefault, RcLike, NSigma, MachinePercentile, HistoricalPeak, PeakOracle)
}
SWITCH = {"true": True, "false": False}
MOST_MAXIMA = 64
"""Largest number of maxima in a text."""


def parse(text: str, more: Sequence[type[Any]] = ()) -> Any:
    """Return the predictor, or oracle, of a text.

    Parameters
    ----------
    text
        As this module has it; spaces around its parts do not count.
    more
        Further classes, each with a `kind`, that may be named, but not within ``max(...)``. They take the place of
        predictors of the same kind.

    Raises
    ------
    UnknownNameError
        A kind or a parameter does not exist; the message names those that do.
    InvalidValueError
        A value, or the text as a whole, is not allowed.
    """
    requested = check_text("predictor", "spec", text).strip()
    if requested.startswith(f"{Maximum.kind}("):
        if requested.count("(") > MOST_MAXIMA:
            raise _malformed(text, f"at most {MOST_MAXIMA} of {Maximum.kind}(...), one in the other or side by side")
        if not requested.endswith(")"):
            raise _malformed(text, "a closing bracket at the end")
        return Maximum(tuple(_parse_member(one, more) for one in _members(requested[len(Maximum.kind) + 1 : -1], text)))
    kind, colon, rest = requested.partition(":")
    kind, further = kind.strip(), {one.kind: one for one in more}
    kinds = {**further, **KINDS, **further}
    if kind not in kinds:
        raise UnknownNameError("predictor", kind, [*kinds, f"{Maximum.kind}(...)"])
    if colon and not rest.strip():
        raise _malformed(text, "parameters after the colon, such as warmup=24")
    given: dict[str, Any] = {}
    for part in rest.split(",") if rest else ():
        name, equals, value = (one.strip() for one in part.partition("="))
        if not equals or not name or not value:
            raise _malformed(text, "parameters such as warmup=24, separated by commas")
        if name in given:
            raise _malformed(text, f"each parameter once; {name} is there twice")
        given[name] = _value(kinds[kind], kind, name, value)
    return kinds[kind](**given)


def spec(predictor: PredictorOrOracle) -> str:
    """Return the text that describes a predictor or the oracle, with all its parameters."""
    if isinstance(predictor, Maximum):
        return f"{predictor.kind}({';'.join(spec(one) for one in predictor.of)})"
    values = {field.name: getattr(predictor, field.name) for field in attrs.fields(type(predictor))}
    return f"{predictor.kind}:{','.join(f'{name}={_shown(value)}' for name, value in values.items())}"


def _parse_member(text: str, more: Sequence[type[Any]]) -> Predictor:
    found: PredictorOrOracle = parse(text, more)
    if isinstance(found, PeakOracle):
        raise InvalidValueError(Maximum.kind, "of", text.strip(), "a peak predictor; the oracle is none")
    if isinstance(found, tuple(more)):
        raise InvalidValueError(Maximum.kind, "of", text.strip(), f"a peak predictor; {found.kind} is none here")
    return found


def _members(inside: str, text: str) -> Iterator[str]:
    """Yield the parts between semicolons outside of brackets."""
    depth, begun = 0, 0
    for place, letter in enumerate(inside):
        depth += (letter == "(") - (letter == ")")
        if depth < 0:
            break
        if letter == ";" and depth == 0:
            yield inside[begun:place]
            begun = place + 1
    if depth != 0:
        raise _malformed(text, "a closing bracket for each that opens")
    yield inside[begun:]


def _value(cls: type[Any], kind: str, name: str, text: str) -> object:
    """Return a parameter's value as its default's type has it; ranges are checked by the class."""
    fields = {field.name: field for field in attrs.fields(cls)}
    if name not in fields:
        raise UnknownNameError("parameter", name, fields, kind)
    default = fields[name].default
    if isinstance(default, bool):
        if text.lower() not in SWITCH:
            raise InvalidValueError(kind, name, text, "true or false")
        return SWITCH[text.lower()]
    if isinstance(default, Enum):
        return text
    requested = "a whole number" if isinstance(default, int) else "a number"
    try:
        return int(text) if isinstance(default, int) else float(text)
    except ValueError:
        raise InvalidValueError(kind, name, text, requested) from None


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)


def _malformed(text: str, expected: str) -> InvalidValueError:
    return InvalidValueError("predictor", "spec", text, expected)
