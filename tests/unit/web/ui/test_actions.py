"""Tests for actions on connectors, confirmed and performed in a browser without scripts."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, urlencode

import pytest

from tests.fakes.servers.connect_rest import Connector, FakeConnect, Problem
from tests.unit.web.ui.browser import Browser, RenderedPage
from web.ui.sources import sending

REBALANCE_ERROR = (
    "Cannot complete request momentarily due to no known leader URL, likely because a rebalance was underway."
)


@pytest.fixture
def worker() -> FakeConnect:
    return FakeConnect(
        {
            "orders": Connector(
                config={"connector.class": "org.example.FileSource"}, tasks=["RUNNING", "FAILED"]
            ),
            "lines": Connector(config={"connector.class": "org.example.FileSink"}, type="sink"),
        }
    )


@pytest.fixture
def browser(worker: FakeConnect) -> Browser:
    return Browser(worker)


@pytest.mark.parametrize(
    ("action", "expected_request", "result"),
    [
        ("pause", "PUT /connectors/orders/pause", "will pause (status 202)"),
        ("stop", "PUT /connectors/orders/stop", "will stop (status 204)"),
        (
            "restart",
            "POST /connectors/orders/restart?includeTasks=true&onlyFailed=false",
            "restarting the connector and tasks 0 and 1 (status 202)",
        ),
        (
            "restart-failed",
            "POST /connectors/orders/restart?includeTasks=true&onlyFailed=true",
            "restarting task 1 (status 202)",
        ),
        (
            "restart-connector",
            "POST /connectors/orders/restart?includeTasks=false&onlyFailed=false",
            "restarted (status 204)",
        ),
    ],
)
def test_action_is_confirmed_sent_and_reported(
    browser: Browser, action: str, expected_request: str, result: str
) -> None:
    page = browser.get("/ui/connectors/orders")
    assert f"/ui/confirm?action={action}&amp;name=orders" in page.text
    confirmation = browser.get(f"/ui/confirm?action={action}&name=orders")
    assert browser.worker.requests == []
    result_page = browser.submit(confirmation.form(action="/ui/actions"))
    assert [f"{method} {path}" for method, path, _ in browser.worker.requests] == [expected_request]
    assert result in result_page.plain
    assert result_page.status == 200


def test_confirmation_shows_effects_and_curl_command(browser: Browser) -> None:
    confirmation = browser.get("/ui/confirm?action=stop&name=orders")
    assert "Stop orders? Its 2 tasks end; its config and offsets stay." in confirmation.plain
    assert "curl -sS -X PUT http://testserver/connectors/orders/stop" in confirmation.plain
    dialog = browser.get("/ui/confirm?action=stop&name=orders&part=dialog")
    assert "<html" not in dialog.text
    assert dialog.text.strip() in confirmation.text


def test_confirmed_deletion_is_reported(browser: Browser) -> None:
    confirmation = browser.get("/ui/confirm?action=delete&name=orders")
    assert "Its offsets stay: a new connector of the same name continues from them." in confirmation.plain
    result_page = browser.submit(confirmation.form(action="/ui/actions"))
    assert "orders: deleted (status 204)" in result_page.plain
    assert list(browser.worker.connectors) == ["lines"]


def test_task_can_be_restarted(browser: Browser) -> None:
    assert (
        "/ui/confirm?action=restart-task&amp;name=orders&amp;task=1"
        in browser.get("/ui/connectors/orders").text
    )
    confirmation = browser.get("/ui/confirm?action=restart-task&name=orders&task=1")
    assert "Restart task 1 of orders?" in confirmation.plain
    result_page = browser.submit(confirmation.form(action="/ui/actions"))
    assert browser.worker.requests == [("POST", "/connectors/orders/tasks/1/restart", None)]
    assert "orders, task 1: restarted" in result_page.plain


def test_resume_needs_no_confirmation(browser: Browser) -> None:
    browser.worker.connectors["orders"].state = "PAUSED"
    form = browser.get("/ui/connectors/orders").form(action="/ui/actions")
    result_page = browser.submit(form)
    assert browser.worker.requests == [("PUT", "/connectors/orders/resume", None)]
    assert "will resume" in result_page.plain


def test_bulk_action_reports_each_result(browser: Browser) -> None:
    page = browser.get("/ui/connectors?state=running&sort=name")
    assert 'name="name" value="lines"' in page.text
    confirmation = browser.get(
        "/ui/confirm?action=stop&name=orders&name=lines&back=state%3Drunning%26evil%3Dx"
    )
    assert "Stop 2 connectors (orders and lines)? Their 3 tasks end" in confirmation.plain
    browser.worker.problems = [Problem(500, "Error writing target state to Kafka")]
    post_response = browser.send("/ui/actions", confirmation.form(action="/ui/actions").fields)
    assert post_response.status == 303
    assert post_response.location.startswith("/ui/connectors?result=")
    assert post_response.location.endswith("&state=running")
    result_page = browser.get(post_response.location)
    assert "Stop: 1 done, 1 failed" in result_page.plain
    assert "rejected with 500: Error writing target state to Kafka" in result_page.plain
    assert "will stop (status 204)" in result_page.plain
    assert {connector.state for connector in browser.worker.connectors.values()} == {"RUNNING", "STOPPED"}


def test_bulk_deletion_requires_typing_the_connector_count(browser: Browser) -> None:
    names = [f"c{number}" for number in range(12)]
    browser.worker.connectors.update({name: Connector(config={}) for name in names})
    confirmation = browser.get("/ui/confirm?action=delete&" + "&".join(f"name={name}" for name in names))
    form = confirmation.form(action="/ui/actions")
    assert ("typed", "") in form.fields
    rejected_page = browser.post(form.action, *form.fields)
    assert rejected_page.status == 400
    assert "type the number of connectors (12)" in rejected_page.plain
    assert browser.worker.requests == []
    typed_fields = [(key, " 12 " if key == "typed" else value) for key, value in form.fields]
    assert "Delete: 12 done" in browser.post(form.action, *typed_fields).plain


@pytest.fixture
def two_page_browser(browser: Browser) -> Browser:
    """Return a browser of a worker with 62 connectors: `orders`, `lines`, and 60 sources named `copy-NN`."""
    config: dict[str, str | None] = {"connector.class": "org.example.FileSource"}
    browser.worker.connectors.update({f"copy-{number:02d}": Connector(config=config) for number in range(60)})
    return browser


def confirm_all_matching(browser: Browser, action: str, query: str) -> RenderedPage:
    return browser.get(f"/ui/confirm?{urlencode({'action': action, 'matching': query, 'back': query})}")


def test_all_matching_connectors_are_offered_beyond_one_page(two_page_browser: Browser) -> None:
    page = two_page_browser.get("/ui/connectors?q=copy-&type=source")
    assert "Select all 60 connectors that match" in page.plain
    assert 'name="matching" value="type=source&amp;q=copy-"' in page.text
    assert 'name="matching" value="state="' in two_page_browser.get("/ui/connectors").text
    assert "that match" not in two_page_browser.get("/ui/connectors?q=copy-0").plain


def test_action_on_all_matching_connectors_covers_all_pages(two_page_browser: Browser) -> None:
    confirmation = confirm_all_matching(two_page_browser, "stop", "q=copy-&type=source&page=2")
    first_names = ", ".join(f"copy-{number:02d}" for number in range(10))
    assert f"Stop 60 connectors ({first_names} and 50 more)?" in confirmation.plain
    assert "all connectors of type source, with a name or class that contains “copy-”." in confirmation.plain
    assert "These are the first 50 of 60 requests." in confirmation.plain
    post_response = two_page_browser.send("/ui/actions", confirmation.form(action="/ui/actions").fields)
    assert post_response.status == 303
    assert (
        dict(parse_qsl(post_response.location.partition("?")[2])).items()
        >= {"type": "source", "q": "copy-", "page": "2"}.items()
    )
    assert {
        name for name, connector in two_page_browser.worker.connectors.items() if connector.state == "STOPPED"
    } == {f"copy-{number:02d}" for number in range(60)}
    assert "Stop: 60 done" in two_page_browser.get(post_response.location).plain


def test_confirmation_without_a_filter_names_the_cluster(two_page_browser: Browser) -> None:
    confirmation = confirm_all_matching(two_page_browser, "pause", "state=")
    assert "Pause 62 connectors" in confirmation.plain
    assert "These are all connectors of the cluster." in confirmation.plain


def test_action_is_rejected_if_a_connector_no_longer_matches(two_page_browser: Browser) -> None:
    form = confirm_all_matching(two_page_browser, "delete", "state=running").form(action="/ui/actions")
    two_page_browser.worker.connectors["copy-07"].state = "PAUSED"
    del two_page_browser.worker.connectors["copy-08"]
    typed_fields = [(key, "61" if key == "typed" else value) for key, value in form.fields]
    rejected_page = two_page_browser.send("/ui/actions", typed_fields)
    assert rejected_page.status == 409
    assert "Nothing was done: 2 connectors no longer match (copy-07 and copy-08)." in rejected_page.plain
    assert "Delete 59 connectors" in rejected_page.plain
    assert two_page_browser.worker.requests == []
    second_form = rejected_page.form(action="/ui/actions")
    result_page = two_page_browser.post(
        second_form.action, *[(key, "59" if key == "typed" else value) for key, value in second_form.fields]
    )
    assert "Delete: 59 done" in result_page.plain
    assert list(two_page_browser.worker.connectors) == ["orders", "copy-07"]


def test_bulk_action_without_matches_is_rejected(two_page_browser: Browser) -> None:
    form = confirm_all_matching(two_page_browser, "stop", "q=copy-07").form(action="/ui/actions")
    del two_page_browser.worker.connectors["copy-07"]
    rejected_page = two_page_browser.send("/ui/actions", form.fields)
    assert (rejected_page.status, "1 connector no longer matches (copy-07)." in rejected_page.plain) == (
        409,
        True,
    )
    assert two_page_browser.worker.requests == []


def test_connector_matching_only_after_confirmation_is_skipped(two_page_browser: Browser) -> None:
    form = confirm_all_matching(two_page_browser, "stop", "q=copy-").form(action="/ui/actions")
    two_page_browser.worker.connectors["copy-99"] = Connector(
        config={"connector.class": "org.example.FileSource"}
    )
    assert "Stop: 60 done" in two_page_browser.post(form.action, *form.fields).plain
    assert two_page_browser.worker.connectors["copy-99"].state == "RUNNING"


@pytest.mark.parametrize(
    ("query", "error", "post_status"),
    [
        ("status=failed", "Unknown filter 'status'", 400),
        ("q=nobody-is-called-so", "No connector matches.", 409),
    ],
)
def test_invalid_filters_are_rejected(
    two_page_browser: Browser, query: str, error: str, post_status: int
) -> None:
    confirmation = confirm_all_matching(two_page_browser, "stop", query)
    assert (confirmation.status, error in confirmation.plain) == (400, True)
    post_response = two_page_browser.send(
        "/ui/actions", [("action", "stop"), ("name", "copy-00"), ("matching", query)]
    )
    assert post_response.status == post_status
    assert two_page_browser.worker.requests == []


def test_bulk_action_beyond_the_limit_is_rejected(browser: Browser) -> None:
    browser.worker.connectors.update({f"c{number}": Connector(config={}) for number in range(1_000)})
    page = browser.get("/ui/connectors").plain
    assert "All 1002 that match are too many for one action" in page
    assert "Select all" in page
    assert "connectors that match" not in page
    confirmation = confirm_all_matching(browser, "pause", "state=")
    assert (
        confirmation.status,
        "at most 1,000 connectors at once; 1,002 are selected" in confirmation.plain,
    ) == (
        400,
        True,
    )


def test_action_is_retried_during_a_rebalance(browser: Browser) -> None:
    browser.worker.problems = [Problem(409, REBALANCE_ERROR, "0"), Problem(409, REBALANCE_ERROR, "0")]
    result_page = browser.post("/ui/actions", ("action", "stop"), ("name", "orders"))
    assert len(browser.worker.requests) == 3
    assert "will stop" in result_page.plain


def test_long_rebalance_is_reported(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending.Sender.__init__, "__kwdefaults__", {"timeout_s": 0.2})
    browser.worker.problems = [Problem(409, REBALANCE_ERROR, "0")] * 9
    result_page = browser.post("/ui/actions", ("action", "stop"), ("name", "orders"))
    assert len(browser.worker.requests) < 9
    assert "rejected with 409: Cannot complete request momentarily" in result_page.plain
    assert (
        "The cluster was still rebalancing after 0.2 s; nothing was changed. Try again." in result_page.plain
    )


def test_other_conflicts_are_reported_immediately(browser: Browser) -> None:
    browser.worker.problems = [Problem(409, "Connector orders already exists")]
    assert "already exists" in browser.post("/ui/actions", ("action", "stop"), ("name", "orders")).plain
    assert len(browser.worker.requests) == 1


def test_action_result_is_shown_only_with_its_token(browser: Browser) -> None:
    assert "no longer available" in browser.get("/ui/connectors?result=made-up").plain
    assert "data-result" not in browser.get("/ui/connectors").text


@pytest.mark.parametrize(
    ("fields", "status", "error"),
    [
        ([("action", "stop")], 400, "Select at least one connector."),
        ([("action", "explode"), ("name", "orders")], 400, "Unknown action 'explode'"),
        ([("action", "restart-task"), ("name", "orders"), ("task", "x")], 400, "task number"),
        ([("name", "orders")], 400, "Unknown action ''"),
    ],
)
def test_malformed_forms_are_rejected_without_a_request(
    browser: Browser, fields: Any, status: int, error: str
) -> None:
    response = browser.post("/ui/actions", *fields)
    assert (response.status, error in response.plain) == (status, True)
    assert browser.worker.requests == []


def test_unknown_connector_is_reported(browser: Browser) -> None:
    assert browser.get("/ui/confirm?action=stop&name=nobody").status == 404
    assert (
        "rejected with 404: Connector nobody not found"
        in browser.post("/ui/actions", ("action", "stop"), ("name", "nobody"), ("back", "state=")).plain
    )


def test_read_only_dashboard_has_no_actions_and_rejects_them(worker: FakeConnect) -> None:
    browser = Browser(worker, read_only=True)
    for path in ("/ui/", "/ui/connectors/orders", "/ui/connectors/orders/config", "/ui/plugins"):
        page = browser.get(path)
        assert page.status == 200
        assert "/ui/confirm" not in page.text
        assert "/ui/actions" not in page.text
        assert "/edit" not in page.text
        assert "/ui/create" not in page.text
    for path in (
        "/ui/confirm?action=stop&name=orders",
        "/ui/confirm?action=stop&matching=state%3D",
        "/ui/create",
        "/ui/connectors/orders/edit",
        "/ui/connectors/orders/offsets/reset",
    ):
        assert browser.get(path).status == 403
    assert browser.send("/ui/actions", [("action", "stop"), ("name", "orders")]).status == 403
    post_response = browser.send(
        "/ui/actions", [("action", "stop"), ("name", "orders"), ("matching", "state=")]
    )
    assert post_response.status == 403
    assert worker.requests == []


def test_cross_site_actions_are_rejected(browser: Browser) -> None:
    headers = {"Origin": "http://evil.example", "Content-Type": "application/x-www-form-urlencoded"}
    response = browser.client.post("/ui/actions", content="action=delete&name=orders", headers=headers)
    assert response.status_code == 403
    assert browser.worker.requests == []


@pytest.mark.parametrize(
    "name",
    [
        "<script>alert(1)</script>",
        'x" onmouseover="alert(1)',
        "a/b",
        "..",
        ".",
        "a%2Fb",
        "\u202egnp.exe",
        "'; DROP",
        "n" * 2000,
    ],
)
def test_hostile_names_are_escaped_and_actions_work(name: str) -> None:
    worker = FakeConnect({name: Connector(config={"connector.class": "org.example.FileSource", name: name})})
    browser = Browser(worker)
    page = browser.get("/ui/connectors")
    assert "<script>alert" not in page.text
    assert 'onmouseover="alert' not in page.text
    selection_form = page.form(action="/ui/confirm")
    assert selection_form.method == "get"
    link = next(part for part in page.text.split('"') if part.startswith("/ui/confirm?action=pause")).replace(
        "&amp;", "&"
    )
    confirmation = browser.get(link)
    assert confirmation.status == 200
    assert "<script>alert" not in confirmation.text
    assert 'onmouseover="alert' not in confirmation.text
    result_page = browser.submit(confirmation.form(action="/ui/actions"))
    assert result_page.status == 200
    assert "will pause" in result_page.plain
    assert worker.connectors[name].state == "PAUSED"
    for path in ("config", "offsets", "edit"):
        tab = browser.get(f"{first_connector_url(page.text)}/{path}")
        assert tab.status == 200
        assert "<script>alert" not in tab.text
        assert 'onmouseover="alert' not in tab.text


def first_connector_url(text: str) -> str:
    """Return the URL of the first connector in the list."""
    return next(part for part in text.split('"') if part.startswith("/ui/connectors/")).replace("&amp;", "&")
