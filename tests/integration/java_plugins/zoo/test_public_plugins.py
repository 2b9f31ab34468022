"""Plugins in public use, next to a Java worker."""

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
from kraal.jars.jars import ensure
from kraal.jars.places import pyspark_jars
from kraal.testing import ProcessCluster
from tests.fakes.workers.java_worker import MixedCluster
from tests.integration.java_plugins.flows import (
    RUNNING,
    a_name,
    described,
    java_worker,
    kraal_worker,
    listed,
    validated,
)

pytestmark = pytest.mark.slow

ICEBERG = "org.apache.iceberg.connect.IcebergSinkConnector"
SOURCE, SINK = "source.SourceConnector", "sink.SinkConnector"
WITHOUT_MANIFESTS: dict[str, dict[str, str]] = {
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
"""The connectors of each group of jars, with the interfaces of Connect that they implement."""
CONNECTORS = [name for group in WITHOUT_MANIFESTS.values() for name in group]
INVALID = {
    "topics": "t",
    "tasks.max": "many",
    "connection.uri": "[hidden]",  # a password: Kraal hides it in the error, Java shows it
    "rabbitmq.port": "high",
    "snowflake.url.name": "",
    "buffer.count.records": "-1",
    "cps.subscription": "",
    "maxBufferSize": "big",
}
"""Values that some of the connectors refuse; without a valid address none of them connects."""
RECORDS = [json.dumps({"id": number, "name": f"é{number}"}) for number in range(5)]
FIELDS = {"id": "long", "name": "string"}


@pytest.fixture(scope="module")
def properties(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """The properties of workers with the plugins."""
    place = tmp_path_factory.mktemp("zoo")
    (place / "iceberg").mkdir()
    for jar in (*ensure("iceberg"), *pyspark_jars("hadoop-client-*.jar")):
        shutil.copy(jar, place / "iceberg")
    for group, connectors in WITHOUT_MANIFESTS.items():
        (place / group).mkdir()
        for jar in ensure(group):
            shutil.copy(jar, place / group)
        with zipfile.ZipFile(place / group / "manifests.jar", "w") as manifests:
            for kind in (SOURCE, SINK):
                names = [name for name, each in connectors.items() if each == kind]
                manifests.writestr(f"META-INF/services/org.apache.kafka.connect.{kind}", "\n".join(names))
    return {"plugin.path": str(place), "plugin.discovery": "service_load", "offset.flush.interval.ms": "500"}


@pytest.fixture(scope="module")
def kraal(
    kafka: Broker, tmp_path_factory: pytest.TempPathFactory, properties: Mapping[str, str]
) -> Iterator[ProcessCluster]:
    """A Kraal worker."""
    with kraal_worker(tmp_path_factory.mktemp("kraal"), kafka.bootstrap, properties) as made:
        yield made


@pytest.fixture(scope="module")
def java(
    kafka: Broker, tmp_path_factory: pytest.TempPathFactory, properties: Mapping[str, str]
) -> Iterator[MixedCluster]:
    """A Java worker of a group of its own."""
    with java_worker(tmp_path_factory.mktemp("java"), kafka.bootstrap, properties) as made:
        yield made


def metadata(warehouse: Path) -> dict[str, object]:
    """Return what the newest metadata of the table says: its fields, and the number of records in it."""
    files = sorted(
        (warehouse / "db" / "t" / "metadata").glob("v*.metadata.json"),
        key=lambda each: int(each.name[1:].partition(".")[0]),
    )
    if not files:
        return {}
    table = json.loads(files[-1].read_text("utf-8"))
    fields = {each["name"]: each["type"] for each in table["schemas"][-1]["fields"]}
    return {
        "fields": fields,
        "records": sum(int(each["summary"].get("added-records", 0)) for each in table["snapshots"]),
    }


def fill(side: ProcessCluster, warehouse: Path) -> dict[str, object]:
    """Have the sink write the records into a new table; return the table's metadata."""
    name = a_name("iceberg")
    admin = AdminClient({"bootstrap.servers": side.bootstrap})
    for each in admin.create_topics([NewTopic(name, 1, 1), NewTopic(f"{name}-control", 1, 1)]).values():
        each.result(60)
    side.write(name, *RECORDS)
    side.create(
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
    worker = side.alive[0]
    worker.wait_for_states(name, RUNNING)
    worker.wait_until(
        "the table was filled", lambda: metadata(warehouse).get("records") == len(RECORDS), timeout_s=120
    )
    assert worker.states(name) == RUNNING
    side.delete(name)
    return metadata(warehouse)


def test_iceberg_fills_a_table_as_on_a_java_worker(
    kraal: ProcessCluster, java: MixedCluster, tmp_path: Path
) -> None:
    """Its settings name no brokers: it has those of the worker's file."""
    expected = fill(java, tmp_path / "java")
    assert fill(kraal, tmp_path / "kraal") == expected
    assert expected == {"fields": FIELDS, "records": len(RECORDS)}


def test_iceberg_is_listed_described_and_validated_as_by_a_java_worker(
    kraal: ProcessCluster, java: MixedCluster
) -> None:
    mine, expected = kraal.alive[0], java.alive[0]
    assert listed(mine, [ICEBERG]) == listed(expected, [ICEBERG]) != []
    assert described(mine, ICEBERG) == described(expected, ICEBERG)
    config = {"connector.class": ICEBERG, "topics": "t"}
    assert validated(mine, config) == validated(expected, config)


@pytest.mark.parametrize("connector", CONNECTORS)
def test_connector_is_listed_described_and_validated_as_by_a_java_worker(
    kraal: ProcessCluster, java: MixedCluster, connector: str
) -> None:
    """Of these only the configs are compared: there is no server to connect to."""
    mine, expected = kraal.alive[0], java.alive[0]
    assert listed(mine, [connector]) == listed(expected, [connector]) != []
    assert described(mine, connector) == described(expected, connector)
    for config in ({"topics": "t"}, INVALID):
        named = {"connector.class": connector, **config}
        assert validated(mine, named) == validated(expected, named)
