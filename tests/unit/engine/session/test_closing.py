"""Tests for the log messages of JVM calls that are aborted when a worker stops."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from kraal.engine.session.session import ABORTED_CALL_FILTER, Session

PY4J_ERROR = "Exception while sending command."


@pytest.fixture(autouse=True)
def _remove_filter() -> Iterator[None]:
    logging.getLogger().removeFilter(ABORTED_CALL_FILTER)
    yield
    logging.getLogger().removeFilter(ABORTED_CALL_FILTER)


def test_calls_aborted_by_a_shutdown_log_no_traceback(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    root = logging.getLogger()
    session = Session({}, list, tmp_path, lambda _: None, lambda: False)
    root.error(PY4J_ERROR)
    session.close(0.1)
    root.error(PY4J_ERROR)
    root.error("another error")
    assert caplog.messages == [PY4J_ERROR, "another error"]
