from __future__ import annotations

from typing import Any

import pytest

from web.ui.views.activity.topics import parse_topics, reset_confirmation, reset_request

CONFIG = {"topics": "orders, clicks", "errors.deadletterqueue.topic.name": "dead"}


def test_topics_combine_active_and_configured_topics() -> None:
    topics = parse_topics({"c": {"topics": ["orders", "old"]}}, CONFIG, "c")
    assert [(topic.name, topic.is_active, topic.role) for topic in topics.topics] == [
        ("clicks", False, "sink"),
        ("dead", False, "dead letters"),
        ("old", True, ""),
        ("orders", True, "sink"),
    ]
    assert topics.active_count == 2


def test_topic_pattern_is_shown() -> None:
    assert parse_topics({}, {"topics.regex": "orders.*"}, "c").pattern == "orders.*"


@pytest.mark.parametrize("config", [None, [], {"topics": 7, "topics.regex": 7}])
@pytest.mark.parametrize(
    "response", [None, [], {"c": 7}, {"c": {"topics": [7]}}, {"other": {"topics": ["x"]}}]
)
def test_malformed_response_has_no_topics(response: Any, config: Any) -> None:
    topics = parse_topics(response, config, "c")
    assert (list(topics.topics), topics.pattern) == ([], "")


def test_topic_reset_has_a_request_and_a_confirmation() -> None:
    assert reset_request("a b").text == "PUT /connectors/a%20b/topics/reset"
    prompt = reset_confirmation("c", parse_topics({"c": {"topics": ["x"]}}, None, "c"))
    assert prompt.question == "Reset the 1 active topic of c?"
