"""Tests for `kraal describe`."""

from __future__ import annotations

import json

from kraal.core.ids import ConnectorName, TaskId
from kraal.testing._simulation.plugins import FAKE_SOURCE
from tests.fakes.workers.connect import Connect, ScriptedResponse
from tests.unit.client.commands.conftest import HOST
from tests.unit.client.conftest import Files, Kraal


def test_describe_shows_all_but_secrets(kraal: Kraal, populated_worker: Connect) -> None:
    populated_worker.worker.fake.feed(TaskId(ConnectorName("orders"), 0), 10)
    populated_worker.worker.run()
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
        "Batches:\n"
        "  TASK   LATEST BATCH\n"
        "  0      in the simulation: without Spark\n"
        "Trace of task 1:\n  java.io.IOException: disk full\n  \tat a.b(C.java:1)\n"
    )
    assert "hunter2" in kraal.out("describe", "orders", "--show-secrets")


def test_describe_hides_password_keys_of_the_plugin(kraal: Kraal, worker: Connect) -> None:
    worker.create("a", {"connector.class": FAKE_SOURCE, "pin": "1234"})
    key = {"name": "pin", "type": "PASSWORD"}
    worker.script("GET", f"/connector-plugins/{FAKE_SOURCE}/config", ScriptedResponse(200, [key]))
    description = json.loads(kraal.out("describe", "a", "-o", "json"))
    assert description["config"]["pin"] == "[hidden]"
    assert list(description) == ["name", "type", "config", "topics", "status"]


def test_describe_of_several_connectors_prints_a_list(kraal: Kraal, populated_worker: Connect) -> None:
    del populated_worker
    assert [
        description["name"]
        for description in json.loads(kraal.out("describe", "orders", "archive", "-o", "json"))
    ] == [
        "orders",
        "archive",
    ]
    assert kraal.out("describe", "orders", "archive").count("Name:") == 2


def test_describe_shows_restarts_and_stalls(kraal: Kraal, worker: Connect) -> None:
    worker.create("a", {"connector.class": FAKE_SOURCE, "tasks.max": "3", "errors.auto.restart": "task"})
    worker.fail("a", 0, "OSError: disk full")
    worker.fail("a", 1, "PermissionError: not yours")
    with worker.lock:
        worker.worker.fake.hang(TaskId(ConnectorName("a"), 2))
        worker.worker.fake.feed(TaskId(ConnectorName("a"), 2), 1)
        worker.worker.scheduler.clock.advance_to(301)
    text = kraal.out("describe", "a")
    [index] = [n for n, line in enumerate(text.splitlines()) if line.startswith("Supervision")]
    title, header, *rows = text.splitlines()[index : index + 5]
    assert title == "Supervision: failed tasks are restarted, at most 10 times within 3600 s."
    assert header.split() == ["TASK", "WORKER", "RESTARTS", "NEXT", "RESTART", "LAST", "BATCH", "NOTE"]
    assert rows[0].split()[:4] == ["0", HOST, "0", "2023-11-14"]
    assert rows[1].split()[:5] == ["1", HOST, "0", "-", "-"]
    assert "A restart cannot fix this failure" in rows[1]
    assert rows[2].endswith("stalled: The batch does not complete")
    description = json.loads(kraal.out("describe", "a", "-o", "json"))
    assert description["status"]["supervision"]["policy"]["restart"] == "task"


def test_describe_shows_the_execution_mode_of_the_latest_batches(kraal: Kraal, worker: Connect) -> None:
    worker.create("a", {"connector.class": FAKE_SOURCE, "tasks.max": "2"})
    assert "Batches:" not in kraal.out("describe", "a")
    with worker.lock:
        worker.worker.fake.feed(TaskId(ConnectorName("a"), 1), 5)
        worker.worker.run()
    lines = kraal.out("describe", "a").splitlines()
    index = lines.index("Batches:")
    assert [line.split() for line in lines[index + 1 : index + 3]] == [
        ["TASK", "LATEST", "BATCH"],
        ["1", "in", "the", "simulation:", "without", "Spark"],
    ]


def test_describe_shows_java_plugins(kraal: Kraal, worker: Connect) -> None:
    config = {
        "connector.class": FAKE_SOURCE,
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "transforms": "unwrap",
        "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState",
    }
    worker.script(
        "GET", "/connectors/a", ScriptedResponse(200, {"name": "a", "type": "source", "config": config})
    )
    worker.create("a", {"connector.class": FAKE_SOURCE})
    parts = [
        {"part": "connector", "class": FAKE_SOURCE, "version": "3.6.1.Final", "runtime": "java"},
        {"part": "value.converter", "class": config["value.converter"], "version": None, "runtime": "java"},
        {
            "part": "transforms.unwrap.type",
            "class": config["transforms.unwrap.type"],
            "version": "3.7",
            "runtime": "java",
        },
    ]
    worker.script("GET", "/connectors/a/plugins", ScriptedResponse(200, parts))
    lines = kraal.out("describe", "a").splitlines()
    index = lines.index("Java plugins, run by Kafka's Worker in a separate JVM:")
    assert [line.split() for line in lines[index + 1 : index + 5]] == [
        ["PART", "CLASS", "VERSION"],
        ["connector", FAKE_SOURCE, "3.6.1.Final"],
        ["value.converter", "org.apache.kafka.connect.json.JsonConverter", "-"],
        ["transforms.unwrap.type", "io.debezium.transforms.ExtractNewRecordState", "3.7"],
    ]
    description = json.loads(kraal.out("describe", "a", "-o", "json"))
    assert description["java_plugins"][0] == {
        "part": "connector",
        "class": FAKE_SOURCE,
        "version": "3.6.1.Final",
    }
    worker.script(
        "GET",
        "/connectors/a/plugins",
        ScriptedResponse(404, {"error_code": 404, "message": "HTTP 404 Not Found"}),
    )
    assert "Java plugins" not in kraal.out("describe", "a")


def test_describe_accepts_java_responses(kraal: Kraal, populated_worker: Connect) -> None:
    java_status = populated_worker.worker.status("orders")
    populated_worker.script(
        "GET", "/connectors/orders/status?expand=supervision", ScriptedResponse(200, java_status)
    )
    assert "Supervision" not in kraal.out("describe", "orders")


def test_describe_output_can_be_applied_unless_values_are_hidden(
    kraal: Kraal, worker: Connect, write: Files
) -> None:
    worker.create("a", {"connector.class": FAKE_SOURCE, "my.password": "hunter2"})
    file_with_hidden_values = write("hidden.yaml", kraal.out("describe", "a", "-o", "yaml"))
    assert (
        "contains the masked value [hidden] for my.password"
        in kraal("apply", "-f", file_with_hidden_values).stderr
    )
    file_with_secrets = write("plain.yaml", kraal.out("describe", "a", "-o", "yaml", "--show-secrets"))
    assert kraal.out("apply", "-f", file_with_secrets) == "a unchanged\n"
