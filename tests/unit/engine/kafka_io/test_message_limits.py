"""Tests for the batch size of a producer, which depends on the limits of the topics that a run writes to."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pytest

from kraal.engine.kafka_io.message_limits import MessageLimits, fit_batch_size

OPTIONS = {"kafka.batch.size": "262144", "kafka.acks": "all"}
KEY = "kafka.batch.size"


class Brokers:
    """Returns predefined limits of topics, and records the lookups."""

    def __init__(self, limits: Mapping[str, int | None]) -> None:
        self.limits = dict(limits)
        self.lookups: list[list[str]] = []

    def __call__(self, names: Collection[str]) -> Mapping[str, int | None]:
        self.lookups.append(list(names))
        return {name: self.limits[name] for name in names if name in self.limits}


def test_batch_size_is_capped_at_the_smallest_topic_limit() -> None:
    brokers = Brokers({"default": 1_048_588, "small": 20_000, "smaller": 250, "hidden": None})
    limits = MessageLimits(brokers)
    sizes = []
    for topic in ("default", "hidden", "small", "default", "smaller", "small"):
        limits.ensure([topic, None])
        sizes.append(limits.cap_batch_size(OPTIONS, KEY)[KEY])
    assert sizes == ["262144", "262144", "16384", "16384", "128", "128"]
    assert brokers.lookups == [["default"], ["hidden"], ["small"], ["smaller"]], (
        "each topic is described once"
    )


def test_options_within_the_limits_are_returned_unchanged() -> None:
    limits = MessageLimits(Brokers({"t": 262_144}))
    limits.ensure(["t"])
    assert limits.cap_batch_size(OPTIONS, KEY) is OPTIONS
    assert MessageLimits().cap_batch_size(OPTIONS, KEY) is OPTIONS
    assert not MessageLimits().list_unseen(["t"])


def test_missing_topic_is_looked_up_again_after_the_first_write() -> None:
    brokers = Brokers({})
    limits = MessageLimits(brokers)
    limits.ensure(["created by the first write", "never"])
    brokers.limits["created by the first write"] = 1000
    for _ in range(3):
        limits.ensure(["created by the first write", "never"])
    assert limits.cap_batch_size(OPTIONS, KEY)[KEY] == "512"
    assert len(brokers.lookups) == 2


def test_lowered_limit_triggers_another_lookup() -> None:
    brokers = Brokers({"t": 100_000})
    limits = MessageLimits(brokers)
    limits.ensure(["t"])
    brokers.limits["t"] = 10_000  # an operator lowers the limit
    assert limits.lower_limit("t") == 25_000
    limits.ensure(["t"])
    assert limits.cap_batch_size(OPTIONS, KEY)[KEY] == "8192"


def test_limit_is_lowered_repeatedly() -> None:
    for topic_limit in (100_000, None):
        limits = MessageLimits(Brokers({"t": topic_limit}))
        sizes = []
        for _ in range(3):
            limits.ensure(["t"])
            limits.lower_limit("t")
            sizes.append(int(limits.cap_batch_size(OPTIONS, KEY)[KEY]))
        assert sizes == ([16_384, 4096, 1024] if topic_limit else [65_536, 16_384, 4096])


def test_lookup_waits_for_a_new_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = Brokers({})

    def create_topic(_: float) -> None:
        brokers.limits["new"] = 1000

    monkeypatch.setattr("kraal.engine.kafka_io.message_limits.time.sleep", create_topic)
    limits = MessageLimits(brokers)
    limits.ensure(["new"], should_exist=True)
    assert limits.cap_batch_size(OPTIONS, KEY)[KEY] == "512"


@pytest.mark.parametrize(
    ("limit", "size"), [(0, 1), (1, 1), (1023, 512), (1024, 1024), (1_048_588, 1_048_576)]
)
def test_batch_sizes_are_powers_of_two(limit: int, size: int) -> None:
    assert fit_batch_size(limit) == size
