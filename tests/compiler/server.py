"""The process of `tests.compiler.processes`: it loads what a function needs, and forks one process for each request.

Requests and answers are lines of JSON. For the tests of the compiler, plb is not loaded here, so that each process may
load its own copy.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import attrs  # noqa: F401  # loaded ahead, since this takes time
import numba
import numpy as np


def load_compiler() -> None:
    """Compile a function, for which Numba loads most of its modules."""
    numba.njit(nogil=True)(lambda numbers: numbers[0] + 1)(np.zeros(1, np.int64))


def function_of(name: str) -> Callable[..., Any]:
    """Return a function, ``module:function``."""
    module, _, function = name.partition(":")
    return getattr(import_module(module), function)  # type: ignore[no-any-return]


def run(request: dict[str, Any]) -> None:
    """Call a function in the environment of the request, and write its result to a file."""
    out = Path(request["out"])
    for stream, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(out / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
    for name, value in request["environment"].items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value
    numba.config.reload_config()  # as if Numba were loaded in this environment
    sys.path[:0] = request["path"]
    os.chdir(request.get("folder", os.curdir))
    result = function_of(request["call"])(*request["arguments"])
    (out / "result.json").write_text(json.dumps(result))


def start(request: dict[str, Any]) -> int:
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        run(request)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def main() -> None:
    """Serve requests until standard input ends."""
    sys.dont_write_bytecode = True  # bytecode of a module rewritten within a second would be taken as current
    function_of(sys.argv[1])()
    for line in sys.stdin:
        request = json.loads(line)
        answer = os.waitstatus_to_exitcode(os.waitpid(request["wait"], 0)[1]) if "wait" in request else start(request)
        print(answer, flush=True)


if __name__ == "__main__":
    main()
