"""Tests for the security settings of Connect with three client libraries on a broker with logins and ACLs."""

from __future__ import annotations

import logging
import re
import socket
import ssl
import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import confluent_kafka as ck
import pyarrow as pa
import pytest
from confluent_kafka import cimpl
from kafka.net.compat import KafkaNetClient

from kraal.config.clients.kafka_python import kafka_python_options
from kraal.config.clients.librdkafka import librdkafka_options
from kraal.config.clients.restrictions import ALLOWED_URLS
from kraal.core.errors import StoreError
from kraal.core.ids import ConnectorName, TaskId
from kraal.core.offsets import SourcePartition
from kraal.engine.api import BatchDone, Committed, Failed, Opened, Stopped
from kraal.engine.records.topics import TopicFailed
from kraal.engine.source.topics import read_source_topics
from kraal.kafka.cluster_info import read_cluster_id
from kraal.kafka.tokens import TokenProvider
from kraal.plugins.api import SourceBatch
from scripts.harness.processes import wait_until
from tests.fakes.kafka.secured_kafka import SECRET, SecuredKafka
from tests.fakes.spark import plugins
from tests.fakes.spark.stage import TaskHarness

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PREFIX = "allowed-"
ATTEMPT_TIMEOUTS_S = (2, 4, 8, 16, 32)
"""The timeouts of attempts to connect that are repeated until the reason of the failure is known."""

Logins = dict[str, Callable[[SecuredKafka], dict[str, str]]]


@pytest.fixture(scope="module", autouse=True)
def _grant_permissions(kafka_with_logins: SecuredKafka) -> None:
    """Allow the user `worker` to use topics with the prefix `allowed-` and the groups of sinks."""
    kafka_with_logins.allow("TOPIC", PREFIX, "READ", "WRITE")
    kafka_with_logins.allow("GROUP", "connect-", "READ")


def inline_pem_settings(kafka: SecuredKafka) -> dict[str, str]:
    """Return the settings of a certificate as single-line values of a properties file."""
    return {
        **kafka.certificate(),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "",
        "ssl.truststore.password": "",
        "ssl.truststore.certificates": kafka.root.pem,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": "",
        "ssl.keystore.password": "",
        "ssl.keystore.certificate.chain": kafka.client.chain_pem.replace("\n", " "),
        "ssl.keystore.key": kafka.client.key_pem("key secret").replace("\n", " "),
        "ssl.key.password": "key secret",
    }


def pem_file_settings(kafka: SecuredKafka) -> dict[str, str]:
    """Return the settings of a PLAIN login whose trust store is a PEM file."""
    file = kafka.directory / "ca.pem"
    file.write_text(kafka.root.pem)
    trust = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(file)}
    login = {key: value for key, value in kafka.login("PLAIN").items() if not key.startswith("ssl.")}
    return {**login, **trust}


LOGINS: Logins = {
    "SCRAM-SHA-512, PKCS12": lambda kafka: kafka.login("SCRAM-SHA-512"),
    "SCRAM-SHA-256, PKCS12": lambda kafka: kafka.login("SCRAM-SHA-256"),
    "PLAIN, PEM file": pem_file_settings,
    "OAUTHBEARER": lambda kafka: kafka.token(),
    "certificate, PKCS12": lambda kafka: kafka.certificate(),
    "certificate, PEM inline": inline_pem_settings,
}
with_each_login = pytest.mark.parametrize("login", LOGINS)


def create_topic(kafka: SecuredKafka, prefix: str = PREFIX) -> str:
    name = f"{prefix}{uuid.uuid4().hex[:8]}"
    admin = kafka.admin()  # keep a reference: closing the client would cancel the request
    admin.create_topics([cimpl.NewTopic(name, 1, 1)])[name].result(20)
    return name


def make_overrides(settings: dict[str, str]) -> dict[str, str]:
    """Return the settings with the prefixes of a connector's client overrides."""
    return {
        f"{client}.override.{key}": value
        for client in ("producer", "consumer")
        for key, value in settings.items()
    }


def python_client(settings: dict[str, str], scratch: Path) -> Any:
    return KafkaNetClient(**kafka_python_options(settings, scratch=scratch, tokens=TokenProvider))


@with_each_login
def test_librdkafka_connects_with_each_login(kafka_with_logins: SecuredKafka, login: str) -> None:
    settings = LOGINS[login](kafka_with_logins)
    assert read_cluster_id(settings["bootstrap.servers"], librdkafka_options(settings), timeout_s=60)


@with_each_login
def test_kafka_python_connects_with_each_login(
    kafka_with_logins: SecuredKafka, login: str, tmp_path: Path
) -> None:
    client = python_client(LOGINS[login](kafka_with_logins), tmp_path)
    try:
        client._manager.bootstrap(10_000)
        assert [broker.port for broker in client.cluster.brokers()] != []
    finally:
        client.close()
    assert list(tmp_path.iterdir()) == []


def test_logs_contain_no_credentials(
    kafka_with_logins: SecuredKafka, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        client = python_client(kafka_with_logins.login("PLAIN"), tmp_path)
        client._manager.bootstrap(10_000)
        client.close()
    assert "Authenticated as worker via SASL / Plain" in caplog.text
    assert SECRET not in caplog.text
    assert repr(SECRET)[1:-1] not in caplog.text


def test_source_topics_are_created_according_to_permissions(
    kafka_with_logins: SecuredKafka,
) -> None:
    """Corresponds to the authorization tests of TopicAdminTest and AbstractWorkerSourceTaskTest."""
    kafka, name = kafka_with_logins, f"created-{uuid.uuid4().hex[:8]}"
    connector = {
        "topic.creation.default.replication.factor": "1",
        "topic.creation.default.partitions": "2",
        **{f"admin.override.{key}": text for key, text in kafka.login("SCRAM-SHA-512").items()},
    }

    def ensure() -> None:
        task = TaskId(ConnectorName("c"), 0)
        topics = read_source_topics(task, {"bootstrap.servers": "127.0.0.1:1"}, connector, threading.Event())
        assert topics is not None
        topics.ensure([name])

    def ensure_error() -> str:
        try:
            ensure()
        except TopicFailed as error:
            return str(error)
        return ""

    def count_partitions() -> int:
        topics = admin.list_topics(timeout=20).topics
        return len(topics[name].partitions) if name in topics else 0

    with pytest.raises(TopicFailed, match=re.escape(f"Not authorized to describe topic(s) '{name}' on the ")):
        ensure()
    # The controller responds before the broker applies a new ACL or has a new topic.
    kafka.allow("TOPIC", name, "DESCRIBE")
    error_text = f"Task failed to create new topic (name={name}, num"
    wait_until("only the creation failed", lambda: error_text in ensure_error(), timeout_s=60)
    kafka.allow("TOPIC", name, "CREATE")
    wait_until("the topic was created", lambda: not ensure_error(), timeout_s=60)
    admin: Any = kafka.admin()
    wait_until("the topic had two partitions", lambda: count_partitions() == 2, timeout_s=60)


@pytest.mark.parametrize(
    "login", ["SCRAM-SHA-512, PKCS12", "PLAIN, PEM file", "OAUTHBEARER", "certificate, PEM inline"]
)
def test_source_and_sink_authenticate_with_client_overrides(
    kafka_with_logins: SecuredKafka,
    login: str,
    harness: TaskHarness,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The source's producer and the sink's reader are Java clients; the sink's group member uses librdkafka."""
    kafka, task = kafka_with_logins, f"secured-{uuid.uuid4().hex[:8]}"
    if login == "OAUTHBEARER":  # the operator allows the URL before the worker and its JVM start
        jvm: Any = spark.sparkContext._jvm
        jvm.java.lang.System.setProperty(ALLOWED_URLS, kafka.endpoint.url)
        monkeypatch.setenv("KAFKA_OPTS", f"-D{ALLOWED_URLS}={kafka.endpoint.url}")
    topic, config = create_topic(kafka), make_overrides(LOGINS[login](kafka))
    values = [
        f"v{number}" for number in range(600)
    ]  # too many for the small-batch reader, so that Spark reads them
    batch = SourceBatch(
        offsets={SourcePartition.of({"a": "b"}): {"n": 1}}, table=pa.table({"value": values}), topic=topic
    )
    plugins.BATCHES[task].append(batch)
    source = harness.open(task, config=config)
    source.expect(Opened)
    source.run.next()
    assert source.expect(BatchDone).records == len(values)
    source.run.stop()
    source.expect(Stopped)

    sink = harness.open(task, "ListSink", {**config, "topics": topic})
    sink.expect(Opened)
    read_count = 0
    while read_count < len(values):
        sink.run.next()
        batch_done = sink.expect(BatchDone)
        sink.run.commit(batch_done.offsets)
        sink.expect(Committed)
        read_count += batch_done.records
    sink.run.stop()
    sink.expect(Stopped)
    assert [value for *_, value in plugins.WRITTEN[task]] == values


def test_connector_gets_no_tokens_from_a_disallowed_url(
    kafka_with_logins: SecuredKafka, harness: TaskHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KAFKA_OPTS", raising=False)
    task, config = f"secured-{uuid.uuid4().hex[:8]}", make_overrides(kafka_with_logins.token())
    url = kafka_with_logins.endpoint.url
    for connector in ("ListSource", "ListSink"):
        trace = harness.open(task, connector, {**config, "topics": "t"}).expect(Failed).trace
        for client in ("producer", "consumer"):
            key = f"{client}.override.sasl.oauthbearer.token.endpoint.url"
            assert f"Invalid value {url} for configuration {key}: The URL cannot" in trace


def connection_error(address: str, settings: dict[str, str], reason: str) -> StoreError:
    """Connect with librdkafka until the error contains `reason`, a regular expression; return this error.

    A timeout that expires before the login has ended hides the reason, so each attempt has a longer one.
    """
    text = ""
    for timeout_s in ATTEMPT_TIMEOUTS_S:
        with pytest.raises(StoreError) as raised:
            read_cluster_id(address, librdkafka_options(settings), timeout_s=timeout_s)
        text = str(raised.value)
        if re.search(reason, text):
            return raised.value
    pytest.fail(f"the last error does not contain {reason!r}: {text}")


def test_librdkafka_reports_a_wrong_password(kafka_with_logins: SecuredKafka) -> None:
    settings = kafka_with_logins.login("SCRAM-SHA-512", password="hush")  # noqa: S106 - a wrong password
    error = connection_error(
        settings["bootstrap.servers"], settings, "invalid credentials with SASL mechanism SCRAM-SHA-512"
    )
    assert "hush" not in f"{error}{error.__cause__}"


def test_kafka_python_reports_a_wrong_password(
    kafka_with_logins: SecuredKafka, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = kafka_with_logins.login("SCRAM-SHA-512", password="hush")  # noqa: S106 - a wrong password
    # The reason is lost if the client reads the response and the end of the connection together.
    reason = "invalid credentials with SASL mechanism SCRAM-SHA-512|socket disconnected"
    for timeout_s in ATTEMPT_TIMEOUTS_S:
        client = python_client(settings, tmp_path)
        try:
            with pytest.raises(Exception, match=r"Authentication|bootstrap"):
                client._manager.bootstrap(1000 * timeout_s)
        finally:
            client.close()
        if re.search(reason, caplog.text):
            break
    assert re.search(reason, caplog.text)
    assert "hush" not in caplog.text


@pytest.mark.parametrize("connector", ["ListSource", "ListSink"])
def test_wrong_password_fails_a_task_and_is_logged(
    kafka_with_logins: SecuredKafka, harness: TaskHarness, connector: str
) -> None:
    task = f"secured-{uuid.uuid4().hex[:8]}"
    topic = create_topic(kafka_with_logins)
    config = make_overrides(kafka_with_logins.login("PLAIN", password="hush"))  # noqa: S106 - a wrong password
    batch = SourceBatch(offsets={}, table=pa.table({"value": ["a"]}), topic=topic)
    plugins.BATCHES[task].append(batch)
    if connector == "ListSource":
        config["producer.override.max.block.ms"] = "5000"
    observer = harness.open(task, connector, {**config, "topics": topic})
    observer.expect(Opened)
    observer.run.next()
    trace = observer.expect(Failed).trace
    assert "Authentication failed" in trace
    assert "hush" not in trace


def test_operations_without_an_acl_are_rejected(kafka_with_logins: SecuredKafka) -> None:
    topic = create_topic(kafka_with_logins, "forbidden-")
    errors: list[Any] = []
    producer = ck.Producer(librdkafka_options(kafka_with_logins.login("SCRAM-SHA-512")))
    producer.produce(topic, b"x", on_delivery=lambda error, _: errors.append(error))
    producer.flush(10)
    assert [error.code() for error in errors] == [ck.KafkaError.TOPIC_AUTHORIZATION_FAILED]


def test_broker_with_an_untrusted_certificate_is_rejected(
    kafka_with_logins: SecuredKafka, tmp_path: Path
) -> None:
    settings = kafka_with_logins.login("SCRAM-SHA-512")
    settings = {key: value for key, value in settings.items() if not key.startswith("ssl.truststore.")}
    connection_error(
        settings["bootstrap.servers"], settings, r"certificate (could not be verified|verify failed)"
    )
    context = kafka_python_options(settings, scratch=tmp_path, tokens=TokenProvider)["ssl_context"]
    plain_socket = socket.create_connection(("127.0.0.1", kafka_with_logins.sasl_port))
    with plain_socket, pytest.raises(ssl.SSLCertVerificationError):
        context.wrap_socket(plain_socket, server_hostname="127.0.0.1")


def test_certificate_of_another_host_is_accepted_only_without_verification(
    kafka_with_logins: SecuredKafka,
) -> None:
    settings = kafka_with_logins.login("SCRAM-SHA-512")
    address = settings["bootstrap.servers"].replace("127.0.0.1", "localhost")
    connection_error(address, settings, r"hostname mismatch|verify failed")
    unverified_settings = {**settings, "ssl.endpoint.identification.algorithm": ""}
    assert read_cluster_id(address, librdkafka_options(unverified_settings), timeout_s=60)
