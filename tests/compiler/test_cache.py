"""The cache of machine code has complete entries or none, whatever happens to its directory."""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb.compiler.cache import FORMAT, SUFFIX, UNUSED_DAYS, KernelCache, cache_directory
from tests.engine.strategies import examples

NAME, KEY, DATA = "some.kernel", "0123456789abcdef" * 4, b"machine code"
keys = st.text("0123456789abcdef", min_size=64, max_size=64)


def with_age(path: Path, days: float) -> Path:
    """Give a file the age of the given number of days."""
    at = time.time() - days * 86_400.0
    os.utime(path, (at, at))
    return path


def names_in(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


@examples(30)
@given(st.dictionaries(st.tuples(st.text(max_size=200), keys), st.binary(max_size=50), max_size=5))
def test_stored_entries_are_loaded(tmp_path_factory, entries):
    directory = tmp_path_factory.mktemp("cache")
    for (name, key), data in entries.items():
        KernelCache(directory).store(name, key, data)
    for (name, key), data in entries.items():
        assert KernelCache(directory).load(name, key) == data
        assert KernelCache(directory).load(name, "f" + key[1:]) in (None, entries.get((name, "f" + key[1:])))
    assert all(path.name.endswith(SUFFIX) for path in directory.iterdir())


@st.composite
def damages(draw):
    whole = FORMAT + b"c" * 32 + DATA  # the length of the entry
    at = draw(st.integers(0, len(whole) - 1))
    flip = draw(st.integers(1, 255))
    return draw(
        st.sampled_from(
            [
                lambda content: content[:at],
                lambda content: content[:at] + bytes([content[at] ^ flip]) + content[at + 1 :],
                lambda content: content + bytes([flip]),
                lambda content: b"\0" * len(content),
                lambda _: bytes([flip]) * at,
            ]
        )
    )


@examples(200)
@given(damage=damages())
def test_damaged_entry_is_ignored(tmp_path_factory, damage):
    """The entry is truncated, has a changed byte, is longer or has other content; a new entry replaces it."""
    cache = KernelCache(tmp_path_factory.mktemp("cache", numbered=True))
    cache.store(NAME, KEY, DATA)
    (path,) = cache.directory.iterdir()
    path.write_bytes(damage(path.read_bytes()))
    assert cache.load(NAME, KEY) is None
    cache.store(NAME, KEY, DATA)
    assert cache.load(NAME, KEY) == DATA


def test_directory_in_the_place_of_an_entry_is_ignored(tmp_path):
    cache = KernelCache(tmp_path)
    cache.store(NAME, KEY, DATA)
    (path,) = tmp_path.iterdir()
    path.unlink()
    path.mkdir()
    assert cache.load(NAME, KEY) is None
    cache.store(NAME, KEY, DATA)
    assert path.is_dir()
    assert not list(tmp_path.glob("*.part"))


def test_unused_entries_are_removed_with_the_next_entry(tmp_path):
    before = KernelCache(tmp_path)
    for key in ("a" * 64, "b" * 64, "c" * 64):
        before.store(NAME, key, DATA)
    for key, day in (("a" * 32, UNUSED_DAYS + 1), ("b" * 32, UNUSED_DAYS - 1), ("c" * 32, UNUSED_DAYS + 1)):
        with_age(next(tmp_path.glob(f"*{key}*")), day)
    for name, day in (("old.part", UNUSED_DAYS + 1), ("new.part", 0.0), ("lock", 400.0), ("notes.txt", 400.0)):
        (tmp_path / name).touch()
        with_age(tmp_path / name, day)
    cache = KernelCache(tmp_path)
    assert cache.load(NAME, "c" * 64) == DATA, "an entry is young again once it has been read"
    assert len(names_in(tmp_path)) == 7, "reading removes nothing"
    cache.store(NAME, "d" * 64, DATA)
    entries = {f"{NAME}-{letter * 32}{SUFFIX}" for letter in "bcd"}
    assert names_in(tmp_path) == entries | {"new.part", "lock", "notes.txt"}


def test_directory_that_cannot_be_created_is_reported_once(tmp_path, caplog):
    (tmp_path / "file").touch()
    cache = KernelCache(tmp_path / "file" / "cache")
    with caplog.at_level(logging.INFO, "plb"), cache.alone("f", KEY):
        assert cache.load(NAME, KEY) is None
        cache.store(NAME, KEY, DATA)
        cache.store(NAME, KEY, DATA)
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert str(tmp_path / "file" / "cache") in record.getMessage()
    assert "Set PLB_CACHE_DIR to a directory with free space." in record.getMessage()


def test_cache_without_a_directory_keeps_nothing(caplog):
    cache = KernelCache(None)
    with caplog.at_level(logging.INFO, "plb"), cache.alone("f", KEY):
        cache.store(NAME, KEY, DATA)
        assert cache.load(NAME, KEY) is None
    assert caplog.records == []


def test_failed_write_leaves_no_file(tmp_path, monkeypatch):
    for raised in (OSError("no space"), KeyboardInterrupt()):

        def failing(_path, _target, raised=raised):
            raise raised

        monkeypatch.setattr(Path, "replace", failing)
        cache = KernelCache(tmp_path / "cache")
        if isinstance(raised, OSError):
            cache.store(NAME, KEY, DATA)
        else:
            with pytest.raises(KeyboardInterrupt):
                cache.store(NAME, KEY, DATA)
        assert names_in(tmp_path / "cache") == set()


def test_without_locks_no_process_waits(tmp_path, monkeypatch):
    monkeypatch.setattr("plb.compiler.cache.fcntl", None)
    cache = KernelCache(tmp_path)
    with cache.alone("f", KEY):
        cache.store(NAME, KEY, DATA)
    assert cache.load(NAME, KEY) == DATA


@pytest.mark.parametrize(
    ("environment", "directory"),
    [
        ({"PLB_CACHE_DIR": "/here", "XDG_CACHE_HOME": "/there", "HOME": "/home/me"}, "/here"),
        ({"PLB_CACHE_DIR": "", "XDG_CACHE_HOME": "/there", "HOME": "/home/me"}, "/there/plb"),
        ({"HOME": "/home/me"}, "/home/me/.cache/plb"),
        ({"PLB_CACHE_DIR": "~/kernels", "HOME": "/home/me"}, "/home/me/kernels"),
        ({"PLB_CACHE_DIR": "kernels"}, str(Path.cwd() / "kernels")),
    ],
    ids=["chosen", "the user's caches", "the user's home", "below the home", "below the working directory"],
)
def test_cache_directory_follows_the_environment(monkeypatch, environment, directory):
    for name in ("PLB_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert cache_directory() == Path(directory)


def test_cache_without_a_home_has_no_directory(monkeypatch):
    """Processes of an unknown user, for example in a container, compile kernels each time."""

    def without_home(_):
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("PLB_CACHE_DIR", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "expanduser", without_home)
    assert cache_directory() is None
