"""The entry point of ``plb``, outside of its packages: it says where another module hides one of them.

Ctrl-C has a message also before a command has begun. So modules that Python has not loaded are imported in `main`.
"""

import os
import sys

PACKAGES = ("cluster", "workloads", "plb")
BAD_INPUT, INTERRUPTED = 2, 130
"""As in `cluster.console`, which may be hidden, and loads Typer, which a second Ctrl-C could interrupt."""


def main() -> None:
    """Run the command line, if all packages are those beside this file."""
    try:
        _check_packages()
        from cluster.cli.app import main as run

        run()
    except KeyboardInterrupt:
        _say_interrupted()
        raise SystemExit(INTERRUPTED) from None
    except SystemExit as exit_request:
        cause = exit_request.__context__
        if cause is not None and isinstance(cause.__cause__, KeyboardInterrupt):  # Typer ends without a message
            _say_interrupted()
        raise


def _say_interrupted() -> None:
    """Print that the command was interrupted; a second Ctrl-C ends the process at once, without a traceback."""
    import _signal  # type: ignore[import-not-found]  # a second Ctrl-C could interrupt the import of `signal`

    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    sys.stderr.write("plb: interrupted\n")


def _check_packages() -> None:
    """End the process with a message if another module hides a package, or one is missing."""
    folder = os.path.dirname(os.path.realpath(__file__))
    for name in PACKAGES:
        place = _place(name)
        if place is None or os.path.dirname(os.path.realpath(place)) != os.path.join(folder, name):
            sys.stderr.write(_message(name, place, folder))
            raise SystemExit(BAD_INPUT)


def _place(name: str) -> str | None:
    """Return the file that an import of this name loads, or a file that its folder would have; None: there is none."""
    from importlib.util import find_spec

    spec = find_spec(name)
    if spec is None:
        return None
    folders = list(spec.submodule_search_locations or [])
    return spec.origin if spec.has_location or not folders else os.path.join(folders[0], "__init__.py")


def _message(name: str, place: str | None, folder: str) -> str:
    package = os.path.join(folder, name)
    if place is None:
        return f"plb: its package {name!r} is missing in {folder}; install plb again\n"
    return (
        f"plb: {place} hides {package}, because both are called {name!r}. Rename it, take its folder out of PYTHONPATH "
        "or uninstall its distribution; docs/troubleshooting.md says more\n"
    )
