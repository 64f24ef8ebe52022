"""``plb kubernetes``: a rebalancer for a cluster of Kubernetes."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Option

from cluster.console import clear_errors

kubernetes_app = typer.Typer(
    help="Propose moves of pods of a cluster of Kubernetes, and evict pods if told to.", no_args_is_help=True
)


@kubernetes_app.command("rebalance")
@clear_errors
def rebalance_command(
    # long because of the options, each with its help
    nodes: Annotated[Path | None, Option(help="JSON of kubectl get nodes -o json.")] = None,
    pods: Annotated[Path | None, Option(help="JSON of kubectl get pods -A -o json.")] = None,
    usage: Annotated[
        list[Path] | None,
        Option(help="JSON of kubectl get --raw /apis/metrics.k8s.io/v1beta1/pods. Repeat it for the past."),
    ] = None,
    server: Annotated[str | None, Option(metavar="URL", help="API server to read from, in place of files.")] = None,
    token_file: Annotated[Path | None, Option(help="File with the token for the API server.")] = None,
    certificate_authority: Annotated[
        Path | None, Option(help="File with the certificates to trust. Default: those of the system.")
    ] = None,
    settings: Annotated[
        Path | None, Option(help="JSON with settings of the engine. Default: those of docs/rebalancing.md.")
    ] = None,
    max_moves: Annotated[int, Option(min=0, help="Most moves of a plan, and most evictions in 24 hours.")] = 5,
    past_hours: Annotated[
        float, Option(min=0.0, help="Hours of reports from which on the past decides; until then thresholds do.")
    ] = 24.0,
    interval: Annotated[
        float | None, Option(min=1.0, help="Seconds between rounds. Default: one round, then end.")
    ] = None,
    execute: Annotated[bool, Option("--execute", help="Evict the pods. Default: only say what would move.")] = False,
) -> None:
    """Say which pods would move and why, as JSON lines; with --execute, evict them."""
    from cluster.service.documents import read
    from cluster.service.events import decoded
    from cluster.service.kubernetes.rebalancer import SETTINGS, Rebalancer
    from cluster.service.kubernetes.sources import ApiServer, Files
    from plb import PlbConfig
    from plb.errors import ConflictError, PlbError

    source: Files | ApiServer
    api: ApiServer | None
    if server is not None and nodes is None and pods is None and not usage:
        source = api = ApiServer(server, token_file, certificate_authority)
    elif server is None and nodes is not None and pods is not None:
        source, api = Files(nodes, pods, usage or ()), None
    else:
        raise ConflictError("give either --nodes and --pods, with --usage if it is known, or --server")
    if execute and api is None:
        raise ConflictError("--execute needs --server, as files evict nothing")
    config = SETTINGS
    if settings is not None:
        config = read(PlbConfig, decoded(settings.read_bytes(), dict[str, Any]), str(settings))
    rebalancer = Rebalancer(
        lambda line: print(json.dumps(line), flush=True),
        is_live=api is not None,
        api=api if execute else None,
        settings=config,
        most_moves=max_moves,
        past_hours=past_hours,
    )
    rebalancer.run(source.read(), time.time())
    while interval is not None:
        time.sleep(interval)
        try:
            observed = source.read()
        except (PlbError, OSError) as error:  # the next round may read it
            print(json.dumps({"error": str(error)}), flush=True)
        else:
            rebalancer.run(observed, time.time())
