"""Tests that no request causes an internal error of the dashboard."""

from __future__ import annotations

from html import unescape
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_from_bytes

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes.servers.connect_rest import Connector, FakeConnect
from tests.unit.web.api import Api
from tests.unit.web.ui.browser import Browser
from web.settings import Settings
from web.ui.pages import PAGES
from web.ui.safety import FORM

if TYPE_CHECKING:
    from starlette.types import Message

API = Api(Settings(advertised_url="http://worker:8083/"))
API.herder.put("orders", {"connector.class": "x", "topics": "t"}, tasks=1)

SEGMENTS = st.one_of(
    st.sampled_from(
        [b"orders", b"0", b"..", b".", b"%2e%2e", b"~.", b"%zz", b"%ff", b"%", b"%00", b"9" * 30, b"-1"]
    ),
    st.binary(max_size=12).map(lambda raw: quote_from_bytes(raw, safe="").encode()),
)
TEXTS = st.one_of(
    st.sampled_from(["orders", "0", "-1", "1e9", "nan", "true", "list", "{}", "[1]", "null"]),
    st.sampled_from(["", "9" * 30, "\x00", "\ud800"]),
    st.text(max_size=12),
)
NAMES = st.one_of(
    st.sampled_from(
        [
            "part",
            "page",
            "sort",
            "state",
            "type",
            "q",
            "worker",
            "action",
            "name",
            "level",
            "task",
            "limit",
            "after",
            "back",
            "result",
            "plugin",
            "version",
            "seen",
            "json",
            "mode",
            "since_ms",
            "v.name",
            "v.tasks.max",
            "text",
            "config",
            "e.0",
        ]
    ),
    st.text(max_size=6),
)
PAIRS = st.lists(st.tuples(NAMES, TEXTS), max_size=5)


def encode_form(pairs: list[tuple[str, str]]) -> bytes:
    return b"&".join(
        quote_from_bytes(key.encode("utf-8", "surrogatepass")).encode()
        + b"="
        + quote_from_bytes(value.encode("utf-8", "surrogatepass")).encode()
        for key, value in pairs
    )


@st.composite
def targets(draw: Any) -> tuple[str, bytes]:
    """Draw the method and raw path of a page, with arbitrary segments."""
    page = draw(st.sampled_from(PAGES))
    parts = page.path.split("/")
    segments = [draw(SEGMENTS) if part.startswith("{") else part.encode() for part in parts]
    return page.method, b"/ui" + b"/".join(segments)


async def request(method: str, raw_path: bytes, query: bytes, body: bytes) -> tuple[int, bytes]:
    """Send a request as a page of the dashboard does; return the status and body of the response."""
    sent_messages: list[Message] = []
    headers = [
        (b"host", b"w"),
        (b"origin", b"http://w"),
        (b"content-type", FORM.encode()),
        (b"accept", b"text/html"),
    ]

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Message) -> None:
        sent_messages.append(message)

    scope: dict[str, Any] = {"type": "http", "scheme": "http", "http_version": "1.1", "method": method}
    scope |= {
        "path": raw_path.decode("latin-1"),
        "raw_path": raw_path,
        "query_string": query,
        "headers": headers,
    }
    scope |= {"client": ("127.0.0.1", 1), "server": ("w", 80)}
    await API.app(scope, receive, send)
    return sent_messages[0]["status"], b"".join(message.get("body", b"") for message in sent_messages[1:])


@settings(max_examples=300)
@given(targets(), PAIRS, st.one_of(PAIRS.map(encode_form), st.binary(max_size=30)))
async def test_no_request_causes_an_internal_error(
    target: tuple[str, bytes], query: list[tuple[str, str]], body: bytes
) -> None:
    method, raw_path = target
    status, text = await request(method, raw_path, encode_form(query), body if method == "POST" else b"")
    assert status < 500, text.decode("utf-8", "replace")
    assert b"The dashboard failed" not in text


def test_unpaired_surrogate_in_a_stored_config_is_preserved() -> None:
    """Java workers may return unpaired surrogates; Kraal workers replace them with `?`."""
    stored_config = {
        "name": "orders",
        "connector.class": "org.example.FileSource",
        "topic": "t",
        "odd \ud800": "\udfff",
    }
    worker = FakeConnect({"orders": Connector(config=dict(stored_config))})
    browser = Browser(worker)
    page = browser.get("/ui/connectors/orders/edit")
    assert page.status == 200
    form = page.form(action="/edit")
    json_page = browser.submit(form, ("do", "json"))
    assert r'"odd \ud800": ' in unescape(json_page.text)
    preview = browser.submit(form, ("do", "save"), topic="u")
    browser.submit(preview.form(action="/edit"), ("do", "save"))
    assert worker.connectors["orders"].config == {**stored_config, "topic": "u"}
    assert browser.get("/ui/connectors/orders/config").status == 200
