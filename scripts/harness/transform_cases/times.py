"""Cases of TimestampConverter with patterns of SimpleDateFormat."""

from __future__ import annotations

from typing import Any

from scripts.harness.transform_cases.building import (
    DATE,
    PLAIN,
    TEXT,
    TIME,
    TIMESTAMP,
    Case,
    case,
    make_schema,
    optional_schema,
    record,
    stage,
    struct,
    with_schema,
)

ISO = "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'"
MOMENTS = (
    0,
    1,
    -1,
    951_782_400_000,
    1_700_000_000_123,
    1_709_208_000_000,
    -14_182_940_000,
    -12_219_292_800_000,
    -12_219_292_800_001,
    -62_135_596_800_000,
    -62_135_769_600_001,
    253_402_300_800_000,
    4_102_444_799_999,
)
PATTERNS = (
    ISO,
    "yyyyMMddHHmmssSSS",
    "yy-M-d h:m a",
    "EEE, d MMM yyyy HH:mm:ss Z",
    "EEEE d MMMM y G",
    "D k K u",
    "yyyyy.MMMMM.dd GGG hh:mm aaa",
    "HH:mm:ss z",
    "zzzz X XX XXX",
    "''yyyy''MM'o''clock'",
    "SSSSSS S",
    "L LL LLL LLLL",
    "DDD",
)
TEXTS_BY_PATTERN = (
    (
        "yyyy-MM-dd",
        (
            "2023-11-14",
            "2023-1-5",
            " 2023-11-14",
            "2023-11-14 and more",
            "2023-13-45",
            "0-1-1",
            "-5-01-01",
            "2023-11",
            "2023/11/14",
            "",
            "99999-12-31",
            "2023-02-29",
            "1582-10-10",
            "1500-02-29",
        ),
    ),
    ("yyyyMMdd", ("20231114", "2023111", "2023-1-14", "202311149")),
    ("yyyyMMddHHmmss", ("20231114221320", "202311142213")),
    ("yy/MM/dd", ("23/11/14", "99/1/1", "5/1/1", "123/1/1", "-1/1/1")),
    (
        ISO,
        (
            "2023-11-14T22:13:20.123Z",
            "2023-11-14T22:13:20.5Z",
            "2023-11-14T25:61:61.1234Z",
            "2023-11-14T22:13:20.123",
        ),
    ),
    (
        "d MMM yyyy",
        ("14 Nov 2023", "14 november 2023", "14 NOVEMBER 2023", "14 XYZ 2023", "1 May 2023", "14 11 2023"),
    ),
    (
        "EEE, d MMM yyyy HH:mm:ss Z",
        (
            "Tue, 14 Nov 2023 22:13:20 +0130",
            "Mon, 14 Nov 2023 22:13:20 -0500",
            "Tue, 14 Nov 2023 22:13:20 GMT",
            "Tue, 14 Nov 2023 22:13:20 GMT+2:00",
            "Tue, 14 Nov 2023 22:13:20 +9900",
            "Foo, 14 Nov 2023 22:13:20 +0000",
        ),
    ),
    ("HH:mm z", ("10:00 UTC", "10:00 GMT", "10:00 GMT-03:30", "10:00 +0200", "10:00 nowhere")),
    ("HH:mmXXX", ("10:00Z", "10:00+02:00", "10:00-0200", "10:00+2:00")),
    ("HH:mmX", ("10:00+02", "10:00+0200", "10:00Z")),
    ("HH:mmXX", ("10:00+0230", "10:00+02:30")),
    ("hh:mm a", ("12:30 AM", "12:30 pm", "1:05 PM", "13:00 AM", "01:00")),
    ("kk:mm", ("24:30", "1:00")),
    ("KK:mm a", ("0:30 PM", "11:59 am")),
    ("yyyy DDD", ("2024 366", "2023 1", "2023 400")),
    ("yyyy G", ("44 BC", "2023 AD", "1 bc")),
    ("S", ("5", "1234", "-7")),
    ("'at' HH''mm", ("at 10'30", "AT 10'30", "at10'30")),
    ("yyyy u EEE", ("2023 3 Mon", "2023 9 Tue")),
)
UNITS = ("seconds", "milliseconds", "microseconds", "nanoseconds")
TARGETS = ("string", "unix", "Date", "Time", "Timestamp")


def convert(target: str, **settings: str) -> dict[str, str]:
    """Return a stage of TimestampConverter$Value."""
    return stage("TimestampConverter$Value", target_type=target, **settings)


EVENT = struct(
    ("at", optional_schema("int64", name=TIMESTAMP["name"], version=1)),
    ("n", make_schema("int8", default=4)),
    name="Event",
)
EVENT_VALUE = with_schema(EVENT, {"at": 1_700_000_000_123, "n": 1})
EVERYTHING: list[Any] = [
    record(with_schema(TIMESTAMP, 1_700_000_000_123)),
    record(with_schema(DATE, 19_675)),
    record(with_schema(TIME, 80_000_123)),
    record(with_schema(make_schema("int64"), 1_700_000_000_123)),
    record(with_schema(optional_schema("int64"), None)),
    record(with_schema(make_schema("string"), "2023-11-14T22:13:20.123Z")),
    record(with_schema(make_schema("int32"), 5)),
    record(with_schema(make_schema("boolean"), payload=True)),
    record(1_700_000_000_123),
    record("2023-11-14T22:13:20.123Z"),
    record("never"),
    record(1.5),
    record(value=True),
    record({"a": 1}),
    record(None),
]
COUNTS = (
    0,
    1,
    -1,
    999,
    -999,
    1_000_001,
    -1_000_001,
    1_700_000_000_123,
    9_223_372_036_854_775_807,
    -9_223_372_036_854_775_808,
)

CASES: list[Case] = [
    *(case(f"everything to {target}", convert(target, format=ISO), records=EVERYTHING) for target in TARGETS),
    case("a text without a format", convert("unix"), records=[record(with_schema(make_schema("int64"), 5))]),
    case("to a text without a format", convert("string"), records=[]),
    case("to a text with a blank format", convert("string", format=" "), records=[]),
    case("to nothing known", convert("date"), records=[]),
    case("in no unit", convert("unix", unix_precision="minutes"), records=[]),
    *(
        case(f"a format that Java refuses: {bad}", convert("string", format=bad), records=[])
        for bad in ("yyyy-bb", "'open", "XXXX")
    ),
    *(
        case(
            f"written as {pattern}",
            convert("string", format=pattern),
            records=[record(with_schema(TIMESTAMP, ms)) for ms in MOMENTS],
        )
        for pattern in PATTERNS
    ),
    *(
        case(
            f"read as {pattern}",
            convert("unix", format=pattern),
            records=[record(with_schema(make_schema("string"), text)) for text in texts],
        )
        for pattern, texts in TEXTS_BY_PATTERN
    ),
    *(
        case(
            f"counts in {unit}",
            convert("Timestamp", unix_precision=unit),
            convert("unix", unix_precision=unit),
            records=[record(count) for count in COUNTS],
        )
        for unit in UNITS
    ),
    *(
        case(
            f"to counts in {unit}",
            convert("unix", unix_precision=unit),
            records=[record(with_schema(TIMESTAMP, count)) for count in COUNTS],
        )
        for unit in UNITS
    ),
    *(
        case(
            f"{target} of any moment",
            convert(target),
            records=[record(with_schema(TIMESTAMP, ms)) for ms in MOMENTS],
        )
        for target in ("Date", "Time")
    ),
    case(
        "a field",
        convert("string", field="at", format="yyyy-MM-dd"),
        records=[
            record(EVENT_VALUE),
            record(with_schema(EVENT, {"at": None, "n": None})),
            record(with_schema({**EVENT, "optional": True}, None)),
            record({"at": 1_700_000_000_123, "n": 1}),
            record({"n": 1}),
            record({"at": True}),
            record(PLAIN),
            record(TEXT),
            record("text"),
            record(None),
        ],
    ),
    case(
        "a field of the key",
        stage("TimestampConverter$Key", field="at", target_type="unix"),
        records=[record(1, EVENT_VALUE), record(1)],
    ),
    case(
        "a field, without defaults",
        convert("Date", field="at", replace_null_with_default="false"),
        records=[record(EVENT_VALUE), record(with_schema(EVENT, {"at": 5, "n": None}))],
    ),
]
