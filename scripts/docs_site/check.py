"""Checks the built site: links, anchors, images, the search index, and that nothing is loaded from other hosts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from typing_extensions import override

LOADED_ATTRIBUTES: Final = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "link": "href",
}
"""Attributes whose addresses a browser loads with the page, by element."""
NOT_FOUND: Final = "404.html"
"""The page that a server returns for any unknown URL, so its links are relative to the root of the site."""
_MARKUP: Final = re.compile(r"^ *(?:[-*] |\d+\. |\|.*\|$|#+ |```)", re.MULTILINE)


@dataclass
class Page:
    """The links, loaded resources and anchors of a page, and text that looks like unconverted Markdown."""

    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)
    markup: list[str] = field(default_factory=list)


class _PageParser(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.page = Page()
        self._paragraph: list[str] | None = None
        self._code = 0

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value for name, value in attrs if value is not None}
        self.page.anchors.update(attributes[name] for name in ("id", "name") if name in attributes)
        if (address := attributes.get(LOADED_ATTRIBUTES.get(tag, ""))) is not None:
            # Links to other forms of the page, such as its canonical address, are not requested.
            is_loaded = tag != "link" or attributes.get("rel") in {"stylesheet", "icon", "preload"}
            (self.page.loads if is_loaded else self.page.links).append(address)
        elif tag == "a" and "href" in attributes:
            self.page.links.append(attributes["href"])
        if tag == "p":
            self._paragraph = []
        self._code += tag == "code"

    @override
    def handle_endtag(self, tag: str) -> None:
        self._code -= tag == "code"
        if tag == "p" and self._paragraph is not None:
            self.page.markup += [match[0] for match in _MARKUP.finditer("".join(self._paragraph))]
            self._paragraph = None

    @override
    def handle_data(self, data: str) -> None:
        if self._paragraph is not None and not self._code:
            self._paragraph.append(data)


def read_page(html: str) -> Page:
    """Parse one page."""
    parser = _PageParser()
    parser.feed(html)
    parser.close()
    return parser.page


def find_problems(site: Path) -> list[str]:
    """Return a message for each problem of the site in the directory `site`."""
    pages = {
        str(path.relative_to(site)): read_page(path.read_text(encoding="utf-8"))
        for path in sorted(site.rglob("*.html"))
    }
    if not pages:
        return [f"There are no pages in {site}."]
    problems = [
        f"{name}: {problem}"
        for name, page in pages.items()
        for problem in _yield_problems(name, page, pages, site)
    ]
    return problems + _find_search_problems(site, pages)


def _yield_problems(name: str, page: Page, pages: Mapping[str, Page], site: Path) -> Iterator[str]:
    for address in page.loads:
        if urlsplit(address).netloc:
            yield f"loads {address} from another host"
    for address in [*page.links, *page.loads]:
        if problem := _find_link_problem(name, address, pages, site):
            yield f"{problem}: {address}"
    for markup in page.markup:
        yield f"has Markdown that was not converted: {markup!r}"


def _find_link_problem(name: str, address: str, pages: Mapping[str, Page], site: Path) -> str | None:
    parts = urlsplit(address)
    if parts.scheme or parts.netloc:
        return None
    path, anchor = unquote(parts.path), unquote(parts.fragment)
    if path.startswith("/") and name != NOT_FOUND:
        return "link relative to the root of the server, which may host other sites"
    top = site.resolve()
    target = (top / path.lstrip("/") if path.startswith("/") else top / Path(name).parent / path).resolve()
    if not path:
        target = top / name
    if not target.is_relative_to(top) or not target.is_file():
        # URLs of directories require a server that returns their index.html, but the pages also work as files.
        return None if target == top and name == NOT_FOUND else "link to a missing file"
    if anchor and target.suffix == ".html" and anchor not in pages[str(target.relative_to(top))].anchors:
        return "link to a missing anchor"
    return None


def _find_search_problems(site: Path, pages: Mapping[str, Page]) -> list[str]:
    index = site / "search" / "search_index.json"
    if not index.is_file():
        return ["The site has no search index."]
    documents = json.loads(index.read_text(encoding="utf-8"))["docs"]
    indexed = {urlsplit(document["location"]).path or "index.html" for document in documents}
    return [f"{name}: missing from the search index" for name in sorted(pages.keys() - indexed - {NOT_FOUND})]
