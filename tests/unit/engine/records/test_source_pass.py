"""Tests for passes over a source's records, without Spark. Mirrors AbstractWorkerSourceTaskTest."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pytest

from kraal.engine.records.source_pass import HEADERS, DeadTopic, SourcePass
from kraal.engine.records.steps import TopicError
from kraal.engine.records.tolerance import Tolerance
from kraal.engine.records.topics import Ensure, TopicFailed, raise_topic_error
from kraal.metrics.errors import ErrorCounts
from kraal.plugins.api import RetriableError
from kraal.plugins.model.schema import STRING
from tests.fakes.spark.passes import ALL, no_wait, source, steps
from tests.fakes.values.transforms import MOODY

DEAD_TOPIC = DeadTopic(name="dead", with_context=True, connector="c", task=3)


def make_source_pass(tolerance: Tolerance | None = None, dead_topic: DeadTopic | None = None) -> SourcePass:
    return SourcePass(
        steps=steps(tolerance),
        topic="t",
        value_schema=STRING,
        dead_topic=dead_topic,
        timestamp_ms=5,
        wait=no_wait,
    )


def test_pass_transforms_routes_and_drops_records_and_reports_topics() -> None:
    rows, summary = source(["a", "drop it", "route u", "b"], make_source_pass())
    assert [(row["topic"], row["value"]) for row in rows] == [("t", b"A"), ("u", b"route u"), ("t", b"B")]
    assert (summary.read, summary.written, summary.dropped) == (4, 3, 1)
    assert summary.topics == {"t", "u"}
    assert summary.counts == ErrorCounts()


def test_first_bad_record_stops_the_pass_unless_errors_are_tolerated() -> None:
    rows, summary = source(["a", "bad one", "b", "bad two", "c", "d", "e"], make_source_pass())
    assert [row["value"] for row in rows] == [b"A"]
    fatal = summary.fatal
    assert fatal is not None
    assert (fatal.stage, fatal.class_name) == ("TRANSFORMATION", MOODY)
    assert (fatal.exception, fatal.message) == ("org.apache.kafka.connect.errors.DataException", "bad one")
    assert (summary.counts.failures, summary.counts.errors, summary.counts.skipped) == (1, 1, 0)


def test_bad_record_is_skipped_if_errors_are_tolerated() -> None:
    rows, summary = source(["a", "bad one", "b", "bad two", "c"], make_source_pass(ALL))
    assert [row["value"] for row in rows] == [b"A", b"B", b"C"]
    assert summary.fatal is None
    assert (summary.read, summary.written) == (5, 3)
    assert (summary.counts.failures, summary.counts.errors, summary.counts.skipped) == (2, 2, 2)
    assert summary.counts.last_error_ms > 0
    assert summary.faults == (), "failures are logged only when enabled"


def test_dead_letter_contains_the_original_record_and_the_error() -> None:
    forged_header = {"key": "__connect.errors.topic", "value": b"connect-configs"}
    headers = pa.array([[{"key": "own", "value": b"\x00"}, forged_header]], HEADERS)
    rows, summary = source(
        ["bad one"], make_source_pass(ALL, DEAD_TOPIC), headers=headers, key=pa.array(["k"])
    )
    assert (summary.written, summary.topics, summary.counts.dead_letters) == (0, frozenset(), 1)
    letter = rows[0]
    assert (letter["topic"], letter["key"], letter["value"]) == ("dead", b"k", b"bad one")
    letter_headers = [
        (header["key"].removeprefix("__connect.errors."), header["value"]) for header in letter["headers"]
    ]
    assert letter_headers[:-1] == [
        ("own", b"\x00"),
        ("topic", b"t"),
        ("connector.name", b"c"),
        ("task.id", b"3"),
        ("stage", b"TRANSFORMATION"),
        ("class.name", MOODY.encode()),
        ("exception.class.name", b"org.apache.kafka.connect.errors.DataException"),
        ("exception.message", b"bad one"),
    ]
    assert letter_headers[-1][0] == "exception.stacktrace"
    assert letter_headers[-1][1].startswith(
        b"org.apache.kafka.connect.errors.DataException: bad one\n\tat apply(transforms.py:"
    )


def test_only_headers_set_by_transforms_are_converted() -> None:
    headers = pa.array([[{"key": "own", "value": b"\xff"}], None], HEADERS)
    rows, _ = source(["head", "plain"], make_source_pass(), headers=headers)
    assert rows[0]["headers"] == [{"key": "own", "value": b"\xff"}, {"key": "h", "value": b"new"}]
    assert rows[1]["headers"] is None


NUL_NAMES = pa.array([None, [{"key": "a\0b", "value": b"1"}], [{"key": "c", "value": None}]], HEADERS)
NUL_ERROR = (
    "The header name 'a\\x00b' of a record for the topic t contains NUL, which cannot be written with exactly-once"
    " support; use a name without NUL"
)


def test_header_name_with_nul_fails_its_record_if_librdkafka_writes() -> None:
    strict_pass = replace(make_source_pass(), refuses_nul=True)
    rows, summary = source(["a", "b", "c"], strict_pass, headers=NUL_NAMES)
    fatal = summary.fatal
    assert fatal is not None
    assert (fatal.stage, fatal.class_name, fatal.message) == ("HEADER_CONVERTER", "H", NUL_ERROR)
    assert [row["value"] for row in rows] == [b"A"]
    rows, summary = source(
        ["a", "b", "c"], replace(make_source_pass(ALL), refuses_nul=True), headers=NUL_NAMES
    )
    assert [row["value"] for row in rows] == [b"A", b"C"]
    assert (summary.fatal, summary.counts.skipped) == (None, 1)


def test_nul_in_a_dead_letter_header_name_is_replaced() -> None:
    rows, summary = source(
        ["a", "b", "c"], replace(make_source_pass(ALL, DEAD_TOPIC), refuses_nul=True), headers=NUL_NAMES
    )
    assert [(row["topic"], row["value"]) for row in rows] == [("t", b"A"), ("dead", b"b"), ("t", b"C")]
    assert rows[1]["headers"][0] == {"key": "a\ufffdb", "value": b"1"}
    assert summary.counts.dead_letters == 1


def test_header_name_with_nul_is_unchanged_if_the_java_client_writes() -> None:
    rows, summary = source(["a", "b", "c"], make_source_pass(), headers=NUL_NAMES)
    assert rows[1]["headers"] == [{"key": "a\0b", "value": b"1"}]
    assert (summary.fatal, summary.written) == (None, 3)


def test_retriable_error_is_retried_within_the_timeout(tmp_path: Path) -> None:
    tolerance = Tolerance(retry_timeout_ms=10_000)
    rows, summary = source([f"busy 2 {tmp_path / 'seen'}"], make_source_pass(tolerance))
    assert len(rows) == 1
    # The first attempt for the whole batch does not count.
    assert (summary.counts.failures, summary.counts.retries, summary.counts.errors) == (1, 1, 0)


@pytest.mark.parametrize("tolerates_errors", [True, False])
def test_retriable_error_counts_as_failure_after_the_timeout(
    tmp_path: Path, *, tolerates_errors: bool
) -> None:
    rows, summary = source([f"busy 9 {tmp_path / 'seen'}"], make_source_pass(Tolerance(all=tolerates_errors)))
    assert rows == []
    assert (summary.fatal is None) is tolerates_errors
    assert summary.counts.errors == 1


def test_record_without_a_topic_raises_an_error() -> None:
    source_pass = SourcePass(steps=steps(moody=False), topic=None, value_schema=STRING)
    with pytest.raises(ValueError, match=r"^Topic cannot be null\.$"):
        source(["a"], source_pass, topic=pa.array([None], pa.string()))


def test_invalid_utf8_becomes_the_replacement_character() -> None:
    raw = pa.array([b"a\xff"], pa.binary())
    texts = pa.StringArray.from_buffers(1, *raw.buffers()[1:])
    rows, _ = source(texts, make_source_pass())
    assert rows[0]["value"] == "A\ufffd".encode()


def test_log_contains_the_record_as_java_prints_it() -> None:
    _, summary = source(["bad one"], make_source_pass(Tolerance(all=True, logs=True)))
    assert summary.faults[0].record == (
        ", where source record is = SourceRecord{} ConnectRecord{topic='t', kafkaPartition=null, key=null, "
        "keySchema=null, value=bad one, valueSchema=Schema{STRING}, timestamp=5, headers=ConnectHeaders(headers=)}"
    )
    assert summary.counts.logged == 1


ENSURED_TOPICS: list[set[str]] = []
"""The topics of each call of `ensure`; global, because passes are pickled."""


@dataclass
class Topics:
    """A gate for which every topic except `missing` exists."""

    error: Exception

    def begin_pass(self) -> Ensure:
        """Return the function that a pass calls."""

        def ensure(names: Iterable[str]) -> None:
            ENSURED_TOPICS.append(set(names))
            if "missing" in names:
                raise self.error

        return ensure


def test_topics_are_ensured_after_transforms_and_not_for_dead_letters() -> None:
    ENSURED_TOPICS.clear()
    rows, summary = source(
        ["a", "bad one", "route u"],
        replace(make_source_pass(ALL, DEAD_TOPIC), gate=Topics(TopicFailed("no"))),
    )
    assert [{"t", "u"}] == ENSURED_TOPICS
    assert [row["topic"] for row in rows] == ["t", "dead", "u"]
    assert summary.topic_error is None


@pytest.mark.parametrize(
    ("error", "is_retriable"), [(TopicFailed("no"), False), (RetriableError("no"), True)]
)
def test_missing_topic_stops_the_pass(error: Exception, *, is_retriable: bool) -> None:
    rows, summary = source(["a", "route missing", "b"], replace(make_source_pass(), gate=Topics(error)))
    assert rows == []
    assert (summary.written, summary.topic_error) == (0, TopicError("no", is_retriable))
    with pytest.raises(type(error), match="no"):
        raise_topic_error(summary.topic_error)
