"""Tests that publicly available plugins behave as on a Java worker."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kraal.broker.broker import Broker
from kraal.jars.directories import pyspark_jars
from kraal.jars.jars import ensure
from kraal.testing import ProcessCluster
from tests.fakes.workers.java_worker import MixedCluster
from tests.integration.java_plugins.flows import (
    RUNNING,
    describe_keys,
    java_worker,
    kraal_worker,
    list_plugins,
    unique_name,
    validate_config,
)

pytestmark = pytest.mark.slow

ICEBERG = "org.apache.iceberg.connect.IcebergSinkConnector"
SOURCE, SINK = "source.SourceConnector", "sink.SinkConnector"
INTERFACES_BY_CONNECTOR: dict[str, dict[str, str]] = {
    "mongodb": {
        "com.mongodb.kafka.connect.MongoSourceConnector": SOURCE,
        "com.mongodb.kafka.connect.MongoSinkConnector": SINK,
    },
    "rabbitmq": {
        "com.github.jcustenborder.kafka.connect.rabbitmq.RabbitMQSourceConnector": SOURCE,
        "com.github.jcustenborder.kafka.connect.rabbitmq.RabbitMQSinkConnector": SINK,
    },
    "snowflake": {"com.snowflake.kafka.connector.SnowflakeSinkConnector": SINK},
    "pubsub": {
        "com.google.pubsub.kafka.source.CloudPubSubSourceConnector": SOURCE,
        "com.google.pubsub.kafka.sink.CloudPubSubSinkConnector": SINK,
    },
}
"""The connectors of each group of jars without manifests, and the interface that each connector implements."""
CONNECTORS = [name for group in INTERFACES_BY_CONNECTOR.values() for name in group]
INVALID_VALUES = {
    "topics": "t",
    "tasks.max": "many",
    "connection.uri": "[hidden]",  # a password, which Kraal hides in the error and Java does not
    "rabbitmq.port": "high",
    "snowflake.url.name": "",
    "buffer.count.records": "-1",
    "cps.subscription": "",
    "maxBufferSize": "big",
}
"""Values that some connectors reject. Without a valid address, no connector opens a connection."""
RECORDS = [json.dumps({"id": number, "name": f"é{number}"}) for number in range(5)]
FIELDS = {"id": "long", "name": "string"}


@pytest.fixture(scope="module")
def properties(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """Return the properties of workers with the plugins."""
    directory = tmp_path_factory.mktemp("zoo")
    (directory / "iceberg").mkdir()
    for jar in (*ensure("iceberg"), *pyspark_jars("hadoop-client-*.jar")):
        shutil.copy(jar, directory / "iceberg")
    for group, connectors in INTERFACES_BY_CONNECTOR.items():
        (directory / group).mkdir()
        for jar in ensure(group):
            shutil.copy(jar, directory / group)
        with zipfile.ZipFile(directory / group / "manifests.jar", "w") as manifests:
            for kind in (SOURCE, SINK):
                names = [name for name, interface in connectors.items() if interface == kind]
                manifests.writestr(f"META-INF/services/org.apache.kafka.connect.{kind}", "\n".join(names))
    return {
        "plugin.path": str(directory),
        "plugin.discovery": "service_load",
        "offset.flush.interval.ms": "500",
    }


@pytest.fixture(scope="module")
def kraal_cluster(
    kafka: Broker, tmp_path_factory: pytest.TempPathFactory, properties: Mapping[str, str]
) -> Iterator[ProcessCluster]:
    """Run a Kraal worker."""
    with kraal_worker(tmp_path_factory.mktemp("kraal"), kafka.bootstrap, properties) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def java_cluster(
    kafka: Broker, tmp_path_factory: pytest.TempPathFactory, properties: Mapping[str, str]
) -> Iterator[MixedCluster]:
    """Run a Java worker in its own group."""
    with java_worker(tmp_path_factory.mktemp("java"), kafka.bootstrap, properties) as cluster:
        yield cluster


def read_metadata(warehouse: Path) -> dict[str, object]:
    """Return the table's fields and number of records from its latest metadata."""
    files = sorted(
        (warehouse / "db" / "t" / "metadata").glob("v*.metadata.json"),
        key=lambda path: int(path.name[1:].partition(".")[0]),
    )
    if not files:
        return {}
    table = json.loads(files[-1].read_text("utf-8"))
    fields = {field["name"]: field["type"] for field in table["schemas"][-1]["fields"]}
    return {
        "fields": fields,
        "records": sum(int(snapshot["summary"].get("added-records", 0)) for snapshot in table["snapshots"]),
    }


def run_sink(cluster: ProcessCluster, warehouse: Path) -> dict[str, object]:
    """Run the sink until it has written the records to a new table, and return the table's metadata."""
    name = unique_name("iceberg")
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for future in admin.create_topics([NewTopic(name, 1, 1), NewTopic(f"{name}-control", 1, 1)]).values():
        future.result(60)
    cluster.write(name, *RECORDS)
    cluster.create(
        name,
        {
            "connector.class": ICEBERG,
            "topics": name,
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter.schemas.enable": "false",
            "iceberg.tables": "db.t",
            "iceberg.tables.auto-create-enabled": "true",
            "iceberg.tables.auto-create-props.write.format.default": "avro",
            "iceberg.catalog.type": "hadoop",
            "iceberg.catalog.warehouse": warehouse.as_uri(),
            "iceberg.control.topic": f"{name}-control",
            "iceberg.control.commit.interval-ms": "1000",
        },
    )
    worker = cluster.alive[0]
    worker.wait_for_states(name, RUNNING)
    worker.wait_until(
        "all records were in the table",
        lambda: read_metadata(warehouse).get("records") == len(RECORDS),
        timeout_s=120,
    )
    assert worker.states(name) == RUNNING
    cluster.delete(name)
    return read_metadata(warehouse)


def test_iceberg_table_matches_java(
    kraal_cluster: ProcessCluster, java_cluster: MixedCluster, tmp_path: Path
) -> None:
    """The sink's config contains no brokers: the sink reads them from the worker's file."""
    expected = run_sink(java_cluster, tmp_path / "java")
    assert run_sink(kraal_cluster, tmp_path / "kraal") == expected
    assert expected == {"fields": FIELDS, "records": len(RECORDS)}


def test_iceberg_listing_keys_and_validation_match_java(
    kraal_cluster: ProcessCluster, java_cluster: MixedCluster
) -> None:
    kraal_process, java_process = kraal_cluster.alive[0], java_cluster.alive[0]
    assert list_plugins(kraal_process, [ICEBERG]) == list_plugins(java_process, [ICEBERG]) != []
    assert describe_keys(kraal_process, ICEBERG) == describe_keys(java_process, ICEBERG)
    config = {"connector.class": ICEBERG, "topics": "t"}
    assert validate_config(kraal_process, config) == validate_config(java_process, config)


@pytest.mark.parametrize("connector", CONNECTORS)
def test_listing_keys_and_validation_match_java(
    kraal_cluster: ProcessCluster, java_cluster: MixedCluster, connector: str
) -> None:
    """Only configs are compared, because there is no server to connect to."""
    kraal_process, java_process = kraal_cluster.alive[0], java_cluster.alive[0]
    assert list_plugins(kraal_process, [connector]) == list_plugins(java_process, [connector]) != []
    assert describe_keys(kraal_process, connector) == describe_keys(java_process, connector)
    for config in ({"topics": "t"}, INVALID_VALUES):
        connector_config = {"connector.class": connector, **config}
        assert validate_config(kraal_process, connector_config) == validate_config(
            java_process, connector_config
        )
