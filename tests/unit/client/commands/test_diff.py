"""Tests for `kraal diff`."""

from __future__ import annotations

import json

from kraal.testing._simulation.plugins import FAKE_SOURCE
from tests.fakes.workers.connect import Connect
from tests.unit.client.commands.conftest import MUTATING_METHODS
from tests.unit.client.conftest import Files, Kraal


def test_diff_shows_what_apply_would_change(kraal: Kraal, worker: Connect, connector_folder: str) -> None:
    worker.create("a", {"connector.class": FAKE_SOURCE, "tasks.max": "1", "my.password": "hunter2"})
    result = kraal("diff", "-f", connector_folder)
    assert (result.exit_code, result.stderr) == (1, "")
    assert result.stdout == (
        f"--- a at {worker.url}\n+++ a in {connector_folder}/a.yaml\n@@ -1,4 +1,3 @@\n"
        f" connector.class: {FAKE_SOURCE}\n-my.password: [hidden]\n name: a\n-tasks.max: 1\n+tasks.max: 2\n"
        f"--- /dev/null\n+++ b in {connector_folder}/b.json\n"
        f"@@ -0,0 +1,2 @@\n+connector.class: {FAKE_SOURCE}\n+name: b\n"
        f"--- /dev/null\n+++ c in {connector_folder}/c.properties\n"
        f"@@ -0,0 +1,2 @@\n+connector.class: {FAKE_SOURCE}\n+name: c\n"
    )
    assert worker.requests(*MUTATING_METHODS) == []


def test_equal_configs_exit_with_0(kraal: Kraal, worker: Connect, connector_folder: str) -> None:
    kraal.out("apply", "-f", connector_folder)
    assert kraal.out("diff", "-f", connector_folder) == ""
    worker.create("old", {"connector.class": FAKE_SOURCE})
    assert kraal.out("diff", "-f", connector_folder) == ""
    result = kraal("diff", "-f", connector_folder, "--prune")
    assert (result.exit_code, result.stdout.splitlines()[:2]) == (
        1,
        [f"--- old at {worker.url}", "+++ /dev/null"],
    )


def test_failed_diff_exits_with_2(kraal: Kraal, connector_folder: str, write: Files) -> None:
    write("connectors/b.json", "{")
    assert kraal("diff", "-f", connector_folder).exit_code == 2
    kraal.error("diff", "-f", f"{connector_folder}/a.yaml", "--url", "http://127.0.0.1:1", code=2)


def test_data_formats_list_changed_keys_without_secrets(
    kraal: Kraal, worker: Connect, connector_folder: str
) -> None:
    worker.create("a", {"connector.class": FAKE_SOURCE, "tasks.max": "1", "my.password": "hunter2"})
    worker.create("old", {"connector.class": FAKE_SOURCE})
    result = kraal("diff", "-f", connector_folder, "--prune", "-o", "json")
    assert (result.exit_code, result.stderr, "hunter2" in result.stdout) == (1, "", False)
    by_name = {difference["name"]: difference for difference in json.loads(result.stdout)}
    assert by_name["a"] == {
        "name": "a",
        "action": "configured",
        "file": f"{connector_folder}/a.yaml",
        "keys": {
            "my.password": {"before": "[hidden]", "after": None},
            "tasks.max": {"before": "1", "after": "2"},
        },
    }
    assert {name: difference["action"] for name, difference in by_name.items()} == {
        "a": "configured",
        "b": "created",
        "c": "created",
        "old": "deleted",
    }
    assert by_name["b"]["keys"]["name"] == {"before": None, "after": "b"}
    kraal.out("apply", "-f", connector_folder, "--prune")
    assert kraal.out("diff", "-f", connector_folder, "-o", "yaml") == "[]\n"


def test_malformed_file_is_a_one_line_error(kraal: Kraal, write: Files) -> None:
    assert "is not valid JSON" in kraal.error("diff", "-f", write("a.json", '{"name": '), code=2)
