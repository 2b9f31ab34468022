"""Tests for adding plugins to a lock and removing them, with pip (no index) and a fake Ivy."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kraal.cli.main import main
from kraal.cli.plugin_lock import tasks_by_worker, tasks_text
from kraal.jars import ivy
from kraal.jars.errors import JarsUnavailable
from kraal.plugin_lock import change
from kraal.plugin_lock.lock import PluginLockError, read_lock
from kraal.testing._simulation.plugins import FAKE_SOURCE
from tests.fakes.workers.connect import connect
from tests.unit.plugin_lock.test_lock import wheel

Jars = dict[str, list[str]]


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return a directory with the only wheels that pip can find."""
    index = tmp_path / "index"
    index.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    return index


@pytest.fixture
def maven(monkeypatch: pytest.MonkeyPatch) -> Jars:
    """Replace Ivy, and return the dependencies of each module in the fake repository (initially none)."""
    dependencies: Jars = {}

    def retrieve(modules: object, into: Path, *, transitive: bool, progress: ivy.Progress) -> list[Path]:
        progress(1, 0)
        assert transitive
        names = [str(module) for module in modules] if isinstance(modules, map) else []
        (into / "jars").mkdir()
        paths = []
        for name in sorted({item for module in names for item in (module, *dependencies.get(module, []))}):
            path = into / "jars" / ivy.Coordinates.parse(name).file_name
            path.write_text(name)
            paths.append(path)
        return paths

    monkeypatch.setattr(ivy, "retrieve", retrieve)
    return dependencies


def kraal(*arguments: str) -> Result:
    result = CliRunner().invoke(main, ["plugins", *arguments], prog_name="kraal")
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
    return result


def names(path: Path) -> list[str]:
    return [entry.name for entry in read_lock(path).entries]


def test_wheel_is_added_and_removed_with_its_dependencies(index: Path, tmp_path: Path) -> None:
    path = tmp_path / "k.lock"
    wheel_path = wheel(tmp_path, "mine", "1.0", requires="helping>=1")
    wheel(index, "helping", "1.0")
    added_change = change.add(path, [str(wheel_path)])
    assert names(path) == ["helping==1.0", "mine==1.0"]
    assert read_lock(path).added == (wheel_path.name,)
    assert {entry.name for entry in added_change.added} == set(names(path))
    assert (tmp_path / "k" / wheel_path.name).read_bytes() == wheel_path.read_bytes()

    wheel(index, "helping", "2.0")
    assert change.relock(path).added[0].name == "helping==2.0"
    assert names(path) == ["helping==2.0", "mine==1.0"]

    wheel_path.unlink()
    assert {entry.name for entry in change.remove(path, ["mine"]).removed} == {"helping==2.0", "mine==1.0"}
    assert names(path) == []


def test_adding_a_package_keeps_dependencies_of_extras(index: Path, tmp_path: Path) -> None:
    path = tmp_path / "k.lock"
    wheel(index, "mine", "1.0", requires="helping; extra == 'more'\nProvides-Extra: more")
    wheel(index, "helping", "1.0")
    change.add(path, ["mine[more]"])
    change.add(path, [str(wheel(tmp_path, "other", "1.0"))])
    assert names(path) == ["helping==1.0", "mine==1.0", "other==1.0"]


def test_wheel_that_conflicts_with_the_environment_is_rejected(index: Path, tmp_path: Path) -> None:
    wheel_path = wheel(index, "mine", "1.0", requires="click<8")
    with pytest.raises(
        PluginLockError, match=r"no wheels that are compatible with Kraal's environment: .*click<8"
    ):
        change.add(tmp_path / "k.lock", [str(wheel_path)])
    assert not (tmp_path / "k.lock").exists()


def test_jars_are_resolved_together_except_those_of_spark(maven: Jars, tmp_path: Path) -> None:
    path = tmp_path / "k.lock"
    maven["org.a:one:1"] = ["org.b:two:1", "org.slf4j:slf4j-api:1.7.36"]
    result = kraal("add", "org.a:one:1", "org.c:three:1", "--lock", str(path))
    assert result.exit_code == 0, result.output
    assert "skipped because Spark provides them: org.slf4j:slf4j-api:1.7.36" in result.stdout
    assert result.stdout.splitlines()[-4:-1] == [
        f"{path}: 3 jars, 0 wheels, 0 Java plugins. Restart the workers with these properties:",
        f"kraal.plugins.lock={path}",
        "Spark loads jars only when it starts, so a restart of connectors is not enough.",
    ]
    assert names(path) == ["org.a:one:1", "org.b:two:1", "org.c:three:1"]
    assert kraal("add", "org.a:one:2", "--lock", str(path)).exit_code == 0
    assert read_lock(path).added == ("org.a:one:2", "org.c:three:1")
    assert names(path) == ["org.a:one:2", "org.c:three:1"]
    list_result = kraal("list", "--lock", str(path))
    assert [line.split()[:3] for line in list_result.stdout.splitlines()[1:]] == [
        ["jar", "org.a:one:2", "added"],
        ["jar", "org.c:three:1", "added"],
    ]
    assert kraal("remove", "org.a:one", "org.c:three:1", "--lock", str(path)).exit_code == 0
    assert names(path) == []
    assert "No plugins" in kraal("list", "--lock", str(path)).stderr


@pytest.mark.parametrize(
    ("missing", "has_hint"),
    [(["org.far:away:9"], True), (["org.a:one:1", "org.far:away:9"], False), ([], False)],
)
def test_missing_dependency_prints_a_hint_to_add_the_connector_archive(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, missing: list[str], *, has_hint: bool
) -> None:
    def retrieve(*_: object, **__: object) -> list[Path]:
        raise JarsUnavailable("Failed to download it.", hint="Use a mirror.", missing=missing)

    monkeypatch.setattr(ivy, "retrieve", retrieve)
    result = kraal("add", "org.a:one:1", "--lock", str(tmp_path / "k.lock"))
    error, hint = result.stderr.splitlines()[-2:]
    assert (result.exit_code, error) == (1, "Error: Failed to download it.")
    assert hint.startswith("Hint: If org.a:one:1 is a connector") == has_hint
    assert ("contains its dependencies: org.a:one:tar.gz:plugin:1 (`zip`" in hint) == has_hint
    assert hint.endswith("Use a mirror.")


def test_connector_added_as_a_spark_jar_prints_a_hint(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def retrieve(_: object, into: Path, **__: object) -> list[Path]:
        (into / "jars").mkdir()
        paths = [
            into / "jars" / ivy.Coordinates.parse(f"org.a:{name}:1").file_name for name in ("one", "two")
        ]
        for path in paths:
            with zipfile.ZipFile(path, "w") as jar:
                jar.writestr("META-INF/services/org.apache.kafka.connect.sink.SinkConnector", "org.a.Sink")
        return paths

    monkeypatch.setattr(ivy, "retrieve", retrieve)
    result = kraal("add", "org.a:one:1", "--lock", str(tmp_path / "k.lock"))
    assert result.exit_code == 0
    hints = [line for line in result.stderr.splitlines() if line.startswith("Hint: ")]
    assert len(hints) == 1, "only for requested plugins"
    assert hints[0].startswith("Hint: org.a:one:1 contains Kafka Connect connectors")
    assert "org.a:one:tar.gz:plugin:1" in hints[0]


def test_packages_of_spark_cannot_be_added(maven: Jars, tmp_path: Path) -> None:
    del maven
    result = kraal("add", "org.slf4j:slf4j-api:2.0.17", "--lock", str(tmp_path / "k.lock"))
    assert (result.exit_code, "because Spark already provides slf4j-api" in result.stderr) == (1, True)


def test_tasks_that_a_restart_stops_are_printed(maven: Jars, tmp_path: Path) -> None:
    del maven
    path = str(tmp_path / "k.lock")
    with connect() as worker:
        worker.create("orders", {"connector.class": FAKE_SOURCE, "tasks.max": "2"})
        result = kraal("add", "org.a:one:1", "--lock", path, "--worker", worker.url)
    assert result.stdout.splitlines()[-1].endswith("stops: orders-0, orders-1"), result.output
    failed_result = kraal("add", "org.a:one:2", "--lock", path, "--worker", "http://127.0.0.1:1")
    assert failed_result.exit_code == 1
    assert "was changed, but the tasks that a restart stops are unknown" in failed_result.stderr


def test_json_output_contains_changes_and_stopped_tasks(maven: Jars, tmp_path: Path) -> None:
    maven["org.a:one:1"] = ["org.b:two:1"]
    path = str(tmp_path / "k.lock")
    with connect() as worker:
        worker.create("orders", {"connector.class": FAKE_SOURCE, "tasks.max": "1"})
        result = kraal("add", "org.a:one:1", "--lock", path, "--worker", worker.url, "-o", "json")
    output = json.loads(result.stdout)
    assert (output["lock"], output["gone"], output["provided_by_spark"]) == (path, [], [])
    assert [(row["kind"], row["name"]) for row in output["new"]] == [
        ("jar", "org.a:one:1"),
        ("jar", "org.b:two:1"),
    ]
    assert [*output["restart_stops"].values()] == [["orders-0"]]
    listed_plugins = json.loads(kraal("list", "--lock", path, "-o", "json").stdout)
    assert [plugin.pop("added") for plugin in listed_plugins] == [True, False]
    assert listed_plugins == output["new"]
    removal_output = json.loads(kraal("remove", "org.a:one", "--lock", path, "-o", "json").stdout)
    assert (removal_output["gone"], removal_output["restart_stops"]) == (["org.a:one:1", "org.b:two:1"], None)
    assert kraal("list", "--lock", path, "-o", "yaml").stdout == "[]\n"


def test_only_running_and_paused_tasks_are_listed_as_stopped() -> None:
    tasks = [
        {"id": number, "state": state, "worker_id": "w:1"}
        for number, state in enumerate(("RUNNING", "FAILED", "PAUSED", "UNASSIGNED"))
    ]
    owners = tasks_by_worker({"a": {"tasks": tasks}, "b": None})
    assert owners == {"w:1": ["a-0", "a-2"]}
    assert tasks_text(owners) == "A restart of worker w:1 stops: a-0, a-2"
    assert tasks_text({}) == "No tasks are running; a restart of the workers stops none."


@pytest.mark.parametrize("command", [["remove", "x"], ["lock"]])
def test_missing_lock_is_not_created_by_remove_and_lock(command: list[str], tmp_path: Path) -> None:
    result = kraal(*command, "--lock", str(tmp_path / "k.lock"))
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert "does not exist; create it with `kraal plugins add`" in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["add", "remove", "lock", "list"])
def test_each_command_has_help_and_examples(command: str) -> None:
    text = kraal(command, "--help").stdout
    assert f"kraal plugins {command}" in text.split("Examples:")[1]
    assert "Exit codes: 0" in text
