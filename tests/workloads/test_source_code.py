"""Digests of source code, and those of the regions, which depend on the code that makes their tenants."""

from __future__ import annotations

import ast
import shutil
from pathlib import Path

import pytest

from cluster.scenario.digests import MAKES_TENANTS, code_of_tenants
from plb.compiler.source_code import digest_of_modules, digest_of_source, imported_by, modules_in
from plb.errors import PlbError
from tests.sources import ROOT, modules
from workloads.regions import REGIONS
from workloads.trace_files import check_traces

FOLDER = ROOT / "workloads"
PINNED = {
    "region1": "8f335dae08e13e12bb1ce8a6bff11b5f2c73e1a367164eb52ab84e223b582680",
    "region2": "352daaaec44eda2dac3b42724f207d86721772516c48aacf523111dee5c5e466",
    "region3": "2d5bb9dd331ab552ef320212f0e3bb4ab7fc4350c383c365308b5e8fafbdba48",
    "region4": "d18d60728ed1828c3439214b7b35ff67f54fe38f3e48e42a71fa554cd01de406",
}
"""A change here says that the parameters of regions changed. Results with other digests are not compared in pairs."""
PINNED_CODE = "00fa967b107a637de4a1f13cb1c476d3261c65495321e1d4965826db3d851e17"
"""A change here says that the tenants of all results are others than before, or that other code makes the same tenants.
State in the commit which of them it is."""

SOURCE = '''
"""Docstring of the module."""
import math

HALF = 0.5
"""Docstring of a constant."""


class Shape:
    """Docstring of a class."""

    def area(self, width: float) -> float:
        """Docstring of a function."""
        return width * math.sqrt(HALF) + f(f"{width:.3f}", *[1, 2], key=None)  # comment
'''


@pytest.mark.parametrize("name", REGIONS)
def test_digests_of_regions_are_deliberate(name: str) -> None:
    assert REGIONS[name].digest() == PINNED[name]


def test_the_code_of_tenants_is_deliberate() -> None:
    assert code_of_tenants() == PINNED_CODE


@pytest.mark.parametrize("text", ["def half(:\n", "x = (1,\n", "  x = 1\n"])
def test_a_file_in_the_middle_of_an_edit_is_named(copy: Path, text: str) -> None:
    (copy / "population.py").write_text("ONE = 1\n" + text)
    with pytest.raises(PlbError, match=r"population\.py, line 2: cannot be parsed"):
        code_of(copy)
    with pytest.raises(PlbError, match=r"population\.py, line 2: cannot be parsed"):
        digest_of_modules({"population": copy / "population.py"})


def test_example_traces_name_the_parameters_of_their_region() -> None:
    """The command in examples/own_traces.toml has written them."""
    provenance = check_traces(ROOT / "examples" / "small_traces")[0].provenance
    assert provenance["digest"] == REGIONS["region2"].digest()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"""Docstring of the module."""\n', ""),
        ('"""Docstring of a constant."""\n', "# a comment\n"),
        ("Docstring of a class", "Another docstring"),
        ("Docstring of a function", "Another docstring"),
        ("  # comment", ""),
        ("width * math.sqrt(HALF) + ", "(width\n * math . sqrt(HALF)) + "),
        ("None)", "None,)"),
        ("0.5", "5e-1"),
        ("import math\n\n", "import math\n\n\n\n\n"),
        ('f"{width:.3f}"', "f'{width:.3f}'"),
    ],
)
def test_a_change_that_does_nothing_keeps_the_digest(old: str, new: str) -> None:
    assert old in SOURCE
    assert digest_of_source(SOURCE.replace(old, new)) == digest_of_source(SOURCE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("0.5", "0.25"),
        ("0.5", "'0.5'"),
        ("import math", "import cmath as math"),
        ("width * math", "math * width"),
        ("width * ", "width + "),
        ("[1, 2]", "[2, 1]"),
        ("[1, 2]", "(1, 2)"),
        (", key=None", ""),
        ("key=None", "**None"),
        (":.3f", ":.4f"),
        ("width:.3f", "width!r:.3f"),
        ("float) -> float", "float, /) -> float"),
        ("    def area", "    @staticmethod\n    def area"),
    ],
)
def test_a_change_of_the_code_changes_the_digest(old: str, new: str) -> None:
    """Whatever may change what the code does counts, including annotations, which define fields of classes."""
    assert old in SOURCE
    assert digest_of_source(SOURCE.replace(old, new)) != digest_of_source(SOURCE)


def test_the_digest_does_not_depend_on_the_version_of_python() -> None:
    """It is pinned. Fields of trees that only some versions have are empty here, and empty fields are left out."""
    assert digest_of_source(SOURCE) == "b1b366792fef554bf4c6aa4b4fa7153b48f650304a7b12776c7ec9d3744f7e97"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(FOLDER, tmp_path / FOLDER.name, ignore=shutil.ignore_patterns("__pycache__")))


def code_of(folder: Path) -> str:
    return digest_of_modules(imported_by(MAKES_TENANTS, modules_in(folder)))


def test_the_place_of_the_code_does_not_count(copy: Path) -> None:
    """An installed package has the digest of a directory of sources. The order of files does not count."""
    assert code_of(copy) == code_of_tenants()
    files = modules_in(copy)
    assert digest_of_modules(dict(reversed(files.items()))) == digest_of_modules(files)


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("region_parameters.py", "MEMORY_PER_VCORE = 5.1", "MEMORY_PER_VCORE = 5.2"),
        ("region_parameters.py", "LOCAL_REPLICAS = 4", "LOCAL_REPLICAS = 3"),
        ("region_parameters.py", "VCORES = (2, 4,", "VCORES = (1, 2, 4,"),
        ("region_parameters.py", "CLASSES = LOCAL + REMOTE", "CLASSES = REMOTE + LOCAL"),
        ("population.py", "SHORTEST_LIFE = 3", "SHORTEST_LIFE = 4"),
        ("population.py", "EARLY_GROWTH, LATE_GROWTH = 0.5,", "EARLY_GROWTH, LATE_GROWTH = 0.4,"),
        ("regions.py", "BLOCK = 256", "BLOCK = 128"),
        ("population.py", "rng.", "1.0 * rng."),
        ("trace.py", "STEP_SECONDS = 600", "STEP_SECONDS = 300"),
        ("region_parameters.py", "AIMED_SHARE = 0.915", "AIMED_SHARE = 0.916"),
    ],
)
def test_classes_constants_and_code_of_tenants_count(copy: Path, file: str, old: str, new: str) -> None:
    text = (copy / file).read_text(encoding="utf-8")
    assert old in text
    (copy / file).write_text(text.replace(old, new, 1), encoding="utf-8")
    assert code_of(copy) != code_of_tenants()


def test_modules_that_make_no_tenants_do_not_count(copy: Path) -> None:
    with (copy / "readers/azure.py").open("a", encoding="utf-8") as file:
        file.write("\nMORE = 1\n")
    assert code_of(copy) == code_of_tenants()


def test_a_new_module_counts_as_soon_as_it_is_imported(copy: Path) -> None:
    with (copy / "population.py").open("a", encoding="utf-8") as file:
        file.write("\n\ndef more():\n    from workloads.further import shapes\n    return shapes\n")
    before = code_of(copy)
    (copy / "further").mkdir()
    (copy / "further/__init__.py").write_text("")
    (copy / "further/shapes.py").write_text("SHAPE = 1\n")
    between = code_of(copy)
    (copy / "further/shapes.py").write_text("SHAPE = 2\n")
    assert len({before, between, code_of(copy)}) == 3


def test_no_import_is_hidden_from_the_digest() -> None:
    """No module is imported relatively, and none of workloads by a name that is known only when it runs."""
    for name, tree in modules().items():
        for node in ast.walk(tree):
            assert not (isinstance(node, ast.ImportFrom) and node.level), name
            if name.startswith("workloads"):
                called = getattr(node, "id", None) or getattr(node, "attr", None) or getattr(node, "name", None)
                assert not {"importlib", "import_module", "__import__"} & set(str(called).split(".")), name


def test_a_package_without_sources_is_refused(tmp_path: Path) -> None:
    """A digest of nothing would hide every change."""
    with pytest.raises(PlbError, match="has no source code"):
        modules_in(tmp_path)
