"""Tests for `/connectors/{c}/ledger`."""

from __future__ import annotations

import json

from actors.messages.ledger import LedgerView
from kraal.core.ids import ConnectorName, TaskId
from kraal.core.offsets import SourcePartition
from kraal.ledger.totals import Break, PartitionTotals, TaskTotals
from tests.unit.web.api import Api

NAME = ConnectorName("orders-sink")
PATH = "/connectors/orders-sink/ledger"
ORDERS = SourcePartition.of({"kafka_topic": "orders", "kafka_partition": 0})


def test_ledger_contains_tasks_and_partitions(api: Api) -> None:
    api.herder.put(NAME, {"topics": "orders"})
    law_break = Break(ranges="orders-0@5 to @9", reason="1 of 4 records", time_ms=7)
    api.ledger.view = LedgerView(
        tasks={TaskId(NAME, 0): TaskTotals(batches=2, read=9, written=8, breaks=(law_break,), break_count=1)},
        partitions={ORDERS: PartitionTotals(since=0, end=12, uncounted=((3, 5),), uncounted_count=1)},
        problem="no broker",
    )
    status, text = api.request("GET", PATH)
    assert (status, api.ledger.asked_connectors) == (200, [NAME])
    assert json.loads(text) == {
        "connector": "orders-sink",
        "problem": "no broker",
        "tasks": [
            {
                "task": 0, "batches": 2, "read": 9, "written": 8, "dropped": 0, "dead_letters": 0, "tolerated": 0,
                "batches_without_read": 0, "batches_without_written": 0, "break_count": 1,
                "breaks": [{"ranges": "orders-0@5 to @9", "reason": "1 of 4 records", "time_ms": 7}],
            }
        ],
        "partitions": [
            {
                "partition": {"kafka_topic": "orders", "kafka_partition": 0}, "since": 0, "end": 12, "repeated": 0,
                "uncounted": [{"start": 3, "end": 5}], "uncounted_count": 1,
            }
        ],
    }  # fmt: skip


def test_positions_of_a_source_are_its_offsets(api: Api) -> None:
    api.herder.put(NAME, {})
    file = SourcePartition.of({"filename": "x"})
    api.ledger.view = LedgerView(
        tasks={}, partitions={file: PartitionTotals(since=None, end='{"position":7}')}
    )
    [partition] = json.loads(api.request("GET", PATH)[1])["partitions"]
    assert (partition["since"], partition["end"]) == (None, {"position": 7})


def test_ledger_of_an_unknown_connector_is_not_found(api: Api) -> None:
    status, text = api.request("GET", "/connectors/nobody/ledger")
    assert (status, json.loads(text)["message"]) == (404, "Connector nobody not found")
    assert api.ledger.asked_connectors == []
