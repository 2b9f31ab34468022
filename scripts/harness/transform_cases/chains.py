"""Cases for typical chains of several transforms."""

from __future__ import annotations

from scripts.harness.transform_cases.building import (
    ANN,
    AWAY,
    BOB,
    HOME,
    PLAIN,
    TEXT,
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
from scripts.harness.transform_cases.fields import EVERY_TYPE, EVERYTHING

ALL = [*EVERYTHING, record(HOME), record(AWAY), record(EVERY_TYPE)]
LISTS = with_schema(
    struct(
        ("people", array(struct(("n", make_schema("string")), ("a", optional_schema("int32", default=3))))),
        ("by", mapping(struct(("n", make_schema("string"))), optional=True)),
        ("counts", mapping(make_schema("int32"), keys=make_schema("int32"))),
    ),
    {"people": [{"n": "x", "a": None}, {"n": "y", "a": 1}], "by": {"k": {"n": "z"}}, "counts": [[1, 2]]},
)
TOMBSTONE = stage("RecordIsTombstone")

CASES: list[Case] = [
    case(
        "hoist, insert, extract again",
        stage("HoistField$Value", field="v"),
        stage("InsertField$Value", static_field="s", static_value="x", topic_field="t"),
        stage("ExtractField$Value", field="v"),
        records=ALL,
    ),
    case(
        "a line as JSON with its source",
        stage("HoistField$Value", field="line"),
        stage("InsertField$Value", static_field="from", static_value="file!"),
        records=[record(TEXT), record("plain")],
    ),
    case(
        "replace, cast, mask",
        stage("ReplaceField$Value", exclude="nick", renames="age:years"),
        stage("Cast$Value", spec="years:string,rank:int64"),
        stage("MaskField$Value", fields="name"),
        records=ALL,
    ),
    case(
        "a key of a field, taken out of its struct",
        stage("ValueToKey", fields="name"),
        stage("ExtractField$Key", field="name"),
        records=ALL,
    ),
    case(
        "a key of a field, cast",
        stage("ValueToKey", fields="id"),
        stage("ExtractField$Key", field="id"),
        stage("Cast$Key", spec="string"),
        records=[record(HOME), record({"id": 1.0}), record({"id": [1]})],
    ),
    case(
        "flatten, rename, route",
        stage("Flatten$Value", delimiter="_"),
        stage("ReplaceField$Value", include="id,home_city,work_at_city", renames="home_city:city"),
        stage("RegexRouter", regex="(.*)", replacement="flat-$1"),
        records=[record(HOME), record(AWAY), record({"id": 1, "home": {"city": "x"}})],
    ),
    case(
        "dates to text and on to topics",
        stage("TimestampConverter$Value", field="since", target_type="string", format="dd.MM.yyyy"),
        stage("TimestampRouter", timestamp_format="yyyy-MM"),
        stage("RegexRouter", regex="orders-(\\d+)-(\\d+)", replacement="$2/$1"),
        records=[
            record(
                with_schema(
                    struct(
                        ("since", make_schema("int32", name="org.apache.kafka.connect.data.Date", version=1))
                    ),
                    {"since": 19_000},
                )
            ),
            record({"since": 1_700_000_000_000}),
            record({"since": "2023"}),
        ],
    ),
    case(
        "headers made and dropped",
        stage("InsertHeader", header="n", value_literal="5"),
        stage("HeaderFrom$Value", fields="name", headers="n", operation="copy"),
        stage("InsertHeader", header="m", value_literal='{"a":[1,2]}'),
        {**stage("DropHeaders", headers="n"), "predicate": "tomb"},
        records=[record(ANN), record(PLAIN), record(None)],
        tomb=TOMBSTONE,
    ),
    case(
        "mask what is not a tombstone",
        {**stage("MaskField$Value", fields="name", replacement="***"), "predicate": "tomb", "negate": "true"},
        {**stage("InsertHeader", header="deleted", value_literal="true"), "predicate": "tomb"},
        records=[record(ANN), record(PLAIN), record(None), record(BOB)],
        tomb=TOMBSTONE,
    ),
    case(
        "drop tombstones before what cannot take them",
        {**stage("Filter"), "predicate": "tomb"},
        stage("ValueToKey", fields="name"),
        records=[record(None), record(ANN), record("x")],
        tomb=TOMBSTONE,
    ),
    case(
        "one predicate for two",
        {**stage("RegexRouter", regex=".*", replacement="a"), "predicate": "here"},
        {**stage("RegexRouter", regex=".*", replacement="b"), "predicate": "here"},
        records=[record(1), record(1, topic="x")],
        here=stage("TopicNameMatches", pattern="orders|a"),
    ),
    case(
        "lists and maps pass",
        stage("SetSchemaMetadata$Value", schema_name="L"),
        stage("HoistField$Value", field="h"),
        records=[record(LISTS)],
    ),
    case(
        "lists and maps are masked",
        stage("MaskField$Value", fields="people,by,counts"),
        records=[record(LISTS)],
    ),
    case("maps do not flatten", stage("Flatten$Value"), records=[record(LISTS)]),
    case(
        "lists taken out",
        stage("ExtractField$Value", field="people"),
        stage("HoistField$Value", field="again"),
        stage("SetSchemaMetadata$Value", schema_version="3"),
        records=[record(LISTS)],
    ),
    case(
        "the second fails",
        stage("HoistField$Value", field="v"),
        stage("Cast$Value", spec="v:int32"),
        records=[record(TEXT), record("12"), record("x"), record(ANN), record([1])],
    ),
    case(
        "the third fails",
        stage("InsertField$Value", partition_field="p"),
        stage("Cast$Value", spec="p:string"),
        stage("TimestampConverter$Value", field="p", target_type="unix", format="yyyy"),
        records=[record(ANN), record(PLAIN), record(ANN, partition=None, offset=None)],
    ),
    case(
        "a name, then a field of that schema",
        stage("SetSchemaMetadata$Value", schema_name="A", schema_version="1"),
        stage("InsertField$Value", offset_field="o!"),
        stage("SetSchemaMetadata$Value", schema_version="2"),
        stage("HoistField$Value", field="all"),
        stage("Flatten$Value", delimiter="/"),
        records=[record(ANN), record(BOB), record(HOME)],
    ),
    case(
        "key and value apart",
        stage("ExtractField$Key", field="name"),
        stage("ReplaceField$Value", include="age"),
        stage("HoistField$Key", field="k"),
        records=[record(ANN, BOB), record(PLAIN, PLAIN), record(None, ANN), record(ANN, None)],
    ),
    case(
        "a path, then text",
        stage("ExtractField$Value", field="work.at.city", field_syntax_version="V2"),
        stage("RegexRouter", regex="orders", replacement="cities"),
        records=[record(HOME), record({"work": {"at": {"city": 5}}}), record({"work": 1}), record(None)],
    ),
]
