"""Tests for KIP-745: the state RESTARTING in metrics."""

from __future__ import annotations

import re

from tests.kips.connect_cluster import ConnectCluster

NAME = "my-connector"
_STATUS = re.compile(
    r"^kafka_connect_connector(?:_task)?_metrics\{(.*)status=\"(\w+)\".*\} 1(?:\.0)?$", re.MULTILINE
)
_TASK = re.compile(r"task=\"(\d+)\"")


def parse_statuses(scrape: str) -> set[tuple[str, str]]:
    """Return the instances in a scrape, as `connector` or a task number, with their states."""
    states: set[tuple[str, str]] = set()
    for line in _STATUS.finditer(scrape):
        task = _TASK.search(line[0])
        states.add((task[1] if task else "connector", line[2]))
    return states


def test_metrics_report_restarting(connect: ConnectCluster) -> None:
    """All workers are scraped after each message, because each reports its own instances.

    > Add "restarting" as a possible value for this metric.

    > one of: "unassigned", "running", "paused", "failed", "restarting" or "destroyed"
    """
    connect.create(NAME, tasks=2)
    initial_statuses = {
        status for url in connect.workers() for status in parse_statuses(connect.get("/metrics", url).text)
    }
    assert initial_statuses == {("connector", "running"), ("0", "running"), ("1", "running")}
    path = f"/connectors/{NAME}/restart?includeTasks=true"
    _, scrapes = connect.request_and_watch(
        "POST", path, watch="/metrics", via=connect.leader(), on_all_workers=True
    )
    clock = connect.scheduler.clock
    end_s = clock.now() + 2.0
    while clock.now() < end_s:
        while connect.scheduler.step():
            scrapes += [connect.get_immediately("/metrics", url).body for url in connect.workers()]
        clock.advance_to(min(end_s, clock.next_due() or end_s))
    observed_states = set().union(*map(parse_statuses, scrapes))
    assert {("connector", "restarting"), ("0", "restarting"), ("1", "restarting")} <= observed_states
    connect.advance_until_idle()
    assert {
        status for url in connect.workers() for status in parse_statuses(connect.get("/metrics", url).text)
    } == initial_statuses
