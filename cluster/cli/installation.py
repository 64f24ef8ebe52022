"""``plb example``, ``plb doctor``, ``plb schema``, ``plb warmup``: what an installation has, and its preparation."""

from __future__ import annotations

import ast
import json
import shlex
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from cluster.cli.options import Jobs, Json
from cluster.console import FAILED, clear_errors, messages, output

if TYPE_CHECKING:
    from cluster.warmup import WarmupLog, WarmupResult

DISTRIBUTION = "plb-engine"
MEGABYTE = 1 << 20
LONGEST_PURPOSE = 90
"""Characters of a line on an example."""
SUFFIXES = (".toml", ".py", ".csv", ".ipynb")
"""Endings of the files that are examples by themselves; others belong to one of these or to a folder."""


@clear_errors
def example_command(
    name: Annotated[str | None, Argument(help="Example, or a folder of them. Default: list all.")] = None,
    out: Annotated[Path, Option(help="Directory to write to.")] = Path(),
    force: Annotated[bool, Option("--force", help="Overwrite files.")] = False,
) -> None:
    """List the examples, or write one with the files that it reads."""
    root = examples()
    if name is None:
        _print_columns((path.relative_to(root).as_posix(), purpose(path)) for path in listed(root))
        return
    path = find(root, name)
    if out == Path("-"):
        _print(path)
        return
    for file in _write(root, path, out, force=force):
        typer.echo(file)
    if path.suffix == ".toml" and "run" in tomllib.loads(path.read_text(encoding="utf-8")):
        typer.echo(f"To run it: plb simulate {shlex.quote(str(out / path.relative_to(root)))}")


@clear_errors
def schema_command(
    name: Annotated[
        str, Argument(help="scenario, plan, config, application, metric, node, partition, replica or service.")
    ] = "scenario",
) -> None:
    """Print a JSON schema: of scenario files, for editors, or of what programs exchange with the engine."""
    from cluster.scenario.scenario_file import scenario_schema
    from plb import Application, Metric, Node, Partition, Plan, PlbConfig, Replica, Service
    from plb.validation import check_known

    kinds = (Application, Metric, Node, Partition, Plan, Replica, Service)
    schemas = {kind.__name__.lower(): kind.json_schema for kind in kinds}
    schemas |= {"scenario": scenario_schema, "config": PlbConfig.json_schema}
    check_known("schema", name, sorted(schemas))
    typer.echo(json.dumps(schemas[name](), indent=2))


def examples() -> Path:
    """Return the directory of the examples: beside the installed packages, or in the checkout."""
    folder = Path(__file__).parents[2]
    installed = folder / "plb_examples"
    return installed if installed.is_dir() else folder / "examples"


def listed(root: Path) -> list[Path]:
    """Return the examples and the folders without examples; the examples of the top folder come first."""
    files = [path for path in root.rglob("*") if path.suffix in SUFFIXES and path.name != "make.py"]
    folders = {path for path in root.iterdir() if path.is_dir() and path.name != "__pycache__"}
    data = folders - {path.parent for path in files if path.suffix == ".toml"}
    shown = [path for path in files if path.parent not in data]
    return sorted([*shown, *data], key=lambda path: (len(path.parts), path))


def purpose(path: Path) -> str:
    """Return the first sentence of an example; the names of the files of a folder."""
    if path.is_dir():
        return ", ".join(sorted(file.name for file in path.iterdir() if file.is_file() and file.suffix != ".out"))
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".csv":
        return f"columns {text.splitlines()[0]}"
    if path.suffix == ".py":
        lines = (ast.get_docstring(ast.parse(text)) or "").splitlines()
    else:
        text = "".join(json.loads(text)["cells"][0]["source"]) if path.suffix == ".ipynb" else text
        lines = [line.removeprefix("#").strip() for line in text.splitlines() if line.startswith("#")]
    return shorten(" ".join(lines).partition(". ")[0].rstrip("."), LONGEST_PURPOSE, placeholder=" ...")


def find(root: Path, name: str) -> Path:
    """Return the example of a name, whose ending may be left out."""
    from plb.errors import UnknownNameError

    for suffix in (*SUFFIXES, ""):
        path = root / f"{name}{suffix}"
        if path.exists() and path.resolve().is_relative_to(root.resolve()) and path.resolve() != root.resolve():
            return path
    names = [path.relative_to(root) for path in listed(root)]
    raise UnknownNameError("example", name, [path.with_suffix("").as_posix() for path in names], "plb example")


def read_by(root: Path, path: Path) -> Iterator[Path]:
    """Yield an example and the files of other examples that it names, such as the traces of a scenario."""
    if path.is_dir():
        for file in sorted(path.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts and file.suffix != ".out":
                yield file
        return
    yield path
    for text in _texts_in(path):
        name = text.partition(":")[0]  # also of FILE.py:OBJECT
        named = (path.parent / name).resolve()
        if name and named != path and named.exists() and root.resolve() in named.parents:
            yield from read_by(root, named)


def _texts_in(path: Path) -> Iterator[str]:
    """Yield all texts in a scenario, or in the code of a notebook."""
    if path.suffix == ".toml":
        yield from _texts(tomllib.loads(path.read_text(encoding="utf-8")))
    elif path.suffix == ".ipynb":
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
        constants = (node.value for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Constant))
        yield from (value for value in constants if isinstance(value, str))


def _texts(value: Any) -> Iterator[str]:
    """Yield all texts in values of TOML."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)


def _write(root: Path, path: Path, out: Path, *, force: bool) -> list[Path]:
    """Write an example below a directory, under the names that it has below the examples; return the files."""
    from cluster.results.writing import check_file
    from workloads.writing import in_one_piece

    copies = {out / file.resolve().relative_to(root.resolve()): file for file in read_by(root, path)}
    for copy in copies:
        check_file(copy, force=force)
    for copy, file in copies.items():
        with in_one_piece(copy) as partial:
            partial.write_bytes(file.read_bytes())
    return list(copies)


def _print(path: Path) -> None:
    """Write one file to standard output."""
    from errno import EISDIR

    from workloads.writing import STANDARD_OUTPUT, in_one_piece

    if path.is_dir():
        raise IsADirectoryError(EISDIR, "is a directory; give --out DIR", str(path))
    with in_one_piece(STANDARD_OUTPUT) as partial:
        partial.write_bytes(path.read_bytes())


def _print_columns(rows: Iterable[tuple[str, str]]) -> None:
    """Print rows of a name and a text."""
    table = list(rows)
    width = max(len(name) for name, _ in table)
    for name, text in table:
        output().print(f"{name:{width}}  {text}", markup=False, highlight=False, soft_wrap=True)


@clear_errors
def doctor_command() -> None:
    """Print versions, the directory of the compiled kernels, cores, and what is missing; exit with 1 if plb cannot run.

    A missing extra is no error: the commands that need it say so.
    """
    from cluster.results.writing import versions

    needed = requirements()
    installed = versions(*needed)
    _print_columns([*_system(), *((name, installed[name]) for name in needed), *_extras()])
    if any(installed[name] == ABSENT for name in needed):
        raise typer.Exit(FAILED)


ABSENT = "not installed"
"""What `cluster.results.writing.versions` says."""


def requirements() -> list[str]:
    """Return the projects that plb needs without extras, from its metadata."""
    from importlib.metadata import PackageNotFoundError, requires

    from cluster.results.writing import PACKAGES
    from plb.errors import project_of

    try:
        needed = requires(DISTRIBUTION) or []
    except PackageNotFoundError:  # a checkout in the path, which is not installed
        return list(PACKAGES)
    return sorted(project_of(requirement) for requirement in needed if "extra ==" not in requirement)


def kernels() -> str:
    """Return where compiled kernels are kept, how many and large they are, and whether others can be added."""
    from cluster.results.writing import check_writable
    from plb.compiler.cache import SUFFIX, cache_directory

    folder = cache_directory()
    if folder is None:
        return "not kept, as there is no home directory; set PLB_CACHE_DIR"
    sizes = [file.stat().st_size for file in folder.glob(f"*{SUFFIX}")]
    try:
        check_writable(folder)
        state = "writable" if sizes else "writable; plb warmup compiles ahead"
    except OSError as error:
        state = f"not writable ({error.strerror}): each process compiles again; set PLB_CACHE_DIR"
    return f"{folder}: {len(sizes):,} kernels, {sum(sizes) / MEGABYTE:.0f} MB, {state}"


def _system() -> Iterator[tuple[str, str]]:
    """Yield what commands depend on beside packages: name and state."""
    import platform

    import plb
    from cluster.runs.pool import cores

    yield "plb", f"{plb.__version__}, in {Path(plb.__file__).parents[1]}"
    yield "Python", f"{platform.python_version()}, {platform.platform()}"
    yield "cores", str(cores())
    yield "compiled kernels", kernels()


def _extras() -> Iterator[tuple[str, str]]:
    """Yield each extra, and whether it is installed."""
    from cluster.results.writing import versions
    from plb.errors import EXTRAS, project_of

    for extra, packages in EXTRAS.items():
        installed = versions(*map(project_of, packages))
        missing = [package for package in packages if installed[project_of(package)] == ABSENT]
        yield f"extra {extra}", f"missing; pip install {shlex.join(missing)}" if missing else "installed"


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
