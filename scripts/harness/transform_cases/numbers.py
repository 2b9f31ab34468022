"""Cases of Cast with Java's number conversions, and with invalid values."""

from __future__ import annotations

from typing import Any

from scripts.harness.transform_cases.building import (
    ANN,
    BOB,
    DATE,
    DECIMAL,
    PLAIN,
    TEXT,
    TIME,
    TIMESTAMP,
    Case,
    array,
    case,
    make_schema,
    optional_schema,
    record,
    stage,
    with_schema,
)
from scripts.harness.transform_cases.fields import EVERY_TYPE

TYPES = ("int8", "int16", "int32", "int64", "float32", "float64", "boolean", "string")
DOUBLES = (
    0.0,
    -0.0,
    1.5,
    -1.5,
    127.9,
    128.0,
    300.7,
    -129.0,
    32768.0,
    2147483648.5,
    -3e9,
    1e19,
    -1e19,
    1e300,
    1e-7,
    0.001,
    0.1,
    1234567.125,
    1e7,
    9999999.0,
    4.9e-324,
    1.7976931348623157e308,
    3.4028235e38,
    16777217.0,
)
LONGS = (
    0,
    1,
    -1,
    127,
    128,
    -129,
    40_000,
    2**31,
    -(2**31) - 1,
    2**63 - 1,
    -(2**63),
    16_777_217,
    9_007_199_254_740_993,
)
TEXTS = (
    "",
    " ",
    "0",
    "1",
    "-1",
    "+1",
    "128",
    "32768",
    "9223372036854775808",
    "1.5",
    " 1.5 ",
    "1e3",
    "1e400",
    "-1e-400",
    "NaN",
    "Infinity",
    "-Infinity",
    "nan",
    "0x1p3",
    "1d",
    "1.5F",
    "1L",
    "true",
    "TRUE",
    " true",
    "yes",
    "1_000",
    "0.1",
    "16777217",
    "3.4028236e38",
    "١٢",
    "--1",
    ".5",
    "5.",
    ".",
)


def make_records(kind: str, values: tuple[Any, ...]) -> list[dict[str, Any] | None]:
    """Return a record for each value, with a schema."""
    return [record(with_schema(make_schema(kind), value)) for value in values]


def keep_stable(kind: str, numbers: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the numbers; for `float32`, omit those that Java versions before 19 print with more digits."""
    return tuple(n for n in numbers if kind != "float32" or not 1e7 < abs(n) < 1e18)  # noqa: PLR2004


CASES: list[Case] = [
    *(
        case(
            f"cast the whole value to {kind}",
            stage("Cast$Value", spec=kind),
            records=[
                *make_records("double", keep_stable(kind, DOUBLES)),
                *make_records("int64", keep_stable(kind, LONGS)),
                *make_records("string", TEXTS),
                *make_records("boolean", (True, False)),
                *make_records("float", (1.1, 3.4e38, 1e-45, 16777216.0, 0.001, 1e7)),
                *make_records("int8", (-128, 127)),
                *make_records("bytes", ("", "AQID")),
                *(record(value=value) for value in (1.5, 300, True, "12", "x", [1], {"a": 1}, None)),
                record(ANN),
                record(with_schema(DATE, 19_000)),
                record(with_schema(TIME, 3_600_001)),
                record(with_schema(TIMESTAMP, 1_700_000_000_123)),
                record(with_schema(DECIMAL, "AOo=")),
                record(with_schema(array(make_schema("int8")), [1])),
                record(with_schema(optional_schema("int32", default=300, name="Named", doc="d"), None)),
                record(with_schema(optional_schema("int32", default=300, name="Named", doc="d"), 5)),
            ],
        )
        for kind in TYPES
    ),
    case(
        "cast fields of every type to text",
        stage(
            "Cast$Value",
            spec="i8:string,i16:string,i32:string,i64:string,f32:string,f64:string,yes:string,raw:string,"
            "day:string,time:string,at:string,money:string",
        ),
        records=[record(EVERY_TYPE), record(PLAIN)],
    ),
    case(
        "cast fields of every type to numbers",
        stage(
            "Cast$Value",
            spec="i8:float64,i16:int8,i32:int64,i64:int32,f32:float64,f64:float32,yes:int64,"
            "day:int64,time:int16,at:int32,money:float32",
        ),
        records=[record(EVERY_TYPE)],
    ),
    case(
        "cast with defaults",
        stage("Cast$Value", spec="rank:string,age:int8,nick:boolean"),
        records=[record(ANN), record(BOB)],
    ),
    case(
        "cast without defaults",
        stage("Cast$Value", spec="rank:string,nick:string", replace_null_with_default="false"),
        records=[record(ANN), record(BOB)],
    ),
    case(
        "cast a default that cannot be",
        stage("Cast$Value", spec="nick:int32"),
        records=[record(ANN), record(BOB)],
    ),
    case(
        "cast fields without a schema",
        stage("Cast$Value", spec="age:string,ok:int8,pi:int32,none:int8,nope:string"),
        records=[record(PLAIN)],
    ),
    case("cast a list without a schema", stage("Cast$Value", spec="list:string"), records=[record(PLAIN)]),
    case("cast an object without a schema", stage("Cast$Value", spec="in:string"), records=[record(PLAIN)]),
    case(
        "cast fields of what is no struct",
        stage("Cast$Value", spec="a:int8"),
        records=[record(TEXT), record("x"), record(None)],
    ),
    case(
        "cast the key",
        stage("Cast$Key", spec="int32"),
        records=[
            record(1, with_schema(make_schema("string"), "12")),
            record(1, "12"),
            record(1),
            record(1, with_schema(make_schema("string"), "x")),
        ],
    ),
    case("cast bytes to a number", stage("Cast$Value", spec="raw:int8"), records=[record(EVERY_TYPE)]),
    case(
        "cast times that are none",
        stage("Cast$Value", spec="int64"),
        records=[
            record(with_schema(TIME, 86_400_000)),
            record(with_schema(TIMESTAMP, -1)),
            record(with_schema(DATE, -1)),
        ],
    ),
    case(
        "cast days and times to text",
        stage("Cast$Value", spec="string"),
        records=[
            *(
                record(with_schema(TIMESTAMP, ms))
                for ms in (0, -1, 86_399_999, 86_400_000, 86_400_001, 253_402_300_800_000)
            ),
            *(record(with_schema(DATE, day)) for day in (-1, 0, 1, 2)),
        ],
    ),
    *(
        case(f"cast by {spec}", stage("Cast$Value", spec=spec), records=[])
        for spec in (
            "",
            "a:nope",
            "nope",
            "a:array",
            "bytes",
            "a:b:c",
            "int8,a:int8",
            "int8,int16",
            " a : INT8 ",
        )
    ),
]
