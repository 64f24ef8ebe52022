"""Predictors as text."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from plb.errors import InvalidValueError, PlbError, UnknownNameError
from plb.risk.peaks import (
    BorgDefault,
    Form,
    HistoricalPeak,
    MachinePercentile,
    Maximum,
    NSigma,
    PeakOracle,
    RcLike,
    parse,
    spec,
)

from .strategies import oracles, predictors


@given(predictors | oracles)
def test_text_of_a_predictor_is_parsed_to_the_same_predictor(predictor: Any):
    assert parse(spec(predictor)) == predictor


@pytest.mark.parametrize(
    ("text", "requested"),
    [
        ("n-sigma:n=5,warmup=24,history=120,form=released", NSigma()),
        (" n-sigma : n = 3 , form=paper ", NSigma(n=3.0, form=Form.PAPER)),
        ("rc-like", RcLike()),
        ("rc-like:percentile=80,cap=False", RcLike(percentile=80.0, cap=False)),
        ("per-machine-percentile:history=7", MachinePercentile(history=7)),
        ("historical-simulation:horizon=12,history=100", HistoricalPeak(horizon=12, history=100)),
        ("max(historical-simulation;rc-like)", Maximum((HistoricalPeak(), RcLike()))),
        ("borg-default:phi=0.9", BorgDefault()),
        ("oracle:horizon=288", PeakOracle()),
        ("max(rc-like;n-sigma:n=3)", Maximum((RcLike(), NSigma(n=3.0)))),
        ("max(max( rc-like ); borg-default)", Maximum((Maximum((RcLike(),)), BorgDefault()))),
    ],
)
def test_missing_parameters_have_their_defaults(text: str, requested: Any):
    assert parse(text) == requested


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("nsigma", UnknownNameError, "did you mean 'n-sigma'"),
        ("", UnknownNameError, "known: 'borg-default'"),
        ("n-sigma:m=3", UnknownNameError, "n-sigma: unknown parameter 'm'"),
        ("n-sigma:", InvalidValueError, "after the colon"),
        ("n-sigma:n", InvalidValueError, "warmup=24"),
        ("n-sigma:n=3,,", InvalidValueError, "separated by commas"),
        ("n-sigma:n=3,n=4", InvalidValueError, "n is there twice"),
        ("n-sigma:warmup=100000000000000000000", InvalidValueError, "warmup = .* <= 1000000"),
        ("rc-like:history=1000001", InvalidValueError, "history = 1000001 is not allowed; .* <= 1000000"),
        ("n-sigma:n=three", InvalidValueError, "n = 'three' is not allowed; expected a number"),
        ("n-sigma:n=nan", InvalidValueError, "finite number >= 0"),
        ("n-sigma:history=1", InvalidValueError, "a whole number >= 2"),
        ("n-sigma:warmup=2.5", InvalidValueError, "a whole number"),
        ("n-sigma:form=old", InvalidValueError, "one of released, paper"),
        ("rc-like:cap=yes", InvalidValueError, "true or false"),
        ("rc-like:percentile=120", InvalidValueError, "<= 100"),
        ("max(rc-like", InvalidValueError, "closing bracket"),
        ("max(rc-like))", InvalidValueError, "closing bracket for each"),
        ("max(max(rc-like)", InvalidValueError, "closing bracket for each"),
        ("max()", UnknownNameError, "unknown predictor ''"),
        ("historical-simulation:history=100", InvalidValueError, "horizon = 288 is not allowed; .* <= 99"),
        ("historical-simulation:slots=24", UnknownNameError, "unknown parameter 'slots'"),
        ("max(rc-like;oracle)", InvalidValueError, "the oracle is none"),
    ],
)
def test_invalid_text_is_refused(text: str, error: type[PlbError], message: str):
    with pytest.raises(error, match=message.replace("(", r"\(")):
        parse(text)


@pytest.mark.parametrize("text", ["max(" * 5000 + "n-sigma" + ")" * 5000, "max(" * 100, 3, None])
def test_parser_refuses_any_other_value(text: Any):
    with pytest.raises(InvalidValueError, match="predictor: spec"):
        parse(text)
