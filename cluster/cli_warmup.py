"""``plb warmup``: compile the kernels ahead."""

from __future__ import annotations

from cluster.cli_options import Json
from cluster.console import clear_errors, output


@clear_errors
def warmup_command(
    json: Json = None,
) -> None:
    """Compile the engine's kernels ahead, so that later commands start at once. Takes some minutes."""
    import time

    from cluster.results import check_file, stamped, write_json
    from cluster.warmup import warm_up

    check_file(json)
    begun = time.perf_counter()
    console = output()
    with console.status("compiling the kernels") as status:
        warm_up(lambda step: status.update(f"compiling the kernels: {step}"))
    console.print("The kernels are compiled.")
    if json is not None:
        write_json(json, stamped({"seconds": time.perf_counter() - begun}, None, None))
