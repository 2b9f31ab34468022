from __future__ import annotations

import json
from pathlib import Path

import pytest

from scripts.docs_site.check import find_problems

VALID_SITE = {
    "index.html": '<h1 id="top">Kraal</h1><p><a href="docs/a.html#one">a</a><img src="docs/b.png"></p>',
    "docs/a.html": '<a id="one"></a><a href="../index.html#top">b</a><a href="#one">c</a><a href="https://x.org/">d</a>'
    '<link rel="canonical" href="https://x.org/a"><script src="../s.js"></script>',
    "404.html": '<a href="/docs/a.html">a</a><a href="/.">b</a>',
}


def write_site(directory: Path, pages: dict[str, str], indexed_pages: set[str] | None = None) -> Path:
    """Write a site whose search index contains `indexed_pages` (by default, all pages)."""
    for name, text in {**pages, "docs/b.png": "", "s.js": ""}.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text, encoding="utf-8")
    documents = [
        {"location": f"{name}#some"} for name in (indexed_pages if indexed_pages is not None else pages)
    ]
    (directory / "search").mkdir()
    (directory / "search" / "search_index.json").write_text(json.dumps({"docs": documents}), encoding="utf-8")
    return directory


def test_valid_site_has_no_problems(tmp_path: Path) -> None:
    assert find_problems(write_site(tmp_path, VALID_SITE)) == []


@pytest.mark.parametrize(
    ("html", "problem"),
    [
        ('<a href="missing.html">x</a>', "link to a missing file: missing.html"),
        ('<a href="docs/">x</a>', "link to a missing file: docs/"),
        ('<a href="../other.html">x</a>', "link to a missing file: ../other.html"),
        ('<a href="docs/a.html#two">x</a>', "link to a missing anchor: docs/a.html#two"),
        ('<a href="#two">x</a>', "link to a missing anchor: #two"),
        ('<img src="docs/c.png">', "link to a missing file: docs/c.png"),
        (
            '<a href="/docs/a.html">x</a>',
            "link relative to the root of the server, which may host other sites: /docs/a.html",
        ),
        ('<script src="https://cdn.org/x.js"></script>', "loads https://cdn.org/x.js from another host"),
        ('<script src="//cdn.org/x.js"></script>', "loads //cdn.org/x.js from another host"),
        (
            '<link rel="stylesheet" href="https://cdn.org/x.css">',
            "loads https://cdn.org/x.css from another host",
        ),
        ("<p>Text:\n- one\n- two</p>", "has Markdown that was not converted: '- '"),
        ("<p>Text:\n| a | b |\n|---|---|</p>", "has Markdown that was not converted: '| a | b |'"),
    ],
)
def test_problem_is_reported_with_its_page(tmp_path: Path, html: str, problem: str) -> None:
    assert f"index.html: {problem}" in find_problems(write_site(tmp_path, VALID_SITE | {"index.html": html}))


def test_code_may_look_like_markdown(tmp_path: Path) -> None:
    html = '<p id="top">See <code>a\n- b</code>.</p><pre><code>\n- one\n</code></pre>'
    assert find_problems(write_site(tmp_path, VALID_SITE | {"index.html": html})) == []


def test_page_missing_from_the_search_index_is_reported(tmp_path: Path) -> None:
    assert find_problems(write_site(tmp_path, VALID_SITE, {"index.html"})) == [
        "docs/a.html: missing from the search index"
    ]


def test_missing_search_index_is_reported(tmp_path: Path) -> None:
    site_directory = write_site(tmp_path, VALID_SITE)
    (site_directory / "search" / "search_index.json").unlink()
    assert find_problems(site_directory) == ["The site has no search index."]


def test_empty_site_is_reported(tmp_path: Path) -> None:
    assert find_problems(tmp_path) == [f"There are no pages in {tmp_path}."]
