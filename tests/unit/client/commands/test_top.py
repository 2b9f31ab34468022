"""Tests for `kraal top`: one-shot output (`--once`), JSON output and the live screen."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from kraal.client.commands.top import Top
from kraal.client.rest import Unreachable
from kraal.client.terminal.screen import Screen
from kraal.client.terminal.top_view import SORTS, Cluster, as_data, frame, parse_cluster, worker_sums
from kraal.testing._simulation.plugins import FAKE_SOURCE
from tests.fakes.workers.connect import Connect, QuickClock, ScriptedResponse
from tests.unit.client.conftest import Kraal

REQUEST = "/connectors?expand=status&expand=progress"
W1, W2 = "w1:8083", "w2:8083"


def task_metrics(task: int, **overrides: Any) -> dict[str, Any]:
    """Return the metrics of a task as reported by a worker."""
    errors = {"failed": overrides.pop("errors", 0), "skipped": 0, "logged": 0, "dead_lettered": 0}
    metrics = {"id": task, "worker_id": W1, "records_per_second": 0.0, "records_total": 0, "read_total": 0}
    metrics |= {"poll_ms": None, "write_ms": None, "commit_ms": None, "commits_total": 0, "errors": errors}
    return (
        metrics
        | {
            "backlog_records": None,
            "stalled": False,
            "stall_cause": None,
            "step_ms": None,
            "last_batch_age_ms": None,
        }
        | overrides
    )


def connector(
    *tasks: Mapping[str, Any],
    state: str = "RUNNING",
    task_metrics: Sequence[Mapping[str, Any]] | None = (),
    **progress_fields: Any,
) -> dict[str, Any]:
    """Return a connector on the first worker; `task_metrics` is None for a Java worker."""
    status = {"type": "sink", "connector": {"state": state, "worker_id": W1}, "tasks": [*tasks]}
    progress = {"tasks": task_metrics, "recent_records_per_second": [], "silent": [], **progress_fields}
    return {"status": status} | ({} if task_metrics is None else {"progress": progress})


def task(number: int, worker: str = W1, state: str = "RUNNING", trace: str | None = None) -> dict[str, Any]:
    return {"id": number, "worker_id": worker, "state": state} | ({"trace": trace} if trace else {})


RESPONSE = {
    "fast": connector(
        task(0), task_metrics=[task_metrics(0, records_per_second=1234.56, records_total=98765, poll_ms=3.21)]
    ),
    "behind": connector(
        task(0),
        task(1, W2, "FAILED", "x.ConnectException: no\n\tat a.b\nCaused by: OSError: full\n\tat x"),
        task_metrics=[
            task_metrics(0, records_per_second=2.0, backlog_records=5000, stalled=True, step_ms=310_000),
            task_metrics(1, errors=7, last_batch_age_ms=7_300_000),
        ],
    ),
    "paused": connector(state="PAUSED"),
}
LINES = f"""\
WORKER    CONNECTORS           TASKS     REC/S   BACKLOG
{W1}            3             2/2   1,236.6     5,000
{W2}            0   0/1, 1 failed       0.0         -

NAME     TASK   STATE     WORKER      REC/S   BACKLOG   POLL MS   WRITE MS   COMMIT MS   ERRORS   AGE   NOTE
fast        0   RUNNING   {W1}   1,234.6         -       3.2          -           -        0     -
behind      0   RUNNING   {W1}       2.0     5,000         -          -           -        0     -   stalled for 5m
behind      1   FAILED    {W2}       0.0         -         -          -           -        7    2h   OSError: full
paused      -   PAUSED    {W1}         -         -         -          -           -        -     -
"""


def test_metrics_are_printed_once_to_a_pipe(kraal: Kraal) -> None:
    kraal.connect.script("GET", REQUEST, ScriptedResponse(200, RESPONSE))
    assert kraal.out("top") == LINES
    assert kraal.connect.requests() == [f"GET {REQUEST}"]


def test_kraal_worker_shows_metrics(kraal: Kraal, worker: Connect) -> None:
    worker.create("orders", {"connector.class": FAKE_SOURCE})
    [row] = json.loads(kraal.out("top", "-o", "json"))["tasks"]
    assert (row["connector"], row["task"], row["state"]) == ("orders", 0, "RUNNING")
    assert row["progress"]["records_total"] == 0


def test_json_output_has_the_unrounded_metrics(kraal: Kraal) -> None:
    kraal.connect.script("GET", REQUEST, ScriptedResponse(200, RESPONSE))
    metrics = json.loads(kraal.out("top", "behind", "--once", "-o", "json", "--sort", "errors"))
    assert metrics["silent"] == []
    assert [(row["connector"], row["task"], row["worker_id"], row["trace"]) for row in metrics["tasks"]] == [
        ("behind", 1, W2, "OSError: full"),
        ("behind", 0, W1, None),
    ]
    assert metrics["tasks"][1]["progress"] == RESPONSE["behind"]["progress"]["tasks"][0]
    assert metrics["workers"][1] == {
        "worker_id": W2, "connectors": 0, "tasks": 1, "running": 0, "failed": 1,
        "records_per_second": 0.0, "backlog_records": None,
    }  # fmt: skip


def test_java_workers_show_only_states(kraal: Kraal) -> None:
    kraal.connect.script(
        "GET", REQUEST, ScriptedResponse(200, {"orders": connector(task(0), task_metrics=None)})
    )
    assert kraal.out("top").splitlines()[-1].split() == ["orders", "0", "RUNNING", W1, *"-------"]


@pytest.mark.parametrize(
    ("patterns", "names"),
    [(["*a*"], {"fast", "paused"}), (["fast", "behind"], {"fast", "behind"}), (["FAST"], set())],
)
def test_patterns_select_connectors(patterns: list[str], names: set[str]) -> None:
    assert {row.name for row in parse_cluster(RESPONSE, patterns).rows} == names


@pytest.mark.parametrize(
    ("sort", "first_row"),
    [
        ("rate", ("fast", 0)),
        ("backlog", ("behind", 0)),
        ("errors", ("behind", 1)),
        ("age", ("behind", 1)),
        ("state", ("behind", 1)),
        ("worker", ("behind", 0)),
        ("name", ("behind", 0)),
    ],
)
def test_sort_order_determines_the_first_row(sort: str, first_row: tuple[str, int]) -> None:
    rows = SORTS[sort].sorted(parse_cluster(RESPONSE).rows)
    assert (rows[0].name, rows[0].task) == first_row
    assert len(rows) == 4


def test_empty_connector_list_is_accepted(kraal: Kraal) -> None:
    result = kraal("top")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "No connectors.\n")


def test_unreachable_worker_is_an_error(kraal: Kraal) -> None:
    assert "Cannot connect to" in kraal.error("top", "--url", "http://127.0.0.1:1")


def draw_frame(
    cluster: Cluster, *, sort: str = "rate", problem: str = "", columns: int = 200, lines: int = 40
) -> list[str]:
    return frame("title", cluster, SORTS[sort], problem, columns=columns, lines=lines)


def test_frame_has_title_order_workers_and_tasks() -> None:
    lines = draw_frame(parse_cluster(RESPONSE), sort="backlog")
    assert lines[0] == "title"
    assert lines[1] == "sort by: r rate   [b backlog]   e errors   a age   s state   w worker   n name"
    assert lines[3].startswith("WORKER")
    assert lines[8].startswith("behind      0")
    assert len(lines) == 12


def test_frame_fits_the_screen() -> None:
    connectors = {
        f"c{i}": connector(task(0, f"host{i}:8083"), task_metrics=[task_metrics(0)]) for i in range(50)
    }
    lines = draw_frame(parse_cluster(connectors), columns=30, lines=24)
    assert len(lines) == 23
    assert max(map(len, lines)) == 30
    assert "… 45 more workers" in lines
    assert lines[-1] == "… 41 more tasks"


def test_small_screen_shows_counts_of_omitted_rows() -> None:
    connectors = {
        f"c{i}": connector(task(0, f"host{i}:8083"), task_metrics=[task_metrics(0)]) for i in range(50)
    }
    lines = draw_frame(parse_cluster(connectors), lines=4)
    assert "… 51 more workers" in lines
    assert lines[-1] == "… 50 more tasks"


def test_frame_shows_unknown_metrics() -> None:
    connectors = {"a": connector(task(0, W2), silent=[W2]), "b": connector(task(0, W2), silent=[W2])}
    lines = draw_frame(parse_cluster(connectors), problem="w1 returned 503")
    assert lines[2:4] == [
        "w1 returned 503; showing the last known metrics",
        f"no metrics from {W2}: stopped, or Java workers",
    ]
    assert draw_frame(parse_cluster({}))[-1] == "No connectors."


def test_control_characters_in_names_are_escaped() -> None:
    lines = draw_frame(parse_cluster({"a\x1b[2J": connector(task(0), task_metrics=[task_metrics(0)])}))
    assert "\x1b" not in "".join(lines)


def test_tasks_without_a_worker_have_separate_totals() -> None:
    cluster_without_workers = parse_cluster({"a": connector({"id": 0, "state": "UNASSIGNED"})})
    assert [
        (totals["worker_id"], totals["tasks"], totals["running"])
        for totals in worker_sums(cluster_without_workers)
    ] == [
        ("-", 1, 0),
        (W1, 0, 0),
    ]
    assert as_data(cluster_without_workers, SORTS["name"])["tasks"][0]["progress"] is None


class Terminal:
    """A terminal that records frames and plays a sequence of keys."""

    def __init__(self, clock: QuickClock, *keys: str) -> None:
        self.frames: list[str] = []
        self.keys = [*keys]
        self.waits: list[float] = []
        self.clock = clock
        self.screen = Screen(self.frames.append, lambda: (200, 40))

    def wait(self, seconds: float) -> str:
        """Return the next key, or an empty string after the timeout."""
        self.waits.append(seconds)
        key = self.keys.pop(0)
        self.clock.pause(seconds if not key else 0.5)
        return key

    def first_names(self) -> list[str]:
        """Return the connector name in the first task row of each frame."""
        return [match[1] for text in self.frames if (match := re.search(r"\nNAME .*\n(\w+)", text))]


def test_keys_change_the_order_without_a_request(clock: QuickClock) -> None:
    polls = iter([parse_cluster(RESPONSE), parse_cluster({"other": RESPONSE["fast"]})])
    terminal = Terminal(clock, "b", "x", "", "q")
    Top(lambda: next(polls), clock, 2.0, sort="rate", url="http://w").run(terminal.screen, terminal.wait)
    assert terminal.first_names() == ["fast", "behind", "behind", "other"]
    assert terminal.waits == [2.0, 1.5, 1.0, 2.0]


def test_top_continues_while_the_worker_is_unreachable(clock: QuickClock) -> None:
    def poll() -> Cluster:
        if len(terminal.waits) == 1:
            raise Unreachable("Cannot connect to w1")
        return parse_cluster(RESPONSE)

    terminal = Terminal(clock, "", "", "q")
    Top(poll, clock, 2.0, sort="rate", url="http://w").run(terminal.screen, terminal.wait)
    assert ["showing the last known" in text for text in terminal.frames] == [False, False, True, False]
    assert terminal.first_names() == ["fast"] * 3
