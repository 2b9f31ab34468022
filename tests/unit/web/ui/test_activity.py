"""Tests for activity pages of a connector, rendered from canned responses with the real templates."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html import unescape

import pytest

from tests.unit.web.ui.activity import FORM_HEADERS, NAME, PATH, URL, canned_responses, get, page_text, state
from tests.unit.web.ui.canned import ALL_FEATURES, JAVA_FEATURES, CannedSource, browser
from web.ui.sources.api import RequestRejected, SourceUnavailable


@pytest.mark.parametrize(
    "tab", ["charts", "history", "logs", "topics", "delivery", "table", "letters", "tasks/0"]
)
def test_every_tab_links_to_the_yaml_of_the_connector(tab: str) -> None:
    link = f'<a href="{URL}/config">{NAME} as YAML for kraal apply</a>'
    assert link in get(f"{URL}/{tab}")
    assert link not in get(f"{URL}/config")


# -- timelines -----------------------------------------------------------------------------------------------------


def test_task_page_starts_with_the_reason() -> None:
    text = page_text(get(f"{URL}/tasks/0"))
    assert "Failed since 1970-01-01 00:00:03 UTC IOError: disk is full Restart it after" in text


def test_task_page_lists_states_authors_and_restarts() -> None:
    page = get(f"{URL}/tasks/0")
    text = page_text(page)
    assert "restarted POST from IOError" in text
    assert "Restarts 1 (0 automatic, 1 requested)" in text
    assert (
        "requested POST from IOError: disk is full ran for 900 ms, then failed: IOError: disk is full" in text
    )
    assert "Recorded by w:1 since 1970-01-01 00:00:00 UTC . 3 older states are no longer kept." in text
    assert page.index("1970-01-01 00:00:03 UTC</time></td>") < page.index(
        "1970-01-01 00:00:01 UTC</time></td>"
    )
    assert '<details id="trace-3000-0-' in page
    assert '<rect class="failed"' in page
    assert "connector</td>" not in page


def test_history_covers_all_instances_or_one() -> None:
    page = get(f"{URL}/history")
    assert f'<a href="{URL}/tasks/0">task 0</a>' in page
    assert page.count("<tr data-row") == 5
    assert get(f"{URL}/history?task=connector").count("<tr data-row") == 1
    assert get(f"{URL}/history?task=0").count("<tr data-row") == 4
    assert get(f"{URL}/history?task=%3Cb%3E").count("<tr data-row") == 5


def test_unassigned_task_has_a_reason() -> None:
    source = CannedSource(canned_responses())
    source.responses[f"{PATH}/status"]["tasks"][0] = {"id": 0, "state": "UNASSIGNED", "worker_id": ""}
    unassigned_task = {
        "connector": NAME,
        "task": 0,
        "state": "UNASSIGNED",
        "reason": "no worker has its plugin",
    }
    source.responses["/admin/assignments"] = {"leader": "x", "generation": 4, "waiting": [unassigned_task]}
    assert "no worker has its plugin" in page_text(get(f"{URL}/tasks/0", source))


def test_trace_equal_to_the_cause_is_omitted() -> None:
    source = CannedSource(canned_responses())
    task_status = {"id": 0, "state": "UNASSIGNED", "worker_id": "w:1", "trace": "Spark is starting"}
    source.responses[f"{PATH}/status"]["tasks"][0] = task_status
    source.responses[f"{PATH}/history"]["states"] = [
        state(1_000, "UNASSIGNED", "Spark is starting", trace="Spark is starting\n")
    ]
    for page in ("", "/tasks/0", "/history"):
        text = get(f"{URL}{page}", source)
        assert "Spark is starting" in text
        assert "<summary>Trace" not in text
    assert get(f"{URL}/history").count("<summary>Trace") == 1, "a trace that differs from the cause is shown"


def test_removed_task_has_a_page_and_unknown_task_returns_404() -> None:
    source = CannedSource(canned_responses())
    source.responses[f"{PATH}/status"]["tasks"] = []
    source.responses[f"{PATH}/history"]["states"].insert(0, state(9_000, "REMOVED", "no longer configured"))
    assert "Removed since 1970-01-01 00:00:09 UTC no longer configured" in page_text(
        get(f"{URL}/tasks/0", source)
    )
    assert browser(source).get(f"{URL}/tasks/7").status_code == 404
    assert browser(source).get(f"{URL}/tasks/x").status_code == 400


def test_task_of_a_java_worker_has_only_its_current_state() -> None:
    source = CannedSource(canned_responses(), reported_features=JAVA_FEATURES)
    text = page_text(get(f"{URL}/tasks/0", source))
    assert "Failed IOError: disk is full" in text
    assert "This worker reports only the current state." in text
    assert not [path for _, path, _, _ in source.requests if path.endswith("/history")]


def test_task_config_lists_overrides_first_without_secrets() -> None:
    source = CannedSource(canned_responses())
    source.responses[f"{PATH}/config"] = {"connector.class": "org.acme.Sink", "pin": "geheim", "url": "u"}
    source.responses["/connector-plugins/org.acme.Sink/config"] = [{"name": "pin", "type": "PASSWORD"}]
    config = {"url": "u", "pin": "geheim", "table": "orders?pin=geheim"}
    source.responses[f"{PATH}/tasks"] = [{"id": {"connector": NAME, "task": 0}, "config": config}]
    page = get(f"{URL}/tasks/0/config", source)
    assert "geheim" not in page
    assert "table task-specific orders?pin=[hidden] pin [hidden] url u" in page_text(page)
    assert browser(source).get(f"{URL}/tasks/1/config").status_code == 404


# -- tabs ----------------------------------------------------------------------------------------------------------


def test_unsupported_views_have_no_tab_or_shortcut() -> None:
    titles = ("Charts", "History", "Logs", "Delivery", "Table", "Dead letters", "Events")
    kraal_page, java_page = (
        get(f"{URL}/topics"),
        get(f"{URL}/topics", CannedSource(canned_responses(), reported_features=JAVA_FEATURES)),
    )
    assert [title for title in titles if f">{title}</a>" in kraal_page] == list(titles)
    assert [title for title in titles if f">{title}</a>" in java_page] == []
    assert ["Go to the events" in page for page in (kraal_page, java_page)] == [True, False]


@pytest.mark.parametrize(
    "part", [f"{URL}/tasks/0?part=task", f"{URL}/history?part=history", f"{URL}/logs?part=lines"]
)
def test_part_is_the_page_without_its_frame(part: str) -> None:
    response = get(part)
    assert "<html" not in response
    assert f'hx-get="{part}"' in get(part.partition("?")[0])


def test_overview_links_to_task_pages() -> None:
    source = CannedSource(canned_responses())
    assert f'<a href="{URL}/tasks/0">0</a>' in get(URL, source)


# -- charts --------------------------------------------------------------------------------------------------------


def test_charts_work_without_scripts_and_embed_their_values() -> None:
    page = get(f"{URL}/charts")
    assert page_text(page).count("Now Mean Highest") == 3
    assert "Task 0 2 1.5 2" in page_text(page)
    assert '<path class="line-0" d="M0.0,40.0' in page
    chart_data = json.loads(unescape(re.findall(r'data-charts="([^"]*)"', page)[0]))
    assert {chart["key"]: [line["values"] for line in chart["lines"]] for chart in chart_data["charts"]} == {
        "rate": [[1, None, 2]],
        "phases": [[40, None, 50]],
        "backlog": [[7, 8, 9]],
    }


def test_charts_can_be_limited_to_one_task() -> None:
    assert "Task 0" in get(f"{URL}/charts?task=0")
    assert "There are no metrics yet" in get(f"{URL}/charts?task=7")


# -- logs ----------------------------------------------------------------------------------------------------------


def test_lines_are_filtered_by_level_and_task() -> None:
    source = CannedSource(canned_responses())
    page = get(f"{URL}/logs?level=warn&task=0&q=disk", source)
    assert source.latest_query(f"{PATH}/logs") == {"limit": "500", "level": "WARN", "task": "0"}
    assert '<option value="WARN" selected>' in page
    assert "IOError: disk is full" in page_text(page)
    assert "17 older lines are no longer kept." in page_text(page)
    assert "No line matches." in get(f"{URL}/logs?q=nothing", source)


def test_level_is_set_for_the_cluster() -> None:
    source = CannedSource(canned_responses())
    client = browser(source)
    assert f'action="{URL}/logs/level"' in client.get(f"{URL}/logs").text
    response = client.post(
        f"{URL}/logs/level", content="logger=org.acme&level=DEBUG&scope=cluster", headers=FORM_HEADERS
    )
    assert response.status_code == 303
    assert source.requests[-1] == ("PUT", "/admin/loggers/org.acme", {"scope": "cluster"}, {"level": "DEBUG"})
    assert "will log at DEBUG on all workers" in page_text(client.get(response.headers["location"]).text)


def test_invalid_level_is_not_sent() -> None:
    source = CannedSource(canned_responses())
    body = "logger=org.acme&level=LOUD&scope=worker"
    assert browser(source).post(f"{URL}/logs/level", content=body, headers=FORM_HEADERS).status_code == 400
    assert source.requests == []


def test_loggers_of_a_plugin_alias_are_shown_before_its_first_line() -> None:
    source = CannedSource(canned_responses())
    source.responses[f"/connectors/{NAME}/logs"] = {"lines": []}
    source.responses[f"/connectors/{NAME}/config"] = {"connector.class": "Clicks"}
    source.responses["/connector-plugins"] = [{"class": "org.acme.ClicksConnector", "type": "sink"}]
    page = get(f"{URL}/logs", source)
    assert "Levels of the loggers" in page
    assert 'value="org.acme"' in page
    source.responses["/connector-plugins"] = []
    assert "Levels of the loggers" not in get(f"{URL}/logs", source)


def test_lines_are_shown_without_log_levels() -> None:
    source = CannedSource(canned_responses())
    source.responses["/admin/loggers"] = RequestRejected(404, "HTTP 404 Not Found")
    page = get(f"{URL}/logs", source)
    assert "IOError" in page
    assert "Levels of the loggers" not in page


# -- events --------------------------------------------------------------------------------------------------------


def test_events_are_filtered_by_kind_and_link_to_their_subjects() -> None:
    page = get("/ui/events")
    assert f'<a href="{URL}">{NAME}</a>' in page
    assert f'<a href="{URL}/tasks/0">{NAME}, task 0</a>' in page
    assert get("/ui/events?kind=config").count("<tr data-row>") == 1


# -- topics --------------------------------------------------------------------------------------------------------


def test_config_topics_are_shown_without_topic_tracking() -> None:
    source = CannedSource(canned_responses())
    source.responses[f"{PATH}/topics"] = RequestRejected(403, "Topic tracking is disabled.")
    text = page_text(get(f"{URL}/topics", source))
    assert "The active topics are unknown: Topic tracking is disabled." in text
    assert "topics to read" in text
    assert "Reset active topics" not in text


def test_active_topics_are_reset_after_a_confirmation() -> None:
    source = CannedSource(canned_responses())
    client = browser(source)
    assert f"Reset the 1 active topic of {NAME}?" in page_text(client.get(f"{URL}/topics/reset").text)
    response = client.post(f"{URL}/topics/reset", content="", headers=FORM_HEADERS)
    assert source.requests[-1][:2] == ("PUT", f"{PATH}/topics/reset")
    assert "the list of active topics was cleared" in client.get(response.headers["location"]).text


# -- dead letters --------------------------------------------------------------------------------------------------


def test_dead_letter_has_origin_and_failure() -> None:
    text = page_text(get(f"{URL}/letters"))
    assert "Not yet replayed 17" in text
    assert "IOError: disk is full-0@9" in text
    assert "/w== base64, because it is not UTF-8 text" in text
    assert "The cause is unknown: errors.deadletterqueue.context.headers.enable was false." in text


def test_connector_without_dead_letters_shows_the_reason() -> None:
    source = CannedSource(canned_responses())
    source.responses[f"{PATH}/dead-letters"] = RequestRejected(
        404, "Connector orders-sink has no dead letter queue topic"
    )
    text = get(f"{URL}/letters", source)
    assert "has no dead letter queue topic" in text
    assert "Replay at most" not in text


def test_replay_writes_at_most_the_letters_of_the_confirmed_dry_run() -> None:
    source = CannedSource(canned_responses())
    client = browser(source)
    page = client.get(f"{URL}/letters/replay?name={NAME}&limit=100")
    assert source.requests[-1] == ("POST", f"{PATH}/dead-letters/replay", {}, {"limit": 100, "dry_run": True})
    assert f"Replay 15 dead letters of {NAME}?" in page_text(page.text)
    assert "clicks (3) and orders (12)" in page_text(page.text)
    assert '<input type="hidden" name="limit" value="15">' in page.text
    assert '<input type="hidden" name="from" value="0:17 3:5">' in page.text
    response = client.post(f"{URL}/letters/replay", content="limit=15&from=0:17+3:5", headers=FORM_HEADERS)
    request_body = {"limit": 15, "dry_run": False, "from": {"0": 17, "3": 5}}
    assert source.requests[-1] == ("POST", f"{PATH}/dead-letters/replay", {}, request_body)
    assert "15 records written to clicks (3) and orders (12)" in page_text(
        client.get(response.headers["location"]).text
    )


def test_replay_with_unknown_outcome_is_reported() -> None:
    source = CannedSource(canned_responses())
    source.responses[f"POST {PATH}/dead-letters/replay"] = SourceUnavailable("No response.")
    client = browser(source)
    response = client.post(f"{URL}/letters/replay", content="limit=15", headers=FORM_HEADERS)
    assert "The request may have taken effect." in client.get(response.headers["location"]).text


@pytest.mark.parametrize("start", ["0", "0:x", "x:0", ":"])
def test_replay_with_malformed_start_offsets_is_rejected(start: str) -> None:
    source = CannedSource(canned_responses())
    response = browser(source).post(
        f"{URL}/letters/replay", content=f"limit=15&from={start}", headers=FORM_HEADERS
    )
    assert response.status_code == 400
    assert source.requests == []


@pytest.mark.parametrize(
    ("limit", "code", "error"),
    [("x", 400, "whole number"), ("0", 400, "1 to 10,000"), ("", 409, "no dead letters to replay")],
)
def test_invalid_or_empty_replay_is_rejected(limit: str, code: int, error: str) -> None:
    source = CannedSource(canned_responses())
    source.responses[f"POST {PATH}/dead-letters/replay"] = {"dry_run": True, "written": {}}
    response = browser(source).get(f"{URL}/letters/replay?limit={limit}")
    assert (response.status_code, error in response.text) == (code, True)


# -- delivery ------------------------------------------------------------------------------------------------------


def test_delivery_shows_the_latest_proof() -> None:
    text = page_text(get(f"{URL}/delivery"))
    assert "DIFFERENT at 1970-01-01 00:00:05 UTC Compared up to IOError: disk is full-0@12,345" in text
    assert "missing 2 IOError: disk is full-0@3 to @4 repeated 0 unexpected 0 dead letters 7" in text


def test_delivery_without_a_proof_has_only_a_button() -> None:
    source = CannedSource(canned_responses())
    source.responses[f"{PATH}/proof"] = RequestRejected(404, "Connector orders-sink has not been proved")
    text = page_text(get(f"{URL}/delivery", source))
    assert "The delivery has not been proved since the workers started. Prove delivery" in text


def test_delivery_shows_the_totals_of_the_ledger() -> None:
    text = page_text(get(f"{URL}/delivery"))
    assert "Ledger BROKEN 1 break: records are not accounted for." in text
    assert "because the ledger cannot be read or written: IOError: disk is full" in text
    assert "Task Read Written Dropped Dead letters Tolerated Breaks 0 12,345 12,337 0 7 0 1" in text
    assert "all 12,350 12,342 0 14 0 1" in text
    assert "In 3 batches, the records were counted only when they were read" in text
    assert "4 offsets were delivered more than once." in text
    assert "1970-01-01 00:00:07 UTC 0 IOError: disk is full-0@5 to @9 1 of 4 records" in text
    assert "Ranges that were not counted: the latest 1 of 21 Partition From To" in text
    assert "IOError: disk is full-0 100 1,100" in text


def test_delivery_of_a_worker_without_a_ledger_shows_only_proofs() -> None:
    features = replace(ALL_FEATURES, ledger=False)
    source = CannedSource(canned_responses(), reported_features=features)
    assert "Ledger" not in page_text(get(f"{URL}/delivery", source))
    assert all("ledger" not in request[1] for request in source.requests)


def test_button_starts_a_proof() -> None:
    source = CannedSource(canned_responses())
    client = browser(source)
    response = client.post(f"{URL}/delivery", headers=FORM_HEADERS)
    assert response.status_code == 303
    assert "the proof has started" in page_text(client.get(response.headers["location"]).text)
    assert ("POST", f"{PATH}/proof") in [request[:2] for request in source.requests]


# -- table ---------------------------------------------------------------------------------------------------------


def test_table_shows_rows_files_lag_commits_and_schema_changes() -> None:
    source = CannedSource(canned_responses(text="orders"))
    text = page_text(get(f"{URL}/table", source))
    assert "Rows 1,234,567 Files 12 5M bytes Behind the topics 3 offsets, 1.5 s" in text
    assert "Commits of the tasks 4 250 ms each, 1 conflict" in text
    assert "orders-0 0 12345 3 1.5 s" in text
    assert "orders 1970-01-01 00:00:07 UTC orders +5 ~2 -1 +1 orders-0@12345" in text
    assert "orders 1970-01-01 00:00:07 UTC orders +5 -1 +1 none" in text
    assert "1970-01-01 00:00:06 UTC orders new column int64 orders orders" in text
    assert "1970-01-01 00:00:06 UTC orders int32 int64 orders orders" in text
    assert "No response from orders." in text


def test_connector_without_tables_has_an_empty_tab() -> None:
    source = CannedSource(canned_responses())
    source.responses[f"{PATH}/tables"] = {"connector": NAME, "tables": [], "silent": []}
    assert "No task has reported a table." in page_text(get(f"{URL}/table", source))


def test_source_has_no_tabs_of_sinks() -> None:
    source = CannedSource(canned_responses())
    source.responses[f"{PATH}/status"]["type"] = "source"
    page = get(f"{URL}/topics", source)
    assert [title for title in ("Table", "Dead letters") if f">{title}</a>" in page] == []
