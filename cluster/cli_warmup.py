"""``plb warmup``: compile the kernels ahead."""

from __future__ import annotations

from cluster.console import clear_errors, output


@clear_errors
def warmup_command() -> None:
    """Compile the engine's kernels ahead, so that later commands start at once. Takes about a minute."""
    from cluster.warmup import warm_up

    console = output()
    with console.status("compiling the kernels") as status:
        warm_up(lambda step: status.update(f"compiling the kernels: {step}"))
    console.print("The kernels are compiled.")
