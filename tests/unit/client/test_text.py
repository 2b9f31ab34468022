from __future__ import annotations

from kraal.client.text import cut, table, width_of


def test_columns_are_as_wide_as_they_look() -> None:
    assert table(("A", "B"), [("日本", "1"), ("e\u0301", "2")]) == ["A      B", "日本   1", "e\u0301      2"]


def test_lines_are_cut_to_the_terminal() -> None:
    lines = table(("NAME", "TRACE"), [("a", "x" * 50)], 20)
    assert lines == ["NAME   TRACE", "a      xxxxxxxxxxxx…"]
    assert (cut("日本語", 5), width_of(cut("日本語", 4)), cut("abc", 3), cut("abc", 0)) == (
        "日本…",
        3,
        "abc",
        "",
    )
