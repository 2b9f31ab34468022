"""Tests for the conversion of Java key stores, with a fake keytool."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kraal.config.clients.java_stores import (
    ConversionFailed,
    Culprit,
    KeytoolMissing,
    find_keytool,
    to_pkcs12,
)
from kraal.config.clients.key_stores import UnusableKeyStore, read_trust
from tests.fakes.kafka.certificates import PASSWORD, make_authority

ROOT = make_authority("root")
JKS = b"\xfe\xed\xfe\xed\0\0\0\2"

KEYTOOL_SCRIPT = """#!/bin/sh
for argument in "$@"; do
    [ "$last" = -destkeystore ] && target=$argument
    last=$argument
done
here=$(dirname "$0")
echo x >> "$here/calls"
stat -c %a "$(dirname "$target")" > "$here/mode"
echo "$target" > "$here/target"
printf "%s\n" "$@" > "$here/arguments"
cat > "$here/stdin"
echo "$KRAAL_SOURCE_STORE" > "$here/password"
[ -f "$here/error" ] && cat "$here/error" && exit 1
cp "$here/result" "$target"
"""


class FakeKeytool:
    """A keytool that records its calls."""

    def __init__(self, home: Path) -> None:
        self.bin_dir = home / "bin"
        self.bin_dir.mkdir()
        (self.bin_dir / "keytool").write_text(KEYTOOL_SCRIPT)
        (self.bin_dir / "keytool").chmod(0o755)
        (self.bin_dir / "result").write_bytes(b"PKCS12")

    def read_record(self, name: str) -> str:
        return (self.bin_dir / name).read_text()

    def fail_with(self, line: str) -> None:
        (self.bin_dir / "error").write_text(f"Importing keystore\n{line}\n")


@pytest.fixture
def keytool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeKeytool]:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    to_pkcs12.cache_clear()
    yield FakeKeytool(tmp_path)
    to_pkcs12.cache_clear()


def convert(path: Path, password: str | None = "store pw", key_password: str | None = None) -> Any:  # noqa: S107
    path.write_bytes(JKS)
    return to_pkcs12(path, path.read_bytes(), "JKS", password, key_password)


def test_passwords_are_not_on_command_line_and_files_are_removed(
    keytool: FakeKeytool, tmp_path: Path
) -> None:
    converted_store = convert(tmp_path / "me.jks", "store pw", "key pw")
    assert converted_store.data == b"PKCS12"
    assert "pw" not in keytool.read_record("arguments")
    assert converted_store.password not in keytool.read_record("arguments")
    assert keytool.read_record("password") == "store pw\n"
    assert keytool.read_record("stdin").startswith("key pw\n")
    assert keytool.read_record("mode") == "700\n"
    assert not Path(keytool.read_record("target").strip()).parent.exists()
    assert converted_store.password not in repr(converted_store)


def test_store_is_converted_again_only_after_change(keytool: FakeKeytool, tmp_path: Path) -> None:
    path = tmp_path / "me.jks"
    assert convert(path) is convert(path)
    assert keytool.read_record("calls") == "x\n"
    to_pkcs12(path, JKS + b"2", "JKS", "store pw", None)
    assert keytool.read_record("calls") == "x\nx\n"


def test_store_without_password_is_converted(keytool: FakeKeytool, tmp_path: Path) -> None:
    convert(tmp_path / "me.jks", None)
    assert keytool.read_record("stdin") == "\n"
    assert "-srcstorepass:env" not in keytool.read_record("arguments")


@pytest.mark.parametrize(
    ("line", "culprit"),
    [
        ("keytool error: java.io.IOException: Keystore was tampered with, or password was incorrect", "STORE"),
        ("keytool error: java.security.UnrecoverableKeyException: Cannot recover key", "KEY"),
        ("keytool error: java.lang.Exception: Too many failures - try later", "KEY"),
        ("keytool error: java.io.IOException: Invalid keystore format", "OTHER"),
    ],
)  # fmt: skip
def test_keytool_errors_are_classified_by_culprit(
    keytool: FakeKeytool, tmp_path: Path, line: str, culprit: str
) -> None:
    keytool.fail_with(line)
    with pytest.raises(ConversionFailed) as raised:
        convert(tmp_path / "me.jks")
    assert (str(raised.value), raised.value.culprit) == (line, Culprit[culprit])


def test_hanging_keytool_is_an_error(
    keytool: FakeKeytool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kraal.config.clients.java_stores._TIMEOUT_S", 0.2)
    (keytool.bin_dir / "keytool").write_text("#!/bin/sh\nexec sleep 30\n")
    with pytest.raises(ConversionFailed, match="failed: TimeoutExpired"):
        convert(tmp_path / "me.jks")


def test_certificates_are_read_from_converted_store(
    keytool: FakeKeytool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kraal.config.clients.java_stores.secrets.token_hex", lambda _: PASSWORD)
    ROOT.trust_store(keytool.bin_dir / "result")
    (tmp_path / "trust.jks").write_bytes(JKS)
    location = {"ssl.truststore.location": str(tmp_path / "trust.jks")}
    assert read_trust({**location, "ssl.truststore.password": "p"}) == ROOT.pem
    keytool.fail_with("keytool error: java.io.IOException: Invalid keystore format")
    with pytest.raises(
        UnusableKeyStore, match=r"cannot be opened as JKS: keytool error: .*Invalid keystore format"
    ):
        read_trust({**location, "ssl.truststore.password": "q"})


def test_find_keytool_searches_java_home_path_and_java_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(KeytoolMissing, match="install Java"):
        find_keytool()
    jdk = tmp_path / "jdk"
    jdk.mkdir()
    for name in ("java", "keytool"):
        (jdk / name).touch(0o755)
    (tmp_path / "java").symlink_to(jdk / "java")
    assert find_keytool() == jdk / "keytool"
    (tmp_path / "keytool").touch(0o755)
    assert find_keytool() == tmp_path / "keytool"
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(KeytoolMissing, match="does not contain bin/keytool"):
        find_keytool()
