from __future__ import annotations

import stat
from pathlib import Path

import pytest

from kraal.jars.errors import JavaMissing
from kraal.jars.java import VECTOR_MODULE, find_java, main


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a Java home whose `java` reports version 17.0.1."""
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"17.0.1\"' >&2\n", encoding="utf-8")
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    return tmp_path


def write_release(home: Path, version: str, modules: str = f"java.base {VECTOR_MODULE}") -> None:
    text = f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\nMODULES="{modules}"\n'
    (home / "release").write_text(text, encoding="utf-8")


def test_java_home_takes_precedence(home: Path) -> None:
    assert find_java() == home / "bin" / "java"


def test_path_is_searched_without_java_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", f"{home / 'bin'}:/usr/bin:/bin")
    assert find_java() == home / "bin" / "java"


@pytest.mark.parametrize("version", ["17.0.15", "21", "21.0.2", "25.0.3"])
def test_supported_versions_are_accepted(home: Path, version: str) -> None:
    write_release(home, version)
    assert find_java() == home / "bin" / "java"


@pytest.mark.parametrize(("version", "major"), [("1.8.0_402", 8), ("11.0.2", 11), ("24", 24)])
def test_unsupported_versions_are_rejected(home: Path, version: str, major: int) -> None:
    write_release(home, version)
    with pytest.raises(
        JavaMissing, match=rf"requires Java 17, 21 or 25, but .*bin/java is Java {major}\.$"
    ) as error:
        find_java()
    assert error.value.hint == "Install Java 17, 21 or 25, and set JAVA_HOME to it."


def test_java_without_vector_module_is_rejected(home: Path) -> None:
    write_release(home, "17.0.1", modules="java.base java.xml")
    with pytest.raises(JavaMissing, match=VECTOR_MODULE) as error:
        find_java()
    assert error.value.hint.startswith("Install a complete Java 17, 21 or 25")


def test_java_home_without_java_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaMissing, match="does not contain bin/java") as error:
        find_java()
    assert error.value.hint == "Set JAVA_HOME to the directory of a Java 17, 21 or 25."


def test_missing_java_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(JavaMissing, match="Java was not found; Kraal requires Java 17, 21 or 25"):
        find_java()


def test_main_prints_reason_and_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert main() == 1
    assert capsys.readouterr().err == (
        f"JAVA_HOME is {tmp_path}, which does not contain bin/java.\n"
        "Hint: Set JAVA_HOME to the directory of a Java 17, 21 or 25.\n"
    )
