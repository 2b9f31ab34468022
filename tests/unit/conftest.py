"""Fixtures of all unit tests."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module", autouse=True)
def _earlier_threads() -> frozenset[threading.Thread]:
    """Return the background threads of the tests of earlier modules, such as those of a Spark session."""
    return frozenset(threading.enumerate()) - {threading.current_thread()}


@pytest.fixture(autouse=True)
def _exclude_log_records_of_earlier_threads(
    caplog: pytest.LogCaptureFixture, _earlier_threads: frozenset[threading.Thread]
) -> Iterator[None]:
    """Exclude from `caplog` the log records of threads that tests of earlier modules have started."""

    def is_included(_: object) -> bool:
        return threading.current_thread() not in _earlier_threads  # a handler runs in the thread that logs

    caplog.handler.addFilter(is_included)
    yield
    caplog.handler.removeFilter(is_included)
