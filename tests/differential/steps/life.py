"""The life cycle of a source and of a sink: running, paused, stopped, failed, restarted, with topics and offsets."""

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
    ask("it runs", f"GET {_ONE}/status", until=_RUNNING),
    ask("its info", f"GET {_ONE}"),
    ask("its tasks", f"GET {_ONE}/tasks"),
    ask("its task's status", f"GET {_ONE}/tasks/0/status", until=state("RUNNING")),
    ask("a task that it has not", f"GET {_ONE}/tasks/1/status"),
    ask("restart of a task that it has not", f"POST {_ONE}/tasks/1/restart", only=DISTRIBUTED),
    ask("it has offsets", f"GET {_ONE}/offsets", until=has("position")),
    ask("it has a topic", f"GET {_ONE}/topics", until=has("lines-TAG")),
    ask(
        "alter offsets while it runs",
        f"PATCH {_ONE}/offsets",
        {"offsets": [{"partition": {"filename": "DIR/lines.in"}, "offset": {"position": 0}}]},
    ),
    ask("reset offsets while it runs", f"DELETE {_ONE}/offsets"),
    ask("resume what runs", f"PUT {_ONE}/resume"),
    ask("pause", f"PUT {_ONE}/pause"),
    ask("it is paused", f"GET {_ONE}/status", until=states("PAUSED", "PAUSED")),
    ask("pause again", f"PUT {_ONE}/pause"),
    ask("it keeps its tasks", f"GET {_ONE}/tasks"),
    ask("restart while paused", f"POST {_ONE}/restart"),
    ask("it is paused as before", f"GET {_ONE}/status", until=states("PAUSED", "PAUSED")),
    ask("restart all while paused", f"POST {_ONE}/restart?includeTasks=true"),
    ask("and is paused again", f"GET {_ONE}/status", None, VERSIONS, until=states("PAUSED", "PAUSED")),
    ask("reset offsets while paused", f"DELETE {_ONE}/offsets"),
    ask("forget its topics", f"PUT {_ONE}/topics/reset", None, status("topics-reset", 202, 200)),
    ask("resume", f"PUT {_ONE}/resume", before=append("lines.in", "three\n")),
    ask("it runs on", f"GET {_ONE}/status", until=_RUNNING),
    ask("and reads on", f"GET {_ONE}/offsets", until=has(":14")),
    ask("its topic is known again", f"GET {_ONE}/topics", until=has("lines-TAG")),
    ask("restart its connector", f"POST {_ONE}/restart"),
    ask("it runs again", f"GET {_ONE}/status", until=_RUNNING),
    ask("restart a task", f"POST {_ONE}/tasks/0/restart"),
    ask("the task runs again", f"GET {_ONE}/status", until=_RUNNING),
    ask(
        "restart its connector by a 202",
        f"POST {_ONE}/restart?onlyFailed=true",
        until=_RUNNING,
    ),
    ask(
        "nothing has failed",
        f"POST {_ONE}/restart?includeTasks=true&onlyFailed=true",
        until=_RUNNING,
    ),
    ask("restart all", f"POST {_ONE}/restart?includeTasks=true"),
    ask("all run again", f"GET {_ONE}/status", until=_RUNNING),
    ask("restart all, in other letters", f"POST {_ONE}/restart?includeTasks=TRUE&onlyFailed=no"),
    ask("and again all run", f"GET {_ONE}/status", until=_RUNNING),
    ask("restart, with words that are no flags", f"POST {_ONE}/restart?includeTasks=yes&onlyFailed=1&more=x"),
    ask("once more all run", f"GET {_ONE}/status", until=_RUNNING),
    ask("another config", f"PUT {_ONE}/config", source("lines", tasks_max="1", batch_size="7")),
    ask("reaches its tasks", f"GET {_ONE}/tasks", until=has('"batch.size":"7"')),
    ask("and they run", f"GET {_ONE}/status", until=_RUNNING),
    ask("stop", f"PUT {_ONE}/stop"),
    ask("it is stopped", f"GET {_ONE}/status", until=states("STOPPED")),
    ask("it has no tasks", f"GET {_ONE}/tasks"),
    ask("its task has no status", f"GET {_ONE}/tasks/0/status"),
    ask("stop again", f"PUT {_ONE}/stop"),
    ask("restart what is stopped", f"POST {_ONE}/restart"),
    ask("it stays stopped", f"GET {_ONE}/status", until=states("STOPPED")),
    ask("restart all of what is stopped", f"POST {_ONE}/restart?includeTasks=true"),
    ask("and is stopped again", f"GET {_ONE}/status", until=states("STOPPED")),
    ask("it has its offsets", f"GET {_ONE}/offsets"),
    ask("and its topics", f"GET {_ONE}/topics"),
    ask("pause what is stopped", f"PUT {_ONE}/pause"),
    ask("then it is paused", f"GET {_ONE}/status", until=states("PAUSED")),
    ask("restart all of what has no tasks", f"POST {_ONE}/restart?includeTasks=true"),
    ask("it is paused as before that", f"GET {_ONE}/status", until=states("PAUSED")),
    ask("another config without tasks", f"PUT {_ONE}/config", source("lines", tasks_max="1", batch_size="8")),
    ask("it is paused with it", f"GET {_ONE}/status", until=states("PAUSED")),
    ask("it has no tasks yet", f"GET {_ONE}/tasks"),
    ask("resume what had been stopped", f"PUT {_ONE}/resume"),
    ask("it runs with its tasks", f"GET {_ONE}/status", until=_RUNNING),
    ask("which have the config", f"GET {_ONE}/tasks", until=has('"batch.size":"8"')),
    ask("and stop", f"PUT {_ONE}/stop"),
    ask("it is stopped once more", f"GET {_ONE}/status", until=states("STOPPED")),
    ask("delete", f"DELETE {_ONE}"),
    ask("no status is left", f"GET {_ONE}/status", until=has_status(404)),
    ask("no offsets are shown", f"GET {_ONE}/offsets"),
    ask(
        "create it again, stopped",
        "POST /connectors",
        creation("lines", source("lines"), initial_state="STOPPED"),
    ),
    ask("its offsets are as before", f"GET {_ONE}/offsets"),
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
    ask("the sink runs on", f"GET {_SINK}/status", until=_RUNNING),
    ask("restart all of the sink", f"POST {_SINK}/restart?includeTasks=true"),
    ask("all of the sink runs", f"GET {_SINK}/status", until=_RUNNING),
    ask("the sink gets another topic", f"PATCH {_SINK}/config", {"topics": "lines-TAG,more-TAG"}),
    ask("which its tasks have", f"GET {_SINK}/tasks", until=has("more-TAG")),
    ask("the sink runs with it", f"GET {_SINK}/status", until=_RUNNING),
    ask("stop the sink", f"PUT {_SINK}/stop"),
    ask("the sink is stopped", f"GET {_SINK}/status", until=states("STOPPED")),
    ask("its offsets stay", f"GET {_SINK}/offsets", None, _OFFSETS),
]

_FAILING = [
    ask(
        "create a sink that fails",
        "POST /connectors",
        creation("broken-TAG", sink("none/broken", "lines-TAG")),
    ),
    ask(
        "its task has failed",
        f"GET {_BAD}/status",
        None,
        *_OF_A_FAILURE,
        until=states("RUNNING", "FAILED"),
    ),
    ask(
        "its task's status says why",
        f"GET {_BAD}/tasks/0/status",
        None,
        *_OF_A_FAILURE,
        until=state("FAILED"),
    ),
    ask(
        "nothing of its connector has failed",
        f"POST {_BAD}/restart?onlyFailed=true",
        None,
        *_OF_A_FAILURE,
    ),
    ask(
        "its task is restarted",
        f"POST {_BAD}/restart?includeTasks=true&onlyFailed=true",
        None,
        *_OF_A_FAILURE,
    ),
    ask("and fails again", f"GET {_BAD}/status", None, *_OF_A_FAILURE, until=states("RUNNING", "FAILED")),
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
        "restart the task that fails", f"POST {_BAD}/tasks/0/restart", None, whole("restart-fails", 204, 500)
    ),
    ask(
        "and it fails once more",
        f"GET {_BAD}/status",
        None,
        *_OF_A_FAILURE,
        until=states("RUNNING", "FAILED"),
    ),
    ask("pause what has failed", f"PUT {_BAD}/pause"),
    ask(
        "its connector is paused",
        f"GET {_BAD}/status",
        None,
        *_OF_A_FAILURE,
        until=states("PAUSED", "FAILED"),
    ),
    ask("resume what has failed", f"PUT {_BAD}/resume"),
    ask(
        "its connector runs",
        f"GET {_BAD}/status",
        None,
        *_OF_A_FAILURE,
        until=states("RUNNING", "FAILED"),
    ),
    ask("stop what has failed", f"PUT {_BAD}/stop"),
    ask("it is stopped like any other", f"GET {_BAD}/status", until=states("STOPPED")),
    ask("delete what has failed", f"DELETE {_BAD}"),
]

STEPS = [*family("source", _SOURCE), *family("sink", _OF_A_SINK), *family("failing", _FAILING)]
