"""How the process of Java plugins finds them, the first time and later."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path

import pytest

from kraal.jars import java_module
from kraal.java_plugins.discovery import Discovery

SCAN = '[{"class": "org.example.Source"}]'


@dataclass
class Process:
    """A process that has found all plugins."""

    found: str = SCAN
    calls: int = 0

    def scan(self) -> str:
        """Return the plugins, and count."""
        self.calls += 1
        return self.found


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of plugins, and a cache that is empty."""
    monkeypatch.setenv("KRAAL_CACHE", str(tmp_path / "cache"))
    directory = tmp_path / "plugins"
    directory.mkdir()
    (directory / "one.jar").write_bytes(b"1")
    return directory


def discovery(place: Path, mode: str | None = None) -> Discovery:
    return Discovery({"plugin.path": str(place)} | ({} if mode is None else {"plugin.discovery": mode}))


def scan(of: Discovery, process: Process) -> None:
    """Start a process, which scans."""
    of.store_scan(of.next_files(), process)


def test_later_processes_get_the_scan_of_the_first(place: Path) -> None:
    first = discovery(place)
    assert first.next_files().scan is None
    scan(first, Process())
    assert first.next_files().scan == SCAN, "the next process of this worker"
    later, process = discovery(place), Process()
    assert later.next_files().scan == SCAN
    scan(later, process)
    assert process.calls == 0


@pytest.mark.parametrize("mode", ["service_load", "only_scan", "HYBRID_FAIL"])
def test_every_mode_is_passed_on_and_its_scan_is_stored(place: Path, mode: str) -> None:
    first = discovery(place, mode)
    scan(first, Process())
    files = discovery(place, mode).next_files()
    assert (files.properties["plugin.discovery"], files.scan) == (mode, SCAN)
    assert discovery(place).next_files().scan is None, "another mode may find others"


def test_files_that_have_changed_are_scanned_again(place: Path) -> None:
    scan(discovery(place), Process())
    (place / "two.jar").write_bytes(b"2")
    assert discovery(place).next_files().scan is None


def test_files_that_are_replaced_while_the_worker_runs_are_scanned_again(place: Path) -> None:
    worker = discovery(place)
    scan(worker, Process())
    (place / "one.jar").write_bytes(b"another")
    assert worker.next_files().scan is None
    scan(worker, Process("[]"))
    assert (worker.next_files().scan, discovery(place).next_files().scan) == ("[]", "[]")


def test_a_scan_belongs_to_kafkas_jars_and_the_version_of_java(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scan(discovery(place), Process())
    monkeypatch.setattr(java_module, "java_version", lambda: "99")
    assert discovery(place).next_files().scan is None
    scan(discovery(place), Process())
    lock = tmp_path / "jars.lock"
    lock.write_text(f"plugins org.apache.kafka:connect-runtime:9.9.9 {'0' * 64}\n")
    monkeypatch.setattr(java_module, "LOCK", lock)
    assert discovery(place).next_files().scan is None


def test_kraal_s_own_java_that_has_changed_scans_again(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = tmp_path / "java"
    sources.mkdir()
    monkeypatch.setattr(java_module, "_sources", lambda: sources)
    scan(discovery(place), Process())
    (sources / "Catalog.java").write_text("class Catalog {}")
    assert discovery(place).next_files().scan is None


def test_later_processes_get_a_scan_that_cannot_be_cached(place: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").touch()
    worker = discovery(place)
    scan(worker, Process())
    assert worker.next_files().scan == SCAN


def test_a_cached_scan_that_is_damaged_is_not_used(place: Path, tmp_path: Path) -> None:
    worker = discovery(place)
    scan(worker, Process())
    (tmp_path / "cache" / "plugins" / f"{worker.digest}.scan").write_text("[")
    assert discovery(place).next_files().scan is None


def test_processes_of_connectors_wait_for_the_first_scan_unless_one_is_cached(place: Path) -> None:
    worker = discovery(place)
    waiting = threading.Thread(target=worker.wait, daemon=True)
    waiting.start()
    assert waiting.is_alive()
    scan(worker, Process())
    waiting.join(10)
    assert not waiting.is_alive()
    discovery(place).wait()


def test_a_scan_is_stored_for_the_files_that_its_process_was_given(place: Path) -> None:
    worker = discovery(place)
    files = worker.next_files()
    (place / "one.jar").write_bytes(b"another")
    assert worker.next_files().scan is None, "another process of the worker starts"
    worker.store_scan(files, Process())
    assert worker.next_files().scan is None
