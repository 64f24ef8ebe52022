"""``plb warmup``: compile the kernels in advance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.cli.options import Jobs, Json
from cluster.console import clear_errors, messages, output

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cluster.warmup.log import WarmupLog
    from cluster.warmup.warmup import WarmupResult


@clear_errors
def warmup_command(jobs: Jobs = None, json: Json = None) -> None:
    """Compile the kernels of the engine in advance, so that later commands start at once.

    Compiled kernels are not compiled again. A log in the directory of the kernels lists what was compiled.
    """
    import time

    from cluster.results.writing import check_file, stamped, write_json
    from cluster.runs.pool import cores
    from cluster.warmup.log import WarmupLog
    from cluster.warmup.tasks import TASKS
    from plb.compiler.cache import cache_directory

    check_file(json)
    begun = time.perf_counter()
    requested = min(jobs or cores(), len(TASKS))
    log = WarmupLog(cache_directory(), requested)
    done = _do_tasks(requested, log)
    seconds, compiled = time.perf_counter() - begun, sum(len(one.kernels) for one in done)
    log.end(seconds)
    _print_progress(done, compiled, seconds)
    output().print(log.where(), soft_wrap=True)
    if json is not None:
        write_json(json, stamped({"seconds": seconds, "compiled": compiled, "jobs": requested}, None, None))


def _do_tasks(jobs: int, log: WarmupLog) -> list[WarmupResult]:
    """Run all tasks with a progress bar, and return their results.

    Raise `PlbError` if a task failed. The others are completed.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from cluster.warmup.tasks import TASKS
    from cluster.warmup.warmup import warm_up
    from plb.errors import PlbError

    left, done = list(TASKS), []
    columns = BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}", markup=False)
    with Progress(*columns, console=messages()) as bar:
        shown = bar.add_task(_under_way(left, jobs), total=len(left))
        for one in warm_up(jobs):
            log.add(one)
            done.append(one)
            left.remove(one.task)
            bar.update(shown, advance=1, description=_under_way(left, jobs))
    for one in done:
        if one.error is not None:
            reason = one.error.strip().splitlines()[-1]
            raise PlbError(f"warmup: the task {one.task!r} failed: {reason}. {log.where()}")
    return done


def _under_way(left: Sequence[str], jobs: int) -> str:
    """Return the tasks that are running; they begin in their order."""
    from plb.phrasing import listed

    return f"compiling: {listed(left[:jobs])}" if left else "compiled"


def _print_progress(done: Sequence[WarmupResult], compiled: int, seconds: float) -> None:
    """Print what was compiled, and each warning of the engine once."""
    from plb.phrasing import counted

    for warning in dict.fromkeys(warning for one in done for warning in one.warnings):
        messages().print(warning, soft_wrap=True)
    if compiled:
        output().print(f"{counted(compiled, 'kernel')} compiled, in {seconds:.0f} s.")
    else:
        output().print("All kernels were compiled already.")
