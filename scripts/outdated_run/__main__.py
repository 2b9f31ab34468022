"""Prints outdated pins and the reasons that block upgrades. Exits with 1 if a registry could not be queried."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import distributions
from pathlib import Path
from typing import Final

from kraal.core.errors import KraalError
from kraal.jars.lock import NON_TRANSITIVE_GROUPS, TRANSITIVE_GROUPS
from scripts.outdated_run.pins import Pin, javascript_pins, maven_pins, python_pins
from scripts.outdated_run.registries import newest_installed, newest_javascript, newest_maven, newest_python
from scripts.outdated_run.report import find_limits, find_outdated

ROOT: Final = Path(__file__).parents[2]
INSTALLED_LOCKS: Final = ("requirements.lock", "requirements-build.lock")
# Files of other environments, for which only the listed packages are checked, not their dependencies.
OTHER_ENVIRONMENTS: Final = ("requirements-docs.in", "tests/s3-server.in", "tests/lake-reader.in")
JAVASCRIPT: Final = (
    "web/ui/static/vendored/LICENSES.md",
    "tests/integration/ui/vendored/LICENSES.md",
    "tests/integration/ui/chromium.lock",
)


def main() -> int:
    """Print the report and return the exit code."""
    parser = argparse.ArgumentParser(prog="./scripts/outdated", description=__doc__)
    parser.parse_args()
    pins: list[Pin] = []
    newest: dict[tuple[str, str], str] = {}
    has_failed = False
    for registry, (read, query) in REGISTRIES.items():
        print(f"Querying newest versions: {registry}", file=sys.stderr, flush=True)
        registry_pins = read()
        try:
            newest |= query(registry_pins)
            pins += registry_pins
        except (KraalError, OSError, subprocess.SubprocessError) as exc:
            has_failed = True
            print(f"Failed to query versions of {registry}: {exc}", file=sys.stderr)
    limits = find_limits(_list_requirements(), newest)
    outdated = find_outdated(pins, newest, limits)
    for title, section in (
        ("Upgradable", [entry for entry in outdated if not entry.reason]),
        ("Blocked", [entry for entry in outdated if entry.reason]),
    ):
        print(f"{title}: {len(section)}")
        for entry in section:
            print(f"  {entry.line()}")
    return 1 if has_failed else 0


def _read_python_pins() -> list[Pin]:
    return [
        pin for file in (*INSTALLED_LOCKS, *OTHER_ENVIRONMENTS) for pin in python_pins(_read_file(file), file)
    ]


def _query_python_versions(pins: list[Pin]) -> dict[tuple[str, str], str]:
    return newest_installed() | newest_python(pin.name for pin in pins if pin.source in OTHER_ENVIRONMENTS)


def _read_maven_pins() -> list[Pin]:
    return maven_pins(TRANSITIVE_GROUPS | NON_TRANSITIVE_GROUPS)


def _read_javascript_pins() -> list[Pin]:
    return [pin for file in JAVASCRIPT for pin in javascript_pins(_read_file(file), file)]


REGISTRIES: Final[
    dict[str, tuple[Callable[[], list[Pin]], Callable[[list[Pin]], dict[tuple[str, str], str]]]]
] = {
    "Python packages": (_read_python_pins, _query_python_versions),
    "jars": (_read_maven_pins, lambda pins: newest_maven({pin.name for pin in pins})),
    "JavaScript packages": (
        _read_javascript_pins,
        lambda pins: newest_javascript({pin.name for pin in pins}),
    ),
}


def _list_requirements() -> list[tuple[str, str]]:
    """Return the requirements of all installed packages except Kraal, whose requirements are the ones to update."""
    return [
        (distribution.name, requirement)
        for distribution in distributions()
        if distribution.name != "kraal"
        for requirement in distribution.requires or ()
    ]


def _read_file(file: str) -> str:
    return (ROOT / file).read_text("utf-8")


if __name__ == "__main__":
    sys.exit(main())
