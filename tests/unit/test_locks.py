"""`requirements-worker.lock`, which operators install: what a worker needs, as it was tested, and nothing else."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from packaging.utils import NormalizedName, canonicalize_name

from tests.fakes.distributions import ROOT, needs_of, requirements

if TYPE_CHECKING:
    from packaging.requirements import Requirement


def pins(file: str) -> dict[NormalizedName, tuple[str, frozenset[str]]]:
    """Return version and hashes of each package in a lock; of a package with several pins, the versions are joined."""
    found: dict[NormalizedName, tuple[str, frozenset[str]]] = {}
    text = (ROOT / file).read_text("utf-8")
    for name, version, rest in re.findall(r"^([\w.-]+)==(\S+)((?:.*\\\n)+.*)", text, re.MULTILINE):
        before = found.get(canonicalize_name(name), ("", frozenset()))
        hashes = frozenset(re.findall(r"sha256:[0-9a-f]{64}", rest))
        found[canonicalize_name(name)] = (f"{before[0]} {version}".strip(), before[1] | hashes)
    return found


WORKER = pins("requirements-worker.lock")
TESTED = pins("requirements.lock")


def test_every_package_is_locked_with_hashes() -> None:
    assert len(WORKER) > 30
    assert [name for name, (_, hashes) in WORKER.items() if not hashes] == []


def test_every_package_is_the_one_that_the_tests_use() -> None:
    assert {name: TESTED.get(name) for name in WORKER} == WORKER


@pytest.mark.parametrize("wanted", requirements("worker", "registry"), ids=str)
def test_the_locked_version_is_one_that_kraal_allows(wanted: Requirement) -> None:
    version, _ = WORKER[canonicalize_name(wanted.name)]
    assert wanted.specifier.contains(version)


def test_worker_lock_contains_all_dependencies() -> None:
    browser = {"httpx2-jsfetch"}  # for Python in a browser, and so not installed
    needed = {each for name in WORKER.keys() - browser for each in needs_of(name)}
    assert needed - WORKER.keys() == set()


def test_worker_lock_excludes_test_dependencies() -> None:
    assert WORKER.keys() & {"pytest", "mypy", "ruff", "hypothesis", "playwright"} == set()
