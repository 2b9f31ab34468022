"""Cases for header transforms, and for InsertField with the metadata of a record."""

from __future__ import annotations

from scripts.harness.transform_cases.building import (
    ANN,
    BOB,
    HOME,
    PLAIN,
    TEXT,
    Case,
    case,
    make_schema,
    record,
    stage,
    struct,
    text,
    with_schema,
)
from scripts.harness.transform_cases.fields import EVERYTHING

HEADERS = [["a", text(TEXT)], ["b", text(7)], ["a", None], ["c", text(ANN)]]
SOURCE_ATTRIBUTES = {"partition": None, "offset": None, "timestamp": None}
LITERALS = (
    "text",
    "",
    " ",
    "null",
    "true",
    "false",
    "TRUE",
    "1",
    "-129",
    "40000",
    "3000000000",
    "9223372036854775808",
    "1.5",
    "1e40",
    "1e400",
    "1E+3",
    "+5",
    "-",
    "0x10",
    "2023-11-14",
    "22:13:20.123Z",
    "2023-11-14T22:13:20.123Z",
    "[1,2,3]",
    '[1,"a"]',
    "[1,2.5,300]",
    "[]",
    "[1,",
    '{"a":1,"b":300}',
    '{"a":null}',
    '{1:"x"}',
    "[null,1]",
    "[true,false]",
    '"quoted"',
    '["q\\"q"]',
    "a:b",
    "1 2",
    "12:30",
    "[[1],[2]]",
    '{"a":[1,2]}',
)

CASES: list[Case] = [
    *(
        case(
            f"insert the header {literal}",
            stage("InsertHeader", header="h", value_literal=literal),
            records=[record(1, headers=HEADERS)],
        )
        for literal in LITERALS
    ),
    case("insert a header without a value", stage("InsertHeader", header="h"), records=[]),
    case(
        "drop headers",
        stage("DropHeaders", headers="a,c,nope"),
        records=[record(1, headers=HEADERS), record(1)],
    ),
    case("drop no headers", stage("DropHeaders", headers=""), records=[]),
    *(
        case(
            f"{operation} fields to headers",
            stage("HeaderFrom$Value", fields="name,nick", headers="who,nick", operation=operation),
            records=[*EVERYTHING, record(ANN, headers=HEADERS)],
        )
        for operation in ("move", "copy")
    ),
    case(
        "move the key's field that may not be null",
        stage(
            "HeaderFrom$Key", fields="rank", headers="r", operation="move", replace_null_with_default="false"
        ),
        records=[record(1, ANN), record(1, BOB), record(1, PLAIN), record(1)],
    ),
    case(
        "move what is not there",
        stage("HeaderFrom$Value", fields="nope", headers="h", operation="move"),
        records=EVERYTHING,
    ),
    case(
        "move a struct",
        stage("HeaderFrom$Value", fields="home,tags", headers="h,t", operation="move"),
        records=[record(HOME)],
    ),
    case(
        "move to fewer headers",
        stage("HeaderFrom$Value", fields="a,b", headers="h", operation="move"),
        records=[],
    ),
    case(
        "neither move nor copy",
        stage("HeaderFrom$Value", fields="a", headers="h", operation="MOVE"),
        records=[],
    ),
    case(
        "insert all that is known",
        stage(
            "InsertField$Value",
            topic_field="t",
            partition_field="p!",
            offset_field="o?",
            timestamp_field="ts",
            static_field="s!",
            static_value="fixed",
        ),
        records=[*EVERYTHING, record(ANN, **SOURCE_ATTRIBUTES)],
    ),
    case(
        "insert what a source knows",
        stage("InsertField$Value", topic_field="t!", partition_field="p", timestamp_field="ts?"),
        records=[
            record(ANN, **SOURCE_ATTRIBUTES),
            record(PLAIN, **SOURCE_ATTRIBUTES),
            record(None, **SOURCE_ATTRIBUTES),
        ],
    ),
    case(
        "insert a required field that is not known",
        stage("InsertField$Value", partition_field="p!"),
        records=[record(ANN, **SOURCE_ATTRIBUTES)],
    ),
    case(
        "insert into the key",
        stage("InsertField$Key", static_field="s", static_value=""),
        records=[record(1, ANN), record(1, PLAIN), record(1)],
    ),
    case(
        "insert without defaults",
        stage("InsertField$Value", static_field="s", static_value="x", replace_null_with_default="false"),
        records=[record(ANN), record(BOB)],
    ),
    case(
        "insert a field that is there",
        stage("InsertField$Value", topic_field="name"),
        records=[record(ANN), record(PLAIN)],
    ),
    case(
        "insert a field without a name",
        stage("InsertField$Value", topic_field="!"),
        records=[record(with_schema(struct(("a", make_schema("int8"))), {"a": 1})), record({"a": 1})],
    ),
    case("insert nothing", stage("InsertField$Value"), records=[]),
]
