"""Schemas and values of encoding cases, by the `id` of the case in the tests of the column path."""

from __future__ import annotations

from typing import Any, Final

from scripts.harness.converter_json_cases import (
    DATE,
    DECIMAL,
    INT32,
    INT64,
    STRING,
    TIME,
    TIMESTAMP,
    optional,
    struct,
)

Node = Any
Pair = tuple[Node, Node]

TEXTS: Final = (
    "",
    "plain",
    "".join(map(chr, range(32))),
    'q"b\\s/',
    "\x7f\x80\x9f",
    "\u2028\u2029\ufeff\ufffe",
    "\u00e9\u4e16\u754c",
    "\U0001f600 emoji",
    "tab\tnl\ncr\r",
    "<>&'",
)
FLOATS: Final = (
    "0.0", "-0.0", "1.5", "1e10", "1e-7", "123456789.125", "1e300", "NaN", "Infinity", "100.0", "2.0e-3", "9.999999e6",
    "1.0e7",
)  # fmt: skip
BYTES: Final = {"type": "BYTES"}
_STRUCT_SCHEMA: Final = struct(
    ("a", STRING),
    ("b", optional({"type": "FLOAT64"})),
    ("in", struct(("x", optional(INT32)), name="In", version=2, doc="a doc", optional=True)),
    ("d", {**INT32, "default": {"int": 5}}),
    name="Rec",
    parameters={"p": 'v"'},
)
_TEXT_STRUCT_SCHEMA: Final = struct(
    ("a", STRING), ("b", optional(STRING)), ("in", struct(("x", INT32))), ("d", STRING)
)
_ARRAY_SCHEMA: Final = {"type": "ARRAY", "value": optional(STRING)}
_MAP_SCHEMA: Final = {"type": "MAP", "key": STRING, "value": optional(INT64)}
_MAP_VALUE: Final = {"map": [[{"string": 'k"'}, {"long": 1}], [{"string": "n"}, None]]}

JSON_CONFIGS: Final = {
    "decimal numeric": {"decimal.format": "numeric"},
    "default optional kept null": {"replace.null.with.default": "false"},
}
"""Additional settings of individual cases, by `id`."""


def json_pairs() -> dict[str, Pair]:
    """Return schemas and values that JsonConverter encodes."""
    pairs: dict[str, Pair] = {}
    for index, text in enumerate(TEXTS):
        pairs[f"string {index}"] = STRING, {"string": text}
        pairs[f"optional string {index}"] = optional(STRING), {"string": text}
        pairs[f"no schema {index}"] = None, {"string": text}
    for index, number in enumerate(FLOATS):
        pairs[f"double {index}"] = {"type": "FLOAT64"}, {"double": number}
        pairs[f"float {index}"] = {"type": "FLOAT32"}, {"float": number}
    return pairs | {
        "null string": (STRING, None),
        "null optional string": (optional(STRING), None),
        "null no schema": (None, None),
        "default string": ({**STRING, "default": {"string": 'd"'}}, None),
        "default optional kept null": (optional({**STRING, "default": {"string": "d"}}), None),
        "bytes": (BYTES, {"bytes": "AAH/Cg=="}),
        "bytes empty": (optional(BYTES), {"bytes": ""}),
        "bytes long": (BYTES, {"bytes": "A" * 134 + "=="}),
        "int8": ({"type": "INT8"}, {"byte": -1}),
        "int16": ({"type": "INT16"}, {"short": 300}),
        "int32": (INT32, {"int": 7}),
        "int64": (INT64, {"long": 2**63 - 1}),
        "true": ({"type": "BOOLEAN"}, {"boolean": True}),
        "optional false": (optional({"type": "BOOLEAN"}), {"boolean": False}),
        "struct": (
            _STRUCT_SCHEMA,
            _struct(a={"string": 'x"\n'}, b={"double": "2.5"}, **{"in": _struct(x={"int": 1})}, d={"int": 6}),
        ),
        "struct nulls": (_STRUCT_SCHEMA, _struct(a={"string": "\u00e9"})),
        "array": (_ARRAY_SCHEMA, {"list": [{"string": "a"}, None, {"string": 'b"'}]}),
        "array empty": (_ARRAY_SCHEMA, {"list": []}),
        "map": (_MAP_SCHEMA, _MAP_VALUE),
        "map int key": (
            {"type": "MAP", "key": INT32, "value": STRING},
            {"map": [[{"int": 3}, {"string": "x"}]]},
        ),
        "decimal": (DECIMAL, {"decimal": "123.45"}),
        "decimal numeric": (DECIMAL, {"decimal": "123.45"}),
        "date": (DATE, {"date": 20000 * 86_400_000}),
        "timestamp": (TIMESTAMP, {"date": 1_700_000_000_123}),
        "time": (TIME, {"date": 3_600_000}),
    }


def string_pairs() -> dict[str, Pair]:
    """Return schemas and values that StringConverter encodes."""
    return {
        "null": (None, None),
        "int": (INT32, {"int": 5}),
        "double": ({"type": "FLOAT64"}, {"double": "1e10"}),
        "float": ({"type": "FLOAT32"}, {"float": "0.1"}),
        "bool": ({"type": "BOOLEAN"}, {"boolean": True}),
        "struct": (
            _TEXT_STRUCT_SCHEMA,
            _struct(a={"string": 'x"'}, **{"in": _struct(x={"int": 1})}, d={"string": "6"}),
        ),
        "array": (_ARRAY_SCHEMA, {"list": [{"string": "a"}, None, {"string": "b"}]}),
        "map": (_MAP_SCHEMA, _MAP_VALUE),
        "emoji": (None, {"string": "\U0001f600"}),
    }


def _struct(**fields: Node) -> Node:
    return {"struct": fields}
