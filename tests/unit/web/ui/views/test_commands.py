from __future__ import annotations

from typing import Any

import pytest

from web.ui.views.commands import (
    BULK,
    LABELS,
    Action,
    Subject,
    action_of,
    action_result,
    confirmation,
    offered,
    request_of,
    subject_of,
    task_confirmation,
    task_restart,
    unique_names,
)


def status(state: str, *tasks: str, type_: str = "sink") -> Any:
    return {
        "name": "c",
        "connector": {"state": state, "worker_id": "w"},
        "tasks": [{"id": number, "state": each, "worker_id": "w"} for number, each in enumerate(tasks)],
        "type": type_,
    }


def asked(action: Action, *subjects: Subject) -> str:
    dialog = confirmation(action, subjects)
    return " ".join([dialog.question, *dialog.effects])


def test_each_action_is_one_request() -> None:
    assert {each: request_of(each, "a b").text for each in Action} == {
        Action.PAUSE: "PUT /connectors/a%20b/pause",
        Action.RESUME: "PUT /connectors/a%20b/resume",
        Action.STOP: "PUT /connectors/a%20b/stop",
        Action.DELETE: "DELETE /connectors/a%20b",
        Action.RESTART: "POST /connectors/a%20b/restart?includeTasks=true&onlyFailed=false",
        Action.RESTART_FAILED: "POST /connectors/a%20b/restart?includeTasks=true&onlyFailed=true",
        Action.RESTART_CONNECTOR: "POST /connectors/a%20b/restart?includeTasks=false&onlyFailed=false",
    }
    assert task_restart("..", 2).text == "POST /connectors/%2E%2E/tasks/2/restart"


@pytest.mark.parametrize(
    ("given", "actions"),
    [
        (status("RUNNING", "RUNNING"), "pause restart restart-connector stop delete"),
        (status("RUNNING", "FAILED"), "pause restart restart-failed restart-connector stop delete"),
        (status("FAILED"), "pause resume restart restart-failed restart-connector stop delete"),
        (status("PAUSED", "PAUSED"), "resume restart restart-connector stop delete"),
        (status("STOPPED"), "resume delete"),
        ({}, "pause resume restart restart-failed restart-connector stop delete"),
    ],
)
def test_actions_are_offered_by_state(given: Any, actions: str) -> None:
    subject = subject_of(given, "c")
    assert " ".join(offered(subject.state, failed=bool(subject.failed))) == actions


def test_a_stop_says_what_ends_and_what_stays() -> None:
    running = subject_of(status("RUNNING", *["RUNNING"] * 4))
    assert asked(Action.STOP, running) == (
        "Stop c? Its 4 tasks end; its config and offsets stay. While stopped, offsets can be changed."
    )
    assert "Its 1 task ends" in asked(Action.STOP, subject_of(status("RUNNING", "RUNNING")))
    assert "Their 5 tasks end; their configs and offsets stay" in asked(
        Action.STOP, running, Subject(name="d", tasks=((0, ""),))
    )


def test_a_deletion_says_what_happens_to_offsets_by_type() -> None:
    source, sink = Subject(name="a", type="source"), Subject(name="b", type="sink")
    assert asked(Action.DELETE, source) == (
        "Delete a? Its tasks end, and its config is removed. Topics and their records stay. "
        "Its offsets stay: a new connector of the same name continues from them."
    )
    assert asked(Action.DELETE, sink).endswith(
        "Its consumer group stays with its offsets until Kafka expires them."
    )
    both = asked(Action.DELETE, source, sink)
    assert both.startswith("Delete 2 connectors (a and b)? Their tasks end, and their configs are removed.")
    assert "Source offsets stay" in both
    assert "Consumer groups of sinks stay with their offsets" in both
    assert "Their consumer groups stay with their offsets" in asked(Action.DELETE, sink, sink)


def test_many_deletions_ask_for_their_number() -> None:
    subjects = [Subject(name=f"c{each}") for each in range(11)]
    assert confirmation(Action.DELETE, subjects).must_type == "11"
    assert "c9 and 1 more" in confirmation(Action.DELETE, subjects).question
    assert confirmation(Action.DELETE, subjects[:10]).must_type == ""
    assert confirmation(Action.STOP, subjects).must_type == ""


def test_only_stops_and_deletions_are_dangerous() -> None:
    assert [each for each in Action if confirmation(each, [Subject(name="c")]).dangerous] == [
        Action.STOP,
        Action.DELETE,
    ]


def test_a_restart_names_tasks_and_repeated_records() -> None:
    question = asked(Action.RESTART, subject_of(status("PAUSED", "PAUSED", "PAUSED")))
    assert (
        question
        == "Restart c and its 2 tasks? Batches in flight may be delivered again. What is paused or stopped stays so."
    )
    assert "Restart only the connector of c?" in asked(Action.RESTART_CONNECTOR, Subject(name="c"))
    assert task_confirmation("c", 2).question == "Restart task 2 of c?"


def test_a_restart_of_the_failed_names_them() -> None:
    question = asked(Action.RESTART_FAILED, subject_of(status("FAILED", "RUNNING", "FAILED", "FAILED")))
    assert question == "Restart what has failed of c? This restarts the connector and tasks 1 and 2."


def test_a_resume_of_what_failed_is_no_restart() -> None:
    assert "stays FAILED: resuming does not revive it" in asked(Action.RESUME, subject_of(status("FAILED")))
    assert "FAILED" not in asked(Action.RESUME, subject_of(status("PAUSED")))


def test_a_restarts_answer_tells_what_was_planned() -> None:
    assert action_result(Action.RESTART, "c", 202, status("RESTARTING", "RUNNING", "RESTARTING")).text == (
        "restarting the connector and task 1 (answered 202)"
    )
    assert (
        action_result(Action.RESTART_FAILED, "c", 202, status("RUNNING", "RUNNING")).text
        == "nothing to restart (answered 202)"
    )
    assert action_result(Action.RESTART_CONNECTOR, "c", 204, None).text == "restarted (answered 204)"
    assert action_result(Action.STOP, "c", 204, None).text == "will stop (answered 204)"
    assert action_result(Action.DELETE, "c", 204, None).text == "deleted (answered 204)"


def test_names_of_actions_are_those_of_the_labels() -> None:
    assert set(LABELS) == set(Action) > set(BULK)
    assert action_of("pause") is Action.PAUSE
    assert action_of("PAUSE") is action_of("") is action_of("restart-task") is None


def test_a_selection_has_each_name_once() -> None:
    assert unique_names(["b", "", "a", "b"]) == ["b", "a"]


@pytest.mark.parametrize("given", [None, [], {"connector": 1, "tasks": [1, {"id": "x"}, {"id": 1}]}])
def test_odd_statuses_are_subjects_too(given: Any) -> None:
    assert subject_of(given, "c").name == "c"
