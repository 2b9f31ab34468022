"""Tests that archives, uber jars and directories in a lock are unpacked into a directory for `plugin.path`."""

from __future__ import annotations

import io
import os
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pytest
from typing_extensions import override

from kraal.core.progress import Progress
from kraal.jars import ivy
from kraal.java_plugins.discovery import plugin_path as entries_of
from kraal.plugin_lock import change
from kraal.plugin_lock.java import is_java, plugin_path
from kraal.plugin_lock.lock import PluginLockError, parse_lock, read_lock
from kraal.plugin_lock.start import load_plugins
from tests.unit.plugin_lock.test_change import kraal
from tests.unit.plugin_lock.test_lock import wheel

POSTGRES = "io.debezium:debezium-connector-postgres:tar.gz:plugin:3.7.0.Final"
MONGO = "org.mongodb.kafka:mongo-kafka-connect:jar:all:2.0.1"
SMT = "org.example:smt:zip:1"
JAR = {"connector/lib/a.jar": b"a jar", "connector/README.md": b"read me"}


def write_tar(path: Path, files: Mapping[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text))
    return path


def write_zip(path: Path, files: Mapping[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path


def read_files(directory: Path) -> dict[str, bytes]:
    files = (file for file in directory.rglob("*") if file.is_file())
    return {str(file.relative_to(directory)): file.read_bytes() for file in files}


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    return tmp_path / "k.lock"


@pytest.fixture
def maven(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fake a repository in which every file exists."""

    def retrieve(
        coordinates: Iterable[ivy.Coordinates], into: Path, *, transitive: bool, progress: ivy.Progress
    ) -> list[Path]:
        progress(1, 0)
        assert not transitive
        (into / "jars").mkdir()
        paths = []
        for file in coordinates:
            path = into / "jars" / file.file_name
            match file.extension:
                case "tar.gz" | "tgz":
                    write_tar(path, JAR)
                case "zip":
                    write_zip(path, JAR)
                case _:
                    path.write_bytes(str(file).encode())
            paths.append(path)
        return paths

    monkeypatch.setattr(ivy, "retrieve", retrieve)


@pytest.mark.usefixtures("maven")
def test_archives_and_jars_are_unpacked_into_folders(lock: Path) -> None:
    result = kraal("add", POSTGRES, MONGO, SMT, "--lock", str(lock))
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[-4:-1] == [
        f"{lock}: 0 jars, 0 wheels, 3 Java plugins. Restart the workers with these properties:",
        f"kraal.plugins.lock={lock}",
        f"plugin.path={lock.parent}/k/java",
    ]
    postgres, mongo = (
        "io.debezium__debezium-connector-postgres__3.7.0.Final-plugin",
        "org.mongodb.kafka__mongo-kafka-connect__2.0.1-all",
    )
    assert read_files(plugin_path(lock)) == {
        f"{postgres}/connector/lib/a.jar": b"a jar",
        f"{postgres}/connector/README.md": b"read me",
        f"{mongo}/{mongo}.jar": MONGO.encode(),
        "org.example__smt__1/connector/lib/a.jar": b"a jar",
        "org.example__smt__1/connector/README.md": b"read me",
    }
    lines = kraal("list", "--lock", str(lock)).stdout.splitlines()[1:]
    assert [line.split()[:3] for line in lines] == [
        ["java", name, "added"] for name in (POSTGRES, SMT, MONGO)
    ]


@pytest.mark.usefixtures("maven")
def test_plugin_downloads_show_progress(lock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[tuple[str, int | None, int]] = []

    class RecordingProgress(Progress):
        def __init__(self, what: str, total: int | None = None) -> None:
            super().__init__(what, total)
            self._key = what, total

        @override
        def set_done(self, done: int, detail: str = "") -> None:
            steps.append((*self._key, done))
            super().set_done(done, detail)

    monkeypatch.setattr("kraal.plugin_lock.java.Progress", RecordingProgress)
    kraal("add", POSTGRES, MONGO, "--lock", str(lock))
    assert steps == [("Downloading Java plugins", 2, 0)]
    kraal("add", str(write_zip(lock.parent / "one.zip", JAR)), "--lock", str(lock))
    assert len(steps) == 1, "local files need no download"


@pytest.mark.usefixtures("maven")
def test_new_revision_replaces_the_old_one(lock: Path) -> None:
    change.add(lock, [POSTGRES, SMT])
    new_coordinates = POSTGRES.replace("3.7.0", "3.8.0")
    assert [entry.name for entry in change.add(lock, [new_coordinates]).removed] == [POSTGRES]
    assert read_lock(lock).added == (new_coordinates, SMT)
    assert [folder.name for folder in plugin_path(lock).iterdir() if "postgres" in folder.name] == [
        "io.debezium__debezium-connector-postgres__3.8.0.Final-plugin"
    ]
    change.relock(lock)
    assert read_lock(lock).added == (new_coordinates, SMT)
    change.remove(lock, ["io.debezium:debezium-connector-postgres", SMT])
    assert (read_lock(lock).entries, read_files(plugin_path(lock))) == ((), {})


def test_running_worker_keeps_its_files_when_the_lock_changes(lock: Path, tmp_path: Path) -> None:
    change.add(lock, [str(write_zip(tmp_path / "one.zip", JAR))])
    worker = {"plugin.path": f"{plugin_path(lock)},/elsewhere"}
    running_directory, other_directory = entries_of(worker)
    files_before = read_files(Path(running_directory))
    change.remove(lock, ["one.zip"])
    assert (read_files(Path(running_directory)), other_directory) == (files_before, "/elsewhere")
    assert entries_of(worker)[0] != running_directory


def test_local_files_and_directories_are_locked_with_wheels(lock: Path, tmp_path: Path) -> None:
    plugin = tmp_path / "own"
    (plugin / "lib").mkdir(parents=True)
    (plugin / "lib" / "own.jar").write_bytes(b"own")
    wheel_path = wheel(tmp_path, "mine", "1.0")
    sources = [
        write_zip(tmp_path / "one.zip", JAR),
        write_tar(tmp_path / "two.tgz", JAR),
        tmp_path / "three.jar",
        wheel_path,
    ]
    (tmp_path / "three.jar").write_bytes(b"uber")
    change.add(lock, [*map(str, sources), f"{plugin}/"])
    assert read_lock(lock).added == (wheel_path.name, "one.zip", "own.zip", "three.jar", "two.tgz")
    assert sorted(folder.name for folder in plugin_path(lock).iterdir()) == ["one", "own", "three", "two"]
    assert read_files(plugin_path(lock) / "own") == {"lib/own.jar": b"own"}
    for source in sources:
        source.unlink()
    change.relock(lock)
    change.remove(lock, ["mine"])
    assert [entry.file for entry in read_lock(lock).entries] == [
        "one.zip",
        "own.zip",
        "three.jar",
        "two.tgz",
    ]


def test_archive_of_a_directory_is_reproducible(tmp_path: Path) -> None:
    checksums = []
    for number in range(2):
        plugin = tmp_path / str(number) / "own"
        plugin.mkdir(parents=True)
        for name in ("b.jar", "a.jar")[:: 1 - 2 * number]:
            (plugin / name).write_bytes(b"x")
        os.utime(plugin / "a.jar", (number * 10**9, number * 10**9))
        added_change = change.add(tmp_path / f"{number}.lock", [f"{plugin}/"])
        checksums += [entry.sha256 for entry in added_change.lock.java]
    assert checksums[0] == checksums[1]


def test_worker_verifies_and_unpacks_copied_plugin_files(lock: Path, tmp_path: Path) -> None:
    change.add(lock, [str(write_zip(tmp_path / "one.zip", JAR))])
    files_before = read_files(plugin_path(lock))
    copied_lock = tmp_path / "other" / "k.lock"
    (copied_lock.parent / "k").mkdir(parents=True)
    copied_lock.write_bytes(lock.read_bytes())
    (copied_lock.parent / "k" / "one.zip").write_bytes((tmp_path / "k" / "one.zip").read_bytes())
    assert not load_plugins(copied_lock)
    assert read_files(plugin_path(copied_lock)) == files_before
    with (copied_lock.parent / "k" / "one.zip").open("ab") as file:
        file.write(b"x")
    with pytest.raises(PluginLockError, match="does not match"):
        load_plugins(copied_lock)


def test_directory_in_place_of_the_link_is_rejected(lock: Path, tmp_path: Path) -> None:
    plugin_path(lock).mkdir(parents=True)
    with pytest.raises(PluginLockError, match=r"k/java is a directory instead of a link; remove it"):
        change.add(lock, [str(write_zip(tmp_path / "one.zip", JAR))])
    assert not lock.exists()


def write_tar_link(path: Path) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        info = tarfile.TarInfo("a.jar")
        info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(info)
    return path


def write_zip_link(path: Path) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        info = zipfile.ZipInfo("a.jar")
        info.external_attr = 0o120777 << 16
        archive.writestr(info, "/etc/passwd")
    return path


@pytest.mark.parametrize(
    ("name", "write_archive"),
    [
        ("bad.tgz", lambda path: write_tar(path, {"../../evil.jar": b"x"})),
        ("bad.zip", lambda path: write_zip(path, {"a/../../evil.jar": b"x"})),
        ("bad.zip", lambda path: write_zip(path, {"/evil.jar": b"x"})),
        ("bad.zip", lambda path: write_zip(path, {"..\\evil.jar": b"x"})),
        ("bad.tar.gz", write_tar_link),
        ("bad.zip", write_zip_link),
    ],
)
def test_archive_with_unsafe_paths_is_rejected(
    name: str, write_archive: Callable[[Path], Path], lock: Path, tmp_path: Path
) -> None:
    (tmp_path / "archives").mkdir()
    with pytest.raises(PluginLockError, match=r"bad\..* contains .*evil\.jar|bad\..* contains 'a\.jar'"):
        change.add(lock, [str(write_archive(tmp_path / "archives" / name))])
    assert not lock.exists()
    assert not list(tmp_path.rglob("*.jar")), "nothing is unpacked"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "no.zip",
            b"no archive",
            r"no\.zip cannot be unpacked; it is damaged or has an unsupported format: File is not a zip file",
        ),
        (
            "no.tgz",
            b"no archive",
            r"no\.tgz cannot be unpacked; it is damaged or has an unsupported format: not a gzip file",
        ),
        ("a b.jar", b"x", "Invalid name 'a b.jar' of a Java plugin"),
    ],
)
def test_invalid_plugin_file_is_rejected(
    name: str, text: bytes, message: str, lock: Path, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(text)
    with pytest.raises(PluginLockError, match=message):
        change.add(lock, [str(tmp_path / name)])
    assert not lock.exists()


def corrupt_header(path: Path, *, header_index: int, value: int) -> Path:
    """Write an archive of one file, and change the byte at `header_index` in both copies of the header."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.jar", b"a jar " * 100)
    content = bytearray(path.read_bytes())
    for start in (content.index(b"PK\x03\x04"), content.index(b"PK\x01\x02") + 2):
        content[start + header_index] = value
    path.write_bytes(content)
    return path


def corrupt_contents(path: Path) -> Path:
    corrupt_header(path, header_index=6, value=0)
    content = bytearray(path.read_bytes())
    begin = content.index(b"a.jar") + len(b"a.jar")
    content[begin : begin + 4] = b"\xff" * 4
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("write_archive", "message"),
    [
        (
            lambda path: corrupt_header(path, header_index=6, value=1),
            "entry 'a.jar' is encrypted; create the archive without a password",
        ),
        (
            lambda path: corrupt_header(path, header_index=8, value=99),
            "it is damaged or has an unsupported format: ",
        ),
        (corrupt_contents, "it is damaged or has an unsupported format: Error -3"),
    ],
)
def test_unreadable_archive_is_rejected(
    write_archive: Callable[[Path], Path], message: str, lock: Path, tmp_path: Path
) -> None:
    result = kraal("add", str(write_archive(tmp_path / "bad.zip")), "--lock", str(lock))
    assert (result.exit_code, message in result.output) == (1, True), result.output
    assert "bad.zip cannot be unpacked" in result.output
    assert not lock.exists()


def test_two_plugins_with_the_same_folder_are_rejected(lock: Path, tmp_path: Path) -> None:
    change.add(lock, [str(write_zip(tmp_path / "one.zip", JAR))])
    files_before = read_files(plugin_path(lock))
    (tmp_path / "one.jar").write_bytes(b"x")
    with pytest.raises(
        PluginLockError, match=r"^one\.jar and one\.zip would be unpacked into the same folder, one; "
    ):
        change.add(lock, [str(tmp_path / "one.jar")])
    assert [entry.file for entry in read_lock(lock).java] == ["one.zip"]
    assert read_files(plugin_path(lock)) == files_before


@pytest.mark.parametrize("name", ["..jar", "...zip", "....tar.gz"])
def test_name_of_dots_is_rejected(lock: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"x")
    with pytest.raises(PluginLockError, match=f"Invalid name '{name}' of a Java plugin"):
        change.add(lock, [str(tmp_path / name)])
    assert not lock.exists()


def test_plugin_without_jars_or_files_is_rejected(lock: Path, tmp_path: Path) -> None:
    with pytest.raises(PluginLockError, match=r"empty\.zip contains no jars"):
        change.add(lock, [str(write_zip(tmp_path / "empty.zip", {"README": b"x"}))])
    with pytest.raises(PluginLockError, match=r"none\.tar\.gz does not exist"):
        change.add(lock, [str(tmp_path / "none.tar.gz")])
    (tmp_path / "own" / "lib").mkdir(parents=True)
    (tmp_path / "own" / "linked").symlink_to(tmp_path / "own" / "lib")
    with pytest.raises(PluginLockError, match=r"linked is a link to a directory"):
        change.add(lock, [f"{tmp_path}/own"])


def test_lock_with_a_path_of_a_java_plugin_is_invalid() -> None:
    table = '[[java]]\nname = "x"\nfile = "../x.zip"\nsha256 = "' + "0" * 64 + '"\n'
    with pytest.raises(ValueError, match=r"not a valid name of a \.jar or \.zip or \.tar\.gz or \.tgz file"):
        parse_lock("version = 1\nadded = []\n" + table)


def test_only_a_directory_with_a_slash_is_a_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kraal-orders").mkdir()
    monkeypatch.chdir(tmp_path)
    texts = ("kraal-orders", "./kraal-orders", "kraal-orders/", "org:name:1", "org:name:jar:1", "x-1.whl")
    assert [is_java(text) for text in texts] == [False, True, True, False, True, False]
