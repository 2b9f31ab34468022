"""Tests for `kraal table`: output and errors."""

from __future__ import annotations

import json
from typing import Any

from tests.fakes.workers.connect import Connect, ScriptedResponse
from tests.unit.client.conftest import Kraal

PATH = "/connectors/orders-sink/tables"
TIME_MS = 1_700_000_000_000


def make_response(*, silent: tuple[str, ...] = (), **fields: Any) -> dict[str, Any]:
    commit = {
        "version": "8", "time_ms": TIME_MS, "operation": "overwrite", "rows_added": 1_200, "rows_updated": 2,
        "rows_deleted": 0, "files_added": 2, "files_removed": 1,
        "offsets": [{"topic": "orders", "partition": 0, "offset": 12}],
    }  # fmt: skip
    other_commit = {
        **commit,
        "version": "7",
        "time_ms": None,
        "operation": "append",
        "rows_added": None,
        "offsets": None,
    }
    partition = {"topic": "orders", "partition": 0, "task": 0, "offset": 12}
    return {
        "connector": "orders-sink",
        "tables": [
            {
                "table": "shop.orders", "format": "iceberg", "version": "8", "reported_ms": TIME_MS, "rows": 12_345,
                "files": 1, "size_bytes": 512, "columns": [{"name": "id", "type": "int64"}],
                "partitions": [
                    {**partition, "lag_records": 3, "lag_ms": 1_500},
                    {**partition, "partition": 1, "offset": None, "lag_records": None, "lag_ms": None},
                ],
                "commits": [commit, other_commit],
                "schema_changes": [
                    {
                        "record": "orders-0@9", "column": "id", "old_type": "int32", "new_type": "int64",
                        "version": "8", "time_ms": TIME_MS,
                    },
                    {
                        "record": "orders-0@5", "column": "note", "old_type": None, "new_type": "string",
                        "version": "7", "time_ms": None,
                    },
                ],
                "totals": {
                    "commits": 2, "commit_ms": 250, "rows_added": 7, "rows_updated": 0, "rows_deleted": 0,
                    "files_added": 0, "files_removed": 0, "conflicts": 1, "schema_changes": 2,
                },
                **fields,
            }
        ],
        "silent": [*silent],
    }  # fmt: skip


def test_table_lists_partitions_commits_schema_changes_and_columns(kraal: Kraal, worker: Connect) -> None:
    worker.script("GET", PATH, ScriptedResponse(body=make_response()))
    assert [line.rstrip() for line in kraal.out("table", "orders-sink").splitlines()] == [
        "shop.orders (iceberg): 12,345 rows, 1 file, 512 bytes at 2023-11-14 22:13:20 UTC",
        "tasks since their start: 2 commits in 0.2 s, 1 conflict",
        "",
        "PARTITION   TASK   OFFSET   LAG   SECONDS BEHIND",
        "orders-0    0      12       3     1.5",
        "orders-1    0      -        -     -",
        "",
        "VERSION   TIME (UTC)            OPERATION   ADDED   UPDATED   DELETED   FILES   OFFSETS",
        "8         2023-11-14 22:13:20   overwrite   1,200   2         0         +2 -1   orders-0@12",
        "7         -                     append      -       2         0         +2 -1   -",
        "",
        "TIME (UTC)            COLUMN   FROM    TO       RECORD",
        "2023-11-14 22:13:20   id       int32   int64    orders-0@9",
        "-                     note     -       string   orders-0@5",
        "",
        "COLUMN   TYPE",
        "id       int64",
    ]


def test_json_output_is_the_response(kraal: Kraal, worker: Connect) -> None:
    worker.script("GET", PATH, ScriptedResponse(body=make_response()))
    assert json.loads(kraal.out("table", "orders-sink", "-o", "json")) == make_response()


def test_table_that_does_not_exist_yet_has_only_partitions(kraal: Kraal, worker: Connect) -> None:
    body = make_response(version=None, commits=[], schema_changes=[], columns=[])
    worker.script("GET", PATH, ScriptedResponse(body=body))
    first_line, _, head, *rows = kraal.out("table", "orders-sink").splitlines()
    assert first_line == "shop.orders (iceberg): the table does not exist yet"
    assert (head.split()[0], len(rows)) == ("PARTITION", 2)


def test_connector_without_tables_and_silent_workers_are_reported(kraal: Kraal, worker: Connect) -> None:
    worker.script(
        "GET", PATH, ScriptedResponse(body={"connector": "orders-sink", "tables": [], "silent": ["w:1"]})
    )
    result = kraal("table", "orders-sink")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == (
        "No task of orders-sink has reported a table.\n"
        "Error: no response from w:1, so that tables or partitions may be missing\n"
    )


def test_worker_without_the_endpoint_is_explained(kraal: Kraal, worker: Connect) -> None:
    worker.script("GET", PATH, ScriptedResponse(404, {"error_code": 404, "message": "HTTP 404 Not Found"}))
    assert "this worker does not report tables" in kraal.error("table", "orders-sink", code=1)
