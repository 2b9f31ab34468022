"""Single checks: what they say of what they find."""

from __future__ import annotations

import resource
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from kraal.config.worker.distributed import DistributedConfig, InternalTopic
from kraal.config.worker.listeners import Listener
from kraal.core.errors import StoreError
from kraal.doctor import broker, java, machine
from kraal.doctor.broker import check_kafka, check_topic
from kraal.doctor.finding import Finding, Level
from kraal.doctor.listeners import advertised, free
from kraal.doctor.plugins import check_plugins
from kraal.doctor.spark import check_spark, reachable, secret
from kraal.doctor.subject import Subject, read_subject
from kraal.jars.errors import JavaMissing
from kraal.kafka.topics import Described

MB, GB = 2**20, 2**30
DISTRIBUTED = """\
bootstrap.servers=127.0.0.1:1
group.id=g
config.storage.topic=configs
offset.storage.topic=offsets
status.storage.topic=statuses
key.converter=org.apache.kafka.connect.json.JsonConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
"""


def levels(findings: Iterator[Finding] | list[Finding]) -> dict[str, str]:
    return {each.id: each.level for each in findings}


def subject(tmp_path: Path, more: str = "") -> Subject:
    (tmp_path / "worker.properties").write_text(DISTRIBUTED + more)
    found, findings = read_subject(tmp_path / "worker.properties")
    assert findings[0].level is Level.OK, findings
    return found


# -- the worker's file ---------------------------------------------------------------------------------------


def test_a_valid_file_tells_the_kind_of_worker(tmp_path: Path) -> None:
    assert isinstance(subject(tmp_path).distributed, DistributedConfig)
    file = tmp_path / "alone.properties"
    converters = "".join(line + "\n" for line in DISTRIBUTED.splitlines() if "converter" in line)
    file.write_text(f"bootstrap.servers=b:9092\noffset.storage.file.filename=o\n{converters}")
    found, [finding, *_] = read_subject(file)
    assert found.distributed is None
    assert (finding.level, "standalone" in finding.what) == (Level.OK, True)


def test_each_error_of_the_file_is_a_finding(tmp_path: Path) -> None:
    file = tmp_path / "worker.properties"
    file.write_text(f"{DISTRIBUTED}group.id=\nlisteners=ftp://x:1\nsession.timeout.ms=soon\n")
    found, findings = read_subject(file)
    assert (found.config, found.raw["listeners"]) == (None, "ftp://x:1")
    assert len(findings) >= 2
    assert {(each.id, each.level) for each in findings} == {("config.valid", Level.ERROR)}
    assert any("session.timeout.ms" in each.what for each in findings)


def test_a_file_that_does_not_exist(tmp_path: Path) -> None:
    _, [finding] = read_subject(tmp_path / "none.properties")
    assert (finding.id, finding.level) == ("config.valid", Level.ERROR)
    assert "none.properties" in finding.what


def test_warnings_of_the_worker_are_findings(tmp_path: Path) -> None:
    (tmp_path / "w.properties").write_text(f"{DISTRIBUTED}listenrs=http://:8083\n")
    _, findings = read_subject(tmp_path / "w.properties")
    assert ("config.warning", Level.WARNING) in {(each.id, each.level) for each in findings}


# -- the machine ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("available", "level"), [(3 * GB // 2, "ok"), (3 * GB // 2 - 1, "warning"), (0, "warning")]
)
def test_memory(available: int, level: str) -> None:
    assert machine.memory(available).level == level


def test_available_memory_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "meminfo"
    monkeypatch.setattr(machine, "_MEMINFO", file)
    assert machine.available_memory() is None
    file.write_text("MemTotal:  8 kB\nMemAvailable:    2048 kB\n")
    assert machine.available_memory() == 2 * MB


@pytest.mark.parametrize(
    ("limit", "level"), [(4096, "ok"), (4095, "warning"), (resource.RLIM_INFINITY, "ok")]
)
def test_open_files(limit: int, level: str) -> None:
    assert machine.files(limit).level == level


@pytest.mark.parametrize(
    ("soft", "hard", "level"),
    [(1024, 4096, "ok"), (1024, 4095, "warning"), (1024, resource.RLIM_INFINITY, "ok")],
)
def test_open_files_are_those_that_a_worker_reaches_by_raising_its_soft_limit(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, level: str
) -> None:
    monkeypatch.setattr("kraal.doctor.machine.resource.getrlimit", lambda _: (soft, hard))
    assert levels(machine.check_machine(Subject()))["machine.files"] == level


def test_the_disk_of_a_directory_that_is_still_to_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "data" / "kraal"
    assert str(tmp_path) in machine.disk(directory).what
    for free_bytes, level in ((GB, "ok"), (GB - 1, "warning")):
        monkeypatch.setattr(
            "kraal.doctor.machine.shutil.disk_usage", lambda _, b=free_bytes: type("Usage", (), {"free": b})
        )
        assert machine.disk(directory).level == level
    monkeypatch.setattr("kraal.doctor.machine.os.access", lambda *_: False)
    assert machine.disk(directory).level == "error"


def test_the_data_directory_of_the_file_is_examined(tmp_path: Path) -> None:
    found = subject(tmp_path, f"kraal.data.dir={tmp_path / 'mine'}\n")
    assert machine.scratch_of(found) == tmp_path / "mine"


# -- Java ----------------------------------------------------------------------------------------------------


def test_java_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> Path:
        raise JavaMissing("Java was not found")

    monkeypatch.setattr(java, "find_java", missing)
    [finding] = java.check_java()
    assert (finding.id, finding.level, finding.what) == ("java.version", Level.ERROR, "Java was not found")


@pytest.mark.parametrize(("archive", "level"), [(None, "hint"), (Path("a.jsa"), "ok")])
def test_java_with_and_without_an_archive_of_classes(
    monkeypatch: pytest.MonkeyPatch, archive: Path | None, level: str
) -> None:
    monkeypatch.setattr(java, "find_java", lambda: Path("/usr/bin/java"))
    monkeypatch.setattr(java, "known_archive", lambda: archive)
    assert levels(java.check_java()) == {"java.version": "ok", "java.prepared": level}


# -- listeners -----------------------------------------------------------------------------------------------


def test_a_port_that_is_free_and_one_that_is_in_use() -> None:
    with socket.socket() as used:
        used.bind(("127.0.0.1", 0))
        used.listen()
        port = used.getsockname()[1]
        finding = free(Listener("http", "127.0.0.1", port))
        assert (finding.level, f"127.0.0.1:{port} is in use" in finding.what) == (Level.WARNING, True)
    assert free(Listener("http", "127.0.0.1", port)).level == "ok"


def test_an_address_of_another_machine_cannot_be_listened_on() -> None:
    assert free(Listener("http", "192.0.2.1", 8083)).level == "error"


@pytest.mark.parametrize(
    ("url", "alone", "level"),
    [
        ("http://127.0.0.1:8083/", True, "ok"),
        ("http://127.0.0.1:8083/", False, "warning"),
        ("http://192.0.2.1:8083/", False, "ok"),
        ("http://[2001:db8::1]:8083/", False, "ok"),
        ("http://name.invalid:8083/", False, "error"),
        ("http://name.invalid:8083/", True, "hint"),
    ],
)
def test_the_advertised_host(url: str, alone: bool, level: str) -> None:  # noqa: FBT001 - parametrized
    assert advertised(url, alone=alone).level == level


# -- Kafka ---------------------------------------------------------------------------------------------------

TOPIC = InternalTopic(
    key="config.storage.topic", name="configs", partitions=1, replication_factor=3, settings={}
)


class FakeAdmin:
    """Knows one topic, or none."""

    def __init__(self, found: Described | str, policy: set[str]) -> None:
        self._found = found
        self._policy = policy

    def describe(self, topic: str) -> Described:
        if isinstance(self._found, str):
            raise StoreError(self._found.format(topic))
        return self._found

    def cleanup_policy(self, topic: str) -> frozenset[str]:
        assert topic == "configs"
        return frozenset(self._policy)


@pytest.mark.parametrize(
    ("found", "policy", "expected"),
    [
        (Described("id", 1, 3), {"compact"}, {"topics.exist": "ok"}),
        (Described("id", 1, 3), set(), {"topics.exist": "ok"}),
        (Described("id", 25, 3), {"compact"}, {"topics.exist": "ok", "topics.partitions": "error"}),
        (Described("id", 1, 1), {"compact"}, {"topics.exist": "ok", "topics.replicas": "hint"}),
        (Described("id", 1, 3), {"compact", "delete"}, {"topics.exist": "ok", "topics.cleanup": "error"}),
        ("the topic '{}' does not exist on the brokers", {""}, {"topics.exist": "hint"}),
        ("cannot look up the topic '{}': not authorized", {""}, {"topics.exist": "error"}),
    ],
)
def test_an_internal_topic(found: Described | str, policy: set[str], expected: dict[str, str]) -> None:
    admin = FakeAdmin(found, policy)
    assert levels(check_topic(admin, TOPIC, single=True)) == expected  # type: ignore[arg-type]


def test_only_the_config_topic_must_have_one_partition() -> None:
    admin = FakeAdmin(Described("id", 25, 3), {"compact"})
    assert levels(check_topic(admin, TOPIC, single=False)) == {"topics.exist": "ok"}  # type: ignore[arg-type]


def test_without_a_broker_topics_are_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object, **__: object) -> str:
        raise StoreError("no Kafka broker answers at 127.0.0.1:1: Connection refused")

    monkeypatch.setattr(broker, "cluster_id", away)
    assert levels(check_kafka(subject(tmp_path))) == {"broker.reachable": "error", "topics.exist": "skipped"}
    assert list(check_kafka(Subject())) == []


# -- plugins -------------------------------------------------------------------------------------------------


def test_entries_of_plugin_path(tmp_path: Path) -> None:
    found = subject(tmp_path, f"plugin.path={tmp_path}, {tmp_path / 'none'}\n")
    assert [each.level for each in check_plugins(found)] == ["ok", "warning"]


def test_a_lock_that_is_not_there(tmp_path: Path) -> None:
    [finding] = check_plugins(subject(tmp_path, f"kraal.plugins.lock={tmp_path / 'plugins.lock'}\n"))
    assert (finding.id, finding.level) == ("plugins.lock", Level.ERROR)


# -- Spark ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("master", "expected"),
    [
        ("local[4]", {"spark.master": "ok"}),
        ("k8s://https://k:443", {"spark.master": "skipped"}),
        ("local-cluster[1,1,1024]", {"spark.master": "skipped"}),
        ("spark://127.0.0.1:1", {"spark.master": "error", "spark.secret": "ok"}),
    ],
)
def test_masters(tmp_path: Path, master: str, expected: dict[str, str]) -> None:
    assert (
        levels(check_spark(subject(tmp_path, f"spark.master={master}\nspark.authenticate.secret=s\n")))
        == expected
    )


def test_one_master_of_several_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert reachable(f"spark://127.0.0.1:1,127.0.0.1:{port}").level == "ok"
    assert "127.0.0.1:x" in reachable("spark://127.0.0.1:x").what


def test_secrets_of_a_cluster() -> None:
    assert secret({"spark.authenticate": "false"}).level == "warning"
    finding = secret({"spark.authenticate.secret": "hush"})
    assert (finding.level, "hush" in finding.what) == (Level.OK, False)
