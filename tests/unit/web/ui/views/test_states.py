"""Tests for display states, root causes, and the formatting of numbers and times."""

from __future__ import annotations

import pytest
from typing_extensions import override

from kraal.core.traces import root_cause
from web.ui.views.formats import duration, iso, number, utc
from web.ui.views.states import RANK, DisplayState, display_state, most_urgent

JAVA_TRACE = """org.apache.kafka.connect.errors.ConnectException: Exiting WorkerSinkTask due to unrecoverable exception.
\tat org.apache.kafka.connect.runtime.WorkerSinkTask.deliverMessages(WorkerSinkTask.java:636)
Caused by: java.lang.IllegalStateException: pool is closed
\tat a.B.c(B.java:1)
Caused by: java.net.ConnectException: Connection refused
\t... 12 more
"""
JACKSON_TRACE = """org.apache.kafka.connect.errors.ConnectException: Tolerance exceeded in error handler
\tat org.apache.kafka.connect.runtime.errors.RetryWithToleranceOperator.execAndHandleError(RetryWithTolerance.java:267)
Caused by: org.apache.kafka.connect.errors.DataException: Converting byte[] to Kafka Connect data failed due to \
serialization error:\x20
\tat org.apache.kafka.connect.json.JsonConverter.toConnectData(JsonConverter.java:348)
Caused by: com.fasterxml.jackson.core.JsonParseException: Unrecognized token 'xyz': was expecting 'null'
 at [Source: REDACTED (`StreamReadFeature.INCLUDE_SOURCE_IN_LOCATION` disabled); line: 1, column: 7]
\tat com.fasterxml.jackson.core.JsonParser._constructReadException(JsonParser.java:2673)
\t... 19 more
"""
RECORD_CAUSE = (
    "org.apache.kafka.connect.errors.DataException: record orders-3@41 failed at VALUE_CONVERTER: Converting byte[] to "
    "Kafka Connect data failed due to serialization error: json.decoder.JSONDecodeError: Expecting value: line 1 "
    "column 7 (char 6)"
)
KRAAL_TRACE = f"""{RECORD_CAUSE}
  in task orders-sink-0, batch 12
org.apache.kafka.connect.errors.ConnectException: Tolerance exceeded in error handler
\tat stage VALUE_CONVERTER of org.apache.kafka.connect.json.JsonConverter, record orders-3@41
Caused by: org.apache.kafka.connect.errors.DataException: Converting byte[] to Kafka Connect data failed
\tat parse(parse.py:75)
Caused by: json.decoder.JSONDecodeError: Expecting value: line 1 column 7 (char 6)
\tat raw_decode(decoder.py:355)"""
PYTHON_TRACE = """Traceback (most recent call last):
  File "a.py", line 1, in <module>
    raise KeyError("x")
KeyError: 'x'
"""


def test_states_are_ranked_by_urgency() -> None:
    order = ["failed", "stalled", "restarting", "unassigned", "unknown", "paused", "stopped", "running"]
    assert [state.value for state in sorted(DisplayState, key=RANK.__getitem__)] == order


@pytest.mark.parametrize(
    ("state", "is_stalled", "expected"),
    [
        ("RUNNING", False, DisplayState.RUNNING),
        ("RUNNING", True, DisplayState.STALLED),
        ("UNASSIGNED", True, DisplayState.STALLED),
        ("RESTARTING", True, DisplayState.STALLED),
        ("FAILED", True, DisplayState.FAILED),
        ("PAUSED", True, DisplayState.PAUSED),
        ("RESTARTING", False, DisplayState.RESTARTING),
        ("DESTROYED", False, DisplayState.UNKNOWN),
        ("STALLED?", False, DisplayState.UNKNOWN),
        (None, False, DisplayState.UNKNOWN),
        (["RUNNING"], False, DisplayState.UNKNOWN),
    ],
)
def test_display_state_maps_connect_states_and_stalls(
    state: object, *, is_stalled: bool, expected: DisplayState
) -> None:
    assert display_state(state, stalled=is_stalled) is expected


def test_most_urgent_state_is_returned() -> None:
    assert (
        most_urgent([DisplayState.RUNNING, DisplayState.PAUSED, DisplayState.STALLED]) is DisplayState.STALLED
    )
    assert most_urgent([]) is DisplayState.UNKNOWN


@pytest.mark.parametrize(
    ("trace", "cause"),
    [
        (JAVA_TRACE, "java.net.ConnectException: Connection refused"),
        (
            JACKSON_TRACE,
            (
                "com.fasterxml.jackson.core.JsonParseException: Unrecognized token 'xyz': was expecting 'null' "
                "(line 1, column 7)"
            ),
        ),
        (KRAAL_TRACE, RECORD_CAUSE),
        (RECORD_CAUSE, RECORD_CAUSE),
        (PYTHON_TRACE, "KeyError: 'x'"),
        ("OSError: disk is full\n  more", "OSError: disk is full"),
        ("\n\n  one line  ", "one line"),
        ("", ""),
        (None, ""),
        (7, ""),
        ("x" * 1000, "x" * 399 + "…"),
    ],
)
def test_root_cause_is_one_line(trace: object, cause: str) -> None:
    assert root_cause(trace) == cause


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "\N{EN DASH}"), (0, "0"), (0.25, "0.25"), (7.5, "7.5"), (7.0, "7"), (123.4, "123"), (9999, "9999"),
        (10_000, "10k"), (12_345, "12.3k"), (1_500_000, "1.5M"), (2e9, "2G"), (-12_345, "-12.3k"),
    ],
)  # fmt: skip
def test_format_number_shortens_values(value: float | None, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (None, "\N{EN DASH}"), (0, "0 ms"), (850, "850 ms"), (1500, "1.5 s"), (2000, "2 s"), (40_000, "40 s"),
        (119_000, "119 s"), (240_000, "4 min"), (3 * 3_600_000, "3 h"), (3 * 86_400_000, "3 d"),
    ],
)  # fmt: skip
def test_durations_have_one_unit(ms: float | None, text: str) -> None:
    assert duration(ms) == text


def test_times_are_formatted_in_utc_and_clamped() -> None:
    assert iso(1_763_769_600_123) == "2025-11-22T00:00:00.123Z"
    assert utc(1_763_769_600_123) == "2025-11-22 00:00:00 UTC"
    assert iso(1e300) == "9999-12-31T23:59:59.000Z"
    assert iso(-5) == "1970-01-01T00:00:00.000Z"


def test_root_cause_of_a_huge_trace_does_not_split_all_lines() -> None:
    class HugeTrace(str):
        __slots__ = ()

        @override
        def splitlines(self, keepends: bool = False) -> list[str]:
            raise AssertionError("all lines")

    assert root_cause(HugeTrace("Error: a\n\tat b\nCaused by: c\n" + "\tat d\n" * 9)) == "c"
    assert (
        root_cause(HugeTrace("Traceback (most recent call last):\n  File\nOSError: disk\n"))
        == "OSError: disk"
    )
