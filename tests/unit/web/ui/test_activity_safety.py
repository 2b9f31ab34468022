"""Tests that activity pages escape hostile content and have no actions on a read-only dashboard."""

from __future__ import annotations

import re

import pytest

from tests.unit.web.ui.activity import FORM_HEADERS, NAME, PAGES, URL, canned_responses, get
from tests.unit.web.ui.canned import CannedSource, browser

HOSTILE_TEXT = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>\x1b[31m\u202e&amp;"
ACTIVE_MARKUP = re.compile(r"<(?:script|img)[^>]*(?:alert|onerror)|\x1b|\u202e")


@pytest.mark.parametrize("page", [*PAGES, "", "letters/replay", "topics/reset"])
def test_hostile_names_and_contents_are_escaped(page: str) -> None:
    name = "a/../<b>\u202e\"'"
    source = CannedSource(canned_responses(name, HOSTILE_TEXT))
    source.responses[f"POST /connectors/{name}/dead-letters/replay"] = {"written": {HOSTILE_TEXT: 3}}
    segment = "a%2F..%2F%3Cb%3E%E2%80%AE%22%27"
    text = get(f"/ui/connectors/{segment}{f'/{page}' if page else ''}", source)
    text = re.sub(r' (?:data-connector|value)="[^"<>]*"', "", text)  # input values are not modified
    assert ACTIVE_MARKUP.search(text) is None
    assert "<b>\\u202e" not in text
    assert f"/ui/connectors/{segment}" in text


def test_hostile_events_are_escaped() -> None:
    text = get("/ui/events", CannedSource(canned_responses("<b>\u202e", HOSTILE_TEXT)))
    assert ACTIVE_MARKUP.search(text) is None
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "\\x1b[31m" in text


@pytest.mark.parametrize("page", PAGES)
def test_read_only_dashboard_has_no_actions(page: str) -> None:
    text = get(f"{URL}/{page}", read_only=True)
    assert 'method="post"' not in text
    assert "/confirm?" not in text
    assert not re.search(r"/(?:replay|reset|level)\b", text)


@pytest.mark.parametrize("path", ["letters/replay", "topics/reset"])
def test_read_only_dashboard_rejects_confirmations_and_actions(path: str) -> None:
    source = CannedSource(canned_responses())
    client = browser(source, read_only=True)
    assert client.get(f"{URL}/{path}").status_code == 403
    assert client.post(f"{URL}/{path}", content="limit=1", headers=FORM_HEADERS).status_code == 403
    assert client.post(f"{URL}/logs/level", content="logger=a", headers=FORM_HEADERS).status_code == 403
    assert source.requests == []


@pytest.mark.parametrize("path", ["letters/replay", "topics/reset", "logs/level"])
def test_cross_site_actions_are_rejected(path: str) -> None:
    source = CannedSource(canned_responses())
    body = "limit=1&logger=org.acme&level=DEBUG&scope=worker"
    response = browser(source).post(
        f"{URL}/{path}", content=body, headers={**FORM_HEADERS, "Origin": "http://evil"}
    )
    assert response.status_code == 403
    assert source.requests == []


@pytest.mark.parametrize("page", PAGES)
def test_malformed_responses_cause_no_errors(page: str) -> None:
    source = CannedSource(
        {key: value if key.endswith("/status") else {"x": 7} for key, value in canned_responses().items()}
    )
    assert NAME in get(f"{URL}/{page}", source)
