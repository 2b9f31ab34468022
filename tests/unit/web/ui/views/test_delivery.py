"""Tests for the proof that the delivery tab shows."""

from __future__ import annotations

from typing import Any

import pytest

from kraal.core.ids import Json
from tests.unit.web.ui.activity import NAME, PATH, canned_responses
from web.ui.views.delivery import parse_delivery, proof_request


def test_counts_have_labels_and_positions() -> None:
    delivery = parse_delivery(canned_responses(text="orders")[f"{PATH}/proof"])
    assert (delivery.state, delivery.style, delivery.scope) == (
        "DIFFERENT",
        "failed",
        "up to orders-0@12,345",
    )
    assert [(count.label, count.count, count.positions) for count in delivery.counts] == [
        ("missing", 2, "orders-0@3 to @4"),
        ("repeated", 0, ""),
        ("unexpected", 0, ""),
        ("dead letters", 7, ""),
    ]


def test_undecided_proof_has_a_reason() -> None:
    response: Json = {"state": "UNDECIDED", "started_ms": 5, "reason": "it has no file", "result": None}
    delivery = parse_delivery(response)
    assert (delivery.style, delivery.reason, delivery.counts) == ("paused", "it has no file", ())


@pytest.mark.parametrize(
    "result",
    [
        {"partitions": 7},
        {"source_offsets": 7},
        {"source_offsets": None, "partitions": [], "missing": {}},
        {"a": 1},
    ],
)
def test_unknown_format_is_reported_as_the_reason(result: Any) -> None:
    delivery = parse_delivery({"state": "PROVED", "started_ms": "soon", "result": result})
    assert (delivery.reason, delivery.counts, delivery.started_ms) == (
        "The result of the proof has an unknown format.",
        (),
        None,
    )


@pytest.mark.parametrize("response", [None, [], 7, {"result": []}])
def test_malformed_response_has_no_counts(response: Any) -> None:
    assert parse_delivery(response).counts == ()


def test_proof_request_is_a_post() -> None:
    assert proof_request(NAME).text == "POST /connectors/orders-sink/proof"


def test_keys_of_rows_are_positions() -> None:
    keys: list[Json] = [{"table": "public.orders", "key": {"id": 7}}]
    result: Json = {
        "source_offsets": [{"partition": {"server": "shop"}, "offset": {"lsn": 5}}],
        "partitions": [],
        "partial": False,
        "missing": {"rows": 1, "offsets": [], "source_records": [], "keys": keys},
        "repeated": None,
        "unexpected": {"rows": 0, "offsets": [], "keys": []},
        "not_compared": ["public.orders.span (interval)"],
    }
    delivery = parse_delivery({"state": "DIFFERENT", "started_ms": 5, "result": result})
    assert [(count.label, count.count, count.positions) for count in delivery.counts] == [
        ("missing", 1, 'public.orders {"id": 7}'),
        ("unexpected", 0, ""),
    ]
    assert delivery.not_compared == "public.orders.span (interval)"
