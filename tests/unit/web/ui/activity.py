"""Canned responses of a worker with a failed task, and helpers that return dashboard pages as text."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

from tests.unit.web.ui.canned import CannedSource, browser

NAME = "orders-sink"
URL = f"/ui/connectors/{NAME}"
PATH = f"/connectors/{NAME}"
FORM_HEADERS = {"Origin": "http://testserver", "Content-Type": "application/x-www-form-urlencoded"}


def state(
    ms: int, state_name: str, cause: str, *, task: int | None = 0, by: str = "", trace: str | None = None
) -> Any:
    return {
        "ms": ms,
        "task": task,
        "state": state_name,
        "worker_id": "w:1",
        "generation": 4,
        "cause": cause,
        "by": by,
        "trace": trace,
    }


def canned_responses(name: str = NAME, text: str = "IOError: disk is full") -> dict[str, Any]:
    """Return a worker's responses, with `text` wherever untrusted text may occur."""
    path = f"/connectors/{name}"
    return {
        f"{path}/status": {
            "name": name,
            "type": "sink",
            "connector": {"state": "RUNNING", "worker_id": "w:1"},
            "tasks": [{"id": 0, "state": "FAILED", "worker_id": "w:1", "trace": f"{text}\n\tat a.B.c"}],
        },
        f"{path}/config": {"connector.class": "org.acme.Sink", "topics": text, "topics.regex": text},
        f"{path}/topics": {name: {"topics": [text]}},
        f"{path}/history": _history(text),
        f"{path}/series": _series(text),
        f"{path}/logs": _logs(text),
        "/admin/loggers": {"root": {"level": "INFO"}, f"org.acme.{text}": {"level": text}},
        "/events": _events(name, text),
        f"{path}/dead-letters": _letters(text),
        f"{path}/proof": _proof(text),
        f"{path}/ledger": make_ledger(text),
        f"{path}/tables": _tables(name, text),
        f"POST {path}/proof": {**_proof(text), "state": "RUNNING", "result": None},
        f"POST {path}/dead-letters/replay": {
            "dry_run": True,
            "written": {"orders": 12, "clicks": 3},
            "from": {"0": 17, "3": 5},
        },
        f"PUT {path}/topics/reset": {},
        "PUT /admin/loggers/org.acme": ["org.acme", "org.acme.x"],
    }


def _history(text: str) -> Any:
    return {
        "worker_id": "w:1",
        "since_ms": 500,
        "dropped": 3,
        "states": [
            state(3_000, "FAILED", text, trace=f"{text}\n\tat a.B.c"),
            state(2_100, "RUNNING", "restarted", by=f"POST from {text}"),
            state(2_000, "RESTARTING", "restarted", by=f"POST from {text}"),
            state(1_000, "RUNNING", "created"),
            state(900, "RUNNING", "created", task=None),
        ],
    }


def _proof(text: str) -> Any:
    span = {"topic": text, "partition": 0, "first": 3, "last": 4}
    return {
        "connector": NAME,
        "state": "DIFFERENT",
        "started_ms": 5_000,
        "ended_ms": 6_000,
        "since_ms": None,
        "reason": None,
        "result": {
            "partitions": [{"topic": text, "partition": 0, "first": 0, "end": 12_345}],
            "source_offsets": None,
            "partial": False,
            "expected_rows": 12_345,
            "stored_rows": 12_343,
            "missing": {"rows": 2, "offsets": [span], "source_records": []},
            "repeated": {"rows": 0, "offsets": []},
            "unexpected": {"rows": 0, "offsets": []},
            "dead_letters": 7,
            "tolerated": None,
            "dropped": None,
        },
    }


def make_ledger(text: str) -> Any:
    law_break = {"ranges": f"{text}-0@5 to @9", "reason": f"1 of 4 records: {text}", "time_ms": 7_000}
    counts = {"batches": 9, "dropped": 0, "dead_letters": 7, "tolerated": 0, "batches_without_written": 0}
    task = {**counts, "batches_without_read": 3, "breaks": [law_break], "break_count": 1}
    partition = {"kafka_topic": text, "kafka_partition": 0}
    return {
        "connector": NAME,
        "problem": text,
        "tasks": [
            {"task": 0, "read": 12_345, "written": 12_337, **task},
            {"task": 1, "read": 5, "written": 5, **counts, "breaks": [], "break_count": 0},
        ],
        "partitions": [
            {
                "partition": partition,
                "since": 0,
                "end": 12_345,
                "repeated": 4,
                "uncounted": [{"start": 100, "end": 1_100}],
                "uncounted_count": 21,
            }
        ],
    }


def _tables(name: str, text: str) -> Any:
    offset = {"topic": text, "partition": 0, "offset": 12_345}
    counts = {"rows_added": 5, "rows_updated": 2, "rows_deleted": 1, "files_added": 1, "files_removed": 0}
    commit = {"version": text, "time_ms": 7_000, "operation": text, "offsets": [offset], **counts}
    change = {
        "column": text,
        "old_type": None,
        "new_type": "int64",
        "record": text,
        "version": text,
        "time_ms": 6_000,
    }
    table = {
        "table": text,
        "format": text,
        "version": text,
        "reported_ms": 8_000,
        "rows": 1_234_567,
        "files": 12,
        "size_bytes": 5_000_000,
        "columns": [{"name": text, "type": text}],
        "partitions": [{**offset, "task": 0, "lag_records": 3, "lag_ms": 1_500}],
        "commits": [commit, {**commit, "offsets": None, "rows_updated": None}],
        "schema_changes": [change, {**change, "old_type": "int32"}],
        "totals": {"commits": 4, "commit_ms": 1_000, "conflicts": 1, "schema_changes": 2},
    }
    return {"connector": name, "tables": [table], "silent": [text]}


def _series(text: str) -> Any:
    values = {
        "id": 0,
        "records_per_second": [1, None, 2],
        "backlog_records": [7, 8, 9],
        "write_ms": [40, None, 50],
    }
    return {"step_ms": 5_000, "start_ms": 60_000, "tasks": [values], "silent": [text]}


def _logs(text: str) -> Any:
    line = {"id": 1, "ms": 1, "worker_id": text, "level": "ERROR", "logger": text, "task": 0, "message": text}
    return {"lines": [line], "silent": [text], "dropped": 17}


def _events(name: str, text: str) -> Any:
    unknown_event = {"seq": 1, "ms": 1, "kind": text, "connector": name, "task": 0, "text": text, "by": text}
    config_event = {
        "seq": 2,
        "ms": 1,
        "kind": "config",
        "connector": name,
        "task": None,
        "text": "created",
        "by": "",
    }
    return {"events": [unknown_event, config_event]}


def _letters(text: str) -> Any:
    letter = {"topic": "dead", "partition": 0, "offset": 17, "timestamp": 1_000, "key": text, "value": text}
    error = {
        "topic": text,
        "partition": 0,
        "offset": 9,
        "task": 0,
        "stage": text,
        "class": text,
        "exception": text,
        "message": text,
        "stacktrace": f"{text}\n\tat a.B.c",
    }
    letter_with_error = {**letter, "headers": [{"key": text, "value": text}], "error": error}
    letter_without_error = {**letter, "value_base64": "/w==", "value": None, "error": None}
    return {
        "topic": "dead",
        "letters": 41,
        "left_to_replay": 17,
        "shown": [letter_with_error, letter_without_error],
    }


def get(path: str, source: CannedSource | None = None, **options: Any) -> str:
    response = browser(source or CannedSource(canned_responses()), **options).get(path)
    assert response.status_code == 200, response.text
    return response.text


def page_text(html: str) -> str:
    """Return the text of a page on one line."""
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", html)).split())


PAGES = ("tasks/0", "history", "charts", "logs", "topics", "delivery", "table", "letters")
