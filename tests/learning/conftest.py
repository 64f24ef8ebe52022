"""Skips the tests that need PyTorch if it is not installed."""

from __future__ import annotations

from importlib.util import find_spec

NEED_TORCH = ("checkpoints", "networks", "optimiser", "policy", "reinforce", "training", "trajectories")

collect_ignore = [] if find_spec("torch") else [f"test_{name}.py" for name in NEED_TORCH]
