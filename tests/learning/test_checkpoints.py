"""Files that hold a policy."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import attrs
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from plb.learning import checkpoints
from plb.learning.checkpoints import read_checkpoint, weights_digest, write_checkpoint
from plb.learning.errors import CheckpointError
from plb.learning.settings import TrainingSettings
from plb.learning.training import train
from tests.learning.games import EmptierMachine

QUICK = TrainingSettings(iterations=2, sequences=1, trajectories=2, hidden=4, seed=5)


@pytest.fixture(scope="module")
def checkpoint():
    """Return the checkpoint of a short training."""
    return train(QUICK, EmptierMachine).checkpoint


@pytest.fixture
def file(checkpoint, tmp_path):
    """Return a file of it."""
    write_checkpoint(tmp_path / "policy.pt", checkpoint)
    return tmp_path / "policy.pt"


def test_what_is_read_is_what_was_written(checkpoint, file):
    """Settings, shape, curve, and every bit of the arrays."""
    read = read_checkpoint(file)
    for name in ("settings", "shape", "iteration", "curve"):
        assert getattr(read, name) == getattr(checkpoint, name)
    assert read.optimiser.steps == checkpoint.optimiser.steps == 2
    for part in (lambda one: one.weights, lambda one: one.optimiser.first, lambda one: one.optimiser.second):
        assert weights_digest(part(read)) == weights_digest(part(checkpoint))


def test_a_policy_alone_is_the_same_policy(checkpoint, tmp_path):
    """What deciding takes is there, to the last bit; of the training nothing is."""
    alone = tmp_path / "alone.pt"
    write_checkpoint(alone, checkpoint.policy_alone())
    read = read_checkpoint(alone)
    for name in ("settings", "shape", "iteration"):
        assert getattr(read, name) == getattr(checkpoint, name)
    assert weights_digest(read.weights) == weights_digest(checkpoint.weights)
    assert (read.optimiser, read.curve) == (None, ())


def test_a_file_of_a_policy_alone_is_less_than_half_as_large(tmp_path):
    """With a network as large as one that is of use, weights are most of a file."""
    checkpoint = train(attrs.evolve(QUICK, hidden=64), EmptierMachine).checkpoint
    write_checkpoint(tmp_path / "whole.pt", checkpoint)
    write_checkpoint(tmp_path / "alone.pt", checkpoint.policy_alone())
    assert (tmp_path / "alone.pt").stat().st_size < (tmp_path / "whole.pt").stat().st_size / 2


def test_the_digest_tells_names_shapes_and_values_apart():
    """And nothing else: neither the order of the names nor that of the memory."""
    plain = {"a": np.arange(6, dtype="f4").reshape(2, 3), "b": np.zeros(2, dtype="f4")}
    digest = weights_digest(plain)
    assert len(digest) == 64
    assert weights_digest({"b": plain["b"], "a": np.asfortranarray(plain["a"])}) == digest
    others = [
        {**plain, "a": plain["a"].reshape(3, 2)},
        {**plain, "a": plain["a"] + np.float32(1e-6)},
        {"a": plain["a"], "c": plain["b"]},
    ]
    assert len({digest, *map(weights_digest, others)}) == 4


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_file_is_refused_or_as_it_was(checkpoint, tmp_path, data):
    """Cut off anywhere, or with any byte changed, it is never another policy."""
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


class Evil:
    """Runs a command where it is unpickled."""

    def __reduce__(self):
        return os.system, ("touch evil",)


@pytest.mark.parametrize(
    "write",
    [
        lambda path: path.write_bytes(b""),
        lambda path: path.write_text("a policy\n"),
        lambda path: path.write_bytes(pickle.dumps(Evil())),
        lambda path: torch.save({"format": "plb policy", "version": 1, "settings": Evil()}, path),
        lambda path: torch.save(torch.zeros(3), path),
        lambda path: torch.save({"format": "plb policy", "version": 2}, path),
        lambda path: torch.save({"format": "plb policy", "version": 1}, path),
        lambda path: path.mkdir(),
        lambda path: path.unlink(missing_ok=True),
    ],
    ids=["empty", "text", "code", "code in it", "tensor", "other version", "incomplete", "folder", "missing"],
)
def test_other_files_are_refused_and_no_code_in_them_runs(write, tmp_path, monkeypatch):
    """The error names the file."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "other.pt")
    with pytest.raises(CheckpointError, match=r"checkpoint .*other\.pt: "):
        read_checkpoint(tmp_path / "other.pt")
    assert not Path("evil").exists()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda content: content["settings"].update(trajectories=1), "trajectories = 1"),
        (lambda content: content["settings"].update(hidden=5), "weights are not"),
        (lambda content: content["settings"].update(unknown=5), "lacks"),
        (lambda content: content["shape"].update(horizon=3), "weights are not"),
        (lambda content: content["shape"].update(horizon=-9), "lacks"),
        (lambda content: content["shape"].update(horizon="2"), "lacks"),
        (lambda content: content["tensors"]["weights/own.bias"].fill_(float("nan")), "weights are not"),
        (lambda content: content["tensors"].pop("first/own.bias"), "weights are not"),
        (lambda content: content["tensors"].update({"third/own.bias": torch.zeros(4)}), "weights are not"),
        (lambda content: content["tensors"]["second/own.bias"].add_(1.0), "weights are not"),
        (lambda content: content["tensors"].update({"first/own.bias": torch.zeros(4, dtype=torch.int32)}), "are not"),
        (lambda content: content["tensors"].update({"first/own.bias": 1.0}), "lacks"),
        (lambda content: content["curve"].append({}), "lacks"),
        (lambda content: content["curve"].pop(), "iterations contradict"),
        (lambda content: content.update(iteration=3), "iterations contradict"),
        (lambda content: content.update(steps=1), "iterations contradict"),
        (lambda content: content.update(steps=2.0), "lacks"),
        (lambda content: content.update(steps=None), "weights are not"),
        (lambda content: content.pop("steps"), "lacks"),
        (lambda content: content.update(version="1"), "version '1'; this program reads version 1"),
    ],
)
def test_a_file_that_contradicts_itself_is_refused(change, reason, file):
    """Settings out of range, weights of another network, rows that are none."""
    content = torch.load(file, weights_only=True)
    change(content)
    torch.save(content, file)
    with pytest.raises(CheckpointError, match=reason):
        read_checkpoint(file)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda content: content.update(steps=2), "weights are not"),
        (lambda content: content.update(iteration=-1), "iterations contradict"),
        (lambda content: content["tensors"]["weights/own.bias"].add_(1.0), "weights are not"),
    ],
)
def test_a_policy_alone_that_contradicts_itself_is_refused(change, reason, checkpoint, file):
    """It does not pass for the state of a training either."""
    write_checkpoint(file, checkpoint.policy_alone())
    content = torch.load(file, weights_only=True)
    change(content)
    torch.save(content, file)
    with pytest.raises(CheckpointError, match=reason):
        read_checkpoint(file)


def test_a_write_that_breaks_off_leaves_the_former_file(checkpoint, file, monkeypatch):
    """The new one takes its place only when it is whole."""

    def broken(_):
        raise OSError("no space left")

    monkeypatch.setattr(checkpoints.os, "fsync", broken)
    with pytest.raises(OSError, match="no space"):
        write_checkpoint(file, attrs.evolve(checkpoint, iteration=77))
    assert read_checkpoint(file).iteration == checkpoint.iteration
    assert list(file.parent.iterdir()) == [file]
