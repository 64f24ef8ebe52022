"""The modules that load PyTorch, and the error if it is not installed."""

from __future__ import annotations

import importlib
import pickle
import subprocess
import sys

import pytest

from plb.errors import CheckpointError, DivergedError, MissingExtraError

LIGHT = """
import sys
import plb, plb.learning, plb.learning.placement_game, plb.learning.settings, plb.errors
print("torch" in sys.modules)
"""
NEED_TORCH = ("networks", "training", "checkpoints", "policy")


def test_interface_and_settings_load_no_torch():
    done = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("module", NEED_TORCH)
def test_missing_torch_is_named_with_its_remedy(module, monkeypatch):
    for name in [name for name in sys.modules if name.startswith("plb.learning.")]:
        if name not in ("plb.errors", "plb.learning.placement_game", "plb.learning.settings"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match=r"^torch is not installed\. It belongs to the extra 'learning': "):
        importlib.import_module(f"plb.learning.{module}")


@pytest.mark.parametrize(
    "error", [MissingExtraError("torch"), CheckpointError("here.pt", "is damaged"), DivergedError(3, "a weight is")]
)
def test_errors_can_be_sent_between_processes(error):
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
