"""Tests for the progress that commands report. The tests of `kraal.core.progress` cover the display."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from kraal.broker.broker import Broker
from kraal.cli import kafka, prepare
from kraal.cli.main import main
from kraal.client.rest import Rest
from kraal.core.progress import Progress
from kraal.dead_letters import kafka as dead_letters
from kraal.doctor import run as doctor
from kraal.doctor.finding import Finding, Level
from kraal.engine.session import class_archive
from kraal.jars import ivy, jars
from kraal.jars.ivy import Coordinates
from kraal.plugin_lock import change, java
from kraal.plugin_lock.change import Change
from kraal.plugin_lock.jars import resolve_jars
from kraal.plugin_lock.lock import Lock
from kraal.testing._simulation.plugins import FAKE_SINK, FAKE_SOURCE
from kraal.worker import mirror
from tests.fakes.kafka.dead_letters import MemoryKafka, letter
from tests.fakes.workers.connect import QuickClock, ScriptedResponse, connect

Displays = list[tuple[str, int | None, int]]


@pytest.fixture
def displays(monkeypatch: pytest.MonkeyPatch) -> Displays:
    """Return the title, total number of steps and number of completed steps of each display that has ended."""
    completed_displays: Displays = []
    original_exit = Progress.__exit__

    def end(progress: Progress, *exc: object) -> None:
        completed_displays.append((progress.what, progress.total, progress.done))
        original_exit(progress, *exc)

    monkeypatch.setattr(Progress, "__exit__", end)
    return completed_displays


def run(*arguments: str) -> str:
    result = CliRunner().invoke(main, arguments, prog_name="kraal")
    assert (result.exit_code, result.stderr) == (0, ""), result.output
    return result.stdout


def retrieve(
    coordinates: list[Coordinates], into: Path, *, transitive: bool, progress: ivy.Progress
) -> list[Path]:
    """Create every requested file, in place of Ivy."""
    del transitive
    (into / "jars").mkdir()
    files = [into / "jars" / module.file_name for module in coordinates]
    for number, path in enumerate(files, start=1):
        path.write_bytes(b"jar")
        progress(len(files), number)
    return files


def test_downloads_report_file_counts(
    displays: Displays, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ivy, "retrieve", retrieve)
    monkeypatch.setattr(jars, "verify_checksum", lambda *_: None)
    monkeypatch.setenv("KRAAL_CACHE", str(tmp_path))
    count = len(jars.parse_lock(jars.LOCK.read_text("utf-8"))["spark"])
    run("jars", "spark")
    run("jars", "spark")
    assert displays == [(f"Downloading {count} jars for spark", count, count)], (
        "existing jars report no progress"
    )
    java.resolve_java(["org.a:one:tar.gz:1"], tmp_path)
    monkeypatch.setattr(
        ivy, "retrieve", lambda coordinates, *rest, **more: retrieve([*coordinates], *rest, **more)
    )
    resolve_jars(["org.a:one:1", "org.b:two:1"], tmp_path)
    assert displays[1:] == [("Downloading Java plugins", 1, 1), ("Downloading jars", None, 2)]


def test_plugin_lock_changes_report_progress(
    displays: Displays, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change, "add", lambda *_: Change((), (), Lock()))
    run("plugins", "add", "x", "--lock", str(tmp_path / "k.lock"))
    assert displays == [("Changing the plugin lock", None, 0)]


def test_broker_start_reports_progress(displays: Displays, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Broker, "start", lambda _: "")
    monkeypatch.setattr(kafka, "_show", lambda *_, **__: None)
    run("kafka", "start")
    assert displays == [("Starting Kafka", None, 0)]


def test_doctor_checks_report_progress(displays: Displays, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "run_checks", lambda _: [Finding("java.version", Level.OK, "Java runs")])
    run("doctor")
    assert displays == [("Checking the worker's requirements", None, 0)]


def test_retried_request_reports_progress(displays: Displays, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Rest.__init__, "__kwdefaults__", {"clock": QuickClock()})
    rebalance_response = ScriptedResponse(
        409, {"error_code": 409, "message": "stale configuration"}, {"Retry-After": "3"}
    )
    with connect() as worker:
        worker.script(
            "PUT", "/connectors/a/pause", rebalance_response, rebalance_response, ScriptedResponse(202)
        )
        run("pause", "a", "--url", worker.url)
        assert displays == [(f"Waiting for {worker.url} to accept a request", None, 0)]


def test_wait_reports_connector_counts(displays: Displays) -> None:
    with connect() as worker:
        for name in ("a", "b"):
            worker.create(name, {"connector.class": FAKE_SOURCE})
        run("pause", "--all", "--url", worker.url)
        run("wait", "a", "b", "--for", "PAUSED", "--url", worker.url)
        run("pause", "a", "--wait", "--url", worker.url)
    assert displays == [("Waiting for 2 connectors", 2, 2), ("Waiting for 1 connector", 1, 1)]


def test_migration_reports_checks_and_moves(displays: Displays) -> None:
    with connect() as source, connect() as target:
        for name in ("a", "b"):
            source.create(name, {"connector.class": FAKE_SOURCE})
        run("migrate", "--from", source.url, "--to", target.url)
    assert displays == [("Checking connectors", 2, 1), ("Migrating connectors", 2, 1)], (
        "steps completed before the last one"
    )


def test_replay_reports_letter_counts(displays: Displays, monkeypatch: pytest.MonkeyPatch) -> None:
    memory_kafka = MemoryKafka()
    memory_kafka.letters["dead"] = [letter(0), letter(1, connector="other"), letter(2)]
    monkeypatch.setattr(dead_letters, "Kafka", memory_kafka)
    config = {"name": "orders-sink", "connector.class": FAKE_SINK, "topics": "orders"}
    with connect() as worker:
        worker.create("orders-sink", {**config, "errors.deadletterqueue.topic.name": "dead"})
        replay = ("dlq", "replay", "orders-sink", "--url", worker.url, "--bootstrap-servers", "k:9092")
        run(*replay, "--limit", "1")
        run(*replay)
    title = "Replaying dead letters"
    assert displays == [(title, 1, 1), (title, 2, 1)], "the total is limited by the number of offsets"


def test_prepare_reports_each_step(
    displays: Displays, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def create_archive(*arguments: object) -> None:
        report_progress = arguments[2]
        assert callable(report_progress)
        for number in range(class_archive.STEPS):
            report_progress(number, "a step")

    monkeypatch.setattr(prepare, "archive_path", lambda: tmp_path / "missing")
    monkeypatch.setattr(prepare, "ensure", lambda _: [])
    monkeypatch.setattr(prepare, "java_class_path", lambda: [tmp_path])
    monkeypatch.setattr(class_archive, "create_archive", create_archive)
    monkeypatch.setattr(mirror, "mirror_plugins", lambda: tmp_path)
    run("prepare", "--mirror")
    assert displays == [
        ("Archiving Spark's classes (150 MB)", class_archive.STEPS, class_archive.STEPS - 1),
        ("Copying MirrorMaker's plugins", None, 0),
        ("Compiling the classes for Java plugins", None, 0),
    ]
