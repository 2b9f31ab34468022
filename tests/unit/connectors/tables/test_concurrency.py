"""Tests with tasks in several threads that write partitions of one table at the same time."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any, Final

import pytest
from deltalake import DeltaTable

from kraal.plugins.api import RetriableError, TopicPartition
from tests.fakes.tables.records import TOPIC, row
from tests.unit.connectors.tables.conftest import Lake

BATCHES: Final = 4
TASKS: Final = 3
TIMEOUT_S: Final = 60.0


def test_concurrent_tasks_create_and_write_a_table_exactly_once(lake: Lake) -> None:
    write_concurrently(lake)


def write_concurrently(lake: Lake) -> None:
    """Write partitions with several tasks, and check that the table has each record once.

    Each partition has two owners, one of which does not know yet that it has lost the partition.
    """
    errors: list[BaseException] = []
    is_ready = threading.Barrier(2 * TASKS)

    def write(partition: int) -> None:
        is_ready.wait(TIMEOUT_S)
        deadline_s = time.monotonic() + TIMEOUT_S
        writer = None
        for number in range(BATCHES):
            records = [row(100 * partition + 2 * number + index, "x") for index in range(2)]
            while time.monotonic() < deadline_s:
                try:
                    writer = writer or lake.writer("append")
                    writer.write(*records, start=2 * number, partition=partition)
                    break
                except RetriableError:
                    continue  # the engine also repeats the batch
                except Exception as exc:  # noqa: BLE001 - reported by the main thread
                    errors.append(exc)
                    return

    threads = [threading.Thread(target=write, args=(number % TASKS,)) for number in range(2 * TASKS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    expected = [100 * partition + number for partition in range(TASKS) for number in range(2 * BATCHES)]
    assert sorted(lake.read()["id"].to_pylist()) == expected
    offsets = [lake.offset(TopicPartition(TOPIC, number)) for number in range(TASKS)]
    assert offsets == [2 * BATCHES] * TASKS


def test_commit_of_another_task_right_after_the_creation_is_a_conflict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, create = Lake("delta", tmp_path), DeltaTable.create

    def create_slowly(location: str, **settings: Any) -> DeltaTable:
        monkeypatch.setattr(DeltaTable, "create", create)
        create(location, **settings)
        lake.writer("append").write(row(1, "a"))  # the other owner of the partition
        return DeltaTable(location)

    monkeypatch.setattr(DeltaTable, "create", create_slowly)
    lake.writer("append").write(row(1, "a"))
    assert (lake.names(), lake.offset()) == ({1: "a"}, 1)
