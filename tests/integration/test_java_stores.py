"""Tests for reading key stores and trust stores that Java's keytool has created."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from kraal.config.clients.key_stores import UnusableKeyStore, read_identity, read_trust
from kraal.jars.java import find_java
from tests.fakes.kafka.certificates import Certified, make_authority

PASSWORD = "store secret"  # noqa: S105 - of temporary stores


def run_keytool(*arguments: str, inputs: str = "") -> None:
    program = find_java().with_name("keytool")
    result = subprocess.run(
        [str(program), *arguments], input=inputs, capture_output=True, text=True, timeout=60, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr


def create_trust_store(root: Certified, directory: Path, kind: str, *extra: str) -> Path:
    certificate = directory / "ca.pem"
    certificate.write_text(root.pem)
    store = directory / "my trust.jks"
    run_keytool(
        *("-importcert", "-noprompt", "-alias", "ca", "-file", str(certificate), "-keystore", str(store)),
        *("-storetype", kind, "-storepass", PASSWORD, *extra),
    )
    return store


def make_settings(store: Path, role: str) -> dict[str, str]:
    return {f"ssl.{role}.location": str(store), f"ssl.{role}.password": PASSWORD}


@pytest.mark.parametrize(("kind", "password"), [("JKS", PASSWORD), ("JCEKS", None)])
def test_jks_trust_store_is_read(tmp_path: Path, kind: str, password: str | None) -> None:
    root = make_authority()
    settings = make_settings(create_trust_store(root, tmp_path, kind), "truststore") | {
        "ssl.truststore.type": kind
    }
    if password is None:
        del settings["ssl.truststore.password"]
    assert read_trust(settings) == root.pem


def create_java_key_store(directory: Path, key_password: str) -> dict[str, str]:
    store = directory / "me.jks"
    run_keytool(
        *("-genkeypair", "-alias", "me", "-keyalg", "EC", "-dname", "CN=me", "-keystore", str(store)),
        *("-storetype", "JKS", "-storepass", PASSWORD, "-keypass", key_password),
    )
    return make_settings(store, "keystore")


def test_jks_key_store_is_read(tmp_path: Path) -> None:
    settings = create_java_key_store(tmp_path, "another secret") | {"ssl.key.password": "another secret"}
    identity = read_identity(settings)
    assert identity is not None
    assert identity.chain.count("BEGIN CERTIFICATE") == 1
    assert "BEGIN PRIVATE KEY" in identity.key


@pytest.mark.parametrize(
    ("changed_settings", "reason"),
    [
        ({"ssl.keystore.password": "wrong"}, "opened as JKS: ssl.keystore.password is wrong"),
        (
            {"ssl.key.password": "wrong1"},
            "differs from the password of the store: ssl.key.password is wrong",
        ),
        ({}, "differs from the password of the store: set ssl.key.password"),
    ],
    ids=["store", "key", "none"],
)
def test_jks_key_store_with_wrong_or_missing_passwords_is_rejected(
    tmp_path: Path, changed_settings: dict[str, str], reason: str
) -> None:
    settings = create_java_key_store(tmp_path, "another secret") | changed_settings
    with pytest.raises(UnusableKeyStore, match=reason):
        read_identity(settings)


def test_command_in_the_error_message_converts_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_authority()
    store = create_trust_store(root, tmp_path, "JKS")
    with monkeypatch.context() as without_java:
        without_java.setenv("JAVA_HOME", str(tmp_path))
        with pytest.raises(UnusableKeyStore) as raised:
            read_trust(make_settings(store, "truststore"))
    command = re.search(r"with: keytool (.*) and set ssl\.truststore\.location=(.*)$", str(raised.value))
    assert command is not None
    run_keytool(*shlex.split(command[1]), inputs=f"{PASSWORD}\n" * 3)
    assert read_trust(make_settings(Path(command[2]), "truststore")) == root.pem


@pytest.mark.parametrize(
    "extra", [(), ("-J-Dkeystore.pkcs12.legacy",)], ids=["current format", "Java 8 format"]
)
def test_pkcs12_trust_store_of_keytool_is_read(tmp_path: Path, extra: tuple[str, ...]) -> None:
    root = make_authority()
    assert (
        read_trust(make_settings(create_trust_store(root, tmp_path, "PKCS12", *extra), "truststore"))
        == root.pem
    )


def test_pkcs12_key_store_of_keytool_is_read(tmp_path: Path) -> None:
    store = tmp_path / "me.p12"
    run_keytool(
        *("-genkeypair", "-alias", "me", "-keyalg", "EC", "-dname", "CN=me", "-keystore", str(store)),
        *("-storetype", "PKCS12", "-storepass", PASSWORD),
    )
    identity = read_identity(make_settings(store, "keystore"))
    assert identity is not None
    assert identity.chain.count("BEGIN CERTIFICATE") == 1
    assert "BEGIN PRIVATE KEY" in identity.key
