"""Tests for typed and pasted initial offsets of a new connector, in a browser without scripts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.fakes.servers.connect_rest import FakeConnect, Problem
from tests.unit.web.ui.browser import Browser, RenderedPage

SOURCE = "org.example.FileSource"
CREATE = f"/ui/create/{SOURCE}"
SINK = "/ui/create/org.example.FileSink"
KRAAL: dict[str, Any] = {"/health": {}}
"""Minimal OpenAPI document, which only Kraal workers serve."""
ENTRY = {"partition": {"file": "ä"}, "offset": {"position": 12345678901234567890}}


@pytest.fixture
def browser() -> Browser:
    return Browser(FakeConnect(paths=dict(KRAAL)))


def form_fields(page: RenderedPage, *rows: tuple[str, str]) -> list[tuple[str, str]]:
    """Return the fields of a create form with a valid config and these rows of offsets."""
    fields = page.form(action="/ui/create").with_values(name="new", topic="t")
    remaining = [(name, value) for name, value in fields if not name.startswith("at.")]
    typed = [(("at.partition", partition), ("at.offset", offset)) for partition, offset in rows]
    return [*remaining, *(field for row in typed for field in row)]


def body(**more: Any) -> str:
    config = {"connector.class": SOURCE, "topic": "t"}
    return json.dumps({"name": "new", "config": config, **more})


def test_connector_is_created_with_initial_offsets(browser: Browser) -> None:
    rows = [(json.dumps(ENTRY["partition"]), json.dumps(ENTRY["offset"])), ("", "")]
    checked = browser.post(CREATE, *form_fields(browser.get(CREATE), *rows), ("do", "check"))
    assert "The worker found no errors." in checked.plain
    assert "Initial offsets 1 set" in checked.plain
    assert "initial_offsets: - partition:" in checked.plain
    assert '"position": 12345678901234567890' in checked.plain
    fields = [*checked.form(action="/ui/create").fields, ("do", "save")]
    result_page = browser.post(CREATE, *fields)
    ((method, path, sent),) = browser.worker.requests
    assert (method, path, sent["initial_offsets"]) == ("POST", "/connectors", [ENTRY])
    assert "The offsets are set." in result_page.plain
    assert browser.worker.connectors["new"].offsets == [ENTRY]


def test_form_without_offsets_sends_no_initial_offsets(browser: Browser) -> None:
    browser.post(CREATE, *form_fields(browser.get(CREATE), ("", " ")), ("do", "save"))
    ((_, _, sent),) = browser.worker.requests
    assert sent.keys() == {"name", "config"}


@pytest.mark.parametrize(
    ("path", "row", "field", "message"),
    [
        (
            CREATE,
            ("x", '{"position": 1}'),
            "at1-partition",
            "The partition must be a JSON object: Expecting value",
        ),
        (CREATE, ('{"a": 1}', ""), "at1-offset", "The offset must be a JSON object: Expecting value"),
        (CREATE, ('{"a": 1}', "null"), "at1-offset", "The offset must be a JSON object."),
        (CREATE, ('{"a": 1, "a": 2}', "{}"), "at1-partition", "duplicate key"),
        (SINK, ('{"a": 1}', '{"kafka_offset": 1}'), "at1-partition", "The partition must look like"),
        (SINK, ('{"kafka_topic": "t", "kafka_partition": 0}', '{"position": 1}'), "at1-offset", "look like"),
    ],
)
def test_invalid_offset_is_an_error_at_its_field_without_a_request(
    browser: Browser, path: str, row: tuple[str, str], field: str, message: str
) -> None:
    page = browser.post(path, *form_fields(browser.get(path), row), ("do", "save"))
    assert page.status == 422
    error_html = page.text.partition(f'id="{field}-wrong">')[2].partition("</p>")[0]
    assert message in RenderedPage(200, error_html).plain
    assert f'aria-invalid="true" aria-describedby="{field}-wrong"' in page.text
    assert page.text.count('aria-invalid="true"') == 1
    assert "1 problem" in page.plain
    assert ("at.partition", row[0]) in page.form(action="/ui/create").fields
    assert browser.worker.requests == []


def test_duplicate_partition_is_an_error_at_its_second_row(browser: Browser) -> None:
    rows = [('{"a": 1, "b": 2}', '{"p": 1}'), ('{"b": 2, "a": 1}', '{"p": 1}')]
    page = browser.post(CREATE, *form_fields(browser.get(CREATE), *rows), ("do", "save"))
    assert 'id="at2-partition-wrong">Duplicate partition.' in page.text
    assert 'id="at1-partition-wrong"' not in page.text


@pytest.mark.parametrize(
    ("text", "element_id"),
    [
        ("A value in initial_offsets[0] is nested too deeply", "at1-offset-wrong"),
        (
            "Field partition of initial_offsets[0] must be a JSON object, but is a string",
            "at1-partition-wrong",
        ),
        ("The connector does not support these offsets", "start-problem"),
        ("Tasks are too many", ""),
    ],
)
def test_offset_errors_of_the_worker_are_shown_next_to_the_offsets(
    browser: Browser, text: str, element_id: str
) -> None:
    browser.worker.problems = [Problem(400, text)]
    page = browser.post(CREATE, *form_fields(browser.get(CREATE), ('{"a": 1}', '{"p": 1}')), ("do", "save"))
    assert page.status == 400
    assert text in page.plain
    assert (f'id="{element_id}">{text}' in page.text) is bool(element_id)
    assert ("at.offset", '{"p": 1}') in page.form(action="/ui/create").fields


def test_adding_rows_preserves_the_input(browser: Browser) -> None:
    page = browser.post(CREATE, *form_fields(browser.get(CREATE), ('{"a": 1}', '{"p": 1}')), ("do", "more"))
    assert page.text.count('name="at.partition"') == 9
    assert ("at.partition", '{"a": 1}') in page.form(action="/ui/create").fields


def test_pasted_request_keeps_its_state_and_offsets(browser: Browser) -> None:
    pasted = body(initial_state="stopped", initial_offsets=[ENTRY])
    page = browser.post("/ui/create", ("json", pasted))
    assert ("initial_state", "STOPPED") in page.form(action="/ui/create").fields
    result_page = browser.post(CREATE, *page.form(action="/ui/create").fields, ("do", "save"))
    assert result_page.status == 200
    ((_, _, sent),) = browser.worker.requests
    assert (sent["initial_state"], sent["initial_offsets"]) == ("STOPPED", [ENTRY])


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"initial_offsets": {}}, "initial_offsets must be a list of objects with partition and offset."),
        ({"initial_offsets": [{"lag": 1}]}, "initial_offsets must be a list of objects"),
        ({"initial_state": "WAITING"}, "initial_state must be one of RUNNING, PAUSED, STOPPED."),
    ],
)
def test_invalid_pasted_request_is_reported_and_preserved(
    browser: Browser, more: dict[str, Any], message: str
) -> None:
    page = browser.post("/ui/create", ("json", body(**more)))
    assert message in page.plain
    assert ("json", body(**more)) in page.form(action="/ui/create").fields


def test_java_workers_receive_no_offset_requests() -> None:
    browser = Browser(FakeConnect())
    page = browser.get(CREATE)
    assert page.status == 200
    assert "Initial offsets" not in page.plain
    browser.post(CREATE, *form_fields(page, ('{"a": 1}', '{"p": 1}')), ("do", "save"))
    ((_, _, sent),) = browser.worker.requests
    assert "initial_offsets" not in sent
    pasted = browser.post("/ui/create", ("json", body(initial_offsets=[ENTRY])))
    assert "Only Kraal workers support initial_offsets." in pasted.plain


def test_existing_connector_rejects_initial_offsets(browser: Browser) -> None:
    browser.post("/ui/create", *form_fields(browser.get(CREATE)))
    browser.post(CREATE, *form_fields(browser.get(CREATE)), ("do", "save"))
    page = browser.get("/ui/connectors/new/edit")
    assert "Initial offsets" not in page.plain
    seal = dict(page.form(action="/edit").fields)["seal"]
    browser.worker.requests.clear()
    sent = browser.send(
        "/ui/connectors/new/edit", [("seal", seal), ("json", body(initial_offsets=[ENTRY])), ("do", "save")]
    )
    assert (sent.status, "apply only when a connector is created" in sent.plain) == (422, True)
    assert browser.worker.requests == []
