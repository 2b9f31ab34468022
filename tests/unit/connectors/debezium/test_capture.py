"""Tests for what a config of Debezium's PostgreSQL connector captures."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kraal.config.connector.converters import ConverterSettings
from kraal.connectors.debezium.capture import JSON_CONVERTER, parse_capture
from kraal.plugins.api import NotComparable
from tests.unit.connectors.debezium.config import CONFIG, UNWRAPPED, make_capture


def test_topics_have_the_name_of_the_table_without_characters_that_kafka_rejects() -> None:
    assert make_capture().make_topic("public", "orders") == "shop.public.orders"
    capture = make_capture({"topic.delimiter": "-"})
    assert capture.make_topic("public", "Straße 1") == "shop-public-Stra_e_1"


@pytest.mark.parametrize(
    ("settings", "captured"),
    [
        ({}, ["public.orders", "public.orders2", "audit.log"]),
        ({"table.include.list": "public.orders"}, ["public.orders"]),
        (
            {"table.include.list": r"PUBLIC\.ord.*, audit.log"},
            ["public.orders", "public.orders2", "audit.log"],
        ),
        ({"table.exclude.list": "public.orders2"}, ["public.orders", "audit.log"]),
        ({"schema.include.list": "audit"}, ["audit.log"]),
        ({"schema.exclude.list": "audit", "table.include.list": ".*s"}, ["public.orders"]),
        ({"table.include.list": r".*ers\d{1\,2}"}, ["public.orders2"]),
    ],
)
def test_lists_select_tables_by_their_full_name(settings: Mapping[str, str], captured: list[str]) -> None:
    capture = make_capture(settings)
    names = [("public", "orders"), ("public", "orders2"), ("audit", "log")]
    assert [f"{schema}.{table}" for schema, table in names if capture.captures(schema, table)] == captured


def test_lists_select_and_mask_columns() -> None:
    capture = make_capture(
        {
            "column.exclude.list": "public.orders.secret",
            "column.mask.with.4.chars": "public.orders.card",
            "column.truncate.to.20.chars": r"public\..*\.note",
        }
    )
    assert [name for name in ("card", "secret") if capture.captures_column("public", "orders", name)] == [
        "card"
    ]
    masked = [name for name in ("id", "card", "note") if capture.is_masked("public", "orders", name)]
    assert masked == ["card", "note"]


def test_settings_have_debeziums_defaults() -> None:
    capture = make_capture()
    assert (capture.time_mode, capture.decimal_mode, capture.binary_mode) == ("adaptive", "precise", "bytes")
    assert (capture.slot, capture.placeholder) == ("debezium", "__debezium_unavailable_value")
    assert (capture.key_has_schema, capture.value_has_schema, capture.unwrapping) == (True, True, None)
    assert capture.settle_s == 6
    changed = make_capture(
        {"poll.interval.ms": "2000"}, {"schemas.enable": "False", "decimal.format": "numeric"}
    )
    assert (changed.settle_s, changed.value_has_schema, changed.decimals_are_numbers) == (9, False, True)


@pytest.mark.parametrize(("mode", "keeps_deletions"), [(None, True), ("rewrite", True), ("drop", False)])
def test_unwrapped_records_may_lack_deletions(mode: str | None, *, keeps_deletions: bool) -> None:
    settings = {} if mode is None else {"transforms.unwrap.delete.tombstone.handling.mode": mode}
    unwrapping = make_capture({**UNWRAPPED, **settings}).unwrapping
    assert unwrapping is not None
    assert unwrapping.keeps_deletions is keeps_deletions


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"snapshot.mode": "no_data"}, "with snapshot.mode=no_data, the topics may lack rows"),
        ({"skipped.operations": "none"}, "skipped.operations=none is not supported by proofs; supported: t"),
        ({"message.key.columns": "a.b:c"}, "the key message.key.columns is not supported"),
        ({"snapshot.select.statement.overrides.public.orders": "SELECT 1"}, "is not supported by proofs"),
        ({"topic.naming.strategy": "com.example.Naming"}, "topic.naming.strategy=com.example.Naming"),
        (
            {"transforms": "route", "transforms.route.type": "x.Router"},
            r"the transform route \(x.Router\) is not",
        ),
        ({**UNWRAPPED, "transforms": "unwrap,unwrap2"}, "the transform unwrap .* supported: none, or"),
        ({**UNWRAPPED, "transforms.unwrap.predicate": "p"}, "transforms.unwrap.predicate is not supported"),
    ],
)
def test_config_that_cannot_be_proved_is_refused_with_its_key(
    settings: Mapping[str, str], reason: str
) -> None:
    with pytest.raises(NotComparable, match=reason):
        make_capture(settings)


def test_other_converters_are_refused() -> None:
    json, avro = ConverterSettings(JSON_CONVERTER, {}), ConverterSettings("io.confluent.AvroConverter", {})
    with pytest.raises(NotComparable, match=r"value\.converter is io\.confluent\.AvroConverter"):
        parse_capture(CONFIG, json, avro)
