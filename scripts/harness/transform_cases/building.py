"""Functions that build cases of transform configs, and records in Connect's JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

Case = dict[str, Any]
Data = dict[str, Any] | None

PACKAGE = "org.apache.kafka.connect.transforms."


def case(name: str, *stages: dict[str, str], records: Sequence[Data], **predicates: dict[str, str]) -> Case:
    """Return a case whose stages have the aliases a, b, c …; a stage's `type` is a class name without the package."""
    aliases = "abcdefghij"[: len(stages)]
    config = {"transforms": ",".join(aliases)}
    for alias, stage in zip(aliases, stages, strict=True):
        config |= {f"transforms.{alias}.{key}": text for key, text in stage.items()}
        config[f"transforms.{alias}.type"] = PACKAGE + stage["type"]
    if predicates:
        config["predicates"] = ",".join(predicates)
    for alias, keys in predicates.items():
        config |= {f"predicates.{alias}.{key}": text for key, text in keys.items()}
        config[f"predicates.{alias}.type"] = f"{PACKAGE}predicates.{keys['type']}"
    return {"name": name, "config": config, "records": list(records)}


def stage(kind: str, **keys: str) -> dict[str, str]:
    """Return a transform config without its alias; underscores in names of keys become periods."""
    return {"type": kind, **{name.strip("_").replace("_", "."): text for name, text in keys.items()}}


def record(value: Any = None, key: Any = None, **attributes: Any) -> dict[str, Any]:
    """Return a sink record of JSON values; values from `with_schema` have a schema."""
    return {
        "topic": "orders",
        "partition": 3,
        "offset": 42,
        "timestamp": 1_700_000_000_123,
        "key": text(key),
        "value": text(value),
        **attributes,
    }


def text(value: Any) -> str | None:
    """Return a value as JSON text; None for None."""
    return None if value is None else json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def with_schema(schema: dict[str, Any], payload: Any) -> dict[str, Any]:
    """Return an envelope of a schema and a payload."""
    return {"schema": schema, "payload": payload}


def make_schema(kind: str, *, optional: bool = False, **attributes: Any) -> dict[str, Any]:
    """Return a schema of a type, with additional attributes."""
    return {"type": kind, "optional": optional, **attributes}


def optional_schema(kind: str, **attributes: Any) -> dict[str, Any]:
    """Return an optional schema of a type."""
    return make_schema(kind, optional=True, **attributes)


def struct(*fields: tuple[str, dict[str, Any]], **attributes: Any) -> dict[str, Any]:
    """Return the schema of a struct with these fields."""
    return make_schema(
        "struct", **{"fields": [{**schema, "field": name} for name, schema in fields], **attributes}
    )


def array(items: dict[str, Any], **attributes: Any) -> dict[str, Any]:
    """Return the schema of an array."""
    return make_schema("array", items=items, **attributes)


def mapping(values: dict[str, Any], keys: dict[str, Any] | None = None, **attributes: Any) -> dict[str, Any]:
    """Return the schema of a map."""
    return make_schema("map", keys=keys or make_schema("string"), values=values, **attributes)


_DATA = "org.apache.kafka.connect.data."
DATE = make_schema("int32", name=f"{_DATA}Date", version=1)
TIME = make_schema("int32", name=f"{_DATA}Time", version=1)
TIMESTAMP = make_schema("int64", name=f"{_DATA}Timestamp", version=1)
DECIMAL = make_schema("bytes", name=f"{_DATA}Decimal", version=1, parameters={"scale": "2"})

PERSON = struct(
    ("name", make_schema("string")),
    ("age", optional_schema("int32")),
    ("rank", make_schema("int16", default=7)),
    ("nick", optional_schema("string", default="none")),
    name="Person",
    version=2,
    doc="Somebody.",
    parameters={"a": "1", "b": "2"},
)
ANN = with_schema(PERSON, {"name": "Ann", "age": 31, "rank": 1, "nick": "A"})
BOB = with_schema(PERSON, {"name": "Bob", "age": None, "rank": None, "nick": None})
PLAIN: dict[str, Any] = {
    "name": "Cy",
    "age": 5,
    "ok": True,
    "pi": 3.5,
    "none": None,
    "in": {"x": 1, "y": {"z": "deep"}},
    "list": [1, "two", None],
}
ADDRESS = struct(("city", make_schema("string")), ("zip", optional_schema("int32")))
NESTED = struct(
    ("id", make_schema("int64")),
    ("home", optional_schema("struct", fields=ADDRESS["fields"])),
    ("tags", array(make_schema("string"))),
    ("work", struct(("at", ADDRESS), ("since", DATE))),
)
AT_WORK = {"at": {"city": "Oslo", "zip": None}, "since": 19_000}
HOME = with_schema(
    NESTED, {"id": 1, "home": {"city": "Bern", "zip": 3000}, "tags": ["a", "b"], "work": AT_WORK}
)
AWAY = with_schema(NESTED, {"id": 2, "home": None, "tags": [], "work": AT_WORK})
TEXT = with_schema(make_schema("string"), "just text")
