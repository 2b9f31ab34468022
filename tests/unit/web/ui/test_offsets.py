"""Tests for the display, preview, change and deletion of offsets in a browser without scripts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.fakes.servers.connect_rest import Connector, FakeConnect, Problem
from tests.unit.web.ui.browser import Browser, Form, RenderedPage

PATH = "/ui/connectors/lines/offsets"


def sink_offset(topic: str, partition: int, offset: int | None) -> dict[str, Any]:
    offset_value = None if offset is None else {"kafka_offset": offset}
    return {"partition": {"kafka_topic": topic, "kafka_partition": partition}, "offset": offset_value}


@pytest.fixture
def worker() -> FakeConnect:
    config: dict[str, str | None] = {"connector.class": "org.example.FileSink"}
    connector = Connector(config=config, type="sink", state="STOPPED", tasks=[])
    connector.offsets = [sink_offset("t", 0, 100), sink_offset("t", 1, 7), sink_offset("t", 2, 9)]
    return FakeConnect({"lines": connector})


@pytest.fixture
def browser(worker: FakeConnect) -> Browser:
    return Browser(worker)


def offsets_form(page: RenderedPage) -> Form:
    form = page.form(action=PATH)
    return form if form.method == "post" else page.form(1, action=PATH)


def with_values(form: Form, **values: str) -> list[tuple[str, str]]:
    return [(name, values.get(name.replace(".", "_"), value)) for name, value in form.fields]


def test_running_connector_shows_offsets_and_how_to_change_them(browser: Browser) -> None:
    browser.worker.connectors["lines"].state = "RUNNING"
    page = browser.get(PATH)
    assert "t 0 100 t 1 7 t 2 9" in page.plain
    assert "only while the connector is STOPPED" in page.plain
    assert "/ui/confirm?action=stop&amp;name=lines" in page.text
    assert 'name="o.1"' not in page.text


def test_offsets_are_refreshed_until_they_can_be_changed(browser: Browser) -> None:
    connector = browser.worker.connectors["lines"]
    connector.state, connector.tasks = "RUNNING", ["RUNNING"]
    assert f'data-live="states" hx-get="{PATH}?part=offsets&amp;q=t"' in browser.get(f"{PATH}?q=t").text
    connector.state, connector.tasks = "STOPPED", []
    part = browser.get(f"{PATH}?part=offsets&q=t")
    assert "<html" not in part.text
    assert 'name="o.1"' in part.text
    assert "data-live" not in part.text, "a refresh would replace the user's input"


def test_stopped_connector_without_offsets_is_reported(browser: Browser) -> None:
    browser.worker.connectors["lines"].offsets = []
    page = browser.get(PATH)
    assert "no partitions yet" in page.plain
    assert 'name="new.partition"' in page.text, "the page offers to add offsets"


def test_sink_shows_its_lag(browser: Browser) -> None:
    browser.worker.connectors["lines"].lags = [1200, 34, None]
    page = browser.get(PATH)
    assert "3 of 3 partitions, 1,234 offsets behind" in page.plain
    assert "Offset Lag" in page.plain
    assert "t 0 100 1,200 " in page.plain
    assert "t 2 9 unknown " in page.plain
    assert "3 of 3 partitions, 1,234" in browser.get(f"{PATH}?q=t").plain


def test_lag_column_is_omitted_without_lags(browser: Browser) -> None:
    page = browser.get(PATH)
    assert "Lag" not in page.plain
    assert "behind" not in page.plain
    browser.worker.connectors["lines"].lags = [None, None, None]
    page = browser.get(PATH)
    assert "t 0 100 unknown " in page.plain
    assert "behind" not in page.plain


def test_change_is_previewed_then_sent(browser: Browser) -> None:
    form = offsets_form(browser.get(PATH))
    preview = browser.post(PATH, *with_values(form, o_1="90", o_2="17"), ("x.3", "on"), ("do", "preview"))
    assert preview.status == 200
    assert "Change 3 offsets of lines?" in preview.plain
    assert "reads at most 10 records again" in preview.plain
    assert "skips at most 10 records" in preview.plain
    assert "curl -sS -X PATCH" in preview.plain
    assert browser.worker.requests == []
    result_page = browser.post(PATH, *preview.form(action=PATH).fields, ("do", "apply"))
    (request,) = browser.worker.requests
    assert request == (
        "PATCH",
        "/connectors/lines/offsets",
        {"offsets": [sink_offset("t", 0, 90), sink_offset("t", 1, 17), sink_offset("t", 2, None)]},
    )
    assert "The offsets for this connector have been altered successfully" in result_page.plain
    assert "t 0 90 " in result_page.plain


def test_partitions_can_be_added(browser: Browser) -> None:
    new_row = [
        ("new.partition", json.dumps(sink_offset("n", 0, 1)["partition"])),
        ("new.offset", '{"kafka_offset": 3}'),
    ]
    preview = browser.post(PATH, *new_row, ("do", "preview"))
    browser.post(PATH, *preview.form(action=PATH).fields, ("do", "apply"))
    assert sink_offset("n", 0, 3) in browser.worker.connectors["lines"].offsets


def test_source_offsets_are_json(browser: Browser) -> None:
    connector = browser.worker.connectors["lines"]
    connector.type, connector.offsets = (
        "source",
        [{"partition": {"b": 1, "a": "<i>"}, "offset": {"position": 5}}],
    )
    page = browser.get(PATH)
    assert "<i>" not in page.text
    fields = with_values(offsets_form(page), o_1='{"position": 0}')
    preview = browser.post(PATH, *fields, ("do", "preview"))
    assert "continues at this offset" in preview.plain
    browser.post(PATH, *preview.form(action=PATH).fields, ("do", "apply"))
    assert connector.offsets == [{"partition": {"b": 1, "a": "<i>"}, "offset": {"position": 0}}]


@pytest.mark.parametrize("text", ["", "x", "-1", "<script>alert(1)</script>"])
def test_invalid_offset_is_reported_and_not_sent(browser: Browser, text: str) -> None:
    page = browser.post(PATH, *with_values(offsets_form(browser.get(PATH)), o_1=text), ("do", "apply"))
    assert page.status == 422
    assert "Enter a nonnegative integer" in page.plain
    assert browser.worker.requests == []


def test_unchanged_form_sends_no_request(browser: Browser) -> None:
    page = browser.post(PATH, *offsets_form(browser.get(PATH)).fields, ("do", "apply"))
    assert "Nothing was changed." in page.plain
    assert browser.worker.requests == []


def test_concurrent_changes_are_shown_before_writing(browser: Browser) -> None:
    preview = browser.post(PATH, *with_values(offsets_form(browser.get(PATH)), o_1="90"), ("do", "preview"))
    browser.worker.connectors["lines"].offsets[0] = sink_offset("t", 0, 50)
    page = browser.post(PATH, *preview.form(action=PATH).fields, ("do", "apply"))
    assert page.status == 409
    assert "Offsets have changed" in page.plain
    assert "skips at most 40 records" in page.plain
    assert browser.worker.requests == []
    browser.post(PATH, *page.form(action=PATH).fields, ("do", "apply"))
    assert sink_offset("t", 0, 90) in browser.worker.connectors["lines"].offsets


def test_offsets_of_a_resumed_connector_are_not_changed(browser: Browser) -> None:
    form = offsets_form(browser.get(PATH))
    browser.worker.connectors["lines"].state = "RUNNING"
    page = browser.post(PATH, *with_values(form, o_1="90"), ("do", "apply"))
    assert page.status == 409
    assert "only while the connector is STOPPED" in page.plain
    assert browser.worker.requests == []


def test_offsets_are_reset_after_confirmation(browser: Browser) -> None:
    confirmation = browser.get(f"{PATH}/reset")
    assert "Delete all 3 offsets of lines? Its consumer group is deleted" in confirmation.plain
    assert "curl -sS -X DELETE" in confirmation.plain
    result_page = browser.submit(confirmation.form(action=f"{PATH}/reset"))
    assert browser.worker.requests == [("DELETE", "/connectors/lines/offsets", None)]
    assert "have been reset successfully" in result_page.plain
    assert "<html" not in browser.get(f"{PATH}/reset?part=dialog").text


def test_rejected_change_is_reported(browser: Browser) -> None:
    preview = browser.post(PATH, *with_values(offsets_form(browser.get(PATH)), o_1="90"), ("do", "preview"))
    browser.worker.problems = [Problem(500, "Failed to alter consumer group offsets for connector lines")]
    result_page = browser.post(PATH, *preview.form(action=PATH).fields, ("do", "apply"))
    assert "rejected with 500: Failed to alter consumer group offsets" in result_page.plain


def test_search_shows_the_matching_partitions(browser: Browser) -> None:
    browser.worker.connectors["lines"].offsets += [sink_offset("other", 0, 1)]
    page = browser.get(f"{PATH}?q=other")
    assert "1 of 4 partitions" in page.plain
    assert "t 0 100" not in page.plain


def test_worker_without_offsets_endpoint_is_reported(browser: Browser) -> None:
    def refuse(_method: str, segments: list[str]) -> None:
        if segments[-1] == "offsets":
            raise Problem(404, "HTTP 404 Not Found")

    browser.worker.on_request = refuse
    page = browser.get(PATH)
    assert page.status == 404
    assert "This worker does not support offset requests" in page.plain


def test_read_only_dashboard_only_shows_offsets(worker: FakeConnect) -> None:
    browser = Browser(worker, read_only=True)
    page = browser.get(PATH)
    assert "t 0 100" in page.plain
    assert 'method="post"' not in page.text
    assert browser.send(PATH, [("do", "apply")]).status == 403
    assert browser.send(f"{PATH}/reset", []).status == 403
    assert worker.requests == []
