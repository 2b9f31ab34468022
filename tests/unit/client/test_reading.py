"""`kraal ls`, `status`, `describe`, `topics`, `plugins`, `loggers`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kraal.client.yaml_reader import read_yaml, typed
from kraal.ids import ConnectorName, TaskId
from kraal.testing.plugins import FAKE_SINK, FAKE_SOURCE
from tests.fakes.connect import Connect, Said
from tests.unit.client.conftest import Kraal

HOST = "127.0.0.1:8083"
TRACE = "java.io.IOException: disk full\n\tat a.b(C.java:1)\n"


@pytest.fixture
def two(worker: Connect) -> Connect:
    worker.create("orders", {"connector.class": FAKE_SOURCE, "tasks.max": "2", "my.password": "hunter2"})
    worker.create("archive", {"connector.class": FAKE_SINK, "topics": "orders"})
    worker.fail("orders", 1, TRACE)
    return worker


def test_a_list_of_connectors(kraal: Kraal, two: Connect) -> None:
    assert kraal.out("ls") == (
        "NAME      TYPE     STATE     TASKS           WORKER\n"
        f"archive   sink     RUNNING   1/1             {HOST}\n"
        f"orders    source   RUNNING   1/2, 1 failed   {HOST}\n"
    )
    assert kraal.out("ls", "-q") == "archive\norders\n"
    assert two.asked("POST", "PUT", "PATCH", "DELETE") == []


def test_nothing_is_said_on_standard_error_so_that_scripts_see_an_empty_list(kraal: Kraal) -> None:
    result = kraal("ls")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "No connectors.\n")
    assert json.loads(kraal.out("ls", "-o", "json")) == []


def test_a_status_has_a_row_for_each_task(kraal: Kraal, two: Connect) -> None:
    assert two.states("orders") == ["RUNNING", "RUNNING", "FAILED"]
    assert kraal.out("status", "orders") == (
        "NAME     TASK   STATE     WORKER           TRACE\n"
        f"orders   -      RUNNING   {HOST}\n"
        f"orders   0      RUNNING   {HOST}\n"
        f"orders   1      FAILED    {HOST}   java.io.IOException: disk full\n"
    )
    assert kraal.out("status").count("\n") == 6


@pytest.mark.parametrize("style", ["json", "yaml"])
@pytest.mark.parametrize("command", ["ls", "status"])
def test_data_is_what_the_worker_says(kraal: Kraal, two: Connect, command: str, style: str) -> None:
    text = kraal.out(command, "-o", style)
    found: Any = json.loads(text) if style == "json" else read_yaml(text, typed)[0]
    assert [each["name"] for each in found] == ["archive", "orders"]
    assert found[1] == two.worker.status("orders")


def test_a_status_of_a_stranger_is_an_error_beside_the_others(kraal: Kraal, two: Connect) -> None:
    result = kraal("status", "nobody", "archive")
    assert (result.exit_code, result.stdout.count("archive")) == (1, 2)
    assert result.stderr == f"Error: nobody: {two.url} answered 404: Connector nobody not found\n"


def test_a_connector_without_a_status_is_shown(kraal: Kraal, worker: Connect) -> None:
    worker.script("GET", "/connectors", Said(200, ["new"]))
    worker.script("GET", "/connectors?expand=status", Said(200, {}))
    assert kraal.out("ls").splitlines()[1] == "new    -      -       -       -"
    assert kraal.out("status").splitlines()[1] == "new    -      -       -        no status yet"


def test_a_trace_cannot_move_the_cursor(kraal: Kraal, two: Connect) -> None:
    two.fail("orders", 0, "\x1b[2Jgone")
    assert "\\x1b[2Jgone" in kraal.out("status")
    assert "\\x1b[2Jgone" in kraal.out("describe", "orders")
    two.fail("archive", 0, "\x9b2J\u202e")
    text = kraal.out("status", "archive", "-o", "json")
    assert "\\u009b2J\\u202e" in text
    assert json.loads(text)[0]["tasks"][0]["trace"] == "\x9b2J\u202e"


def test_describe_shows_all_but_secrets(kraal: Kraal, two: Connect) -> None:
    two.worker.fake.feed(TaskId(ConnectorName("orders"), 0), 10)
    two.worker.run()
    text = kraal.out("describe", "orders")
    assert text.startswith(
        f"Name:    orders\nType:    source\nState:   RUNNING on {HOST}, version 1.0\nTopics:  fake\n"
    )
    assert '\n  my.password: "[hidden]"\n' in text
    assert text.endswith(
        "Tasks:\n"
        "  TASK   STATE     WORKER\n"
        f"  0      RUNNING   {HOST}\n"
        f"  1      FAILED    {HOST}\n"
        "Trace of task 1:\n  java.io.IOException: disk full\n  \tat a.b(C.java:1)\n"
    )
    assert "hunter2" in kraal.out("describe", "orders", "--show-secrets")


def test_describe_hides_what_the_plugin_says_is_a_password(kraal: Kraal, worker: Connect) -> None:
    worker.create("a", {"connector.class": FAKE_SOURCE, "pin": "1234"})
    key = {"name": "pin", "type": "PASSWORD"}
    worker.script("GET", f"/connector-plugins/{FAKE_SOURCE}/config", Said(200, [key]))
    found = json.loads(kraal.out("describe", "a", "-o", "json"))
    assert found["config"]["pin"] == "[hidden]"
    assert list(found) == ["name", "type", "config", "topics", "status"]


def test_describe_of_several_gives_a_list(kraal: Kraal, two: Connect) -> None:
    del two
    assert [
        each["name"] for each in json.loads(kraal.out("describe", "orders", "archive", "-o", "json"))
    ] == [
        "orders",
        "archive",
    ]
    assert kraal.out("describe", "orders", "archive").count("Name:") == 2


def test_topics_that_are_not_tracked_are_no_error(kraal: Kraal, two: Connect) -> None:
    two.refuse("GET", "/connectors/orders/topics", 403, "Topic tracking is disabled.")
    assert "Topics:  not tracked\n" in kraal.out("describe", "orders")
    result = kraal("topics", "orders")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "answered 403: Topic tracking is disabled." in result.stderr


def test_topics_are_shown_and_forgotten(kraal: Kraal, two: Connect) -> None:
    two.worker.fake.feed(TaskId(ConnectorName("orders"), 0), 10)
    two.worker.run()
    assert kraal.out("topics") == "NAME     TOPIC\norders   fake\n"
    assert json.loads(kraal.out("topics", "orders", "-o", "json")) == {"orders": {"topics": ["fake"]}}
    assert kraal.out("topics", "orders", "--reset") == "orders: topics reset\n"
    assert kraal("topics", "orders").stderr == "No topics.\n"
    assert kraal("topics", "--reset").exit_code == 2


def test_plugins_and_their_keys(kraal: Kraal, worker: Connect) -> None:
    assert kraal.out("plugins").splitlines()[0].split() == ["CLASS", "TYPE", "VERSION"]
    assert "StringConverter" not in kraal.out("plugins")
    assert "StringConverter" in kraal.out("plugins", "--all")
    lines = kraal.out("plugins", FAKE_SOURCE).splitlines()
    assert ["tasks.max", "INT", "HIGH", "1"] in [line.split() for line in lines]
    assert "documentation" in json.loads(kraal.out("plugins", FAKE_SOURCE, "-o", "json"))[0]
    assert "Unknown plugin x." in kraal.error("plugins", "x")
    del worker


def test_loggers_are_shown_and_set(kraal: Kraal, worker: Connect) -> None:
    level = {"level": "INFO", "last_modified": None}
    worker.script(
        "GET", "/admin/loggers", Said(200, {"a.b": {"level": "DEBUG", "last_modified": 0}, "root": level})
    )
    worker.script("GET", "/admin/loggers/root", Said(200, level))
    worker.script("PUT", "/admin/loggers/a?scope=worker", Said(200, ["a", "a.b"]))
    worker.script("PUT", "/admin/loggers/a?scope=cluster", Said(204))
    assert kraal.out("loggers") == (
        "LOGGER   LEVEL   LAST MODIFIED\na.b      DEBUG   1970-01-01 00:00:00+00:00\nroot     INFO    -\n"
    )
    assert kraal.out("loggers", "root") == "LOGGER   LEVEL   LAST MODIFIED\nroot     INFO    -\n"
    assert kraal.out("loggers", "a", "debug") == "a set to DEBUG\na.b set to DEBUG\n"
    assert kraal.out("loggers", "a", "debug", "--cluster") == "a set to DEBUG on all workers\n"
    assert [json.loads(each.body) for each in worker.seen if each.body] == [{"level": "DEBUG"}] * 2
    assert kraal("loggers", "a", "--cluster").exit_code == 2


def test_a_worker_without_loggers_says_so(kraal: Kraal, worker: Connect) -> None:
    worker.refuse("GET", "/admin/loggers", 404, "HTTP 404 Not Found")
    assert "has no loggers over REST here" in kraal.error("loggers")
    worker.refuse("GET", "/admin/loggers/x", 404, "Logger x not found.")
    assert kraal.error("loggers", "x").endswith("answered 404: Logger x not found.")


def test_describe_shows_what_is_restarted_and_what_is_stalled(kraal: Kraal, worker: Connect) -> None:
    worker.create("a", {"connector.class": FAKE_SOURCE, "tasks.max": "3", "errors.auto.restart": "task"})
    worker.fail("a", 0, "OSError: disk full")
    worker.fail("a", 1, "PermissionError: not yours")
    with worker.lock:
        worker.worker.fake.hang(TaskId(ConnectorName("a"), 2))
        worker.worker.fake.feed(TaskId(ConnectorName("a"), 2), 1)
        worker.worker.scheduler.clock.advance_to(301)
    text = kraal.out("describe", "a")
    [at] = [n for n, line in enumerate(text.splitlines()) if line.startswith("Supervision")]
    head, columns, *rows = text.splitlines()[at : at + 5]
    assert head == "Supervision: failed tasks are restarted, 10 times within 3600 s at most."
    assert columns.split() == ["TASK", "WORKER", "RESTARTS", "NEXT", "RESTART", "LAST", "BATCH", "NOTE"]
    assert rows[0].split()[:4] == ["0", HOST, "0", "2023-11-14"]
    assert rows[1].split()[:5] == ["1", HOST, "0", "-", "-"]
    assert "A restart does not cure this failure" in rows[1]
    assert rows[2].endswith("stalled: at the same step for 301 s")
    found = json.loads(kraal.out("describe", "a", "-o", "json"))
    assert found["status"]["supervision"]["policy"]["restart"] == "task"


def test_describe_takes_what_java_answers(kraal: Kraal, two: Connect) -> None:
    plain = two.worker.status("orders")
    two.script("GET", "/connectors/orders/status?expand=supervision", Said(200, plain))
    assert "Supervision" not in kraal.out("describe", "orders")
