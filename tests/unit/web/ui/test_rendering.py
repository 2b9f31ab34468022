"""Tests that templates escape hostile names and contain no inline code."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from jinja2 import Environment, UndefinedError
from typing_extensions import override

from kraal.cluster.state.statuses import ConnectorStatuses
from kraal.core.ids import State
from tests.unit.web.api import Api, status
from web.settings import Settings
from web.ui import rendering as module
from web.ui.options import DashboardOptions
from web.ui.rendering import Rendering, escape_invisible, etag, unescape_segment, url

TEMPLATE_FOLDER = Path(__file__).parents[4] / "web" / "ui" / "templates"
TEMPLATES = sorted(TEMPLATE_FOLDER.rglob("*.html"))
HOSTILE_NAMES = [
    "<script>alert(1)</script>",
    '"onmouseover="alert(1)',
    "'><img src=x onerror=alert(1)>",
    "../",
    "..",
    ".",
    "~.",
    "a%2Fb",
    "a/b?c#d",
    "javascript:alert(1)",
    "{{ 7 * 7 }}{% raw %}",
    "\u202egnp.exe\u2066",
    "line\nbreak\ttab\x00\x1b[31m",
    "</pre></td></textarea>-->]]>",
    "x" * 8192,
    "ü 漢字 \U0001f600",
    "&lt;b&gt;",
]


class ParsedPage(HTMLParser):
    """Elements, links and texts of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: set[tuple[str, ...]] = set()
        """Tag name of each element, followed by the names of its attributes."""
        self.links: list[str] = []
        self.text: list[str] = []
        self.feed(text)

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add((tag, *(name for name, _ in attrs)))
        attributes = dict(attrs)
        self.links += [
            value for name in ("href", "action", "hx-get", "src") if (value := attributes.get(name))
        ]

    @override
    def handle_data(self, data: str) -> None:
        self.text.append(data)


def page(api: Api, path: str) -> ParsedPage:
    response = api.client.get(path)
    assert response.status_code == 200, response.text[:500]
    return ParsedPage(response.text)


def add_hostile_connector(api: Api, name: str) -> None:
    """Add a connector with `name` in every text that users can choose."""
    api.herder.put(
        name,
        {"connector.class": name, "topics": name},
        tasks=1,
        topics=frozenset({name}),
        statuses=ConnectorStatuses(
            connector=status(State.FAILED, name), tasks={0: status(State.FAILED, f"{name}\n\tat {name}")}
        ),
    )


def hostile_pages(api: Api, name: str) -> list[ParsedPage]:
    """Add a connector; return the list, the cluster page, the connector's page, and the list filtered by the name."""
    add_hostile_connector(api, name)
    filtered_list = url("connectors", q=name, sort=name, worker=name, type=name, state=name)
    return [
        page(api, path) for path in ("/ui/connectors", "/ui/cluster", url("connectors", name), filtered_list)
    ]


@pytest.fixture(scope="module")
def harmless_pages() -> list[ParsedPage]:
    return hostile_pages(Api(Settings(advertised_url="http://worker:8083/")), "shop.orders")


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_hostile_name_is_escaped(api: Api, harmless_pages: list[ParsedPage], name: str) -> None:
    for hostile_page, harmless_page in zip(hostile_pages(api, name), harmless_pages, strict=True):
        assert hostile_page.elements <= harmless_page.elements
        assert all(link.startswith(("/ui/", "#")) for link in hostile_page.links), hostile_page.links
        text = "".join(hostile_page.text)
        assert not set("\u202e\u2066\x00\x1b") & set(text)
        assert str(escape_invisible(name)) in text
    assert not [
        element
        for element in harmless_pages[0].elements
        if any(name.startswith(("on", "style")) for name in element)
    ]


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_link_refers_to_the_named_connector(api: Api, name: str) -> None:
    add_hostile_connector(api, name)
    links = [link for link in page(api, "/ui/connectors").links if link.startswith("/ui/connectors/")]
    assert links == [url("connectors", name)]
    assert str(escape_invisible(name)) in "".join(page(api, links[0]).text)


@pytest.mark.parametrize("name", [*HOSTILE_NAMES, "~", "~~x", "", "...", "%2e%2e"])
def test_names_cannot_traverse_url_paths(name: str) -> None:
    segments = urlsplit(url("connectors", name, "config")).path.split("/")
    assert segments[:3] == ["", "ui", "connectors"]
    assert len(segments) == 5
    assert segments[3].lower().replace("%2e", ".") not in (".", "..")


@pytest.mark.parametrize("name", [".", "..", "~", "~.", "~~", "plain", "a~"])
def test_escaped_path_segment_can_be_unescaped(name: str) -> None:
    segment = unquote(url("connectors", name).rpartition("/")[2])
    assert unescape_segment(segment) == name


def test_query_omits_empty_parameters() -> None:
    assert url("connectors", q="a&b=ü", page=None, state="") == "/ui/connectors?q=a%26b%3D%C3%BC"
    assert url() == "/ui/"


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_templates_have_no_inline_code_or_unescaped_text(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert "|safe" not in text.replace(" ", "")
    assert "autoescape" not in text
    assert not re.search(
        r"""\son\w+=["']|\sstyle=["']|<style|javascript:|hx-on|hx-vals|hx-vars|hx-headers|hx-ext""", text
    )
    assert not re.search(r"<script(?![^>]*\ssrc=)", text)
    assert not re.search(r'hx-trigger="[^"]*\[', text)
    assert not re.search(r"=\{\{", text), "attribute values must be quoted"


def test_undefined_template_variable_is_an_error() -> None:
    rendering = Rendering(str, {})
    with pytest.raises(UndefinedError):
        rendering.render("parts/error.html", {})


def test_entity_tags_depend_on_the_content() -> None:
    assert etag(b"a") != etag(b"b")
    assert etag(b"a") == etag(b"a")
    assert etag(b"a").startswith('W/"')


async def test_precompiled_pages_compile_no_templates(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled_names: list[str | None] = []
    compile_template = Environment.compile

    def record_compile(self: Environment, source: str, name: str | None, *arguments: object) -> object:
        compiled_names.append(name)
        return compile_template(self, source, name, *arguments)  # type: ignore[call-overload]

    monkeypatch.setattr(Environment, "compile", record_compile)
    monkeypatch.setattr(module, "_TEMPLATE_CACHE", None)  # without templates that other tests have compiled
    rendering = Rendering(str, {"shortcuts": (), "options": DashboardOptions(worker="w:1")})
    await rendering.compile_all(pause_s=0.0)
    names = sorted(str(path.relative_to(TEMPLATE_FOLDER)) for path in TEMPLATES)
    assert sorted(filter(None, compiled_names)) == names
    rendering.render("parts/help.html", {"features": {}})
    assert len(compiled_names) == len(names)
