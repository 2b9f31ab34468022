from __future__ import annotations

import confluent_kafka as ck
import pytest
from confluent_kafka.admin import AdminClient

from kraal.config.clients.keys import client_def
from kraal.config.clients.librdkafka import find_unsupported, librdkafka_options
from kraal.core.errors import ConfigInvalid
from tests.fakes.kafka.certificates import make_authority

ROOT = make_authority()
CLIENT = ROOT.issue_certificate("client")
SCRAM = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="u" password="p";'


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("request.timeout.ms", "40000", {"socket.timeout.ms": "40000"}),
        ("request.timeout.ms", "2147483647", {"socket.timeout.ms": "300000"}),
        ("connections.max.idle.ms", "-1", {"connections.max.idle.ms": "0"}),
        ("send.buffer.bytes", "-1", {"socket.send.buffer.bytes": "0"}),
        ("receive.buffer.bytes", " 65536 ", {"socket.receive.buffer.bytes": "65536"}),
        (
            "metadata.max.age.ms",
            "7200000",
            {"metadata.max.age.ms": "7200000", "topic.metadata.refresh.interval.ms": "3600000"},
        ),
        ("retry.backoff.ms", "0", {"retry.backoff.ms": "1", "retry.backoff.max.ms": "1000"}),
        (
            "reconnect.backoff.ms",
            "5000",
            {"reconnect.backoff.ms": "5000", "reconnect.backoff.max.ms": "5000"},
        ),
        ("socket.connection.setup.timeout.ms", "10", {"socket.connection.setup.timeout.ms": "1000"}),
        ("max.poll.interval.ms", "2147483647", {"max.poll.interval.ms": "86400000"}),
        (
            "session.timeout.ms",
            "600000",
            {"session.timeout.ms": "600000", "max.poll.interval.ms": "600000"},
        ),
        ("fetch.max.wait.ms", "100000", {"fetch.wait.max.ms": "100000", "socket.timeout.ms": "102000"}),
        (
            "fetch.max.bytes",
            "200000000",
            {"fetch.max.bytes": "200000000", "receive.message.max.bytes": "200000512"},
        ),
        ("buffer.memory", "33554432", {"queue.buffering.max.kbytes": "32768"}),
        ("isolation.level", "READ_COMMITTED", {"isolation.level": "read_committed"}),
        ("client.dns.lookup", "use_all_dns_ips", {"client.dns.lookup": "use_all_dns_ips"}),
        ("max.poll.records", "5", {}),
    ],
)
def test_settings_are_converted_to_librdkafka_names_and_ranges(
    key: str, value: str, expected: dict[str, str]
) -> None:
    options = librdkafka_options({key: value})
    assert options == {**expected, "security.protocol": "PLAINTEXT"}
    ck.Consumer({**options, "group.id": "g"}).close()


def test_compression_level_of_codec_is_used() -> None:
    settings = {
        "compression.type": "zstd",
        "compression.zstd.level": "22",
        "compression.gzip.level": "1",
    }
    options = librdkafka_options(settings)
    assert options["compression.level"] == "12"
    ck.Producer(options)


@pytest.mark.parametrize("number", ["-1", "0", "1", "2147483647"])
def test_java_numbers_are_clamped_to_librdkafka_range(number: str) -> None:
    for client in ("producer", "consumer", "admin"):
        settings = {
            key.name: number
            for key in client_def(client)
            if key.type in {"INT", "LONG", "SHORT"} and not key.name.startswith("sasl.")
        }
        options = librdkafka_options(settings)
        if client == "consumer":
            ck.Consumer({**options, "group.id": "g"}).close()
        else:
            ck.Producer(options)


def test_non_numeric_value_is_rejected() -> None:
    with pytest.raises(ConfigInvalid) as raised:
        librdkafka_options({"linger.ms": "soon", "security.protocol": "?"}, lambda key: f"admin.{key}")
    number_error, protocol_error = raised.value.errors
    assert number_error == "Invalid value soon for configuration admin.linger.ms: Not a whole number"
    assert protocol_error.startswith(
        "Invalid value ? for configuration admin.security.protocol: String must be one of"
    )


def test_certificates_and_keys_are_passed_in_memory() -> None:
    options = librdkafka_options(
        {
            "security.protocol": "ssl",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": ROOT.pem,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": CLIENT.key_pem("secret"),
            "ssl.keystore.certificate.chain": CLIENT.chain_pem,
            "ssl.key.password": "secret",
            "ssl.endpoint.identification.algorithm": "",
        }
    )
    assert options == {
        "security.protocol": "SSL",
        "ssl.endpoint.identification.algorithm": "none",
        "ssl.ca.pem": ROOT.pem,
        "ssl.certificate.pem": CLIENT.chain_pem,
        "ssl.key.pem": CLIENT.key_pem(),
    }
    AdminClient(dict(options))


def test_user_login_is_converted() -> None:
    options = librdkafka_options(
        {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": SCRAM}
    )
    assert options == {
        "security.protocol": "SASL_SSL",
        "ssl.endpoint.identification.algorithm": "https",
        "sasl.mechanisms": "SCRAM-SHA-512",
        "sasl.username": "u",
        "sasl.password": "p",
    }
    AdminClient(dict(options))


def test_client_credentials_are_converted() -> None:
    line = "a.OAuthBearerLoginModule required"
    options = librdkafka_options(
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": "http://127.0.0.1:1/token",
            "sasl.jaas.config": f'{line} clientId="i" clientSecret="s" scope="x" extension_a="b" extension_c="d";',
        }
    )
    assert options == {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": "http://127.0.0.1:1/token",
        "sasl.oauthbearer.client.id": "i",
        "sasl.oauthbearer.client.secret": "s",
        "sasl.oauthbearer.scope": "x",
        "sasl.oauthbearer.extensions": "a=b,c=d",
    }
    AdminClient({**options, "log_level": "0"})


def test_find_unsupported_returns_settings_without_equivalent() -> None:
    settings = {
        "interceptor.classes": "a.B",
        "ssl.cipher.suites": "TLS_AES_256_GCM_SHA384",
        "security.providers": "a.B",
        "group.protocol": "consumer",
        "some.java.thing": "1",
        "max.poll.records": "1",
        "metric.reporters": "a.B",
        "sasl.login.refresh.window.factor": "0.5",
        "ssl.protocol": "TLS",
    }
    assert find_unsupported(settings) == [
        "group.protocol",
        "interceptor.classes",
        "security.providers",
        "some.java.thing",
        "ssl.cipher.suites",
    ]


def test_only_listed_client_keys_are_unsupported() -> None:
    """No client keys other than the listed keys are reported to users as unsupported."""
    keys = {key.name: "1" for client in ("producer", "consumer", "admin") for key in client_def(client)}
    assert find_unsupported(keys) == [
        "bootstrap.controllers",
        "buffer.memory.allocation.strategy",
        "config.providers",
        "group.protocol",
        "group.remote.assignor",
        "interceptor.classes",
        "metadata.cluster.check.enable",
        "partition.assignment.strategy",
        "partitioner.class",
        "partitioner.ignore.keys",
        "partitioner.rack.aware",
        "security.providers",
        "share.acknowledgement.mode",
        "share.acquire.mode",
        "ssl.cipher.suites",
        "ssl.provider",
        "ssl.secure.random.implementation",
        "transaction.two.phase.commit.enable",
    ]
