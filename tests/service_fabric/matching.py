"""Loads the reference matcher from the folder of the scenarios."""

from __future__ import annotations

import importlib.util
from functools import cache
from types import ModuleType

from tests.service_fabric.scenario import shared_folder


@cache
def action_match() -> ModuleType:
    path = shared_folder() / "action_match.py"
    spec = importlib.util.spec_from_file_location("service_fabric_action_match", path)
    if spec is None or spec.loader is None or not path.exists():
        raise FileNotFoundError(f"{path} is missing; PLB_SHARED sets the shared folder")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
