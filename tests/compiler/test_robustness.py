"""A process gets right results whatever it finds in the cache, whatever the disk refuses, and whoever else compiles."""

from __future__ import annotations

import hashlib
import os
import pickle
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest

from plb.compiler.cache import FORMAT, UNUSED_DAYS, KernelCache
from plb.compiler.compilation import renew_readers
from plb.compiler.numba_api import cpu_target
from tests.compiler.processes import FailedError, Ran, write
from tests.compiler.test_cache import aged

STORY = """
import pathlib, threading, time
import numpy as np
from plb.compiler import kernel

@kernel(shared=True)
def shared(x):
    return x + 1

@kernel
def f(x):
    return shared(x) * 2

@kernel
def g(x):
    return x * 3

@kernel
def alone(x):
    return x

def run():
    return [f(1), g(1)]

def run_f():
    return f(1)

def run_as_another_version():
    import numba
    numba.__version__ = "0.68.99"
    return f(1)

def run_slowly(signals, seconds):
    '''Call a kernel; while it is being compiled, make a file and wait.'''
    from plb.compiler import compilation

    class Slow:
        def announce(self, *arguments):
            shown.announce(*arguments)
            pathlib.Path(signals, "compiling").touch()
            time.sleep(seconds)

    shown, compilation.NOTICE = compilation.NOTICE, Slow()
    return g(1)

def run_and_stop_before_renaming(signals):
    '''Call a kernel; when it has been written, make a file and wait before it gets its name.'''
    def replace(path, target):
        pathlib.Path(signals, "written").touch()
        time.sleep(60)
    pathlib.Path.replace = replace
    return g(1)

def run_interrupted():
    '''Call kernels, and be interrupted later and later, until they have come to an end.'''
    import signal
    def interrupt(*arguments):
        raise KeyboardInterrupt
    signal.signal(signal.SIGALRM, interrupt)
    alone(1)  # loads Numba, which cannot be interrupted
    seconds, interrupts, result = 0.001, 0, None
    while result is None:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            result = run()
        except KeyboardInterrupt:
            interrupts += 1
            seconds *= 1.3
        signal.setitimer(signal.ITIMER_REAL, 0)
    return result, interrupts

def run_in_threads():
    '''Call kernels from threads that begin together.'''
    results, begin = [], threading.Barrier(8)
    def call(one):
        begin.wait()
        results.append(one(1))
    threads = [threading.Thread(target=call, args=(one,)) for one in (f, g) * 4]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(results)
"""
EVERYTHING = ["story.f", "story.g", "story.shared"]


class Tried:
    """The story above, run in processes that share a cache directory."""

    def __init__(self, processes, modules):
        self.processes = processes
        self.modules = modules

    def start(self, function, *arguments, cache, **environment):
        """Start a process that calls a function of the story."""
        return self.processes.start(f"story:{function}", *arguments, cache=cache, path=[self.modules], **environment)

    def run(self, function="run", *arguments, cache, **environment):
        """Run such a process to its end."""
        return self.start(function, *arguments, cache=cache, **environment).wait()


@pytest.fixture
def tried(processes, tmp_path):
    """Return what runs the story."""
    return Tried(processes, write(tmp_path / "modules", story=STORY))


def wait_for(path):
    """Wait until there is a file."""
    until = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < until
        time.sleep(0.005)


def fill(disk):
    """Leave no room on a disk."""
    with suppress(OSError), (disk / "ballast").open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)


def entries_in(cache):
    """Return the names of the kernels that a directory holds."""
    return sorted(path.name.partition("-")[0] for path in cache.glob("*.kernel"))


def test_a_directory_that_may_only_be_read_is_read(tried, disk):
    """What it holds is run; the rest is compiled and not kept, which is said once."""
    cache = disk("size=4m")
    tried.run("run_f", cache=cache)
    disk("ro,size=4m")
    for _ in range(2):
        ran = tried.run(cache=cache)
        assert (ran.result, ran.compiled) == ([4, 3], ["story.g"])
        (warning,) = ran.warnings
        assert f"cannot be kept in {cache} (Read-only file system)" in warning


def test_a_full_disk_keeps_nothing_and_hinders_nothing(tried, disk):
    """It is said once, no part of an entry is left, and once there is room entries are kept."""
    cache = disk("size=256k")
    fill(cache)
    ran = tried.run(cache=cache)
    assert (ran.result, ran.compiled) == ([4, 3], EVERYTHING)
    (warning,) = ran.warnings
    assert f"cannot be kept in {cache} (No space left on device)" in warning
    assert {path.name for path in cache.iterdir()} <= {"ballast", "lock"}
    (cache / "ballast").unlink()
    assert tried.run(cache=cache) == Ran([4, 3], EVERYTHING, [])
    assert entries_in(cache) == EVERYTHING


@pytest.mark.parametrize("place", ["/dev/full/cache", "/dev/null", "/proc/none"])
def test_a_directory_that_cannot_be_made_hinders_nothing(tried, place):
    """Everything is compiled, and one sentence says that it is not kept."""
    ran = tried.run("run_f", cache=place)
    assert (ran.result, ran.compiled) == (4, ["story.f", "story.shared"])
    assert len(ran.warnings) == 1
    assert place in ran.warnings[0]


def test_a_home_that_is_none_hinders_nothing(tried):
    """As that of a user of the system."""
    ran = tried.run("run_f", cache=None, HOME="/dev/null", XDG_CACHE_HOME=None)
    assert (ran.result, ran.compiled, len(ran.warnings)) == (4, ["story.f", "story.shared"], 1)


def with_checksum(data):
    """Return an entry of these bytes that is whole."""
    return FORMAT + hashlib.sha256(data).digest() + data


DAMAGES = {
    "cut off": lambda content: content[:-1],
    "another byte": lambda content: content[:-100] + bytes([content[-100] ^ 1]) + content[-99:],
    "empty": lambda _: b"",
    "garbage": lambda content: os.urandom(len(content)),
    "of another format": lambda content: content.replace(b"plb kernel", b"plb colonel"),
}
FOREIGN = {
    "whole, of another object": lambda _: with_checksum(pickle.dumps({"object_file": b""})),
    "whole, and no pickle": lambda _: with_checksum(b"no pickle"),
    "whole, of a class that is gone": lambda _: with_checksum(b"cnowhere\nGone\n)R."),
}


@pytest.mark.parametrize(
    "damage",
    [*DAMAGES.values(), *FOREIGN.values()],
    ids=[*DAMAGES, *FOREIGN],
)
def test_damaged_entries_are_made_again(tried, tmp_path, damage):
    """With the right result, and so that the next process finds them whole."""
    tried.run("run_f", cache=tmp_path / "cache")
    whole = {path: path.read_bytes() for path in (tmp_path / "cache").glob("*.kernel")}
    assert len(whole) == 2
    for path, content in whole.items():
        path.write_bytes(damage(content))
    assert tried.run("run_f", cache=tmp_path / "cache") == Ran(4, ["story.f", "story.shared"], [])
    assert tried.run("run_f", cache=tmp_path / "cache") == Ran(4, [], [])


def test_entries_of_another_version_are_left_alone(tried, tmp_path):
    """Two environments may share a directory: each finds its own."""
    cache = tmp_path / "cache"
    both = ["story.f", "story.shared"]
    assert tried.run("run_f", cache=cache) == Ran(4, both, [])
    assert tried.run("run_as_another_version", cache=cache) == Ran(4, both, [])
    assert tried.run("run_f", cache=cache) == Ran(4, [], [])
    assert tried.run("run_as_another_version", cache=cache) == Ran(4, [], [])


def test_processes_that_need_a_kernel_at_once_compile_it_once(tried, tmp_path):
    """The second waits for the first, and runs its code."""
    cache = tmp_path / "cache"
    first = tried.start("run_slowly", str(tmp_path), 0.5, cache=cache)
    wait_for(tmp_path / "compiling")
    assert tried.run(cache=cache) == Ran([4, 3], ["story.f", "story.shared"], [])
    assert first.wait() == Ran(3, ["story.g"], [])


def test_processes_that_need_different_kernels_do_not_wait_for_each_other(tried, tmp_path):
    """Each kernel has its own lock."""
    cache = tmp_path / "cache"
    first = tried.start("run_slowly", str(tmp_path), 60.0, cache=cache)
    wait_for(tmp_path / "compiling")
    try:
        assert tried.run("run_f", cache=cache) == Ran(4, ["story.f", "story.shared"], [])
    finally:
        os.kill(first.number, signal.SIGKILL)
        with pytest.raises(FailedError, match="-9"):
            first.wait()


def test_many_processes_at_once_compile_each_kernel_once(tried, tmp_path):
    """In whatever order they come."""
    started = [tried.start("run", cache=tmp_path / "cache") for _ in range(4)]
    ran = [one.wait() for one in started]
    assert [one.result for one in ran] == [[4, 3]] * 4
    assert sorted(name for one in ran for name in one.compiled) == EVERYTHING


@pytest.mark.parametrize("cache", ["cache", "/dev/null"], ids=["kept", "not kept"])
def test_threads_that_need_kernels_at_once_compile_each_once(tried, tmp_path, cache):
    """Where they can be kept, and where they cannot."""
    ran = tried.run("run_in_threads", cache=tmp_path / cache)
    assert ran.result == [3] * 4 + [4] * 4
    assert ran.compiled == EVERYTHING


def test_an_interrupt_ends_a_compilation_and_the_next_call_compiles_again(tried, tmp_path):
    """At whatever moment it comes."""
    ran = tried.run("run_interrupted", cache=tmp_path / "cache")
    result, interrupts = ran.result
    assert result == [4, 3]
    assert interrupts > 3
    assert tried.run(cache=tmp_path / "cache") == Ran([4, 3], [], [])


def test_a_reader_of_a_registry_that_an_interrupt_ended_is_renewed():
    """It goes on where the registry ends, since what was registered before is known."""
    cpu_target.typing_context.refresh()  # makes the readers
    loader = next(iter(cpu_target.typing_context._registries.values()))
    with pytest.raises(KeyboardInterrupt):
        loader._registrations["functions"].throw(KeyboardInterrupt)
    with pytest.raises(StopIteration):
        next(loader._registrations["functions"])
    renew_readers()
    assert list(next(loader._registrations["functions"])) == []


def test_a_process_that_is_killed_while_it_compiles_hinders_nobody(tried, tmp_path):
    """Its lock is free, and it has left nothing."""
    cache = tmp_path / "cache"
    killed = tried.start("run_slowly", str(tmp_path), 60.0, cache=cache)
    wait_for(tmp_path / "compiling")
    os.kill(killed.number, signal.SIGKILL)
    assert tried.run(cache=cache) == Ran([4, 3], EVERYTHING, [])
    with pytest.raises(FailedError, match="-9"):
        killed.wait()
    assert {path.suffix for path in cache.iterdir()} == {".kernel", ""}


def test_what_a_killed_process_has_written_by_half_is_removed_later(tried, tmp_path):
    """No reader takes it for an entry, and one who writes when it is old removes it."""
    cache = tmp_path / "cache"
    killed = tried.start("run_and_stop_before_renaming", str(tmp_path), cache=cache)
    wait_for(tmp_path / "written")
    os.kill(killed.number, signal.SIGKILL)
    with pytest.raises(FailedError, match="-9"):
        killed.wait()
    (left,) = cache.glob("*.part")
    assert tried.run("run_slowly", str(tmp_path), 0.0, cache=cache) == Ran(3, ["story.g"], [])
    assert left.exists(), "it might be that of a process that writes"
    aged(left, UNUSED_DAYS + 1)
    tried.run("run_f", cache=cache)
    assert not left.exists()


def test_locks_are_those_of_keys(tmp_path, monkeypatch):
    """Of one key there is one; the file that holds them is opened once, since closing it would release all."""
    opened = []
    monkeypatch.setattr(os, "open", lambda *arguments, original=os.open: opened.append(1) or original(*arguments))
    cache = KernelCache(Path(tmp_path))
    with cache.alone("a", "a" * 64), cache.alone("b", "b" * 64):
        pass
    assert opened == [1]
