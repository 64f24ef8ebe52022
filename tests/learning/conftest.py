"""Skips the tests that need PyTorch and Gymnasium if they are not installed."""

from __future__ import annotations

from importlib.util import find_spec

NEED_THE_EXTRA = ("checkpoints", "networks", "policy", "reinforce", "training")

collect_ignore = [] if find_spec("torch") and find_spec("gymnasium") else [f"test_{name}.py" for name in NEED_THE_EXTRA]
