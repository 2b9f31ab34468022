"""Tests for the metrics of tables, and for the tables of several tasks and workers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kraal.core.ids import ConnectorName, State, TaskId
from kraal.core.offsets import TopicPartition
from kraal.metrics.registry import MetricsRegistry
from kraal.metrics.table_reports import (
    TableCommit,
    TableReport,
    TableSchemaChange,
    TableTotals,
    find_new_changes,
)
from kraal.metrics.tables import merge_tables, render_tables, table_families
from kraal.metrics.text import render
from kraal.metrics.windows import Windows
from kraal.testing._simulation.scheduler import VirtualClock

NAME = ConnectorName("sink")
T0, T1 = TaskId(NAME, 0), TaskId(NAME, 1)
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
CHANGE = TableSchemaChange(
    record="t-0@7", column="total", old_type="int32", new_type="int64", version="3", time_ms=5
)
TOTALS = TableTotals(
    commits=2,
    commit_s=0.5,
    rows_added=5,
    rows_updated=4,
    rows_deleted=3,
    files_added=2,
    files_removed=1,
    conflicts=6,
)


class Registry:
    """A registry with two tasks at virtual time 0."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.metrics = MetricsRegistry(self.clock, Windows(), in_group=False)
        for task in (T0, T1):
            self.metrics.record_start(task)

    def record(self, task: TaskId, table: str = "shop.orders", **fields: Any) -> None:
        self.metrics.record_table(task, TableReport(table=table, format="delta", **fields))

    def tables(self) -> Any:
        return merge_tables(render_tables(self.metrics.current(), NAME, self.clock))

    def lines(self) -> list[str]:
        families = table_families(self.metrics.current(), self.clock)
        lines = [line for family in families for line in render(family).splitlines()]
        return [line for line in lines if not line.startswith("#")]


def test_table_of_a_task_has_its_metrics() -> None:
    registry = Registry()
    registry.record(T0, version="7", rows=12, files=3, offsets={P0: 5}, totals=TOTALS)
    labels = 'connector="sink",task="0",table="shop.orders"'
    assert registry.lines() == [
        f"kraal_table_rows{{{labels}}} 12",
        f"kraal_table_files{{{labels}}} 3",
        f"kraal_table_commits_total{{{labels}}} 2",
        f"kraal_table_commit_seconds_total{{{labels}}} 0.5",
        f"kraal_table_conflicts_total{{{labels}}} 6",
        f"kraal_table_schema_changes_total{{{labels}}} 0",
        f'kraal_table_changed_rows_total{{{labels},change="added"}} 5',
        f'kraal_table_changed_rows_total{{{labels},change="updated"}} 4',
        f'kraal_table_changed_rows_total{{{labels},change="deleted"}} 3',
        f'kraal_table_changed_files_total{{{labels},change="added"}} 2',
        f'kraal_table_changed_files_total{{{labels},change="removed"}} 1',
    ]


def test_lag_of_a_table_is_that_of_its_partitions() -> None:
    registry = Registry()
    registry.metrics.record_ends(T0, {P0: (5, 5), P1: (2, 2)})
    registry.clock.advance_to(10)
    registry.metrics.record_ends(T0, {P0: (5, 9), P1: (2, 3)})
    registry.record(T0, offsets={P0: 5, P1: 2}, timestamps_ms={P0: registry.clock.wall_ms() - 4_000})
    registry.clock.advance_to(30)
    assert registry.lines()[:2] == [
        'kraal_table_lag_records{connector="sink",task="0",table="shop.orders"} 5',
        'kraal_table_lag_seconds{connector="sink",task="0",table="shop.orders"} 30.0',
    ]
    partitions = registry.tables()[0]["partitions"]
    assert [(each["lag_records"], each["lag_ms"]) for each in partitions] == [(4, 24_000), (1, 30_000)]


def test_lag_of_a_table_without_offsets_is_that_of_its_task() -> None:
    registry = Registry()
    registry.metrics.record_ends(T0, {P0: (0, 9)})
    registry.record(T0, offsets={P0: None})
    registry.clock.advance_to(60)
    [partition] = registry.tables()[0]["partitions"]
    assert (partition["offset"], partition["lag_records"], partition["lag_ms"]) == (None, 9, 60_000)


def test_paused_task_has_no_metrics_of_its_lag() -> None:
    registry = Registry()
    registry.metrics.record_ends(T0, {P0: (5, 9)})
    registry.record(T0, offsets={P0: 5})
    assert len([line for line in registry.lines() if "_lag_" in line]) == 2
    registry.metrics.record_state(T0, State.PAUSED, "1.0")
    assert [line for line in registry.lines() if "_lag_" in line] == []


def test_record_of_another_table_shows_how_far_a_task_is() -> None:
    registry = Registry()
    registry.clock.advance_to(100)
    registry.metrics.record_ends(T0, {P0: (5, 9)})
    now_ms = registry.clock.wall_ms()
    registry.record(T0, "a", offsets={P0: 2}, timestamps_ms={P0: now_ms - 60_000})
    registry.record(T0, "b", offsets={P0: 5}, timestamps_ms={P0: now_ms - 1_000})
    assert [
        (table["table"], each["lag_records"], each["lag_ms"])
        for table in registry.tables()
        for each in table["partitions"]
    ] == [("a", 4, 1_000), ("b", 4, 1_000)], "the task has written all records of table a before its position"


def test_tables_of_several_tasks_are_merged() -> None:
    registry = Registry()
    other_change = TableSchemaChange(
        record="t-1@3", column="note", old_type=None, new_type="string", version="4", time_ms=6
    )
    first, second = (TableCommit(version=str(number), time_ms=number, operation="") for number in (3, 4))
    registry.record(
        T0,
        version="3",
        time_ms=12,
        rows=1,
        offsets={P0: 5, P1: 1},
        totals=TOTALS,
        schema_changes=[CHANGE],
        commits=[first],
    )
    registry.record(
        T1,
        version="4",
        time_ms=11,
        rows=2,
        offsets={P1: 7},
        totals=TOTALS,
        schema_changes=[other_change, CHANGE],
        commits=[second, first],
    )
    registry.record(T1, "shop.clicks")
    clicks, orders = registry.tables()
    assert (clicks["table"], clicks["version"]) == ("shop.clicks", None)
    assert (orders["version"], orders["rows"], orders["totals"]["rows_added"]) == ("4", 2, 10)
    assert [
        (each["topic"], each["partition"], each["task"], each["offset"]) for each in orders["partitions"]
    ] == [
        ("t", 0, 0, 5),
        ("t", 1, 1, 7),
    ]
    assert [change["column"] for change in orders["schema_changes"]] == ["note", "total"]


def test_later_version_is_shown_even_if_its_writer_has_a_slow_clock() -> None:
    registry = Registry()
    first, second = (TableCommit(version=str(number), time_ms=9 - number, operation="") for number in (3, 4))
    registry.record(T0, version="3", time_ms=12, rows=1, commits=[first])
    registry.record(T1, version="4", time_ms=11, rows=2, commits=[second, first])
    [table] = registry.tables()
    assert (table["version"], table["rows"]) == ("4", 2)


def test_new_changes_are_those_of_records_of_the_own_partitions() -> None:
    before = TableReport(table="a", format="delta", offsets={P0: 5})
    later = replace(CHANGE, record="t-0@8", column="note", old_type=None, version="4")
    other = replace(CHANGE, record="t-1@8", version="5")
    after = replace(before, schema_changes=[other, later, CHANGE])
    assert [str(change) for change in find_new_changes(before, after)] == [
        "widen column total from int32 to int64, because of t-0@7",
        "add column note int64, because of t-0@8",
    ]
    assert find_new_changes(after, after) == []


def test_tables_of_removed_tasks_and_other_connectors_are_not_shown() -> None:
    registry = Registry()
    registry.record(T0)
    registry.record(TaskId(ConnectorName("other"), 0))
    assert [table["table"] for table in registry.tables()] == ["shop.orders"]
    registry.metrics.remove(T0)
    registry.record(T0)  # a job may end after its task was removed
    assert (registry.tables(), registry.lines()) == ([], [])
