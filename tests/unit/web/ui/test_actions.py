"""Actions on connectors, confirmed and performed with a browser without scripts."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, urlencode

import pytest

from tests.fakes.servers.connect_rest import Connector, FakeConnect, Problem
from tests.unit.web.ui.browser import Browser, RenderedPage
from web.ui.sources import sending

REBALANCE = (
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
    ("action", "request_sent", "result"),
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
    browser: Browser, action: str, request_sent: str, result: str
) -> None:
    page = browser.get("/ui/connectors/orders")
    assert f"/ui/confirm?action={action}&amp;name=orders" in page.text
    question = browser.get(f"/ui/confirm?action={action}&name=orders")
    assert browser.worker.requests == []
    after = browser.submit(question.form(action="/ui/actions"))
    assert [f"{method} {path}" for method, path, _ in browser.worker.requests] == [request_sent]
    assert result in after.plain
    assert after.status == 200


def test_confirmation_shows_effects_and_curl_command(browser: Browser) -> None:
    question = browser.get("/ui/confirm?action=stop&name=orders")
    assert "Stop orders? Its 2 tasks end; its config and offsets stay." in question.plain
    assert "curl -sS -X PUT http://testserver/connectors/orders/stop" in question.plain
    dialog = browser.get("/ui/confirm?action=stop&name=orders&part=dialog")
    assert "<html" not in dialog.text
    assert dialog.text.strip() in question.text


def test_deletion_redirects_to_the_list(browser: Browser) -> None:
    question = browser.get("/ui/confirm?action=delete&name=orders")
    assert "Its offsets stay: a new connector of the same name continues from them." in question.plain
    after = browser.submit(question.form(action="/ui/actions"))
    assert "orders: deleted (status 204)" in after.plain
    assert list(browser.worker.connectors) == ["lines"]


def test_task_can_be_restarted(browser: Browser) -> None:
    assert (
        "/ui/confirm?action=restart-task&amp;name=orders&amp;task=1"
        in browser.get("/ui/connectors/orders").text
    )
    question = browser.get("/ui/confirm?action=restart-task&name=orders&task=1")
    assert "Restart task 1 of orders?" in question.plain
    after = browser.submit(question.form(action="/ui/actions"))
    assert browser.worker.requests == [("POST", "/connectors/orders/tasks/1/restart", None)]
    assert "orders, task 1: restarted" in after.plain


def test_resume_needs_no_confirmation(browser: Browser) -> None:
    browser.worker.connectors["orders"].state = "PAUSED"
    form = browser.get("/ui/connectors/orders").form(action="/ui/actions")
    after = browser.submit(form)
    assert browser.worker.requests == [("PUT", "/connectors/orders/resume", None)]
    assert "will resume" in after.plain


def test_bulk_action_reports_each_result(browser: Browser) -> None:
    page = browser.get("/ui/connectors?state=running&sort=name")
    assert 'name="name" value="lines"' in page.text
    question = browser.get("/ui/confirm?action=stop&name=orders&name=lines&back=state%3Drunning%26evil%3Dx")
    assert "Stop 2 connectors (orders and lines)? Their 3 tasks end" in question.plain
    browser.worker.problems = [Problem(500, "Error writing target state to Kafka")]
    sent = browser.send("/ui/actions", question.form(action="/ui/actions").fields)
    assert sent.status == 303
    assert sent.location.startswith("/ui/connectors?result=")
    assert sent.location.endswith("&state=running")
    after = browser.get(sent.location)
    assert "Stop: 1 done, 1 failed" in after.plain
    assert "refused with 500: Error writing target state to Kafka" in after.plain
    assert "will stop (status 204)" in after.plain
    assert {each.state for each in browser.worker.connectors.values()} == {"RUNNING", "STOPPED"}


def test_bulk_deletion_requires_typing_the_number(browser: Browser) -> None:
    names = [f"c{each}" for each in range(12)]
    browser.worker.connectors.update({name: Connector(config={}) for name in names})
    question = browser.get("/ui/confirm?action=delete&" + "&".join(f"name={name}" for name in names))
    form = question.form(action="/ui/actions")
    assert ("typed", "") in form.fields
    refused = browser.post(form.action, *form.fields)
    assert refused.status == 400
    assert "type the number of connectors, 12" in refused.plain
    assert browser.worker.requests == []
    typed = [(key, " 12 " if key == "typed" else value) for key, value in form.fields]
    assert "Delete: 12 done" in browser.post(form.action, *typed).plain


@pytest.fixture
def many(browser: Browser) -> Browser:
    """Add sixty sources whose names start with `copy-` to `orders` and `lines`, which fills two pages of the list."""
    config: dict[str, str | None] = {"connector.class": "org.example.FileSource"}
    browser.worker.connectors.update({f"copy-{number:02d}": Connector(config=config) for number in range(60)})
    return browser


def all_question(browser: Browser, action: str, query: str) -> RenderedPage:
    return browser.get(f"/ui/confirm?{urlencode({'action': action, 'matching': query, 'back': query})}")


def test_all_matching_connectors_are_offered_beyond_one_page(many: Browser) -> None:
    page = many.get("/ui/connectors?q=copy-&type=source")
    assert "Select all 60 connectors that match" in page.plain
    assert 'name="matching" value="type=source&amp;q=copy-"' in page.text
    assert 'name="matching" value="state="' in many.get("/ui/connectors").text
    assert "that match" not in many.get("/ui/connectors?q=copy-0").plain


def test_action_on_all_matching_connectors_covers_all_pages(many: Browser) -> None:
    question = all_question(many, "stop", "q=copy-&type=source&page=2")
    first = ", ".join(f"copy-{number:02d}" for number in range(10))
    assert f"Stop 60 connectors ({first} and 50 more)?" in question.plain
    assert "all connectors of type source, with a name or class that contains “copy-”." in question.plain
    assert "These are the first 50 of 60 requests." in question.plain
    sent = many.send("/ui/actions", question.form(action="/ui/actions").fields)
    assert sent.status == 303
    assert (
        dict(parse_qsl(sent.location.partition("?")[2])).items()
        >= {"type": "source", "q": "copy-", "page": "2"}.items()
    )
    assert {name for name, each in many.worker.connectors.items() if each.state == "STOPPED"} == {
        f"copy-{number:02d}" for number in range(60)
    }
    assert "Stop: 60 done" in many.get(sent.location).plain


def test_confirmation_without_a_filter_names_the_cluster(many: Browser) -> None:
    question = all_question(many, "pause", "state=")
    assert "Pause 62 connectors" in question.plain
    assert "These are all connectors of the cluster." in question.plain


def test_action_is_rejected_if_a_connector_no_longer_matches(many: Browser) -> None:
    form = all_question(many, "delete", "state=running").form(action="/ui/actions")
    many.worker.connectors["copy-07"].state = "PAUSED"
    del many.worker.connectors["copy-08"]
    typed = [(key, "61" if key == "typed" else value) for key, value in form.fields]
    refused = many.send("/ui/actions", typed)
    assert refused.status == 409
    assert "Nothing was done: 2 connectors no longer match (copy-07 and copy-08)." in refused.plain
    assert "Delete 59 connectors" in refused.plain
    assert many.worker.requests == []
    again = refused.form(action="/ui/actions")
    done = many.post(again.action, *[(key, "59" if key == "typed" else value) for key, value in again.fields])
    assert "Delete: 59 done" in done.plain
    assert list(many.worker.connectors) == ["orders", "copy-07"]


def test_bulk_action_without_matches_is_rejected(many: Browser) -> None:
    form = all_question(many, "stop", "q=copy-07").form(action="/ui/actions")
    del many.worker.connectors["copy-07"]
    refused = many.send("/ui/actions", form.fields)
    assert (refused.status, "1 connector no longer matches (copy-07)." in refused.plain) == (409, True)
    assert many.worker.requests == []


def test_connector_matching_only_after_confirmation_is_skipped(many: Browser) -> None:
    form = all_question(many, "stop", "q=copy-").form(action="/ui/actions")
    many.worker.connectors["copy-99"] = Connector(config={"connector.class": "org.example.FileSource"})
    assert "Stop: 60 done" in many.post(form.action, *form.fields).plain
    assert many.worker.connectors["copy-99"].state == "RUNNING"


@pytest.mark.parametrize(
    ("query", "error", "when_posted"),
    [
        ("status=failed", "The list has no filter 'status'", 400),
        ("q=nobody-is-called-so", "No connector matches.", 409),
    ],
)
def test_invalid_filters_are_rejected(many: Browser, query: str, error: str, when_posted: int) -> None:
    question = all_question(many, "stop", query)
    assert (question.status, error in question.plain) == (400, True)
    posted = many.send("/ui/actions", [("action", "stop"), ("name", "copy-00"), ("matching", query)])
    assert posted.status == when_posted
    assert many.worker.requests == []


def test_bulk_action_beyond_the_limit_is_rejected(browser: Browser) -> None:
    browser.worker.connectors.update({f"c{number}": Connector(config={}) for number in range(1_000)})
    page = browser.get("/ui/connectors").plain
    assert "All 1002 that match are too many for one action" in page
    assert "Select all" in page
    assert "connectors that match" not in page
    question = all_question(browser, "pause", "state=")
    assert (question.status, "at most 1,000 connectors at once; these are 1,002" in question.plain) == (
        400,
        True,
    )


def test_action_is_retried_during_a_rebalance(browser: Browser) -> None:
    browser.worker.problems = [Problem(409, REBALANCE, "0"), Problem(409, REBALANCE, "0")]
    after = browser.post("/ui/actions", ("action", "stop"), ("name", "orders"))
    assert len(browser.worker.requests) == 3
    assert "will stop" in after.plain


def test_long_rebalance_is_reported(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending.Sender.__init__, "__kwdefaults__", {"timeout_s": 0.2})
    browser.worker.problems = [Problem(409, REBALANCE, "0")] * 9
    after = browser.post("/ui/actions", ("action", "stop"), ("name", "orders"))
    assert len(browser.worker.requests) < 9
    assert "refused with 409: Cannot complete request momentarily" in after.plain
    assert "The cluster was still rebalancing after 0.2 s; nothing was changed. Try again." in after.plain


def test_other_conflicts_are_reported_immediately(browser: Browser) -> None:
    browser.worker.problems = [Problem(409, "Connector orders already exists")]
    assert "already exists" in browser.post("/ui/actions", ("action", "stop"), ("name", "orders")).plain
    assert len(browser.worker.requests) == 1


def test_result_is_shown_only_with_its_token(browser: Browser) -> None:
    assert "no longer available" in browser.get("/ui/connectors?result=made-up").plain
    assert "data-result" not in browser.get("/ui/connectors").text


@pytest.mark.parametrize(
    ("fields", "status", "error"),
    [
        ([("action", "stop")], 400, "Select at least one connector."),
        ([("action", "explode"), ("name", "orders")], 400, "There is no action 'explode'"),
        ([("action", "restart-task"), ("name", "orders"), ("task", "x")], 400, "task number"),
        ([("name", "orders")], 400, "There is no action ''"),
    ],
)
def test_malformed_forms_are_rejected_without_a_request(
    browser: Browser, fields: Any, status: int, error: str
) -> None:
    answer = browser.post("/ui/actions", *fields)
    assert (answer.status, error in answer.plain) == (status, True)
    assert browser.worker.requests == []


def test_unknown_connector_is_reported(browser: Browser) -> None:
    assert browser.get("/ui/confirm?action=stop&name=nobody").status == 404
    assert (
        "refused with 404: Connector nobody not found"
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
    sent = browser.send("/ui/actions", [("action", "stop"), ("name", "orders"), ("matching", "state=")])
    assert sent.status == 403
    assert worker.requests == []


def test_cross_site_actions_are_rejected(browser: Browser) -> None:
    headers = {"Origin": "http://evil.example", "Content-Type": "application/x-www-form-urlencoded"}
    answer = browser.client.post("/ui/actions", content="action=delete&name=orders", headers=headers)
    assert answer.status_code == 403
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
    row = page.form(action="/ui/confirm")
    assert row.method == "get"
    link = next(each for each in page.text.split('"') if each.startswith("/ui/confirm?action=pause")).replace(
        "&amp;", "&"
    )
    question = browser.get(link)
    assert question.status == 200
    assert "<script>alert" not in question.text
    assert 'onmouseover="alert' not in question.text
    after = browser.submit(question.form(action="/ui/actions"))
    assert after.status == 200
    assert "will pause" in after.plain
    assert worker.connectors[name].state == "PAUSED"
    for path in ("config", "offsets", "edit"):
        tab = browser.get(f"{link_to(page.text)}/{path}")
        assert tab.status == 200
        assert "<script>alert" not in tab.text
        assert 'onmouseover="alert' not in tab.text


def link_to(text: str) -> str:
    """Return the URL of the first connector in the list."""
    return next(each for each in text.split('"') if each.startswith("/ui/connectors/")).replace("&amp;", "&")
