"""Quantities are exact: what is written comes back as the same fraction."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.service.kubernetes.pods import SUFFIXES, exactly
from plb.errors import InvalidValueError


def number_of(text: object) -> Fraction:
    """Return what a quantity stands for."""
    return exactly(text, "pod shop/web", "cpu")


@given(st.integers(-(10**12), 10**12), st.integers(0, 12), st.sampled_from(sorted(SUFFIXES)))
def test_decimals_with_any_suffix_come_back(digits: int, places: int, suffix: str) -> None:
    text = f"{abs(digits):0{places + 1}d}"
    whole, part = text[: len(text) - places], text[len(text) - places :]
    written = f"{'-' if digits < 0 else ''}{whole}{'.' if places else ''}{part}{suffix}"
    assert number_of(written) == Fraction(digits, 10**places) * SUFFIXES[suffix]


@given(st.integers(-(10**9), 10**9), st.integers(-30, 30), st.sampled_from("eE"))
def test_exponents_come_back(digits: int, exponent: int, letter: str) -> None:
    assert number_of(f"{digits}{letter}{exponent}") == Fraction(digits) * Fraction(10) ** exponent


@given(st.fractions(min_value=0, max_value=2**40).map(lambda value: Fraction(round(value * 1000), 1000)))
def test_a_fraction_of_thousandths_comes_back_from_milli(value: Fraction) -> None:
    assert number_of(f"{value * 1000}m") == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("500m", Fraction(1, 2)),
        ("512Mi", 512 * 2**20),
        ("1.5Gi", 3 * 2**29),
        (".5", Fraction(1, 2)),
        ("5.", 5),
        ("+1k", 1000),
        ("1E", 10**18),
        ("1E3", 1000),
        ("100n", Fraction(1, 10**7)),
        (2, 2),
        (0.25, Fraction(1, 4)),
    ],
)
def test_these_quantities_are_these_numbers(text: object, value: Fraction) -> None:
    assert number_of(text) == value


@pytest.mark.parametrize(
    "text", ["", "m", "1 Mi", "1mi", "1K", "0x10", "1e", "1e100", "1_000", "inf", "nan", "1Mi1", "--1", "1" * 101, "١"]
)
def test_anything_else_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(InvalidValueError, match="pod shop/web: cpu"):
        number_of(text)
