"""Tests for the restrictions on a mirror's config in real-time mode."""

from __future__ import annotations

import pytest

from kraal.plugins.registry import Registry
from kraal.plugins.validation.validate import validate_connector
from tests.unit.plugins.shipped import Worker

VALID_CONFIG = {
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


def find_errors(changes: dict[str, str]) -> list[str]:
    return list(validate_connector(Registry.load(), Worker(), VALID_CONFIG | changes).errors)


def test_mirror_with_byte_array_converters_supports_real_time_mode() -> None:
    assert find_errors({}) == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (SMT, "it does not support transforms"),
        ({"errors.tolerance": "all"}, "errors.tolerance must be none, because failed records cannot"),
        ({"errors.log.enable": "true"}, "errors.log.enable must be false"),
        ({"errors.retry.timeout": "-1"}, "errors.retry.timeout must be 0"),
        (
            {"errors.deadletterqueue.topic.name": "dead"},
            "does not support errors.deadletterqueue.topic.name",
        ),
        (
            {"value.converter": "AvroConverter", "value.converter.schema.registry.url": "http://r:1"},
            "it does not support io.confluent.connect.avro.AvroConverter; use ByteArrayConverter",
        ),
    ],
)
def test_settings_for_the_record_path_are_rejected_in_real_time_mode_only(
    changes: dict[str, str], expected: str
) -> None:
    (error,) = find_errors(changes)
    assert error.startswith("Real-time mode cannot process records one at a time: ")
    assert expected in error
    assert find_errors({**changes, "trigger": "batch"}) == []
