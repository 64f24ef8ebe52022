"""The entry point of ``plb``: Ctrl-C has a message also before a command has begun."""

from __future__ import annotations

import signal
import sys

INTERRUPTED = 130
"""`cluster.console.INTERRUPTED`; an import of that loads Typer, which a second Ctrl-C could interrupt."""


def main() -> None:
    """Load the command line, and run it."""
    try:
        from cluster.cli.app import main as run

        run()
    except KeyboardInterrupt:
        _say()
        raise SystemExit(INTERRUPTED) from None
    except SystemExit as exit_request:
        cause = exit_request.__context__
        if cause is not None and isinstance(cause.__cause__, KeyboardInterrupt):  # Typer ends without a message
            _say()
        raise


def _say() -> None:
    """Print that the command was interrupted; a second Ctrl-C ends the process at once, without a traceback."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.stderr.write("plb: interrupted\n")
