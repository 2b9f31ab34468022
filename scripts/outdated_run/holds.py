"""Pins that are outdated on purpose, with the reason, by package, by group of jars, or by `group/package`."""

from __future__ import annotations

from typing import Final

from kraal.jars.lock import JAVA_WORKERS

_OF_KAFKA: Final = "Kafka's POM has this version"
_OF_SPARK: Final = "Spark's POM has this version"
_OF_ICEBERG: Final = "Iceberg's POM has this version"
_OF_CONNECTOR: Final = "the connector's POM has this version"

HOLDS: Final = {
    "htmx.org": "docs/decisions/019-htmx-2.md",
    "broker/org.apache.logging.log4j:log4j-slf4j-impl": _OF_KAFKA,
    "plugins/org.apache.logging.log4j:log4j-slf4j-impl": _OF_KAFKA,
    "connect/org.apache.logging.log4j:log4j-slf4j-impl": _OF_KAFKA,
    **{group: "a release that tests run with" for group in JAVA_WORKERS.values() if group != "connect"},
    "connect-tools": "later versions lack these connectors",
    "debezium-earlier": "an earlier version, on purpose",
    "spark/org.apache.commons:commons-pool2": _OF_SPARK,
    "spark/org.apache.kafka:kafka-clients": _OF_SPARK,
    "s3a": "Hadoop's POM has this version, and Spark's POM this Hadoop",
    "iceberg/com.github.ben-manes.caffeine:caffeine": _OF_ICEBERG,
    "iceberg/org.apache.avro:avro": _OF_ICEBERG,
    "iceberg/org.roaringbitmap:RoaringBitmap": _OF_ICEBERG,
    "mongodb": _OF_CONNECTOR,
    "rabbitmq": _OF_CONNECTOR,
}
