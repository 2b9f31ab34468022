"""What a mirror's config may not say in real-time mode."""

from __future__ import annotations

import pytest

from kraal.plugins.registry import Registry
from kraal.plugins.validation.validate import validate_connector
from tests.unit.plugins.shipped import Worker

GOOD = {
    "name": "m",
    "connector.class": "MirrorSource",
    "trigger": "realtime",
    "source.cluster.alias": "west",
    "source.cluster.bootstrap.servers": "west:1",
    "target.cluster.bootstrap.servers": "east:1",
    "key.converter": "ByteArrayConverter",
    "value.converter": "ByteArrayConverter",
    "header.converter": "ByteArrayConverter",
}
SMT = {
    "transforms": "a",
    "transforms.a.type": "org.apache.kafka.connect.transforms.HoistField$Value",
    "transforms.a.field": "v",
}


def errors(changes: dict[str, str]) -> list[str]:
    return list(validate_connector(Registry.load(), Worker(), GOOD | changes).errors)


def test_a_mirror_of_bytes_may_be_in_real_time() -> None:
    assert errors({}) == []


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (SMT, "it has no transforms"),
        ({"errors.tolerance": "all"}, "errors.tolerance is none, for records that fail cannot"),
        ({"errors.log.enable": "true"}, "errors.log.enable is false"),
        ({"errors.retry.timeout": "-1"}, "errors.retry.timeout is 0"),
        ({"errors.deadletterqueue.topic.name": "dead"}, "no errors.deadletterqueue.topic.name"),
        (
            {"value.converter": "AvroConverter", "value.converter.schema.registry.url": "http://r:1"},
            "AvroConverter does, ByteArrayConverter does not",
        ),
    ],
)
def test_settings_that_need_single_records_are_rejected_in_real_time_only(
    changes: dict[str, str], says: str
) -> None:
    (error,) = errors(changes)
    assert error.startswith("In real-time mode nothing handles records one by one: ")
    assert says in error
    assert errors({**changes, "trigger": "batch"}) == []
