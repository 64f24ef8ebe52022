"""``plb serve``: clusters over HTTP; ``plb replay``: the log of a service, read or played again."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from cluster.console import clear_errors


@clear_errors
def serve_command(
    data: Annotated[
        Path | None,
        Option(help="Directory of the log. Default: plb-data; with --demo, one that is deleted at the end."),
    ] = None,
    listen: Annotated[
        str, Option(help="HOST:PORT. Addresses other than loopback need tokens or client certificates.")
    ] = "127.0.0.1:8765",
    lines: Annotated[
        str | None, Option(help="HOST:PORT or unix:///PATH of the line protocol for simulators. Default: none.")
    ] = None,
    token_file: Annotated[
        Path | None,
        Option(help="File with lines 'role name token'; roles: read, report, apply.", exists=True, dir_okay=False),
    ] = None,
    certificate: Annotated[
        Path | None, Option(help="Certificate of the server, a PEM file.", exists=True, dir_okay=False)
    ] = None,
    key: Annotated[Path | None, Option(help="Its private key, a PEM file.", exists=True, dir_okay=False)] = None,
    client_ca: Annotated[
        Path | None,
        Option(help="Only clients with a certificate that these sign connect.", exists=True, dir_okay=False),
    ] = None,
    demo: Annotated[bool, Option("--demo", help="Serve a cluster of forty nodes in which time passes.")] = False,
) -> None:
    """Serve clusters over HTTP, with a durable log, until Ctrl-C.

    Plans change nothing until they are applied. After a crash, all that was acknowledged is there.
    """
    from contextlib import nullcontext
    from tempfile import TemporaryDirectory

    from cluster.service.demo import run_demo
    from cluster.service.interfaces.server import Transport, serve

    transport = Transport.of(listen, certificate=certificate, key=key, client_ca=client_ca)
    is_temporary = demo and data is None
    with TemporaryDirectory(prefix="plb-demo-") if is_temporary else nullcontext(data or Path("plb-data")) as folder:

        def say(url: str) -> None:
            typer.echo(f"{url} serves {folder}; Ctrl-C stops it")

        serve(Path(folder), transport, token_file, say, run_demo if demo else None, lines)


MOST_SHOWN = 20
"""Differences that are printed."""


@clear_errors
def replay_command(
    folder: Annotated[Path, Argument(metavar="DIR", help="The directory of a service: plb serve --data DIR.")],
    list_entries: Annotated[
        bool, Option("--list", help="Print who sent which event when, and what was refused, instead.")
    ] = False,
) -> None:
    """Apply the events of a service's log again with this version, and say where it decides otherwise.

    The service may run meanwhile. Ends with 1 if something differs.
    """
    from cluster.service.log import Log
    from cluster.service.replay import replay

    log = Log(folder, reads_only=True)
    is_same = True
    for cluster in log.clusters():
        if list_entries:
            for entry in log.entries(cluster):
                when = datetime.fromtimestamp(entry.time, UTC).isoformat(timespec="milliseconds")
                refusal = "" if entry.refusal is None else f"; refused: {entry.refusal}"
                event = f"{entry.event.kind} {entry.event.subject}".rstrip()
                typer.echo(
                    escaped(f"{entry.sequence} {when} {cluster} {entry.actor} plb {entry.version} {event}{refusal}")
                )
            continue
        result = replay(log, cluster)
        is_same = is_same and not result.differences
        typer.echo(
            f"{escaped(cluster)}: {result.entries:,} events applied, {result.plans:,} plans made again, "
            f"{len(result.differences):,} differences"
        )
        if result.is_limited:
            typer.echo("  a time limit ended a plan; later plans were not compared")
        for difference in result.differences[:MOST_SHOWN]:
            typer.echo(escaped(f"  {difference}"))
    if not is_same:
        raise typer.Exit(1)


def escaped(text: str) -> str:
    """Return a text with its control characters as escapes."""
    from cluster.service.events import CONTROL

    return CONTROL.sub(lambda match: ascii(match[0])[1:-1], text)
