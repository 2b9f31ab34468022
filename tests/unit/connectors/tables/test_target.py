"""Tests that digests of a topic's records equal those of the rows that a sink has written, for proofs of delivery."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

from kraal.connectors.tables.casts import cast_table
from kraal.connectors.tables.settings import ChangeSettings
from kraal.connectors.tables.target import DIGEST, digest_records, digest_rows
from kraal.plugins.api import EXPECTED_POSITION
from tests.fakes.tables.records import (
    EVENT,
    Record,
    batch,
    change_event,
    event,
    field,
    row,
    struct,
    tombstone,
)
from tests.unit.connectors.tables.conftest import PARTITION, Lake

if TYPE_CHECKING:
    import pyarrow as pa


def read_schema(lake: Lake) -> pa.Schema:
    schema = lake.open().load([]).schema
    assert schema is not None
    return schema


def digest_table(lake: Lake) -> Counter[str]:
    """Return the number of rows of a table with each digest."""
    table, schema = lake.open(), read_schema(lake)
    parts = [digest_rows(cast_table(part, schema)) for part in table.read(table.load([PARTITION]))]
    return Counter(text for part in parts for text in part.to_pylist())


def digest_topic(lake: Lake, mode: str, records: Sequence[Record]) -> pa.Table:
    table, _ = batch(records)
    return digest_records(table, ChangeSettings(mode=mode), read_schema(lake))


def read_offsets(digests: pa.Table) -> list[int]:
    return sorted(digests[EXPECTED_POSITION[2]].to_pylist())


@pytest.mark.parametrize(
    ("mode", "records", "offsets"),
    [
        ("append", [row(1, "a"), tombstone(1), row(1, "a"), row(2, None)], [0, 2, 3]),
        ("upsert", [row(1, "a"), row(2, "b"), tombstone(1), row(2, "c"), row(3, "d")], [3, 4]),
        ("cdc", [event("c", 1, "a"), event("c", 2, "b"), event("d", 2), event("u", 1, "c")], [3]),
    ],
)
def test_digests_of_records_equal_those_of_the_rows(
    lake: Lake, mode: str, records: list[Record], offsets: list[int]
) -> None:
    lake.writer(mode).write(*records)
    digests = digest_topic(lake, mode, records)
    assert Counter(digests[DIGEST].to_pylist()) == digest_table(lake)
    assert read_offsets(digests) == offsets


def test_digests_follow_the_evolution_of_the_table(lake: Lake) -> None:
    later = change_event(
        struct(field("id", "int32"), field("name"), field("at", "int64", "io.debezium.time.MicroTime"))
    )
    records = [event("c", 1, "a", EVENT), event("c", 2, "b", EVENT), event("u", 2, "b", later, at=7)]
    writer = lake.writer("cdc")
    writer.write(*records[:2])
    writer.write(*records[2:], start=2)
    digests = digest_topic(lake, "cdc", records)
    assert Counter(digests[DIGEST].to_pylist()) == digest_table(lake)
    assert read_offsets(digests) == [0, 2]


def test_record_without_a_row_is_an_error(lake: Lake) -> None:
    lake.writer("upsert").write(row(1, "a"))
    with pytest.raises(ValueError, match=r"shop\.public\.orders-0@1 has no row: .*key"):
        digest_topic(lake, "upsert", [row(1, "a"), row(None, "b")])
