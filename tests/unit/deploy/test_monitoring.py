"""Rules and dashboard name metrics that exist, and the page tells what to do about each alert."""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from kraal.metrics import connect_attributes, java_plugins, supervision
from kraal.metrics.load import LoadMetrics, load_families

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/deploy/monitoring.md").read_text(encoding="utf-8")
BOARD = json.loads((ROOT / "deploy/grafana/kraal.json").read_text(encoding="utf-8"))
GROUPS = yaml.safe_load((ROOT / "deploy/prometheus/kraal.rules.yml").read_text(encoding="utf-8"))["groups"]
TESTS = yaml.safe_load((ROOT / "deploy/prometheus/kraal.rules.test.yml").read_text(encoding="utf-8"))["tests"]
ALERTS: Mapping[str, Mapping[str, Any]] = {rule["alert"]: rule for group in GROUPS for rule in group["rules"]}
PANELS = [panel for panel in BOARD["panels"] if panel["type"] != "row"]
VARIABLES = {each["name"]: each for each in BOARD["templating"]["list"]}
DATA_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
METRIC = re.compile(r"\b(?:kafka_connect|kraal|debezium)_\w+")
DEBEZIUM = {"debezium_metrics_MilliSecondsBehindSource"}
"""Debezium's own; those of its MBeans have the names that they have."""


def metrics() -> set[str]:
    """Return the names of all metrics that a worker may serve, but those of plugins."""
    load = LoadMetrics(mailboxes={}, waiting={}, refused={}, body_bytes=0)
    texts = {connect_attributes.metric(group) for group in connect_attributes.TEXTS}
    numbers = {
        connect_attributes.metric(group, name)
        for group, name in connect_attributes.exported_attributes()
        if name not in connect_attributes.TEXTS.get(group, ())
    }
    own = {*supervision.HELP, *java_plugins.HELP, *(family.name for family in load_families(load))}
    return texts | numbers | own | {connect_attributes.TASK_STATUS} | DEBEZIUM


def expressions() -> Iterator[str]:
    yield from (rule["expr"] for rule in ALERTS.values())
    yield from (target["expr"] for panel in PANELS for target in panel["targets"])
    yield from (each["definition"] for each in VARIABLES.values() if each["type"] == "query")


def test_rules_and_dashboard_name_metrics_that_exist() -> None:
    named = {name for each in expressions() for name in METRIC.findall(each)}
    assert len(named) > 40
    assert named - metrics() == set()


def test_metrics_of_the_test_series_exist() -> None:
    named = {
        name for case in TESTS for each in case["input_series"] for name in METRIC.findall(each["series"])
    }
    assert named - metrics() == set()


def test_the_page_has_a_section_for_each_alert() -> None:
    assert re.findall(r"^### (\w+)$", PAGE, re.MULTILINE) == list(ALERTS)


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_says_what_happened_how_bad_it_is_and_where_to_read_on(name: str) -> None:
    assert ALERTS[name]["labels"]["severity"] in {"critical", "warning"}
    assert ALERTS[name]["annotations"]["summary"]
    assert ALERTS[name]["annotations"]["runbook"] == f"docs/deploy/monitoring.md#{name.lower()}"


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_has_a_case_in_which_it_fires_and_one_in_which_it_does_not(name: str) -> None:
    expected = [e["exp_alerts"] for case in TESTS for e in case["alert_rule_test"] if e["alertname"] == name]
    assert any(expected)
    assert not all(expected)


def test_every_query_of_the_dashboard_uses_the_chosen_data_source() -> None:
    places = [*PANELS, *(target for panel in PANELS for target in panel["targets"])]
    places += [each for each in VARIABLES.values() if each["type"] == "query"]
    assert [each for each in places if each["datasource"] != DATA_SOURCE] == []


def test_every_query_of_the_dashboard_is_of_the_chosen_cluster() -> None:
    selectors = [each for panel in PANELS for each in re.findall(r"\{[^}]*\}", panel["targets"][0]["expr"])]
    assert selectors
    assert [each for each in selectors if 'job="$job", instance=~"$instance"' not in each] == []


def test_variables_of_the_dashboard_are_defined() -> None:
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(BOARD)))
    assert used - {"__rate_interval"} == set(VARIABLES)


def test_panels_of_the_dashboard_have_titles_and_ids_of_their_own() -> None:
    found = [*(panel["title"] for panel in PANELS), *(panel["id"] for panel in BOARD["panels"])]
    assert [each for each, count in Counter(found).items() if count > 1] == []


def test_panels_of_the_dashboard_fit_in_and_do_not_overlap() -> None:
    places = [panel["gridPos"] for panel in BOARD["panels"]]
    assert all(0 <= place["x"] < place["x"] + place["w"] <= 24 for place in places)
    cells = [
        Counter(itertools.product(range(p["x"], p["x"] + p["w"]), range(p["y"], p["y"] + p["h"])))
        for p in places
    ]
    assert max(sum(cells, Counter()).values()) == 1
