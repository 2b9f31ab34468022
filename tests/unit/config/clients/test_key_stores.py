from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from kraal.config.clients.key_stores import UnusableKeyStore, read_identity, read_trust
from tests.fakes.kafka.certificates import PASSWORD, Certified, make_authority

ROOT = make_authority("root")
OTHER = make_authority("other")
MIDDLE = ROOT.vouch_for("middle", authority=True)
CLIENT = MIDDLE.vouch_for("client")
KEY = CLIENT.key_pem()


def trust(**settings: object) -> str | None:
    return read_trust({f"ssl.truststore.{name}": str(value) for name, value in settings.items()})


def keys(settings: Mapping[str, object]) -> dict[str, str]:
    return {f"ssl.{name}": str(value) for name, value in settings.items()}


def one_line(pem: str) -> str:
    """Return PEM as it stands in a properties file that writes it on one line."""
    return pem.strip().replace("\n", " ")


def test_without_a_trust_store_the_system_is_trusted() -> None:
    assert trust() is None
    assert trust(location="", type="PEM") is None


@pytest.mark.parametrize(
    "text", [ROOT.pem, one_line(ROOT.pem), f"a comment\n{ROOT.pem}"], ids=["lines", "one", "text"]
)
def test_certificates_may_stand_in_the_config(text: str) -> None:
    assert trust(type="PEM", certificates=text) == ROOT.pem


def test_a_pem_file_may_hold_several_certificates(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_text(OTHER.pem + ROOT.pem)
    assert trust(type="PEM", location=file) == OTHER.pem + ROOT.pem


@pytest.mark.parametrize("kind", ["PKCS12", "JKS", ""], ids=["named", "under Java's default", "unnamed"])
def test_a_pkcs12_trust_store_is_known_by_its_content(tmp_path: Path, kind: str) -> None:
    file = ROOT.trust_store(tmp_path / "trust.p12")
    assert trust(type=kind, location=file, password=PASSWORD) == ROOT.pem


def test_without_a_keytool_a_java_store_is_refused_with_the_command_that_converts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    file = tmp_path / "my trust.jks"
    file.write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2")
    with pytest.raises(UnusableKeyStore) as raised:
        trust(location=file, password=PASSWORD)
    assert raised.value.key == "ssl.truststore.location"
    assert str(raised.value) == (
        f"it is a JKS store, which only Java reads, and JAVA_HOME is {tmp_path}, which does not contain bin/keytool. "
        f"Or convert it elsewhere with: keytool -importkeystore -srckeystore '{file}' -srcstoretype JKS "
        f"-destkeystore '{tmp_path}/my trust.p12' -deststoretype PKCS12 "
        f"and set ssl.truststore.location={tmp_path}/my trust.p12"
    )


@pytest.mark.parametrize(
    ("settings", "content", "reason"),
    [
        pytest.param({"type": "BCFKS"}, b"", "must be PEM, PKCS12, JKS or JCEKS", id="unknown type"),
        pytest.param({"certificates": "x"}, b"", "only with ssl.truststore.type=PEM, but that is JKS", id="JKS"),
        pytest.param({"type": "PEM", "certificates": ROOT.pem}, b"x", "not both", id="inline and file"),
        pytest.param({"type": "PEM", "certificates": "nonsense"}, b"", "got none", id="no PEM inline"),
        pytest.param({"type": "PEM", "password": "p"}, ROOT.pem.encode(), "PEM has no store password", id="password"),
        pytest.param({"password": "p"}, b"", "no ssl.truststore.location that it could open", id="only a password"),
        pytest.param({}, ROOT.pem.encode(), "it is PEM; set ssl.truststore.type=PEM", id="PEM without its type"),
        pytest.param({"type": "PEM"}, b"\x30\x03", "it is not PEM", id="PEM by type only"),
        pytest.param({"type": "PKCS12"}, b"hello", "neither PKCS12 nor JKS nor PEM", id="something else"),
        pytest.param({"type": "PKCS12"}, b"\x30\x03\0", "password is not set, or it is damaged", id="damaged"),
    ],
)  # fmt: skip
def test_a_trust_store_that_cannot_be_used(
    tmp_path: Path, settings: dict[str, str], content: bytes, reason: str
) -> None:
    if content:
        (tmp_path / "store").write_bytes(content)
        settings = {**settings, "location": str(tmp_path / "store")}
    with pytest.raises(UnusableKeyStore, match=reason):
        trust(**settings)


def test_a_store_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UnusableKeyStore, match="cannot be read: No such file"):
        trust(location=tmp_path / "nothing")


@pytest.mark.parametrize("password", ["wrong hush", None])
def test_a_store_that_its_password_does_not_open(tmp_path: Path, password: str | None) -> None:
    file = ROOT.trust_store(tmp_path / "trust.p12")
    with pytest.raises(
        UnusableKeyStore, match=r"ssl\.truststore\.password (does not open it|is not set)"
    ) as raised:
        trust(location=file, **({"password": password} if password else {}))
    assert "hush" not in str(raised.value)


def settings_of(how: str, client: Certified, at: Path) -> dict[str, str]:
    if how == "PKCS12":
        file = client.key_store(at / "me.p12")
        return keys(
            {"keystore.location": file, "keystore.password": PASSWORD, "key.password": "not looked at"}
        )
    if how == "PEM file":
        (at / "me.pem").write_text(client.key_pem() + client.chain_pem)
        return keys({"keystore.location": at / "me.pem", "keystore.type": "PEM"})
    password = PASSWORD if how == "encrypted" else None
    return keys(
        {
            "keystore.type": "PEM",
            "keystore.key": one_line(client.key_pem(password)),
            "keystore.certificate.chain": one_line(client.chain_pem),
            **({"key.password": password} if password else {}),
        }
    )


@pytest.mark.parametrize("how", ["PKCS12", "PEM file", "inline", "encrypted"])
def test_an_identity_is_the_same_from_every_store(how: str, tmp_path: Path) -> None:
    identity = read_identity(settings_of(how, CLIENT, tmp_path))
    assert identity is not None
    assert identity.chain == CLIENT.chain_pem
    assert identity.key == KEY
    assert "PRIVATE" not in repr(identity)


def test_an_intermediate_chain_is_sorted(tmp_path: Path) -> None:
    client = MIDDLE.vouch_for("lower", authority=True).vouch_for("deep")
    identity = read_identity(settings_of("PKCS12", client, tmp_path))
    assert identity is not None
    assert identity.chain == client.chain_pem


def test_without_a_key_store_nothing_is_shown() -> None:
    assert read_identity({"ssl.keystore.location": " ", "ssl.keystore.type": "PEM"}) is None


@pytest.mark.parametrize(
    ("settings", "key", "reason"),
    [
        pytest.param({"key": KEY}, "key", "needed together", id="no chain"),
        pytest.param({"certificate.chain": CLIENT.chain_pem}, "certificate.chain", "needed together", id="no key"),
        pytest.param(
            {"key": KEY, "certificate.chain": ROOT.pem}, "certificate.chain", "belongs to another", id="no pair"
        ),
        pytest.param(
            {"key": CLIENT.key_pem("hush"), "certificate.chain": CLIENT.chain_pem},
            "key", "encrypted without ssl.key.password", id="encrypted",
        ),
        pytest.param({"key": "hush", "certificate.chain": CLIENT.chain_pem}, "key", "got 0", id="no PEM"),
        pytest.param({"type": "JKS", "key": KEY}, "key", "only with ssl.keystore.type=PEM", id="JKS"),
        pytest.param({"password": "hush"}, "password", "no ssl.keystore.location", id="only a password"),
    ],
)  # fmt: skip
def test_an_identity_that_cannot_be_used(settings: dict[str, str], key: str, reason: str) -> None:
    keystore = {"type": "PEM", **settings}
    with pytest.raises(UnusableKeyStore, match=reason) as raised:
        read_identity({f"ssl.keystore.{name}": value for name, value in keystore.items()})
    assert raised.value.key == f"ssl.keystore.{key}"
    assert "hush" not in str(raised.value)


def test_a_key_store_without_a_key(tmp_path: Path) -> None:
    file = ROOT.trust_store(tmp_path / "trust.p12")
    with pytest.raises(UnusableKeyStore, match="no private key"):
        read_identity(keys({"keystore.location": file, "keystore.password": PASSWORD}))
    with pytest.raises(UnusableKeyStore, match=r"needs ssl\.keystore\.password"):
        read_identity(keys({"keystore.location": file}))
