"""Simulated browser, with scripts disabled, for the dashboard of a fake worker."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import unescape
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlencode

import httpx2
from typing_extensions import override

from tests.fakes.servers.connect_rest import FakeConnect
from tests.fakes.web_client import WebClient
from web.ui.app import DashboardApp, standalone
from web.ui.options import DashboardOptions
from web.ui.sources.remote import RemoteSource, RemoteTarget

FORM_HEADERS = {"Origin": "http://testserver", "Content-Type": "application/x-www-form-urlencoded"}


@dataclass
class Form:
    """Form of a page, with the fields that it would submit."""

    method: str
    action: str
    fields: list[tuple[str, str]]

    def with_values(self, **values: str) -> list[tuple[str, str]]:
        """Return the fields with new values; `values` maps field names or config keys to these values."""
        return [(name, values.get(name.removeprefix("v."), value)) for name, value in self.fields]


@dataclass
class RenderedPage:
    """Response of the dashboard: status, HTML, and the target of a redirect."""

    status: int
    text: str
    location: str = ""

    @property
    def plain(self) -> str:
        """Text of the page without markup, on one line."""
        text = re.sub(r"</?(?:strong|code|span|a|b)\b[^>]*>", "", self.text)
        return " ".join(unescape(re.sub(r"<[^>]*>", " ", text)).split())

    def form(self, number: int = 0, *, action: str = "") -> Form:
        """Return the form with the index `number` among the forms whose action contains `action`."""
        parser = _FormParser()
        parser.feed(self.text)
        return [form for form in parser.forms if action in form.action][number]


class _FormParser(HTMLParser):
    """Parser of forms: inputs, selects, text areas and checked checkboxes, but no buttons."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.forms: list[Form] = []
        self._area_name: str | None = None
        self._text = ""
        self._select: list[str] = []
        self._is_option_selected = False

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {key: value or "" for key, value in attrs}
        if tag == "form":
            self.forms.append(Form(attributes.get("method", "get"), attributes.get("action", ""), []))
        elif tag == "input" and "name" in attributes and "form" not in attributes:
            if attributes.get("type") != "checkbox" or "checked" in attributes:
                self.forms[-1].fields.append(
                    (attributes["name"], attributes.get("value", "on" if "checked" in attributes else ""))
                )
        elif tag == "textarea":
            self._area_name, self._text = attributes.get("name"), ""
        elif tag == "select":
            self._select = [attributes.get("name", ""), ""]
        elif tag == "option" and self._select:
            self._is_option_selected, self._text = "selected" in attributes, ""
            if self._is_option_selected and "value" in attributes:
                self._select[1], self._is_option_selected = attributes["value"], False

    @override
    def handle_data(self, data: str) -> None:
        self._text += data

    @override
    def handle_endtag(self, tag: str) -> None:
        if tag == "textarea" and self._area_name is not None:
            self.forms[-1].fields.append((self._area_name, self._text.removeprefix("\n")))
            self._area_name = None
        elif tag == "option" and self._is_option_selected:
            self._select[1], self._is_option_selected = self._text, False
        elif tag == "select" and self._select:
            self.forms[-1].fields.append((self._select[0], self._select[1]))
            self._select = []


class Browser:
    """Browser that shows the dashboard of a fake worker; only `post` and `submit` follow redirects."""

    def __init__(self, worker: FakeConnect, **options: Any) -> None:
        source = RemoteSource(
            RemoteTarget(url="http://worker:8083", retry_s=0.0), transport=httpx2.ASGITransport(app=worker)
        )
        app = DashboardApp(source, DashboardOptions(worker="worker:8083", **options))
        self.worker = worker
        self.client = WebClient(standalone(app), follow_redirects=False)

    def get(self, path: str) -> RenderedPage:
        """GET a page."""
        response = self.client.get(path)
        return RenderedPage(response.status_code, response.text)

    def send(self, path: str, fields: list[tuple[str, str]]) -> RenderedPage:
        """POST a form without following redirects."""
        response = self.client.post(path, content=urlencode(fields), headers=FORM_HEADERS)
        return RenderedPage(response.status_code, response.text, response.headers.get("location", ""))

    def post(self, path: str, *fields: tuple[str, str]) -> RenderedPage:
        """POST a form and follow the redirect."""
        page = self.send(path, list(fields))
        return self.get(page.location) if page.location else page

    def submit(self, form: Form, *extra_fields: tuple[str, str], **values: str) -> RenderedPage:
        """Fill in and submit a form of a page, and follow the redirect."""
        return self.post(form.action, *form.with_values(**values), *extra_fields)
