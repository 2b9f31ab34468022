"""How the process of Java plugins finds them, the first time and later."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path

import pytest

from kraal.java_plugins.discovery import Discovery


@dataclass
class Process:
    """A process that has found all plugins."""

    has_all: bool
    asked: int = 0

    def hasAllManifests(self) -> bool:  # noqa: N802 - Java's name
        """Say it, and count."""
        self.asked += 1
        return self.has_all


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of plugins, and a cache that is empty."""
    monkeypatch.setenv("KRAAL_CACHE", str(tmp_path / "cache"))
    made = tmp_path / "plugins"
    made.mkdir()
    (made / "one.jar").write_bytes(b"1")
    return made


def discovery(place: Path, mode: str | None = None) -> Discovery:
    return Discovery({"plugin.path": str(place)} | ({} if mode is None else {"plugin.discovery": mode}))


def mode(found: Discovery) -> str:
    return found.properties["plugin.discovery"]


def test_manifests_are_enough_once_they_named_all_plugins(place: Path) -> None:
    first = discovery(place)
    assert mode(first) == "hybrid_warn"
    first.scanned(Process(has_all=True))
    assert mode(first) == "service_load", "of the next process of this worker"
    later, process = discovery(place), Process(has_all=False)
    assert mode(later) == "service_load"
    later.scanned(process)
    assert process.asked == 0


def test_files_that_have_changed_are_looked_through_again(place: Path) -> None:
    discovery(place).scanned(Process(has_all=True))
    (place / "two.jar").write_bytes(b"2")
    assert mode(discovery(place)) == "hybrid_warn"


def test_files_that_are_replaced_while_the_worker_runs_are_looked_through_again(place: Path) -> None:
    found = discovery(place)
    assert mode(found) == "hybrid_warn"
    found.scanned(Process(has_all=True))
    assert mode(found) == "service_load"
    (place / "one.jar").write_bytes(b"another without manifests")
    assert mode(found) == "hybrid_warn", "of the next process"
    found.scanned(Process(has_all=False))
    assert mode(found) == "hybrid_warn"
    (place / "one.jar").write_bytes(b"a third one")
    assert mode(found) == "hybrid_warn"
    found.scanned(Process(has_all=True))
    assert (mode(found), mode(discovery(place))) == ("service_load", "service_load")


def test_manifests_are_enough_for_later_processes_if_the_cache_cannot_be_written(
    place: Path, tmp_path: Path
) -> None:
    (tmp_path / "cache").touch()
    found = discovery(place)
    assert mode(found) == "hybrid_warn"
    found.scanned(Process(has_all=True))
    assert mode(found) == "service_load"


def test_without_all_manifests_each_process_looks_through_all(place: Path) -> None:
    first = discovery(place, "HYBRID_FAIL")
    first.scanned(Process(has_all=False))
    assert mode(first) == "HYBRID_FAIL"
    assert mode(discovery(place, "HYBRID_FAIL")) == "HYBRID_FAIL"


def test_a_mode_that_was_chosen_stays(place: Path) -> None:
    process = Process(has_all=True)
    found = discovery(place, "ONLY_SCAN")
    found.scanned(process)
    assert (mode(found), process.asked) == ("ONLY_SCAN", 0)


def test_processes_of_connectors_wait_for_the_first_scan_unless_it_decides_nothing(place: Path) -> None:
    found = discovery(place)
    waiting = threading.Thread(target=found.wait, daemon=True)
    waiting.start()
    assert waiting.is_alive()
    found.scanned(Process(has_all=False))
    waiting.join(10)
    assert not waiting.is_alive()
    discovery(place, "ONLY_SCAN").wait()
    discovery(place).scanned(Process(has_all=True))
    discovery(place).wait()
