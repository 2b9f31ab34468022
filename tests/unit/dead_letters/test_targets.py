"""Tests for the topics that a replay may write to, regardless of the headers of letters."""

from __future__ import annotations

import pytest

from kraal.dead_letters.targets import CannotReplay, Targets, find_targets
from tests.fakes.kafka.dead_letters import MemoryKafka, letter

INTERNAL_TOPICS = frozenset({"connect-configs", "connect-offsets", "connect-status"})


def make_cluster(internal: frozenset[str] | None = INTERNAL_TOPICS) -> MemoryKafka:
    kafka = MemoryKafka()
    names = ("orders", "dead", "payments", "connect-configs", "__consumer_offsets", "secrets")
    kafka.partitions = dict.fromkeys(names, 1)
    kafka.internal = internal
    kafka.compact = {"connect-configs", "payments"}
    return kafka


def find_refusal(targets: Targets, topic: str) -> str:
    with pytest.raises(CannotReplay) as error:
        targets.find_target(letter(0, {"topic": topic}), make_cluster().partitions)
    return str(error.value)


def test_forged_topic_of_sink_letter_is_rejected() -> None:
    targets = find_targets(make_cluster(), {"topics": "orders, payments"})
    assert targets.topics == frozenset({"orders", "payments"})
    assert targets.find_target(letter(0), make_cluster().partitions).topic == "orders"
    assert find_refusal(targets, "connect-configs") == (
        "The original topic connect-configs of dead-0@0 is an internal topic of Kafka or Kafka Connect;"
        " a replay does not write to these"
    )
    assert find_refusal(targets, "secrets").startswith(
        "The original topic secrets of dead-0@0 is not one of the topics that the replay may write to:"
        " orders, payments; its header may be forged."
    )


@pytest.mark.parametrize("config", [{"topics": "connect-configs"}, {"topics.regex": ".*"}, None])
@pytest.mark.parametrize("topic", ["connect-configs", "__consumer_offsets"])
def test_internal_topics_are_rejected(config: dict[str, str] | None, topic: str) -> None:
    for targets in (
        find_targets(make_cluster(), config, active=["connect-configs"], allowed=["connect-configs"]),
        find_targets(make_cluster(), config, is_source=True),
        find_targets(make_cluster(), config, to=topic),
    ):
        assert "is an internal topic of Kafka or Kafka Connect" in find_refusal(targets, topic)


def test_regex_allows_matching_and_active_topics() -> None:
    targets = find_targets(make_cluster(), {"topics.regex": "ord.*|connect-.*"}, active=["former"])
    assert targets.topics == frozenset({"orders", "former"})
    assert find_targets(make_cluster(), {"topics.regex": "${env:T}"}, active=["orders"]).topics == frozenset(
        {"orders"}
    )


def test_regex_allows_no_compacted_topics_if_internal_topics_are_unknown() -> None:
    kafka = make_cluster(internal=None)
    assert find_targets(kafka, {"topics.regex": ".*"}).topics == frozenset({"orders", "dead", "secrets"})
    assert find_targets(kafka, {"topics": "payments"}, active=["connect-configs"]).topics == frozenset(
        {"payments"}
    )


def test_letters_of_topic_require_allowed_topic() -> None:
    assert "may write to: none;" in find_refusal(find_targets(make_cluster(), None), "orders")
    targets = find_targets(make_cluster(), None, allowed=["orders"])
    assert targets.find_target(letter(0), make_cluster().partitions).topic == "orders"
    assert "specify --allow-topic payments" in find_refusal(targets, "payments")


def test_letters_of_source_may_have_any_topic() -> None:
    assert find_targets(make_cluster(), {"topics": "a"}, is_source=True).topics is None


def test_long_list_of_topics_is_truncated() -> None:
    assert Targets(topics=frozenset(f"t{n:02}" for n in range(12))).description.endswith(
        "t08, t09, and 2 more"
    )
