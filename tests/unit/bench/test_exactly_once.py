from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from typing_extensions import override

from scripts.bench.data import busy100, busy100_exactly_once
from scripts.bench.data.exactly_once import CommittedLines, get_first_running_time
from scripts.bench.report import Target
from scripts.harness.group import Status
from scripts.harness.lines import parse_number, write_lines
from scripts.harness.processes import ScriptFailed
from scripts.harness.topics import Reader

if TYPE_CHECKING:
    from pathlib import Path

MARKER = -1
"""A transaction marker in a `_Topic`."""


class _Topic(Reader):
    """An in-memory topic with a line number or a marker at each offset."""

    def __init__(self) -> None:
        self.records: list[int] = []
        self._offset = 0

    @override
    def end(self) -> int:
        return len(self.records)

    @override
    def seek(self, offset: int) -> None:
        self._offset = offset

    @override
    def next(self, timeout_s: float) -> bytes | None:
        number = self.records[self._offset]
        return None if number == MARKER else b"%010d acacia" % number


def test_count_is_complete_when_the_last_line_is_readable() -> None:
    topic = _Topic()
    committed_lines = CommittedLines(topic, 3)
    assert committed_lines.count() == 0
    topic.records = [0, MARKER, 1, MARKER]
    assert committed_lines.count() < 3  # four offsets, but two of them are markers
    assert committed_lines.complete_at == 0
    topic.records += [2, MARKER]
    assert committed_lines.count() == 3
    assert committed_lines.complete_at > 0
    assert committed_lines.markers == 3


def test_aborted_last_transaction_is_not_counted() -> None:
    topic = _Topic()
    topic.records = [0, MARKER, MARKER, MARKER]
    assert CommittedLines(topic, 3).count() < 3


def test_count_excludes_transaction_markers() -> None:
    topic = _Topic()
    topic.records = [0, 1, MARKER]
    assert CommittedLines(topic, 3).count() < 3


def test_parse_number_returns_the_number_of_a_line(tmp_path: Path) -> None:
    write_lines(tmp_path / "lines", 3, first=41)
    lines = (tmp_path / "lines").read_bytes().splitlines()
    assert [parse_number(line) for line in lines] == [41, 42, 43]


def test_first_running_time_is_that_of_the_earliest_running_status() -> None:
    statuses = [
        ("connector-a", Status(1.0, "RUNNING", "w")),
        ("task-a-0", Status(2.0, "UNASSIGNED", "w")),
        ("task-a-0", Status(3.0, "RUNNING", "w")),
        ("task-a-0", Status(4.0, "RUNNING", "w")),
    ]
    assert get_first_running_time(statuses) == 3.0
    with pytest.raises(ScriptFailed, match="no RUNNING task"):
        get_first_running_time(statuses[:2])


def test_only_cpu_time_has_a_target_in_exactly_once_rows() -> None:
    rows = busy100_exactly_once.ROWS
    assert [row[:2] for row in rows[:-1]] == [row[:2] for row in busy100.ROWS]
    assert {unit: target for _, unit, target in rows if target != Target()} == {"cores": Target(limit=0.6)}
