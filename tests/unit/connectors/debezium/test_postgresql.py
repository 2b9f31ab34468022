"""Tests for the connection to the database, the stored offsets, and the driver of a proof."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from kraal.connectors.debezium.driver import find_jar
from kraal.connectors.debezium.postgresql import PostgresSource, is_in_snapshot, make_jdbc_options
from kraal.core.offsets import SourcePartition
from kraal.plugins.api import NotComparable
from tests.unit.connectors.debezium.config import CONFIG, make_capture

PARTITION = SourcePartition.of({"server": "shop"})


def test_connection_uses_the_settings_of_the_connector_and_only_reads() -> None:
    settings = {
        "database.hostname": "::1",
        "database.port": "5433",
        "database.dbname": "my/shop",
        "database.sslmode": "verify-full",
        "driver.socketTimeout": "7",
    }
    options = make_jdbc_options({**CONFIG, **settings})
    assert options["url"] == "jdbc:postgresql://[::1]:5433/my%2Fshop"
    assert (options["user"], options["password"], options["readOnly"]) == ("reader", "secret", "true")
    assert (options["sslmode"], options["socketTimeout"]) == ("verify-full", "7")
    assert make_jdbc_options(CONFIG)["url"] == "jdbc:postgresql://db:5432/shop"


@pytest.mark.parametrize(
    ("offset", "is_open"),
    [
        (
            '{"lsn": 5, "snapshot": "INITIAL", "snapshot_completed": false, "last_snapshot_record": false}',
            True,
        ),
        ('{"lsn": 5, "snapshot": true}', True),
        ('{"lsn": 5, "snapshot": "INITIAL", "snapshot_completed": true}', False),
        ('{"lsn": 5, "snapshot": true, "last_snapshot_record": true}', False),
        ('{"lsn": 5, "lsn_commit": 4, "txId": 7}', False),
    ],
)
def test_offset_of_an_open_snapshot_is_not_compared(offset: str, *, is_open: bool) -> None:
    parsed: Any = json.loads(offset)
    assert is_in_snapshot(parsed) is is_open
    source = PostgresSource(make_capture(), {}, Path("plugin"))
    if is_open:
        with pytest.raises(NotComparable, match="has not completed its snapshot"):
            source.find_end({PARTITION: parsed})
    else:
        assert source.find_end({PARTITION: parsed}) == {PARTITION: {"lsn": 5}}


def test_offsets_are_stored_up_to_a_position() -> None:
    source = PostgresSource(make_capture(), {}, Path("plugin"))
    with pytest.raises(NotComparable, match="has stored no offsets yet"):
        source.find_end({})
    offsets = {PARTITION: {"lsn": 5}}
    assert [source.has_stored(offsets, position) for position in (4, 5, 6)] == [True, True, False]
    assert "LSN 5, has not reached LSN 6" in source.describe_delay(offsets, 6)


def test_driver_is_in_one_of_the_jars_of_the_plugin(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "broken-postgresql.jar").write_text("no archive", encoding="utf-8")
    for name, entry in (("a.jar", "a/A.class"), ("lib/other.jar", "org/postgresql/Driver.class")):
        with ZipFile(tmp_path / name, "w") as archive:
            archive.writestr(entry, b"")
    assert find_jar(tmp_path, "org.postgresql.Driver") == tmp_path / "lib" / "other.jar"
    jar = tmp_path / "lib" / "other.jar"
    assert find_jar(jar, "org.postgresql.Driver") == jar
    assert find_jar(tmp_path, "org.mariadb.jdbc.Driver") is None
