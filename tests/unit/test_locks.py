"""`requirements-worker.lock`, which operators install: what a worker needs, as it was tested, and nothing else."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


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
WANTED = [
    Requirement(each)
    for each in (
        *PROJECT["dependencies"],
        *PROJECT["optional-dependencies"]["worker"],
        *PROJECT["optional-dependencies"]["registry"],
    )
]


def test_every_package_is_locked_with_hashes() -> None:
    assert len(WORKER) > 30
    assert [name for name, (_, hashes) in WORKER.items() if not hashes] == []


def test_every_package_is_the_one_that_the_tests_use() -> None:
    assert {name: TESTED.get(name) for name in WORKER} == WORKER


@pytest.mark.parametrize("wanted", WANTED, ids=str)
def test_the_locked_version_is_one_that_kraal_allows(wanted: Requirement) -> None:
    version, _ = WORKER[canonicalize_name(wanted.name)]
    assert wanted.specifier.contains(version)


def test_what_the_locked_packages_need_is_locked() -> None:
    needs = {
        (name, canonicalize_name(each.name))
        for name in WORKER
        if name != "httpx2-jsfetch"  # for Python in a browser
        for each in map(Requirement, distribution(name).requires or ())
        if each.marker is None or each.marker.evaluate({"extra": ""})
    }
    assert {(name, needed) for name, needed in needs if needed not in WORKER} == set()


def test_it_has_nothing_that_only_tests_need() -> None:
    assert WORKER.keys() & {"pytest", "mypy", "ruff", "hypothesis", "playwright"} == set()
