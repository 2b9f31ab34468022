from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from scripts.harness import java_connect
from scripts.harness.moved_classes import find_moved_classes, write_with_new_names

UTILS = "org/apache/kafka/common/utils/"
MOVED_CLASSES = {f"{UTILS}Exit".encode(): f"{UTILS}internals/Exit".encode()}


def jar(path: Path, entries: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return path


def class_file(*constants: bytes) -> bytes:
    """Return the start of a class file with these constants. One of them must be a long, which counts twice."""
    return b"\xca\xfe\xba\xbe\0\0\0=" + (len(constants) + 2).to_bytes(2) + b"".join(constants) + b"the rest"


def make_utf8_constant(content: str) -> bytes:
    encoded = content.encode()
    return b"\x01" + len(encoded).to_bytes(2) + encoded


def test_moved_classes_exist_only_in_the_new_package(tmp_path: Path) -> None:
    names = ["internals/Exit.class", "internals/Exit$Procedure.class", "internals/Utils.class", "Utils.class"]
    clients = jar(tmp_path / "clients.jar", {UTILS + name: b"" for name in [*names, "internals/"]})
    assert find_moved_classes([clients]) == MOVED_CLASSES | {
        f"{UTILS}Exit$Procedure".encode(): f"{UTILS}internals/Exit$Procedure".encode()
    }


@pytest.mark.parametrize(
    ("old_name", "new_name"),
    [
        (f"{UTILS}Exit", f"{UTILS}internals/Exit"),
        (f"(IL{UTILS}Exit;L{UTILS}Utils;)V", f"(IL{UTILS}internals/Exit;L{UTILS}Utils;)V"),
        (f"{UTILS}Exits", f"{UTILS}Exits"),
        ("é", "é"),
    ],
)
def test_constants_of_a_class_are_renamed(tmp_path: Path, old_name: str, new_name: str) -> None:
    number, reference = b"\x05" + bytes(8), b"\x07\0\x01"
    source = jar(
        tmp_path / "a.jar",
        {
            "A.class": class_file(number, make_utf8_constant(old_name), reference),
            "notes.txt": f"{UTILS}Exit".encode(),
        },
    )
    write_with_new_names(source, tmp_path / "b.jar", MOVED_CLASSES)
    with zipfile.ZipFile(tmp_path / "b.jar") as copy:
        assert copy.read("A.class") == class_file(number, make_utf8_constant(new_name), reference)
        assert copy.read("notes.txt") == f"{UTILS}Exit".encode()


def test_plugin_path_is_copied_with_renamed_classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clients = jar(tmp_path / "a__kafka-clients__1.jar", {f"{UTILS}internals/Exit.class": b""})
    monkeypatch.setattr(java_connect, "ensure", lambda _group: [clients])
    old_class, new_constant = (
        class_file(b"\x05" + bytes(8), make_utf8_constant(f"{UTILS}Exit")),
        make_utf8_constant(f"{UTILS}internals/Exit"),
    )
    (tmp_path / "plugins" / "one").mkdir(parents=True)
    jar(tmp_path / "plugins" / "one" / "plugin.jar", {"A.class": old_class})
    jar(tmp_path / "plugins" / "one" / "kafka-clients-3.9.2.jar", {"A.class": old_class})
    (tmp_path / "plugins" / "one" / "notes.txt").write_text("notes")
    copy = Path(
        java_connect.prepare_plugins(str(tmp_path / "plugins"), java_connect.CURRENT, tmp_path / "copies")
    )
    contents = {path.name: path for path in copy.rglob("*.*")}
    with zipfile.ZipFile(contents["plugin.jar"]) as plugin:
        assert new_constant in plugin.read("A.class")
    with zipfile.ZipFile(contents["kafka-clients-3.9.2.jar"]) as unchanged_jar:
        assert unchanged_jar.read("A.class") == old_class
    assert contents["notes.txt"].read_text() == "notes"
