"""Command for maintainers that regenerates `jars.lock`: `python -m kraal.jars.lock`.

Resolves every group below, computes the sha256 of each jar, and rewrites the lock. Review the diff before committing
the lock.
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
from pathlib import Path

import click

from kraal.core.errors import KraalError
from kraal.jars import ivy
from kraal.jars.ivy import Coordinates
from kraal.jars.jars import LOCK, LockedJar

BROKER_VERSION = "4.3.0"
"""The version of the broker."""
PLUGINS_KAFKA_VERSION = "4.4.0"
"""The version of Kafka for the JVM of Java plugins."""
JAVA_WORKERS = {"4.4.0": "connect", "4.3.0": "connect-4.3", "4.0.2": "connect-4.0", "3.9.2": "connect-3.9"}
"""Groups of the Java workers in tests by version, the current version first; each group also contains a broker."""
RELEASES = {version.rpartition(".")[0]: version for version in reversed(JAVA_WORKERS)}
"""The Kafka releases whose broker and Java workers tests can use, in order: `pytest --release`."""
MIRROR_VERSION = "4.3.0"
"""The version of MirrorMaker's connectors.

Also used for connect-mirror and connect-file with Kafka 4.4.0, because the Maven repository lacks version 4.4.0 of
these modules.
"""
LOG4J_VERSIONS = {"3.9.2": "2.25.4", "4.0.2": "2.25.4", "4.3.0": "2.25.4", "4.4.0": "2.25.5"}
"""The version of Log4j 2 to use with each Kafka release. Kafka 3.9 depends on reload4j, but also runs with Log4j 2."""
AWS_MODULES = (
    *("annotations", "apache-client", "arns", "auth", "aws-core", "aws-query-protocol", "aws-xml-protocol"),
    *("checksums", "checksums-spi", "crt-core", "endpoints-spi", "http-auth", "http-auth-aws"),
    *("http-auth-aws-eventstream", "http-auth-spi", "http-client-spi", "identity-spi", "json-utils"),
    *("metrics-spi", "netty-nio-client", "profiles", "protocol-core", "regions", "retries", "retries-spi"),
    *("s3", "s3-transfer-manager", "sdk-core", "sts", "third-party-jackson-core", "utils", "utils-lite"),
)


def _broker_modules(kafka: str) -> tuple[str, ...]:
    """Return the modules on the class path of a broker."""
    return (
        f"org.apache.kafka:kafka_2.13:{kafka}",
        # Binds SLF4J to Log4j 2; without this jar, the broker logs nothing.
        f"org.apache.logging.log4j:log4j-slf4j-impl:{LOG4J_VERSIONS[kafka]}",
    )


def _java_worker_modules(kafka: str) -> tuple[str, ...]:
    """Return the modules of a Java worker's class path, without connect-file, like kafka-run-class.sh (Kafka 4.3.0)."""
    names = ("connect-runtime", "connect-transforms", "kafka-tools")
    modules = (f"org.apache.kafka:{name}:{kafka}" for name in names)
    return (*_broker_modules(kafka), *modules, f"org.apache.kafka:connect-mirror:{_connector_version(kafka)}")


def _connector_version(kafka: str) -> str:
    """Return the version of Kafka's connectors to use with a version of Kafka."""
    return MIRROR_VERSION if kafka == PLUGINS_KAFKA_VERSION else kafka


REST_CATALOG_VERSION = "1.11.0"
"""The version of Iceberg's REST catalog for tests."""
ICEBERG_MODULES = (
    "api",
    "bundled-guava",
    "common",
    "core",
    "data",
    "kafka-connect",
    "kafka-connect-events",
    "orc",
    "parquet",
)
TRANSITIVE_GROUPS = {
    "broker": _broker_modules(BROKER_VERSION),
    # For tests of Java plugins.
    "transforms": ("com.github.jcustenborder.kafka.connect:kafka-connect-transform-common:0.1.0.14",),
    # For the JVM of Java plugins.
    "plugins": _java_worker_modules(PLUGINS_KAFKA_VERSION),
    # For Java workers of tests.
    **{
        group: (*_java_worker_modules(kafka), f"org.apache.kafka:connect-file:{_connector_version(kafka)}")
        for kafka, group in JAVA_WORKERS.items()
    },
}
NON_TRANSITIVE_GROUPS = {
    # Dependencies are not resolved, because Spark provides the other jars, and a second version would conflict.
    "spark": (
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.2.0",
        "org.apache.kafka:kafka-clients:3.9.2",
        "org.apache.commons:commons-pool2:2.13.1",
    ),
    # MirrorMaker's connectors, for `kraal mirror`.
    "mirror": tuple(
        f"org.apache.kafka:{name}:{MIRROR_VERSION}" for name in ("connect-mirror", "connect-mirror-client")
    ),
    # Compiles Kraal's own Java classes without a JDK.
    "compiler": ("org.eclipse.jdt:ecj:3.46.100",),
    # For the tests of Kraal's own Java classes.
    "junit": ("org.junit.platform:junit-platform-console-standalone:6.1.3",),
    # For tests of Java plugins.
    "connect-tests": (f"org.apache.kafka:connect-runtime:jar:test:{BROKER_VERSION}",),
    # Kafka's verifiable connectors, which are no longer released.
    "connect-tools": ("org.apache.kafka:connect-runtime:3.4.1", "org.apache.kafka:kafka-tools:3.4.1"),
    "debezium": (
        "io.debezium:debezium-connector-postgres:tar.gz:plugin:3.7.0.Final",
        "io.debezium:debezium-connector-jdbc:tar.gz:plugin:3.6.0.Final",
    ),
    # An earlier version, to run next to the version above. Ivy keeps one version per module, hence the separate group.
    "debezium-earlier": ("io.debezium:debezium-connector-postgres:tar.gz:plugin:3.6.1.Final",),
    # The following groups are separate, because only slow tests use them. This group contains the parts of Iceberg's
    # sink that write Avro and Parquet to a Hadoop catalog; Spark provides Hadoop's client.
    "iceberg": (
        *(f"org.apache.iceberg:iceberg-{name}:1.12.0" for name in ICEBERG_MODULES),
        "org.apache.avro:avro:1.12.2",
        "org.apache.parquet:parquet-avro:1.17.0",
        "org.locationtech.jts:jts-core:1.20.0",
        "com.github.ben-manes.caffeine:caffeine:3.2.4",
        "org.roaringbitmap:RoaringBitmap:1.6.23",
    ),
    # Apache Iceberg's REST catalog, which is one of its tests' classes. Spark provides Hadoop, Jetty and Jackson. Ivy
    # retrieves one jar per module, hence the separate group.
    "iceberg-rest": (
        *(
            f"org.apache.iceberg:iceberg-{name}:{REST_CATALOG_VERSION}"
            for name in ("api", "bundled-guava", "common", "core")
        ),
        "com.github.ben-manes.caffeine:caffeine:3.2.4",
        "org.apache.httpcomponents.client5:httpclient5:5.5",
        "org.apache.httpcomponents.core5:httpcore5:5.3.4",
    ),
    "iceberg-tests": (f"org.apache.iceberg:iceberg-core:jar:tests:{REST_CATALOG_VERSION}",),
    # Delta's MERGE, for benchmarks.
    "delta": ("io.delta:delta-spark_4.2_2.13:4.4.0", "io.delta:delta-storage:4.4.0"),
    "mongodb": (
        "org.mongodb.kafka:mongo-kafka-connect:2.0.1",
        *(
            f"org.mongodb:{name}:4.7.2"
            for name in ("bson", "bson-record-codec", "mongodb-driver-core", "mongodb-driver-sync")
        ),
        "org.apache.avro:avro:1.12.0",
    ),
    "rabbitmq": (
        "com.github.jcustenborder.kafka.connect:kafka-connect-rabbitmq:0.0.2.16",
        "com.github.jcustenborder.kafka.connect:connect-utils:0.3.148",
        "com.rabbitmq:amqp-client:4.2.0",
        "com.google.guava:guava:18.0",
    ),
    "snowflake": ("com.snowflake:snowflake-kafka-connector:2.5.0",),
    "pubsub": ("com.google.cloud:pubsub-group-kafka-connector:1.3.3",),
    "debezium-mariadb": ("io.debezium:debezium-connector-mariadb:tar.gz:plugin:3.5.0.Final",),
    # For tests of JDBC with a real server; Kraal does not include a driver.
    "postgresql": ("org.postgresql:postgresql:42.7.14",),
    "mysql": ("com.mysql:mysql-connector-j:9.7.0", "org.mariadb.jdbc:mariadb-java-client:3.5.9"),
    # For tests of object stores with a real server. Users add hadoop-aws with its dependencies (690 MB); this group
    # contains only the required parts. Spark provides Netty, Apache's HTTP client and logging.
    "s3a": (
        "org.apache.hadoop:hadoop-aws:3.5.0",
        "software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3:1.3.1",
        "software.amazon.eventstream:eventstream:1.0.1",
        "org.reactivestreams:reactive-streams:1.0.4",
        *(f"software.amazon.awssdk:{name}:2.35.4" for name in AWS_MODULES),
    ),
}
HEADER = "# group org:name:revision sha256 - generated by `python -m kraal.jars.lock`, do not edit\n"


def main() -> int:
    """Write the lock; return the exit code."""
    lines = []
    try:
        for group, names in sorted((TRANSITIVE_GROUPS | NON_TRANSITIVE_GROUPS).items()):
            jars = _resolve(group, names, transitive=group in TRANSITIVE_GROUPS)
            click.echo(f"{group}: {len(jars)} jars", err=True)
            lines += [str(jar) for jar in jars]
    except KraalError as exc:
        click.echo(exc, err=True)
        return 1
    LOCK.write_text(HEADER + "\n".join(lines) + "\n", encoding="utf-8")
    return 0


def _ignore_progress(_resolved: int, _downloaded: int) -> None:
    """Ignore the progress."""


def _resolve(group: str, names: tuple[str, ...], *, transitive: bool) -> list[LockedJar]:
    with tempfile.TemporaryDirectory(prefix="kraal-lock-") as scratch:
        modules = [Coordinates.parse(name) for name in names]
        jars = ivy.retrieve(modules, Path(scratch), transitive=transitive, progress=_ignore_progress)
        coordinates = {module.file_name: module for module in modules}
        return [
            LockedJar(
                group,
                coordinates.get(path.name) or Coordinates(*path.stem.split("__")),
                hashlib.sha256(path.read_bytes()).hexdigest(),
            )
            for path in jars
        ]


if __name__ == "__main__":
    sys.exit(main())
