"""The fuzzers with a small budget against a process of their own, while Spark starts beside it."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

import pytest

from kraal.testing.process import WorkerProcess
from tests.fuzz.findings import from_bytes, from_schema

SEED = 980
OF_EACH_OPERATION = 4
REQUESTS = 150
LOGGERS = ["setLoggerLevel"]
"""Left out: with all levels at TRACE the worker would write nothing but its log."""


@pytest.mark.timeout(300)
def test_nothing_is_wrong_with_any_answer_and_the_worker_goes_on(
    own_worker: Callable[..., WorkerProcess],
) -> None:
    worker = own_worker()
    worker.start()
    url = urlsplit(worker.url)
    assert url.hostname
    assert url.port
    assert from_schema(f"{worker.url}/", SEED, OF_EACH_OPERATION, operations=LOGGERS) == ""
    assert from_bytes(url.hostname, url.port, SEED, REQUESTS, loggers=False) == []
    assert worker.get("/").status == worker.get("/health").status == 200
    assert worker.end() == 0, worker.log_text()
    assert "; restarting it in" not in worker.log_text(), "no actor died"
