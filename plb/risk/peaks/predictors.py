"""Peak predictors and the peak oracle of [5] (Bashir et al., EuroSys 2021): their parameters, not their computation.

Every predictor except `BorgDefault` has a *warm-up*: a task counts at its limit until it has so many samples in a
row, and never fewer than two, as in the authors' released simulator. It has a *history*: the newest samples of each
task, the present one included. And it has a *cap*: usage above the limit of the same sample counts as that limit.

The defaults are from [5] section 5.3: 24 samples of five minutes are two hours, 120 are ten. [5] does not have
`HistoricalPeak`.

As text they are ``n-sigma:n=5,warmup=24``, ``max(rc-like:percentile=99;n-sigma)``, ``oracle:horizon=288``: a kind, then
its parameters after a colon, separated by commas; missing ones have their defaults. ``max(...)`` has predictors
separated by semicolons.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum, StrEnum
from typing import Any, ClassVar, TypeAlias

import attrs

from plb.errors import InvalidValueError, UnknownNameError
from plb.validation import check_count, check_items, check_known, check_member, check_number, check_switch, check_text

LEAST_SEEN = 2
"""The first sample of a task never counts as warm, for any warm-up."""
MOST_SAMPLES = 1_000_000
"""Limit of warm-up and history; at five minutes nine years and a half."""


class Form(StrEnum):
    """The two forms of N-sigma."""

    RELEASED = "released"
    """Of the released simulator: usage by limit of the tasks that are warm now, at most 1, times their limits now."""
    PAPER = "paper"
    """As [5] section 4 prints it: of the summed usage of the machine, tasks that have left it included."""


@attrs.frozen(kw_only=True)
class BorgDefault:
    """A fixed fraction of the summed limits, ``phi · sum L`` ([5] section 4)."""

    kind: ClassVar[str] = "borg-default"
    phi: float = 0.9
    """The fraction, in [0, 1]; 1 is no over-commitment ([5] section 5.2: 0.9)."""

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "phi", check_number(self.kind, "phi", self.phi, high=1.0))


@attrs.frozen(kw_only=True)
class PercentilePredictor:
    """Base of the predictors by a percentile of usage by limit.

    Percentiles are interpolated as NumPy does by default. A sample with limit 0 has the ratio 0.
    """

    kind: ClassVar[str]
    percentile: float = 99.0
    """In [0, 100]."""
    warmup: int = 24
    """Samples until a task is warm."""
    history: int = 120
    """Samples of each task that are kept, at least 1."""
    cap: bool = True
    """Whether usage above the limit counts as the limit."""

    def __attrs_post_init__(self) -> None:
        _check_window(self)
        _check_percentile(self)


@attrs.frozen(kw_only=True)
class RcLike(PercentilePredictor):
    """The sum of a percentile of each task's usage ([5] section 4), here of usage by limit, times the present limit."""

    kind: ClassVar[str] = "rc-like"


@attrs.frozen(kw_only=True)
class MachinePercentile(PercentilePredictor):
    """A percentile of the machine's usage by limit, at most 1, times the present limits; of the released simulator.

    As in the released form of N-sigma, only the tasks that are warm now count in the past.
    """

    kind: ClassVar[str] = "per-machine-percentile"


@attrs.frozen(kw_only=True)
class NSigma:
    """The mean of the usage of the machine and n standard deviations ([5] section 4); sample deviations, in both forms.

    In the form of the paper the past of the machine is the summed usage of all its tasks, without those that are
    cold now and count at their limits. It has no upper bound, as in [5]. While no task is warm, the
    prediction is the summed limit in both forms.
    """

    kind: ClassVar[str] = "n-sigma"
    n: float = 5.0
    """Number of standard deviations, at least 0."""
    warmup: int = 24
    history: int = 120
    """Samples that are kept, at least 2: fewer have no deviation."""
    form: Form = Form.RELEASED
    """See `Form`."""
    cap: bool = True
    """See `PercentilePredictor`."""

    def __attrs_post_init__(self) -> None:
        _check_window(self, least_history=2)
        object.__setattr__(self, "n", check_number(self.kind, "n", self.n))
        object.__setattr__(self, "form", check_member(self.kind, "form", self.form, Form))


@attrs.frozen(kw_only=True)
class HistoricalPeak:
    """A percentile of the peaks within windows of the past that begin with the present usage.

    See `plb.risk.peaks.windows`. It is the estimator `plb.risk.estimators.HistoricalSimulation` of an engine, for
    the tasks of a machine. All lengths are numbers of steps, as the streaming form knows no times.
    """

    kind: ClassVar[str] = "historical-simulation"
    percentile: float = 95.0
    """Of the peaks of the windows, in [0, 100]."""
    warmup: int = 24
    history: int = 2016
    """Samples of each task that are kept, at least 2: a week of five minutes by default, so that each day of the week
    and each hour of the day occur.
    """
    horizon: int = 288
    """Steps of a window, fewer than are kept."""
    stride: int = 12
    """Steps from the start of a window to the start of the next. Windows that start at neighbouring steps have nearly
    all of their steps in common.
    """
    persistence: float = 0.8
    """Share of the difference between present and past usage that is left after an hour, in [0, 1]."""
    day: int = 288
    """Steps of a day, of which an hour is the 24th part."""
    cap: bool = True
    """See `PercentilePredictor`. With the cap, the prediction is at most the present limits."""

    def __attrs_post_init__(self) -> None:
        _check_window(self, least_history=2)
        _check_percentile(self)
        check_count(self.kind, "horizon", self.horizon, low=1, high=self.history - 1)
        check_count(self.kind, "stride", self.stride, low=1, high=MOST_SAMPLES)
        persistence = check_number(self.kind, "persistence", self.persistence, high=1.0)
        object.__setattr__(self, "persistence", persistence)
        check_count(self.kind, "day", self.day, low=1, high=MOST_SAMPLES)


@attrs.frozen
class Maximum:
    """The largest of several predictions ([5] section 4); each predictor has its own warm-up, history and cap."""

    kind: ClassVar[str] = "max"
    of: tuple[Predictor, ...]
    """At least one predictor."""

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "of", tuple(check_items(self.kind, "of", self.of, object)))
        for member in self.of:
            if not isinstance(member, Predictor):
                raise InvalidValueError(self.kind, "of", member, "a peak predictor; the oracle is none")
        if not self.of:
            raise InvalidValueError(self.kind, "of", self.of, "at least one predictor")


@attrs.frozen(kw_only=True)
class PeakOracle:
    """The largest future usage of the present tasks ([5] section 3.1), within a horizon.

    As in the released simulator the present step is not included, later tasks are not counted, a task that
    has left adds 0, and future usage is capped at the present limit. Steps are counted in time: if a machine has
    gaps, the window has fewer samples. The last steps of a machine, whose horizon its trace does not cover, have no
    value; if these are all, the first has the value over the available samples. Without future usage, the value is the
    summed limit.
    """

    kind: ClassVar[str] = "oracle"
    horizon: int = 288
    """Steps to look ahead ([5] section 5.2: 24 hours, 288 steps of five minutes)."""
    percentile: float = 100.0
    """Of the usage to come, in [0, 100]; 100 is its maximum."""
    cap: bool = True
    """Whether usage above the limit of now counts as that limit."""

    def __attrs_post_init__(self) -> None:
        check_count(self.kind, "horizon", self.horizon)
        _check_percentile(self)
        check_switch(self.kind, "cap", self.cap)


Windowed: TypeAlias = RcLike | MachinePercentile | NSigma | HistoricalPeak
"""What keeps a window of samples of each task."""
Single: TypeAlias = BorgDefault | Windowed
"""A predictor that is not a maximum of others."""
Predictor: TypeAlias = Single | Maximum
"""What predicts from the past alone."""


def members(predictor: Predictor) -> list[Single]:
    """Return the predictors that a maximum compares, also within its maxima; of another predictor, itself."""
    if not isinstance(predictor, Maximum):
        return [predictor]
    return [inner for member in predictor.of for inner in members(member)]


def least_seen(predictor: Windowed) -> int:
    """Return how many samples in a row a task needs to be warm, so that its samples count and not its limit."""
    return max(LEAST_SEEN, predictor.warmup)


def _check_window(predictor: PercentilePredictor | NSigma | HistoricalPeak, least_history: int = 1) -> None:
    """Raise an error unless warm-up, history (at least `least_history`) and cap of a predictor are allowed."""
    check_count(predictor.kind, "warmup", predictor.warmup, high=MOST_SAMPLES)
    check_count(predictor.kind, "history", predictor.history, low=least_history, high=MOST_SAMPLES)
    check_switch(predictor.kind, "cap", predictor.cap)


def _check_percentile(predictor: PercentilePredictor | HistoricalPeak | PeakOracle) -> None:
    """Keep the percentile of a predictor as a float, or raise an error unless it is in [0, 100]."""
    percentile = check_number(predictor.kind, "percentile", predictor.percentile, high=100.0)
    object.__setattr__(predictor, "percentile", percentile)


PredictorOrOracle: TypeAlias = Predictor | PeakOracle
"""A predictor or the oracle."""
KINDS: dict[str, type[Any]] = {
    predictor.kind: predictor
    for predictor in (BorgDefault, RcLike, NSigma, MachinePercentile, HistoricalPeak, PeakOracle)
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
        A kind or a parameter does not exist; the message names the existing ones.
    InvalidValueError
        A value, or the text as a whole, is not allowed.
    """
    requested = check_text("predictor", "spec", text).strip()
    if requested.startswith(f"{Maximum.kind}("):
        if requested.count("(") > MOST_MAXIMA:
            raise _malformed(text, f"at most {MOST_MAXIMA} of {Maximum.kind}(...), one in the other or side by side")
        if not requested.endswith(")"):
            raise _malformed(text, "a closing bracket at the end")
        return Maximum(
            tuple(_parse_member(member, more) for member in _members(requested[len(Maximum.kind) + 1 : -1], text))
        )
    kind, colon, parameter_text = requested.partition(":")
    kind, further = kind.strip(), {more_kind.kind: more_kind for more_kind in more}
    kinds = {**further, **KINDS, **further}
    if kind not in kinds:
        raise UnknownNameError("predictor", kind, [*kinds, f"{Maximum.kind}(...)"])
    if colon and not parameter_text.strip():
        raise _malformed(text, "parameters after the colon, such as warmup=24")
    parameters: dict[str, Any] = {}
    for part in parameter_text.split(",") if parameter_text else ():
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not name or not value:
            raise _malformed(text, "parameters such as warmup=24, separated by commas")
        if name in parameters:
            raise _malformed(text, f"each parameter once; {name} is there twice")
        parameters[name] = _value(kinds[kind], kind, name, value)
    return kinds[kind](**parameters)


def spec(predictor: PredictorOrOracle) -> str:
    """Return the text that describes a predictor or the oracle, with all its parameters."""
    if isinstance(predictor, Maximum):
        return f"{predictor.kind}({';'.join(spec(member) for member in predictor.of)})"
    values = {field.name: getattr(predictor, field.name) for field in attrs.fields(type(predictor))}
    return f"{predictor.kind}:{','.join(f'{name}={_shown(value)}' for name, value in values.items())}"


def _parse_member(text: str, more: Sequence[type[Any]]) -> Predictor:
    """Return the predictor of a text within ``max(...)``; refuse the oracle and the classes `more` of `parse`."""
    predictor: PredictorOrOracle = parse(text, more)
    if isinstance(predictor, PeakOracle):
        raise InvalidValueError(Maximum.kind, "of", text.strip(), "a peak predictor; the oracle is none")
    if isinstance(predictor, tuple(more)):
        raise InvalidValueError(Maximum.kind, "of", text.strip(), f"a peak predictor; {predictor.kind} is none here")
    return predictor


def _members(inside: str, text: str) -> Iterator[str]:
    """Yield the parts of `inside`, the inside of ``max(...)``, between semicolons outside of brackets.

    `text`: the whole text, for errors.
    """
    depth, start = 0, 0
    for index, letter in enumerate(inside):
        depth += (letter == "(") - (letter == ")")
        if depth < 0:
            break
        if letter == ";" and depth == 0:
            yield inside[start:index]
            start = index + 1
    if depth != 0:
        raise _malformed(text, "a closing bracket for each that opens")
    yield inside[start:]


def _value(cls: type[Any], kind: str, name: str, text: str) -> object:
    """Return the value in `text` of the parameter `name` of a predictor class, in the type of the field's default.

    `kind`: of the class, for errors; the class checks ranges.
    """
    fields = {field.name: field for field in attrs.fields(cls)}
    check_known("parameter", name, fields, kind)
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
    """Return the value of a parameter as a text that `parse` reads."""
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)


def _malformed(text: str, expected: str) -> InvalidValueError:
    """Return the error of a text that describes no predictor."""
    return InvalidValueError("predictor", "spec", text, expected)
