"""Cases of transforms that select, wrap, rename, flatten, add and mask fields."""

from __future__ import annotations

from scripts.harness.transform_cases.building import (
    ANN,
    AWAY,
    BOB,
    DATE,
    DECIMAL,
    HOME,
    PLAIN,
    TEXT,
    TIME,
    TIMESTAMP,
    Case,
    array,
    case,
    make_schema,
    mapping,
    optional_schema,
    record,
    stage,
    struct,
    with_schema,
)

NO_DEFAULTS = "false"
EVERYTHING = [record(value=value) for value in (ANN, BOB, PLAIN, TEXT, "text", [1, 2], None)]
EVERY_TYPE = with_schema(
    struct(
        ("i8", make_schema("int8")),
        ("i16", make_schema("int16")),
        ("i32", optional_schema("int32")),
        ("i64", make_schema("int64")),
        ("f32", make_schema("float")),
        ("f64", make_schema("double")),
        ("yes", make_schema("boolean")),
        ("text", make_schema("string")),
        ("raw", make_schema("bytes")),
        ("day", DATE),
        ("time", TIME),
        ("at", TIMESTAMP),
        ("money", DECIMAL),
        ("list", array(make_schema("int32"))),
        ("map", mapping(make_schema("int64"))),
        ("in", struct(("x", make_schema("int8")))),
    ),
    {
        "i8": 1,
        "i16": 300,
        "i32": None,
        "i64": 5_000_000_000,
        "f32": 1.1,
        "f64": -2.5e-10,
        "yes": True,
        "text": "t",
        "raw": "AQID",
        "day": 19_000,
        "time": 3_600_001,
        "at": 1_700_000_000_123,
        "money": "AOo=",
        "list": [1, 2],
        "map": {"k": 9},
        "in": {"x": 3},
    },
)
ALL_FIELDS = "i8,i16,i32,i64,f32,f64,yes,text,raw,day,time,at,money,list,map"


def extract(field: str, version: str = "V1", **settings: str) -> dict[str, str]:
    """Return a stage of ExtractField$Value."""
    return stage("ExtractField$Value", field=field, field_syntax_version=version, **settings)


PATHS = {"a": {"b.c": {"d": 1}, "`": 2, "b": None}, "a.b": {"c`d": 3}, "": {"": 4}}
PATHS_WITH_SCHEMA = with_schema(
    struct(
        (
            "a",
            struct(("b.c", struct(("d", make_schema("int32", default=8)))), ("b", optional_schema("string"))),
        ),
        ("a.b", make_schema("string")),
        ("gone", optional_schema("struct", fields=[{**make_schema("int32"), "field": "x"}])),
    ),
    {"a": {"b.c": {"d": None}, "b": None}, "a.b": "dotted", "gone": None},
)

CASES: list[Case] = [
    case("hoist the value", stage("HoistField$Value", field="wrap"), records=EVERYTHING),
    case(
        "hoist the key",
        stage("HoistField$Key", field="id"),
        records=[
            record(PLAIN, TEXT),
            record(PLAIN, 7),
            record(PLAIN),
            record(PLAIN, with_schema(optional_schema("int64"), None)),
        ],
    ),
    case("hoist without a name", stage("HoistField$Value", field=""), records=[record(TEXT), record("text")]),
    case("hoist without its key", stage("HoistField$Value"), records=[]),
    case("extract a field", extract("name"), records=EVERYTHING),
    case("extract a field that may be null", extract("nick"), records=EVERYTHING),
    case(
        "extract null, not its default",
        extract("rank", replace_null_with_default=NO_DEFAULTS),
        records=[record(BOB)],
    ),
    case(
        "extract the key's field",
        stage("ExtractField$Key", field="name"),
        records=[record(1, ANN), record(1, PLAIN)],
    ),
    case(
        "extract in syntax V1 by a name with dots",
        extract("a.b"),
        records=[record(PATHS), record(PATHS_WITH_SCHEMA)],
    ),
    *(
        case(
            f"extract by the path {path}",
            extract(path, "V2"),
            records=[record(PATHS), record(PATHS_WITH_SCHEMA)],
        )
        for path in (
            "a.`b.c`.d",
            "`a.b`",
            "a.b",
            "a.b.x",
            "a.b.c",
            "`a.b`.`c`d`",
            "a.",
            "gone.x",
            "name.x",
            "a.```",
            ".",
        )
    ),
    case("extract by a path through a list", extract("list.x", "v2"), records=[record(PLAIN), record(HOME)]),
    case("extract by half a backtick", extract("a.`b", "V2"), records=[record(PATHS)]),
    case("extract by an escaped backtick", extract("`a\\`", "V2"), records=[record(PATHS)]),
    case("extract in an unknown syntax", extract("a", "V3"), records=[]),
    case("leave fields out", stage("ReplaceField$Value", exclude="age,rank,none"), records=EVERYTHING),
    case("keep some fields", stage("ReplaceField$Value", include="name,age,nope"), records=EVERYTHING),
    case(
        "rename fields, and leave one out that is to be kept",
        stage(
            "ReplaceField$Value", include="name,age,nick", exclude="nick", renames="name:who,age:years,x:y"
        ),
        records=EVERYTHING,
    ),
    case(
        "rename without defaults",
        stage("ReplaceField$Value", renames="name:who", replace_null_with_default=NO_DEFAULTS),
        records=EVERYTHING,
    ),
    case(
        "rename to a name that is there", stage("ReplaceField$Value", renames="name:nick"), records=EVERYTHING
    ),
    case(
        "rename what the value does not have",
        stage("ReplaceField$Value", renames="x:name"),
        records=[record(ANN)],
    ),
    case("rename to nothing", stage("ReplaceField$Value", renames="name:"), records=[]),
    case("rename in three parts", stage("ReplaceField$Value", renames="a:b:c"), records=[]),
    case(
        "keep some of the key",
        stage("ReplaceField$Key", include="name"),
        records=[record(1, ANN), record(1), record(1, 2)],
    ),
    case("flatten", stage("Flatten$Value"), records=[*EVERYTHING, record(HOME), record(AWAY)]),
    case(
        "flatten with another delimiter",
        stage("Flatten$Value", delimiter="__"),
        records=[record(HOME), record(PLAIN)],
    ),
    case(
        "flatten with none",
        stage("Flatten$Key", delimiter=""),
        records=[record(1, HOME), record(1, {"a": {"b": 1}, "ab": 2})],
    ),
    case("flatten every type, with a map among them", stage("Flatten$Value"), records=[record(EVERY_TYPE)]),
    case(
        "flatten to a name that is there",
        stage("Flatten$Value"),
        records=[
            record(
                with_schema(
                    struct(("a.b", make_schema("int8")), ("a", struct(("b", make_schema("int8"))))),
                    {"a.b": 1, "a": {"b": 2}},
                )
            ),
        ],
    ),
    case(
        "flatten fields with defaults, of what may be null",
        stage("Flatten$Value"),
        records=[
            record(
                with_schema(
                    struct(
                        (
                            "in",
                            optional_schema(
                                "struct",
                                fields=[
                                    {**make_schema("int32", default=5), "field": "x"},
                                    {**make_schema("string"), "field": "s"},
                                ],
                            ),
                        ),
                        ("out", make_schema("int8", default=1, doc="d", parameters={"p": "1"})),
                        optional=True,
                        name="Outer",
                        version=1,
                    ),
                    payload,
                )
            )
            for payload in ({"in": {"x": None, "s": "t"}, "out": None}, {"in": None, "out": 2}, None)
        ],
    ),
    case(
        "mask every type",
        stage("MaskField$Value", fields=ALL_FIELDS),
        records=[record(EVERY_TYPE), record(PLAIN)],
    ),
    case("mask a struct", stage("MaskField$Value", fields="in"), records=[record(EVERY_TYPE), record(PLAIN)]),
    case(
        "mask numbers by a number",
        stage("MaskField$Value", fields="i8,i16,i64,f32,f64,text,age,pi,name", replacement="1234.5"),
        records=[record(EVERY_TYPE), record(PLAIN), record(ANN), record(BOB)],
    ),
    *(
        case(
            f"mask {field} by {by}",
            stage("MaskField$Value", fields=field, replacement=by),
            records=[record(EVERY_TYPE), record(PLAIN)],
        )
        for field, by in (
            ("yes", "true"),
            ("ok", "1"),
            ("at", "0"),
            ("money", "9.99"),
            ("money", "x"),
            ("i8", "x"),
            ("i64", "1e3"),
            ("raw", "x"),
            ("f32", "NaN"),
            ("f64", "-1e400"),
            ("i64", "9223372036854775808"),
            ("list", "x"),
            ("i32", "5"),
        )
    ),
    case(
        "mask the key",
        stage("MaskField$Key", fields="name,nope"),
        records=[record(1, ANN), record(1, PLAIN), record(1), record(1, 2)],
    ),
    case(
        "mask without defaults",
        stage("MaskField$Value", fields="nick", replace_null_with_default=NO_DEFAULTS),
        records=EVERYTHING,
    ),
    case("mask nothing", stage("MaskField$Value", fields=""), records=[]),
    case("mask by nothing", stage("MaskField$Value", fields="a", replacement=""), records=[]),
    case("a key of the value", stage("ValueToKey", fields="name,age"), records=EVERYTHING),
    case("a key of what is not there", stage("ValueToKey", fields="nope"), records=EVERYTHING),
    case("a key of one field twice", stage("ValueToKey", fields="name,name"), records=EVERYTHING),
    case(
        "a key of defaults, or not",
        stage("ValueToKey", fields="rank,nick", replace_null_with_default=NO_DEFAULTS),
        records=[record(ANN), record(BOB)],
    ),
    case(
        "another schema name and version",
        stage("SetSchemaMetadata$Value", schema_name="New", schema_version="9"),
        records=[
            *EVERYTHING,
            record(with_schema(optional_schema("struct", fields=[]), None)),
            record(HOME),
            record(EVERY_TYPE),
        ],
    ),
    case(
        "another version of the key",
        stage("SetSchemaMetadata$Key", schema_version="-1"),
        records=[record(1, ANN), record(1, BOB), record(1)],
    ),
    case(
        "a new name without defaults",
        stage("SetSchemaMetadata$Value", schema_name="N", replace_null_with_default=NO_DEFAULTS),
        records=[
            record(BOB),
            record(with_schema(array(make_schema("int8")), [1])),
            record(with_schema(mapping(make_schema("int8")), {"a": 1})),
        ],
    ),
    case("no name and no version", stage("SetSchemaMetadata$Value"), records=[]),
    case("a version that is no number", stage("SetSchemaMetadata$Value", schema_version="x"), records=[]),
]
