"""A source's records through transforms and converters, without Spark. Mirrors AbstractWorkerSourceTaskTest."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pytest

from kraal.engine.records.source_pass import HEADERS, DeadTopic, SourcePass
from kraal.engine.records.steps import TopicTrouble
from kraal.engine.records.tolerance import Tolerance
from kraal.engine.records.topics import Ensure, TopicFailed, raise_trouble
from kraal.metrics.errors import ErrorCounts
from kraal.plugins.api import RetriableError
from kraal.plugins.model.schema import STRING
from tests.fakes.spark.passes import ALL, at_once, source, steps
from tests.fakes.values.transforms import MOODY

DEAD = DeadTopic(name="dead", with_context=True, connector="c", task=3)


def a_pass(tolerance: Tolerance | None = None, dead: DeadTopic | None = None) -> SourcePass:
    return SourcePass(
        steps=steps(tolerance), topic="t", value_schema=STRING, dead=dead, timestamp_ms=5, wait=at_once
    )


def test_records_are_transformed_routed_and_dropped_and_topics_are_known() -> None:
    rows, summary = source(["a", "drop it", "route u", "b"], a_pass())
    assert [(row["topic"], row["value"]) for row in rows] == [("t", b"A"), ("u", b"route u"), ("t", b"B")]
    assert (summary.read, summary.written) == (4, 3)
    assert summary.topics == {"t", "u"}
    assert summary.counts == ErrorCounts()


def test_the_first_bad_record_ends_the_pass_unless_errors_are_tolerated() -> None:
    rows, summary = source(["a", "bad one", "b", "bad two", "c", "d", "e"], a_pass())
    assert [row["value"] for row in rows] == [b"A"]
    fatal = summary.fatal
    assert fatal is not None
    assert (fatal.stage, fatal.class_name) == ("TRANSFORMATION", MOODY)
    assert (fatal.exception, fatal.message) == ("org.apache.kafka.connect.errors.DataException", "bad one")
    assert (summary.counts.failures, summary.counts.errors, summary.counts.skipped) == (1, 1, 0)


def test_a_bad_record_among_good_ones_is_left_out_where_errors_are_tolerated() -> None:
    rows, summary = source(["a", "bad one", "b", "bad two", "c"], a_pass(ALL))
    assert [row["value"] for row in rows] == [b"A", b"B", b"C"]
    assert summary.fatal is None
    assert (summary.read, summary.written) == (5, 3)
    assert (summary.counts.failures, summary.counts.errors, summary.counts.skipped) == (2, 2, 2)
    assert summary.counts.last_error_ms > 0
    assert summary.faults == (), "nothing is logged unless it is asked for"


def test_a_dead_letter_is_the_record_as_it_was_and_tells_why() -> None:
    forged = {"key": "__connect.errors.topic", "value": b"connect-configs"}
    headers = pa.array([[{"key": "own", "value": b"\x00"}, forged]], HEADERS)
    rows, summary = source(["bad one"], a_pass(ALL, DEAD), headers=headers, key=pa.array(["k"]))
    assert (summary.written, summary.topics, summary.counts.dead_letters) == (0, frozenset(), 1)
    letter = rows[0]
    assert (letter["topic"], letter["key"], letter["value"]) == ("dead", b"k", b"bad one")
    letters = [
        (header["key"].removeprefix("__connect.errors."), header["value"]) for header in letter["headers"]
    ]
    assert letters[:-1] == [
        ("own", b"\x00"),
        ("topic", b"t"),
        ("connector.name", b"c"),
        ("task.id", b"3"),
        ("stage", b"TRANSFORMATION"),
        ("class.name", MOODY.encode()),
        ("exception.class.name", b"org.apache.kafka.connect.errors.DataException"),
        ("exception.message", b"bad one"),
    ]
    assert letters[-1][0] == "exception.stacktrace"
    assert letters[-1][1].startswith(
        b"org.apache.kafka.connect.errors.DataException: bad one\n\tat apply(transforms.py:"
    )


def test_headers_of_the_frame_stay_bytes_and_those_of_transforms_are_converted() -> None:
    headers = pa.array([[{"key": "own", "value": b"\xff"}], None], HEADERS)
    rows, _ = source(["head", "plain"], a_pass(), headers=headers)
    assert rows[0]["headers"] == [{"key": "own", "value": b"\xff"}, {"key": "h", "value": b"new"}]
    assert rows[1]["headers"] is None


NUL_NAMES = pa.array([None, [{"key": "a\0b", "value": b"1"}], [{"key": "c", "value": None}]], HEADERS)
NUL_REFUSED = (
    "The header name 'a\\x00b' of a record for the topic t contains NUL, which cannot be written with exactly-once"
    " support; use a name without it"
)


def test_header_name_with_nul_is_an_error_of_its_record_if_librdkafka_writes() -> None:
    refusing = replace(a_pass(), refuses_nul=True)
    rows, summary = source(["a", "b", "c"], refusing, headers=NUL_NAMES)
    fatal = summary.fatal
    assert fatal is not None
    assert (fatal.stage, fatal.class_name, fatal.message) == ("HEADER_CONVERTER", "H", NUL_REFUSED)
    assert [row["value"] for row in rows] == [b"A"]
    rows, summary = source(["a", "b", "c"], replace(a_pass(ALL), refuses_nul=True), headers=NUL_NAMES)
    assert [row["value"] for row in rows] == [b"A", b"C"]
    assert (summary.fatal, summary.counts.skipped) == (None, 1)


def test_dead_letter_of_a_header_name_with_nul_has_a_replacement_character() -> None:
    rows, summary = source(["a", "b", "c"], replace(a_pass(ALL, DEAD), refuses_nul=True), headers=NUL_NAMES)
    assert [(row["topic"], row["value"]) for row in rows] == [("t", b"A"), ("dead", b"b"), ("t", b"C")]
    assert rows[1]["headers"][0] == {"key": "a\ufffdb", "value": b"1"}
    assert summary.counts.dead_letters == 1


def test_header_name_with_nul_is_written_whole_by_javas_client() -> None:
    rows, summary = source(["a", "b", "c"], a_pass(), headers=NUL_NAMES)
    assert rows[1]["headers"] == [{"key": "a\0b", "value": b"1"}]
    assert (summary.fatal, summary.written) == (None, 3)


def test_a_retriable_error_is_tried_again_in_its_time(tmp_path: Path) -> None:
    patient = Tolerance(retry_timeout_ms=10_000)
    rows, summary = source([f"busy 2 {tmp_path / 'seen'}"], a_pass(patient))
    assert len(rows) == 1
    # The first try of all is the quick one, which does not count.
    assert (summary.counts.failures, summary.counts.retries, summary.counts.errors) == (1, 1, 0)


@pytest.mark.parametrize("tolerates", [True, False])
def test_a_retriable_error_that_outlasts_its_time_counts_like_any_other(
    tmp_path: Path, *, tolerates: bool
) -> None:
    rows, summary = source([f"busy 9 {tmp_path / 'seen'}"], a_pass(Tolerance(all=tolerates)))
    assert rows == []
    assert (summary.fatal is None) is tolerates
    assert summary.counts.errors == 1


def test_a_null_topic_is_an_error_and_never_a_lost_record() -> None:
    one = SourcePass(steps=steps(moody=False), topic=None, value_schema=STRING)
    with pytest.raises(ValueError, match=r"^Topic cannot be null\.$"):
        source(["a"], one, topic=pa.array([None], pa.string()))


def test_bytes_that_are_not_text_become_the_replacement_character() -> None:
    raw = pa.array([b"a\xff"], pa.binary())
    texts = pa.StringArray.from_buffers(1, *raw.buffers()[1:])
    rows, _ = source(texts, a_pass())
    assert rows[0]["value"] == "A\ufffd".encode()


def test_the_log_shows_a_record_as_java_does() -> None:
    _, summary = source(["bad one"], a_pass(Tolerance(all=True, logs=True)))
    assert summary.faults[0].record == (
        ", where source record is = SourceRecord{} ConnectRecord{topic='t', kafkaPartition=null, key=null, "
        "keySchema=null, value=bad one, valueSchema=Schema{STRING}, timestamp=5, headers=ConnectHeaders(headers=)}"
    )
    assert summary.counts.logged == 1


ASKED: list[set[str]] = []
"""What passes have asked for; they are pickled, so it lies here."""


@dataclass
class Topics:
    """Has every topic but one."""

    error: Exception

    def begin_pass(self) -> Ensure:
        """Return what a pass asks."""

        def ensure(names: Iterable[str]) -> None:
            ASKED.append(set(names))
            if "missing" in names:
                raise self.error

        return ensure


def test_topics_are_asked_for_after_transforms_and_not_for_dead_letters() -> None:
    ASKED.clear()
    rows, summary = source(
        ["a", "bad one", "route u"], replace(a_pass(ALL, DEAD), gate=Topics(TopicFailed("no")))
    )
    assert [{"t", "u"}] == ASKED
    assert [row["topic"] for row in rows] == ["t", "dead", "u"]
    assert summary.trouble is None


@pytest.mark.parametrize(("error", "passes"), [(TopicFailed("no"), False), (RetriableError("no"), True)])
def test_records_stay_where_a_topic_is_missing(error: Exception, *, passes: bool) -> None:
    rows, summary = source(["a", "route missing", "b"], replace(a_pass(), gate=Topics(error)))
    assert rows == []
    assert (summary.written, summary.trouble) == (0, TopicTrouble("no", passes))
    with pytest.raises(type(error), match="no"):
        raise_trouble(summary.trouble)
