"""`kraal apply`, `diff`, `patch` and `delete`, against Kraal's own API."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kraal.testing.plugins import FAKE_SOURCE
from tests.fakes.connect import Connect, Said
from tests.unit.client.conftest import Files, Kraal

CHANGING = ("POST", "PUT", "PATCH", "DELETE")


def flat(name: str, **more: str) -> str:
    return json.dumps({"name": name, "connector.class": FAKE_SOURCE, **more})


def create_request(name: str, state: str) -> str:
    return json.dumps({"name": name, "config": {"connector.class": FAKE_SOURCE}, "initial_state": state})


@pytest.fixture
def folder(write: Files, tmp_path: Path) -> str:
    write("connectors/b.json", flat("b"))
    write("connectors/a.yaml", f"name: a\nconnector.class: {FAKE_SOURCE}\ntasks.max: 2\n")
    write("connectors/c.properties", f"name=c\nconnector.class={FAKE_SOURCE}\n")
    return str(tmp_path / "connectors")


def test_it_creates_reconfigures_and_leaves_alone(
    kraal: Kraal, worker: Connect, folder: str, write: Files
) -> None:
    assert kraal.out("apply", "-f", folder) == "a created\nb created\nc created\n"
    assert worker.config("a") == {"name": "a", "connector.class": FAKE_SOURCE, "tasks.max": "2"}
    worker.seen.clear()
    assert kraal.out("apply", "-f", folder) == "a unchanged\nb unchanged\nc unchanged\n"
    assert worker.asked(*CHANGING) == []
    write("connectors/b.json", flat("b", **{"tasks.max": "3"}))
    assert kraal.out("apply", "-f", folder) == "a unchanged\nb configured\nc unchanged\n"
    assert worker.asked(*CHANGING) == ["PUT /connectors/b/config"]
    assert worker.states("b") == ["RUNNING"] * 4


def test_the_initial_state_counts_when_it_is_created(kraal: Kraal, worker: Connect, write: Files) -> None:
    path = write("a.json", create_request("a", "stopped"))
    assert kraal.out("apply", "-f", path, "--wait") == "a created\na is STOPPED\n"
    kraal.out("resume", "a")
    assert kraal.out("apply", "-f", path) == "a unchanged\n"
    assert worker.states("a") == ["RUNNING", "RUNNING"]


def test_what_was_created_meanwhile_is_reconfigured(kraal: Kraal, worker: Connect, write: Files) -> None:
    worker.refuse("POST", "/connectors", 409, "Connector a already exists")
    assert kraal.out("apply", "-f", write("a.json", create_request("a", "PAUSED"))) == "a configured\n"
    assert worker.asked(*CHANGING) == ["POST /connectors", "PUT /connectors/a/config"]


def test_one_bad_connector_keeps_no_other_from_being_applied(
    kraal: Kraal, worker: Connect, folder: str, write: Files
) -> None:
    bad = write("connectors/a.yaml", "name: a\nconnector.class: Unknown\n")
    worse = write("connectors/b.json", "{")
    result = kraal("apply", "-f", folder)
    assert (result.exit_code, result.stdout, worker.names) == (1, "c created\n", ["c"])
    lines = result.stderr.splitlines()
    assert [line.split("'")[1] for line in lines[:1]] == [worse]
    assert lines[1].startswith(f"Error: {bad}: a: {worker.url} answered 400: Failed to find any class")
    assert len(lines) == 2


def test_all_errors_of_a_config_are_on_one_line_and_its_secrets_are_not(
    kraal: Kraal, worker: Connect, write: Files
) -> None:
    path = write(
        "a.json", flat("a", **{"tasks.max": "0", "my.password": "hunter2", "tasks.max.enforce": "hunter2"})
    )
    line = kraal.error("apply", "-f", path)
    assert line == (
        f"Error: {path}: a: Invalid value 0 for configuration tasks.max: Value must be at least 1; "
        "Invalid value [hidden] for configuration tasks.max.enforce: "
        "Expected value to be either true or false"
    )
    assert worker.names == []


def test_a_dry_run_has_the_worker_check_and_changes_nothing(
    kraal: Kraal, worker: Connect, folder: str, write: Files
) -> None:
    worker.create("b", {"connector.class": FAKE_SOURCE, "name": "b"})
    worker.create("old", {"connector.class": FAKE_SOURCE})
    path = write("connectors/c.properties", f"name=c\nconnector.class={FAKE_SOURCE}\ntasks.max=0\n")
    result = kraal("apply", "-f", folder, "--dry-run", "--prune")
    assert (result.exit_code, result.stdout) == (
        1,
        "a created (dry run)\nb unchanged (dry run)\nold deleted (dry run)\n",
    )
    assert result.stderr == (
        f"Error: {path}: c: Invalid value 0 for configuration tasks.max: Value must be at least 1\n"
    )
    assert worker.names == ["b", "old"]
    assert {each.split("/")[-1] for each in worker.asked(*CHANGING)} == {"validate"}


def test_a_config_without_a_class_is_refused_before_it_is_sent(
    kraal: Kraal, worker: Connect, write: Files
) -> None:
    line = kraal.error("apply", "--dry-run", "-f", write("a.json", '{"name": "a"}'))
    assert 'Missing required configuration "connector.class"' in line
    assert worker.asked(*CHANGING) == []


def test_nothing_is_deleted_unless_it_is_asked_for(
    kraal: Kraal, worker: Connect, folder: str, write: Files
) -> None:
    worker.create("old", {"connector.class": FAKE_SOURCE})
    kraal.out("apply", "-f", folder)
    assert worker.names == ["a", "b", "c", "old"]
    broken = write("connectors/d.json", "{")
    result = kraal("apply", "-f", folder, "--prune")
    assert (result.exit_code, worker.names) == (1, ["a", "b", "c", "old"])
    assert "nothing is deleted" in result.stderr
    Path(broken).unlink()
    assert (
        kraal.out("apply", "-f", folder, "--prune") == "a unchanged\nb unchanged\nc unchanged\nold deleted\n"
    )
    assert worker.names == ["a", "b", "c"]


def test_pruning_by_nothing_is_refused(kraal: Kraal, worker: Connect, tmp_path: Path) -> None:
    worker.create("old", {"connector.class": FAKE_SOURCE})
    result = kraal("apply", "-f", str(tmp_path), "--prune")
    assert (result.exit_code, worker.names) == (1, ["old"])
    assert "--prune would delete every connector" in result.stderr


def test_results_as_data(kraal: Kraal, folder: str, write: Files) -> None:
    write("connectors/b.json", flat("b", **{"tasks.max": "0"}))
    result = kraal("apply", "-f", folder, "-o", "json")
    found = json.loads(result.stdout)
    assert [(each["name"], each["action"]) for each in found] == [
        ("a", "created"),
        ("b", "failed"),
        ("c", "created"),
    ]
    assert "tasks.max" in found[1]["error"]
    assert (found[0]["file"], found[0]["dry_run"]) == (f"{folder}/a.yaml", False)


def test_waiting_says_what_runs_and_what_failed(
    kraal: Kraal, worker: Connect, folder: str, write: Files
) -> None:
    write("connectors/b.json", flat("b", **{"fail.in": "start"}))
    result = kraal("apply", "-f", folder, "--wait")
    assert result.exit_code == 1
    assert result.stdout.splitlines()[3:] == ["a is RUNNING", "c is RUNNING"]
    assert result.stderr.startswith("Error: b failed: it is FAILED: RuntimeError: start was told to fail")
    assert worker.states("b") == ["FAILED"]


def test_a_worker_without_an_answer_to_the_path_is_no_empty_worker(
    kraal: Kraal, worker: Connect, folder: str
) -> None:
    kraal.env = {"KRAAL_URL": f"{worker.url}/wrong"}
    assert kraal.error("apply", "-f", folder).endswith("answered 404: HTTP 404 Not Found")


def test_a_connector_may_come_from_standard_input(kraal: Kraal, worker: Connect) -> None:
    assert kraal.out("apply", "-f", "-", stdin=flat("a")) == "a created\n"
    assert worker.names == ["a"]


def test_what_describe_prints_can_be_applied_unless_something_is_hidden(
    kraal: Kraal, worker: Connect, write: Files
) -> None:
    worker.create("a", {"connector.class": FAKE_SOURCE, "my.password": "hunter2"})
    hidden = write("hidden.yaml", kraal.out("describe", "a", "-o", "yaml"))
    assert "has [hidden] for my.password" in kraal("apply", "-f", hidden).stderr
    plain = write("plain.yaml", kraal.out("describe", "a", "-o", "yaml", "--show-secrets"))
    assert kraal.out("apply", "-f", plain) == "a unchanged\n"


# --- diff -------------------------------------------------------------------------------------------------------


def test_a_diff_shows_what_apply_would_change(kraal: Kraal, worker: Connect, folder: str) -> None:
    worker.create("a", {"connector.class": FAKE_SOURCE, "tasks.max": "1", "my.password": "hunter2"})
    result = kraal("diff", "-f", folder)
    assert (result.exit_code, result.stderr) == (1, "")
    assert result.stdout == (
        f"--- a at {worker.url}\n+++ a in {folder}/a.yaml\n@@ -1,4 +1,3 @@\n"
        f" connector.class: {FAKE_SOURCE}\n-my.password: [hidden]\n name: a\n-tasks.max: 1\n+tasks.max: 2\n"
        f"--- /dev/null\n+++ b in {folder}/b.json\n@@ -0,0 +1,2 @@\n+connector.class: {FAKE_SOURCE}\n+name: b\n"
        f"--- /dev/null\n+++ c in {folder}/c.properties\n@@ -0,0 +1,2 @@\n+connector.class: {FAKE_SOURCE}\n+name: c\n"
    )
    assert worker.asked(*CHANGING) == []


def test_no_difference_is_exit_code_0(kraal: Kraal, worker: Connect, folder: str) -> None:
    kraal.out("apply", "-f", folder)
    assert kraal.out("diff", "-f", folder) == ""
    worker.create("old", {"connector.class": FAKE_SOURCE})
    assert kraal.out("diff", "-f", folder) == ""
    result = kraal("diff", "-f", folder, "--prune")
    assert (result.exit_code, result.stdout.splitlines()[:2]) == (
        1,
        [f"--- old at {worker.url}", "+++ /dev/null"],
    )


def test_a_diff_that_could_not_be_made_is_exit_code_2(kraal: Kraal, folder: str, write: Files) -> None:
    write("connectors/b.json", "{")
    assert kraal("diff", "-f", folder).exit_code == 2
    kraal.error("diff", "-f", f"{folder}/a.yaml", "--url", "http://127.0.0.1:1", code=2)


# --- patch ------------------------------------------------------------------------------------------------------


def test_a_patch_changes_some_keys(kraal: Kraal, worker: Connect, write: Files) -> None:
    worker.create("a", {"connector.class": FAKE_SOURCE, "x": "1", "y": "2", "z": "3"})
    path = write("p.json", '{"y": null, "w": 1.50, "v": true}')
    assert kraal.out("patch", "a", "x=10", "q=a=b", "--remove", "z", "-f", path) == "a configured\n"
    config = {"connector.class": FAKE_SOURCE, "name": "a", "x": "10", "q": "a=b", "w": "1.50", "v": "true"}
    assert worker.config("a") == config
    assert kraal.out("patch", "a", "x=10", "--remove", "z") == "a unchanged\n"


def test_a_dry_patch_shows_the_difference_and_what_is_wrong(kraal: Kraal, worker: Connect) -> None:
    worker.create("a", {"connector.class": FAKE_SOURCE, "my.password": "old"})
    result = kraal("patch", "a", "tasks.max=0", "my.password=hunter2", "--dry-run")
    assert result.exit_code == 1
    assert "+my.password: [hidden] (another one)\n" in result.stdout
    assert (
        result.stderr == "Error: a: Invalid value 0 for configuration tasks.max: Value must be at least 1\n"
    )
    assert "tasks.max" not in worker.config("a")


@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        (["patch", "a"], 2, "nothing to change"),
        (["patch", "a", "x"], 2, "x is not KEY=VALUE"),
        (["patch", "nobody", "x=1"], 1, "Connector nobody not found"),
        (["patch", "a", "-f", "missing.json"], 1, "No such file"),
        (["patch", "a", "name=b"], 1, "doesn't match"),
    ],
)
def test_a_patch_that_is_none(
    kraal: Kraal, worker: Connect, arguments: list[str], code: int, why: str
) -> None:
    worker.create("a", {"connector.class": FAKE_SOURCE})
    result = kraal(*arguments)
    assert (result.exit_code, why in result.stderr) == (code, True), result.stderr


# --- delete -----------------------------------------------------------------------------------------------------


def test_delete_goes_on_after_an_error(kraal: Kraal, worker: Connect, folder: str) -> None:
    kraal.out("apply", "-f", folder)
    result = kraal("delete", "a", "nobody", "b")
    assert (result.exit_code, result.stdout) == (1, "a deleted\nb deleted\n")
    assert result.stderr == f"Error: nobody: {worker.url} answered 404: Connector nobody not found\n"
    assert kraal.out("delete", "-f", folder, "--ignore-missing") == "c deleted\n"
    assert worker.names == []


def test_a_wrong_url_is_not_ignored_as_missing(kraal: Kraal, worker: Connect) -> None:
    worker.script("DELETE", "/connectors/a", Said(404, {"error_code": 404, "message": "HTTP 404 Not Found"}))
    assert "HTTP 404 Not Found" in kraal.error("delete", "a", "--ignore-missing")
