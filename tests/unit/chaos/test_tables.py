"""Tests for the tables of pipes."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from kraal.broker.records import BrokerRecord
from kraal.connectors.tables.sink import (
    DeltaSinkConnector,
    DeltaSinkTask,
    IcebergSinkConnector,
    IcebergSinkTask,
)
from kraal.connectors.tables.table import Changes, LakeTable
from scripts.chaos_run.lines import make_line
from scripts.chaos_run.pipes import Pipe, Target
from scripts.chaos_run.tables import find_violations

TARGETS = [Target.ICEBERG, Target.DELTA]


def make_pipe(directory: Path, target: Target) -> Pipe:
    return Pipe("p", directory / "p.in", directory / "p", target)


def open_table(pipe: Pipe) -> LakeTable:
    config = {**pipe.configs["p-sink"], "name": "p-sink"}
    task = IcebergSinkTask if pipe.target is Target.ICEBERG else DeltaSinkTask
    return task.open_table(config)


def append(table: LakeTable, *numbers: int) -> None:
    lines = [make_line("p", number).decode().rstrip("\n") for number in numbers]
    state = table.load([])
    rows = pa.table({"line": pa.array(lines, pa.string())})
    table.commit(state, rows.schema, Changes(rows=rows), {}, lambda: None)


@pytest.mark.parametrize("target", TARGETS)
def test_configs_are_valid(tmp_path: Path, target: Target) -> None:
    config = make_pipe(tmp_path, target).configs["p-sink"]
    connector = IcebergSinkConnector if target is Target.ICEBERG else DeltaSinkConnector
    assert config["connector.class"] == connector.__name__.removesuffix("Connector")
    connector.config_def.parse(config)


@pytest.mark.parametrize("target", TARGETS)
def test_lines_of_tables_are_read(tmp_path: Path, target: Target) -> None:
    pipe = make_pipe(tmp_path, target)
    assert (pipe.read_last_number(), pipe.progress(), pipe.delivery(1).missing_count) == (-1, 0, 1)
    table = open_table(pipe)
    append(table, 1, 0)
    before = pipe.progress()
    append(table, 3, 1)
    assert pipe.progress() != before
    assert pipe.read_last_number() == 3
    delivery = pipe.delivery(4)
    assert (delivery.missing_count, delivery.first_missing, delivery.duplicate_count) == (1, 2, 1)


def test_catalog_that_is_being_created_has_no_lines(tmp_path: Path) -> None:
    pipe = make_pipe(tmp_path, Target.ICEBERG)
    pipe.sink_file.mkdir()
    (pipe.sink_file / "catalog.db").touch()
    assert pipe.progress() != 0
    assert pipe.read_last_number() == -1


def test_missing_and_repeated_rows_are_violations() -> None:
    records = [
        BrokerRecord(partition=0, offset=offset, key=None, value=value, headers=(), timestamp_ms=0)
        for offset, value in enumerate((b"a", b"a", b"b"))
    ]
    assert find_violations("p", records, [b"a", b"b", b"a"]) == []
    assert find_violations("p", records, [b"a", b"b", b"b"]) == [
        "1 rows are missing in the table of p, such as [b'a']",
        "1 rows are repeated or unexpected in the table of p, such as [b'b']",
    ]
