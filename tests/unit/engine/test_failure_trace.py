"""Tests for the traces of failed tasks, and for the recognition of retriable job failures."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from kraal.engine.executor import JobResult, run_job
from kraal.engine.failure_trace import MAX_CHARS, failure_trace, is_bridge_failure, one_line
from kraal.plugins.api import RetriableError


def test_first_line_of_a_trace_is_the_innermost_cause() -> None:
    try:
        try:
            raise OSError("no space left")
        except OSError as inner:
            raise RuntimeError("batch failed") from inner
    except RuntimeError as error:
        trace = failure_trace(error, "task x-0, batch 7")
    assert trace.splitlines()[:2] == ["OSError: no space left", "  in task x-0, batch 7"]


def test_trace_length_is_limited() -> None:
    assert len(failure_trace(ValueError("x" * 100_000), "here")) <= MAX_CHARS + 50


def test_one_line_of_a_python_worker_traceback_is_its_last_line() -> None:
    text = "PythonException: Traceback (most recent call last):\n  File 'a'\nValueError: bad\n"
    assert one_line(text).startswith("ValueError")


def test_one_line_of_a_user_raised_exception_is_its_message() -> None:
    assert one_line("[USER_RAISED_EXCEPTION] The value of t-0@1 is bad SQLSTATE: P0001") == (
        "The value of t-0@1 is bad"
    )


def test_bridge_failures_are_recognized() -> None:
    assert is_bridge_failure(ConnectionResetError())
    assert not is_bridge_failure(ValueError("no"))


@pytest.mark.parametrize(
    ("text", "is_retriable"),
    [
        pytest.param(
            "org.apache.kafka.common.errors.TimeoutException: Expiring 120 record(s) for lines-0:120000 ms has passed",
            True,
            id="delivery timeout of a producer",
        ),
        pytest.param(
            "java.util.concurrent.TimeoutException: Cannot fetch record for offset 7 in 300000 milliseconds",
            True,
            id="timeout of Spark's reader",
        ),
        pytest.param("java.util.concurrent.TimeoutException: Futures timed out", False, id="another timeout"),
        pytest.param(
            "org.apache.kafka.common.errors.RecordTooLargeException: The message is 5000 bytes",
            False,
            id="too large record",
        ),
        pytest.param(
            "a line cannot be read as JSON: org.apache.kafka.common.errors.TimeoutException: x",
            False,
            id="error text in a record",
        ),
    ],
)
def test_job_failure_is_retriable_only_if_brokers_are_unavailable(*, text: str, is_retriable: bool) -> None:
    abort = (
        "Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times, most recent failure: Lost task 0.0 in "
        f"stage 1.0 (TID 1) (127.0.0.1 executor driver): {text}\n\tat somewhere"
    )
    bridge_error = RuntimeError("an error occurred while calling o1.save")
    vars(bridge_error)["java_exception"] = SimpleNamespace(getCause=lambda: None, toString=lambda: text)
    for error in (RuntimeError(abort), bridge_error):
        job_error = error

        def job() -> JobResult:
            raise job_error  # noqa: B023 - called in the same iteration

        outcome = run_job(job)
        assert isinstance(outcome, RetriableError) is is_retriable
        if isinstance(outcome, RetriableError):
            assert (str(outcome), outcome.__cause__) == (text, error)
        else:
            assert outcome is error
