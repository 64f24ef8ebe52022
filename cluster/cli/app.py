"""The command line, ``plb``. Commands import their modules when they run, so that ``plb --help`` is fast."""

from __future__ import annotations

import signal
from typing import Annotated

import typer
from typer import Option

from cluster.cli.bench import bench_app
from cluster.cli.installation import doctor_command, example_command, schema_command, warmup_command
from cluster.cli.kubernetes import kubernetes_app
from cluster.cli.learn import learn_app
from cluster.cli.provision import provision_command, replan_command
from cluster.cli.scenarios import capacity_command, compare_command, explain_command, report_command, simulate_command
from cluster.cli.serve import replay_command, serve_command
from cluster.cli.study import study_app
from cluster.cli.traces import predict_command, traces_app

app = typer.Typer(
    rich_markup_mode="markdown",
    name="plb",
    help="Placement and load balancing for over-subscribed clusters: simulate, report, explain, compare, plan nodes, "
    "predict peaks, learn to place, serve clusters, check traces, repeat studies, measure speed.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("example")(example_command)
app.command("simulate")(simulate_command)
app.command("report")(report_command)
app.command("explain")(explain_command)
app.command("compare")(compare_command)
app.command("capacity")(capacity_command)
app.command("predict")(predict_command)
app.command("provision")(provision_command)
app.command("replan")(replan_command)
app.command("replay")(replay_command)
app.command("serve")(serve_command)
app.command("warmup")(warmup_command)
app.command("doctor")(doctor_command)
app.command("schema")(schema_command)
app.add_typer(learn_app, name="learn")
app.add_typer(study_app, name="study")
app.add_typer(traces_app, name="traces")
app.add_typer(bench_app, name="bench")
app.add_typer(kubernetes_app, name="kubernetes")


def _print_version(is_given: bool) -> None:
    """Print the version and end, if ``--version`` was given."""
    if is_given:
        from plb import __version__

        typer.echo(f"plb {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line. SIGTERM has the effect of Ctrl-C, also in a process that ignores Ctrl-C."""
    ignores_ctrl_c = signal.getsignal(signal.SIGINT) is signal.SIG_IGN  # as a background job of a script
    ends = signal.default_int_handler if ignores_ctrl_c else lambda *_: signal.raise_signal(signal.SIGINT)
    signal.signal(signal.SIGTERM, ends)
    app()
