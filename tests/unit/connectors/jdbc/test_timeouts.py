"""Tests that database connections have timeouts unless the user disables them."""

from __future__ import annotations

import pytest

from kraal.connectors.jdbc.source import JdbcReader
from kraal.connectors.jdbc.timeouts import CONNECT_TIMEOUT, SOCKET_TIMEOUT, add_timeouts
from kraal.connectors.spark.sink import SparkSinkTask
from kraal.connectors.spark.sink_config import SPARK_SINK
from kraal.connectors.spark.source_config import SPARK_SOURCE
from kraal.plugins.api import TaskContext

TIMEOUTS_MS = {CONNECT_TIMEOUT: 30_000, SOCKET_TIMEOUT: 1_800_000}


@pytest.mark.parametrize(
    ("url", "properties"),
    [
        (
            "jdbc:postgresql://h/shop",
            {"connectTimeout": "30", "loginTimeout": "30", "socketTimeout": "1800"},
        ),
        ("jdbc:mysql://h/shop", {"connectTimeout": "30000", "socketTimeout": "1800000"}),
        ("jdbc:mariadb://h/shop?user=me", {"connectTimeout": "30000", "socketTimeout": "1800000"}),
        ("jdbc:sqlserver://h;databaseName=shop", {"loginTimeout": "30", "socketTimeout": "1800000"}),
        (
            "jdbc:oracle:thin:@//h/shop",
            {"oracle.net.CONNECT_TIMEOUT": "30000", "oracle.jdbc.ReadTimeout": "1800000"},
        ),
        ("jdbc:db2://h/shop", {"loginTimeout": "30", "blockingReadConnectionTimeout": "1800"}),
        ("jdbc:derby:memory:shop", {}),
        ("no address", {}),
    ],
)
def test_timeouts_set_properties_of_each_driver(url: str, properties: dict[str, str]) -> None:
    assert add_timeouts({"url": url}, TIMEOUTS_MS) == {"url": url, **properties}


@pytest.mark.parametrize(
    ("options", "user_properties"),
    [
        ({"url": "jdbc:postgresql://h/shop?socketTimeout=5"}, {"socketTimeout"}),
        ({"url": "jdbc:postgresql://h/shop?ssl=true&SOCKETTIMEOUT=5"}, {"socketTimeout"}),
        ({"URL": "jdbc:postgresql://h/shop", "sockettimeout": "5"}, {"socketTimeout"}),
        ({"url": "jdbc:mysql://(host=h,connectTimeout=5)/shop"}, {"connectTimeout"}),
        ({"url": "jdbc:sqlserver://h; loginTimeout = 5;databaseName=shop"}, {"loginTimeout"}),
        (
            {"url": "jdbc:oracle:thin:@(DESCRIPTION=(CONNECT_TIMEOUT=5)(ADDRESS=(HOST=h)))"},
            {"oracle.net.CONNECT_TIMEOUT"},
        ),
        (
            {"url": "jdbc:oracle:thin:@//h/shop?oracle.jdbc.ReadTimeout=5"},
            {"oracle.jdbc.ReadTimeout"},
        ),
    ],
)
def test_timeouts_keep_user_settings(options: dict[str, str], user_properties: set[str]) -> None:
    url = options.get("url") or options["URL"]
    all_timeouts = set(add_timeouts({"url": url.split("?")[0].split(";")[0].split("(")[0]}, TIMEOUTS_MS)) - {
        "url"
    }
    options_with_timeouts = add_timeouts(options, TIMEOUTS_MS)
    assert options_with_timeouts.items() >= options.items()
    assert set(options_with_timeouts) - set(options) == all_timeouts - user_properties


def test_zero_disables_timeouts_and_fractions_round_up() -> None:
    url = "jdbc:postgresql://h/shop"
    assert add_timeouts({"url": url}, {CONNECT_TIMEOUT: 0, SOCKET_TIMEOUT: 0}) == {"url": url}
    assert add_timeouts({"url": url}, {CONNECT_TIMEOUT: 0, SOCKET_TIMEOUT: 1}) == {
        "url": url,
        "socketTimeout": "1",
    }


def test_sources_and_sinks_apply_timeouts() -> None:
    config = {"spark.format": "jdbc", "spark.option.url": "jdbc:postgresql://h/shop", SOCKET_TIMEOUT: "5000"}
    source_config = {**config, "jdbc.tables": "T", "jdbc.incrementing.column": "ID", "topic.prefix": "t-"}
    reader = JdbcReader(SPARK_SOURCE.parse(source_config), {"url": "jdbc:postgresql://h/shop"}, (0, 1), {})
    assert {"socketTimeout": "5", "connectTimeout": "30"}.items() <= reader._options.items()
    task = SparkSinkTask()
    sink_config = {**config, "jdbc.table": "T", "topics": "t"}
    assert SPARK_SINK.parse(sink_config)[SOCKET_TIMEOUT] == 5000
    context = TaskContext(connector="c", task=0, worker=None, connector_config={}, max_records=1)  # type: ignore[arg-type]
    task.start(sink_config, context)
    assert {"socketTimeout": "5", "connectTimeout": "30"}.items() <= task._options.items()
