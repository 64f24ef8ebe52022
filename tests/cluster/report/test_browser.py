"""The report in a browser; skipped without Chromium."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from cluster.report.writing import report_page
from cluster.results.reading import read_results
from tests.cluster.small_runs import results_of
from tests.cluster.tiny import small_region

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--enable-logging=stderr", "--v=0"),
)
HEIGHT = 1500

pytestmark = pytest.mark.skipif(BROWSER is None, reason="there is no Chromium")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the report of a small run with moves under both policies."""
    sections = small_region()
    sections["faults"] = {"crashes": [{"node": "n3", "at_hours": 1.0, "hours": 1.0}]}
    folder, _ = results_of(tmp_path_factory.mktemp("report") / "out", sections)
    (folder / "report.html").write_text(report_page(read_results(folder)))
    return folder / "report.html"


def browse(page: Path, fragment: str, profile: Path, *requested: str) -> tuple[str, str]:
    """Open the page; return the document after its script, and the log of the browser."""
    command = [str(BROWSER), *OPTIONS, f"--user-data-dir={profile}", *requested, f"{page.as_uri()}{fragment}"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    return run.stdout, run.stderr


def moves(document: str) -> list[tuple[str, bool]]:
    """Return the policy of each move of the list, and whether the move is visible."""
    rows = re.findall(r"<tr data-policy=\"([^\"]*)\"[^>]*?( hidden(?:=\"\")?)?>", document)
    return [(policy, not hidden) for policy, hidden in rows]


def test_the_page_opens_without_errors(page: Path, tmp_path: Path):
    document, log = browse(page, "", tmp_path, "--dump-dom")
    assert "CONSOLE" not in log, "neither errors nor refused requests"
    assert document.count("<section") == document.count("</section>") == 12
    for heading in ("Comparison of the policies", "Load of the nodes", "Every move, and why"):
        assert re.search(rf"<h2[^>]*>{heading}</h2>", document)
    assert re.search(r"<form id=\"choice\">", document), "the script shows the elements that need it"
    found = moves(document)
    assert {policy for policy, _ in found} == {"original", "modified"}
    assert all(shown for _, shown in found)
    assert f">{len(found)} of {len(found)} moves</output>" in document


def test_the_address_filters_the_moves(page: Path, tmp_path: Path):
    document, log = browse(page, "#policy=modified", tmp_path, "--dump-dom")
    assert "CONSOLE" not in log
    found = moves(document)
    assert all(shown == (policy == "modified") for policy, shown in found)
    shown = sum(shown for _, shown in found)
    assert 0 < shown < len(found)
    assert f">{shown} of {len(found)} moves</output>" in document
    document, _ = browse(page, "#tenant=%3Cnobody%3E&cause=", tmp_path, "--dump-dom")
    assert f">0 of {len(found)} moves</output>" in document


@pytest.mark.parametrize("width", [1280, 500])
def test_the_page_is_drawn_in_wide_and_narrow_windows(page: Path, tmp_path: Path, width: int):
    picture = tmp_path / "page.png"
    _, log = browse(page, "", tmp_path / "profile", f"--screenshot={picture}", f"--window-size={width},{HEIGHT}")
    assert "CONSOLE" not in log
    content = picture.read_bytes()
    assert struct.unpack(">II", content[16:24]) == (width, HEIGHT)
    assert len(content) > 30_000


def test_an_injected_script_does_not_run(page: Path, tmp_path: Path):
    """Only the script of the page may run. The browser refuses any other and reports this."""
    forged = tmp_path / "forged.html"
    forged.write_text(page.read_text().replace("<main>", "<main><script>document.title = 'forged'</script>", 1))
    document, log = browse(forged, "", tmp_path / "profile", "--dump-dom")
    assert "<title>forged</title>" not in document
    assert "CONSOLE" in log
    assert "Content Security Policy" in log
