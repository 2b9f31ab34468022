"""Records the durations of a run, per file and per fixture, for docs/results/durations.md.

`--durations-to FILE` writes the durations as JSON. `python -m tests.run.durations FILE...` writes the page from the
files of all parts of a run.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

PAGE: Final = Path(__file__).parents[2] / "docs" / "results" / "durations.md"
_PROPERTY_NAME: Final = "fixture"
_MIN_FIXTURE_S: Final = 0.1
"""Minimum duration of a fixture setup to be recorded."""
_current = pytest.StashKey[pytest.Item]()
_totals = pytest.StashKey["Totals"]()


class Totals:
    """Seconds by file and by fixture, and number of tests by file."""

    def __init__(self) -> None:
        self.files: defaultdict[str, float] = defaultdict(float)
        self.fixtures: defaultdict[str, float] = defaultdict(float)
        self.tests: Counter[str] = Counter()

    def add(self, report: pytest.TestReport) -> None:
        """Add one phase of one test."""
        path = report.nodeid.partition("::")[0]
        self.files[path] += report.duration
        if report.when == "call":
            self.tests[path] += 1
        if report.when == "setup":
            for name, value in report.user_properties:
                if name == _PROPERTY_NAME:
                    fixture, seconds = str(value).rsplit(" ", 1)
                    self.fixtures[fixture] += float(seconds)

    def as_json(self) -> dict[str, dict[str, float]]:
        return {
            "files": {name: round(seconds, 2) for name, seconds in self.files.items()},
            "fixtures": {name: round(seconds, 2) for name, seconds in self.fixtures.items()},
            "tests": dict(self.tests),
        }


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--durations-to", metavar="FILE", help="write durations of files and fixtures as JSON")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_totals] = Totals()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    item.config.stash[_current] = item
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest) -> Iterator[Any]:
    """Attach the duration to the test that first used the fixture, because test reports are sent between processes."""
    start = time.perf_counter()
    try:
        return (yield)
    finally:
        seconds = time.perf_counter() - start
        if seconds >= _MIN_FIXTURE_S and (item := request.config.stash.get(_current, None)) is not None:
            fixture_name = f"{fixturedef.argname} ({fixturedef.scope}, {fixturedef.baseid or 'a plugin'})"
            item.user_properties.append((_PROPERTY_NAME, f"{fixture_name} {seconds:.3f}"))


class _Reports:
    """A plugin of the main process that adds up the reports of all processes."""

    def __init__(self, totals: Totals) -> None:
        self._totals = totals

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._totals.add(report)


def pytest_sessionstart(session: pytest.Session) -> None:
    if not hasattr(session.config, "workerinput"):
        session.config.pluginmanager.register(_Reports(session.config.stash[_totals]))


def pytest_sessionfinish(session: pytest.Session) -> None:
    path = session.config.getoption("durations_to")
    if path and not hasattr(session.config, "workerinput"):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(json.dumps(session.config.stash[_totals].as_json()), encoding="utf-8")


def page(parts: Sequence[Mapping[str, Mapping[str, float]]]) -> str:
    """Return the page with the files and fixtures of all parts, slowest first."""
    files, fixtures, tests = (_sums(part[kind] for part in parts) for kind in ("files", "fixtures", "tests"))
    return "\n".join(
        [
            "# Durations of the tests",
            "Seconds of the tests of CI on two cores, as they were last measured, by file and by fixture, the longest",
            "first. `.ci/run` prints the command that renews this page. A file includes the fixtures that its",
            "tests were the first to use. Two processes run tests at a time, so a run takes half of the sum.",
            "",
            "| file | tests | seconds |",
            "|---|---|---|",
            *(
                f"| {name} | {tests.get(name, 0):.0f} | {seconds:.1f} |"
                for name, seconds in _sort_by_seconds(files)
            ),
            "",
            "## Set-up of fixtures",
            "| fixture (scope, where it is defined) | seconds |",
            "|---|---|",
            *(f"| {name} | {seconds:.1f} |" for name, seconds in _sort_by_seconds(fixtures) if seconds >= 1),
            "",
        ]
    )


def _sums(parts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    totals: defaultdict[str, float] = defaultdict(float)
    for part in parts:
        for name, value in part.items():
            totals[name] += value
    return totals


def _sort_by_seconds(seconds: Mapping[str, float]) -> list[tuple[str, float]]:
    return sorted(seconds.items(), key=lambda item: -item[1])


def seconds_of_files(text: str) -> dict[str, float]:
    """Parse the seconds by file from a page."""
    rows = (line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| tests/"))
    return {row[0]: float(row[2]) for row in rows if len(row) == 3}


if __name__ == "__main__":
    parts = [json.loads(Path(name).read_text("utf-8")) for name in sys.argv[1:]]
    PAGE.write_text(page(parts), encoding="utf-8")
