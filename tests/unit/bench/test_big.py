from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from scripts.bench.data.big import SCHEMA, Sample, compute_minute_rates, count_at, write_records

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        pytest.param([(0.0, 0), (60.0, 600), (120.0, 900)], [10, 5], id="two minutes"),
        pytest.param(
            [(5.0, 0), (65.0, 600), (155.0, 600)], [10, 0, 0], id="the last minute ends with the last sample"
        ),
        pytest.param([(0.0, 0), (10.0, 200), (20.0, 300)], [20, 10], id="less than two minutes are halved"),
    ],
)
def test_rates_of_all_minutes_are_computed(samples: list[Sample], expected: list[float]) -> None:
    assert compute_minute_rates(samples, 60.0) == pytest.approx(expected)


def test_count_is_interpolated_between_samples() -> None:
    samples = [(1.0, 0), (3.0, 10), (4.0, 10)]
    assert [count_at(samples, time_s) for time_s in (1.0, 2.0, 3.5, 9.0)] == [0, 5, 10, 10]


def test_written_records_are_compact_json_of_the_schema(tmp_path: Path) -> None:
    path = tmp_path / "records.json"
    count, last = write_records(path, 2_000_000)
    lines = path.read_bytes().splitlines()
    assert (len(lines), lines[-1]) == (count, last)
    assert 2_000_000 <= path.stat().st_size < 4_000_000
    for number in (0, 1, count - 1):
        record = json.loads(lines[number])
        assert json.dumps(record, separators=(",", ":")).encode() == lines[number]
        assert record["id"] == number
        assert list(record) == [column.split()[0] for column in SCHEMA.split(", ")]
