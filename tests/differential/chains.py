"""Transform chains that Java Connect and Kraal apply to the same lines, from a file to Kafka.

`tests/golden/transforms` has the results of Java's classes for single records; these chains compare whole
workers, including their converters, error handling and producers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

_JSON_CONVERTER: Final = "org.apache.kafka.connect.json.JsonConverter"
_STRING_CONVERTER: Final = "org.apache.kafka.connect.storage.StringConverter"
_SIMPLE_HEADER_CONVERTER: Final = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
_PACKAGE: Final = "org.apache.kafka.connect.transforms."

WORDS: Final = ("one", "", 'two "quoted" \\ words', "ünï çödé 𝄞", "{'a': 1}", "last")
NUMBERS: Final = ("1", "-7", "0", "127", "42")
MIXED: Final = ("12", "no number", "3.5", "99999999999", "7")
TIMES: Final = ("2026-01-02 03:04:05", "1969-12-31 23:59:59", "2024-02-29 00:00:00")

SCHEMAS: Final[Mapping[str, str]] = {
    "key.converter": _JSON_CONVERTER,
    "value.converter": _JSON_CONVERTER,
    "header.converter": _JSON_CONVERTER,
}
PLAIN: Final[Mapping[str, str]] = {
    **SCHEMAS,
    **{f"{role}.converter.schemas.enable": "false" for role in ("key", "value", "header")},
}
STRINGS: Final[Mapping[str, str]] = {"key.converter": _STRING_CONVERTER, "value.converter": _STRING_CONVERTER}
TOLERANT: Final[Mapping[str, str]] = {"errors.tolerance": "all"}


@dataclass(frozen=True, kw_only=True)
class ChainCase:
    """A transform chain, its input lines, and other settings of its connector."""

    name: str
    transforms: Sequence[Mapping[str, str]]
    lines: Sequence[str] = WORDS
    config: Mapping[str, str] = field(default_factory=lambda: SCHEMAS)
    drops_all: bool = False
    """Whether all records are dropped, so that no offset shows the progress."""

    @property
    def settings(self) -> dict[str, str]:
        """Config keys of the converters, transforms and error handling."""
        if not self.transforms:
            return dict(self.config)
        names = [f"s{number}" for number in range(len(self.transforms))]
        result = {**self.config, "transforms": ",".join(names)}
        for name, transform in zip(names, self.transforms, strict=True):
            result |= {f"transforms.{name}.{key}": value for key, value in transform.items()}
        return result


def _transform(kind: str, **settings: str) -> Mapping[str, str]:
    keys = {key.replace("__", "-").replace("_", "."): value for key, value in settings.items()}
    return {"type": _PACKAGE + kind, **keys}


def _chain(
    name: str,
    *transforms: Mapping[str, str],
    lines: Sequence[str] = WORDS,
    drops_all: bool = False,
    **config: Mapping[str, str],
) -> ChainCase:
    merged_config = dict(SCHEMAS)
    for overrides in config.values():
        merged_config |= overrides
    return ChainCase(name=name, transforms=transforms, lines=lines, config=merged_config, drops_all=drops_all)


_HOIST: Final = _transform("HoistField$Value", field="line")
_TWO: Final = _transform("InsertField$Value", static_field="more", static_value="7")
_TOPIC: Final = _transform("InsertField$Value", topic_field="topic")
_KEY: Final = _transform("ValueToKey", fields="line")
_HEADER: Final = _transform("InsertHeader", header="h", value_literal="12")
_PREDICATES: Final = _PACKAGE + "predicates."


def _when(transform: Mapping[str, str], predicate: str = "p", *, negate: bool = False) -> Mapping[str, str]:
    return {**transform, "predicate": predicate, **({"negate": "true"} if negate else {})}


def _predicate(kind: str, **settings: str) -> Mapping[str, str]:
    return {
        "predicates": "p",
        "predicates.p.type": _PREDICATES + kind,
        **{f"predicates.p.{key}": value for key, value in settings.items()},
    }


def _cast(spec: str) -> Mapping[str, str]:
    return _transform("Cast$Value", spec=spec)


def _time(target: str, **settings: str) -> Mapping[str, str]:
    return _transform("TimestampConverter$Value", **{"target.type": target}, **settings)


_TIME_FORMAT: Final = {"format": "yyyy-MM-dd HH:mm:ss"}

SHAPES: Final = [
    _chain("hoisted", _HOIST),
    _chain("hoisted, no schemas", _HOIST, to=PLAIN),
    _chain("hoisted, as text", _HOIST, to=STRINGS),
    _chain("hoisted twice", _HOIST, _transform("HoistField$Value", field="outer")),
    _chain("hoisted twice, as text", _HOIST, _transform("HoistField$Value", field="outer"), to=STRINGS),
    _chain("extracted", _HOIST, _transform("ExtractField$Value", field="line")),
    _chain("a missing field", _HOIST, _transform("ExtractField$Value", field="nope")),
    _chain("a field by path", _HOIST, _transform("HoistField$Value", field="outer"),
           _transform("ExtractField$Value", field="outer.line", field_syntax_version="V2")),
    _chain("flattened", _HOIST, _TWO, _transform("HoistField$Value", field="a"),
           _transform("Flatten$Value", delimiter="_")),
    _chain("flattened, no schemas", _HOIST, _transform("HoistField$Value", field="a"),
           _transform("Flatten$Value"), to=PLAIN),
    _chain("inserted", _HOIST, _TOPIC, _TWO),
    _chain("inserted, no schemas", _HOIST, _TOPIC, _TWO, to=PLAIN),
    _chain("inserted, as text", _HOIST, _TOPIC, _TWO, to=STRINGS),
    _chain("the partition of a source record", _HOIST, _transform("InsertField$Value", partition_field="at?")),
    _chain("the offset of a source record", _HOIST, _transform("InsertField$Value", offset_field="at!")),
    _chain("an overwritten field", _HOIST, _transform("InsertField$Value", static_field="line", static_value="x")),
    _chain("renamed", _HOIST, _TWO, _transform("ReplaceField$Value", renames="line:text,more:count")),
    _chain("an excluded field", _HOIST, _TWO, _transform("ReplaceField$Value", exclude="line")),
    _chain("included fields", _HOIST, _TWO, _TOPIC, _transform("ReplaceField$Value", include="more,line")),
    _chain("no included field", _HOIST, _transform("ReplaceField$Value", include="nope")),
    _chain("masked", _HOIST, _TWO, _transform("MaskField$Value", fields="line,more")),
    _chain("masked with a replacement", _HOIST, _TWO, _transform("MaskField$Value", fields="more", replacement="***")),
    _chain("a schema name and version", _HOIST,
           _transform("SetSchemaMetadata$Value", schema_name="a.b.Line", schema_version="3")),
    _chain("a schema name of a string", _transform("SetSchemaMetadata$Value", schema_name="Line")),
    _chain("everything", _HOIST, _TWO, _TOPIC, _KEY, _transform("ExtractField$Key", field="line"), _HEADER,
           _transform("ReplaceField$Value", renames="line:text"), _transform("MaskField$Value", fields="more")),
]  # fmt: skip

KEYS: Final = [
    _chain("a key", _HOIST, _KEY),
    _chain("a key, no schemas", _HOIST, _KEY, to=PLAIN),
    _chain("a key, as text", _HOIST, _KEY, to=STRINGS),
    _chain("a key of one field", _HOIST, _KEY, _transform("ExtractField$Key", field="line"), to=STRINGS),
    _chain("a key of a missing field", _HOIST, _transform("ValueToKey", fields="nope")),
    _chain("a key of a number", _HOIST, _cast("line:int32"), _KEY, _transform("ExtractField$Key", field="line"),
           lines=NUMBERS),
    _chain("a hoisted key", _HOIST, _KEY, _transform("HoistField$Key", field="k"), _transform("Flatten$Key")),
    _chain("a header", _HEADER),
    _chain("a header, no schemas", _HEADER, to=PLAIN),
    _chain("a header, simple", _HEADER, to={**STRINGS, "header.converter": _SIMPLE_HEADER_CONVERTER}),
    _chain("a header copied from the value", _HOIST, _TWO,
           _transform("HeaderFrom$Value", fields="line,more", headers="a,b", operation="copy")),
    _chain("a header moved from the value", _HOIST, _TWO,
           _transform("HeaderFrom$Value", fields="more", headers="b", operation="move")),
    _chain("headers dropped", _HEADER, _transform("InsertHeader", header="g", value_literal="[1,2]"),
           _transform("DropHeaders", headers="h")),
    _chain("headers of all types", *(
        _transform("InsertHeader", header=f"h{n}", value_literal=literal)
        for n, literal in enumerate(("1.5", "true", "a b", '{"a":1}', "2026-01-02", "null", "-129", ""))
    )),
]  # fmt: skip

CASTS: Final = [
    *(_chain(f"cast to {kind}", _cast(kind), lines=NUMBERS)
      for kind in ("int8", "int16", "int32", "int64", "float32", "float64", "string")),
    _chain("cast to boolean", _cast("boolean"), lines=("true", "False", "TRUE", "false")),
    _chain("an invalid cast", _cast("int32"), lines=("no number", *MIXED)),
    _chain("an invalid cast after valid records", _cast("int32"), lines=MIXED),
    _chain("an invalid cast, tolerated", _cast("int32"), lines=MIXED, bad=TOLERANT),
    _chain("fields cast", _HOIST, _TWO, _cast("line:int64,more:float32"), lines=NUMBERS),
    _chain("fields cast, no schemas", _HOIST, _TWO, _cast("line:int64,more:float32"), lines=NUMBERS, to=PLAIN),
    _chain("fields cast, errors tolerated", _HOIST, _cast("line:float64"), lines=MIXED, bad=TOLERANT),
    _chain("cast to an unknown type", _cast("int128")),
    _chain("a time", _time("unix", **_TIME_FORMAT), lines=TIMES),
    _chain("a logical timestamp", _time("Timestamp", **_TIME_FORMAT), lines=TIMES),
    _chain("a logical date", _time("Date", **_TIME_FORMAT), lines=TIMES),
    _chain("the time in a field", _HOIST,
           _time("unix", field="line", unix_precision="seconds", **_TIME_FORMAT), lines=TIMES),
    _chain("an invalid time", _time("unix", **_TIME_FORMAT), lines=("yesterday", *TIMES)),
    _chain("invalid times, tolerated", _time("unix", **_TIME_FORMAT), lines=("yesterday", *TIMES), bad=TOLERANT),
]  # fmt: skip

ROUTES: Final = [
    _chain("routed", _transform("RegexRouter", regex="(.*)", replacement="$1-routed")),
    _chain("routed, then topic inserted", _HOIST, _transform("RegexRouter", regex="(.*)", replacement="$1-b"), _TOPIC),
    _chain("topic inserted, then routed", _HOIST, _TOPIC, _transform("RegexRouter", regex="(.*)", replacement="$1-b")),
    _chain("a topic that does not match", _transform("RegexRouter", regex="elsewhere", replacement="x")),
    _chain("all dropped", _transform("Filter"), drops_all=True),
    _chain("dropped where the topic matches", _when(_transform("Filter")), drops_all=True,
           p=_predicate("TopicNameMatches", pattern=".*")),
    _chain("kept where the topic matches", _when(_transform("Filter"), negate=True),
           p=_predicate("TopicNameMatches", pattern=".*")),
    _chain("kept where there is no tombstone", _when(_transform("Filter")), p=_predicate("RecordIsTombstone")),
    _chain("hoisted where there is a header", _HEADER, _when(_HOIST), p=_predicate("HasHeaderKey", name="h")),
    _chain("hoisted where there is no header", _when(_HOIST, negate=True), p=_predicate("HasHeaderKey", name="h")),
    _chain("not hoisted", _when(_HOIST), p=_predicate("HasHeaderKey", name="h")),
]  # fmt: skip

INVALID: Final = [
    _chain("fields of a string", _TWO),
    _chain("fields of a string, no schemas", _transform("ReplaceField$Value", exclude="a"), to=PLAIN),
    _chain("fields of a string, tolerated", _TWO, bad=TOLERANT, drops_all=True),
    _chain("a field of a null key", _HOIST, _transform("ExtractField$Key", field="a")),
    _chain("a router without a regex", _transform("RegexRouter", replacement="x")),
    _chain("a router with an invalid regex", _transform("RegexRouter", regex="(", replacement="x")),
    _chain("an unknown transform", _transform("NoSuchTransform")),
    _chain("an unknown predicate", _when(_HOIST)),
    _chain("a mask with an invalid replacement", _HOIST, _TWO, _cast("more:int8"),
           _transform("MaskField$Value", fields="more", replacement="much")),
    _chain("different numbers of headers and fields", _HOIST,
           _transform("HeaderFrom$Value", fields="line", headers="a,b", operation="copy")),
]  # fmt: skip

CHAINS: Final = [*SHAPES, *KEYS, *CASTS, *ROUTES, *INVALID]


def _make_envelope(**fields: tuple[str, object]) -> str:
    """Return a record's value in JsonConverter's envelope. `fields` maps each field to its type and value."""
    schema = {
        "type": "struct",
        "optional": False,
        "fields": [{"field": name, "type": kind, "optional": True} for name, (kind, _) in fields.items()],
    }
    payload = {name: value for name, (_, value) in fields.items()}
    return json.dumps({"schema": schema, "payload": payload}, ensure_ascii=False)


ORDERS: Final = tuple(
    _make_envelope(
        id=("int64", number),
        name=("string", name),
        amount=("double", amount),
        paid=("boolean", number % 2 == 0),
        at=("int32", number * 1000),
    )
    for number, (name, amount) in enumerate(
        [("one", 1.5), ('"two"', -0.0), (None, None), ("ünï 𝄞", 1e21), ("", 1234567.125), ("last", 0.001)]
    )
)
PLAIN_ORDERS: Final = tuple(f'{{"id":{number}}}' for number in range(5))
WITH_NULL: Final = (ORDERS[0], "null", ORDERS[1])
_CUT: Final = _transform("ReplaceField$Value", exclude="at", renames="name:title")

SINKS: Final = [
    _chain("cut", _CUT, lines=ORDERS),
    _chain("cut, cast and masked", _CUT, _cast("id:int32,amount:string"), _transform("MaskField$Value", fields="title"),
           lines=ORDERS),
    _chain("record metadata", _transform("InsertField$Value", topic_field="t", partition_field="p", offset_field="o",
                                         timestamp_field="at"), lines=ORDERS),
    _chain("one field", _transform("ExtractField$Value", field="amount"), lines=ORDERS),
    _chain("one field, hoisted", _transform("ExtractField$Value", field="name"), _HOIST, lines=ORDERS),
    _chain("numbers cast", _cast("id:int8,amount:float32,paid:string"), lines=ORDERS),
    _chain("only records with a header", _when(_transform("Filter"), negate=True),
           p=_predicate("HasHeaderKey", name="h"), lines=ORDERS),
    _chain("records with a header masked", _when(_transform("MaskField$Value", fields="id,name")),
           p=_predicate("HasHeaderKey", name="h"), lines=ORDERS),
    _chain("no tombstones", _when(_transform("Filter")), p=_predicate("RecordIsTombstone"), lines=WITH_NULL),
    _chain("tombstones", _CUT, lines=WITH_NULL),
    _chain("as text", lines=WORDS, to=STRINGS),
    _chain("text, hoisted", _HOIST, lines=WORDS, to=STRINGS),
    _chain("maps", _transform("ReplaceField$Value", renames="id:number"), lines=PLAIN_ORDERS, to=PLAIN),
    _chain("maps, cast and masked", _cast("id:string"), _transform("MaskField$Value", fields="id", replacement="x"),
           lines=PLAIN_ORDERS, to=PLAIN),
    _chain("a number as time", _time("string", field="at", format="yyyy-MM-dd HH:mm:ss.SSS"), lines=ORDERS),
    _chain("invalid JSON", lines=(ORDERS[0], "no JSON", ORDERS[1])),
    _chain("invalid JSON, tolerated", lines=(ORDERS[0], "no JSON", ORDERS[1]), bad=TOLERANT),
    _chain("a name cast to a number", _cast("name:int32"), lines=ORDERS),
    _chain("a name cast to a number, tolerated", _cast("name:int32"), lines=ORDERS, bad=TOLERANT),
    _chain("a missing field", _transform("ValueToKey", fields="nope"), lines=ORDERS),
    _chain("values without an envelope", lines=PLAIN_ORDERS),
]  # fmt: skip
"""Chains from Kafka to a file; `lines` are the values of records, with `null` for tombstones."""
