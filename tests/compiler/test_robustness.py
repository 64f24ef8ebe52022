"""A process gets right results with any content of the cache, any disk errors, and any other processes."""

from __future__ import annotations

import hashlib
import os
import pickle
import signal
import time
from pathlib import Path

import pytest
from numba.core.registry import cpu_target

from plb.compiler.cache import FORMAT, UNUSED_DAYS, KernelCache
from plb.compiler.compilation import renew_readers
from tests.compiler.processes import FailedError, Ran, write
from tests.compiler.test_cache import with_age
from tests.disks import fill

EXAMPLE = """
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
    import signal, sys
    sys.settrace(None)  # an interrupt within a tracer that measures coverage would leave its lock taken
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGALRM, lambda *arguments: signal.raise_signal(signal.SIGINT))
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
EVERYTHING = ["example.f", "example.g", "example.shared"]


class Runner:
    """Runs the example above in processes that share a cache directory."""

    def __init__(self, processes, modules):
        self.processes = processes
        self.modules = modules

    def start(self, function, *arguments, cache, **environment):
        """Start a process that calls a function of the example."""
        return self.processes.start(f"example:{function}", *arguments, cache=cache, path=[self.modules], **environment)

    def run(self, function="run", *arguments, cache, **environment):
        return self.start(function, *arguments, cache=cache, **environment).wait()


@pytest.fixture
def runner(processes, tmp_path):
    return Runner(processes, write(tmp_path / "modules", example=EXAMPLE))


def wait_for(path):
    until = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < until
        time.sleep(0.005)


def entries_in(cache):
    return sorted(path.name.partition("-")[0] for path in cache.glob("*.kernel"))


def test_read_only_directory_is_read(runner, disk):
    cache = disk("size=4m")
    runner.run("run_f", cache=cache)
    disk("ro,size=4m")
    for _ in range(2):
        ran = runner.run(cache=cache)
        assert (ran.result, ran.compiled) == ([4, 3], ["example.g"])
        (warning,) = ran.warnings
        assert f"cannot be kept in {cache} (Read-only file system)" in warning


def test_full_disk_keeps_nothing_and_does_no_harm(runner, disk):
    cache = disk("size=256k")
    fill(cache)
    ran = runner.run(cache=cache)
    assert (ran.result, ran.compiled) == ([4, 3], EVERYTHING)
    (warning,) = ran.warnings
    assert f"cannot be kept in {cache} (No space left on device)" in warning
    assert {path.name for path in cache.iterdir()} <= {"ballast", "lock"}
    (cache / "ballast").unlink()
    assert runner.run(cache=cache) == Ran([4, 3], EVERYTHING, [])
    assert entries_in(cache) == EVERYTHING


def test_directory_that_cannot_be_created_does_no_harm(runner):
    ran = runner.run("run_f", cache=None, HOME="/dev/null", XDG_CACHE_HOME=None)
    assert (ran.result, ran.compiled) == (4, ["example.f", "example.shared"])
    (warning,) = ran.warnings
    assert "/dev/null" in warning


def with_checksum(data):
    """Return an entry of these bytes with a valid checksum."""
    return FORMAT + hashlib.sha256(data).digest() + data


FOREIGN = {
    "truncated": lambda content: content[:-1],
    "valid, of another object": lambda _: with_checksum(pickle.dumps({"object_file": b""})),
    "valid, but no pickle": lambda _: with_checksum(b"no pickle"),
    "valid, of a missing class": lambda _: with_checksum(b"cnowhere\nGone\n)R."),
}


@pytest.mark.parametrize("damage", FOREIGN.values(), ids=FOREIGN)
def test_damaged_entries_are_compiled_again(runner, tmp_path, damage):
    runner.run("run_f", cache=tmp_path / "cache")
    whole = {path: path.read_bytes() for path in (tmp_path / "cache").glob("*.kernel")}
    assert len(whole) == 2
    for path, content in whole.items():
        path.write_bytes(damage(content))
    assert runner.run("run_f", cache=tmp_path / "cache") == Ran(4, ["example.f", "example.shared"], [])
    assert runner.run("run_f", cache=tmp_path / "cache") == Ran(4, [], [])


def test_processes_that_need_a_kernel_at_once_compile_it_once(runner, tmp_path):
    cache = tmp_path / "cache"
    first = runner.start("run_slowly", str(tmp_path), 0.5, cache=cache)
    wait_for(tmp_path / "compiling")
    assert runner.run(cache=cache) == Ran([4, 3], ["example.f", "example.shared"], [])
    assert first.wait() == Ran(3, ["example.g"], [])


def test_processes_that_need_different_kernels_do_not_wait_for_each_other(runner, tmp_path):
    cache = tmp_path / "cache"
    first = runner.start("run_slowly", str(tmp_path), 60.0, cache=cache)
    wait_for(tmp_path / "compiling")
    try:
        assert runner.run("run_f", cache=cache) == Ran(4, ["example.f", "example.shared"], [])
    finally:
        os.kill(first.number, signal.SIGKILL)
        with pytest.raises(FailedError, match="-9"):
            first.wait()


@pytest.mark.parametrize("cache", ["cache", "/dev/null"], ids=["kept", "not kept"])
def test_threads_that_need_kernels_at_once_compile_each_once(runner, tmp_path, cache):
    ran = runner.run("run_in_threads", cache=tmp_path / cache)
    assert ran.result == [3] * 4 + [4] * 4
    assert ran.compiled == EVERYTHING


def test_interrupt_takes_effect_after_the_kernel_is_compiled(runner, tmp_path):
    ran = runner.run("run_interrupted", cache=tmp_path / "cache")
    result, interrupts = ran.result
    assert result == [4, 3]
    assert interrupts > 0
    assert ran.compiled == ["example.alone", *EVERYTHING]
    assert runner.run(cache=tmp_path / "cache") == Ran([4, 3], [], [])


def test_interrupted_reader_of_a_registry_is_renewed():
    """It continues at the end of the registry, since earlier registrations are known."""
    cpu_target.typing_context.refresh()  # makes the readers
    loader = next(iter(cpu_target.typing_context._registries.values()))
    with pytest.raises(KeyboardInterrupt):
        loader._registrations["functions"].throw(KeyboardInterrupt)
    with pytest.raises(StopIteration):
        next(loader._registrations["functions"])
    renew_readers()
    assert list(next(loader._registrations["functions"])) == []


def test_process_killed_during_a_compilation_does_no_harm(runner, tmp_path):
    cache = tmp_path / "cache"
    killed = runner.start("run_slowly", str(tmp_path), 60.0, cache=cache)
    wait_for(tmp_path / "compiling")
    os.kill(killed.number, signal.SIGKILL)
    assert runner.run(cache=cache) == Ran([4, 3], EVERYTHING, [])
    with pytest.raises(FailedError, match="-9"):
        killed.wait()
    assert {path.suffix for path in cache.iterdir()} == {".kernel", ""}


def test_incomplete_file_of_a_killed_process_is_removed_later(runner, tmp_path):
    cache = tmp_path / "cache"
    killed = runner.start("run_and_stop_before_renaming", str(tmp_path), cache=cache)
    wait_for(tmp_path / "written")
    os.kill(killed.number, signal.SIGKILL)
    with pytest.raises(FailedError, match="-9"):
        killed.wait()
    (left,) = cache.glob("*.part")
    assert runner.run("run_slowly", str(tmp_path), 0.0, cache=cache) == Ran(3, ["example.g"], [])
    assert left.exists(), "it might belong to a process that still writes"
    with_age(left, UNUSED_DAYS + 1)
    runner.run("run_f", cache=cache)
    assert not left.exists()


def test_each_key_has_a_lock(tmp_path, monkeypatch):
    """Each key has one lock; the file of the locks is opened once, since closing it would release all of them."""
    opened = []
    monkeypatch.setattr(os, "open", lambda *arguments, original=os.open: opened.append(1) or original(*arguments))
    cache = KernelCache(Path(tmp_path))
    with cache.alone("a", "a" * 64), cache.alone("b", "b" * 64):
        pass
    assert opened == [1]
