"""Tests that the rules and the dashboard use existing metrics, and that each alert has a runbook."""

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
from kraal.metrics.delivery import delivery_families
from kraal.metrics.load import LoadMetrics, load_families
from kraal.metrics.proofs import proof_families
from kraal.metrics.registry import MetricsRegistry
from kraal.metrics.tables import table_families
from kraal.metrics.windows import Windows
from kraal.testing._simulation.scheduler import VirtualClock

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/deploy/monitoring.md").read_text(encoding="utf-8")
BOARD = json.loads((ROOT / "deploy/grafana/kraal.json").read_text(encoding="utf-8"))
GROUPS = yaml.safe_load((ROOT / "deploy/prometheus/kraal.rules.yml").read_text(encoding="utf-8"))["groups"]
TESTS = yaml.safe_load((ROOT / "deploy/prometheus/kraal.rules.test.yml").read_text(encoding="utf-8"))["tests"]
ALERTS: Mapping[str, Mapping[str, Any]] = {rule["alert"]: rule for group in GROUPS for rule in group["rules"]}
PANELS = [panel for panel in BOARD["panels"] if panel["type"] != "row"]
VARIABLES = {variable["name"]: variable for variable in BOARD["templating"]["list"]}
DATA_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
METRIC = re.compile(r"\b(?:kafka_connect|kraal|debezium)_\w+")
DEBEZIUM_METRICS = {"debezium_metrics_MilliSecondsBehindSource"}
"""Metrics that are named after attributes of Debezium's MBeans."""


def list_metrics() -> set[str]:
    """Return the names of all metrics that a worker may expose, except those of plugins."""
    load = LoadMetrics(mailboxes={}, waiting={}, refused={}, body_bytes=0)
    text_metrics = {connect_attributes.metric(group) for group in connect_attributes.TEXTS}
    number_metrics = {
        connect_attributes.metric(group, name)
        for group, name in connect_attributes.exported_attributes()
        if name not in connect_attributes.TEXTS.get(group, ())
    }
    families = {*supervision.HELP, *java_plugins.HELP}
    clock = VirtualClock()
    tables = table_families(MetricsRegistry(clock, Windows(), in_group=False).current(), clock)
    families |= {
        family.name for family in (*load_families(load), *proof_families([]), *delivery_families({}), *tables)
    }
    return text_metrics | number_metrics | families | {connect_attributes.TASK_STATUS} | DEBEZIUM_METRICS


def expressions() -> Iterator[str]:
    yield from (rule["expr"] for rule in ALERTS.values())
    yield from (target["expr"] for panel in PANELS for target in panel["targets"])
    yield from (variable["definition"] for variable in VARIABLES.values() if variable["type"] == "query")


def test_rules_and_dashboard_use_existing_metrics() -> None:
    used_metrics = {name for expression in expressions() for name in METRIC.findall(expression)}
    assert len(used_metrics) > 40
    assert used_metrics - list_metrics() == set()


def test_metrics_of_the_test_series_exist() -> None:
    used_metrics = {
        name for case in TESTS for series in case["input_series"] for name in METRIC.findall(series["series"])
    }
    assert used_metrics - list_metrics() == set()


def test_every_alert_has_a_runbook() -> None:
    assert re.findall(r"^### (\w+)$", PAGE, re.MULTILINE) == list(ALERTS)


@pytest.mark.parametrize("name", ALERTS)
def test_alert_has_summary_severity_and_runbook(name: str) -> None:
    assert ALERTS[name]["labels"]["severity"] in {"critical", "warning"}
    assert ALERTS[name]["annotations"]["summary"]
    assert ALERTS[name]["annotations"]["runbook"] == f"docs/deploy/monitoring.md#{name.lower()}"


@pytest.mark.parametrize("name", ALERTS)
def test_alert_has_firing_and_silent_test_cases(name: str) -> None:
    expected = [e["exp_alerts"] for case in TESTS for e in case["alert_rule_test"] if e["alertname"] == name]
    assert any(expected)
    assert not all(expected)


def test_dashboard_queries_use_the_selected_data_source() -> None:
    queries = [*PANELS, *(target for panel in PANELS for target in panel["targets"])]
    queries += [variable for variable in VARIABLES.values() if variable["type"] == "query"]
    assert [query for query in queries if query["datasource"] != DATA_SOURCE] == []


def test_dashboard_queries_filter_by_the_selected_cluster() -> None:
    selectors = [text for panel in PANELS for text in re.findall(r"\{[^}]*\}", panel["targets"][0]["expr"])]
    assert selectors
    assert [selector for selector in selectors if 'job="$job", instance=~"$instance"' not in selector] == []


def test_dashboard_variables_are_defined() -> None:
    used_variables = set(re.findall(r"\$\{?(\w+)", json.dumps(BOARD)))
    assert used_variables - {"__rate_interval"} == set(VARIABLES)


def test_dashboard_panels_have_unique_titles_and_ids() -> None:
    titles_and_ids = [*(panel["title"] for panel in PANELS), *(panel["id"] for panel in BOARD["panels"])]
    assert [value for value, count in Counter(titles_and_ids).items() if count > 1] == []


def test_dashboard_panels_do_not_overlap() -> None:
    positions = [panel["gridPos"] for panel in BOARD["panels"]]
    assert all(0 <= position["x"] < position["x"] + position["w"] <= 24 for position in positions)
    cells = [
        Counter(itertools.product(range(p["x"], p["x"] + p["w"]), range(p["y"], p["y"] + p["h"])))
        for p in positions
    ]
    assert max(sum(cells, Counter()).values()) == 1
