from __future__ import annotations

from kraal.spark.trace import LIMIT, failure_trace, is_bridge_failure, one_line


def test_the_first_line_is_the_innermost_cause() -> None:
    try:
        try:
            raise OSError("no space left")
        except OSError as inner:
            raise RuntimeError("batch failed") from inner
    except RuntimeError as error:
        trace = failure_trace(error, "task x-0, batch 7")
    assert trace.splitlines()[:2] == ["OSError: no space left", "  in task x-0, batch 7"]


def test_traces_are_bounded() -> None:
    assert len(failure_trace(ValueError("x" * 100_000), "here")) <= LIMIT + 50


def test_a_python_workers_error_is_its_last_line() -> None:
    text = "PythonException: Traceback (most recent call last):\n  File 'a'\nValueError: bad\n"
    assert one_line(text).startswith("ValueError")


def test_an_error_raised_in_a_plan_is_its_own_text() -> None:
    assert one_line("[USER_RAISED_EXCEPTION] The value of t-0@1 is bad SQLSTATE: P0001") == (
        "The value of t-0@1 is bad"
    )


def test_a_broken_bridge_is_known() -> None:
    assert is_bridge_failure(ConnectionResetError())
    assert not is_bridge_failure(ValueError("no"))
