"""Tests for the reports of a sink task's backlog, with a fake consumer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from kraal.engine.sink.backlog_report import REPORT_INTERVAL_S, BacklogReport, find_ends
from kraal.engine.sink.ranges import Bounds
from kraal.plugins.api import TopicPartition

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


@dataclass
class Fetches:
    """A consumer with predefined ends of partitions."""

    ends: Mapping[TopicPartition, int] = field(default_factory=dict)

    def known_ends(self) -> Mapping[TopicPartition, int]:
        return self.ends


class Reports:
    """A report with a fake consumer and a manual clock, and the reported backlogs."""

    def __init__(self) -> None:
        self.backlogs: list[int] = []
        self.now_s = 100.0
        self.fetches = Fetches()
        self.ends: list[Mapping[TopicPartition, tuple[int, int]]] = []
        self.report = BacklogReport(self.backlogs.append, self.ends.append, lambda: self.now_s)

    def record_poll(self, positions: Mapping[TopicPartition, int], *, has_records: bool = False) -> None:
        self.report.record_poll(self.fetches, positions, has_records=has_records)


@pytest.mark.parametrize(
    ("positions", "requested", "fetched", "behind"),
    [
        pytest.param({P0: 3, P1: 10}, {P0: 5, P1: 14}, {}, 6, id="sum of partitions"),
        pytest.param({P0: 3}, {P0: 5}, {P0: 9}, 6, id="later end from a fetch"),
        pytest.param({P0: 3}, {P0: 9}, {P0: 5}, 6, id="later end from a request"),
        pytest.param({P0: 7, P1: 1}, {P0: 5, P1: 2}, {P0: 5}, 1, id="position beyond the end"),
        pytest.param({P0: 7}, {}, {}, 0, id="deleted partition"),
        pytest.param({P0: 1}, {P0: 2, P1: 50}, {P1: 60}, 1, id="partition of another task"),
    ],
)
def test_backlog_is_the_sum_of_records_behind_the_latest_ends(
    positions: Mapping[TopicPartition, int],
    requested: Mapping[TopicPartition, int],
    fetched: Mapping[TopicPartition, int],
    behind: int,
) -> None:
    ends = find_ends(positions, requested, fetched)
    assert sum(end - position for position, end in ends.values()) == behind
    assert {partition: position for partition, (position, _) in ends.items()} == positions


def test_backlog_uses_the_latest_requested_and_fetched_ends() -> None:
    reports = Reports()
    reports.report.set_ends({P0: Bounds(0, 10), P1: Bounds(0, 10)})
    reports.report.report({P0: 4})
    reports.fetches.ends = {P0: 12}
    reports.record_poll({P0: 4}, has_records=True)
    assert reports.backlogs == [6], "the batch is not written yet"
    reports.fetches.ends = {P0: 100}
    reports.report.report({P0: 5})
    assert reports.backlogs == [6, 7], "the consumer's ends are not read during a batch"
    reports.report.set_ends({P0: Bounds(0, 11)})
    reports.report.report({P0: 4, P1: 0})
    assert reports.backlogs == [6, 7, 7], "the last response did not contain the other partition"


def test_idle_task_reports_at_the_report_interval() -> None:
    reports = Reports()
    reports.fetches.ends = {P0: 8}
    reports.record_poll({P0: 7})
    reports.record_poll({P0: 7})
    assert reports.backlogs == [1]
    reports.now_s += REPORT_INTERVAL_S - 0.1
    reports.record_poll({P0: 7})
    assert reports.backlogs == [1]
    reports.now_s += 0.1
    reports.record_poll({P0: 7})
    assert reports.backlogs == [1, 1]


def test_task_without_positions_reports_no_backlog() -> None:
    reports = Reports()
    reports.record_poll({})
    assert reports.backlogs == []


def test_ends_are_reported_before_a_batch_without_a_backlog() -> None:
    reports = Reports()
    reports.report.set_ends({P0: Bounds(0, 10), P1: Bounds(0, 3)})
    reports.report.record_batch({P0: 4, P1: 3}, {P1: (3, 5)})
    assert reports.ends == [{P0: (4, 10), P1: (3, 5)}], "an end is at least that of the batch"
    assert reports.backlogs == []
    reports.report.report({P0: 10, P1: 5})
    assert (reports.ends[1:], reports.backlogs) == ([{P0: (10, 10), P1: (5, 5)}], [0])
