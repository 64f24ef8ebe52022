"""Settings of a training."""

from __future__ import annotations

import pytest

from plb.errors import InvalidValueError, UnknownNameError
from plb.learning.settings import TrainingSettings


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("iterations", 0),
        ("sequences", 0.5),
        ("trajectories", 1),
        ("learning_rate", 0.0),
        ("entropy", -1.0),
        ("entropy_end", float("nan")),
        ("discount", 1.1),
        ("hidden", True),
        ("gradient_norm", 0.0),
        ("seed", -1),
        ("network", 3),
        ("iterations", 10_000_001),
        ("sequences", 10_001),
        ("trajectories", 10_001),
        ("hidden", 4097),
        ("learning_rate", 1001.0),
        ("entropy", 1e7),
        ("entropy_end", 1e7),
    ],
)
def test_values_out_of_range_are_refused(field, value):
    with pytest.raises(InvalidValueError, match=f"training: {field} = {value!r} is not allowed"):
        TrainingSettings(**{field: value})


def test_unknown_network_is_refused_with_the_nearest_name():
    with pytest.raises(UnknownNameError, match="did you mean 'scorer'"):
        TrainingSettings(network="scorers")


def test_weight_of_entropy_decreases_linearly():
    settings = TrainingSettings(iterations=5, entropy=0.4, entropy_end=0.2)
    assert [settings.entropy_in(iteration) for iteration in range(1, 6)] == pytest.approx([0.4, 0.35, 0.3, 0.25, 0.2])
    assert TrainingSettings(iterations=1, entropy=0.4).entropy_in(1) == 0.4
