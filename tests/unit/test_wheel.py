"""The wheel has everything that a worker needs besides Python modules, and nothing from elsewhere."""

from __future__ import annotations

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
def test_has_the_dashboards_files(names: set[str], folder: str) -> None:
    files = {str(path.relative_to(ROOT)) for path in (ROOT / folder).rglob("*") if path.is_file()}
    assert len(files) > 5
    assert files <= names


def test_has_the_licences_of_what_it_contains(names: set[str]) -> None:
    licences = {name.partition(".dist-info/licenses/")[2] for name in names}
    assert {"LICENSE", "NOTICE", "web/ui/static/vendored/LICENSES.md"} <= licences


def test_has_only_the_packages_and_their_metadata(names: set[str]) -> None:
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"actors", "web", "kraal"}


def test_has_no_tests_and_no_libraries_but_the_vendored_ones(names: set[str]) -> None:
    assert not [
        name for name in names if "axe" in name or "/tests/" in name or name.endswith((".pyc", ".jar"))
    ]
    scripts = {name for name in names if name.endswith(".js")}
    vendored = {"web/ui/static/vendored/htmx.min.js", "web/ui/static/vendored/uPlot.iife.min.js"}
    assert {name for name in scripts if "min" in name} == vendored
