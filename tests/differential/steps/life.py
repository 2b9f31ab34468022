"""Steps that run, pause, stop, fail and restart a source and a sink."""

from __future__ import annotations

from tests.differential.allowances import (
    LIST_ORDER,
    VERSIONS,
    fields,
    offsets_in_any_order,
    status,
    whole,
)
from tests.differential.configs import creation, sink, source
from tests.differential.exchange import DISTRIBUTED
from tests.differential.script import append, ask, family, has, listed_states, state, states
from tests.differential.script import status as has_status

_RUNNING = states("RUNNING", "RUNNING")
_ONE = "/connectors/lines"
_SINK = "/connectors/copier-TAG"
_BAD = "/connectors/broken-TAG"
_OF_A_FAILURE = (fields("traces", "trace"), VERSIONS)

_OFFSETS = offsets_in_any_order("offsets-order")

_SOURCE = [
    ask(
        "create",
        "POST /connectors",
        creation("lines", source("lines", tasks_max="2")),
        before=append("lines.in", "one\ntwo\n"),
    ),
    ask("running", f"GET {_ONE}/status", until=_RUNNING),
    ask("info", f"GET {_ONE}"),
    ask("tasks", f"GET {_ONE}/tasks"),
    ask("task status", f"GET {_ONE}/tasks/0/status", until=state("RUNNING")),
    ask("status of a missing task", f"GET {_ONE}/tasks/1/status"),
    ask("restart of a missing task", f"POST {_ONE}/tasks/1/restart", only=DISTRIBUTED),
    ask("offsets", f"GET {_ONE}/offsets", until=has("position")),
    ask("topics", f"GET {_ONE}/topics", until=has("lines-TAG")),
    ask(
        "alter offsets while running",
        f"PATCH {_ONE}/offsets",
        {"offsets": [{"partition": {"filename": "DIR/lines.in"}, "offset": {"position": 0}}]},
    ),
    ask("reset offsets while running", f"DELETE {_ONE}/offsets"),
    ask("resume while running", f"PUT {_ONE}/resume"),
    ask("pause", f"PUT {_ONE}/pause"),
    ask("paused", f"GET {_ONE}/status", until=states("PAUSED", "PAUSED")),
    ask("pause while paused", f"PUT {_ONE}/pause"),
    ask("tasks while paused", f"GET {_ONE}/tasks"),
    ask("restart while paused", f"POST {_ONE}/restart"),
    ask("paused after a restart", f"GET {_ONE}/status", until=states("PAUSED", "PAUSED")),
    ask("restart all while paused", f"POST {_ONE}/restart?includeTasks=true"),
    ask(
        "paused after a restart with tasks",
        f"GET {_ONE}/status",
        None,
        VERSIONS,
        until=states("PAUSED", "PAUSED"),
    ),
    ask("reset offsets while paused", f"DELETE {_ONE}/offsets"),
    ask("reset topics", f"PUT {_ONE}/topics/reset", None, status("topics-reset", 202, 200)),
    ask("resume", f"PUT {_ONE}/resume", before=append("lines.in", "three\n")),
    ask("running after resume", f"GET {_ONE}/status", until=_RUNNING),
    ask("offsets after resume", f"GET {_ONE}/offsets", until=has(":14")),
    ask("topics after resume", f"GET {_ONE}/topics", until=has("lines-TAG")),
    ask("restart the connector", f"POST {_ONE}/restart"),
    ask("running after a restart", f"GET {_ONE}/status", until=_RUNNING),
    ask("restart a task", f"POST {_ONE}/tasks/0/restart"),
    ask("running after a task restart", f"GET {_ONE}/status", until=_RUNNING),
    ask(
        "restart only failed instances",
        f"POST {_ONE}/restart?onlyFailed=true",
        until=_RUNNING,
    ),
    ask(
        "restart only failed instances with tasks",
        f"POST {_ONE}/restart?includeTasks=true&onlyFailed=true",
        until=_RUNNING,
    ),
    ask("restart all", f"POST {_ONE}/restart?includeTasks=true"),
    ask("running after a restart with tasks", f"GET {_ONE}/status", until=_RUNNING),
    ask("restart all, with other flag values", f"POST {_ONE}/restart?includeTasks=TRUE&onlyFailed=no"),
    ask("running after other flag values", f"GET {_ONE}/status", until=_RUNNING),
    ask("restart with invalid flags", f"POST {_ONE}/restart?includeTasks=yes&onlyFailed=1&more=x"),
    ask("running after invalid flags", f"GET {_ONE}/status", until=_RUNNING),
    ask("another config", f"PUT {_ONE}/config", source("lines", tasks_max="1", batch_size="7")),
    ask("task configs are updated", f"GET {_ONE}/tasks", until=has('"batch.size":"7"')),
    ask("running with another config", f"GET {_ONE}/status", until=_RUNNING),
    ask("stop", f"PUT {_ONE}/stop"),
    ask("stopped", f"GET {_ONE}/status", until=states("STOPPED")),
    ask("tasks while stopped", f"GET {_ONE}/tasks"),
    ask("task status while stopped", f"GET {_ONE}/tasks/0/status"),
    ask("stop while stopped", f"PUT {_ONE}/stop"),
    ask("restart while stopped", f"POST {_ONE}/restart"),
    ask("stopped after a restart", f"GET {_ONE}/status", until=states("STOPPED")),
    ask("restart all while stopped", f"POST {_ONE}/restart?includeTasks=true"),
    ask("stopped after a restart with tasks", f"GET {_ONE}/status", until=states("STOPPED")),
    ask("offsets while stopped", f"GET {_ONE}/offsets"),
    ask("topics while stopped", f"GET {_ONE}/topics"),
    ask("pause while stopped", f"PUT {_ONE}/pause"),
    ask("paused without tasks", f"GET {_ONE}/status", until=states("PAUSED")),
    ask("restart all without tasks", f"POST {_ONE}/restart?includeTasks=true"),
    ask("paused without tasks after a restart", f"GET {_ONE}/status", until=states("PAUSED")),
    ask("another config without tasks", f"PUT {_ONE}/config", source("lines", tasks_max="1", batch_size="8")),
    ask("paused with another config", f"GET {_ONE}/status", until=states("PAUSED")),
    ask("tasks while paused without tasks", f"GET {_ONE}/tasks"),
    ask("resume after stop and pause", f"PUT {_ONE}/resume"),
    ask("running after stop and pause", f"GET {_ONE}/status", until=_RUNNING),
    ask("tasks have the config", f"GET {_ONE}/tasks", until=has('"batch.size":"8"')),
    ask("stop before deletion", f"PUT {_ONE}/stop"),
    ask("stopped before deletion", f"GET {_ONE}/status", until=states("STOPPED")),
    ask("delete", f"DELETE {_ONE}"),
    ask("status after deletion", f"GET {_ONE}/status", until=has_status(404)),
    ask("offsets after deletion", f"GET {_ONE}/offsets"),
    ask(
        "recreate in the state STOPPED",
        "POST /connectors",
        creation("lines", source("lines"), initial_state="STOPPED"),
    ),
    ask("offsets of the recreated connector", f"GET {_ONE}/offsets"),
]

_OF_A_SINK = [
    ask("create a sink", "POST /connectors", creation("copier-TAG", sink("copier", "lines-TAG"))),
    ask("the sink runs", f"GET {_SINK}/status", until=_RUNNING),
    ask("the sink's info", f"GET {_SINK}"),
    ask("the sink's tasks", f"GET {_SINK}/tasks"),
    ask("the sink commits", f"GET {_SINK}/offsets", None, _OFFSETS, until=has('"kafka_offset":3')),
    ask("the sink has a topic", f"GET {_SINK}/topics", until=has("lines-TAG")),
    ask(
        "alter offsets of a sink that runs",
        f"PATCH {_SINK}/offsets",
        {
            "offsets": [
                {
                    "partition": {"kafka_topic": "lines-TAG", "kafka_partition": 0},
                    "offset": {"kafka_offset": 1},
                }
            ]
        },
    ),
    ask("pause the sink", f"PUT {_SINK}/pause"),
    ask("the sink is paused", f"GET {_SINK}/status", until=states("PAUSED", "PAUSED")),
    ask("resume the sink", f"PUT {_SINK}/resume"),
    ask("the sink runs after resume", f"GET {_SINK}/status", until=_RUNNING),
    ask("restart all of the sink", f"POST {_SINK}/restart?includeTasks=true"),
    ask("the sink runs after a restart", f"GET {_SINK}/status", until=_RUNNING),
    ask("add a topic to the sink", f"PATCH {_SINK}/config", {"topics": "lines-TAG,more-TAG"}),
    ask("the sink's tasks have the topic", f"GET {_SINK}/tasks", until=has("more-TAG")),
    ask("the sink runs with the topic", f"GET {_SINK}/status", until=_RUNNING),
    ask("stop the sink", f"PUT {_SINK}/stop"),
    ask("the sink is stopped", f"GET {_SINK}/status", until=states("STOPPED")),
    ask("the sink's offsets while stopped", f"GET {_SINK}/offsets", None, _OFFSETS),
]

_FAILING = [
    ask(
        "create a sink that fails",
        "POST /connectors",
        creation("broken-TAG", sink("none/broken", "lines-TAG")),
    ),
    ask(
        "failed",
        f"GET {_BAD}/status",
        None,
        *_OF_A_FAILURE,
        until=states("RUNNING", "FAILED"),
    ),
    ask(
        "status of the failed task",
        f"GET {_BAD}/tasks/0/status",
        None,
        *_OF_A_FAILURE,
        until=state("FAILED"),
    ),
    # Before the restarts: after one, FAILED may still be the status of the former task, and a pause affects the
    # new one.
    ask("pause while failed", f"PUT {_BAD}/pause"),
    ask(
        "paused while failed",
        f"GET {_BAD}/status",
        None,
        *_OF_A_FAILURE,
        until=states("PAUSED", "FAILED"),
    ),
    ask("resume while failed", f"PUT {_BAD}/resume"),
    ask(
        "running while failed",
        f"GET {_BAD}/status",
        None,
        *_OF_A_FAILURE,
        until=states("RUNNING", "FAILED"),
    ),
    ask(
        "restart only a failed connector",
        f"POST {_BAD}/restart?onlyFailed=true",
        None,
        *_OF_A_FAILURE,
    ),
    ask(
        "restart failed tasks",
        f"POST {_BAD}/restart?includeTasks=true&onlyFailed=true",
        None,
        *_OF_A_FAILURE,
    ),
    ask(
        "failed after the restart",
        f"GET {_BAD}/status",
        None,
        *_OF_A_FAILURE,
        until=states("RUNNING", "FAILED"),
    ),
    ask(
        "the causes of all failures",
        "GET /connectors?expand=status&traces=causes",
        None,
        LIST_ORDER,
        fields("causes", "trace"),
        VERSIONS,
        until=listed_states("broken-", "RUNNING", "FAILED"),
    ),
    ask("restart the failed task", f"POST {_BAD}/tasks/0/restart", None, whole("restart-fails", 204, 500)),
    ask(
        "failed after the task restart",
        f"GET {_BAD}/status",
        None,
        *_OF_A_FAILURE,
        until=states("RUNNING", "FAILED"),
    ),
    ask("stop while failed", f"PUT {_BAD}/stop"),
    ask("stopped after a failure", f"GET {_BAD}/status", until=states("STOPPED")),
    ask("delete after a failure", f"DELETE {_BAD}"),
]

STEPS = [*family("source", _SOURCE), *family("sink", _OF_A_SINK), *family("failing", _FAILING)]
