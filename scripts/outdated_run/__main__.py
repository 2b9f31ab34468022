"""Prints outdated pins and the reasons without changing anything; exits with 1 if a registry could not be queried."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import distributions
from pathlib import Path
from typing import Final

from kraal.core.errors import KraalError
from kraal.jars.lock import NON_TRANSITIVE, TRANSITIVE
from scripts.outdated_run.pins import Pin, javascript_pins, maven_pins, python_pins
from scripts.outdated_run.registries import newest_installed, newest_javascript, newest_maven, newest_python
from scripts.outdated_run.report import find_behind, find_limits

ROOT: Final = Path(__file__).parents[2]
INSTALLED: Final = ("requirements.lock", "requirements-build.lock")
# Of other environments, only the listed packages without their dependencies.
ELSEWHERE: Final = ("requirements-docs.in", "tests/s3-server.in")
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
    failed = False
    for registry, (read, ask) in REGISTRIES.items():
        print(f"Querying newest versions: {registry}", file=sys.stderr, flush=True)
        some = read()
        try:
            newest |= ask(some)
            pins += some
        except (KraalError, OSError, subprocess.SubprocessError) as exc:
            failed = True
            print(f"Failed to query versions of {registry}: {exc}", file=sys.stderr)
    limits = find_limits(_requirements(), newest)
    lines = find_behind(pins, newest, limits)
    for title, some_lines in (
        ("Can move", [each for each in lines if not each.reason]),
        ("Stopped", [each for each in lines if each.reason]),
    ):
        print(f"{title}: {len(some_lines)}")
        for each in some_lines:
            print(f"  {each.line()}")
    return 1 if failed else 0


def _python() -> list[Pin]:
    return [pin for file in (*INSTALLED, *ELSEWHERE) for pin in python_pins(_text(file), file)]


def _ask_python(pins: list[Pin]) -> dict[tuple[str, str], str]:
    return newest_installed() | newest_python(pin.name for pin in pins if pin.source in ELSEWHERE)


def _maven() -> list[Pin]:
    return maven_pins(TRANSITIVE | NON_TRANSITIVE)


def _javascript() -> list[Pin]:
    return [pin for file in JAVASCRIPT for pin in javascript_pins(_text(file), file)]


REGISTRIES: Final[
    dict[str, tuple[Callable[[], list[Pin]], Callable[[list[Pin]], dict[tuple[str, str], str]]]]
] = {
    "Python packages": (_python, _ask_python),
    "jars": (_maven, lambda pins: newest_maven({pin.name for pin in pins})),
    "JavaScript packages": (_javascript, lambda pins: newest_javascript({pin.name for pin in pins})),
}


def _requirements() -> list[tuple[str, str]]:
    """Return the requirements of installed packages except Kraal, whose requirements are to be updated."""
    return [
        (each.name, requirement)
        for each in distributions()
        if each.name != "kraal"
        for requirement in each.requires or ()
    ]


def _text(file: str) -> str:
    return (ROOT / file).read_text("utf-8")


if __name__ == "__main__":
    sys.exit(main())
