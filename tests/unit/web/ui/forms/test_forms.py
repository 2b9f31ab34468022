"""Tests for creating, editing and comparing configs in a browser without scripts."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest

from tests.fakes.servers.connect_rest import HIDE_ME, Connector, FakeConnect, Problem
from tests.unit.web.ui.browser import Browser, RenderedPage
from web.ui.sources import sending

EDIT_PATH = "/ui/connectors/orders/edit"
CREATE_PATH = "/ui/create/org.example.FileSource"
STORED_CONFIG = {
    "name": "orders",
    "connector.class": "org.example.FileSource",
    "topic": "t",
    "phrase": HIDE_ME,
    "my.token": HIDE_ME,
    "url": f"pg://me:{HIDE_ME}@h/d",
    "extra": "x",
}


@pytest.fixture
def worker() -> FakeConnect:
    return FakeConnect({"orders": Connector(config=dict(STORED_CONFIG))})


@pytest.fixture
def browser(worker: FakeConnect) -> Browser:
    return Browser(worker)


def config_form(page: RenderedPage) -> Any:
    return page.form(action="/edit" if "/edit" in page.text and 'name="seal"' in page.text else "/ui/create")


def stored_config(browser: Browser) -> dict[str, str | None]:
    return browser.worker.connectors["orders"].config


def test_connector_plugins_have_a_create_form(browser: Browser) -> None:
    page = browser.get("/ui/create")
    assert f'href="{CREATE_PATH}"' in page.text
    assert "Cast$Value" not in page.text
    assert "FileSource" not in browser.get("/ui/create?q=sink").plain
    create_page = browser.get(CREATE_PATH)
    assert 'value="org.example.FileSource" readonly' in create_page.text
    assert create_page.form(action="/ui/create").method == "post"


def test_new_form_shows_documentation_and_no_errors(browser: Browser) -> None:
    page = browser.get(CREATE_PATH)
    assert page.status == 200
    assert "Maximum tasks." in page.plain
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page.text
    assert "Missing required" not in page.plain
    assert 'id="errors"' not in page.text


def test_errors_are_shown_at_their_fields(browser: Browser) -> None:
    page = browser.submit(
        browser.get(CREATE_PATH).form(action="/ui/create"), ("do", "save"), **{"tasks.max": "many"}
    )
    assert page.status == 422
    assert "3 problems" in page.plain
    assert page.plain.count("Invalid value many for configuration tasks.max: Not a number of type INT") == 2
    assert page.text.count('aria-invalid="true"') == 3
    assert ("v.tasks.max", "many") in page.form(action="/ui/create").fields
    assert browser.worker.requests == []


def test_validated_form_creates_the_connector(browser: Browser) -> None:
    form = browser.get(CREATE_PATH).form(action="/ui/create")
    fields = form.with_values(name="new", topic="t", tolerant="true", initial_state="STOPPED")
    checked_page = browser.post(form.action, *fields, ("do", "check"))
    assert "The worker found no errors." in checked_page.plain
    assert browser.worker.requests == []
    result_page = browser.post(form.action, *checked_page.form(action="/ui/create").fields, ("do", "save"))
    (request,) = browser.worker.requests
    config = {"connector.class": "org.example.FileSource", "name": "new", "topic": "t", "tolerant": "true"}
    assert request == ("POST", "/connectors", {"name": "new", "config": config, "initial_state": "STOPPED"})
    assert "new: created with initial state STOPPED (status 201)" in result_page.plain


def delay_reads(browser: Browser, count: int) -> None:
    """Make the worker return 404 for the first `count` requests for the status of connector `new`."""
    remaining_refusals = [count]

    def refuse(method: str, segments: list[str]) -> None:
        if method == "GET" and segments[1:] == ["new", "status"] and remaining_refusals[0] > 0:
            remaining_refusals[0] -= 1
            raise Problem(404, "No status found for connector new")

    browser.worker.on_request = refuse


def test_save_waits_until_the_worker_has_the_config(browser: Browser) -> None:
    form = browser.get(CREATE_PATH).form(action="/ui/create")
    delay_reads(browser, 2)
    save_response = browser.send(form.action, [*form.with_values(name="new", topic="t"), ("do", "save")])
    assert save_response.location.startswith("/ui/connectors/new?result=")
    assert browser.get(save_response.location).status == 200


def test_lagging_worker_does_not_fail_the_creation(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending.wait_until_applied, "__kwdefaults__", {"timeout_s": 0.0})
    form = browser.get(CREATE_PATH).form(action="/ui/create")
    delay_reads(browser, 99)
    result_page = browser.post(form.action, *form.with_values(name="new", topic="t"), ("do", "save"))
    assert result_page.status == 200
    assert "new: created with initial state RUNNING" in result_page.plain


def test_default_initial_state_is_omitted_from_the_request(browser: Browser) -> None:
    form = browser.get(CREATE_PATH).form(action="/ui/create")
    browser.post(form.action, *form.with_values(name="new", topic="t"), ("do", "save"))
    assert "initial_state" not in browser.worker.requests[0][2]


def test_duplicate_name_is_an_error_at_the_name_field(browser: Browser) -> None:
    form = browser.get(CREATE_PATH).form(action="/ui/create")
    page = browser.post(form.action, *form.with_values(name="orders", topic="t"), ("do", "save"))
    assert page.status == 409
    assert "name: Connector orders already exists" in page.plain
    assert stored_config(browser) == STORED_CONFIG


def test_error_without_a_field_is_shown_on_top(browser: Browser) -> None:
    browser.worker.problems = [Problem(500, f"Error writing {HIDE_ME}")]
    form = browser.get(CREATE_PATH).form(action="/ui/create")
    page = browser.post(form.action, *form.with_values(name="new", topic="t", phrase=HIDE_ME), ("do", "save"))
    assert page.status == 500
    assert "Error writing [hidden]" in page.plain


def test_unknown_class_is_reported_on_top_of_the_form(browser: Browser) -> None:
    page = browser.post("/ui/create", ("json", '{"connector.class": "Nope", "name": "x"}'))
    assert "Failed to find any class that implements Connector" in page.plain
    assert ("v.name", "x") in page.form(action="/ui/create").fields
    assert "Set connector.class" in browser.post("/ui/create", ("json", "{}")).plain


def test_pasted_config_fills_the_form(browser: Browser) -> None:
    body = json.dumps(
        {"name": "new", "config": {"connector.class": "org.example.FileSource", "topic": "t", "zzz": 1.50}}
    )
    page = browser.post("/ui/create", ("json", body))
    fields = page.form(action="/ui/create").fields
    assert {("v.name", "new"), ("v.topic", "t"), ("v.zzz", "1.5")} <= set(fields)
    result_page = browser.post("/ui/create/org.example.FileSource", *fields, ("do", "save"))
    assert "new: created with initial state RUNNING" in result_page.plain
    assert browser.worker.connectors["new"].config["zzz"] == "1.5"


def test_invalid_json_stays_in_the_form_with_an_error(browser: Browser) -> None:
    page = browser.post(CREATE_PATH, ("json", '{"a": "</textarea><script>'), ("do", "save"))
    assert page.status == 422
    assert "The JSON cannot be read" in page.plain
    assert "<script>" not in page.text.replace("<script src=", "")
    assert page.form(action="/ui/create").fields[0] == ("json", '{"a": "</textarea><script>')


def test_example_fills_the_form(browser: Browser) -> None:
    fields = dict(browser.get(f"{CREATE_PATH}?example=1").form(action="/ui/create").fields)
    assert (fields["v.topic"], fields["v.file"], fields["v.name"]) == ("my-topic", "<file>", "my-file-source")
    assert fields["v.phrase"] == ""


@pytest.mark.parametrize("path", [EDIT_PATH, "/ui/connectors/orders/config", "/ui/connectors/orders"])
def test_pages_hide_stored_secrets(browser: Browser, path: str) -> None:
    page = browser.get(path)
    assert page.status == 200
    assert HIDE_ME not in page.text


def test_both_views_hide_secrets_and_have_the_same_content(browser: Browser) -> None:
    form = config_form(browser.get(EDIT_PATH))
    json_page = browser.post(EDIT_PATH, *form.with_values(topic="u"), ("do", "json"))
    json_config = json.loads(dict(config_form(json_page).fields)["json"])
    assert json_config == {
        **STORED_CONFIG,
        "topic": "u",
        "phrase": "[hidden]",
        "my.token": "[hidden]",
        "url": "pg://me:[hidden]@h/d",
    }
    assert HIDE_ME not in json_page.text
    second_page = browser.post(EDIT_PATH, *config_form(json_page).fields, ("do", "form"))
    assert dict(config_form(second_page).fields)["v.topic"] == "u"
    assert browser.worker.requests == []


def test_first_save_shows_the_differences(browser: Browser) -> None:
    preview = browser.submit(
        config_form(browser.get(EDIT_PATH)),
        ("do", "save"),
        topic="u",
        phrase="neu",
    )
    assert preview.status == 200
    assert "Changes to save" in preview.plain
    assert "topic changed t u" in preview.plain
    assert "phrase changed secret [hidden] [hidden]" in preview.plain
    assert browser.worker.requests == []
    result_page = browser.post(EDIT_PATH, *config_form(preview).fields, ("do", "save"))
    assert stored_config(browser) == {**STORED_CONFIG, "topic": "u", "phrase": "neu"}
    assert "orders: saved (status 200)" in result_page.plain


def test_typed_secret_appears_only_in_its_input(browser: Browser) -> None:
    preview = browser.submit(config_form(browser.get(EDIT_PATH)), ("do", "save"), phrase="neues-Wort")
    assert preview.text.count("neues-Wort") == 1
    assert '<input type="password" id="f6" name="v.phrase" value="neues-Wort"' in preview.text


def test_changes_after_the_preview_require_another_preview(browser: Browser) -> None:
    preview = browser.submit(config_form(browser.get(EDIT_PATH)), ("do", "save"), topic="u")
    second_page = browser.submit(config_form(preview), ("do", "save"), topic="v")
    assert "topic changed t v" in second_page.plain
    assert browser.worker.requests == []


def test_keys_can_be_added_and_removed(browser: Browser) -> None:
    form = config_form(browser.get(EDIT_PATH))
    fields = [*form.fields, ("d.extra", "on"), ("new.key", "more"), ("new.value", "")]
    preview = browser.post(EDIT_PATH, *fields, ("do", "save"))
    assert "extra removed x not set" in preview.plain
    browser.post(EDIT_PATH, *config_form(preview).fields, ("do", "save"))
    assert stored_config(browser) == {
        **{key: value for key, value in STORED_CONFIG.items() if key != "extra"},
        "more": "",
    }


def test_placeholder_without_a_stored_secret_is_an_error_at_its_field(browser: Browser) -> None:
    page = browser.submit(config_form(browser.get(EDIT_PATH)), ("do", "save"), topic="[hidden]x")
    assert page.status == 422
    assert "topic: This value still contains [hidden]" in page.plain
    assert browser.worker.requests == []


def test_errors_do_not_reveal_secrets(browser: Browser) -> None:
    stored_config(browser)["phrase"] = f"bad {HIDE_ME}"
    page = browser.get(EDIT_PATH)
    assert "Invalid value [hidden] for configuration phrase" in page.plain
    assert HIDE_ME not in page.text


def test_conflicting_save_is_reported_without_a_write(browser: Browser) -> None:
    form = config_form(browser.get(EDIT_PATH))
    stored_config(browser)["topic"] = "from another tab"
    page = browser.submit(form, ("do", "save"), extra="mine")
    assert page.status == 409
    assert "The config has changed; nothing was saved" in page.plain
    assert "topic changed from another tab t" in page.plain
    assert "extra changed x mine" in page.plain
    assert browser.worker.requests == []
    preview = browser.post(EDIT_PATH, *config_form(page).fields, ("do", "save"))
    assert "Changes to save" in preview.plain
    browser.post(EDIT_PATH, *config_form(preview).fields, ("do", "save"))
    assert (stored_config(browser)["topic"], stored_config(browser)["extra"]) == ("t", "mine")


@pytest.mark.parametrize("key", ["phrase", "my.token"])
def test_change_of_a_secret_alone_is_detected(browser: Browser, key: str) -> None:
    form = config_form(browser.get(EDIT_PATH))
    stored_config(browser)[key] = "another"
    assert browser.submit(form, ("do", "save"), topic="u").status == 409


def test_form_is_accepted_by_another_worker_at_the_same_address(
    browser: Browser, worker: FakeConnect
) -> None:
    form = config_form(browser.get(EDIT_PATH))
    preview = Browser(worker).submit(form, ("do", "save"), topic="u")
    assert preview.status == 200
    Browser(worker).post(EDIT_PATH, *config_form(preview).fields, ("do", "save"))
    assert stored_config(browser) == {**STORED_CONFIG, "topic": "u"}


def test_connector_cannot_be_renamed(browser: Browser) -> None:
    json_config = json.dumps({**STORED_CONFIG, "name": "other"})
    page = browser.post(
        EDIT_PATH,
        ("json", json_config),
        ("seal", dict(config_form(browser.get(EDIT_PATH)).fields)["seal"]),
        ("do", "save"),
    )
    assert page.status == 422
    assert "A connector cannot be renamed" in page.plain


def test_rejected_save_is_reported_without_secrets(browser: Browser) -> None:
    preview = browser.submit(config_form(browser.get(EDIT_PATH)), ("do", "save"), topic="u")
    browser.worker.problems = [Problem(400, f"Connector configuration is invalid: {HIDE_ME}")]
    page = browser.post(EDIT_PATH, *config_form(preview).fields, ("do", "save"))
    assert page.status == 400
    assert "Connector configuration is invalid: [hidden]" in page.plain
    assert stored_config(browser) == STORED_CONFIG


def test_unavailable_worker_preserves_the_form(browser: Browser) -> None:
    preview = browser.submit(config_form(browser.get(EDIT_PATH)), ("do", "save"), topic="u")

    def drop_connection(method: str, segments: list[str]) -> None:
        if (method, segments[-1]) == ("PUT", "config"):
            raise httpx2.ReadError("gone")

    browser.worker.on_request = drop_connection
    page = browser.post(EDIT_PATH, *config_form(preview).fields, ("do", "save"))
    assert page.status == 502
    assert "The request may have taken effect" in page.plain
    assert ("v.topic", "u") in config_form(page).fields


def test_config_is_copied_without_secrets(browser: Browser) -> None:
    page = browser.get("/ui/connectors/orders/config")
    assert (
        "curl -sS -X PUT -H 'Content-Type: application/json' http://testserver/connectors/orders/config"
        in page.plain
    )
    assert '"${PHRASE:?}"' in page.plain
    assert "name: orders config: connector.class: org.example.FileSource" in page.plain
    assert "kraal apply" in page.plain


def test_previous_versions_are_compared_and_can_be_edited(browser: Browser) -> None:
    browser.worker.paths["/connectors/{connector}/configs"] = {}
    browser.worker.connectors["orders"].versions = [
        {
            "ms": 1_700_000_000_000,
            "by": "PUT from 10.0.0.7",
            "config": {**STORED_CONFIG, "phrase": "[hidden]", "my.token": "[hidden]"},
        },
        {
            "ms": 1_600_000_000_000,
            "by": "",
            "config": {"topic": "old", "phrase": "[hidden]"},
            "changed": ["topic", "phrase"],
        },
    ]
    page = browser.get("/ui/connectors/orders/config")
    assert "by PUT from 10.0.0.7" in page.plain
    assert "topic changed old t" in page.plain
    assert "phrase changed secret" in page.plain
    assert "was deleted" not in page.plain
    browser.worker.connectors["orders"].versions[1]["changed"] = []
    assert "The connector was deleted and created again." in browser.get("/ui/connectors/orders/config").plain
    form = config_form(browser.get(f"{EDIT_PATH}?version=1"))
    assert dict(form.fields)["v.topic"] == "old"
    preview = browser.post(
        EDIT_PATH, *form.fields, ("v.connector.class", "org.example.FileSource"), ("do", "save")
    )
    assert "topic changed t old" in preview.plain
    assert browser.get(f"{EDIT_PATH}?version=9").status == 404


@pytest.mark.parametrize(
    "key",
    ["<script>alert(1)</script>", 'a" autofocus onfocus="alert(1)', "a\r\nb", "\u202ek", "v.x", "ü ?&=%2F"],
)
def test_hostile_keys_and_values_are_escaped_and_preserved(key: str) -> None:
    config = {**STORED_CONFIG, key: f"{key}</textarea><script>alert(2)</script>", "more": key}
    worker = FakeConnect({"orders": Connector(config=dict(config))})
    browser = Browser(worker)
    page = browser.get(EDIT_PATH)
    assert "<script>alert" not in page.text
    assert 'onfocus="alert' not in page.text
    preview = browser.submit(config_form(page), ("do", "save"), topic="u")
    assert "<script>alert" not in preview.text
    browser.post(EDIT_PATH, *config_form(preview).fields, ("do", "save"))
    assert worker.connectors["orders"].config == {**config, "topic": "u"}
    assert "<script>alert" not in browser.get("/ui/connectors/orders/config").text


def test_large_plugin_opens_only_relevant_groups(browser: Browser) -> None:
    browser.worker.keys += [
        (f"debezium.key{n}", "STRING", False, "d", "LOW", f"Group {n % 5}", "Doc") for n in range(200)
    ]
    stored_config(browser)["debezium.key3"] = "set"
    page = browser.get(EDIT_PATH)
    assert page.text.count('<details class="group">') == 5
    assert "Group 3 40 keys, 1 set" in page.plain
    assert 'data-filter="config-form"' in page.text
    assert "Checking; this may take up to 90 s" in page.text


def test_line_breaks_can_be_edited_in_json(browser: Browser) -> None:
    browser.worker.connectors["orders"].config["extra"] = "a\r\nb"
    seal = dict(config_form(browser.get(EDIT_PATH)).fields)["seal"]
    typed_json = json.dumps({**stored_config(browser), "extra": "a\nb"})
    page = browser.send(EDIT_PATH, [("seal", seal), ("do", "save"), ("json", typed_json)])
    assert 'id="changes"' in page.text
    assert "No changes." not in page.plain
