"""The wheel has exactly the data files of a worker besides Python modules, and builds are reproducible."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Return the names of the files in the wheel."""
    [path] = WheelBuilder(str(ROOT)).build(
        directory=str(tmp_path_factory.mktemp("wheel")), versions=["standard"]
    )
    with zipfile.ZipFile(path) as wheel:
        return set(wheel.namelist())


@pytest.mark.parametrize("folder", ["web/ui/templates", "web/ui/static"])
def test_wheel_contains_the_files_of_the_dashboard(names: set[str], folder: str) -> None:
    files = {str(path.relative_to(ROOT)) for path in (ROOT / folder).rglob("*") if path.is_file()}
    assert len(files) > 5
    assert files <= names


def test_wheel_contains_the_licences_of_its_contents(names: set[str]) -> None:
    licences = {name.partition(".dist-info/licenses/")[2] for name in names}
    assert {"LICENSE", "NOTICE", "web/ui/static/vendored/LICENSES.md"} <= licences


def test_wheel_contains_only_packages_and_metadata(names: set[str]) -> None:
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"actors", "web", "kraal"}


def test_wheel_contains_no_tests_and_only_vendored_libraries(names: set[str]) -> None:
    assert not [
        name for name in names if "axe" in name or "/tests/" in name or name.endswith((".pyc", ".jar"))
    ]
    scripts = {name for name in names if name.endswith(".js")}
    vendored = {"web/ui/static/vendored/htmx.min.js", "web/ui/static/vendored/uPlot.iife.min.js"}
    assert {name for name in scripts if "min" in name} == vendored


def build(project: Path, into: Path, seed: str) -> dict[str, str]:
    """Build sdist and wheel in a separate process; return the digest of each file."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(into)],
        cwd=project,
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        check=True,
    )
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in into.iterdir()}


def test_builds_from_clone_and_sdist_are_reproducible(tmp_path: Path) -> None:
    """Builds do not depend on times, modes, paths and the order of files, or on the kind of source."""
    first = build(ROOT, tmp_path / "first", "1")
    assert {Path(name).suffix for name in first} == {".gz", ".whl"}
    [sdist] = (tmp_path / "first").glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path / "other", filter="data")
    [copy] = (tmp_path / "other").iterdir()
    for path in copy.rglob("*"):
        path.chmod(0o700 if path.stat().st_mode & 0o100 else 0o600)
        os.utime(path, (1e9, 1e9))
    assert build(copy, tmp_path / "second", "2") == first
