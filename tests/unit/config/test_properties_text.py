"""Tests that properties files are parsed like `java.util.Properties` (JDK 17 and 25).

The golden file has 500 generated texts.
"""

from __future__ import annotations

import json

import pytest

from kraal.config.properties_text import parse
from tests.golden_files import current

GOLDEN = current("config", "properties.jsonl")


def parse_or_none(text: str) -> dict[str, str] | None:
    """Return the entries, or None if the text is invalid."""
    try:
        return parse(text)
    except ValueError:
        return None


def join_surrogates(text: str) -> str:
    """Join surrogate pairs, which Java does not distinguish from characters above U+FFFF."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def test_texts_are_parsed_like_java() -> None:
    cases = [json.loads(line) for line in GOLDEN.read_text(encoding="utf-8").split("\n") if line]
    assert len(cases) == 500
    mismatches = []
    for case in cases:
        entries = parse_or_none(case["text"])
        result = entries and {join_surrogates(key): join_surrogates(value) for key, value in entries.items()}
        if result != case["properties"]:
            mismatches.append((case, result))
    assert mismatches == []


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        ("a = b \t\n", {"a": "b \t"}),
        ("a\\\n  b", {"ab": ""}),
        ("\\", {"": ""}),
        ("\\\n! comment\nx", {"x": ""}),
        ("a=1\na:2", {"a": "2"}),
        ("a=\\ud83d\\ude00", {"a": "😀"}),
        ("# only\n", {}),
    ],
)
def test_properties_are_parsed(text: str, entries: dict[str, str]) -> None:
    assert parse(text) == entries


def test_invalid_unicode_escape_is_rejected() -> None:
    with pytest.raises(ValueError, match=r"malformed \\uxxxx encoding: \\u12x4"):
        parse("a=\\u12x4")


def test_large_file_is_parsed_in_linear_time() -> None:
    assert parse("a" * 1_000_000 + "\\\n" * 100_000) == {"a" * 1_000_000: ""}
    assert parse("\\\n" * 100_000) == {"": ""}
