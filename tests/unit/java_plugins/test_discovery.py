"""Tests for plugin discovery in the JVM of Java plugins, with and without a cached scan."""

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
    """A process that has scanned `plugin.path`."""

    plugins: str = SCAN
    scan_count: int = 0

    def scan(self) -> str:
        """Count the scan and return the plugins."""
        self.scan_count += 1
        return self.plugins


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a plugin directory and configure an empty cache. Return the plugin directory."""
    monkeypatch.setenv("KRAAL_CACHE", str(tmp_path / "cache"))
    directory = tmp_path / "plugins"
    directory.mkdir()
    (directory / "one.jar").write_bytes(b"1")
    return directory


def discovery(directory: Path, mode: str | None = None) -> Discovery:
    return Discovery({"plugin.path": str(directory)} | ({} if mode is None else {"plugin.discovery": mode}))


def scan(plugin_discovery: Discovery, process: Process) -> None:
    """Start a process and store its scan."""
    plugin_discovery.store_scan(plugin_discovery.next_files(), process)


def test_later_processes_reuse_the_first_scan(directory: Path) -> None:
    first_discovery = discovery(directory)
    assert first_discovery.next_files().scan is None
    scan(first_discovery, Process())
    assert first_discovery.next_files().scan == SCAN, "the next process of this worker reuses the scan"
    later, process = discovery(directory), Process()
    assert later.next_files().scan == SCAN
    scan(later, process)
    assert process.scan_count == 0


@pytest.mark.parametrize("mode", ["service_load", "only_scan", "HYBRID_FAIL"])
def test_scan_is_stored_per_discovery_mode(directory: Path, mode: str) -> None:
    scan(discovery(directory, mode), Process())
    files = discovery(directory, mode).next_files()
    assert (files.properties["plugin.discovery"], files.scan) == (mode, SCAN)
    assert discovery(directory).next_files().scan is None, "another mode may find other plugins"


def test_changed_files_are_scanned_again(directory: Path) -> None:
    scan(discovery(directory), Process())
    (directory / "two.jar").write_bytes(b"2")
    assert discovery(directory).next_files().scan is None


def test_files_replaced_at_runtime_are_scanned_again(directory: Path) -> None:
    worker_discovery = discovery(directory)
    scan(worker_discovery, Process())
    (directory / "one.jar").write_bytes(b"another")
    assert worker_discovery.next_files().scan is None
    scan(worker_discovery, Process("[]"))
    assert (worker_discovery.next_files().scan, discovery(directory).next_files().scan) == ("[]", "[]")


def test_scan_depends_on_kafka_jars_and_java_version(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scan(discovery(directory), Process())
    monkeypatch.setattr(java_module, "java_version", lambda: "99")
    assert discovery(directory).next_files().scan is None
    scan(discovery(directory), Process())
    lock = tmp_path / "jars.lock"
    lock.write_text(f"plugins org.apache.kafka:connect-runtime:9.9.9 {'0' * 64}\n")
    monkeypatch.setattr(java_module, "LOCK", lock)
    assert discovery(directory).next_files().scan is None


def test_changed_java_module_requires_a_new_scan(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = tmp_path / "java"
    sources.mkdir()
    monkeypatch.setattr(java_module, "_source_directory", lambda: sources)
    scan(discovery(directory), Process())
    (sources / "Catalog.java").write_text("class Catalog {}")
    assert discovery(directory).next_files().scan is None


def test_later_processes_reuse_a_scan_that_cannot_be_cached(directory: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").touch()
    worker_discovery = discovery(directory)
    scan(worker_discovery, Process())
    assert worker_discovery.next_files().scan == SCAN


def test_damaged_cached_scan_is_ignored(directory: Path, tmp_path: Path) -> None:
    worker_discovery = discovery(directory)
    scan(worker_discovery, Process())
    (tmp_path / "cache" / "plugins" / f"{worker_discovery.digest}.scan").write_text("[")
    assert discovery(directory).next_files().scan is None


def test_wait_for_scan_returns_once_a_scan_is_stored_or_cached(directory: Path) -> None:
    worker_discovery = discovery(directory)
    waiter = threading.Thread(target=worker_discovery.wait_for_scan, daemon=True)
    waiter.start()
    assert waiter.is_alive()
    scan(worker_discovery, Process())
    waiter.join(10)
    assert not waiter.is_alive()
    discovery(directory).wait_for_scan()


def test_scan_is_stored_for_the_files_at_process_start(directory: Path) -> None:
    worker_discovery = discovery(directory)
    files = worker_discovery.next_files()
    (directory / "one.jar").write_bytes(b"another")
    assert worker_discovery.next_files().scan is None, "the next process must scan again"
    worker_discovery.store_scan(files, Process())
    assert worker_discovery.next_files().scan is None
