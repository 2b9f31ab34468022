"""Tests for `kraal prepare` without Spark: the class archive already exists, and the JVM is a fake."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kraal.cli import prepare as command
from kraal.cli.main import main
from kraal.java_plugins import parts
from kraal.java_plugins.discovery import PluginFiles
from kraal.plugin_lock import change
from kraal.plugin_lock.java import plugin_path

SOURCE_DESCRIPTION = {
    "class": "org.example.Source", "kind": "source", "version": "1", "location": "x", "keys": [],
}  # fmt: skip


class FakeJvm:
    """A fake JVM that records the properties with which it was started and describes one plugin."""

    start_properties: list[Mapping[str, str]]
    close_count = 0

    def __init__(self, class_path: Sequence[Path], options: Sequence[str], plugins: PluginFiles) -> None:
        assert class_path
        assert "-Xmx64M" in options
        self.start_properties.append(plugins.properties)

    @property
    def entry(self) -> FakeJvm:
        return self

    def describe(self) -> str:
        return json.dumps([SOURCE_DESCRIPTION])

    def scan(self) -> str:
        return "[]"

    def close(self) -> None:
        type(self).close_count += 1


@pytest.fixture(autouse=True)
def completed_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Replace the steps of `kraal prepare`; return the names of the completed steps."""
    steps: list[str] = []

    def class_path() -> list[Path]:
        steps.append("classes")
        return [Path("own.jar")]

    def ensure(group: str) -> list[Path]:
        steps.append(group)
        return []

    monkeypatch.setenv("KRAAL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(command, "ensure", ensure)
    archive = tmp_path / "archive"
    archive.touch()
    monkeypatch.setattr(command, "archive_path", lambda: archive)
    monkeypatch.setattr(command, "java_class_path", class_path)
    monkeypatch.setattr(parts, "java_class_path", class_path)
    monkeypatch.setattr(FakeJvm, "start_properties", [], raising=False)
    monkeypatch.setattr(FakeJvm, "close_count", 0)
    monkeypatch.setattr(parts, "Jvm", FakeJvm)
    return steps


def prepare(*arguments: str) -> Result:
    result = CliRunner().invoke(main, ["prepare", *arguments])
    assert result.exit_code == 0, result.output
    return result


def test_prepare_is_limited_to_spark_by_default(completed_steps: list[str]) -> None:
    prepare()
    assert completed_steps == ["spark"]
    assert "into own.jar" in prepare("--java-plugins").stdout
    assert completed_steps == ["spark", "spark", "classes"]


def test_prepare_lists_the_plugins_of_a_worker_once(tmp_path: Path) -> None:
    lock = tmp_path / "k.lock"
    (tmp_path / "own.jar").write_bytes(b"x")
    change.add(lock, [str(tmp_path / "own.jar")])
    plugin_path(lock).unlink()  # as on a machine to which only the lock and its files were copied
    worker = tmp_path / "worker.properties"
    worker.write_text(
        f"kraal.plugins.lock={lock}\nplugin.path={plugin_path(lock)}\nplugins.jvm.options=-Xmx64M\n"
    )
    assert f"Listed 1 Java plugins in {plugin_path(lock)} (connectors" in prepare(str(worker)).stdout
    prepare(str(worker))
    [plugins] = FakeJvm.start_properties
    assert plugins == {"plugin.path": str(plugin_path(lock).resolve()), "plugin.discovery": "hybrid_warn"}
    assert FakeJvm.close_count == 1


def test_prepare_without_plugins_is_a_noop(tmp_path: Path) -> None:
    worker = tmp_path / "worker.properties"
    worker.write_text("group.id=x\n")
    assert "has no plugin.path" in prepare(str(worker)).stdout
    assert FakeJvm.start_properties == []


def test_missing_properties_file_is_an_error_before_any_work(
    tmp_path: Path, completed_steps: list[str]
) -> None:
    result = CliRunner().invoke(main, ["prepare", str(tmp_path / "none.properties")])
    assert (result.exit_code, completed_steps) == (1, [])
    assert "none.properties': there is no such file." in result.stderr
