from __future__ import annotations

from typing import Any

import pytest

from web.ui.views.commands import (
    BULK_ACTIONS,
    LABELS,
    Action,
    Subject,
    action_result,
    available_actions,
    build_request,
    confirmation,
    parse_action,
    parse_subject,
    task_confirmation,
    task_restart,
    unique_names,
)


def status(state: str, *tasks: str, type_: str = "sink") -> Any:
    return {
        "name": "c",
        "connector": {"state": state, "worker_id": "w"},
        "tasks": [
            {"id": number, "state": task_state, "worker_id": "w"} for number, task_state in enumerate(tasks)
        ],
        "type": type_,
    }


def prompt_text(action: Action, *subjects: Subject) -> str:
    dialog = confirmation(action, subjects)
    return " ".join([dialog.question, *dialog.effects])


def test_every_action_is_one_request() -> None:
    assert {action: build_request(action, "a b").text for action in Action} == {
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
    ("response", "actions"),
    [
        (status("RUNNING", "RUNNING"), "pause restart restart-connector stop delete"),
        (status("RUNNING", "FAILED"), "pause restart restart-failed restart-connector stop delete"),
        (status("FAILED"), "pause resume restart restart-failed restart-connector stop delete"),
        (status("PAUSED", "PAUSED"), "resume restart restart-connector stop delete"),
        (status("STOPPED"), "resume delete"),
        ({}, "pause resume restart restart-failed restart-connector stop delete"),
    ],
)
def test_available_actions_depend_on_state(response: Any, actions: str) -> None:
    subject = parse_subject(response, "c")
    assert " ".join(available_actions(subject.state, failed=bool(subject.failed_instances))) == actions


def test_stop_lists_its_effects() -> None:
    running_subject = parse_subject(status("RUNNING", *["RUNNING"] * 4))
    assert prompt_text(Action.STOP, running_subject) == (
        "Stop c? Its 4 tasks end; its config and offsets stay. Offsets can be changed while a connector is stopped."
    )
    assert "Its 1 task ends" in prompt_text(Action.STOP, parse_subject(status("RUNNING", "RUNNING")))
    assert "Their 5 tasks end; their configs and offsets stay" in prompt_text(
        Action.STOP, running_subject, Subject(name="d", tasks=((0, ""),))
    )


def test_deletion_lists_effects_on_offsets_by_type() -> None:
    source, sink = Subject(name="a", type="source"), Subject(name="b", type="sink")
    assert prompt_text(Action.DELETE, source) == (
        "Delete a? Its tasks end, and its config is removed. Topics and their records stay. "
        "Its offsets stay: a new connector of the same name continues from them."
    )
    assert prompt_text(Action.DELETE, sink).endswith(
        "Its consumer group stays with its offsets until Kafka expires them."
    )
    text = prompt_text(Action.DELETE, source, sink)
    assert text.startswith("Delete 2 connectors (a and b)? Their tasks end, and their configs are removed.")
    assert "Source offsets stay" in text
    assert "Consumer groups of sinks stay with their offsets" in text
    assert "Their consumer groups stay with their offsets" in prompt_text(Action.DELETE, sink, sink)


def test_bulk_deletion_requires_typing_the_connector_count() -> None:
    subjects = [Subject(name=f"c{number}") for number in range(11)]
    assert confirmation(Action.DELETE, subjects).required_text == "11"
    assert "c9 and 1 more" in confirmation(Action.DELETE, subjects).question
    assert confirmation(Action.DELETE, subjects[:10]).required_text == ""
    assert confirmation(Action.STOP, subjects).required_text == ""


def test_only_stops_and_deletions_are_dangerous() -> None:
    assert [action for action in Action if confirmation(action, [Subject(name="c")]).is_dangerous] == [
        Action.STOP,
        Action.DELETE,
    ]


def test_restart_confirmation_names_tasks_and_repeated_records() -> None:
    question = prompt_text(Action.RESTART, parse_subject(status("PAUSED", "PAUSED", "PAUSED")))
    assert (
        question == "Restart c and its 2 tasks? Batches in flight may be delivered again. "
        "Paused and stopped connectors stay paused or stopped."
    )
    assert "Restart only the connector instance of c?" in prompt_text(
        Action.RESTART_CONNECTOR, Subject(name="c")
    )
    assert task_confirmation("c", 2).question == "Restart task 2 of c?"


def test_restart_confirmation_names_failed_instances() -> None:
    question = prompt_text(
        Action.RESTART_FAILED, parse_subject(status("FAILED", "RUNNING", "FAILED", "FAILED"))
    )
    assert question == "Restart the failed instances of c? This restarts the connector and tasks 1 and 2."


def test_resume_confirmation_says_that_failed_instances_stay_failed() -> None:
    assert "stay FAILED: resuming does not restart them" in prompt_text(
        Action.RESUME, parse_subject(status("FAILED"))
    )
    assert "FAILED" not in prompt_text(Action.RESUME, parse_subject(status("PAUSED")))


def test_restart_reports_its_plan() -> None:
    assert action_result(Action.RESTART, "c", 202, status("RESTARTING", "RUNNING", "RESTARTING")).text == (
        "restarting the connector and task 1 (status 202)"
    )
    assert (
        action_result(Action.RESTART_FAILED, "c", 202, status("RUNNING", "RUNNING")).text
        == "nothing to restart (status 202)"
    )
    assert action_result(Action.RESTART_CONNECTOR, "c", 204, None).text == "restarted (status 204)"
    assert action_result(Action.STOP, "c", 204, None).text == "will stop (status 204)"
    assert action_result(Action.DELETE, "c", 204, None).text == "deleted (status 204)"


def test_actions_have_labels_and_are_parsed_by_exact_name() -> None:
    assert set(LABELS) == set(Action) > set(BULK_ACTIONS)
    assert parse_action("pause") is Action.PAUSE
    assert parse_action("PAUSE") is parse_action("") is parse_action("restart-task") is None


def test_selection_has_no_duplicate_names() -> None:
    assert unique_names(["b", "", "a", "b"]) == ["b", "a"]


@pytest.mark.parametrize("response", [None, [], {"connector": 1, "tasks": [1, {"id": "x"}, {"id": 1}]}])
def test_malformed_statuses_are_accepted_as_subjects(response: Any) -> None:
    assert parse_subject(response, "c").name == "c"
