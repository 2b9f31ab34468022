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
_SOURCE = "/connectors/lines"
_SINK = "/connectors/copier-TAG"
_FAILING_SINK = "/connectors/broken-TAG"
_FAILURE_ALLOWANCES = (fields("traces", "trace"), VERSIONS)

_OFFSETS = offsets_in_any_order("offsets-order")

_SOURCE_STEPS = [
    ask(
        "create",
        "POST /connectors",
        creation("lines", source("lines", tasks_max="2")),
        before=append("lines.in", "one\ntwo\n"),
    ),
    ask("running", f"GET {_SOURCE}/status", until=_RUNNING),
    ask("info", f"GET {_SOURCE}"),
    ask("tasks", f"GET {_SOURCE}/tasks"),
    ask("task status", f"GET {_SOURCE}/tasks/0/status", until=state("RUNNING")),
    ask("status of a missing task", f"GET {_SOURCE}/tasks/1/status"),
    ask("restart of a missing task", f"POST {_SOURCE}/tasks/1/restart", only=DISTRIBUTED),
    ask("offsets", f"GET {_SOURCE}/offsets", until=has("position")),
    ask("topics", f"GET {_SOURCE}/topics", until=has("lines-TAG")),
    ask(
        "alter offsets while running",
        f"PATCH {_SOURCE}/offsets",
        {"offsets": [{"partition": {"filename": "DIR/lines.in"}, "offset": {"position": 0}}]},
    ),
    ask("reset offsets while running", f"DELETE {_SOURCE}/offsets"),
    ask("resume while running", f"PUT {_SOURCE}/resume"),
    ask("pause", f"PUT {_SOURCE}/pause"),
    ask("paused", f"GET {_SOURCE}/status", until=states("PAUSED", "PAUSED")),
    ask("pause while paused", f"PUT {_SOURCE}/pause"),
    ask("tasks while paused", f"GET {_SOURCE}/tasks"),
    ask("restart while paused", f"POST {_SOURCE}/restart"),
    ask("paused after a restart", f"GET {_SOURCE}/status", until=states("PAUSED", "PAUSED")),
    ask("restart all while paused", f"POST {_SOURCE}/restart?includeTasks=true"),
    ask(
        "paused after a restart with tasks",
        f"GET {_SOURCE}/status",
        None,
        VERSIONS,
        until=states("PAUSED", "PAUSED"),
    ),
    ask("reset offsets while paused", f"DELETE {_SOURCE}/offsets"),
    ask("reset topics", f"PUT {_SOURCE}/topics/reset", None, status("topics-reset", 202, 200)),
    ask("resume", f"PUT {_SOURCE}/resume", before=append("lines.in", "three\n")),
    ask("running after resume", f"GET {_SOURCE}/status", until=_RUNNING),
    ask("offsets after resume", f"GET {_SOURCE}/offsets", until=has(":14")),
    ask("topics after resume", f"GET {_SOURCE}/topics", until=has("lines-TAG")),
    ask("restart the connector", f"POST {_SOURCE}/restart"),
    ask("running after a restart", f"GET {_SOURCE}/status", until=_RUNNING),
    ask("restart a task", f"POST {_SOURCE}/tasks/0/restart"),
    ask("running after a task restart", f"GET {_SOURCE}/status", until=_RUNNING),
    ask(
        "restart only failed instances",
        f"POST {_SOURCE}/restart?onlyFailed=true",
        until=_RUNNING,
    ),
    ask(
        "restart only failed instances with tasks",
        f"POST {_SOURCE}/restart?includeTasks=true&onlyFailed=true",
        until=_RUNNING,
    ),
    ask("restart all", f"POST {_SOURCE}/restart?includeTasks=true"),
    ask("running after a restart with tasks", f"GET {_SOURCE}/status", until=_RUNNING),
    ask("restart all, with other flag values", f"POST {_SOURCE}/restart?includeTasks=TRUE&onlyFailed=no"),
    ask("running after other flag values", f"GET {_SOURCE}/status", until=_RUNNING),
    ask("restart with invalid flags", f"POST {_SOURCE}/restart?includeTasks=yes&onlyFailed=1&more=x"),
    ask("running after invalid flags", f"GET {_SOURCE}/status", until=_RUNNING),
    ask("another config", f"PUT {_SOURCE}/config", source("lines", tasks_max="1", batch_size="7")),
    ask("task configs are updated", f"GET {_SOURCE}/tasks", until=has('"batch.size":"7"')),
    ask("running with another config", f"GET {_SOURCE}/status", until=_RUNNING),
    ask("stop", f"PUT {_SOURCE}/stop"),
    ask("stopped", f"GET {_SOURCE}/status", until=states("STOPPED")),
    ask("tasks while stopped", f"GET {_SOURCE}/tasks"),
    ask("task status while stopped", f"GET {_SOURCE}/tasks/0/status"),
    ask("stop while stopped", f"PUT {_SOURCE}/stop"),
    ask("restart while stopped", f"POST {_SOURCE}/restart"),
    ask("stopped after a restart", f"GET {_SOURCE}/status", until=states("STOPPED")),
    ask("restart all while stopped", f"POST {_SOURCE}/restart?includeTasks=true"),
    ask("stopped after a restart with tasks", f"GET {_SOURCE}/status", until=states("STOPPED")),
    ask("offsets while stopped", f"GET {_SOURCE}/offsets"),
    ask("topics while stopped", f"GET {_SOURCE}/topics"),
    ask("pause while stopped", f"PUT {_SOURCE}/pause"),
    ask("paused without tasks", f"GET {_SOURCE}/status", until=states("PAUSED")),
    ask("restart all without tasks", f"POST {_SOURCE}/restart?includeTasks=true"),
    ask("paused without tasks after a restart", f"GET {_SOURCE}/status", until=states("PAUSED")),
    ask(
        "another config without tasks",
        f"PUT {_SOURCE}/config",
        source("lines", tasks_max="1", batch_size="8"),
    ),
    ask("paused with another config", f"GET {_SOURCE}/status", until=states("PAUSED")),
    ask("tasks while paused without tasks", f"GET {_SOURCE}/tasks"),
    ask("resume after stop and pause", f"PUT {_SOURCE}/resume"),
    ask("running after stop and pause", f"GET {_SOURCE}/status", until=_RUNNING),
    ask("tasks have the config", f"GET {_SOURCE}/tasks", until=has('"batch.size":"8"')),
    ask("stop before deletion", f"PUT {_SOURCE}/stop"),
    ask("stopped before deletion", f"GET {_SOURCE}/status", until=states("STOPPED")),
    ask("delete", f"DELETE {_SOURCE}"),
    ask("status after deletion", f"GET {_SOURCE}/status", until=has_status(404)),
    ask("offsets after deletion", f"GET {_SOURCE}/offsets"),
    ask(
        "recreate in the state STOPPED",
        "POST /connectors",
        creation("lines", source("lines"), initial_state="STOPPED"),
    ),
    ask("offsets of the recreated connector", f"GET {_SOURCE}/offsets"),
]

_SINK_STEPS = [
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

_FAILURE_STEPS = [
    ask(
        "create a sink that fails",
        "POST /connectors",
        creation("broken-TAG", sink("none/broken", "lines-TAG")),
    ),
    ask(
        "failed",
        f"GET {_FAILING_SINK}/status",
        None,
        *_FAILURE_ALLOWANCES,
        until=states("RUNNING", "FAILED"),
    ),
    ask(
        "status of the failed task",
        f"GET {_FAILING_SINK}/tasks/0/status",
        None,
        *_FAILURE_ALLOWANCES,
        until=state("FAILED"),
    ),
    # Pause before the restarts. After a restart, REST may still show FAILED from before it, so the step would match a
    # stale status while the pause already applies to the restarted task.
    ask("pause while failed", f"PUT {_FAILING_SINK}/pause"),
    ask(
        "paused while failed",
        f"GET {_FAILING_SINK}/status",
        None,
        *_FAILURE_ALLOWANCES,
        until=states("PAUSED", "FAILED"),
    ),
    ask("resume while failed", f"PUT {_FAILING_SINK}/resume"),
    ask(
        "running while failed",
        f"GET {_FAILING_SINK}/status",
        None,
        *_FAILURE_ALLOWANCES,
        until=states("RUNNING", "FAILED"),
    ),
    ask(
        "restart only a failed connector",
        f"POST {_FAILING_SINK}/restart?onlyFailed=true",
        None,
        *_FAILURE_ALLOWANCES,
    ),
    ask(
        "restart failed tasks",
        f"POST {_FAILING_SINK}/restart?includeTasks=true&onlyFailed=true",
        None,
        *_FAILURE_ALLOWANCES,
    ),
    ask(
        "failed after the restart",
        f"GET {_FAILING_SINK}/status",
        None,
        *_FAILURE_ALLOWANCES,
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
    ask(
        "restart the failed task",
        f"POST {_FAILING_SINK}/tasks/0/restart",
        None,
        whole("restart-fails", 204, 500),
    ),
    ask(
        "failed after the task restart",
        f"GET {_FAILING_SINK}/status",
        None,
        *_FAILURE_ALLOWANCES,
        until=states("RUNNING", "FAILED"),
    ),
    ask("stop while failed", f"PUT {_FAILING_SINK}/stop"),
    ask("stopped after a failure", f"GET {_FAILING_SINK}/status", until=states("STOPPED")),
    ask("delete after a failure", f"DELETE {_FAILING_SINK}"),
]

STEPS = [*family("source", _SOURCE_STEPS), *family("sink", _SINK_STEPS), *family("failing", _FAILURE_STEPS)]
