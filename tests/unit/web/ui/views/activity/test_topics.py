from __future__ import annotations

from typing import Any

import pytest

from web.ui.views.activity.topics import parse_topics, reset_confirmation, reset_request

CONFIG = {"topics": "orders, clicks", "errors.deadletterqueue.topic.name": "dead"}


def test_topics_are_those_used_and_those_of_the_config() -> None:
    topics = parse_topics({"c": {"topics": ["orders", "old"]}}, CONFIG, "c")
    assert [(each.name, each.used, each.role) for each in topics.topics] == [
        ("clicks", False, "sink"),
        ("dead", False, "dead letters"),
        ("old", True, ""),
        ("orders", True, "sink"),
    ]
    assert topics.used == 2


def test_topic_pattern_is_shown() -> None:
    assert parse_topics({}, {"topics.regex": "orders.*"}, "c").pattern == "orders.*"


@pytest.mark.parametrize("config", [None, [], {"topics": 7, "topics.regex": 7}])
@pytest.mark.parametrize("answer", [None, [], {"c": 7}, {"c": {"topics": [7]}}, {"other": {"topics": ["x"]}}])
def test_an_answer_of_another_shape_has_no_topics(answer: Any, config: Any) -> None:
    topics = parse_topics(answer, config, "c")
    assert (list(topics.topics), topics.pattern) == ([], "")


def test_the_list_is_emptied_by_one_request_after_a_question() -> None:
    assert reset_request("a b").text == "PUT /connectors/a%20b/topics/reset"
    prompt = reset_confirmation("c", parse_topics({"c": {"topics": ["x"]}}, None, "c"))
    assert prompt.question == "Forget the 1 topic that c has used?"
