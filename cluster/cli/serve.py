"""``plb serve``: clusters over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Option

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
    from cluster.service.server import Transport, serve

    transport = Transport.of(listen, certificate=certificate, key=key, client_ca=client_ca)
    is_temporary = demo and data is None
    with TemporaryDirectory(prefix="plb-demo-") if is_temporary else nullcontext(data or Path("plb-data")) as folder:

        def say(url: str) -> None:
            typer.echo(f"{url} serves {folder}; Ctrl-C stops it")

        serve(Path(folder), transport, token_file, say, run_demo if demo else None, lines)
