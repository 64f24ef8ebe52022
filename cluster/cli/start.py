"""The entry point of ``plb``: Ctrl-C has a message also before a command has begun."""

from __future__ import annotations

import sys


def main() -> None:
    """Load the command line, and run it."""
    try:
        from cluster.cli.app import main as run

        run()
    except KeyboardInterrupt:
        from cluster.console.output import INTERRUPTED

        _say()
        raise SystemExit(INTERRUPTED) from None
    except SystemExit as ended:
        behind = ended.__context__
        if behind is not None and isinstance(behind.__cause__, KeyboardInterrupt):  # Typer ends without a message
            _say()
        raise


def _say() -> None:
    sys.stderr.write("plb: interrupted\n")
