"""``plb study``: the experiments of the papers, a command each."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable

import typer

from cluster.cli.study_clusters import COMMANDS, SOME_OPTIONS, clusters_command
from cluster.cli.study_gaussian import gaussian_command
from cluster.cli.study_peaks import peaks_command
from cluster.cli.study_provisioning import provisioning_command

study_app = typer.Typer(
    help="Repeat the experiments of the papers and compare the figures. Numbers in brackets: docs/bibliography.md.",
    no_args_is_help=True,
)


def _command_of(study: str) -> Callable[..., None]:
    """Return the command of a study on simulated clusters, with its options."""

    @functools.wraps(clusters_command)
    def command(**options: object) -> None:
        clusters_command(study, **options)  # type: ignore[arg-type]

    signature = inspect.signature(clusters_command, eval_str=True)
    missing = {"study", *SOME_OPTIONS} - {*COMMANDS[study].options}
    options = [one for name, one in signature.parameters.items() if name not in missing]
    command.__signature__ = signature.replace(parameters=options)  # type: ignore[attr-defined]
    command.__annotations__ = {option.name: option.annotation for option in options}
    return command


for _study, _command in COMMANDS.items():
    _help = f"{_command.help}\n\n{inspect.cleandoc(clusters_command.__doc__ or '')}"
    study_app.command(_study, help=_help, short_help=_command.help)(_command_of(_study))
study_app.command("gaussian", short_help="[2] table 1 and figures 6 to 13: Gaussian percentiles on your traces.")(
    gaussian_command
)
study_app.command("peaks", short_help="[5] figures 1 and 6 to 12: accuracy and savings of peak predictors.")(
    peaks_command
)
study_app.command("provisioning", short_help="[3] figures 3 to 7: number of nodes by algorithm.")(provisioning_command)
