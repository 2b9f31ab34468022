"""Tests for `kraal apply`."""

from __future__ import annotations

import json
from pathlib import Path

from kraal.testing._simulation.plugins import FAKE_SOURCE
from tests.fakes.workers.connect import Connect
from tests.unit.client.commands.conftest import MUTATING_METHODS, create_request, flat_json
from tests.unit.client.conftest import Files, Kraal


def test_apply_creates_and_reconfigures_only_changed_connectors(
    kraal: Kraal, worker: Connect, connector_folder: str, write: Files
) -> None:
    assert kraal.out("apply", "-f", connector_folder) == "a created\nb created\nc created\n"
    assert worker.config("a") == {"name": "a", "connector.class": FAKE_SOURCE, "tasks.max": "2"}
    worker.received_requests.clear()
    assert kraal.out("apply", "-f", connector_folder) == "a unchanged\nb unchanged\nc unchanged\n"
    assert worker.requests(*MUTATING_METHODS) == []
    write("connectors/b.json", flat_json("b", **{"tasks.max": "3"}))
    assert kraal.out("apply", "-f", connector_folder) == "a unchanged\nb configured\nc unchanged\n"
    assert worker.requests(*MUTATING_METHODS) == ["PUT /connectors/b/config"]
    assert worker.states("b") == ["RUNNING"] * 4


def test_initial_state_applies_only_on_creation(kraal: Kraal, worker: Connect, write: Files) -> None:
    path = write("a.json", create_request("a", "stopped"))
    assert kraal.out("apply", "-f", path, "--wait") == "a created\na is STOPPED\n"
    kraal.out("resume", "a")
    assert kraal.out("apply", "-f", path) == "a unchanged\n"
    assert worker.states("a") == ["RUNNING", "RUNNING"]


def test_initial_offsets_apply_only_on_creation(kraal: Kraal, worker: Connect, write: Files) -> None:
    entry = {"partition": {"task": "a-0"}, "offset": {"position": 7}}
    body = {"name": "a", "config": {"connector.class": FAKE_SOURCE}, "initial_offsets": [entry]}
    path = write("a.json", json.dumps(body))
    assert kraal.out("apply", "-f", path) == "a created\n"
    assert json.loads(kraal.out("offsets", "get", "a", "-o", "json")) == {"offsets": [entry]}
    assert kraal.out("apply", "-f", path) == "a unchanged\n"
    assert worker.requests("POST") == ["POST /connectors"]


def test_apply_reconfigures_a_concurrently_created_connector(
    kraal: Kraal, worker: Connect, write: Files
) -> None:
    worker.refuse("POST", "/connectors", 409, "Connector a already exists")
    assert kraal.out("apply", "-f", write("a.json", create_request("a", "PAUSED"))) == "a configured\n"
    assert worker.requests(*MUTATING_METHODS) == ["POST /connectors", "PUT /connectors/a/config"]


def test_rejected_connector_does_not_stop_other_connectors(
    kraal: Kraal, worker: Connect, connector_folder: str, write: Files
) -> None:
    rejected_file = write("connectors/a.yaml", "name: a\nconnector.class: Unknown\n")
    malformed_file = write("connectors/b.json", "{")
    result = kraal("apply", "-f", connector_folder)
    assert (result.exit_code, result.stdout, worker.names) == (1, "c created\n", ["c"])
    lines = result.stderr.splitlines()
    assert [line.split("'")[1] for line in lines[:1]] == [malformed_file]
    assert lines[1].startswith(
        f"Error: {rejected_file}: a: {worker.url} returned 400: Failed to find any class"
    )
    [hint] = lines[2:]
    assert hint.startswith("Hint: `kraal plugins` lists")


def test_config_errors_are_on_one_line_without_secrets(kraal: Kraal, worker: Connect, write: Files) -> None:
    path = write(
        "a.json",
        flat_json("a", **{"tasks.max": "0", "my.password": "hunter2", "tasks.max.enforce": "hunter2"}),
    )
    line = kraal.error("apply", "-f", path)
    assert line == (
        f"Error: {path}: a: Invalid value 0 for configuration tasks.max: Value must be at least 1; "
        "Invalid value [hidden] for configuration tasks.max.enforce: "
        "Expected value to be either true or false"
    )
    assert worker.names == []


def test_dry_run_validates_on_the_worker_without_changes(
    kraal: Kraal, worker: Connect, connector_folder: str, write: Files
) -> None:
    worker.create("b", {"connector.class": FAKE_SOURCE, "name": "b"})
    worker.create("old", {"connector.class": FAKE_SOURCE})
    path = write("connectors/c.properties", f"name=c\nconnector.class={FAKE_SOURCE}\ntasks.max=0\n")
    result = kraal("apply", "-f", connector_folder, "--dry-run", "--prune")
    assert (result.exit_code, result.stdout) == (
        1,
        "a created (dry run)\nb unchanged (dry run)\nold deleted (dry run)\n",
    )
    assert result.stderr == (
        f"Error: {path}: c: Invalid value 0 for configuration tasks.max: Value must be at least 1\n"
    )
    assert worker.names == ["b", "old"]
    assert {request.split("/")[-1] for request in worker.requests(*MUTATING_METHODS)} == {"validate"}


def test_config_without_a_class_is_rejected_before_sending(
    kraal: Kraal, worker: Connect, write: Files
) -> None:
    line = kraal.error("apply", "--dry-run", "-f", write("a.json", '{"name": "a"}'))
    assert 'Missing required configuration "connector.class"' in line
    assert worker.requests(*MUTATING_METHODS) == []


def test_apply_deletes_connectors_only_with_prune(
    kraal: Kraal, worker: Connect, connector_folder: str, write: Files
) -> None:
    worker.create("old", {"connector.class": FAKE_SOURCE})
    kraal.out("apply", "-f", connector_folder)
    assert worker.names == ["a", "b", "c", "old"]
    malformed_file = write("connectors/d.json", "{")
    result = kraal("apply", "-f", connector_folder, "--prune")
    assert (result.exit_code, worker.names) == (1, ["a", "b", "c", "old"])
    assert "skipping --prune" in result.stderr
    Path(malformed_file).unlink()
    assert (
        kraal.out("apply", "-f", connector_folder, "--prune")
        == "a unchanged\nb unchanged\nc unchanged\nold deleted\n"
    )
    assert worker.names == ["a", "b", "c"]


def test_pruning_without_manifests_is_rejected(kraal: Kraal, worker: Connect, tmp_path: Path) -> None:
    worker.create("old", {"connector.class": FAKE_SOURCE})
    result = kraal("apply", "-f", str(tmp_path), "--prune")
    assert (result.exit_code, worker.names) == (1, ["old"])
    assert "--prune would delete every connector" in result.stderr


def test_json_output_contains_actions_and_errors(kraal: Kraal, connector_folder: str, write: Files) -> None:
    write("connectors/b.json", flat_json("b", **{"tasks.max": "0"}))
    result = kraal("apply", "-f", connector_folder, "-o", "json")
    results = json.loads(result.stdout)
    assert [(row["name"], row["action"]) for row in results] == [
        ("a", "created"),
        ("b", "failed"),
        ("c", "created"),
    ]
    assert "tasks.max" in results[1]["error"]
    assert (results[0]["file"], results[0]["dry_run"]) == (f"{connector_folder}/a.yaml", False)


def test_wait_prints_running_and_failed_connectors(
    kraal: Kraal, worker: Connect, connector_folder: str, write: Files
) -> None:
    write("connectors/b.json", flat_json("b", **{"fail.in": "start"}))
    result = kraal("apply", "-f", connector_folder, "--wait")
    assert result.exit_code == 1
    assert result.stdout.splitlines()[3:] == ["a is RUNNING", "c is RUNNING"]
    assert result.stderr.startswith(
        "Error: b failed: it is FAILED: RuntimeError: start was configured to fail"
    )
    assert worker.states("b") == ["FAILED"]


def test_unsupported_endpoint_is_an_error(kraal: Kraal, worker: Connect, connector_folder: str) -> None:
    kraal.env = {"KRAAL_URL": f"{worker.url}/wrong"}
    assert kraal.error("apply", "-f", connector_folder).endswith("returned 404: HTTP 404 Not Found")


def test_connector_is_read_from_standard_input(kraal: Kraal, worker: Connect) -> None:
    assert kraal.out("apply", "-f", "-", stdin=flat_json("a")) == "a created\n"
    assert worker.names == ["a"]


def test_malformed_file_is_a_one_line_error(kraal: Kraal, write: Files) -> None:
    path = write("a.json", '{"name": ')
    error = kraal.error("apply", "-f", path)
    assert f"at '{path}'" in error
    assert "is not valid JSON" in error
