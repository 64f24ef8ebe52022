"""What loads PyTorch, and what is said where it is missing."""

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
NEEDY = ("networks", "trajectories", "reinforce", "optimiser", "training", "checkpoints", "policy")


def test_interface_and_settings_load_no_torch():
    """A game can be written and settings be read without it."""
    done = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("module", NEEDY)
def test_a_missing_torch_is_named_with_its_cure(module, monkeypatch):
    """Every module that computes with it says what to install."""
    for name in [name for name in sys.modules if name.startswith("plb.learning.")]:
        if name not in ("plb.errors", "plb.learning.placement_game", "plb.learning.settings"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match=r"torch is not installed; pip install 'plb\[learning\]' brings it"):
        importlib.import_module(f"plb.learning.{module}")


@pytest.mark.parametrize(
    "error", [MissingExtraError("torch"), CheckpointError("here.pt", "is damaged"), DivergedError(3, "a weight is")]
)
def test_errors_survive_the_way_from_a_worker(error):
    """They are made again with the same words."""
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
