"""Tests that the wheel contains all files of a worker and no others, and that builds are reproducible."""

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
def wheel_files(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Build the wheel; return the names of its files."""
    [path] = WheelBuilder(str(ROOT)).build(
        directory=str(tmp_path_factory.mktemp("wheel")), versions=["standard"]
    )
    with zipfile.ZipFile(path) as wheel:
        return set(wheel.namelist())


@pytest.mark.parametrize("folder", ["web/ui/templates", "web/ui/static"])
def test_wheel_contains_the_files_of_the_dashboard(wheel_files: set[str], folder: str) -> None:
    files = {str(path.relative_to(ROOT)) for path in (ROOT / folder).rglob("*") if path.is_file()}
    assert len(files) > 5
    assert files <= wheel_files


def test_wheel_contains_the_licenses_of_its_contents(wheel_files: set[str]) -> None:
    licenses = {name.partition(".dist-info/licenses/")[2] for name in wheel_files}
    assert {"LICENSE", "NOTICE", "web/ui/static/vendored/LICENSES.md"} <= licenses


def test_wheel_contains_only_packages_and_metadata(wheel_files: set[str]) -> None:
    directories = {name.partition("/")[0] for name in wheel_files}
    packages = {name for name in directories if not name.endswith(".dist-info")}
    assert packages == {"actors", "web", "kraal"}


def test_wheel_contains_no_tests_and_only_vendored_libraries(wheel_files: set[str]) -> None:
    assert not [
        name for name in wheel_files if "axe" in name or "/tests/" in name or name.endswith((".pyc", ".jar"))
    ]
    scripts = {name for name in wheel_files if name.endswith(".js")}
    vendored_scripts = {"web/ui/static/vendored/htmx.min.js", "web/ui/static/vendored/uPlot.iife.min.js"}
    assert {name for name in scripts if "min" in name} == vendored_scripts


def build(project: Path, output_directory: Path, hash_seed: str) -> dict[str, str]:
    """Build the sdist and the wheel in a separate process, and return the digest of each file."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(output_directory)],
        cwd=project,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        check=True,
    )
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in output_directory.iterdir()}


def test_builds_from_clone_and_sdist_are_reproducible(tmp_path: Path) -> None:
    """Builds do not depend on the modification times, modes, paths and order of source files."""
    digests = build(ROOT, tmp_path / "first", "1")
    assert {Path(name).suffix for name in digests} == {".gz", ".whl"}
    [sdist] = (tmp_path / "first").glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path / "other", filter="data")
    [unpacked_sdist] = (tmp_path / "other").iterdir()
    for path in unpacked_sdist.rglob("*"):
        path.chmod(0o700 if path.stat().st_mode & 0o100 else 0o600)
        os.utime(path, (1e9, 1e9))
    assert build(unpacked_sdist, tmp_path / "second", "2") == digests
