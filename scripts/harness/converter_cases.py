"""The cases of `tests/golden/converters/VERSION/cases.json`, without the results.

A case contains a converter, its config, and either `data` to decode (in base64) or `schema` and `value` to encode. The
notation of schemas and values is that of `ConverterCases.java`.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from typing import Any

from scripts.harness.converter_json_cases import json_decoding_cases, json_encoding_cases

Node = Any
Case = dict[str, Any]

STORAGE_PACKAGE = "org.apache.kafka.connect.storage."
CONVERTERS_PACKAGE = "org.apache.kafka.connect.converters."
JSON_CONVERTER = "org.apache.kafka.connect.json.JsonConverter"
DATA_PACKAGE = "org.apache.kafka.connect.data."

TYPES = ("INT8", "INT16", "INT32", "INT64", "FLOAT32", "FLOAT64", "BOOLEAN", "STRING", "BYTES")

VALUES: dict[str, Node] = {
    "byte": {"byte": -128},
    "short": {"short": 32767},
    "int": {"int": -2147483648},
    "long": {"long": 9223372036854775807},
    "float": {"float": "0.1"},
    "double": {"double": "0.1"},
    "boolean": {"boolean": True},
    "string": {"string": "\u00e9 \U0001f600"},
    "bytes": {"bytes": "AP8="},
    "list": {"list": [{"long": 1}, None]},
    "map": {"map": [[{"string": "a"}, {"long": 1}]]},
    "decimal": {"decimal": "-1.50"},
    "date": {"date": 86400000},
}
VALUES_BY_TYPE = {
    "INT8": "byte",
    "INT16": "short",
    "INT32": "int",
    "INT64": "long",
    "FLOAT32": "float",
    "FLOAT64": "double",
    "BOOLEAN": "boolean",
    "STRING": "string",
    "BYTES": "bytes",
}
NUMBER_TYPES = {
    "Short": "INT16",
    "Integer": "INT32",
    "Long": "INT64",
    "Float": "FLOAT32",
    "Double": "FLOAT64",
}


def encode(converter: str, schema: Node, value: Node, *, header: bool = False, **config: str) -> Case:
    """Return an encoding case."""
    keys = {name.replace("__", "."): text for name, text in config.items()}
    return {"converter": converter, "config": keys, "header": header, "schema": schema, "value": value}


def decode(converter: str, data: bytes | None, *, header: bool = False, **config: str) -> Case:
    """Return a decoding case."""
    keys = {name.replace("__", "."): text for name, text in config.items()}
    text = None if data is None else b64encode(data).decode("ascii")
    return {"converter": converter, "config": keys, "header": header, "data": text}


def cases() -> list[Case]:
    """Return all cases, each with its number as `id`."""
    all_cases = [
        *_fixed_layout_cases(),
        *_text_cases(),
        *_simple_header_cases(),
        *json_encoding_cases(),
        *json_decoding_cases(),
    ]
    return [{"id": index, **case} for index, case in enumerate(all_cases)]


def _fixed_layout_cases() -> Iterator[Case]:
    """Yield the cases of numbers, booleans and bytes, which have a fixed layout."""
    for name, kind in NUMBER_TYPES.items():
        yield from _number_cases(f"{CONVERTERS_PACKAGE}{name}Converter", kind)
    for converter in ("Boolean", "ByteArray"):
        for kind in TYPES:
            yield encode(
                f"{CONVERTERS_PACKAGE}{converter}Converter", {"type": kind}, VALUES[VALUES_BY_TYPE[kind]]
            )
        for value in ("long", "string", "bytes", "boolean", "list", "decimal"):
            yield encode(f"{CONVERTERS_PACKAGE}{converter}Converter", None, VALUES[value])
        yield encode(f"{CONVERTERS_PACKAGE}{converter}Converter", None, None)
        for data in (None, b"", b"\x00", b"\x01", b"\x02", b"\x00\x01"):
            yield decode(f"{CONVERTERS_PACKAGE}{converter}Converter", data)
    yield encode(
        f"{CONVERTERS_PACKAGE}BooleanConverter", {"type": "BOOLEAN"}, {"boolean": False}, header=True
    )
    yield encode(f"{CONVERTERS_PACKAGE}BooleanConverter", {"type": "BOOLEAN", "optional": True}, None)
    yield encode(f"{CONVERTERS_PACKAGE}ByteArrayConverter", {"type": "BYTES"}, {"string": "x"})
    decimal = {"type": "BYTES", "name": f"{DATA_PACKAGE}Decimal", "parameters": {"scale": "2"}}
    yield encode(f"{CONVERTERS_PACKAGE}ByteArrayConverter", decimal, VALUES["decimal"])
    yield decode(f"{CONVERTERS_PACKAGE}LongConverter", bytes(8), header=True)


def _number_cases(converter: str, kind: str) -> Iterator[Case]:
    for other in TYPES:
        yield encode(converter, {"type": other}, VALUES[VALUES_BY_TYPE[other]])
    for value in ("long", "double", "string", "list", "date"):
        yield encode(converter, None, VALUES[value])
    yield encode(converter, {"type": kind, "optional": True}, None)
    if kind.startswith("FLOAT"):
        for text in ("NaN", "-Infinity", "-0.0", "1.0E-45"):
            yield encode(converter, {"type": kind}, {VALUES_BY_TYPE[kind]: text})
    for data in (
        None,
        b"",
        b"\x01",
        b"\xff\xfe",
        b"\x80\x00\x00\x01",
        b"\x7f" + bytes(6) + b"\x01",
        bytes(9),
    ):
        yield decode(converter, data)
    yield decode(converter, b"\x7f\xc0\x00\x00")


def _text_cases() -> Iterator[Case]:
    """Yield the cases of StringConverter: text in several encodings, and values that Java converts to text."""
    string = f"{STORAGE_PACKAGE}StringConverter"
    for value in [*VALUES.values(), None]:
        if value != VALUES["bytes"]:  # Java prints an identity hash code
            yield encode(string, None, value)
    for text in (
        "1.0E10",
        "1.0E7",
        "9999999.0",
        "0.001",
        "9.99E-4",
        "4.9E-324",
        "-0.0",
        "NaN",
        "Infinity",
        "3.0E-44",
    ):
        yield encode(string, {"type": "FLOAT64"}, {"double": text})
        yield encode(string, {"type": "FLOAT32"}, {"float": text})
    for text in ("1E+5", "0.0000001", "0E-10", "123.4500", "-0.000001"):
        yield encode(string, {"type": "BYTES", "name": f"{DATA_PACKAGE}Decimal"}, {"decimal": text})
    for ms in (-1, 0, 1700000000123, -62135596800000, -12219292800000, -12219292800001, 253402300800000):
        yield encode(string, {"type": "INT64", "name": f"{DATA_PACKAGE}Timestamp"}, {"date": ms})
    inner = {"type": "STRUCT", "optional": True, "fields": [{"name": "x", "schema": {"type": "INT32"}}]}
    fields = {"a": {"type": "STRING", "optional": True, "default": {"string": "d"}}, "in": inner}
    struct = {"type": "STRUCT", "fields": [{"name": n, "schema": s} for n, s in fields.items()]}
    yield encode(string, struct, {"struct": {"a": None, "in": {"struct": {"x": {"int": 1}}}}})
    yield encode(string, struct, {"struct": {"a": {"string": 'x"'}}})
    nested = {"list": [{"list": [{"double": "1.0"}]}, {"map": [[{"long": 1}, None]]}, {"boolean": False}]}
    yield encode(string, None, nested)
    yield encode(string, {"type": "STRING"}, {"string": "header"}, header=True)
    text_of_all_widths = "a\u00e9\u4e16\U0001f600"
    charsets = ("UTF-8", "US-ASCII", "ISO-8859-1", "UTF-16", "UTF-16BE", "UTF-16LE", "UTF-32")
    for name in charsets:
        yield encode(string, {"type": "STRING"}, {"string": text_of_all_widths}, converter__encoding=name)
        for data in (
            b"",
            b"ab\xc3\xa9\xff",
            b"\xfe\xff\x00\xe9",
            b"\xff\xfe\xe9\x00",
            b"\x00\x00\x00\xe9",
            None,
        ):
            yield decode(string, data, converter__encoding=name)
    for data in (b"\xc0\x80", b"\xed\xa0\x80", b"\xf0\x9f\x98", b"a\xe4\xb8b", b"\xf8\x88\x80\x80\x80"):
        yield decode(string, data)


SIMPLE_HEADER_TEXTS = (
    "", " ", "null", " null ", "true", "false", "TRUE", " true", "true}", "1", "-1", "+1", "127", "128", "-129",
    "32768", "2147483648", "9223372036854775807", "9223372036854775808", "-9223372036854775809", "1.0", "1.5",
    "0.1", "1e3", "1E-3", "1e30", "1e400", "-1e400", "1e-400", "5.", ".5", "-.5", "1.50", "00012", "-0", "0.0",
    "-0.0", "1 2", "1d", "0x10", "NaN", "3.4028236E38", "1.401298464324817e-46", "16777217.5",
    "12345678901234567890.5", "[]", "{}", "[1,2,3]", "[1, 2 , 300]", "[1,2.5]", "[1,null]", "[null]", "[null,null]",
    '["a","b"]', '["a",1]', "[a]", "[1,,2]", "[1,]", "[,1]", "[1", "[1 2]", "[1,2] rest", "[[1],[2]]", "[[1],[a]]",
    "[true,false]", "[true,1]", '[ "a b" , "c,d" ]', '["a\\"b"]', '["a\\\\"]', "[[],[1]]", '["2020-01-02"]',
    '{"a":1}', '{"a":1,"b":300}', '{"a":1 "b":2}', '{"a":null}', '{"a":null,"b":1}', "{1:2}", "{1:a}", "{a:1}",
    '{"a"}', '{"a":}', "{null:1}", '{"a":1', '{"a":[1,2],"b":[3]}', '{"a":{"b":{}}}', '{"a":1,}', "{,}",
    '{"a":1}x', "{[1]:2}", "2020-01-02", "2020-13-45", "2020-1-2", "0001-01-01", "1582-10-10", "1500-02-29",
    "12:34:56.789Z", "25:61:61.999Z", "12:34:56.789", "12:34:56", "2020-01-02T03:04:05.678Z",
    "2020-01-02T03:04:05Z", "2020-01-02t03:04:05.678Z", "1999-12-31T23:59:59.999Z", "2020-01-02T03\\:04\\:05.678Z",
    "[2020-01-02,2020-01-03]", "[12:34:56.789Z]", '["12:34:56.789Z"]', "[2020-01-02,5]", "[5,2020-01-02]",
    '{"a":2020-01-02}', '{"a":12:34:56.789Z}', "[2020-01-02,12:34:56.789Z]", "2020-01-02 x", "1234567890", "12-34-5678",
    '"quoted"', '"2020-01-02"', 'say "x"', "a:b", "a,b", "key=value", "\u00e9", "\U0001f600", "\u0661", "\u0661\u0662",
    "\t1\n", "1\u00a0", '{"a":1,"a":2}', "[9223372036854775808]", "[1,9223372036854775808]", "[1.5,1e400]",
    '[1.5,"x"]', "\\", "[\\]", "a\\:b", "[1:2]", "]", "}", ":", ",", "[ ]", "{ }", "[ 1 ]", "  [1]", "[1]  ",
    "-", "+", "--1", "1-1", "1e", "1e99999", "infinity", "Infinity", "[-0.0]", '[null,"a"]',
)  # fmt: skip


def _simple_header_cases() -> Iterator[Case]:
    """Yield the cases of SimpleHeaderConverter, which infers types from text."""
    simple = f"{STORAGE_PACKAGE}SimpleHeaderConverter"
    for text in SIMPLE_HEADER_TEXTS:
        yield decode(simple, text.encode(), header=True)
    yield decode(simple, None, header=True)
    yield decode(simple, b"\xff\xfe", header=True)
    for value in [*VALUES.values(), None]:
        yield encode(simple, None, value, header=True)
    for ms in (-1, 0, 1, 86399999, 86400000, 86400001, 1700000000123, 253402300800000, -86400000):
        yield encode(simple, {"type": "INT64", "name": f"{DATA_PACKAGE}Timestamp"}, {"date": ms}, header=True)
    inner = {"type": "STRUCT", "optional": True, "fields": [{"name": "x", "schema": {"type": "INT32"}}]}
    fields = {"a": {"type": "STRING", "optional": True, "default": {"string": "d\\"}}, "in": inner}
    struct = {"type": "STRUCT", "fields": [{"name": n, "schema": s} for n, s in fields.items()]}
    yield encode(simple, struct, {"struct": {"in": {"struct": {"x": {"int": 1}}}}}, header=True)
    yield encode(simple, struct, {"struct": {"a": {"string": 'x"'}}}, header=True)
    texts = {
        "list": [{"string": 'q"\\'}, {"bytes": "AP8="}, {"date": 1}, {"float": "1.0E10"}, {"decimal": "1E+5"}]
    }
    yield encode(simple, None, texts, header=True)
    yield encode(
        simple, None, {"map": [[{"long": 1}, {"list": []}], [{"long": 2}, {"map": []}]]}, header=True
    )
