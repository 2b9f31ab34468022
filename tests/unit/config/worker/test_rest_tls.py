"""Tests for HTTPS of listeners and of requests between workers (`listeners.https.*` and `ssl.*`)."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from kraal.config.worker.listeners import Listener
from kraal.config.worker.rest_tls import (
    ADMIN_LISTENERS,
    LISTENERS,
    https_errors,
    https_warnings,
    listener_context,
    peer_context,
    read_listener_tls,
)
from kraal.core.errors import ConfigInvalid
from tests.fakes.kafka.certificates import PASSWORD, make_authority

ROOT = make_authority("root")
WORKER = ROOT.issue_certificate("me", address="127.0.0.1")
OTHER_WORKER = ROOT.issue_certificate("other", address="127.0.0.1")


def key_store_settings(directory: Path, certificate: object = WORKER, prefix: str = "") -> dict[str, str]:
    path = (WORKER if certificate is WORKER else OTHER_WORKER).key_store(directory / "me.p12")
    return {
        f"{prefix}ssl.keystore.location": str(path),
        f"{prefix}ssl.keystore.password": PASSWORD,
        f"{prefix}ssl.keystore.type": "PKCS12",
    }


def trust_settings(prefix: str = "") -> dict[str, str]:
    return {f"{prefix}ssl.truststore.type": "PEM", f"{prefix}ssl.truststore.certificates": ROOT.pem}


def find_errors(raw: dict[str, str], prefix: str = LISTENERS) -> tuple[str, ...]:
    with pytest.raises(ConfigInvalid) as raised:
        read_listener_tls(raw, prefix)
    return raised.value.errors


def test_unprefixed_settings_apply_without_prefixed_settings(tmp_path: Path) -> None:
    tls = read_listener_tls(
        {**key_store_settings(tmp_path), **trust_settings(), "ssl.client.auth": "requested"}
    )
    assert tls.tls.identity is not None
    assert tls.tls.identity.chain == WORKER.pem
    assert (tls.tls.trusted, tls.client_auth) == (ROOT.pem, ssl.CERT_OPTIONAL)


@pytest.mark.parametrize("prefix", [LISTENERS, ADMIN_LISTENERS])
def test_prefixed_settings_replace_unprefixed_settings(tmp_path: Path, prefix: str) -> None:
    raw = {"ssl.client.auth": "required", **trust_settings(), **key_store_settings(tmp_path, prefix=prefix)}
    tls = read_listener_tls(raw, prefix)
    assert (tls.tls.trusted, tls.client_auth) == (None, ssl.CERT_NONE)
    (error,) = find_errors(
        {**key_store_settings(tmp_path), f"{prefix}ssl.enabled.protocols": "TLSv1.3"}, prefix
    )
    assert error == (
        f"Invalid value null for configuration {prefix}ssl.keystore.location: HTTPS listeners need a key store; "
        f"ssl.* has no effect if any key starts with {prefix}"
    )


def test_errors_contain_configured_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    java_store = tmp_path / "me.jks"
    java_store.write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2")
    errors = find_errors(
        {
            f"{LISTENERS}ssl.keystore.location": str(java_store),
            f"{LISTENERS}ssl.keystore.password": "secret",
            f"{LISTENERS}ssl.enabled.protocols": "SSLv3",
            f"{LISTENERS}ssl.client.auth": "perhaps",
        }
    )
    assert errors == (
        (
            f"Invalid value SSLv3 for configuration {LISTENERS}ssl.enabled.protocols: "
            "it must contain at least one of: TLSv1.2, TLSv1.3"
        ),
        (
            f"Invalid value {java_store} for configuration {LISTENERS}ssl.keystore.location: only Java reads JKS "
            f"stores, and JAVA_HOME is {tmp_path}, which does not contain bin/keytool. Alternatively, convert the "
            f"store on another machine with: keytool -importkeystore -srckeystore {java_store} -srcstoretype JKS "
            f"-destkeystore {tmp_path}/me.p12 -deststoretype PKCS12 and set "
            f"{LISTENERS}ssl.keystore.location={tmp_path}/me.p12"
        ),
        (
            f"Invalid value perhaps for configuration {LISTENERS}ssl.client.auth: "
            "String must be one of: none, requested, required"
        ),
    )


@pytest.mark.parametrize("client_auth", ["requested", "required"])
def test_client_authentication_requires_a_truststore(tmp_path: Path, client_auth: str) -> None:
    (error,) = find_errors({**key_store_settings(tmp_path), "ssl.client.auth": client_auth})
    assert error == (
        f"Invalid value null for configuration ssl.truststore.location: ssl.client.auth={client_auth} requires the "
        "CA certificates of clients"
    )


def test_only_https_listeners_require_key_store() -> None:
    http_listener, https_listener = Listener("http", "", 1), Listener("https", "", 2)
    assert https_errors({}, [http_listener], [http_listener]) == []
    assert https_errors({}, [http_listener], None) == []
    assert len(https_errors({}, [https_listener], [https_listener])) == 1, "the same error is reported once"
    assert (
        len(
            https_errors(
                {f"{LISTENERS}ssl.client.auth": "none"}, [http_listener, https_listener], [https_listener]
            )
        )
        == 2
    )


def test_listener_keys_without_effect_cause_warnings() -> None:
    raw = {
        f"{LISTENERS}ssl.cipher.suites": "x",
        f"{ADMIN_LISTENERS}ssl.keystore.locatoin": "y",
        f"{ADMIN_LISTENERS}ssl.cilent.auth": "none",
        f"{LISTENERS}ssl.client.auth": "none",
        "ssl.cipher.suites": "z",
    }
    assert https_warnings(raw) == [
        f"{LISTENERS}ssl.cipher.suites is ignored: HTTPS listeners do not use Java.",
        f"{ADMIN_LISTENERS}ssl.keystore.locatoin is ignored: unknown configuration.",
        f"{ADMIN_LISTENERS}ssl.cilent.auth is ignored: unknown configuration.",
    ]


def test_no_files_remain_in_scratch_directory(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    raw = {**key_store_settings(tmp_path), **trust_settings()}
    listener_context(raw, LISTENERS, scratch)
    peer_context(raw, scratch)
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize(("identification_settings", "checks_host"), [({}, True), ({"algorithm": ""}, False)])
def test_worker_host_names_are_verified_by_default(
    tmp_path: Path, identification_settings: dict[str, str], *, checks_host: bool
) -> None:
    raw = {f"ssl.endpoint.identification.{name}": value for name, value in identification_settings.items()}
    assert peer_context({**trust_settings(), **raw}, tmp_path).check_hostname is checks_host


def handshake(client: ssl.SSLContext, server: ssl.SSLContext) -> None:
    """Perform a TLS handshake in memory. Raises SSLError if it fails."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client_side = client.wrap_bio(to_client, to_server, server_hostname="127.0.0.1")
    server_side = server.wrap_bio(to_server, to_client, server_side=True)
    completed_sides: set[ssl.SSLObject] = set()
    for _ in range(8):
        for side in (client_side, server_side):
            try:
                side.do_handshake()
                completed_sides.add(side)
            except ssl.SSLWantReadError:
                pass
    assert completed_sides == {client_side, server_side}


def test_workers_with_shared_certificate_trust_each_other(tmp_path: Path) -> None:
    directory, other_directory = tmp_path / "worker", tmp_path / "other"
    directory.mkdir()
    other_directory.mkdir()
    server = listener_context(key_store_settings(directory), LISTENERS, tmp_path)
    handshake(peer_context(key_store_settings(directory), tmp_path), server)
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(peer_context(key_store_settings(other_directory, OTHER_WORKER), tmp_path), server)


@pytest.mark.parametrize("has_certificate", [True, False])
def test_worker_certificate_satisfies_required_client_authentication(
    tmp_path: Path, *, has_certificate: bool
) -> None:
    raw = {**key_store_settings(tmp_path), **trust_settings()}
    server = listener_context({**raw, "ssl.client.auth": "required"}, LISTENERS, tmp_path)
    client = peer_context(raw if has_certificate else trust_settings(), tmp_path)
    if has_certificate:
        handshake(client, server)
    else:
        with pytest.raises(ssl.SSLError, match="PEER_DID_NOT_RETURN_A_CERTIFICATE"):
            handshake(client, server)
