"""``plb warmup``: compile the kernels in advance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.cli.options import Jobs, Json
from cluster.console import clear_errors, messages, output

if TYPE_CHECKING:
    from cluster.warmup import WarmupLog, WarmupResult


@clear_errors
def warmup_command(jobs: Jobs = None, json: Json = None) -> None:
    """Compile the kernels of the engine in advance, so that later commands start at once.

    Compiled kernels are not compiled again. A log in the directory of the kernels lists what was compiled.
    """
    import time

    from cluster.results.writing import check_file, write_figures
    from cluster.runs.pool import cores
    from cluster.warmup import TASKS, WarmupLog
    from plb.compiler.cache import cache_directory
    from plb.phrasing import counted

    check_file(json)
    begun = time.perf_counter()
    processes = min(jobs or cores(), len(TASKS))
    log = WarmupLog(cache_directory(), processes)
    results = _do_tasks(processes, log)
    seconds, compiled = time.perf_counter() - begun, sum(len(result.kernels) for result in results)
    log.add([f"all tasks are finished, {seconds:.2f} s"])
    for warning in dict.fromkeys(warning for result in results for warning in result.warnings):
        messages().print(warning, soft_wrap=True)
    summary = f"{counted(compiled, 'kernel')} compiled, in {seconds:.0f} s."
    output().print(summary if compiled else "All kernels were compiled already.")
    output().print(log.where(), soft_wrap=True)
    write_figures(json, {"seconds": seconds, "compiled": compiled, "jobs": processes}, None, None)


def _do_tasks(jobs: int, log: WarmupLog) -> list[WarmupResult]:
    """Complete all tasks in `jobs` processes with a progress bar, and return their results.

    Raise `PlbError` if a task failed.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from cluster.warmup import TASKS, warm_up
    from plb.errors import PlbError
    from plb.phrasing import listed

    def under_way() -> str:
        return f"compiling: {listed(tasks_left[:jobs])}" if tasks_left else "compiled"  # they begin in their order

    tasks_left, results = list(TASKS), []
    columns = BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}", markup=False)
    with Progress(*columns, console=messages()) as bar:
        progress_task = bar.add_task(under_way(), total=len(tasks_left))
        for result in warm_up(jobs):
            log.add(result.lines())
            results.append(result)
            tasks_left.remove(result.task)
            bar.update(progress_task, advance=1, description=under_way())
    for result in results:
        if result.error is not None:
            reason = result.error.strip().splitlines()[-1]
            raise PlbError(f"warmup: the task {result.task!r} failed: {reason}. {log.where()}")
    return results
