"""``plb report``: an HTML page on a results directory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from cluster.cli.options import Quiet
from cluster.console.output import clear_errors, messages, output


@clear_errors
def report_command(
    results: Annotated[Path, Argument(metavar="DIR", help="Results directory of plb simulate.")],
    out: Annotated[Path | None, Option(help="File to write. Default: DIR/report.html.")] = None,
    force: Annotated[bool, Option("--force", help="Overwrite the file.")] = False,
    quiet: Quiet = False,
) -> None:
    """Write a page on a run: policies compared, violations, loads, energies, availability, every move and its reason.

    The page is one file that needs no network: open it in any browser, or send it to somebody.
    """
    from cluster.report.writing import report_page
    from cluster.results.reading import read_results
    from cluster.results.writing import REPORT, check_outputs, files_of_results, write_text

    path = out or results / REPORT
    found = read_results(results)
    check_outputs(files_of_results(results), [path], None, force=force)
    with messages(quiet=quiet).status("Drawing and writing ..."):
        write_text(path, report_page(found))
    output(quiet=quiet).print(f"Report: {path}", soft_wrap=True)
