"""Tests for the Prometheus rules and the Grafana dashboard with a real Prometheus server and a real worker."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest
import yaml

from kraal.broker.broker import Broker
from kraal.testing import ProcessCluster
from scripts.harness.processes import wait_until
from tests.fakes.spark.pipe import Pipe, create_topic
from tests.tools.prometheus import Prometheus, prometheus, promtool

pytestmark = pytest.mark.ci

DEPLOY: Final = Path(__file__).parents[3] / "deploy"
RULES: Final = DEPLOY / "prometheus" / "kraal.rules.yml"
CONFIG: Final = DEPLOY / "prometheus" / "prometheus.yml"
JSON_CONVERTER: Final = "org.apache.kafka.connect.json.JsonConverter"
SCRAPE_TIMEOUT_S: Final = 30.0
VARIABLES: Final = {"$job": "kraal", "$instance": ".*", "$connector": ".*", "$__rate_interval": "10s"}
CONDITION_SUFFIX: Final = re.compile(r"\s*(==|>) [\d.]+$| or vector\(0\)")
"""Matches suffixes that make a result empty although series exist, or non-empty although no series exist."""
EXPECTED_EMPTY: Final = re.compile(
    r"kraal_jvm_|debezium_"  # only with Java plugins
    r"|absent\("  # the worker responds
    r"|kraal_part_down"  # all components are up
    r"|kraal_delivery_"  # no proof was requested
    r"|kraal_table_"  # no sink writes tables
    r'|kafka_connect_connector_metrics\{[^}]*status="failed"'  # only a task has failed
)
"""Matches expressions without results in this scenario."""
LINT_EXIT_CODE: Final = 3
"""Exit code of promtool for valid metrics with lint warnings."""
LINTED_NAMES: Final = re.compile(r"kafka_connect_|kraal_task_(last_batch_age|next_restart_timestamp)_ms ")
"""Matches metric names of Connect, and of Kraal's metrics in milliseconds."""


def test_rule_files_are_valid_and_every_alert_fires() -> None:
    for command in (["check", "config", str(CONFIG)], ["test", "rules", str(RULES.with_suffix(".test.yml"))]):
        result = promtool(*command)
        assert result.returncode == 0, result.stdout + result.stderr


def test_compose_configuration_is_valid_with_the_mounted_rules(tmp_path: Path) -> None:
    root = DEPLOY.parent
    compose = yaml.safe_load((root / "compose.yaml").read_text(encoding="utf-8"))
    for mount in compose["services"]["prometheus"]["volumes"]:
        source, target, *_ = mount.split(":")
        if target.startswith("/etc/prometheus/"):
            shutil.copyfile(root / source, tmp_path / Path(target).name)
    result = promtool("check", "config", str(tmp_path / "prometheus.yml"))
    assert result.returncode == 0, result.stdout + result.stderr
    assert "1 rule files found" in result.stdout


def test_worker_exports_all_metrics_in_rules_and_dashboard(
    cluster: ProcessCluster, kafka: Broker, tmp_path: Path
) -> None:
    [worker] = cluster.workers
    pipe = Pipe(worker, tmp_path)
    pipe.source_file.touch()
    create_topic(kafka.bootstrap, pipe.topic)
    pipe.create()
    worker.create("failing", {**pipe.sink_config, "name": "failing", "file": str(tmp_path / "no" / "file")})
    worker.create(
        "dead", {**pipe.sink_config, **dead_letter_settings(), "name": "dead", "file": str(tmp_path / "dead")}
    )
    worker.wait_for_states("failing", ["RUNNING", "FAILED"])
    with prometheus(write_config(worker.url, tmp_path)) as server:
        dead_letter_count = make_sum_query(
            server, "kafka_connect_task_error_metrics_deadletterqueue_produce_requests"
        )
        wait_until("the counters were scraped", lambda: dead_letter_count() == 0, timeout_s=SCRAPE_TIMEOUT_S)
        expected = {"KraalTaskFailed": "pending"}
        wait_until(
            "the rules were evaluated", lambda: server.alerts() == expected, timeout_s=SCRAPE_TIMEOUT_S
        )
        pipe.write(100)
        wait_until(
            "dead letters were scraped", lambda: dead_letter_count() == 100, timeout_s=SCRAPE_TIMEOUT_S
        )
        sent_count = make_sum_query(server, "kafka_connect_sink_task_metrics_sink_record_send_total")
        wait_until(
            "records of the sink were scraped", lambda: sent_count() == 100, timeout_s=SCRAPE_TIMEOUT_S
        )
        wait_until(
            "the alert for dead letters fired",
            lambda: server.alerts().get("KraalDeadLetters") == "firing",
            timeout_s=SCRAPE_TIMEOUT_S,
        )
        assert server.rule_problems() == {}
        queries = [
            CONDITION_SUFFIX.sub("", expression)
            for expression in (*list_rule_expressions(), *list_dashboard_expressions())
        ]
        assert len(queries) > 70
        expected_queries = [query for query in queries if not EXPECTED_EMPTY.search(query)]
        # The results are empty until the next scrape if a scrape took too long.
        wait_until(
            "all queries had results",
            lambda: all(map(server.query, expected_queries)),
            timeout_s=SCRAPE_TIMEOUT_S,
        )
    metrics = httpx2.get(f"{worker.url}/metrics", timeout=SCRAPE_TIMEOUT_S, trust_env=False).text
    lint = promtool("check", "metrics", text=metrics)
    assert lint.returncode == LINT_EXIT_CODE, lint.stderr
    assert [line for line in lint.stderr.splitlines() if not LINTED_NAMES.match(line)] == []
    pipe.delete()


def dead_letter_settings() -> dict[str, str]:
    """Return settings with which each line becomes a dead letter, because the lines are not JSON."""
    queue = "errors.deadletterqueue.topic."
    return {
        "value.converter": JSON_CONVERTER,
        "errors.tolerance": "all",
        f"{queue}name": "dead-watched",
        f"{queue}replication.factor": "1",
    }


def write_config(url: str, directory: Path) -> Path:
    """Write the shipped configuration with the worker as target and short intervals."""
    config: dict[str, Any] = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))
    config["global"] = {"scrape_interval": "500ms", "evaluation_interval": "500ms"}
    config["rule_files"] = [str(CONFIG.parent / name) for name in config["rule_files"]]
    [job] = config["scrape_configs"]
    job["static_configs"] = [{"targets": [url.removeprefix("http://")]}]
    path = directory / "prometheus.yml"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return path


def make_sum_query(server: Prometheus, metric: str) -> Callable[[], float | None]:
    """Return a function that queries the sum of a metric. The function returns None if there is no series."""

    def query_sum() -> float | None:
        series = server.query(f"sum({metric})")
        return float(series[0]["value"][1]) if series else None

    return query_sum


def list_rule_expressions() -> Iterator[str]:
    """Yield the expressions of all rules."""
    for group in yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]:
        for rule in group["rules"]:
            yield rule["expr"]


def list_dashboard_expressions() -> Iterator[str]:
    """Yield the expressions of the dashboard, with values for its variables."""
    board = json.loads((DEPLOY / "grafana" / "kraal.json").read_text(encoding="utf-8"))
    expressions = [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]
    expressions += [annotation["expr"] for annotation in board["annotations"]["list"] if "expr" in annotation]
    for expression in expressions:
        for variable, value in VARIABLES.items():
            expression = expression.replace(variable, value)  # noqa: PLW2901
        yield expression
