"""``plb kubernetes``: a feed of a served cluster, and a rebalancer, for a cluster of Kubernetes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer
from typer import Option

from cluster.console import clear_errors

if TYPE_CHECKING:
    from cluster.service.kubernetes.sources import ApiServer, Files, Observed

kubernetes_app = typer.Typer(
    help="Tell a service what a cluster of Kubernetes has; propose moves of its pods, and evict pods if told to.",
    no_args_is_help=True,
)
Nodes: TypeAlias = Annotated[Path | None, Option(help="JSON of kubectl get nodes -o json.")]
Pods: TypeAlias = Annotated[Path | None, Option(help="JSON of kubectl get pods -A -o json.")]
Usage: TypeAlias = Annotated[
    list[Path] | None,
    Option(help="JSON of kubectl get --raw /apis/metrics.k8s.io/v1beta1/pods. Repeat it for the past."),
]
Server: TypeAlias = Annotated[str | None, Option(metavar="URL", help="API server to read from, in place of files.")]
TokenFile: TypeAlias = Annotated[Path | None, Option(help="File with the token for the API server.")]
Authority: TypeAlias = Annotated[
    Path | None, Option(help="File with the certificates to trust. Default: those of the system.")
]
Every: TypeAlias = Annotated[
    float | None, Option(min=1.0, metavar="SECONDS", help="Pause between rounds. Default: one round, then end.")
]


@kubernetes_app.command("feed")
@clear_errors
def feed_command(
    service: Annotated[str, typer.Argument(metavar="SERVICE_URL", help="Service, such as http://127.0.0.1:8765.")],
    cluster: Annotated[str, Option(help="Name of its cluster.")] = "main",
    nodes: Nodes = None,
    pods: Pods = None,
    usage: Usage = None,
    server: Server = None,
    token_file: TokenFile = None,
    certificate_authority: Authority = None,
    service_token_file: Annotated[
        Path | None, Option(help="File with the token for the service, of the role report.")
    ] = None,
    service_authority: Annotated[
        Path | None, Option(help="File with the certificates to trust of the service. Default: those of the system.")
    ] = None,
    service_certificate: Annotated[
        Path | None, Option(help="Certificate for the service, with its private key, a PEM file.")
    ] = None,
    every: Every = None,
) -> None:
    """Tell a service which nodes and pods there are and what they use, first all, then what has changed."""
    import ssl

    from cluster.service.client import Client
    from cluster.service.kubernetes.feed import Feed
    from cluster.service.kubernetes.sources import token_of

    source = _source(nodes, pods, usage or (), server, token_file, certificate_authority)
    tls = ssl.create_default_context(cafile=service_authority)
    if service_certificate is not None:
        tls.load_cert_chain(service_certificate)
    with Client(service, cluster, auth=token_of(service_token_file), verify=tls, timeout=60.0) as client:
        _run(source, Feed(client, _print_line).run, every)


@kubernetes_app.command("rebalance")
@clear_errors
def rebalance_command(
    nodes: Nodes = None,
    pods: Pods = None,
    usage: Usage = None,
    server: Server = None,
    token_file: TokenFile = None,
    certificate_authority: Authority = None,
    settings: Annotated[
        Path | None, Option(help="JSON with settings of the engine. Default: those of docs/rebalancing.md.")
    ] = None,
    max_moves: Annotated[int, Option(min=0, help="Most moves of a plan, and most evictions in 24 hours.")] = 5,
    past_hours: Annotated[
        float, Option(min=0.0, help="Hours of reports from which on the past decides; until then thresholds do.")
    ] = 24.0,
    state: Annotated[
        Path | None, Option(help="File that keeps the past and the evictions for the next run. Default: none.")
    ] = None,
    every: Every = None,
    execute: Annotated[bool, Option("--execute", help="Evict the pods. Default: only say what would move.")] = False,
) -> None:
    """Say which pods would move and why, as JSON lines; with --execute, evict them."""
    from cluster.service.events import decoded
    from cluster.service.kubernetes.rebalancer import SETTINGS, Rebalancer
    from cluster.service.kubernetes.sources import ApiServer
    from plb import PlbConfig
    from plb.errors import ConflictError
    from plb.model.documents import read

    source = _source(nodes, pods, usage or (), server, token_file, certificate_authority)
    api = source if execute and isinstance(source, ApiServer) else None
    if execute and api is None:
        raise ConflictError("--execute needs --server, as files evict nothing")
    config = SETTINGS
    if settings is not None:
        config = read(PlbConfig, decoded(settings.read_bytes(), dict[str, Any]), str(settings))
    rebalancer = Rebalancer(
        _print_line, api=api, settings=config, most_moves=max_moves, past_hours=past_hours, state=state
    )
    _run(source, rebalancer.run, every)


def _source(
    nodes: Path | None,
    pods: Path | None,
    usage: Sequence[Path],
    server: str | None,
    token_file: Path | None,
    certificate_authority: Path | None,
) -> Files | ApiServer:
    """Return where options say that a cluster is read."""
    from cluster.service.kubernetes.sources import ApiServer, Files
    from plb.errors import ConflictError

    if server is not None and nodes is None and pods is None and not usage:
        return ApiServer(server, token_file, certificate_authority)
    if server is None and nodes is not None and pods is not None:
        return Files(nodes, pods, usage)
    raise ConflictError("give either --nodes and --pods, with --usage if it is known, or --server")


def _run(source: Files | ApiServer, run: Callable[[Observed, float], None], every: float | None) -> None:
    """Read a cluster and `run` a round with it, repeatedly if there is a pause; errors of later rounds are printed."""
    from plb.errors import PlbError

    run(source.read(), time.time())
    while every is not None:
        time.sleep(every)
        try:
            run(source.read(), time.time())
        except (PlbError, OSError) as error:  # the next round may succeed
            _print_line({"error": str(error)})


def _print_line(line: dict[str, Any]) -> None:
    """Print an object of the log."""
    print(json.dumps(line), flush=True)
