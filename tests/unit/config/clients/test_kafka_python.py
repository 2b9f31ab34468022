from __future__ import annotations

import os
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest
from kafka.coordinator.base import BaseCoordinator
from kafka.net.manager import KafkaConnectionManager

from kraal.config.clients.kafka_python import kafka_python_options
from kraal.config.clients.security import OAuthLogin
from kraal.core.errors import ConfigInvalid
from tests.fakes.kafka.certificates import PASSWORD, make_authority

ROOT = make_authority()
CLIENT = ROOT.issue_certificate("middle", is_authority=True).issue_certificate("client")
PACKAGE = "org.apache.kafka.common.security"
SCRAM = f'{PACKAGE}.scram.ScramLoginModule required username="a=b,c" password="p";'


def make_options(settings: dict[str, str], scratch: Path = Path("unused")) -> dict[str, Any]:
    return kafka_python_options(settings, scratch=scratch, tokens=lambda login: login)


def test_settings_are_converted_to_kafka_python_names() -> None:
    options = make_options(
        {
            "bootstrap.servers": "a:1, b:2",
            "client.id": "me",
            "client.dns.lookup": "use_all_dns_ips",
            "request.timeout.ms": "40000",
            "retry.backoff.ms": "100",
            "reconnect.backoff.ms": "50",
            "reconnect.backoff.max.ms": "1000",
            "metadata.max.age.ms": "300000",
            "connections.max.idle.ms": "-1",
            "socket.connection.setup.timeout.ms": "10000",
            "socket.connection.setup.timeout.max.ms": "30000",
            "receive.buffer.bytes": "32768",
            "send.buffer.bytes": "-1",
            "metadata.recovery.strategy": "rebootstrap",
        }
    )
    assert options == {
        "bootstrap_servers": ["a:1", "b:2"],
        "client_id": "me",
        "client_dns_lookup": "use_all_dns_ips",
        "request_timeout_ms": 40_000,
        "retry_backoff_ms": 100,
        "reconnect_backoff_ms": 50,
        "reconnect_backoff_max_ms": 1_000,
        "metadata_max_age_ms": 300_000,
        "connections_max_idle_ms": 10**12,
        "socket_connection_setup_timeout_ms": 10_000,
        "socket_connection_setup_timeout_max_ms": 30_000,
        "receive_message_max_bytes": 2**31 - 1,
        "socket_options": [
            (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
            (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
            (socket.SOL_SOCKET, socket.SO_RCVBUF, 32_768),
        ],
        "security_protocol": "PLAINTEXT",
    }
    supported_options = KafkaConnectionManager.DEFAULT_CONFIG.keys() | BaseCoordinator.DEFAULT_CONFIG.keys()
    assert options.keys() <= supported_options


def test_scram_user_is_escaped() -> None:
    options = make_options(
        {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": SCRAM}
    )
    assert (options["security_protocol"], options["sasl_mechanism"]) == ("SASL_PLAINTEXT", "SCRAM-SHA-256")
    assert (options["sasl_plain_username"], options["sasl_plain_password"]) == ("a=3Db=2Cc", "p")
    plain_login = SCRAM.replace("scram.Scram", "plain.Plain")
    options = make_options(
        {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": plain_login}
    )
    assert options["sasl_plain_username"] == "a=b,c"


def test_token_provider_is_injected() -> None:
    options = make_options(
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": "http://127.0.0.1:1/",
            "sasl.oauthbearer.client.credentials.client.id": "i",
            "sasl.oauthbearer.client.credentials.client.secret": "s",
        }
    )
    assert isinstance(options["sasl_oauth_token_provider"], OAuthLogin)


@pytest.mark.parametrize("checks_host", [True, False])
def test_tls_context_is_created_without_leaving_files(tmp_path: Path, *, checks_host: bool) -> None:
    settings = {
        "security.protocol": "SSL",
        "ssl.truststore.location": str(ROOT.trust_store(tmp_path / "trust.p12")),
        "ssl.truststore.password": PASSWORD,
        "ssl.keystore.location": str(CLIENT.key_store(tmp_path / "me.p12")),
        "ssl.keystore.password": PASSWORD,
        "ssl.enabled.protocols": "TLSv1.3",
    }
    if not checks_host:
        settings["ssl.endpoint.identification.algorithm"] = ""
    context = make_options(settings, tmp_path / "scratch")["ssl_context"]
    assert isinstance(context, ssl.SSLContext)
    assert context.check_hostname is checks_host
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.minimum_version is context.maximum_version is ssl.TLSVersion.TLSv1_3
    assert [certificate["subject"] for certificate in context.get_ca_certs()] == [
        ((("commonName", "authority"),),)
    ]
    assert list((tmp_path / "scratch").iterdir()) == []
    assert (tmp_path / "scratch").stat().st_mode & 0o777 == 0o700


def test_key_file_is_readable_only_by_its_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded_files: list[tuple[int, str]] = []
    load_cert_chain = ssl.SSLContext.load_cert_chain

    def spy(context: ssl.SSLContext, certfile: str, **keywords: Any) -> None:
        loaded_files.append((os.stat(certfile).st_mode & 0o777, Path(certfile).read_text()))  # noqa: PTH116 - a spy
        load_cert_chain(context, certfile, **keywords)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", spy)
    make_options(
        {
            "security.protocol": "SSL",
            "ssl.keystore.location": str(CLIENT.key_store(tmp_path / "me.p12")),
            "ssl.keystore.password": PASSWORD,
        },
        tmp_path / "scratch",
    )
    ((mode, text),) = loaded_files
    assert mode == 0o600
    assert text.startswith("-----BEGIN ENCRYPTED PRIVATE KEY")
    assert text.endswith(CLIENT.chain_pem)


def test_all_errors_are_reported_together() -> None:
    with pytest.raises(ConfigInvalid) as raised:
        make_options({"request.timeout.ms": "soon", "retry.backoff.ms": "later", "security.protocol": "?"})
    assert len(raised.value.errors) == 3
