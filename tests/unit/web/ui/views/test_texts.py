from __future__ import annotations

import pytest

from kraal.core.printable import format_count
from web.ui.views.texts import join_names, plain_text, shorten


def test_html_documentation_becomes_plain_text() -> None:
    text = plain_text(
        "Formats:<ul><li><code>a</code> is\n  one</li><li>b</li></ul>"
        "<p class=\"x\">See <a href='u'>this</a> &amp; that."
    )
    assert text == "Formats:\n- a is\none\n- b\nSee this & that."


@pytest.mark.parametrize(
    "text", ["<topic>.<table>", "List<String>", "<script>alert(1)</script>", "a < b > c", "<img src=x>"]
)
def test_text_without_markup_is_unchanged(text: str) -> None:
    assert plain_text(text) == text


def test_non_string_documentation_is_empty() -> None:
    assert plain_text(None) == plain_text({"a": 1}) == ""


def test_count_is_followed_by_a_noun() -> None:
    assert [format_count(count, "task") for count in (0, 1, 1234)] == ["0 tasks", "1 task", "1,234 tasks"]


def test_long_lists_of_names_are_shortened() -> None:
    names = [f"c{number}" for number in range(12)]
    assert join_names(names[:1]) == "c0"
    assert join_names(names[:3]) == "c0, c1 and c2"
    assert join_names(names).endswith("c8, c9 and 2 more")
    assert join_names([]) == ""


def test_long_texts_are_shortened_in_the_middle() -> None:
    assert shorten("a" * 30, 30) == "a" * 30
    assert shorten("a" * 20 + "b" * 1000 + "c" * 10, 30) == "a" * 20 + "\n… 1,000 characters …\n" + "c" * 10
