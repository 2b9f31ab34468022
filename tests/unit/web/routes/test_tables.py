"""Tests for `/connectors/{c}/tables`: the tables that the tasks of all workers have reported."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import pytest

from kraal.cluster.state.statuses import ConnectorStatuses
from kraal.core.ids import ConnectorName, State, TaskId, WorkerId
from kraal.core.offsets import TopicPartition
from kraal.metrics.table_reports import TableCommit, TableReport, TableSchemaChange, TableTotals
from tests.unit.web.api import Api, document, status
from tests.unit.web.openapi.test_document import matches
from tests.unit.web.workers import FakePeer, Worker
from web.settings import Settings

NAME = ConnectorName("orders-sink")
PATH = "/connectors/orders-sink/tables"
P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
REPORT = TableReport(
    table="shop.orders", format="iceberg", version="8", time_ms=9_000, rows=7, files=2, size_bytes=512,
    columns={"id": "int32"}, offsets={P0: 12}, totals=TableTotals(commits=2, commit_s=0.25, rows_added=7),
    commits=[
        TableCommit(version="8", time_ms=8_000, operation="append", offsets={P0: 12}, rows_added=3),
        TableCommit(version="7", time_ms=None, operation="delete"),
    ],
    schema_changes=[
        TableSchemaChange(
            record="orders-0@9", column="id", old_type="int32", new_type="int64", version="8", time_ms=8_000
        )
    ],
)  # fmt: skip


def publish(api: Api, report: TableReport, task: int = 0) -> None:
    api.metrics.record_start(TaskId(NAME, task))
    api.metrics.record_table(TaskId(NAME, task), report)


def test_tables_have_metadata_commits_schema_changes_and_lags(api: Api) -> None:
    api.herder.put(NAME, {}, tasks=1)
    publish(api, REPORT)
    api.metrics.record_ends(TaskId(NAME, 0), {P0: (12, 15)})
    api.clock.advance_to(1.5)
    code, text = api.request("GET", PATH)
    body = json.loads(text)
    assert code == 200
    openapi = document(Settings(advertised_url="http://worker:8083/"))
    operation = openapi["paths"]["/connectors/{connector}/tables"]["get"]
    assert matches(operation["responses"]["200"]["content"]["application/json"]["schema"], body, openapi)
    unknown = dict.fromkeys(["rows_added", "rows_updated", "rows_deleted", "files_added", "files_removed"])
    assert body == {
        "connector": "orders-sink",
        "tables": [
            {
                "table": "shop.orders", "format": "iceberg", "version": "8", "reported_ms": 9_000,
                "rows": 7, "files": 2, "size_bytes": 512, "columns": [{"name": "id", "type": "int32"}],
                "partitions": [
                    {"topic": "orders", "partition": 0, "task": 0, "offset": 12, "lag_records": 3, "lag_ms": 1_500}
                ],
                "commits": [
                    {
                        **unknown, "version": "8", "time_ms": 8_000, "operation": "append", "rows_added": 3,
                        "offsets": [{"topic": "orders", "partition": 0, "offset": 12}],
                    },
                    {**unknown, "version": "7", "time_ms": None, "operation": "delete", "offsets": None},
                ],
                "schema_changes": [
                    {
                        "record": "orders-0@9", "column": "id", "old_type": "int32", "new_type": "int64",
                        "version": "8", "time_ms": 8_000,
                    }
                ],
                "totals": {
                    "commits": 2, "commit_ms": 250, "rows_added": 7, "rows_updated": 0, "rows_deleted": 0,
                    "files_added": 0, "files_removed": 0, "conflicts": 0, "schema_changes": 0,
                },
            }
        ],
        "silent": [],
    }  # fmt: skip


def test_connector_without_tables_has_an_empty_list(api: Api) -> None:
    api.herder.put(NAME, {})
    assert json.loads(api.request("GET", PATH)[1]) == {"connector": NAME, "tables": [], "silent": []}


def test_unknown_connector_is_not_found(api: Api) -> None:
    code, text = api.request("GET", "/connectors/nobody/tables")
    assert (code, json.loads(text)["message"]) == (404, "Connector nobody not found")


def run_tasks(*workers: str) -> ConnectorStatuses:
    """Return statuses with one task on each of these workers."""
    tasks = {
        number: replace(status(State.RUNNING), worker_id=WorkerId(worker))
        for number, worker in enumerate(workers)
    }
    return ConnectorStatuses(connector=tasks[0], tasks=tasks)


def test_tasks_of_all_workers_are_merged(follower: Worker, leader: Worker) -> None:
    names = [urlsplit(worker.url).netloc for worker in (follower, leader)]
    for worker, name in zip((follower, leader), names, strict=True):
        worker.api.herder.publish(worker_id=WorkerId(name))
        worker.api.herder.put(NAME, {}, tasks=2, statuses=run_tasks(*names))
    publish(follower.api, REPORT)
    publish(leader.api, replace(REPORT, version="9", time_ms=9_500, offsets={P1: 4}), task=1)
    [table] = follower.ask("GET", PATH).json()["tables"]
    assert (table["version"], table["totals"]["commits"]) == ("9", 4)
    assert [(each["partition"], each["task"]) for each in table["partitions"]] == [(0, 0), (1, 1)]
    [own_table] = follower.ask("GET", f"{PATH}?forward=false").json()["tables"]
    assert own_table["version"] == "8"


TABLE: dict[str, Any] = {
    "table": "a", "reported_ms": 1, "commits": [], "partitions": [], "schema_changes": [], "totals": {},
}  # fmt: skip


@pytest.mark.parametrize(
    "table",
    [
        7,
        {**TABLE, "table": 7},
        {**TABLE, "reported_ms": "soon"},
        {**TABLE, "commits": [{"time_ms": "soon"}]},
        {**TABLE, "partitions": [{"topic": "t", "partition": 0, "offset": "7"}]},
        {**TABLE, "schema_changes": [{"version": "1", "column": "c", "time_ms": "soon"}]},
        {**TABLE, "totals": {"commits": "many"}},
    ],
    ids=repr,
)
def test_worker_with_malformed_tables_is_listed_as_silent(
    follower: Worker, peer: tuple[str, FakePeer], table: Any
) -> None:
    url, fake_peer = peer
    fake_peer.status, fake_peer.body = 200, json.dumps({"tables": [TABLE, table]}).encode()
    name, peer_name = urlsplit(follower.url).netloc, urlsplit(url).netloc
    follower.api.herder.publish(worker_id=WorkerId(name), generation=2)  # members are looked up again
    follower.api.herder.put("other-sink", {}, tasks=2, statuses=run_tasks(name, peer_name))
    # Requests with the same credentials share a response for a second.
    response = follower.ask("GET", "/connectors/other-sink/tables", Authorization=json.dumps(table)).json()
    assert response == {"connector": "other-sink", "tables": [], "silent": [peer_name]}
    assert len(fake_peer.requests) == 1
