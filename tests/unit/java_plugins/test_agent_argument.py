"""Tests that a JVM counts records only for a worker with a ledger."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest

from kraal.java_plugins import jvm as module
from kraal.java_plugins.discovery import PluginFiles
from kraal.java_plugins.jvm import Jvm


@pytest.mark.parametrize(
    ("worker", "standalone", "expected"),
    [
        (None, False, ""),
        ({}, False, ""),
        ({"ledger.storage.topic": "ledger"}, False, "=ledger"),
        ({"ledger.storage.topic": "ledger"}, True, ""),
        ({"ledger.storage.file.filename": "file"}, True, "=ledger"),
        ({"ledger.storage.file.filename": "file"}, False, ""),
    ],
)
def test_agent_counts_records_with_a_ledger(
    monkeypatch: pytest.MonkeyPatch, worker: Mapping[str, str] | None, *, standalone: bool, expected: str
) -> None:
    commands: list[list[str]] = []

    def fail(command: list[str], **_: object) -> None:
        commands.append(command)
        raise OSError("no processes")

    monkeypatch.setattr(subprocess, "Popen", fail)
    monkeypatch.setattr(module, "WorkerFile", lambda *_, **__: SimpleNamespace(descriptor=0))
    monkeypatch.setattr(module, "find_java", lambda: Path("java"))
    with pytest.raises(OSError, match="no processes"):
        Jvm([Path("kraal.jar")], [], PluginFiles({}, None), worker=worker, standalone=standalone)
    assert commands[0][1] == f"-javaagent:kraal.jar{expected}"
