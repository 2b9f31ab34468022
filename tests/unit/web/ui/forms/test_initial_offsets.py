"""Tests for typed and pasted initial offsets of a new connector, in a browser without scripts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.fakes.servers.connect_rest import FakeConnect, Problem
from tests.unit.web.ui.browser import Browser, RenderedPage

SOURCE_CLASS = "org.example.FileSource"
CREATE_PATH = f"/ui/create/{SOURCE_CLASS}"
CREATE_SINK_PATH = "/ui/create/org.example.FileSink"
KRAAL_PATHS: dict[str, Any] = {"/health": {}}
"""Paths of a minimal OpenAPI document; only Kraal workers serve a document."""
ENTRY = {"partition": {"file": "ä"}, "offset": {"position": 12345678901234567890}}


@pytest.fixture
def browser() -> Browser:
    return Browser(FakeConnect(paths=dict(KRAAL_PATHS)))


def form_fields(page: RenderedPage, *rows: tuple[str, str]) -> list[tuple[str, str]]:
    """Return the fields of a create form with a valid config and these rows of offsets."""
    fields = page.form(action="/ui/create").with_values(name="new", topic="t")
    config_fields = [(name, value) for name, value in fields if not name.startswith("at.")]
    offset_fields = [(("at.partition", partition), ("at.offset", offset)) for partition, offset in rows]
    return [*config_fields, *(field for row in offset_fields for field in row)]


def body(**extra_fields: Any) -> str:
    config = {"connector.class": SOURCE_CLASS, "topic": "t"}
    return json.dumps({"name": "new", "config": config, **extra_fields})


def test_connector_is_created_with_initial_offsets(browser: Browser) -> None:
    rows = [(json.dumps(ENTRY["partition"]), json.dumps(ENTRY["offset"])), ("", "")]
    checked_page = browser.post(CREATE_PATH, *form_fields(browser.get(CREATE_PATH), *rows), ("do", "check"))
    assert "The worker found no errors." in checked_page.plain
    assert "Initial offsets 1 set" in checked_page.plain
    assert "initial_offsets: - partition:" in checked_page.plain
    assert '"position": 12345678901234567890' in checked_page.plain
    fields = [*checked_page.form(action="/ui/create").fields, ("do", "save")]
    result_page = browser.post(CREATE_PATH, *fields)
    ((method, path, request_body),) = browser.worker.requests
    assert (method, path, request_body["initial_offsets"]) == ("POST", "/connectors", [ENTRY])
    assert "The offsets are set." in result_page.plain
    assert browser.worker.connectors["new"].offsets == [ENTRY]


def test_form_without_offsets_sends_no_initial_offsets(browser: Browser) -> None:
    browser.post(CREATE_PATH, *form_fields(browser.get(CREATE_PATH), ("", " ")), ("do", "save"))
    ((_, _, request_body),) = browser.worker.requests
    assert request_body.keys() == {"name", "config"}


@pytest.mark.parametrize(
    ("path", "row", "field", "message"),
    [
        (
            CREATE_PATH,
            ("x", '{"position": 1}'),
            "at1-partition",
            "The partition must be a JSON object: Expecting value",
        ),
        (CREATE_PATH, ('{"a": 1}', ""), "at1-offset", "The offset must be a JSON object: Expecting value"),
        (CREATE_PATH, ('{"a": 1}', "null"), "at1-offset", "The offset must be a JSON object."),
        (CREATE_PATH, ('{"a": 1, "a": 2}', "{}"), "at1-partition", "duplicate key"),
        (
            CREATE_SINK_PATH,
            ('{"a": 1}', '{"kafka_offset": 1}'),
            "at1-partition",
            "The partition must look like",
        ),
        (
            CREATE_SINK_PATH,
            ('{"kafka_topic": "t", "kafka_partition": 0}', '{"position": 1}'),
            "at1-offset",
            "look like",
        ),
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
    page = browser.post(CREATE_PATH, *form_fields(browser.get(CREATE_PATH), *rows), ("do", "save"))
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
    page = browser.post(
        CREATE_PATH, *form_fields(browser.get(CREATE_PATH), ('{"a": 1}', '{"p": 1}')), ("do", "save")
    )
    assert page.status == 400
    assert text in page.plain
    assert (f'id="{element_id}">{text}' in page.text) is bool(element_id)
    assert ("at.offset", '{"p": 1}') in page.form(action="/ui/create").fields


def test_adding_rows_preserves_the_input(browser: Browser) -> None:
    page = browser.post(
        CREATE_PATH, *form_fields(browser.get(CREATE_PATH), ('{"a": 1}', '{"p": 1}')), ("do", "more")
    )
    assert page.text.count('name="at.partition"') == 9
    assert ("at.partition", '{"a": 1}') in page.form(action="/ui/create").fields


def test_pasted_request_keeps_its_state_and_offsets(browser: Browser) -> None:
    pasted_request = body(initial_state="stopped", initial_offsets=[ENTRY])
    page = browser.post("/ui/create", ("json", pasted_request))
    assert ("initial_state", "STOPPED") in page.form(action="/ui/create").fields
    result_page = browser.post(CREATE_PATH, *page.form(action="/ui/create").fields, ("do", "save"))
    assert result_page.status == 200
    ((_, _, request_body),) = browser.worker.requests
    assert (request_body["initial_state"], request_body["initial_offsets"]) == ("STOPPED", [ENTRY])


@pytest.mark.parametrize(
    ("extra_fields", "message"),
    [
        ({"initial_offsets": {}}, "initial_offsets must be a list of objects with partition and offset."),
        ({"initial_offsets": [{"lag": 1}]}, "initial_offsets must be a list of objects"),
        ({"initial_state": "WAITING"}, "initial_state must be one of RUNNING, PAUSED, STOPPED."),
    ],
)
def test_invalid_pasted_request_is_reported_and_preserved(
    browser: Browser, extra_fields: dict[str, Any], message: str
) -> None:
    page = browser.post("/ui/create", ("json", body(**extra_fields)))
    assert message in page.plain
    assert ("json", body(**extra_fields)) in page.form(action="/ui/create").fields


def test_java_workers_receive_no_initial_offsets() -> None:
    browser = Browser(FakeConnect())
    page = browser.get(CREATE_PATH)
    assert page.status == 200
    assert "Initial offsets" not in page.plain
    browser.post(CREATE_PATH, *form_fields(page, ('{"a": 1}', '{"p": 1}')), ("do", "save"))
    ((_, _, request_body),) = browser.worker.requests
    assert "initial_offsets" not in request_body
    pasted_page = browser.post("/ui/create", ("json", body(initial_offsets=[ENTRY])))
    assert "Only Kraal workers support initial_offsets." in pasted_page.plain


def test_existing_connector_rejects_initial_offsets(browser: Browser) -> None:
    browser.post("/ui/create", *form_fields(browser.get(CREATE_PATH)))
    browser.post(CREATE_PATH, *form_fields(browser.get(CREATE_PATH)), ("do", "save"))
    page = browser.get("/ui/connectors/new/edit")
    assert "Initial offsets" not in page.plain
    seal = dict(page.form(action="/edit").fields)["seal"]
    browser.worker.requests.clear()
    response = browser.send(
        "/ui/connectors/new/edit", [("seal", seal), ("json", body(initial_offsets=[ENTRY])), ("do", "save")]
    )
    assert (response.status, "apply only when a connector is created" in response.plain) == (422, True)
    assert browser.worker.requests == []
