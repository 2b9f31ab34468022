from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from kraal.config.clients.key_stores import UnusableKeyStore, read_identity, read_trust
from tests.fakes.kafka.certificates import PASSWORD, Certified, make_authority

ROOT = make_authority("root")
OTHER_ROOT = make_authority("other")
INTERMEDIATE = ROOT.issue_certificate("middle", is_authority=True)
CLIENT = INTERMEDIATE.issue_certificate("client")
KEY = CLIENT.key_pem()


def read_trust_store(**settings: object) -> str | None:
    return read_trust({f"ssl.truststore.{name}": str(value) for name, value in settings.items()})


def ssl_settings(settings: Mapping[str, object]) -> dict[str, str]:
    return {f"ssl.{name}": str(value) for name, value in settings.items()}


def join_lines(pem: str) -> str:
    """Return PEM on a single line, as in a properties file."""
    return pem.strip().replace("\n", " ")


def test_missing_trust_store_means_system_certificates() -> None:
    assert read_trust_store() is None
    assert read_trust_store(location="", type="PEM") is None


@pytest.mark.parametrize(
    "text",
    [ROOT.pem, join_lines(ROOT.pem), f"a comment\n{ROOT.pem}"],
    ids=["several lines", "one line", "preceding comment"],
)
def test_inline_certificates_are_read(text: str) -> None:
    assert read_trust_store(type="PEM", certificates=text) == ROOT.pem


def test_pem_file_can_contain_several_certificates(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_text(OTHER_ROOT.pem + ROOT.pem)
    assert read_trust_store(type="PEM", location=file) == OTHER_ROOT.pem + ROOT.pem


@pytest.mark.parametrize("store_type", ["PKCS12", "JKS", ""], ids=["PKCS12", "JKS", "unset"])
def test_pkcs12_trust_store_is_detected_by_content(tmp_path: Path, store_type: str) -> None:
    file = ROOT.trust_store(tmp_path / "trust.p12")
    assert read_trust_store(type=store_type, location=file, password=PASSWORD) == ROOT.pem


def test_java_store_without_keytool_is_rejected_with_conversion_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    file = tmp_path / "my trust.jks"
    file.write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2")
    with pytest.raises(UnusableKeyStore) as raised:
        read_trust_store(location=file, password=PASSWORD)
    assert raised.value.key == "ssl.truststore.location"
    assert str(raised.value) == (
        f"only Java reads JKS stores, and JAVA_HOME is {tmp_path}, which does not contain bin/keytool. "
        f"Alternatively, convert the store on another machine with: keytool "
        f"-importkeystore -srckeystore '{file}' -srcstoretype JKS "
        f"-destkeystore '{tmp_path}/my trust.p12' -deststoretype PKCS12 "
        f"and set ssl.truststore.location={tmp_path}/my trust.p12"
    )


@pytest.mark.parametrize(
    ("settings", "content", "reason"),
    [
        pytest.param({"type": "BCFKS"}, b"", "must be PEM, PKCS12, JKS or JCEKS", id="unknown type"),
        pytest.param({"certificates": "x"}, b"", "requires ssl.truststore.type=PEM, but the type is JKS", id="JKS"),
        pytest.param({"type": "PEM", "certificates": ROOT.pem}, b"x", "mutually exclusive", id="inline and file"),
        pytest.param({"type": "PEM", "certificates": "nonsense"}, b"", "got none", id="no PEM inline"),
        pytest.param({"type": "PEM", "password": "p"}, ROOT.pem.encode(), "PEM has no store password", id="password"),
        pytest.param({"password": "p"}, b"", "ssl.truststore.location is not set", id="only a password"),
        pytest.param({}, ROOT.pem.encode(), "the file is PEM; set ssl.truststore.type=PEM", id="PEM without its type"),
        pytest.param({"type": "PEM"}, b"\x30\x03", "the file is not PEM", id="PEM type without PEM content"),
        pytest.param({"type": "PKCS12"}, b"hello", "neither PKCS12 nor JKS nor PEM", id="unknown format"),
        pytest.param({"type": "PKCS12"}, b"\x30\x03\0", "password is not set, or the file is damaged", id="damaged"),
    ],
)  # fmt: skip
def test_unusable_trust_store_is_rejected(
    tmp_path: Path, settings: dict[str, str], content: bytes, reason: str
) -> None:
    if content:
        (tmp_path / "store").write_bytes(content)
        settings = {**settings, "location": str(tmp_path / "store")}
    with pytest.raises(UnusableKeyStore, match=reason):
        read_trust_store(**settings)


def test_missing_store_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(UnusableKeyStore, match="cannot be read: No such file"):
        read_trust_store(location=tmp_path / "nothing")


@pytest.mark.parametrize("password", ["wrong hush", None])
def test_wrong_store_password_is_rejected(tmp_path: Path, password: str | None) -> None:
    file = ROOT.trust_store(tmp_path / "trust.p12")
    with pytest.raises(UnusableKeyStore, match=r"ssl\.truststore\.password (is wrong|is not set)") as raised:
        read_trust_store(location=file, **({"password": password} if password else {}))
    assert "hush" not in str(raised.value)


def make_settings(store_format: str, client: Certified, directory: Path) -> dict[str, str]:
    if store_format == "PKCS12":
        file = client.key_store(directory / "me.p12")
        return ssl_settings(
            {"keystore.location": file, "keystore.password": PASSWORD, "key.password": "unused"}
        )
    if store_format == "PEM file":
        (directory / "me.pem").write_text(client.key_pem() + client.chain_pem)
        return ssl_settings({"keystore.location": directory / "me.pem", "keystore.type": "PEM"})
    password = PASSWORD if store_format == "encrypted" else None
    return ssl_settings(
        {
            "keystore.type": "PEM",
            "keystore.key": join_lines(client.key_pem(password)),
            "keystore.certificate.chain": join_lines(client.chain_pem),
            **({"key.password": password} if password else {}),
        }
    )


@pytest.mark.parametrize("store_format", ["PKCS12", "PEM file", "inline", "encrypted"])
def test_identity_is_equal_for_all_store_formats(store_format: str, tmp_path: Path) -> None:
    identity = read_identity(make_settings(store_format, CLIENT, tmp_path))
    assert identity is not None
    assert identity.chain == CLIENT.chain_pem
    assert identity.key == KEY
    assert "PRIVATE" not in repr(identity)


def test_certificate_chain_is_sorted(tmp_path: Path) -> None:
    client = INTERMEDIATE.issue_certificate("lower", is_authority=True).issue_certificate("deep")
    identity = read_identity(make_settings("PKCS12", client, tmp_path))
    assert identity is not None
    assert identity.chain == client.chain_pem


def test_missing_key_store_means_no_identity() -> None:
    assert read_identity({"ssl.keystore.location": " ", "ssl.keystore.type": "PEM"}) is None


@pytest.mark.parametrize(
    ("settings", "key", "reason"),
    [
        pytest.param({"key": KEY}, "key", "must be set together", id="no chain"),
        pytest.param({"certificate.chain": CLIENT.chain_pem}, "certificate.chain", "must be set together", id="no key"),
        pytest.param(
            {"key": KEY, "certificate.chain": ROOT.pem}, "certificate.chain", "belongs to another", id="wrong chain"
        ),
        pytest.param(
            {"key": CLIENT.key_pem("hush"), "certificate.chain": CLIENT.chain_pem},
            "key", "encrypted and ssl.key.password is not set", id="encrypted",
        ),
        pytest.param({"key": "hush", "certificate.chain": CLIENT.chain_pem}, "key", "got 0", id="not PEM"),
        pytest.param({"type": "JKS", "key": KEY}, "key", "requires ssl.keystore.type=PEM", id="JKS"),
        pytest.param({"password": "hush"}, "password", "ssl.keystore.location is not set", id="only a password"),
    ],
)  # fmt: skip
def test_unusable_identity_is_rejected(settings: dict[str, str], key: str, reason: str) -> None:
    keystore = {"type": "PEM", **settings}
    with pytest.raises(UnusableKeyStore, match=reason) as raised:
        read_identity({f"ssl.keystore.{name}": value for name, value in keystore.items()})
    assert raised.value.key == f"ssl.keystore.{key}"
    assert "hush" not in str(raised.value)


def test_key_store_without_key_is_rejected(tmp_path: Path) -> None:
    file = ROOT.trust_store(tmp_path / "trust.p12")
    with pytest.raises(UnusableKeyStore, match="no private key"):
        read_identity(ssl_settings({"keystore.location": file, "keystore.password": PASSWORD}))
    with pytest.raises(UnusableKeyStore, match=r"requires ssl\.keystore\.password"):
        read_identity(ssl_settings({"keystore.location": file}))
