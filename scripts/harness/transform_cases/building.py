"""Builds cases: connector configs of transforms, and records as texts of Connect's JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

Case = dict[str, Any]
Data = dict[str, Any] | None

PACKAGE = "org.apache.kafka.connect.transforms."


def case(name: str, *stages: dict[str, str], records: Sequence[Data], **predicates: dict[str, str]) -> Case:
    """Return a case: stages are named a, b, c …; a stage's `type` is what follows the package's name."""
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
    """Return a stage; an underscore in a key's name is a period."""
    return {"type": kind, **{name.strip("_").replace("_", "."): text for name, text in keys.items()}}


def record(value: Any = None, key: Any = None, **others: Any) -> dict[str, Any]:
    """Return a sink's record of JSON values: with a schema where `with_schema` made them, else without one."""
    return {
        "topic": "orders",
        "partition": 3,
        "offset": 42,
        "timestamp": 1_700_000_000_123,
        "key": text(key),
        "value": text(value),
        **others,
    }


def text(value: Any) -> str | None:
    """Return JSON text; None stays None."""
    return None if value is None else json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def with_schema(schema: dict[str, Any], payload: Any) -> dict[str, Any]:
    """Return what has a schema."""
    return {"schema": schema, "payload": payload}


def of(kind: str, *, optional: bool = False, **others: Any) -> dict[str, Any]:
    """Return a schema of a type; `others` are its further attributes."""
    return {"type": kind, "optional": optional, **others}


def maybe(kind: str, **others: Any) -> dict[str, Any]:
    """Return an optional schema of a type."""
    return of(kind, optional=True, **others)


def struct(*fields: tuple[str, dict[str, Any]], **others: Any) -> dict[str, Any]:
    """Return a struct's schema of names and schemas."""
    return of("struct", **{"fields": [{**schema, "field": name} for name, schema in fields], **others})


def array(items: dict[str, Any], **others: Any) -> dict[str, Any]:
    """Return a list's schema."""
    return of("array", items=items, **others)


def mapping(values: dict[str, Any], keys: dict[str, Any] | None = None, **others: Any) -> dict[str, Any]:
    """Return a map's schema."""
    return of("map", keys=keys or of("string"), values=values, **others)


_DATA = "org.apache.kafka.connect.data."
DATE = of("int32", name=f"{_DATA}Date", version=1)
TIME = of("int32", name=f"{_DATA}Time", version=1)
TIMESTAMP = of("int64", name=f"{_DATA}Timestamp", version=1)
DECIMAL = of("bytes", name=f"{_DATA}Decimal", version=1, parameters={"scale": "2"})

PERSON = struct(
    ("name", of("string")),
    ("age", maybe("int32")),
    ("rank", of("int16", default=7)),
    ("nick", maybe("string", default="none")),
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
ADDRESS = struct(("city", of("string")), ("zip", maybe("int32")))
NESTED = struct(
    ("id", of("int64")),
    ("home", maybe("struct", fields=ADDRESS["fields"])),
    ("tags", array(of("string"))),
    ("work", struct(("at", ADDRESS), ("since", DATE))),
)
AT_WORK = {"at": {"city": "Oslo", "zip": None}, "since": 19_000}
HOME = with_schema(
    NESTED, {"id": 1, "home": {"city": "Bern", "zip": 3000}, "tags": ["a", "b"], "work": AT_WORK}
)
AWAY = with_schema(NESTED, {"id": 2, "home": None, "tags": [], "work": AT_WORK})
TEXT = with_schema(of("string"), "just text")
