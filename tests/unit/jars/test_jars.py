from __future__ import annotations

import hashlib
from importlib.metadata import version
from pathlib import Path

import pytest

from kraal.jars import ivy, jars
from kraal.jars.errors import JarsUnavailable
from kraal.jars.ivy import Coordinates
from kraal.jars.jars import LockedJar, ensure, ensure_locked, parse_lock, verify_checksum

CHECKSUM = "ab" * 32
CONTENT = b"a jar"
CONTENT_SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Repository:
    """A replacement for Ivy that writes the same content to every requested jar and records the requests."""

    def __init__(self, content: bytes = CONTENT) -> None:
        self.content = content
        self.requests: list[str] = []

    def retrieve(
        self, modules: list[Coordinates], into: Path, *, transitive: bool, progress: ivy.Progress
    ) -> list[Path]:
        assert not transitive
        self.requests += [coordinates.name for coordinates in modules]
        (into / "jars").mkdir()
        for coordinates in modules:
            (into / "jars" / coordinates.file_name).write_bytes(self.content)
        progress(len(modules), len(modules))
        return sorted((into / "jars").iterdir())


@pytest.fixture
def repository(monkeypatch: pytest.MonkeyPatch) -> Repository:
    fake = Repository()
    monkeypatch.setattr(ivy, "retrieve", fake.retrieve)
    return fake


def lock_jars(*names: str, sha256: str = CONTENT_SHA256) -> list[LockedJar]:
    return [LockedJar("g", Coordinates("org", name, "1"), sha256) for name in names]


def test_lock_is_parsed_by_group_in_order() -> None:
    groups = parse_lock(f"# comment\n\nb x:y:1 {CHECKSUM}\na x:z:2 {CHECKSUM} # why\nb x:w:3 {CHECKSUM}\n")
    assert [str(jar.coordinates) for jar in groups["b"]] == ["x:y:1", "x:w:3"]
    assert groups["a"] == [LockedJar("a", Coordinates("x", "z", "2"), CHECKSUM)]


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(f"x:y:1 {CHECKSUM}", id="no group"),
        pytest.param(f"g x:y {CHECKSUM}", id="no revision"),
        pytest.param("g x:y:1 abcd", id="checksum too short"),
        pytest.param(f"g x:y:1 {CHECKSUM.upper()}", id="uppercase checksum"),
        pytest.param(f"g x:y:1 {CHECKSUM} more", id="extra word"),
    ],
)
def test_malformed_line_is_an_error_with_line_number(line: str) -> None:
    with pytest.raises(JarsUnavailable, match=r"line 2 of jars\.lock"):
        parse_lock(f"# first\n{line}\n")


def test_packaged_lock_has_all_groups_and_one_checksum_per_jar() -> None:
    groups = parse_lock(jars.LOCK.read_text(encoding="utf-8"))
    assert set(groups) == {
        *("broker", "spark", "connect", "connect-4.3", "plugins", "mirror"),
        *(
            "compiler",
            "connect-tests",
            "connect-tools",
            "debezium",
            "debezium-earlier",
            "debezium-mariadb",
            *("delta", "iceberg-rest", "iceberg-tests"),
            "iceberg",
            "mongodb",
            "pubsub",
            "rabbitmq",
            "snowflake",
            "junit",
            *("connect-3.9", "connect-4.0"),
            *("mysql", "postgresql"),
            "s3a",
            "transforms",
        ),  # for builds and tests
    }
    checksums_by_jar: dict[Coordinates, set[str]] = {}
    for jar in (jar for group in groups.values() for jar in group):
        checksums_by_jar.setdefault(jar.coordinates, set()).add(jar.sha256)
    assert all(len(checksums) == 1 for checksums in checksums_by_jar.values())
    for group in ("broker", "mirror"):
        assert {jar.coordinates for jar in groups[group]} <= {
            jar.coordinates for jar in groups["connect-4.3"]
        }


def test_plugins_jvm_has_class_path_of_java_worker() -> None:
    groups = parse_lock(jars.LOCK.read_text(encoding="utf-8"))
    versions = {
        group: {jar.coordinates.name: jar.coordinates.revision for jar in groups[group]}
        for group in ("plugins", "connect")
    }
    expected_jars = versions["connect"].keys() - {"connect-file"}  # like kafka-run-class.sh
    assert versions["plugins"].keys() == expected_jars
    kafka_revisions = {
        jar.coordinates.name: jar.coordinates.revision
        for jar in groups["plugins"]
        if jar.coordinates.org == "org.apache.kafka"
    }
    mirror_revisions = {
        name: kafka_revisions.pop(name) for name in ("connect-mirror", "connect-mirror-client")
    }
    assert set(kafka_revisions.values()) == {"4.4.0"}
    assert set(mirror_revisions.values()) == {"4.3.0"}, "the repository has no later version"


def test_spark_jars_have_version_of_pyspark() -> None:
    groups = parse_lock(jars.LOCK.read_text(encoding="utf-8"))
    revisions = {
        jar.coordinates.revision for jar in groups["spark"] if jar.coordinates.org == "org.apache.spark"
    }
    assert revisions == {version("pyspark")}


def test_unknown_group_error_lists_groups() -> None:
    with pytest.raises(
        JarsUnavailable,
        match="Unknown group of jars 'nonsense'; expected one of broker, compiler, connect, ",
    ):
        ensure("nonsense")


def test_jars_are_downloaded_once(tmp_path: Path, repository: Repository) -> None:
    paths = ensure_locked(lock_jars("a", "b"), tmp_path)
    assert [path.read_bytes() for path in paths] == [CONTENT, CONTENT]
    assert ensure_locked(lock_jars("a", "b"), tmp_path) == paths
    assert repository.requests == ["a", "b"]
    assert list(tmp_path.glob(".fetch-*")) == []


def test_only_missing_jars_are_downloaded(tmp_path: Path, repository: Repository) -> None:
    ensure_locked(lock_jars("a", "b"), tmp_path)[0].unlink()
    ensure_locked(lock_jars("a", "b", "c"), tmp_path)
    assert repository.requests == ["a", "b", "a", "c"]


def test_changed_lock_is_verified_again(tmp_path: Path, repository: Repository) -> None:
    ensure_locked(lock_jars("a"), tmp_path)
    repository.content = b"new content"
    new_lock = lock_jars("a", sha256=hashlib.sha256(b"new content").hexdigest())
    assert ensure_locked(new_lock, tmp_path)[0].read_bytes() == b"new content"


def test_damaged_jar_of_incomplete_group_is_downloaded_again(tmp_path: Path, repository: Repository) -> None:
    (tmp_path / "org__a__1.jar").write_bytes(b"damaged")
    assert ensure_locked(lock_jars("a"), tmp_path)[0].read_bytes() == CONTENT
    assert repository.requests == ["a"]


def test_jar_with_wrong_checksum_is_rejected(tmp_path: Path, repository: Repository) -> None:
    repository.content = b"forged"
    checksum = hashlib.sha256(b"forged").hexdigest()
    with pytest.raises(
        JarsUnavailable,
        match=rf"org:a:1 does not match jars.lock: expected sha256 {CONTENT_SHA256}, got {checksum}",
    ):
        ensure_locked(lock_jars("a"), tmp_path)
    assert list(tmp_path.glob("*.jar")) == []


def test_missing_jar_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(JarsUnavailable, match="org:a:1 was not downloaded"):
        verify_checksum(lock_jars("a")[0], tmp_path / "org__a__1.jar")


def test_read_only_cache_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(JarsUnavailable, match="Cannot store jars in"):
        ensure_locked(lock_jars("a"), tmp_path / "file" / "jars")
