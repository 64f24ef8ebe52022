"""Checkpoint files of policies."""

from __future__ import annotations

import contextlib
import os
import pickle
from pathlib import Path

import attrs
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from plb.errors import CheckpointError, InvalidValueError
from plb.learning import checkpoints
from plb.learning.checkpoints import content_digest, read_checkpoint, weights_digest, write_checkpoint
from plb.learning.policy import LearnedPolicy
from plb.learning.settings import TrainingSettings
from plb.learning.training import train
from tests.learning.games import EmptierMachine

QUICK = TrainingSettings(iterations=2, sequences=1, trajectories=2, hidden=4, seed=5)


@pytest.fixture(scope="module")
def checkpoint():
    return train(QUICK, EmptierMachine)


@pytest.fixture
def file(checkpoint, tmp_path):
    write_checkpoint(tmp_path / "policy.pt", checkpoint)
    return tmp_path / "policy.pt"


def test_read_checkpoint_equals_the_written_one(checkpoint, file):
    read = read_checkpoint(file)
    for name in ("settings", "shape", "iteration", "curve"):
        assert getattr(read, name) == getattr(checkpoint, name)
    assert read.digest == checkpoint.digest
    assert read.optimiser["state"].keys() == checkpoint.optimiser["state"].keys()
    for number, moments in checkpoint.optimiser["state"].items():
        assert moments["step"] == 2
        assert weights_digest(read.optimiser["state"][number]) == weights_digest(moments)


def test_policy_without_training_is_the_same_policy(checkpoint, tmp_path):
    alone = tmp_path / "alone.pt"
    write_checkpoint(alone, checkpoint.policy_alone())
    read = read_checkpoint(alone)
    for name in ("settings", "shape", "iteration"):
        assert getattr(read, name) == getattr(checkpoint, name)
    assert weights_digest(read.weights) == weights_digest(checkpoint.weights)
    assert (read.optimiser, read.curve) == (None, ())


def test_digest_depends_on_names_shapes_and_values():
    plain = {"a": torch.arange(6.0).reshape(2, 3), "b": torch.zeros(2)}
    digest = weights_digest(plain)
    assert len(digest) == 64
    assert weights_digest({"b": plain["b"], "a": plain["a"].T.contiguous().T}) == digest
    others = [
        {**plain, "a": plain["a"].reshape(3, 2)},
        {**plain, "a": plain["a"] + 1e-6},
        {"a": plain["a"], "c": plain["b"]},
    ]
    assert len({digest, *map(weights_digest, others)}) == 4


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_file_is_refused_or_equal(checkpoint, tmp_path, data):
    file = tmp_path / "policy.pt"
    write_checkpoint(file, checkpoint)
    content = bytearray(file.read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        content = content[:place]
    else:
        content[place] ^= data.draw(st.integers(1, 255))
    file.write_bytes(content)
    try:
        read = read_checkpoint(file)
    except CheckpointError as error:
        assert str(file) in str(error)  # noqa: PT017 - either is right
    else:
        assert weights_digest(read.weights) == weights_digest(checkpoint.weights)
        for name in ("settings", "shape", "resources", "iteration", "curve"):
            assert getattr(read, name) == getattr(checkpoint, name)


class Evil:
    """Runs a command when it is unpickled."""

    def __reduce__(self):
        return os.system, ("touch evil",)


@pytest.mark.parametrize(
    "write",
    [
        lambda path: path.write_bytes(b""),
        lambda path: path.write_text("a policy\n"),
        lambda path: path.write_bytes(pickle.dumps(Evil())),
        lambda path: torch.save({"format": "plb policy", "version": checkpoints.VERSION, "settings": Evil()}, path),
        lambda path: torch.save(torch.zeros(3), path),
        lambda path: torch.save({"format": "plb policy", "version": 1}, path),
        lambda path: torch.save({"format": "plb policy", "version": checkpoints.VERSION}, path),
        lambda path: path.mkdir(),
        lambda path: path.unlink(missing_ok=True),
    ],
    ids=["empty", "text", "code", "code inside", "tensor", "other version", "incomplete", "folder", "missing"],
)
def test_other_files_are_refused_and_no_code_in_them_runs(write, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "other.pt")
    with pytest.raises(CheckpointError, match=r"checkpoint .*other\.pt: "):
        read_checkpoint(tmp_path / "other.pt")
    assert not Path("evil").exists()


def rewrite(file, change, *, sign=True):
    """Change the content of a file; with `sign`, its digest is valid."""
    content = torch.load(file, weights_only=True)
    change(content)
    if sign:
        with contextlib.suppress(AttributeError, KeyError):
            content["digest"] = content_digest(content)
    torch.save(content, file)


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content["settings"].update(seed=6),
        lambda content: content["settings"].update(learning_rate=0.002),
        lambda content: content["shape"].update(machines=4),
        lambda content: content["shape"].update(machines=10**15),
        lambda content: content.update(resources=["cpu"]),
        lambda content: content.update(iteration=3),
        lambda content: content["curve"][0].update(reward=-1.25),
        lambda content: content["curve"][0].update(reward=float("nan")),
        lambda content: content["curve"][1].update(decisions=7),
        lambda content: content["weights"]["own.bias"].add_(1.0),
        lambda content: content["optimiser"]["state"][0]["exp_avg"].add_(1.0),
        lambda content: content["optimiser"]["state"][0]["step"].add_(1.0),
        lambda content: content.update(digest=weights_digest({})),
    ],
)
def test_digest_covers_the_whole_content_of_a_file(change, file):
    rewrite(file, change, sign=False)
    with pytest.raises(CheckpointError, match=r"is damaged: (it does not hold what was written|it lacks)"):
        read_checkpoint(file)


@pytest.mark.parametrize("path", ["a\0b", "a\ud800b"])
def test_invalid_path_is_refused(path):
    with pytest.raises(CheckpointError, match="cannot be read"):
        read_checkpoint(path)


def test_names_of_resources_are_kept_with_the_policy(checkpoint, tmp_path):
    """A policy without its training keeps them as well; they are plain text, one for each resource."""
    named = attrs.evolve(checkpoint, resources=np.array(["cpu"]))
    write_checkpoint(tmp_path / "named.pt", named.policy_alone())
    read = read_checkpoint(tmp_path / "named.pt")
    assert read.resources == LearnedPolicy(read).resources == ("cpu",)
    assert LearnedPolicy(checkpoint).resources == ()
    assert weights_digest(read.weights) == weights_digest(checkpoint.weights)
    with pytest.raises(InvalidValueError, match=r"policy: resources = .* expected 1 names"):
        attrs.evolve(checkpoint, resources=("cpu", "memory"))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda content: content["settings"].update(trajectories=1), "trajectories = 1"),
        (lambda content: content["settings"].update(hidden=5), "weights are not"),
        (lambda content: content["settings"].update(unknown=5), "lacks"),
        (lambda content: content["shape"].update(horizon=3), "weights are not"),
        (lambda content: content["shape"].update(horizon=-9), "horizon = -9"),
        (lambda content: content["shape"].update(horizon="2"), "horizon = '2'"),
        (lambda content: content["shape"].update(past=-1), "past = -1"),
        (lambda content: content["shape"].update(past=True), "past = True"),
        (lambda content: content["shape"].update(machines=3.0), r"machines = 3\.0"),
        (lambda content: content["weights"].pop("own.bias"), "weights are not"),
        (lambda content: content["weights"].update({"another.bias": torch.zeros(4)}), "weights are not"),
        (lambda content: content.pop("curve"), "lacks"),
        (lambda content: content.update(resources=["cpu", "memory"]), "resources = .*; expected 1 names"),
        (lambda content: content.update(resources="cpu"), "resources = 'cpu'"),
        (lambda content: content.update(version="1"), "version '1'; this program reads version 3"),
    ],
)
def test_inconsistent_file_is_refused(change, reason, file):
    rewrite(file, change)
    with pytest.raises(CheckpointError, match=reason):
        read_checkpoint(file)


def test_interrupted_write_keeps_the_old_file(checkpoint, file, monkeypatch):

    def broken(_):
        raise OSError("no space left")

    monkeypatch.setattr(checkpoints.os, "fsync", broken)
    with pytest.raises(OSError, match="no space"):
        write_checkpoint(file, attrs.evolve(checkpoint, iteration=77))
    assert read_checkpoint(file).iteration == checkpoint.iteration
    assert list(file.parent.iterdir()) == [file]
