"""``plb compare``: results directories of `plb simulate`, compared."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from cluster.cli.options import Json, Quiet
from cluster.console.output import clear_errors, output


@clear_errors
def compare_command(
    folder: Annotated[list[Path], Argument(metavar="DIR...", help="Results directories.")],
    figure: Annotated[
        list[str] | None,
        Option(
            help="Figure to show: violations, violations_avoidable, violations_unavoidable, shortages_unresolved, "
            "failovers, moves, placement_failures, downtime_seconds or wall_seconds; can be repeated. Ratios are of "
            "the first. Default: those in the closing table of plb simulate."
        ),
    ] = None,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Compare the results of several scenarios or policies.

    All are compared with the first policy of the first directory, and repeat by repeat if the tenants are the same. The
    differences between the scenarios are listed.
    """
    from cluster.results.comparison_report import lines, table_of_differences, table_of_rows
    from cluster.results.directory_comparison import compare_results
    from cluster.results.policy_comparison import FIGURES
    from cluster.results.reading import read_results
    from cluster.results.summary_tables import SHOWN
    from cluster.results.writing import check_outputs, files_of_results, stamped, write_json
    from plb import UnknownNameError

    figures = list(dict.fromkeys(figure or SHOWN))
    for name in figures:
        if name not in FIGURES:
            raise UnknownNameError("figure", name, FIGURES, "--figure")
    check_outputs([file for one in folder for file in files_of_results(one)], [], json)
    found = compare_results([read_results(one) for one in folder])
    if json is not None:
        write_json(json, stamped(found.as_json(), *found.origin))
    console = output(quiet=quiet)
    console.print(table_of_rows(found, figures))
    differences = table_of_differences(found, figures)
    if differences is not None:
        console.print(differences)
    for line in lines(found):
        console.print(line, soft_wrap=True)
