"""Tests for `kraal loggers`."""

from __future__ import annotations

import json

from tests.fakes.workers.connect import Connect, ScriptedResponse
from tests.unit.client.conftest import Kraal


def test_loggers_can_be_shown_and_set(kraal: Kraal, worker: Connect) -> None:
    level = {"level": "INFO", "last_modified": None}
    worker.script(
        "GET",
        "/admin/loggers",
        ScriptedResponse(200, {"a.b": {"level": "DEBUG", "last_modified": 0}, "root": level}),
    )
    worker.script("GET", "/admin/loggers/root", ScriptedResponse(200, level))
    worker.script("PUT", "/admin/loggers/a?scope=worker", ScriptedResponse(200, ["a", "a.b"]))
    worker.script("PUT", "/admin/loggers/a?scope=cluster", ScriptedResponse(204))
    assert kraal.out("loggers") == (
        "LOGGER   LEVEL   LAST MODIFIED\na.b      DEBUG   1970-01-01 00:00:00+00:00\nroot     INFO    -\n"
    )
    assert kraal.out("loggers", "root") == "LOGGER   LEVEL   LAST MODIFIED\nroot     INFO    -\n"
    assert kraal.out("loggers", "a", "debug") == "a set to DEBUG\na.b set to DEBUG\n"
    assert kraal.out("loggers", "a", "debug", "--cluster") == "a set to DEBUG on all workers\n"
    assert [json.loads(request.body) for request in worker.received_requests if request.body] == [
        {"level": "DEBUG"}
    ] * 2
    assert kraal("loggers", "a", "--cluster").exit_code == 2


def test_missing_loggers_endpoint_is_reported(kraal: Kraal, worker: Connect) -> None:
    worker.refuse("GET", "/admin/loggers", 404, "HTTP 404 Not Found")
    assert "does not serve /admin/loggers on this listener" in kraal.error("loggers")
    worker.refuse("GET", "/admin/loggers/x", 404, "Logger x not found.")
    assert kraal.error("loggers", "x").endswith("returned 404: Logger x not found.")
