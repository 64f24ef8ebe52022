from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb.errors import ConflictError, InvalidValueError
from plb.model import Role
from plb.risk import DemandHistory

from .strategies import METRICS, NO_DEADLINE, columns, histories, random_history


def one_trace(**changes: Any) -> dict[str, Any]:
    """Return columns of two valid traces, with changes."""
    two = [[1.0, 10.0], [2.0, 20.0]]
    good = {"tenant_class": ["gold", "gold"], "role": [0, 1], "lifetime": [5.0, 6.0], "level": two}
    good |= {"initial": [[1.0, 0.0], [2.0, 5.0]], "growth": [[0.0, 4.0], [0.0, 4.0]], "maximum": two}
    return good | changes


def test_curve_rises_from_the_initial_demand_to_the_level() -> None:
    """Halfway, demand is the mean of I and M; equation (2) as printed would give I + M/2 and end at I + M."""
    history = DemandHistory.from_columns(METRICS, **one_trace())
    demand = history.demand(np.array([0, 1, 2, 4, 100])[:, np.newaxis], [0, 1])
    assert demand[:, 1, 1].tolist() == [5.0, 8.75, 12.5, 20.0, 20.0]
    assert demand[:, 1, 0].tolist() == [2.0] * 5, "growth of zero means the level from the start"


@NO_DEADLINE
@given(histories(), st.floats(0, 20), st.floats(0, 20))
def test_curves_are_monotone_and_stay_between_initial_demand_and_level(history, one, other) -> None:
    """Monotone curves make the departure times sufficient ([1] section 5.3)."""
    rows = np.arange(len(history))
    early, late = history.demand(min(one, other), rows), history.demand(max(one, other), rows)
    assert (early <= late).all()
    assert (early >= history.initial).all()
    assert (late <= history.level).all()


@NO_DEADLINE
@given(columns())
def test_rows_of_a_class_and_role_are_contiguous_in_the_given_order(given_columns: dict[str, Any]) -> None:
    history = DemandHistory.from_columns(METRICS, **given_columns)
    for code, name in enumerate(history.classes):
        for role in Role:
            start, stop = history.group_start[code * len(Role) + role : code * len(Role) + role + 2]
            matching = zip(given_columns["tenant_class"], given_columns["role"], strict=True)
            expected = [i for i, pair in enumerate(matching) if pair == (name, role)]
            assert history.lifetime[start:stop].tolist() == [given_columns["lifetime"][i] for i in expected]
            for field in ("level", "initial", "growth", "maximum"):
                assert getattr(history, field)[start:stop].tolist() == given_columns[field][expected].tolist()
    assert history.group_start[-1] == len(history)


def test_arrays_are_read_only_contiguous_copies() -> None:
    """Engines and threads share a history. The caller's arrays stay writable, and changes to them have no effect."""
    level = np.array([[1.0, 10.0], [2.0, 20.0]], np.float32)
    history = DemandHistory.from_columns(METRICS, **one_trace(level=level))
    level[:] = 99.0
    assert history.level.max() == 20.0
    for field in ("tenant_class", "role", "lifetime", "censored", "level", "initial", "growth", "maximum"):
        array = getattr(history, field)
        assert array.flags.c_contiguous
        assert not array.flags.writeable
    assert not history.group_start.flags.writeable


def test_traces_of_three_metrics_fit_66_bytes_each() -> None:
    """The budget is that of [1] section 8.5 for the repository of traces."""
    history = random_history(11_500, seed=1, classes=40)
    columns = [getattr(history, field.name) for field in attrs.fields(DemandHistory)]
    size = sum(column.nbytes for column in columns if isinstance(column, np.ndarray))
    assert size <= 66 * len(history)


def test_class_codes_are_positions_in_the_sorted_names() -> None:
    history = DemandHistory.from_columns(METRICS, **one_trace(tenant_class=np.array(["silver", "gold"])))
    assert history.classes == ("gold", "silver")
    assert [history.class_code(name) for name in ("gold", "silver", "iron", None)] == [0, 1, -1, -1]


def test_censored_lifetimes_keep_their_flag() -> None:
    marked = DemandHistory.from_columns(METRICS, **one_trace(role=[1, 0], censored=[True, False]))
    assert marked.censored.tolist() == [False, True]
    assert not DemandHistory.from_columns(METRICS, **one_trace()).censored.any()


@NO_DEADLINE
@given(histories(), st.sampled_from([2.0**-3, 0.5, 1.0, 4.0]))
def test_levels_round_up_to_whole_quanta(history: DemandHistory, quantum: float) -> None:
    excess = history.in_quanta([quantum, quantum]) * quantum - history.level
    assert (excess >= 0).all()
    assert (excess < quantum).all()


def test_levels_of_up_to_2_to_the_30_quanta_are_accepted() -> None:
    largest = 2.0**30
    history = DemandHistory.from_columns(METRICS, **one_trace(level=[[1, largest], [2, 20]], maximum=[[1, 1], [2, 2]]))
    assert history.in_quanta([1.0, 1.0])[0, 1] == 2**30
    above = float(np.nextafter(np.float32(largest), np.float32(np.inf)))
    beyond = DemandHistory.from_columns(METRICS, **one_trace(level=[[1, above], [2, 20]]))
    with pytest.raises(InvalidValueError, match=r"trace 0: level\[disk\].*2\^30 quanta.*metric disk"):
        beyond.in_quanta([1.0, 1.0])


@pytest.mark.parametrize("quantum", [0.3, 0.0, -1.0, np.inf, np.nan])
def test_quanta_are_powers_of_two(quantum: float) -> None:
    history = DemandHistory.from_columns(METRICS, **one_trace())
    with pytest.raises(InvalidValueError, match=r"metric disk: quantum.*a power of two"):
        history.in_quanta([1.0, quantum])


REFUSED = {
    "a column of another length": ({"lifetime": [5.0]}, ConflictError, r"lifetime has shape \(1,\), expected \(2,\)"),
    "a matrix without a metric": ({"level": [[1.0], [2.0]]}, ConflictError, r"level has shape \(2, 1\)"),
    "a ragged matrix": ({"growth": [[1.0], [2.0, 3.0]]}, ConflictError, "growth is no array"),
    "no trace at all": ({"tenant_class": []}, ConflictError, "no trace; at least one"),
    "a negative lifetime": ({"lifetime": [5.0, -1.0]}, InvalidValueError, r"trace 1: lifetime = -1.0.*>= 0"),
    "a level that is no number": (
        {"level": [[1, 10], [np.nan, 20]]},
        InvalidValueError,
        r"trace 1: level\[cpu\] = nan",
    ),
    "an infinite maximum": (
        {"maximum": [[1, np.inf], [1, 1]]},
        InvalidValueError,
        r"0: maximum\[disk\].*finite number",
    ),
    "growth that is too long": ({"growth": [[0, 1e39], [0, 0]]}, InvalidValueError, r"trace 0: growth\[disk\].*<= 3.4"),
    "initial above level": (
        {"initial": [[1, 0], [3, 5]]},
        InvalidValueError,
        r"1: initial\[cpu\] = 3.0.* trace's level, 2",
    ),
    "an unknown role": ({"role": [0, 7]}, InvalidValueError, r"trace 1: role = 7.0.*0 \(primary\), 1 \(secondary\)"),
    "a class without a name": ({"tenant_class": ["gold", " "]}, InvalidValueError, "trace 1: tenant_class"),
    "a flag that is no flag": ({"censored": [0, 2]}, InvalidValueError, "trace 1: censored = 2.0.*true or false"),
}


@pytest.mark.parametrize(("changes", "kind", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_bad_columns_are_refused_by_row_field_and_range(changes, kind, message) -> None:
    """The row is the given one, not the sorted one."""
    with pytest.raises(kind, match=message):
        DemandHistory.from_columns(METRICS, **one_trace(**changes))


def test_metrics_are_named_once_and_at_least_one() -> None:
    with pytest.raises(ConflictError, match="cpu is named twice"):
        DemandHistory.from_columns(["cpu", "cpu"], **one_trace())
    with pytest.raises(ConflictError, match="no metric"):
        DemandHistory.from_columns([], **one_trace())


def test_rows_out_of_order_are_refused_when_built_directly() -> None:
    """Only sorted rows have a slice for each group; `from_columns` sorts them."""
    good = DemandHistory.from_columns(METRICS, **one_trace())
    rest = (good.lifetime, good.censored, good.level, good.initial, good.growth, good.maximum)
    with pytest.raises(ConflictError, match="use from_columns"):
        DemandHistory(good.metrics, good.classes, good.tenant_class, good.role[::-1].copy(), *rest)
