from __future__ import annotations

from dataclasses import replace

import pytest

from scripts.chaos_run.clients import Call
from scripts.chaos_run.leaks import Resources, find_leaks, get_thread_kind
from scripts.chaos_run.lines import check_delivery, make_line
from scripts.chaos_run.responses import find_defect
from scripts.chaos_run.settling import describe_difference, get_recovery_limit_s, list_corrections
from scripts.chaos_run.verdict import Findings, make_verdict, meets_all_guarantees

COMPLETE_DELIVERY = check_delivery("pipe-0", 3, [make_line("pipe-0", n)[:-1] for n in (0, 1, 0, 1, 2)])
FINDINGS = Findings(
    deliveries={"pipe-0": COMPLETE_DELIVERY},
    responses={200: 5, 409: 1},
    unanswered_count=2,
    malformed_responses=[],
    recovery_s=3.5,
    recovery_limit_s=60,
    missing="",
    unexpected_exits=[],
    unexpected_deaths=[],
    offset_regressions=[],
    delayed_offsets=[],
    commits=7,
    exactly_once_violations=[],
    out_of_order=[],
    violations=[],
    leaks=[],
    remaining_processes=[],
    failed_faults=[],
    proof_disagreements=[],
    ledger_disagreements=[],
    standstill_s=4.25,
    lane_events={"started": 3, "ended": 1},
    faults={"kill -9 of the broker": 2},
)


def test_verdict_of_a_successful_run_contains_figures() -> None:
    lines = make_verdict(FINDINGS)
    assert meets_all_guarantees(lines)
    texts = "\n".join(line.text for line in lines)
    assert "faults: 2 x kill -9 of the broker" in texts
    assert "lanes: 1 x ended, 3 x started" in texts
    assert "REST: 5 x 200, 1 x 409; 2 without a response" in texts
    assert "records: 3; 2 duplicates in 1 stretches" in texts
    assert "longest standstill of a pipe: 4.2 s" in texts
    assert "pipe-0: 3 of 3 records delivered" in texts
    assert "target state reached after 3.5 s (limit 60 s)" in texts


@pytest.mark.parametrize(
    ("findings", "text"),
    [
        (
            replace(FINDINGS, deliveries={"p": check_delivery("p", 2, [make_line("p", 0)[:-1]])}),
            "first missing: 1",
        ),
        (
            replace(FINDINGS, deliveries={"p": check_delivery("p", 1, [make_line("p", 0)[:-1], b"x"])}),
            "such as b'x'",
        ),
        (replace(FINDINGS, deliveries={"p": check_delivery("p", 0, [])}), "p: nothing was written"),
        (replace(FINDINGS, recovery_s=None, missing="c is FAILED"), "never (limit 60 s): c is FAILED"),
        (replace(FINDINGS, recovery_s=61.0), "after 61.0 s (limit 60 s)"),
        (replace(FINDINGS, malformed_responses=["418"]), "418"),
        (replace(FINDINGS, unexpected_exits=["worker 1 exited with 4"]), "worker 1 exited with 4"),
        (replace(FINDINGS, unexpected_deaths=["herder died"]), "herder died"),
        (replace(FINDINGS, offset_regressions=["from 9 to 3"]), "from 9 to 3"),
        (replace(FINDINGS, commits=0), "no commits were checked"),
        (replace(FINDINGS, leaks=[str(n) for n in range(7)]), "violated 7 times"),
        (replace(FINDINGS, remaining_processes=["java"]), "java"),
        (
            replace(FINDINGS, exactly_once_violations=["offsets 3 to 4 are in two files"]),
            "offsets 3 to 4 are in two files",
        ),
        (replace(FINDINGS, out_of_order=["small-0: line 7"]), "small-0: line 7"),
        (replace(FINDINGS, violations=["a slow sink committed nothing"]), "a slow sink committed nothing"),
        (
            replace(FINDINGS, proof_disagreements=["pipe-0: the proof is UNDECIDED"]),
            "pipe-0: the proof is UNDECIDED",
        ),
        (replace(FINDINGS, ledger_disagreements=["pipe-0-sink: 1 breaks"]), "pipe-0-sink: 1 breaks"),
        (replace(FINDINGS, failed_faults=["the broker did not start"]), "the broker did not start"),
    ],
)
def test_violated_guarantee_fails_its_line(findings: Findings, text: str) -> None:
    lines = make_verdict(findings)
    assert not meets_all_guarantees(lines)
    assert [text in line.text for line in lines if line.is_met is False] == [True]


ERROR_BODY = b'{"error_code": 409, "message": "Cannot complete request momentarily"}'
JSON_TYPE = "application/json; charset=utf-8"


@pytest.mark.parametrize(
    ("status", "content_type", "body"),
    [
        (200, JSON_TYPE, b"[]"),
        (204, "", b""),
        (202, JSON_TYPE, b'{"name": "c"}'),
        (202, "", b""),
        (409, JSON_TYPE, ERROR_BODY),
        (503, JSON_TYPE, b'{"status": "starting", "message": "Worker is still starting up."}'),
    ],
)
def test_well_formed_responses_have_no_defect(status: int, content_type: str, body: bytes) -> None:
    assert find_defect(status, content_type, body) is None


@pytest.mark.parametrize(
    ("status", "content_type", "body", "text"),
    [
        (418, JSON_TYPE, b"{}", "the status 418 is none of"),
        (200, JSON_TYPE, b"", "200 without a body"),
        (200, "text/html", b"[]", "the content type is 'text/html'"),
        (200, JSON_TYPE, b"[", "the body is not JSON: b'['"),
        (404, JSON_TYPE, ERROR_BODY, "the error_code 409 is not the status 404"),
        (500, JSON_TYPE, b'{"error_code": 500}', "not in Connect's format"),
        (500, JSON_TYPE, b"[]", "not in Connect's format"),
        (503, JSON_TYPE, b'{"status": "asleep", "message": "Worker dreams."}', "not in Connect's format"),
        (500, JSON_TYPE, b'{"error_code": 500, "message": null}', "no message"),
        (500, JSON_TYPE, b'{"error_code": 500, "message": "Traceback (most recent"}', "shows a traceback"),
        (503, JSON_TYPE, b'{"error_code": 503, "message": "later"}', "503 without Retry-After"),
    ],
)
def test_malformed_responses_have_a_defect(status: int, content_type: str, body: bytes, text: str) -> None:
    assert text in (find_defect(status, content_type, body) or "")


def test_response_503_requires_retry_after() -> None:
    assert find_defect(503, JSON_TYPE, b'{"error_code": 503, "message": "later"}', "1") is None


PYTHON_THREADS = ("python",) * 10
RESOURCES = Resources(
    names=("MainThread", "_OwnThread-1", "kraal-job_0"), threads=PYTHON_THREADS, files=50, processes=2
)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("_OwnThread-12", "_OwnThread"),
        ("kraal-job_3", "kraal-job"),
        ("kafka-io-connect-1", "kafka-io-connect"),
        ("Thread-7 (run)", "Thread"),
        ("clock", "clock"),
        ("7", "7"),
    ],
)
def test_thread_kind_excludes_numbers(name: str, expected: str) -> None:
    assert get_thread_kind(name) == expected


def test_growth_within_bounds_is_no_leak() -> None:
    grown_resources = replace(
        RESOURCES,
        names=(*RESOURCES.names, *(f"kraal-job_{n}" for n in range(1, 8))),
        threads=("python",) * 17,
    )
    assert find_leaks([RESOURCES], [grown_resources]) == []


@pytest.mark.parametrize(
    ("after", "text"),
    [
        (
            replace(RESOURCES, names=(*RESOURCES.names, *(f"kraal-job_{n}" for n in range(8)))),
            "9 threads kraal-job in 1 workers, before 1, at most 8",
        ),
        (
            replace(RESOURCES, names=(*RESOURCES.names, "new-1", "new-2")),
            "2 threads new in 1 workers, before 0, at most 1",
        ),
        (
            replace(RESOURCES, names=(*RESOURCES.names, "kraal-lane-push", "kraal-lane-push")),
            "2 threads kraal-lane-push in 1 workers, before 0, at most 1",
        ),
        (
            replace(RESOURCES, names=tuple(f"_OwnThread-{n}" for n in range(25))),
            "25 threads _OwnThread in 1 workers",
        ),
        (
            replace(RESOURCES, threads=(*PYTHON_THREADS, *["rdk:main"] * 9)),
            "16 non-Python threads in 1 workers, before 7, at most 8 more in each: 9 more rdk:main",
        ),
        (replace(RESOURCES, files=75), "75 open files in 1 workers, before 50"),
        (replace(RESOURCES, processes=3), "3 processes of the workers, before 2"),
    ],
)
def test_resource_above_its_limit_is_reported_as_a_leak(after: Resources, text: str) -> None:
    [leak] = find_leaks([RESOURCES], [after])
    assert text in leak


def make_connectors(*states: str, worker: str = "w:1") -> dict[str, object]:
    parts = [{"state": state, "worker_id": worker} for state in states]
    return {"c": {"status": {"connector": parts[0], "tasks": parts[1:]}}}


@pytest.mark.parametrize(
    ("connectors", "text"),
    [
        ({}, "unexpected connectors: []"),
        (make_connectors("RUNNING"), "c is ['RUNNING']"),
        (make_connectors("RUNNING", "FAILED"), "c is ['RUNNING', 'FAILED']"),
        (make_connectors("RUNNING", "RUNNING", "RUNNING"), "c is"),
        (make_connectors("RUNNING", "RUNNING", worker="w:2"), "c is assigned to workers that have left"),
    ],
)
def test_unexpected_states_are_described(connectors: dict[str, object], text: str) -> None:
    assert describe_difference(connectors, {"c"}, {"w:1"}).startswith(text)
    assert describe_difference(make_connectors("RUNNING", "RUNNING"), {"c"}, {"w:1"}) == ""


def test_corrections_revert_late_effects_of_unanswered_requests() -> None:
    config = {"tasks.max": "1"}
    connectors = {
        name: {"info": {"config": {**config, "name": name}}, "status": {"connector": {"state": state}}}
        for name, state in (("a", "RUNNING"), ("b", "PAUSED"), ("late", "RUNNING"))
    }
    target_configs = {"a": config, "b": {"tasks.max": "2"}, "new": config}
    assert list_corrections(connectors, target_configs) == [
        Call("DELETE", "/connectors/late"),
        Call("PUT", "/connectors/b/config", {"tasks.max": "2"}),
        Call("PUT", "/connectors/b/resume"),
    ]
    del connectors["late"]
    assert list_corrections(connectors, {"a": config, "b": config}) == [Call("PUT", "/connectors/b/resume")]


def test_recovery_limit_grows_with_the_start_time() -> None:
    assert get_recovery_limit_s(20) == 120
    assert get_recovery_limit_s(150) == 300
