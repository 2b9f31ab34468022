"""Tests that `requirements-worker.lock`, which operators install, contains exactly the tested packages of a worker."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from packaging.utils import NormalizedName, canonicalize_name

from tests.fakes.distributions import ROOT, find_requirements, requirements

if TYPE_CHECKING:
    from packaging.requirements import Requirement


def read_lock(file: str) -> dict[NormalizedName, tuple[str, frozenset[str]]]:
    """Return the version and the hashes of each package in a lock file.

    If a lock contains several versions of a package, they are separated by spaces, and their hashes are merged.
    """
    packages: dict[NormalizedName, tuple[str, frozenset[str]]] = {}
    text = (ROOT / file).read_text("utf-8")
    for name, version, options in re.findall(r"^([\w.-]+)==(\S+)((?:.*\\\n)+.*)", text, re.MULTILINE):
        versions, other_hashes = packages.get(canonicalize_name(name), ("", frozenset()))
        hashes = frozenset(re.findall(r"sha256:[0-9a-f]{64}", options))
        packages[canonicalize_name(name)] = (f"{versions} {version}".strip(), other_hashes | hashes)
    return packages


WORKER_PACKAGES = read_lock("requirements-worker.lock")
TEST_PACKAGES = read_lock("requirements.lock")


def test_every_package_is_locked_with_hashes() -> None:
    assert len(WORKER_PACKAGES) > 30
    assert [name for name, (_, hashes) in WORKER_PACKAGES.items() if not hashes] == []


def test_locked_packages_equal_those_of_the_tests() -> None:
    assert {name: TEST_PACKAGES.get(name) for name in WORKER_PACKAGES} == WORKER_PACKAGES


@pytest.mark.parametrize("requirement", requirements("worker", "registry"), ids=str)
def test_locked_version_satisfies_the_requirement(requirement: Requirement) -> None:
    version, _ = WORKER_PACKAGES[canonicalize_name(requirement.name)]
    assert requirement.specifier.contains(version)


@pytest.mark.parametrize("requirement", requirements("lake", "otel"), ids=str)
def test_tested_version_satisfies_the_requirement(requirement: Requirement) -> None:
    versions, _ = TEST_PACKAGES[canonicalize_name(requirement.name)]
    assert all(map(requirement.specifier.contains, versions.split()))


def test_worker_lock_contains_all_dependencies() -> None:
    browser_only = {"httpx2-jsfetch"}  # not installed, because it is for Python in browsers
    dependencies = {
        dependency for name in WORKER_PACKAGES.keys() - browser_only for dependency in find_requirements(name)
    }
    assert dependencies - WORKER_PACKAGES.keys() == set()


def test_worker_lock_excludes_test_dependencies() -> None:
    assert WORKER_PACKAGES.keys() & {"pytest", "mypy", "ruff", "hypothesis", "playwright"} == set()
