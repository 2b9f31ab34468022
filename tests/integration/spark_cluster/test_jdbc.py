"""Tests that executors access PostgreSQL tables with the JDBC driver that the worker sends to them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kraal.jars.jars import ensure
from scripts.harness.postgresql import PostgreSQL, postgresql
from tests.integration.spark_cluster.environment import SparkEnvironment, kill_executors

pytestmark = pytest.mark.slow  # three minutes on a busy machine

ROW_COUNT = 20_000
JSON_CONFIG = {
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}


@pytest.fixture(scope="module")
def database() -> Iterator[PostgreSQL]:
    with postgresql() as server:
        yield server


def test_rows_are_copied_into_a_table_once_although_executors_are_killed(
    environment: SparkEnvironment, database: PostgreSQL
) -> None:
    worker = environment.worker("jdbc", {"spark.jars": ",".join(map(str, ensure("postgresql")))})
    worker.start()
    database.ask(
        "CREATE TABLE orders (id BIGSERIAL PRIMARY KEY, name TEXT); CREATE TABLE got (id BIGINT, name TEXT)"
    )
    database.ask(f"INSERT INTO orders (name) SELECT 'n' || n FROM generate_series(1, {ROW_COUNT}) n")  # noqa: S608 - inserts a number
    jdbc = {"spark.format": "jdbc", **database.options}
    source = {
        "connector.class": "SparkSource",
        "jdbc.tables": "orders",
        "jdbc.mode": "incrementing",
        "jdbc.incrementing.column": "id",
        "topic.prefix": "shop-",
        **jdbc,
        **JSON_CONFIG,
    }
    worker.create("orders-in", source)
    environment.wait_for_values(worker, "shop-orders", ROW_COUNT)
    sink = {
        "connector.class": "SparkSink",
        "topics": "shop-orders",
        "spark.schema": "id BIGINT, name STRING",
        "jdbc.table": "got",
        "delivery.guarantee": "exactly_once",
        "max.records.per.batch": "500",
        **jdbc,
    }
    worker.create("orders-out", sink)

    def count_rows() -> int:
        return int(database.ask("SELECT count(*) FROM got")[0])

    worker.wait_until("some rows were in the table", lambda: count_rows() > 0)
    kill_executors(environment.cluster)
    assert count_rows() < ROW_COUNT, "the executors must be killed before the end"
    worker.wait_until("all rows were in the table", lambda: count_rows() >= ROW_COUNT)
    query = "SELECT count(*), count(DISTINCT id) FROM got JOIN orders USING (id, name)"
    worker.wait_for_states("orders-out", ["RUNNING", "RUNNING"])
    assert database.ask(query) == [f"{ROW_COUNT}|{ROW_COUNT}"]
    assert count_rows() == ROW_COUNT
