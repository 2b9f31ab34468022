"""What the log says of calls to a JVM that a stopping worker ends."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from kraal.engine.session.session import CALLS_CUT_OFF, Session

PY4J = "Exception while sending command."


@pytest.fixture(autouse=True)
def _unfiltered() -> Iterator[None]:
    logging.getLogger().removeFilter(CALLS_CUT_OFF)
    yield
    logging.getLogger().removeFilter(CALLS_CUT_OFF)


def test_calls_that_a_shutdown_cuts_off_leave_no_traceback_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    root = logging.getLogger()
    session = Session({}, list, tmp_path, lambda _: None, lambda: False)
    root.error(PY4J)
    session.close(0.1)
    root.error(PY4J)
    root.error("another error")
    assert caplog.messages == [PY4J, "another error"]
