"""The cache of machine code holds whole entries or none, whatever happens to its directory."""

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


def aged(path: Path, days: float) -> Path:
    """Let a file be as if nobody had touched it for so many days."""
    at = time.time() - days * 86_400.0
    os.utime(path, (at, at))
    return path


def names_in(directory: Path) -> set[str]:
    """Return the names of the files in a directory."""
    return {path.name for path in directory.iterdir()}


@examples(30)
@given(st.dictionaries(st.tuples(st.text(max_size=200), keys), st.binary(max_size=50), max_size=5))
def test_what_is_stored_is_loaded(tmp_path_factory, entries):
    """By another process, whatever the names of kernels are, and each under its own name and key."""
    directory = tmp_path_factory.mktemp("cache")
    for (name, key), data in entries.items():
        KernelCache(directory).store(name, key, data)
    for (name, key), data in entries.items():
        assert KernelCache(directory).load(name, key) == data
        assert KernelCache(directory).load(name, "f" + key[1:]) in (None, entries.get((name, "f" + key[1:])))
    assert all(path.name.endswith(SUFFIX) for path in directory.iterdir())


@st.composite
def damages(draw):
    """Draw what a disk may make of an entry."""
    whole = FORMAT + b"c" * 32 + DATA  # as long as the entry is
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
def test_a_damaged_entry_is_none(tmp_path_factory, damage):
    """Cut off, with another byte anywhere, longer, or of other content; it is replaced when it has been made again."""
    cache = KernelCache(tmp_path_factory.mktemp("cache", numbered=True))
    cache.store(NAME, KEY, DATA)
    (path,) = cache.directory.iterdir()
    path.write_bytes(damage(path.read_bytes()))
    assert cache.load(NAME, KEY) is None
    cache.store(NAME, KEY, DATA)
    assert cache.load(NAME, KEY) == DATA


def test_a_directory_in_the_place_of_an_entry_is_none(tmp_path):
    """It stays, and new code is not kept."""
    cache = KernelCache(tmp_path)
    cache.store(NAME, KEY, DATA)
    (path,) = tmp_path.iterdir()
    path.unlink()
    path.mkdir()
    assert cache.load(NAME, KEY) is None
    cache.store(NAME, KEY, DATA)
    assert path.is_dir()
    assert not list(tmp_path.glob("*.part"))


def test_what_nobody_has_read_for_long_is_removed_with_the_next_entry(tmp_path):
    """Entries, and what killed processes have left; never files of others."""
    before = KernelCache(tmp_path)
    for key in ("a" * 64, "b" * 64, "c" * 64):
        before.store(NAME, key, DATA)
    for key, day in (("a" * 32, UNUSED_DAYS + 1), ("b" * 32, UNUSED_DAYS - 1), ("c" * 32, UNUSED_DAYS + 1)):
        aged(next(tmp_path.glob(f"*{key}*")), day)
    for name, day in (("old.part", UNUSED_DAYS + 1), ("new.part", 0.0), ("lock", 400.0), ("notes.txt", 400.0)):
        (tmp_path / name).touch()
        aged(tmp_path / name, day)
    cache = KernelCache(tmp_path)
    assert cache.load(NAME, "c" * 64) == DATA, "an entry is young again once it has been read"
    assert len(names_in(tmp_path)) == 7, "reading removes nothing"
    cache.store(NAME, "d" * 64, DATA)
    entries = {f"{NAME}-{letter * 32}{SUFFIX}" for letter in "bcd"}
    assert names_in(tmp_path) == entries | {"new.part", "lock", "notes.txt"}


def test_a_directory_that_cannot_be_made_is_said_once(tmp_path, caplog):
    """In one sentence, which says what to do; nothing is raised."""
    (tmp_path / "file").touch()
    cache = KernelCache(tmp_path / "file" / "cache")
    with caplog.at_level(logging.INFO, "plb"), cache.alone("f", KEY):
        assert cache.load(NAME, KEY) is None
        cache.store(NAME, KEY, DATA)
        cache.store(NAME, KEY, DATA)
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert str(tmp_path / "file" / "cache") in record.getMessage()
    assert "Set PLB_CACHE_DIR to a directory with room." in record.getMessage()


def test_without_a_directory_nothing_is_kept(caplog):
    """Nor said: whoever has no home knows."""
    cache = KernelCache(None)
    with caplog.at_level(logging.INFO, "plb"), cache.alone("f", KEY):
        cache.store(NAME, KEY, DATA)
        assert cache.load(NAME, KEY) is None
    assert caplog.records == []


def test_a_write_that_fails_leaves_no_part(tmp_path, monkeypatch):
    """Whatever ends it, Ctrl-C included."""
    for raised in (OSError("no room"), KeyboardInterrupt()):

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


def test_where_files_cannot_be_locked_nobody_waits(tmp_path, monkeypatch):
    """As on Windows, and on some file systems of networks."""
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
    ids=["chosen", "the user's caches", "the user's home", "below the home", "below where the process began"],
)
def test_machine_code_is_kept_where_the_user_says(monkeypatch, environment, directory):
    """In this order."""
    for name in ("PLB_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert cache_directory() == Path(directory)


def test_without_a_home_there_is_no_directory(monkeypatch):
    """As in a container whose user is not known; kernels are compiled by each process then."""

    def without_home(_):
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("PLB_CACHE_DIR", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "expanduser", without_home)
    assert cache_directory() is None
