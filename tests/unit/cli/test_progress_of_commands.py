"""Progress reported by commands; its appearance is tested with `kraal.core.progress`."""

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
from tests.fakes.workers.connect import QuickClock, Said, connect

Shown = list[tuple[str, int | None, int]]


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Shown:
    """Return the completed progress displays: title, number of steps, and number of completed steps."""
    found: Shown = []
    ended = Progress.__exit__

    def end(progress: Progress, *exc: object) -> None:
        found.append((progress.what, progress.total, progress.done))
        ended(progress, *exc)

    monkeypatch.setattr(Progress, "__exit__", end)
    return found


def run(*arguments: str) -> str:
    result = CliRunner().invoke(main, arguments, prog_name="kraal")
    assert (result.exit_code, result.stderr) == (0, ""), result.output
    return result.stdout


def retrieve(
    wanted: list[Coordinates], into: Path, *, transitive: bool, progress: ivy.Progress
) -> list[Path]:
    """Return every requested file, in place of Ivy."""
    del transitive
    (into / "jars").mkdir()
    found = [into / "jars" / each.file_name for each in wanted]
    for number, path in enumerate(found, start=1):
        path.write_bytes(b"jar")
        progress(len(found), number)
    return found


def test_downloads_report_file_counts(shown: Shown, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ivy, "retrieve", retrieve)
    monkeypatch.setattr(jars, "verify_checksum", lambda *_: None)
    monkeypatch.setenv("KRAAL_CACHE", str(tmp_path))
    count = len(jars.parse_lock(jars.LOCK.read_text("utf-8"))["spark"])
    run("jars", "spark")
    run("jars", "spark")
    assert shown == [(f"Downloading {count} jars for spark", count, count)], "nothing for what is there"
    java.resolve_java(["org.a:one:tar.gz:1"], tmp_path)
    monkeypatch.setattr(ivy, "retrieve", lambda wanted, *rest, **more: retrieve([*wanted], *rest, **more))
    resolve_jars(["org.a:one:1", "org.b:two:1"], tmp_path)
    assert shown[1:] == [("Downloading Java plugins", 1, 1), ("Downloading jars", None, 2)]


def test_plugin_lock_changes_report_progress(
    shown: Shown, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change, "add", lambda *_: Change((), (), Lock()))
    run("plugins", "add", "x", "--lock", str(tmp_path / "k.lock"))
    assert shown == [("Changing the plugin lock", None, 0)]


def test_broker_start_reports_progress(shown: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Broker, "start", lambda _: "")
    monkeypatch.setattr(kafka, "_show", lambda *_, **__: None)
    run("kafka", "start")
    assert shown == [("Starting Kafka", None, 0)]


def test_doctor_checks_report_progress(shown: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "run_checks", lambda _: [Finding("java.version", Level.OK, "Java runs")])
    run("doctor")
    assert shown == [("Checking the worker's requirements", None, 0)]


def test_retried_request_reports_progress(shown: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Rest.__init__, "__kwdefaults__", {"clock": QuickClock()})
    busy = Said(409, {"error_code": 409, "message": "stale configuration"}, {"Retry-After": "3"})
    with connect() as worker:
        worker.script("PUT", "/connectors/a/pause", busy, busy, Said(202))
        run("pause", "a", "--url", worker.url)
        assert shown == [(f"Waiting for {worker.url} to accept a request", None, 0)]


def test_wait_reports_connector_counts(shown: Shown) -> None:
    with connect() as worker:
        for name in ("a", "b"):
            worker.create(name, {"connector.class": FAKE_SOURCE})
        run("pause", "--all", "--url", worker.url)
        run("wait", "a", "b", "--for", "PAUSED", "--url", worker.url)
        run("pause", "a", "--wait", "--url", worker.url)
    assert shown == [("Waiting for 2 connectors", 2, 2), ("Waiting for 1 connector", 1, 1)]


def test_migration_reports_checks_and_moves(shown: Shown) -> None:
    with connect() as source, connect() as target:
        for name in ("a", "b"):
            source.create(name, {"connector.class": FAKE_SOURCE})
        run("migrate", "--from", source.url, "--to", target.url)
    assert shown == [("Checking connectors", 2, 1), ("Migrating connectors", 2, 1)], "done before the last"


def test_replay_reports_letter_counts(shown: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    found = MemoryKafka()
    found.letters["dead"] = [letter(0), letter(1, connector="other"), letter(2)]
    monkeypatch.setattr(dead_letters, "Kafka", found)
    config = {"name": "orders-sink", "connector.class": FAKE_SINK, "topics": "orders"}
    with connect() as worker:
        worker.create("orders-sink", {**config, "errors.deadletterqueue.topic.name": "dead"})
        replay = ("dlq", "replay", "orders-sink", "--url", worker.url, "--bootstrap-servers", "k:9092")
        run(*replay, "--limit", "1")
        run(*replay)
    what = "Replaying dead letters"
    assert shown == [(what, 1, 1), (what, 2, 1)], "at most as many as there are offsets"


def test_prepare_reports_each_step(shown: Shown, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def create_archive(*arguments: object) -> None:
        tell = arguments[2]
        assert callable(tell)
        for number in range(class_archive.STEPS):
            tell(number, "a step")

    monkeypatch.setattr(prepare, "archive_path", lambda: tmp_path / "missing")
    monkeypatch.setattr(prepare, "ensure", lambda _: [])
    monkeypatch.setattr(prepare, "java_class_path", lambda: [tmp_path])
    monkeypatch.setattr(class_archive, "create_archive", create_archive)
    monkeypatch.setattr(mirror, "mirror_plugins", lambda: tmp_path)
    run("prepare", "--mirror")
    assert shown == [
        ("Archiving Spark's classes (150 MB)", class_archive.STEPS, class_archive.STEPS - 1),
        ("Copying MirrorMaker's plugins", None, 0),
        ("Compiling the classes for Java plugins", None, 0),
    ]
