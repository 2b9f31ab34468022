from __future__ import annotations

import re
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraal.config.yaml_text import YamlError, convert_config_scalar, convert_scalar, read_yaml, to_yaml

CONFIG = """\
%YAML 1.2
---
# a source
name: orders-source   # its name
config:
  connector.class: FileStreamSource
  tasks.max: 4
  version: 1.50
  'quoted''s': "a: b # c\\t\\u00e9"
  empty:
  null: ~
  url: http://host:8083/x
  flag: yes
  tilde: a~b
  hash: a#b
initial_state: STOPPED
---
...
---
flat: {"a": 1.50, "b": [true, null]}  # JSON
"""


def test_config_values_keep_their_text() -> None:
    assert read_yaml(CONFIG, convert_config_scalar) == [
        {
            "name": "orders-source",
            "config": {
                "connector.class": "FileStreamSource",
                "tasks.max": "4",
                "version": "1.50",
                "quoted's": "a: b # c\té",
                "empty": None,
                "null": None,
                "url": "http://host:8083/x",
                "flag": "yes",
                "tilde": "a~b",
                "hash": "a#b",
            },
            "initial_state": "STOPPED",
        },
        {"flat": {"a": "1.50", "b": ["true", None]}},
    ]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param(
            "a: 1\nb: -2.5e3\nc: true\nd: '1'\n", {"a": 1, "b": -2500.0, "c": True, "d": "1"}, id="types"
        ),
        pytest.param("- a: 1\n  b: 2\n- a: 3\n", [{"a": 1, "b": 2}, {"a": 3}], id="items that are mappings"),
        pytest.param(
            "a:\n- 1\n- 2\nb:\n  - 3\n", {"a": [1, 2], "b": [3]}, id="items below their key, or indented"
        ),
        pytest.param("- - 1\n  - 2\n-\n  - 3\n- x\n", [[1, 2], [3], "x"], id="items in items"),
        pytest.param(
            "a: |\n  one\n   two\n\n  three\n\nb: 1\n", {"a": "one\n two\n\nthree\n", "b": 1}, id="literal"
        ),
        pytest.param(
            "a: |-\n  one\nb: |+\n  two\n\n", {"a": "one", "b": "two\n\n"}, id="chomping indicators"
        ),
        pytest.param("a: >\n  one\n  two\n\n  three\n", {"a": "one two\nthree\n"}, id="folded"),
        pytest.param(
            "a: |\n  # no comment\n  k: v\n",
            {"a": "# no comment\nk: v\n"},
            id="no comments or keys in a literal",
        ),
        pytest.param('"a b": "\\x41\\\\\\/\\ud83d\\ude00"\n', {"a b": "A\\/\U0001f600"}, id="escapes"),
        pytest.param("a::b: 1\nhttp://x: 2\n", {"a::b": 1, "http://x": 2}, id="colons in keys"),
        pytest.param("a: 1\r\nb: 2\r\n", {"a": 1, "b": 2}, id="Windows line endings"),
        pytest.param("a:   # nothing\nb: x\n", {"a": None, "b": "x"}, id="a comment is no value"),
        pytest.param("- a: |\n    one\n  b: 2\n", [{"a": "one\n", "b": 2}], id="a literal in an item"),
        pytest.param("a: {b: 1}\n", {"a": {"b": 1}}, id="flow style"),
        pytest.param('a: {"b":1}\n', {"a": {"b": 1}}, id="JSON"),
        pytest.param("a: [1,\n\t2]\n", {"a": [1, 2]}, id="flow style over lines"),
        pytest.param("a: one\n  two\n", {"a": "one two"}, id="a plain text over lines"),
        pytest.param("a: |2\n   x\n", {"a": " x\n"}, id="an indentation indicator"),
        pytest.param("a:\t1\t\nb: 2\t# c\n\t \nc: 3\n", {"a": 1, "b": 2, "c": 3}, id="tabs between tokens"),
        pytest.param("1: a\n~: b\nyes: c\n", {"1": "a", "~": "b", "yes": "c"}, id="keys are strings"),
        pytest.param(
            "a: 0x1F\nb: 0o17\nc: 017\nd: 1e3\n",
            {"a": 31, "b": 15, "c": 17, "d": 1000.0},
            id="YAML 1.2 numbers",
        ),
        pytest.param(
            "a: yes\nb: 1_000\nc: 1:30\nd: 2024-01-01\ne: =\n",
            {"a": "yes", "b": "1_000", "c": "1:30", "d": "2024-01-01", "e": "="},
            id="YAML 1.1 types are strings",
        ),
        pytest.param("just text\n", "just text", id="a scalar"),
    ],
)
def test_supported_yaml_is_parsed(text: str, value: object) -> None:
    assert read_yaml(text, convert_scalar) == [value]


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        pytest.param("a: *x\n", 1, "aliases are not supported", id="alias"),
        pytest.param("a: &x 1\n", 1, "anchors and", id="anchor"),
        pytest.param("a: !!str 1\n", 1, "tags are not supported", id="tag"),
        pytest.param("a: b: c\n", 1, "mapping values are not allowed here", id="a colon in a value"),
        pytest.param("a: 1\nb\n", 2, "could not find expected ':'", id="no key"),
        pytest.param("a: 1\na: 2\n", 2, "duplicate key 'a'", id="duplicate key"),
        pytest.param("a: 1\n\tb: 2\n", 2, "found character '\\t'", id="a tab"),
        pytest.param("a:\n    b: 1\n  c: 2\n", 3, "expected <block end>", id="inconsistent indentation"),
        pytest.param("a: 'x\n", 1, "unexpected end of stream", id="unterminated quote"),
        pytest.param("a: 'x' y\n", 1, "expected <block end>", id="text after a quoted scalar"),
        pytest.param('a: "\\q"\n', 1, "unknown escape character 'q'", id="an unknown escape"),
        pytest.param('a: "\\x4"\n', 1, "expected escape sequence of 2", id="a short escape"),
        pytest.param("a: 1\n- b\n", 2, "expected <block end>", id="an item among keys"),
        pytest.param("--- a: 1\n", 1, "mapping values are not allowed here", id="mapping on the line of ---"),
        pytest.param("a: %x\n", 1, "found character '%'", id="a reserved character"),
        pytest.param("-" + " -" * 5000 + " x", 1, "too deeply", id="too deep"),
        pytest.param("a: 1\nb: \x01\n", 2, "U+0001 is not allowed", id="a control character"),
        pytest.param(
            "a: 1\nb: x\u2028c: 1\n", 2, "U+2028 must be escaped", id="a line break of YAML 1.1 only"
        ),
        pytest.param("a: 1\n? [b]\n: c\n", 2, "a key must be a scalar", id="a list as key"),
        pytest.param("a: " + "9" * 5000, 1, "4300 digits", id="a number that Python refuses"),
        pytest.param('a: "\\UFFFFFFFF"\n', 1, "invalid character code", id="an escape beyond Unicode"),
    ],
)
def test_unsupported_yaml_is_rejected_with_line(text: str, line: int, reason: str) -> None:
    with pytest.raises(YamlError, match=rf"^line {line}: .*{re.escape(reason)}"):
        read_yaml(text, convert_scalar)


SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_yaml_output_round_trips(value: object) -> None:
    assert read_yaml(to_yaml(value), convert_scalar) == [value]


@given(st.text())
def test_any_text_is_parsed_or_rejected(text: str) -> None:
    with suppress(YamlError):
        assert isinstance(read_yaml(text, convert_scalar), list)


@pytest.mark.parametrize(
    "text",
    ["yes", "N", "~", "1", "0x1F", ".5", ".inf", "<<", "2024-01-01", "1:30", "a: b", "x #y", "", " ", "..."],
)
def test_ambiguous_strings_are_quoted(text: str) -> None:
    assert to_yaml({"a": text}) == f'a: "{text}"\n'


def test_repeated_value_is_written_without_alias() -> None:
    shared_value = {"b": "1"}
    assert to_yaml([shared_value, shared_value]) == '- b: "1"\n- b: "1"\n'


def test_control_characters_are_escaped() -> None:
    assert to_yaml({"a": "é \u202e"}) == 'a: "\\xE9 \\u202E"\n'
    assert to_yaml({"a": "é"}) == 'a: "é"\n'


def test_output_uses_block_style() -> None:
    trace = "java.lang.Exception: no\n\tat a.b\n"
    value = {
        "name": "a",
        "yes": "no",
        "n": "1",
        "url": "http://x",
        "list": [{"id": 0, "trace": trace}],
        "none": [],
    }
    assert to_yaml(value) == (
        'name: a\n"yes": "no"\n"n": "1"\nurl: "http://x"\nlist:\n  - id: 0\n    trace: |\n'
        "      java.lang.Exception: no\n      \tat a.b\nnone: []\n"
    )
