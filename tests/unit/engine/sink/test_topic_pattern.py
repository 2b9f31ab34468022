"""Tests for matching topics with a sink's `topics.regex`, and for the interval between matches."""

from __future__ import annotations

import logging
import time

import pytest

from kraal.core.errors import BadRequest
from kraal.engine.sink.topic_pattern import TopicPattern

TOPICS = ("b", "a1", "a-1", "__consumer_offsets", "__transaction_state", "__share_group_state", "_own")


@pytest.mark.parametrize(
    ("regex", "expected"),
    [
        (".*", ("_own", "a-1", "a1", "b")),
        (r"[a-z]\d", ("a1",)),
        (r"\w+", ("_own", "a1", "b")),
        ("(?!_).*", ("a-1", "a1", "b")),
        (r"(?i)\QA-1\E|B", ("a-1", "b")),
        ("a", ()),
    ],
)
def test_java_pattern_matches_full_topic_names(regex: str, expected: tuple[str, ...]) -> None:
    assert TopicPattern(regex, "g", {}).match_topics(TOPICS) == expected


def test_internal_topics_match_only_if_not_excluded() -> None:
    assert set(TopicPattern(".*", "g", {"exclude.internal.topics": "false"}).match_topics(TOPICS)) == set(
        TOPICS
    )


def test_invalid_pattern_is_a_config_error() -> None:
    with pytest.raises(
        BadRequest, match=r"^Invalid value a\{1001\} for configuration topics\.regex: Invalid regex: "
    ):
        TopicPattern("a{1001}", "g", {})


@pytest.mark.parametrize(("settings", "interval_s"), [({}, 5.0), ({"metadata.max.age.ms": "60000"}, 60.0)])
def test_topics_are_matched_again_after_the_metadata_age(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], interval_s: float
) -> None:
    clock = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    pattern = TopicPattern("a.*", "g", settings)
    due_states = [pattern.is_due]
    pattern.match_topics(TOPICS)
    for passed_s in (0, interval_s - 0.1, interval_s + 0.1):
        clock[0] = 1000.0 + passed_s
        due_states.append(pattern.is_due)
    assert due_states == [True, False, False, True]


def test_pattern_without_matching_topics_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    pattern = TopicPattern("x.*", "g", {})
    for _ in range(3):
        assert pattern.match_topics(TOPICS) == ()
    assert pattern.match_topics([*TOPICS, "x1"]) == ("x1",)
    assert pattern.match_topics([*TOPICS, "x1"]) == ("x1",)
    assert [record.getMessage() for record in caplog.records] == [
        "g: No topic matches topics.regex='x.*'; checking again every 5 s",
        "g: Subscribing to the topics that match topics.regex: x1",
    ]
