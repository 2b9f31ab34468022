from __future__ import annotations

from kraal.client.text import cut, display_width, table


def test_columns_are_aligned_by_display_width() -> None:
    assert table(("A", "B"), [("日本", "1"), ("e\u0301", "2")]) == ["A      B", "日本   1", "e\u0301      2"]


def test_lines_are_truncated_to_the_terminal_width() -> None:
    lines = table(("NAME", "TRACE"), [("a", "x" * 50)], 20)
    assert lines == ["NAME   TRACE", "a      xxxxxxxxxxxx…"]
    assert (cut("日本語", 5), display_width(cut("日本語", 4)), cut("abc", 3), cut("abc", 0)) == (
        "日本…",
        3,
        "abc",
        "",
    )
