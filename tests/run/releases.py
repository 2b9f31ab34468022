"""Runs tests with the broker and the Java workers of another Kafka release (`--release 3.9`).

A run with this option includes only tests with `@pytest.mark.releases`. `scripts/test --all` runs them
for each release.
"""

from __future__ import annotations

import os

import pytest

from kraal.jars.lock import RELEASES
from tests.fakes.kafka.releases import VARIABLE


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--release", choices=tuple(RELEASES), help="Kafka release of the broker and of Java workers"
    )


def pytest_configure(config: pytest.Config) -> None:
    if release := config.getoption("release"):
        os.environ[VARIABLE] = release


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests that do not depend on the release."""
    if config.getoption("release"):
        deselected = [item for item in items if not item.get_closest_marker("releases")]
        config.hook.pytest_deselected(items=deselected)
        items[:] = [item for item in items if item.get_closest_marker("releases")]
