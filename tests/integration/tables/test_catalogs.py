"""Tests for tables in catalogs and object stores on servers: REST, Hive, Glue, PostgreSQL and S3."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from typing_extensions import override

from kraal.connectors.tables.delta import DeltaLakeTable
from kraal.connectors.tables.iceberg import IcebergTable, make_catalog
from kraal.connectors.tables.maintenance import maintain_table
from kraal.connectors.tables.table import LakeTable
from kraal.plugins.api import RetriableError
from scripts.harness.postgresql import PASSWORD, USER, PostgreSQL, postgresql
from tests.fakes.servers.hive_metastore import hive_metastore
from tests.fakes.servers.iceberg_rest import iceberg_rest
from tests.fakes.servers.s3_server import S3Server, s3_server
from tests.fakes.tables.records import ROW, event, row, struct
from tests.fakes.tables.records import field as schema_field
from tests.unit.connectors.tables.conftest import Lake
from tests.unit.connectors.tables.test_concurrency import write_concurrently

pytestmark = pytest.mark.ci

BUCKET = "lake"
KINDS = ["iceberg-rest", "iceberg-hive", "iceberg-glue-s3", "iceberg-postgresql-s3", "delta-s3"]


@dataclass
class ServedLake(Lake):
    """A table whose catalog or files are on a server."""

    name: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)
    """Of the catalog, or the storage options of Delta."""
    connections: ExitStack = field(default_factory=ExitStack)
    """Closes the catalogs."""

    @override
    def open(self, connector: str = "sink", **settings: Any) -> LakeTable:
        if self.kind == "delta":
            return DeltaLakeTable(self.name, connector, self.properties, **settings)
        return IcebergTable(self.open_catalog, self.name, connector, **settings)

    @override
    def open_catalog(self) -> Any:
        catalog = make_catalog("iceberg", self.properties)
        self.connections.callback(catalog.close)
        return catalog


@pytest.fixture(scope="module")
def catalog_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with iceberg_rest(tmp_path_factory.mktemp("rest")) as (url, _):
        yield url


@pytest.fixture(scope="module")
def metastore_uri(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with hive_metastore(tmp_path_factory.mktemp("hive")) as (uri, _):
        yield uri


@pytest.fixture(scope="module")
def database() -> Iterator[PostgreSQL]:
    with postgresql() as server:
        yield server


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with s3_server(tmp_path_factory.mktemp("s3")) as server:
        server.make_bucket(BUCKET)
        yield server


@pytest.fixture(params=KINDS)
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lake]:
    with ExitStack() as connections:
        yield make_lake(request, tmp_path, connections)


def make_lake(request: pytest.FixtureRequest, path: Path, connections: ExitStack) -> Lake:
    """Return a new table of the requested kind."""
    kind, name = request.param, f"orders_{uuid.uuid4().hex[:8]}"
    if kind == "iceberg-rest":
        catalog = {"type": "rest", "uri": request.getfixturevalue("catalog_url")}
        return ServedLake("iceberg", path, f"shop.{name}", catalog, connections)
    if kind == "iceberg-hive":
        catalog = {"type": "hive", "uri": request.getfixturevalue("metastore_uri")}
        return ServedLake("iceberg", path, f"shop.{name}", catalog, connections)
    store: S3Server = request.getfixturevalue("store")
    if kind == "delta-s3":
        options = {
            "AWS_ENDPOINT_URL": store.url,
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "nobody",
            "AWS_SECRET_ACCESS_KEY": "nothing",
            "AWS_ALLOW_HTTP": "true",
            "aws_conditional_put": "etag",
        }
        return ServedLake("delta", path, f"s3://{BUCKET}/{name}", options)
    catalog = {
        "warehouse": f"s3://{BUCKET}/warehouse",
        "s3.endpoint": store.url,
        "s3.region": "us-east-1",
        "s3.access-key-id": "nobody",
        "s3.secret-access-key": "nothing",
    }
    if kind == "iceberg-glue-s3":
        catalog |= {
            "type": "glue",
            "glue.endpoint": store.url,
            "glue.region": "us-east-1",
            "glue.access-key-id": "nobody",
            "glue.secret-access-key": "nothing",
        }
        return ServedLake("iceberg", path, f"shop.{name}", catalog, connections)
    database: PostgreSQL = request.getfixturevalue("database")
    address = f"127.0.0.1:{database.port}/{database.database}"
    catalog |= {"type": "sql", "uri": f"postgresql+pg8000://{USER}:{quote(PASSWORD)}@{address}"}
    # Creates the catalog. If several tasks do so at once, pyiceberg leaves the connections of failed attempts open.
    make_catalog("iceberg", catalog).close()
    return ServedLake("iceberg", path, f"shop.{name}", catalog, connections)


def test_changes_by_key_and_new_columns_are_written_exactly_once(lake: Lake) -> None:
    writer = lake.writer("cdc")
    writer.write(event("c", 1, "a"), event("c", 2, "b"), event("c", 3, "c"))
    writer.write(event("u", 2, "B"), event("d", 1), start=3)
    assert (lake.names(), lake.offset()) == ({2: "B", 3: "c"}, 5)
    lake.writer("cdc").write(
        event("u", 2, "repeated"), start=3
    )  # another owner that begins before the offset
    assert (lake.names(), lake.offset()) == ({2: "B", 3: "c"}, 5)
    wider = struct(*ROW["fields"], schema_field("price", "double"))
    lake.writer("upsert").write(row(4, "d", wider, price=1.5), start=5)
    assert {item["id"]: item["price"] for item in lake.read().to_pylist()} == {2: None, 3: None, 4: 1.5}


def test_concurrent_tasks_write_each_record_once(lake: Lake) -> None:
    write_concurrently(lake)


def test_small_files_are_compacted(lake: Lake) -> None:
    writer = lake.writer("append")
    for number in range(6):
        writer.write(row(number, "a"), start=number)
    assert "compacted 6 files" in maintain_table(lake.open())
    assert (lake.names(), lake.offset()) == (dict.fromkeys(range(6), "a"), 6)


@pytest.mark.parametrize(("kind", "start"), [("rest", iceberg_rest), ("hive", hive_metastore)])
def test_records_wait_for_a_catalog_that_is_away(kind: str, start: Any, tmp_path: Path) -> None:
    with ExitStack() as connections, start(tmp_path) as (url, process):
        lake = ServedLake("iceberg", tmp_path, "shop.orders", {"type": kind, "uri": url}, connections)
        writer = lake.writer("append")
        writer.write(row(1, "a"))
        process.kill()
        with pytest.raises(RetriableError, match="the catalog or the storage is not available"):
            writer.write(row(2, "b"), start=1)
