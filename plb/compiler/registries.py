"""How Numba's registries of functions are read, after an interrupt as well.

Numba reads a registry through generators that yield what is new since the last time. An exception within one of them,
such as Ctrl-C, ends it permanently, and every later compilation of the process would fail.
"""

from __future__ import annotations

from plb.compiler.numba_api import cpu_target, stream_list


def renew_readers() -> None:
    """Replace the readers of registries that an interrupt has ended; the new ones continue at the end."""
    for context in (cpu_target.typing_context, cpu_target.target_context):
        for registry, loader in context._registries.items():
            for name, reader in loader._registrations.items():
                if reader.gi_frame is None:
                    renewed = stream_list(getattr(registry, name))
                    next(renewed)
                    loader._registrations[name] = renewed
