"""The cases of `converter_cases` for JsonConverter."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from typing import Any

Node = Any
Case = dict[str, Any]

JSON_CONVERTER = "org.apache.kafka.connect.json.JsonConverter"
DATA_PACKAGE = "org.apache.kafka.connect.data."

WITHOUT_SCHEMAS = {"schemas.enable": "false"}
DECIMAL = {"type": "BYTES", "name": f"{DATA_PACKAGE}Decimal", "version": 1, "parameters": {"scale": "2"}}
DATE = {"type": "INT32", "name": f"{DATA_PACKAGE}Date", "version": 1}
TIME = {"type": "INT32", "name": f"{DATA_PACKAGE}Time", "version": 1}
TIMESTAMP = {"type": "INT64", "name": f"{DATA_PACKAGE}Timestamp", "version": 1}


def make_encoding_case(schema: Node, value: Node, config: dict[str, str] | None = None) -> Case:
    """Return an encoding case."""
    return {
        "converter": JSON_CONVERTER,
        "config": config or {},
        "header": False,
        "schema": schema,
        "value": value,
    }


def make_decoding_case(data: str | bytes | None, config: dict[str, str] | None = None) -> Case:
    """Return a decoding case."""
    raw = data.encode() if isinstance(data, str) else data
    text = None if raw is None else b64encode(raw).decode("ascii")
    return {"converter": JSON_CONVERTER, "config": config or {}, "header": False, "data": text}


def struct(*fields: tuple[str, Node], **attributes: Node) -> Node:
    """Return the schema of a struct."""
    return {
        "type": "STRUCT",
        **attributes,
        "fields": [{"name": name, "schema": schema} for name, schema in fields],
    }


def optional(schema: Node) -> Node:
    """Return an optional schema."""
    return {**schema, "optional": True}


STRING, INT32, INT64 = {"type": "STRING"}, {"type": "INT32"}, {"type": "INT64"}
INNER = struct(("x", optional(INT32)), name="In", version=2, doc="a doc", optional=True)
RECORD = struct(
    ("a", STRING),
    ("b", optional({"type": "FLOAT64"})),
    ("in", INNER),
    ("d", {**INT32, "default": {"int": 5}}),
    ('q"\\\u00e9\U0001f600', optional(STRING)),
    name="Rec",
    parameters={"p": 'v"', "o": "2"},
)


def json_encoding_cases() -> Iterator[Case]:
    """Yield the encoding cases (`fromConnectData`), most of them both with and without schemas."""
    for schema, value in (*_scalars(), *_nested(), *_defaults(), *_schemaless(), *_floats()):
        yield make_encoding_case(schema, value)
        yield make_encoding_case(schema, value, WITHOUT_SCHEMAS)
    for schema, value in _logical():
        yield make_encoding_case(schema, value)
        yield make_encoding_case(schema, value, {"decimal.format": "numeric", **WITHOUT_SCHEMAS})
    keep = {"replace.null.with.default": "false"}
    defaulted = {**STRING, "default": {"string": "d"}}
    yield make_encoding_case(optional(defaulted), None, keep)
    yield make_encoding_case(defaulted, None, keep)
    yield make_encoding_case(defaulted, None)
    yield make_encoding_case(struct(("a", optional(defaulted))), {"struct": {}}, keep)
    yield make_encoding_case(struct(("a", optional(defaulted))), {"struct": {}})
    content = '{"type":"struct","fields":[{"field":"a","type":"string"}]}'
    for config in ({}, WITHOUT_SCHEMAS):
        yield make_encoding_case(
            struct(("a", STRING)), {"struct": {"a": {"string": "x"}}}, {"schema.content": content, **config}
        )
        yield make_encoding_case(None, {"string": "x"}, {"schema.content": content, **config})
    yield make_encoding_case(None, None, {"schema.content": content})


def _scalars() -> Iterator[tuple[Node, Node]]:
    yield None, None
    yield STRING, None
    yield optional(STRING), None
    for kind, value in (
        ("INT8", {"byte": -1}), ("INT16", {"short": 300}), ("INT32", {"int": 7}), ("INT64", {"long": 2**63 - 1}),
        ("FLOAT32", {"float": "0.1"}), ("FLOAT64", {"double": "1.0E-7"}), ("BOOLEAN", {"boolean": True}),
        ("BYTES", {"bytes": "AAH/Cg=="}), ("STRING", {"string": "".join(map(chr, range(128)))}),
        ("FLOAT64", {"double": "NaN"}), ("FLOAT32", {"float": "-Infinity"}), ("FLOAT32", {"float": "1.0E10"}),
        ("STRING", {"string": "\x7f\x80\u2028\ufeff\ufffe\u00e9\u4e16\U0001f600</>&'"}),
        ("FLOAT64", {"double": "-0.0"}),
        ("FLOAT64", {"float": "1"}), ("FLOAT32", {"double": "1"}),
        ("STRING", {"long": 1}), ("BYTES", {"string": "x"}), ("BOOLEAN", {"string": "x"}),
        ("INT8", {"string": "x"}),
        ("STRUCT", {"string": "x"}),
    ):  # fmt: skip
        yield {"type": kind}, value


def _nested() -> Iterator[tuple[Node, Node]]:
    yield {"type": "ARRAY", "value": STRING}, {"string": "x"}
    yield {"type": "MAP", "key": STRING, "value": STRING}, {"string": "x"}
    yield {"type": "ARRAY", "value": optional(STRING)}, {"list": [{"string": "a"}, None]}
    yield {"type": "ARRAY", "value": STRING}, {"list": [None]}
    yield {"type": "ARRAY", "value": {"type": "ARRAY", "value": INT32}}, {"list": [{"list": [{"int": 1}]}]}
    one = {"map": [[{"string": 'k"'}, {"long": 1}], [{"string": "n"}, None]]}
    yield {"type": "MAP", "key": STRING, "value": optional(INT64)}, one
    yield {"type": "MAP", "key": optional(STRING), "value": INT64}, {"map": [[None, {"long": 1}]]}
    yield {"type": "MAP", "key": INT32, "value": STRING}, {"map": [[{"int": 3}, {"string": "x"}]]}
    yield {"type": "MAP", "key": {"type": "ARRAY", "value": INT32}, "value": STRING}, {"map": []}
    yield (
        RECORD,
        {"struct": {"a": {"string": 'x"\n'}, "b": {"double": "2.5"}, "in": {"struct": {"x": {"int": 1}}}}},
    )
    yield RECORD, {"struct": {"a": {"string": "\u00e9"}, "d": {"int": 6}}}
    yield RECORD, {"struct": {}}
    other = struct(("a", INT32))
    yield RECORD, {"struct": {"a": {"int": 1}}, "of": other}
    yield None, {"struct": {"a": {"int": 1}}, "of": other}
    yield struct(), {"struct": {}}
    yield {**STRING, "doc": "", "name": "", "version": 0}, {"string": ""}


def _defaults() -> Iterator[tuple[Node, Node]]:
    for default, schema in (
        ({"long": 5}, INT64), ({"bytes": "AAE="}, {"type": "BYTES"}), ({"double": "1.0E10"}, {"type": "FLOAT64"}),
        ({"decimal": "1.50"}, DECIMAL), ({"date": 86400000}, DATE), ({"boolean": False}, {"type": "BOOLEAN"}),
        ({"list": [{"string": "a"}]}, {"type": "ARRAY", "value": STRING}),
        ({"map": [[{"string": "a"}, {"int": 1}]]}, {"type": "MAP", "key": STRING, "value": INT32}),
    ):  # fmt: skip
        yield {**schema, "default": default}, None
        yield struct(("f", {**schema, "default": default})), {"struct": {}}
    yield {**struct(("a", STRING)), "default": {"struct": {"a": {"string": "x"}}}}, None


def _schemaless() -> Iterator[tuple[Node, Node]]:
    values: tuple[Node, ...] = (
        {"byte": 1}, {"short": 2}, {"int": 3}, {"long": 4}, {"float": "0.1"}, {"double": "1.0E10"}, {"string": "x"},
        {"boolean": False}, {"bytes": "AAE="}, {"decimal": "1.5"}, {"date": 5}, {"list": []}, {"map": []},
        {"list": [{"long": 1}, None, {"string": "a"}, {"list": [{"double": "NaN"}]}]},
        {"map": [[{"string": "a"}, {"map": [[{"string": "b"}, None]]}]]},
        {"map": [[{"long": 1}, {"string": "x"}], [{"string": "b"}, None]]}, {"map": [[None, {"long": 1}]]},
        {"list": [{"decimal": "1"}]},
    )  # fmt: skip
    for value in values:
        yield None, value


def _floats() -> Iterator[tuple[Node, Node]]:
    # Before Java 19, some floats are printed with a superfluous digit. These ranges contain neither such floats nor
    # subnormal values.
    singles = [{"float": repr(2.0**e)} for e in range(-125, 128)] + [
        {"float": repr(10.0**e / 3)} for e in range(-37, 38)
    ]
    yield {"type": "ARRAY", "value": {"type": "FLOAT32"}}, {"list": singles}
    doubles = [{"double": repr(2.0**e)} for e in range(-1022, 1024, 7)]
    yield {"type": "ARRAY", "value": {"type": "FLOAT64"}}, {"list": doubles}


def _logical() -> Iterator[tuple[Node, Node]]:
    for text in (
        "1.50",
        "0.00",
        "-0.01",
        "1.5",
        "150",
        "12345678901234567890123.45",
        "-1.28",
        "1.28",
        "-1.29",
    ):
        yield DECIMAL, {"decimal": text}
    for scale, text in (("0", "100"), ("-3", "1E+3"), ("7", "0.0000001"), ("12", "1E-12"), ("x", "1")):
        yield {**DECIMAL, "parameters": {"scale": scale}}, {"decimal": text}
    yield {**DECIMAL, "parameters": {"precision": "4"}}, {"decimal": "1.50"}
    for schema in (DECIMAL, DATE, TIME, TIMESTAMP):
        yield schema, {"string": "x"}
        yield schema, None
        yield optional(schema), None
    for ms in (0, 86400000, -86400000, 1, 1700000000123):
        yield DATE, {"date": ms}
        yield TIME, {"date": ms}
        yield TIMESTAMP, {"date": ms}
    yield {"type": "STRING", "name": f"{DATA_PACKAGE}Timestamp"}, {"date": 5}


def json_decoding_cases() -> Iterator[Case]:
    """Yield the decoding cases (`toConnectData`)."""
    for text in (
        None, b"", "  ", "null", "true", "1", "-0", "-0.0", "0.0", "1.5", "1e10", "1E400", "-1e-400", "100.0", "007",
        "-007", "[00,01]", "12345678901234567890", "-9223372036854775809", '"x"',
        '"\\ud83d\\ude00\\u00e9\\n"', "[]", "{}",
        '{"a":1,"a":2}', '{"a":{"b":[1,2.5,null,"x",true]}}',
        '{"a":1} trailing', "1 2", "1x", "truex", "true,", '"a"b',
        "[1", "{", "NaN", "Infinity", "'x'", "{a:1}", '"raw\nline"', "0x10", "+1", ".5", "1.", "1e", "\ufeff1", "nul",
        '"x"'.encode("utf-16-be"), '"x"'.encode("utf-32-le"), b'"\xff"', "\u00a01", '{"schema":1,"payload":2}',
        "9223372036854775807", "[1,]", '{"a":1,}', "/*c*/1", '"\\x"', "1.0000000000000000000000001", "-",
    ):  # fmt: skip
        yield make_decoding_case(text, WITHOUT_SCHEMAS)
    for text in (
        None, b"", "null", "1", "{}", '{"schema":null,"payload":null}',
        '{"schema":null,"payload":{"a":[1,1.5,-0.0]}}',
        '{"payload":1,"schema":{"type":"int32"}}', ' { "schema" : {"type":"int32"} , "payload" : 1 } ',
        '{"schema":{"type":"int32"},"payload":1,"more":1}', '{"schema":{"type":"int32"}}',
        '{"schema":{},"payload":1}',
        '{"schema":1,"payload":1}', '{"schema":[],"payload":1}', '{"schema":{"type":1},"payload":1}', "[", "{",
        '{"schema":{"type":"int"},"payload":1}', '{"schema":{"type":"struct"},"payload":{}}',
        '{"schema":{"type":"struct","fields":[1]},"payload":{}}',
        '{"schema":{"type":"struct","fields":{}},"payload":{}}',
        '{"schema":{"type":"struct","fields":[{"type":"int8"}]},"payload":{}}',
        '{"schema":{"type":"struct","fields":[{"field":"","type":"int8"}]},"payload":{}}',
        '{"schema":{"type":"struct","fields":[{"field":"a"}]},"payload":{}}',
        '{"schema":{"type":"struct","fields":[{"field":"a","type":"int8"},{"field":"a","type":"int8"}]},"payload":{}}',
        '{"schema":{"type":"array"},"payload":[]}', '{"schema":{"type":"array","items":null},"payload":[]}',
        '{"schema":{"type":"map"},"payload":{}}', '{"schema":{"type":"map","keys":{"type":"string"}},"payload":{}}',
        '{"schema":{"type":"map","keys":null,"values":null},"payload":{}}',
        '{"schema":{"type":"map","keys":{"type":"string"},"values":null},"payload":{}}',
        '{"schema":{"type":"string","parameters":{"a":1}},"payload":"x"}',
        '{"schema":{"type":"string","parameters":{"a":"1","b":"2"},"doc":"d","name":"n","version":3},"payload":"x"}',
        '{"schema":{"type":"string","parameters":{},"doc":1,"name":null,"version":"3","optional":"true"},"payload":"x"}',
        '{"schema":{"type":"string","version":4294967297,"parameters":[]},"payload":"x"}',
        '{"schema":{"type":"int64"},"payload":1} x', '{"schema":{"type":"int64"},"payload":1,"payload":2}',
    ):  # fmt: skip
        yield make_decoding_case(text)
    for described, payload in (*_simple_schemas(), *_nested_schemas(), *_logical_schemas()):
        yield make_decoding_case(f'{{"schema":{described},"payload":{payload}}}')
        if payload == "null":
            yield make_decoding_case(
                f'{{"schema":{described},"payload":null}}', {"replace.null.with.default": "false"}
            )
    yield from _content()


def _simple_schemas() -> Iterator[tuple[str, str]]:
    for kind in ("int8", "int16", "int32", "int64", "float", "double", "boolean", "string", "bytes"):
        for payload in (
            "1",
            "300",
            "-1.9",
            "12345678901234567890",
            '"AAE="',
            "true",
            "[1]",
            "{}",
            "null",
            "1e30",
        ):
            yield f'{{"type":"{kind}"}}', payload
        yield f'{{"type":"{kind}","optional":true}}', "null"
    for payload in (
        '"A"',
        '"A A="',
        '"AAE= AAE="',
        '"=AAA"',
        '"AA==AA=="',
        '"-_8="',
        '""',
        '" AAE= "',
        '"AAE"',
    ):
        yield '{"type":"bytes"}', payload
    for text in (
        "0.1",
        "16777217",
        "16777217.0000001",
        "1e39",
        "1e-46",
        "-0.0",
        "340282356779733661637539395458142568447",
    ):
        yield '{"type":"float"}', text
        yield '{"type":"double"}', text


def _nested_schemas() -> Iterator[tuple[str, str]]:
    for default in ("1", "null", '"x"', "1.5"):
        yield f'{{"type":"int32","default":{default}}}', "null"
        yield f'{{"type":"string","optional":true,"default":{default}}}', "null"
    inner = (
        '{"type":"struct","fields":[{"field":"a","type":"string"},{"field":"b","type":"int32","default":7}]'
    )
    for payload in ('{"a":"x"}', '{"a":1}', "{}", '{"a":"x","b":null,"c":1}', "[]", "1", "null", '{"b":1}'):
        yield inner + "}", payload
        yield inner + ',"optional":true}', payload
    yield inner + ',"default":{"a":"y"}}', "null"
    outer = (
        '{"type":"struct","fields":[{"field":"l","type":"array","items":{"type":"string"},"optional":true},'
    )
    outer += '{"field":"m","type":"map","keys":{"type":"string"},"values":{"type":"bytes"},"optional":true},'
    outer += f'{{"field":"s",{inner[1:]},"optional":true}}]}}'
    for payload in (
        '{"l":["a"],"m":{"k":"AAE="},"s":{"a":"x"}}',
        '{"l":[1]}',
        '{"m":{"k":1}}',
        '{"s":{"a":1}}',
        '{"l":{"x":"y"}}',
        '{"l":1}',
    ):
        yield outer, payload
    array = '{"type":"array","items":{"type":"int32"}'
    for payload in ("[]", "[1,2]", "[null]", '{"a":1}', "1", "null", '[["x"]]'):
        yield array + "}", payload
    yield array + ',"default":[1]}', "null"
    for keys, payload in (
        ("string", '{"a":1}'), ("string", "[]"), ("string", "1"), ("int32", "[[1,2]]"), ("int32", "{}"),
        ("int32", "[1]"),
        ("int32", "[[1]]"), ("int32", "[[1,2,3]]"), ("int32", "[[1,null]]"), ("boolean", "[[true,1],[true,2]]"),
    ):  # fmt: skip
        yield f'{{"type":"map","keys":{{"type":"{keys}"}},"values":{{"type":"int32"}}}}', payload
    array_schema = '{"type":"array","items":{"type":"int32"}}'
    yield f'{{"type":"map","keys":{array_schema},"values":{{"type":"int32"}}}}', "[[[1,2],3]]"


def _logical_schemas() -> Iterator[tuple[str, str]]:
    decimal = f'{{"type":"bytes","name":"{DATA_PACKAGE}Decimal","version":1,"parameters":{{"scale":"2"}}'
    for payload in ('"lg=="', "1.5", "1", "1e5", '"!"', '""', "true", "[]", "null", "-0.00", "1.50000"):
        yield decimal + "}", payload
    yield decimal + ',"default":"lg=="}', "null"
    yield decimal.replace('"2"', '"x"') + "}", '"lg=="'
    for name in ("Date", "Time", "Timestamp"):
        for kind in ("int32", "int64"):
            for payload in (
                "1",
                "-1",
                "86400000",
                "86400001",
                "3000000000",
                "1.0",
                '"1"',
                "null",
                "12345678901234567890",
            ):
                yield f'{{"type":"{kind}","name":"{DATA_PACKAGE}{name}","version":1}}', payload


def _content() -> Iterator[Case]:
    content = '{"type":"struct","fields":[{"field":"a","type":"string"}],"name":"N"}'
    config = {"schema.content": content}
    for text in ('{"a":"x"}', '{"schema":null,"payload":{"a":"x"}}', "[]", "null", "", "x", None):
        yield make_decoding_case(text, config)
        yield make_decoding_case(text, {**config, **WITHOUT_SCHEMAS})
    for bad in ("x", "{}", "null", "", "1", '{"type":"int"}'):
        yield make_decoding_case("1", {"schema.content": bad})
