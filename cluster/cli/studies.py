"""``plb study``: the experiments of the papers, a command each.

Those of paper 1 share their options (`cluster.cli.study`); the others have commands of their own.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable

import typer

from cluster.cli.study import HELP, ONLY_OF, Study, study_command
from cluster.cli.study_gaussian import gaussian_command
from cluster.cli.study_peaks import peaks_command
from cluster.cli.study_provisioning import provisioning_command

study_app = typer.Typer(help="Repeat the papers' experiments, with their figures beside ours.", no_args_is_help=True)


def _of(study: Study) -> Callable[..., None]:
    """Return the command of one of the studies of paper 1, with the options that it has."""

    @functools.wraps(study_command)
    def command(**options: object) -> None:
        study_command(study, **options)  # type: ignore[arg-type]

    signature = inspect.signature(study_command, eval_str=True)
    options = [
        one for name, one in signature.parameters.items() if name != "study" and study in ONLY_OF.get(name, Study)
    ]
    command.__signature__ = signature.replace(parameters=options)  # type: ignore[attr-defined]
    command.__annotations__ = {option.name: option.annotation for option in options}
    return command


for _study in Study:
    _help = f"{HELP[_study]}\n\n{inspect.cleandoc(study_command.__doc__ or '')}"
    study_app.command(_study.value, help=_help, short_help=HELP[_study])(_of(_study))
study_app.command("gaussian", short_help="[2] table 1 and figures 6 to 13: GPA on traces of your own.")(
    gaussian_command
)
study_app.command("peaks", short_help="[5] figures 1 and 6 to 12: peak predictors and what they save.")(peaks_command)
study_app.command("provisioning", short_help="[3] figures 3 to 7: how many nodes the algorithms need.")(
    provisioning_command
)
