from __future__ import annotations

import unicodedata

import pytest

from kraal.core.printable import join_lines, printable


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain é 日本", "plain é 日本"),
        ("\x1b[2J", "\\x1b[2J"),
        ("a\nb\tc\x00", "a\\nb\\tc\\x00"),
        ("\u202eright to left", "\\u202eright to left"),
        ("half \ud83d", "half \\ud83d"),
    ],
)
def test_control_characters_are_escaped(text: str, expected: str) -> None:
    assert printable(text) == expected


def test_join_lines_removes_line_breaks() -> None:
    assert join_lines("one\n\n  two\r\nthree\x07") == "one two three\\x07"


def test_ascii_characters_are_not_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    checked_characters: list[str] = []

    def category(character: str) -> str:
        checked_characters.append(character)
        return "Ll"

    monkeypatch.setattr(unicodedata, "category", category)
    assert printable("at java.lang.Thread.run(Thread.java:1) é") == "at java.lang.Thread.run(Thread.java:1) é"
    assert checked_characters == ["é"]
