"""Where PyTorch is not installed, only what does without it is tested."""

from __future__ import annotations

from importlib.util import find_spec

NEED_TORCH = ("checkpoints", "networks", "optimiser", "policy", "reinforce", "training", "trajectories")

collect_ignore = [] if find_spec("torch") else [f"test_{name}.py" for name in NEED_TORCH]
