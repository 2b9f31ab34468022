"""Tests for the result of a proof: its verdict and the lines for users."""

from __future__ import annotations

from dataclasses import replace

from kraal.core.offsets import SourcePartition, TopicPartition
from kraal.proof.differences import Differences, RowKey, SourceSpan, Span
from kraal.proof.result import ProofResult, SkippedRecords, Verdict, format_lines

ORDERS = TopicPartition("orders", 0)
SPAN = Span(group=ORDERS, first=17_003_221, last=17_003_224)
NOT_COUNTED = SkippedRecords()
STARTED_MS = 1_795_773_840_000
"""2026-11-27 10:04 UTC"""


def make_result(
    differences: Differences, *, is_partial: bool = False, skipped: SkippedRecords = NOT_COUNTED
) -> ProofResult:
    return ProofResult(
        ranges={ORDERS: (500 if is_partial else 0, 18_402_113)},
        expected_count=18_402_113,
        stored_count=18_402_113,
        differences=differences,
        skipped=skipped,
        is_partial=is_partial,
    )


def lines(result: ProofResult, sample_percent: float | None = None) -> list[str]:
    state = {"started_ms": STARTED_MS, "sample_percent": sample_percent, "result": result.to_json_object()}
    return list(format_lines(state))


def test_proved_result_names_the_offset_and_the_dead_letters() -> None:
    result = make_result(Differences(), skipped=SkippedRecords(dead_letters=12, dropped=0))
    assert result.verdict is Verdict.PROVED
    assert lines(result) == [
        "proved up to orders-0@18,402,113 (2026-11-27 10:04 UTC): 0 missing, 0 repeated, 0 unexpected, 12 dead letters"
    ]


def test_differences_name_the_offsets() -> None:
    result = make_result(
        Differences(missing_count=4, missing=(SPAN,), repeated_count=2, repeated=(SPAN,), unexpected_count=1)
    )
    assert result.verdict is Verdict.DIFFERENT
    assert lines(result) == [
        "different up to orders-0@18,402,113 (2026-11-27 10:04 UTC): 4 missing, 2 repeated, 1 unexpected",
        "missing: orders-0@17,003,221 to @17,003,224",
        "repeated: orders-0@17,003,221 to @17,003,224",
        "rows of the target that equal no record's row: 1",
    ]


def test_additional_rows_of_a_partial_comparison_are_not_searched() -> None:
    result = make_result(Differences(repeated_count=2, unexpected_count=5), is_partial=True)
    assert result.verdict is Verdict.PROVED
    assert lines(result) == [
        "proved up to orders-0@18,402,113 (2026-11-27 10:04 UTC): 0 missing",
        "compared from orders-0@500; repeated and unexpected rows were not searched",
    ]
    assert make_result(Differences(missing_count=1), is_partial=True).verdict is Verdict.DIFFERENT


def test_sample_names_its_offsets() -> None:
    assert lines(make_result(Differences(), is_partial=True), 2.5) == [
        "proved in a sample of 2.5 % (2026-11-27 10:04 UTC): 0 missing",
        "compared orders-0@500 to @18,402,112; repeated and unexpected rows were not searched",
    ]


def test_only_the_first_spans_are_shown() -> None:
    spans = tuple(Span(group=ORDERS, first=2 * n, last=2 * n) for n in range(7))
    shown = lines(make_result(Differences(missing_count=7, missing=spans)))[1]
    assert shown == "missing: orders-0@0, orders-0@2, orders-0@4, orders-0@6, orders-0@8, …"


def test_result_of_a_source_names_its_offsets_and_records() -> None:
    partition = SourcePartition.of({"filename": "/data/orders.txt"})
    lost = SourceSpan(partition=partition, other_partitions=2, after={"position": 512}, first=17, last=17)
    first = SourceSpan(partition=partition, after=None, first=1, last=1024)
    differences = Differences(
        missing_count=1025,
        missing_source_records=(first, lost),
        repeated_count=4,
        repeated=(SPAN,),
        unexpected_count=1,
        unexpected=(Span(group=ORDERS, first=7, last=7),),
    )
    source_offsets = {partition: {"position": 4096}}
    result = replace(make_result(differences), source_offsets=source_offsets)
    file, after, end = '{"filename": "/data/orders.txt"}', '{"position": 512}', '{"position": 4096}'
    assert lines(result) == [
        f"different up to offset {end} of {file} (2026-11-27 10:04 UTC): 1,025 missing, 4 repeated, 1 unexpected",
        f"missing: records 1 to 1,024 of {file}, record 17 after offset {after} of {file} and 2 others",
        "repeated: orders-0@17,003,221 to @17,003,224",
        "unexpected: orders-0@7",
    ]
    partial = replace(make_result(differences, is_partial=True), source_offsets=source_offsets)
    assert lines(partial)[-1] == (
        "the source may have changed or deleted records; repeated and unexpected records were not searched"
    )


def test_result_by_key_names_tables_and_keys() -> None:
    keys = tuple(RowKey(table="public.orders", key=f'{{"id":{number},"line":1}}') for number in range(2))
    differences = Differences(
        missing_count=2,
        missing_keys=keys,
        unexpected_count=2,
        unexpected_keys=(keys[0], RowKey(table="public.orders", key="no key")),
    )
    offsets = {SourcePartition.of({"server": "shop"}): {"lsn": 4096}}
    not_compared = tuple(f"public.orders.c{number} (interval)" for number in range(6))
    result = replace(
        make_result(differences), source_offsets=offsets, is_by_key=True, not_compared=not_compared
    )
    assert result.to_json_object()["unexpected"]["keys"] == [
        {"table": "public.orders", "key": {"id": 0, "line": 1}},
        {"table": "public.orders", "key": "no key"},
    ]
    first = 'public.orders {"id": 0, "line": 1}'
    assert lines(result) == [
        'different up to offset {"lsn": 4096} of {"server": "shop"} (2026-11-27 10:04 UTC): 2 missing, 2 unexpected',
        f'missing: {first}, public.orders {{"id": 1, "line": 1}}',
        f'unexpected: {first}, public.orders "no key"',
        f"not compared: {', '.join(not_compared[:5])}, …",
    ]
    assert replace(result, differences=Differences()).verdict is Verdict.PROVED
