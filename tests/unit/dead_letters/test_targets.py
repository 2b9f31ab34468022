"""The topics that a replay may write to, whatever a letter's headers name."""

from __future__ import annotations

import pytest

from kraal.dead_letters.targets import CannotReplay, Targets, find_targets
from tests.fakes.kafka.dead_letters import MemoryKafka, letter

INTERNAL = frozenset({"connect-configs", "connect-offsets", "connect-status"})


def cluster(internal: frozenset[str] | None = INTERNAL) -> MemoryKafka:
    kafka = MemoryKafka()
    names = ("orders", "dead", "payments", "connect-configs", "__consumer_offsets", "secrets")
    kafka.partitions = dict.fromkeys(names, 1)
    kafka.internal = internal
    kafka.compact = {"connect-configs", "payments"}
    return kafka


def refusal(targets: Targets, topic: str) -> str:
    with pytest.raises(CannotReplay) as raised:
        targets.target(letter(0, {"topic": topic}), cluster().partitions)
    return str(raised.value)


def test_a_forged_topic_of_a_sinks_letter_is_refused() -> None:
    targets = find_targets(cluster(), {"topics": "orders, payments"})
    assert targets.topics == frozenset({"orders", "payments"})
    assert targets.target(letter(0), cluster().partitions).topic == "orders"
    assert refusal(targets, "connect-configs") == (
        "The original topic connect-configs of dead-0@0 is an internal topic of Kafka or Kafka Connect;"
        " a replay does not write to these"
    )
    assert refusal(targets, "secrets").startswith(
        "The original topic secrets of dead-0@0 is not one of the topics that the replay may write to:"
        " orders, payments; its header may be forged."
    )


@pytest.mark.parametrize("config", [{"topics": "connect-configs"}, {"topics.regex": ".*"}, None])
@pytest.mark.parametrize("topic", ["connect-configs", "__consumer_offsets"])
def test_internal_topics_are_refused_for_every_connector(config: dict[str, str] | None, topic: str) -> None:
    for targets in (
        find_targets(cluster(), config, active=["connect-configs"], allowed=["connect-configs"]),
        find_targets(cluster(), config, is_source=True),
        find_targets(cluster(), config, to=topic),
    ):
        assert "is an internal topic of Kafka or Kafka Connect" in refusal(targets, topic)


def test_a_regex_permits_topics_that_match_and_active_ones() -> None:
    targets = find_targets(cluster(), {"topics.regex": "ord.*|connect-.*"}, active=["former"])
    assert targets.topics == frozenset({"orders", "former"})
    assert find_targets(cluster(), {"topics.regex": "${env:T}"}, active=["orders"]).topics == frozenset(
        {"orders"}
    )


def test_a_regex_permits_no_compacted_topic_if_the_internal_ones_are_unknown() -> None:
    kafka = cluster(internal=None)
    assert find_targets(kafka, {"topics.regex": ".*"}).topics == frozenset({"orders", "dead", "secrets"})
    assert find_targets(kafka, {"topics": "payments"}, active=["connect-configs"]).topics == frozenset(
        {"payments"}
    )


def test_letters_of_a_topic_need_an_allowed_topic() -> None:
    assert "may write to: none;" in refusal(find_targets(cluster(), None), "orders")
    targets = find_targets(cluster(), None, allowed=["orders"])
    assert targets.target(letter(0), cluster().partitions).topic == "orders"
    assert "specify --allow-topic payments" in refusal(targets, "payments")


def test_a_sources_letters_may_name_any_topic() -> None:
    assert find_targets(cluster(), {"topics": "a"}, is_source=True).topics is None


def test_a_long_list_of_topics_is_shortened() -> None:
    assert Targets(topics=frozenset(f"t{n:02}" for n in range(12))).listed.endswith("t08, t09, and 2 more")
