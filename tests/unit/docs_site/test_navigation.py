"""Tests that the navigation of the site contains every page of the documentation."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from scripts.docs_site.pages import PAGES

ROOT = Path(__file__).parents[3]


def list_pages(nav: list[Any]) -> Iterator[str]:
    """Yield the pages in a part of the navigation. An entry is a path, or maps a title to a path or another part."""
    for entry in nav:
        for item in entry.values() if isinstance(entry, dict) else [entry]:
            if isinstance(item, list):
                yield from list_pages(item)
            else:
                yield item


def test_every_page_is_in_the_navigation_once() -> None:
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    pages = [*PAGES, *(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md"))]
    assert sorted(list_pages(site["nav"])) == sorted(pages), (
        "add the page to `nav` in mkdocs.yml, or remove it there"
    )
