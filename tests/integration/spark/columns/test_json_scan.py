"""Tests that `scan_json` accepts only documents that Spark parses and rewrites identically."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from kraal.engine.columns.json_scan import can_scan, scan_json
from kraal.plugins.model.schema import Field, Schema, Type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DDL = (
    "struct<`id`:bigint,`text`:string,`small`:int,`tiny`:tinyint,`short`:smallint,`half`:double,`yes`:boolean,"
    "`in it`:struct<`x`:int,`y`:string>>"
)
WORDS = ["", "plain", "é, ü and 漢", "😀", "a/b", "\x7f", "{}", '":"', "}", "null"]
ESCAPED_WORDS = ['a "quoted" one', "back\\slash", "tab\t", "\u0001", "line\n"]
REPLACEMENTS = (
    (b'"id":', b'"id": '),
    (b'"id":', b'"id":0'),
    (b'"id":', b'"id":-'),
    (b'"id":', b'"id":+'),
    (b'"id":', b'"ID":'),
    (b'"id":', b'"id":9999999999999999999'),
    (b'"id":', b'"id":1.5,"more":'),
    (b'"small":', b'"small":3000000000,"z":'),
    (b'"small":', b'"small":9'),
    (b'"tiny":', b'"tiny":9'),
    (b'"short":', b'"short":-'),
    (b'"half":', b'"half":1'),
    (b'"half":', b'"half":1.50,"z":'),
    (b'"half":', b'"half":1e3,"z":'),
    (b'"half":', b'"half":"NaN","z":'),
    (b'"half":', b'"half":-0.0,"z":'),
    (b'"yes":', b'"yes":tru'),
    (b'"yes":', b'"yes":"true","z":'),
    (b'"text":"', b'"text":"\\u0041'),
    (b'"text":"', b'"text":"\xff'),
    (b'"text":"', b'"text":"\xc3'),
    (b'"text":"', b'"text":"\t'),
    (b'"text":"', b'"text":""'),
    (b'"x":', b'"y":'),
    (b"}", b"}}"),
    (b"}", b""),
    (b"}", b" }"),
    (b"null", b"nul"),
    (b"null", b"{}"),
    (b",", b", "),
    (b",", b""),
)
"""Replacements that change a document, usually to one that Spark would not write."""


def make_row(rng: random.Random, words: list[str]) -> dict[str, Any]:
    def or_null(value: Any) -> Any:
        return None if rng.random() < 0.2 else value

    bits = rng.choice([7, 31, 59, 63])
    return {
        "id": or_null(rng.randint(-(2**bits), 2**bits - 1)),
        "text": or_null(rng.choice(words)),
        "small": or_null(rng.randint(-(2**31), 2**31 - 1)),
        "tiny": or_null(rng.randint(-128, 127)),
        "short": or_null(rng.choice([0, -(2**15), 2**15 - 1])),
        "half": or_null(rng.choice([1.5, -0.25, 0.0, 12345.678, 1e7, 1e300, 0.1 + 0.2])),
        "yes": or_null(rng.random() < 0.5),
        "in it": or_null({"x": or_null(rng.randint(-9, 9)), "y": or_null(rng.choice(words))}),
    }


def make_documents(seed: int) -> list[bytes]:
    rng = random.Random(seed)  # noqa: S311 - test data
    documents = []
    for _ in range(1500):
        words = WORDS if rng.random() < 0.8 else ESCAPED_WORDS
        text = json.dumps(make_row(rng, words), separators=(",", ":"), ensure_ascii=False).encode()
        if rng.random() < 0.7:
            old, new = rng.choice(REPLACEMENTS)
            positions = [n for n in range(len(text)) if text.startswith(old, n)]
            if positions:
                position = rng.choice(positions)
                text = text[:position] + new + text[position + len(old) :]
        if rng.random() < 0.1:
            text = text[: rng.randrange(len(text))]
        documents.append(text)
    return documents


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("prefix", "suffix"), [(b"", ""), (b'{"schema":{},"payload":', "}")])
def test_scan_json_matches_from_json_and_to_json(
    spark: SparkSession, seed: int, prefix: bytes, suffix: str
) -> None:
    """The scan may also reject documents that Spark rewrites identically."""
    documents = make_documents(seed)
    pairs = [(bytearray(prefix + text + suffix.encode()), bytearray(text)) for text in documents]
    frame = spark.createDataFrame(pairs, "raw binary, text binary")
    parsed = F.from_json(F.col("text").cast("string"), DDL, {"mode": "PERMISSIVE"})
    rows = frame.select(
        "text",
        scan_json(F.col("raw"), prefix, suffix, DDL).alias("scan"),
        parsed.alias("read"),
        F.to_json(parsed, {"ignoreNullFields": "false"}).alias("again"),
    ).collect()
    scanned_rows = [row for row in rows if row["scan"] is not None]
    for row in scanned_rows:
        assert row["again"].encode() == bytes(row["text"])
        assert row["scan"] == row["read"]
    identical_rows = [
        row for row in rows if row["again"] is not None and row["again"].encode() == bytes(row["text"])
    ]
    assert len(scanned_rows) > 100
    assert len(scanned_rows) > len(identical_rows) * 0.5, (
        "the scan must accept more than half of the documents that Spark rewrites identically (it rejects escapes)"
    )


def test_scan_requires_the_exact_text_around_the_value(spark: SparkSession) -> None:
    document = b'{"a":1}'
    cases = [
        b"<" + document + b">",
        document,
        b"<" + document,
        b"<" + document + b">>",
        b" <" + document + b">",
        b"<null>",
        b"",
        b"<",
    ]
    frame = spark.createDataFrame([(bytearray(case),) for case in cases] + [(None,)], "raw binary")
    rows = frame.select(scan_json(F.col("raw"), b"<", ">", "struct<`a`:int>").alias("scan")).collect()
    assert [row["scan"] and row["scan"]["a"] for row in rows] == [1] + [None] * 8


def make_schema(**fields: Schema) -> Schema:
    return Schema(
        type=Type.STRUCT, fields=tuple(Field(name=name, schema=schema) for name, schema in fields.items())
    )


def test_can_scan_accepts_structs_of_primitive_values() -> None:
    int32 = Schema(type=Type.INT32)
    assert can_scan(make_schema(a=int32, b=make_schema(c=Schema(type=Type.STRING))))
    rejected_schemas = [
        int32,
        make_schema(),
        make_schema(a=make_schema()),
        make_schema(a=Schema(type=Type.FLOAT32)),
        make_schema(a=Schema(type=Type.BYTES)),
    ]
    rejected_schemas += [
        make_schema(a=Schema(type=Type.ARRAY, value=int32)),
        make_schema(**{'"': int32}),
        make_schema(é=int32),
        make_schema(**{"": int32}),
    ]
    assert not any(map(can_scan, rejected_schemas))
