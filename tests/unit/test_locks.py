"""`requirements-worker.lock`, which operators install, has exactly the tested packages of a worker."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from packaging.utils import NormalizedName, canonicalize_name

from tests.fakes.distributions import ROOT, find_requirements, requirements

if TYPE_CHECKING:
    from packaging.requirements import Requirement


def pins(file: str) -> dict[NormalizedName, tuple[str, frozenset[str]]]:
    """Return the version and the hashes of each package in a lock; several versions of a package are joined."""
    packages: dict[NormalizedName, tuple[str, frozenset[str]]] = {}
    text = (ROOT / file).read_text("utf-8")
    for name, version, rest in re.findall(r"^([\w.-]+)==(\S+)((?:.*\\\n)+.*)", text, re.MULTILINE):
        before = packages.get(canonicalize_name(name), ("", frozenset()))
        hashes = frozenset(re.findall(r"sha256:[0-9a-f]{64}", rest))
        packages[canonicalize_name(name)] = (f"{before[0]} {version}".strip(), before[1] | hashes)
    return packages


WORKER = pins("requirements-worker.lock")
TESTED = pins("requirements.lock")


def test_every_package_is_locked_with_hashes() -> None:
    assert len(WORKER) > 30
    assert [name for name, (_, hashes) in WORKER.items() if not hashes] == []


def test_packages_equal_those_of_the_tests() -> None:
    assert {name: TESTED.get(name) for name in WORKER} == WORKER


@pytest.mark.parametrize("wanted", requirements("worker", "registry"), ids=str)
def test_locked_version_satisfies_the_requirement(wanted: Requirement) -> None:
    version, _ = WORKER[canonicalize_name(wanted.name)]
    assert wanted.specifier.contains(version)


def test_worker_lock_contains_all_dependencies() -> None:
    browser = {"httpx2-jsfetch"}  # for Python in browsers, therefore not installed
    needed = {each for name in WORKER.keys() - browser for each in find_requirements(name)}
    assert needed - WORKER.keys() == set()


def test_worker_lock_excludes_test_dependencies() -> None:
    assert WORKER.keys() & {"pytest", "mypy", "ruff", "hypothesis", "playwright"} == set()
