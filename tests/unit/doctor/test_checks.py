"""Tests for the findings of individual checks."""

from __future__ import annotations

import errno
import re
import resource
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from kraal.config.worker.distributed import DistributedConfig
from kraal.config.worker.listeners import Listener
from kraal.doctor import machine, plugins
from kraal.doctor.finding import Finding, Level
from kraal.doctor.listeners import check_advertised, check_free
from kraal.doctor.plugins import check_entry, check_plugins
from kraal.doctor.spark import check_secret, check_spark
from kraal.doctor.subject import Subject, read_subject

MB, GB = 2**20, 2**30
DISTRIBUTED_PROPERTIES = """\
bootstrap.servers=127.0.0.1:1
group.id=g
config.storage.topic=configs
offset.storage.topic=offsets
status.storage.topic=statuses
key.converter=org.apache.kafka.connect.json.JsonConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
"""


def levels(findings: Iterator[Finding] | list[Finding]) -> dict[str, str]:
    return {finding.id: finding.level for finding in findings}


def subject(tmp_path: Path, extra_lines: str = "") -> Subject:
    (tmp_path / "worker.properties").write_text(DISTRIBUTED_PROPERTIES + extra_lines)
    parsed_subject, findings = read_subject(tmp_path / "worker.properties")
    assert findings[0].level is Level.OK, findings
    return parsed_subject


# -- the properties file ---------------------------------------------------------------------------------------


def test_valid_file_determines_the_kind_of_worker(tmp_path: Path) -> None:
    assert isinstance(subject(tmp_path).distributed, DistributedConfig)
    file = tmp_path / "alone.properties"
    converters = "".join(line + "\n" for line in DISTRIBUTED_PROPERTIES.splitlines() if "converter" in line)
    file.write_text(f"bootstrap.servers=b:9092\noffset.storage.file.filename=o\n{converters}")
    parsed_subject, [finding, *_] = read_subject(file)
    assert parsed_subject.distributed is None
    assert (finding.level, "standalone" in finding.what) == (Level.OK, True)


def test_every_error_in_the_file_is_a_finding(tmp_path: Path) -> None:
    file = tmp_path / "worker.properties"
    file.write_text(f"{DISTRIBUTED_PROPERTIES}group.id=\nlisteners=ftp://x:1\nsession.timeout.ms=soon\n")
    parsed_subject, findings = read_subject(file)
    assert (parsed_subject.config, parsed_subject.raw["listeners"]) == (None, "ftp://x:1")
    assert len(findings) >= 2
    assert {(finding.id, finding.level) for finding in findings} == {("config.valid", Level.ERROR)}
    assert any("session.timeout.ms" in finding.what for finding in findings)


# -- the machine ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("available", "level"), [(3 * GB // 2, "ok"), (3 * GB // 2 - 1, "warning"), (0, "warning")]
)
def test_available_memory_determines_the_level(available: int, level: str) -> None:
    assert machine.check_memory(available).level == level


@pytest.mark.parametrize(
    ("limit", "available"),
    [("max", 2048), ("3000000000", 2048), ("104857600", 50 + 7), ("1", 0), (None, 2048)],
)
def test_memory_respects_the_container_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str | None, available: int
) -> None:
    (tmp_path / "meminfo").write_text(f"MemAvailable:    {2048 * 1024} kB\n")
    if limit is not None:
        (tmp_path / "memory.max").write_text(f"{limit}\n")
        (tmp_path / "memory.current").write_text(f"{50 * MB}\n")
        (tmp_path / "memory.stat").write_text(f"anon 1\ninactive_file {7 * MB}\n")
    monkeypatch.setattr(machine, "_MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(machine, "_CGROUP", tmp_path)
    memory = machine.available_memory()
    assert memory is not None
    assert memory // MB == available


@pytest.mark.parametrize(
    ("soft", "hard", "level"),
    [(1024, 4096, "ok"), (1024, 4095, "warning"), (1024, resource.RLIM_INFINITY, "ok")],
)
def test_open_files_are_checked_against_the_hard_limit(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, level: str
) -> None:
    monkeypatch.setattr("kraal.doctor.machine.resource.getrlimit", lambda _: (soft, hard))
    assert levels(machine.check_machine(Subject()))["machine.files"] == level


def test_disk_check_of_missing_directory_uses_its_parent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "data" / "kraal"
    assert str(tmp_path) in machine.check_disk(directory).what
    for free_bytes, level in ((GB, "ok"), (GB - 1, "warning")):
        monkeypatch.setattr(
            "kraal.doctor.machine.shutil.disk_usage", lambda _, b=free_bytes: type("Usage", (), {"free": b})
        )
        assert machine.check_disk(directory).level == level
    monkeypatch.setattr("kraal.doctor.machine.os.access", lambda *_: False)
    assert machine.check_disk(directory).level == "error"


# -- Java ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [None, "11.0.2"])
def test_missing_or_old_java_has_one_fix(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str | None
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    if version is not None:
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / "java").touch(0o755)
        (tmp_path / "release").write_text(f'JAVA_VERSION="{version}"\n')
    [finding] = machine.check_java()
    assert (finding.id, finding.level) == ("java.version", Level.ERROR)
    assert "JAVA_HOME" in finding.fix
    assert not re.search(r"\b([Ii]nstall|[Ss]et)\b", finding.what), "only the fix contains instructions"


@pytest.mark.parametrize(("archive", "level"), [(None, "hint"), (Path("a.jsa"), "ok")])
def test_missing_class_archive_is_a_hint(
    monkeypatch: pytest.MonkeyPatch, archive: Path | None, level: str
) -> None:
    monkeypatch.setattr(machine, "find_java", lambda: Path("/usr/bin/java"))
    monkeypatch.setattr(machine, "existing_archive", lambda: archive)
    assert levels(machine.check_java()) == {"java.version": "ok", "java.prepared": level}


# -- listeners -----------------------------------------------------------------------------------------------


def test_free_and_occupied_ports_are_distinguished() -> None:
    with socket.socket() as occupied_socket:
        occupied_socket.bind(("127.0.0.1", 0))
        occupied_socket.listen()
        port = occupied_socket.getsockname()[1]
        finding = check_free(Listener("http", "127.0.0.1", port))
        assert (finding.level, f"127.0.0.1:{port} is in use" in finding.what) == (Level.WARNING, True)
    assert check_free(Listener("http", "127.0.0.1", port)).level == "ok"


@pytest.mark.parametrize(
    ("url", "is_standalone", "level"),
    [
        ("http://127.0.0.1:8083/", True, "ok"),
        ("http://127.0.0.1:8083/", False, "warning"),
        ("http://192.0.2.1:8083/", False, "ok"),
        ("http://[2001:db8::1]:8083/", False, "ok"),
        ("http://name.invalid:8083/", False, "error"),
        ("http://name.invalid:8083/", True, "hint"),
    ],
)
def test_advertised_host_must_be_resolvable_and_reachable(url: str, is_standalone: bool, level: str) -> None:  # noqa: FBT001 - parametrized
    assert check_advertised(url, is_standalone=is_standalone).level == level


# -- plugins -------------------------------------------------------------------------------------------------


@pytest.fixture
def java_rejecting_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a fake Java that rejects one option, and fails if it would open a JMX port."""
    program = tmp_path / "java"
    program.write_text(
        """#!/bin/sh
        case "$*" in *-XX:Frob*) echo "Unrecognized VM option 'Frob'" >&2; exit 1;; *jmxremote.port*) exit 2;; esac
        """
    )
    program.chmod(0o755)
    monkeypatch.setattr(plugins, "find_java", lambda: program)


@pytest.mark.usefixtures("java_rejecting_option")
def test_plugin_path_entries_must_exist(tmp_path: Path) -> None:
    worker_subject = subject(tmp_path, f"plugin.path={tmp_path}, {tmp_path / 'none'}\n")
    assert [finding.level for finding in check_plugins(worker_subject)] == ["ok", "warning", "ok"]


@pytest.mark.usefixtures("java_rejecting_option")
def test_invalid_jvm_options_are_an_error_with_javas_message(tmp_path: Path) -> None:
    text = f"plugin.path={tmp_path}\nplugins.jvm.options=-Xmx1G -Dcom.sun.management.jmxremote.port=9999"
    findings = [
        *check_plugins(subject(tmp_path, f"{text}\n")),
        *check_plugins(subject(tmp_path, f"{text} -XX:Frob\n")),
    ]
    assert [(finding.level, finding.what) for finding in findings if finding.id == "plugins.jvm"] == [
        ("ok", "The JVM of Java plugins can start"),
        ("error", "The JVM of Java plugins cannot start: Unrecognized VM option 'Frob'"),
    ]


def test_missing_java_is_reported_only_by_the_java_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert [finding.id for finding in check_plugins(subject(tmp_path, f"plugin.path={tmp_path}\n"))] == [
        "plugins.path"
    ]


def test_plugin_path_entries_without_plugins_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").touch()
    (tmp_path / "plugin.jar").touch()
    expected_texts = {
        "empty": "is empty",
        "notes.txt": "is neither a directory nor",
        "none": "does not exist",
    }
    for name, text in expected_texts.items():
        finding = check_entry(tmp_path / name)
        assert (finding.level, text in finding.what, name in finding.what) == (Level.WARNING, True, True)
    assert check_entry(tmp_path / "plugin.jar").level is Level.OK

    def fail_to_list(_: Path) -> Iterator[Path]:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", fail_to_list)
    finding = check_entry(tmp_path / "empty")
    assert (finding.level, finding.what.endswith("cannot be read: Permission denied")) == (
        Level.WARNING,
        True,
    )


# -- Spark ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("master", "expected"),
    [
        ("local[4]", {"spark.master": "ok"}),
        ("k8s://https://k:443", {"spark.master": "skipped"}),
        ("local-cluster[1,1,1024]", {"spark.master": "skipped"}),
        ("loca[2]", {"spark.master": "error"}),
        ("spark://127.0.0.1:1", {"spark.master": "error", "spark.secret": "ok"}),
    ],
)
def test_spark_master_is_checked(tmp_path: Path, master: str, expected: dict[str, str]) -> None:
    assert (
        levels(check_spark(subject(tmp_path, f"spark.master={master}\nspark.authenticate.secret=s\n")))
        == expected
    )


def test_spark_cluster_secret_is_checked() -> None:
    assert check_secret({"spark.authenticate": "false"}).level == "warning"
    finding = check_secret({"spark.authenticate.secret": "hush"})
    assert (finding.level, "hush" in finding.what) == (Level.OK, False)
