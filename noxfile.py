"""Checks on each Python that plb supports and this machine has: ``make pythons``, or ``nox -s wheel-3.11``.

Outcomes are in docs/data/pythons.json, and ``make pages`` writes them to docs/install.md.
"""

from __future__ import annotations

from pathlib import Path

import nox

ROOT = Path(__file__).parent
PYTHONS = nox.project.python_versions(nox.project.load_toml(ROOT / "pyproject.toml"))
RECORD = "benchmarks/pythons.py"
nox.options.error_on_missing_interpreters = False


@nox.session(python=PYTHONS)
def wheel(session: nox.Session) -> None:
    """Build a wheel, install it alone, and simulate an example outside the checkout, with a cold cache of kernels."""
    folder = Path(session.create_tmp()).resolve()
    dist, work = folder / "dist", folder / "work"
    session.run("python", "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(dist), str(ROOT))
    session.install(str(max(dist.glob("*.whl"))))
    session.run("python", RECORD, "wheel", "failed")
    work.mkdir(exist_ok=True)
    session.chdir(work)
    fresh = {"HOME": str(folder), "PLB_CACHE_DIR": str(folder / "kernels"), "PYTHONPATH": ""}
    session.run("plb", "example", "quickstart", "--force", env=fresh)
    session.run("plb", "simulate", "quickstart.toml", "--force", env=fresh)
    session.run("plb", "report", "results/quickstart", "--force", env=fresh)
    session.run("plb", "doctor", env=fresh)
    session.run("python", "-m", "plb", "--version", env=fresh)
    session.chdir(ROOT)
    session.run("python", RECORD, "wheel", "works")


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """Run the tests but the slow ones, or those that are given: ``nox -s tests-3.11 -- tests/model``."""
    report = Path(session.create_tmp()).resolve() / "report.xml"
    session.install("--editable", ".[dev]")
    session.run("python", RECORD, "tests", "failed")
    session.run("pytest", "-m", "not slow", "--junit-xml", str(report), *(session.posargs or ["-n", "2"]))
    session.run("python", RECORD, "tests", str(report), *session.posargs)
