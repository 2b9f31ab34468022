"""Tests for the diagnosis of brokers that do not respond, based on the behavior of their ports."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from kraal.core.errors import StoreError
from kraal.doctor.connection import describe_broker_error, diagnose_unreachable
from kraal.doctor.finding import Finding, Level
from tests.fakes.kafka.certificates import PASSWORD, Certified, make_authority
from tests.fakes.servers.refusing import refusing_address

HOST = "127.0.0.1"
NO_RESPONSE = "no Kafka broker responds at b:9092: Failed while waiting for controller: Local: Timed out"


@contextmanager
def serve_port(serve: Callable[[socket.socket], None]) -> Iterator[str]:
    """Serve connections on a port sequentially."""
    with socket.create_server((HOST, 0)) as server:

        def accept() -> None:
            while True:
                try:
                    connection = server.accept()[0]
                except OSError:
                    return
                with connection:
                    serve(connection)

        threading.Thread(target=accept, daemon=True).start()
        yield f"{HOST}:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)


def diagnose(server: str, error: str = NO_RESPONSE, **client: str) -> Finding:
    settings = {key.replace("_", "."): value for key, value in client.items()}
    finding = diagnose_unreachable(server, settings, StoreError(error))
    assert (finding.id, finding.level) == ("broker.reachable", Level.ERROR)
    return finding


def read_greeting(connection: socket.socket) -> None:
    """Read the first bytes that a client sends."""
    connection.recv(4096)


def tls_server(certified: Certified, tmp_path: Path) -> Callable[[socket.socket], None]:
    """Return a function that serves TLS with a certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    (tmp_path / "server.pem").write_text(certified.key_pem() + certified.chain_pem)
    context.load_cert_chain(tmp_path / "server.pem")

    def serve(connection: socket.socket) -> None:
        try:
            with context.wrap_socket(connection, server_side=True) as tls_connection:
                tls_connection.recv(1)
        except OSError:
            return  # the client rejected the certificate

    return serve


def test_closed_port_is_reported() -> None:
    with refusing_address() as server:
        finding = diagnose(server)
    assert f"{server}: Connection refused" in finding.what
    assert "bootstrap.servers" in finding.fix


def test_tls_port_used_without_tls_is_diagnosed(tmp_path: Path) -> None:
    certified = make_authority("root").issue_certificate("broker", address=HOST)
    with serve_port(tls_server(certified, tmp_path)) as server:
        finding = diagnose(server, security_protocol="PLAINTEXT")
    assert f"{server} uses TLS, but security.protocol=PLAINTEXT does not" in finding.what
    assert "Set security.protocol to SSL (or SASL_SSL" in finding.fix


@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL"])
@pytest.mark.parametrize(
    ("response", "expected_text"),
    [
        (b"", "closes the connection during the TLS handshake, which security.protocol={} requires"),
        (b"\x00\x00\x00\x04what", "does not use TLS, but security.protocol={} requires it"),
    ],
)
def test_plaintext_port_used_with_tls_is_diagnosed(
    protocol: str, response: bytes, expected_text: str
) -> None:
    def serve(connection: socket.socket) -> None:
        read_greeting(connection)
        connection.sendall(response)

    with serve_port(serve) as server:
        finding = diagnose(server, security_protocol=protocol, **login_settings(protocol))
    assert f"{server} {expected_text.format(protocol)}" in finding.what
    assert f"a listener with {protocol}." in finding.fix
    assert "PLAINTEXT" not in finding.what + finding.fix, "the fix must not suggest connecting without TLS"
    assert ("log may have the reason" in finding.fix) is (response == b"")


def test_certificate_of_an_unknown_ca_is_diagnosed(tmp_path: Path) -> None:
    certified = make_authority("root").issue_certificate("broker", address=HOST)
    with serve_port(tls_server(certified, tmp_path)) as server:
        finding = diagnose(server, **trust_settings(make_authority("another"), tmp_path))
    assert f"the certificate of {server} is not accepted: " in finding.what
    assert "Set `ssl.truststore.*`" in finding.fix


def test_client_error_is_shown_if_tls_succeeds(tmp_path: Path) -> None:
    root = make_authority("root")
    with serve_port(tls_server(root.issue_certificate("broker", address=HOST), tmp_path)) as server:
        finding = diagnose(
            server, "SASL authentication error: invalid credentials", **trust_settings(root, tmp_path)
        )
    assert finding.what == "SASL authentication error: invalid credentials"
    assert "user and password in `sasl.jaas.config`" in finding.fix


def test_causes_of_all_servers_are_reported() -> None:
    what = diagnose("nowhere.invalid:1,other.invalid:x").what
    assert "the host nowhere.invalid cannot be resolved" in what
    assert "other.invalid:x: " in what


@pytest.mark.parametrize(
    ("error", "protocol", "what", "fix"),
    [
        (
            NO_RESPONSE,
            "PLAINTEXT",
            "does not respond with security.protocol=PLAINTEXT",
            "security.protocol=SASL_PLAINTEXT",
        ),
        ("x: broker's supported mechanisms: PLAIN (after 0ms)", "SASL_SSL", "x: ", "Set `sasl.mechanism`"),
        ("x: ssl/tls alert bad certificate: SSL alert number 42", "SSL", "x: ", "Set `ssl.keystore.*`"),
        (
            "no Kafka broker responds at b:9092: sasl_ssl://in.side:9093/1: Failed to resolve 'in.side:9093': unknown",
            "SASL_SSL",
            "in.side:9093/1: Failed to resolve",
            "advertises in.side:9093",
        ),
        ("x: b:9092/2: Connect to ipv4#10.0.0.1:9092 failed", "SSL", "x: ", "correct `advertised.listeners`"),
        ("x: something else", "SSL", "x: something else", "`security.protocol`, `sasl.*` and `ssl.*`"),
    ],
)
def test_client_errors_after_connecting_are_diagnosed(error: str, protocol: str, what: str, fix: str) -> None:
    diagnosis, advice = describe_broker_error(error, protocol)
    assert what in diagnosis
    assert fix in advice
    assert "KafkaError{" not in diagnosis


def login_settings(protocol: str) -> Mapping[str, str]:
    """Return settings with a user and a password for a SASL protocol, and no settings for other protocols."""
    if not protocol.upper().startswith("SASL"):
        return {}
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    jaas = f'{module} required username="u" password="p";'
    return {"sasl_mechanism": "PLAIN", "sasl_jaas_config": jaas}


def trust_settings(root: Certified, tmp_path: Path) -> dict[str, str]:
    """Return client settings that trust a CA."""
    root.trust_store(tmp_path / "trust.p12")
    return {
        "security_protocol": "SSL",
        "ssl_truststore_location": str(tmp_path / "trust.p12"),
        "ssl_truststore_password": PASSWORD,
        "ssl_truststore_type": "PKCS12",
    }
