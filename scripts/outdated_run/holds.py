"""Pins that are kept outdated on purpose, with the reasons. A key is a package, a group of jars, or `group/package`."""

from __future__ import annotations

from typing import Final

from kraal.jars.lock import JAVA_WORKERS

_KAFKA_POM: Final = "pinned by Kafka's POM"
_SPARK_POM: Final = "pinned by Spark's POM"
_ICEBERG_POM: Final = "pinned by Iceberg's POM"
_CONNECTOR_POM: Final = "pinned by the connector's POM"

HOLDS: Final = {
    "htmx.org": "docs/decisions/019-htmx-2.md",
    "broker/org.apache.logging.log4j:log4j-slf4j-impl": _KAFKA_POM,
    "plugins/org.apache.logging.log4j:log4j-slf4j-impl": _KAFKA_POM,
    "connect/org.apache.logging.log4j:log4j-slf4j-impl": _KAFKA_POM,
    **{group: "an older release for tests" for group in JAVA_WORKERS.values() if group != "connect"},
    "connect-tools": "later versions lack these connectors",
    "debezium-earlier": "an earlier version for tests",
    "spark/org.apache.commons:commons-pool2": _SPARK_POM,
    "spark/org.apache.kafka:kafka-clients": _SPARK_POM,
    "s3a": "pinned by the POM of Hadoop, which Spark's POM pins",
    "iceberg/com.github.ben-manes.caffeine:caffeine": _ICEBERG_POM,
    "iceberg/org.apache.avro:avro": _ICEBERG_POM,
    "iceberg/org.roaringbitmap:RoaringBitmap": _ICEBERG_POM,
    "mongodb": _CONNECTOR_POM,
    "rabbitmq": _CONNECTOR_POM,
}
