"""Steps that create, read, change and delete connectors, their configs and their tasks."""

from __future__ import annotations

from tests.differential.allowances import (
    LIST_ORDER,
    TASKS_LATER,
    error,
    header,
    in_standalone,
    missing_in_text,
    only_kraal_has,
    own_plugins,
    whole,
)
from tests.differential.configs import SINK, SOURCE, creation, idle, sink, source
from tests.differential.script import ask, family, has, states, status

_LISTING_ALLOWANCES = (missing_in_text("other-connectors"), own_plugins("own-plugins"))

_UNKNOWN_IN_STANDALONE = in_standalone(error("unknown-in-standalone", 500, 404))

_UNKNOWN_CONNECTOR_STEPS = [
    ask("GET of none", "GET /connectors/none"),
    ask("config of none", "GET /connectors/none/config"),
    ask("tasks of none", "GET /connectors/none/tasks"),
    ask("status of none", "GET /connectors/none/status"),
    ask("task status of none", "GET /connectors/none/tasks/0/status"),
    ask("topics of none", "GET /connectors/none/topics"),
    ask("offsets of none", "GET /connectors/none/offsets"),
    ask("DELETE of none", "DELETE /connectors/none"),
    ask("PATCH of none", "PATCH /connectors/none/config", {"a": "b"}),
    ask("pause of none", "PUT /connectors/none/pause"),
    ask("resume of none", "PUT /connectors/none/resume"),
    ask(
        "stop of none",
        "PUT /connectors/none/stop",
        None,
        in_standalone(error("unknown-in-standalone", 500, 404)),
    ),
    ask("restart of none", "POST /connectors/none/restart", None, _UNKNOWN_IN_STANDALONE),
    ask("restart of none with tasks", "POST /connectors/none/restart?includeTasks=true"),
    ask("restart of failed instances of none", "POST /connectors/none/restart?onlyFailed=true"),
    ask("restart of a task of none", "POST /connectors/none/tasks/0/restart", None, _UNKNOWN_IN_STANDALONE),
    ask("DELETE of the offsets of none", "DELETE /connectors/none/offsets"),
    ask(
        "PATCH of the offsets of none",
        "PATCH /connectors/none/offsets",
        {"offsets": [{"partition": {"filename": "f"}, "offset": {"position": 1}}]},
    ),
]

_VALID_TASKS = ("1", "-1", "+1", "007", "%31")
_INVALID_TASKS = ("x", "1.0", "2147483648", "%20")
_TASK_ID_STEPS = [
    ask(f"status of task {task}", f"GET /connectors/none/tasks/{task}/status")
    for task in (*_VALID_TASKS, *_INVALID_TASKS)
]
_TASK_RESTART_STEPS = [
    *(
        ask(
            f"restart of task {task}",
            f"POST /connectors/none/tasks/{task}/restart",
            None,
            _UNKNOWN_IN_STANDALONE,
        )
        for task in _VALID_TASKS
    ),
    *(
        ask(f"restart of task {task}", f"POST /connectors/none/tasks/{task}/restart")
        for task in _INVALID_TASKS
    ),
]

_REJECTED_REQUEST_STEPS = [
    ask("an empty name", "POST /connectors", creation("", source("x"))),
    ask("a blank name", "POST /connectors", creation("  ", source("x"))),
    ask("a null name", "POST /connectors", {"name": None, "config": source("x")}),
    ask("no name", "POST /connectors", {"config": source("x")}),
    ask("a name only in the config", "POST /connectors", {"config": {**source("x"), "name": "other"}}),
    ask("two names", "POST /connectors", creation("one", {**source("x"), "name": "two"})),
    ask("control characters in a name", "POST /connectors", creation("a\nb\u0001", source("x"))),
    ask("no class", "POST /connectors", creation("x", {"file": "f", "topic": "t"})),
    ask("an empty config", "POST /connectors", creation("x", {})),
    ask("a blank class", "POST /connectors", creation("x", {"connector.class": " "}), *_LISTING_ALLOWANCES),
    ask(
        "an unknown class",
        "POST /connectors",
        creation("x", {"connector.class": "none.Such"}),
        *_LISTING_ALLOWANCES,
    ),
    ask(
        "a converter as the class",
        "POST /connectors",
        creation("x", {"connector.class": "org.apache.kafka.connect.storage.StringConverter"}),
        *_LISTING_ALLOWANCES,
    ),
    ask("no topic", "POST /connectors", creation("x", {"connector.class": SOURCE})),
    ask("tasks.max is a word", "POST /connectors", creation("x", source("x", tasks_max="zero"))),
    ask("tasks.max is 0", "POST /connectors", creation("x", source("x", tasks_max="0"))),
    ask("tasks.max is 0 as a number", "POST /connectors", creation("x", source("x", tasks_max=0))),
    ask("several errors", "POST /connectors", creation("x", source("x", tasks_max="-1", batch_size="x"))),
    ask(
        "an unknown converter",
        "POST /connectors",
        creation("x", source("x", value_converter="none.Converter")),
    ),
    ask("a sink without topics", "POST /connectors", creation("x", {"connector.class": SINK, "file": "f"})),
    ask(
        "a sink with topics and topics.regex",
        "POST /connectors",
        creation("x", sink("x", "a", topics_regex="b")),
    ),
    ask(
        "a sink with an invalid topics.regex",
        "POST /connectors",
        creation("x", {"connector.class": SINK, "topics.regex": "("}),
        error("regex", 400, 400),
    ),
    ask("an unknown transform", "POST /connectors", creation("x", source("x", transforms="a"))),
    ask("PUT of an empty config", "PUT /connectors/x/config", {}),
    ask("PUT with another name", "PUT /connectors/x/config", {**source("x"), "name": "y"}),
    ask(
        "PUT of an unknown class",
        "PUT /connectors/x/config",
        {"connector.class": "none.Such"},
        error("unknown-class", 400, 400),
    ),
    ask("PUT with errors", "PUT /connectors/x/config", source("x", tasks_max="a")),
    ask("list no connectors", "GET /connectors"),
]

_PROGRESS = only_kraal_has("progress", "progress")

_CONFIG_STEPS = [
    ask("create a stopped connector", "POST /connectors", idle("plain")),
    ask("read the connector", "GET /connectors/plain", until=status(200)),
    ask("read the config", "GET /connectors/plain/config"),
    ask("read the dead letters", "GET /connectors/plain/dead-letters", None, whole("dead-letters", 404, 404)),
    ask(
        "replay the dead letters",
        "POST /connectors/plain/dead-letters/replay",
        {"limit": 1, "from": {"0": 17}},
        whole("dead-letters", 404, 404),
    ),
    ask("read the plugins", "GET /connectors/plain/plugins", None, whole("plugins-it-names", 404, 200)),
    ask("read the explanation", "GET /connectors/plain/explain", None, whole("explain", 404, 200)),
    ask("read the proof", "GET /connectors/plain/proof", None, whole("proof", 404, 404)),
    ask(
        "prove since an invalid time", "POST /connectors/plain/proof?since=x", None, whole("proof", 404, 400)
    ),
    ask("read the ledger without one", "GET /connectors/plain/ledger"),
    ask("read the tables", "GET /connectors/plain/tables", None, whole("tables", 404, 200)),
    ask("read the history", "GET /connectors/plain/history", None, whole("history", 404, 200)),
    ask("read the config versions", "GET /connectors/plain/configs", None, whole("configs", 404, 200)),
    ask("read the log lines", "GET /connectors/plain/logs", None, whole("logs", 404, 200)),
    ask("read the tasks", "GET /connectors/plain/tasks"),
    ask("read the status", "GET /connectors/plain/status", until=states("STOPPED")),
    ask("read the status with progress", "GET /connectors/plain/status?expand=progress", None, _PROGRESS),
    ask("read the recent metrics", "GET /connectors/plain/series", None, whole("series", 404, 200)),
    ask(
        "read the metrics since a time",
        "GET /connectors/plain/series?since_ms=1",
        None,
        whole("series", 404, 200),
    ),
    ask("HEAD of the connector", "HEAD /connectors/plain"),
    ask("HEAD of the config", "HEAD /connectors/plain/config"),
    ask("an ignored query", "GET /connectors/plain?expand=status"),
    ask("create a duplicate", "POST /connectors", idle("plain")),
    ask("create a duplicate with errors", "POST /connectors", creation("plain", {"connector.class": SOURCE})),
    ask("a name with surrounding blanks", "POST /connectors", idle("  trimmed\t")),
    ask("the name is trimmed", "GET /connectors/trimmed", until=status(200)),
    ask(
        "values that are not strings",
        "PUT /connectors/plain/config",
        source("plain", tasks_max=2, flag=True, real=1.50, big=12345678901234567890),
    ),
    ask("values become strings", "GET /connectors/plain/config"),
    ask("an unchanged config", "PUT /connectors/plain/config", source("plain", tasks_max=2, flag=True)),
    ask("null values", "PUT /connectors/plain/config", source("plain", note=None)),
    ask("values stay null", "GET /connectors/plain/config"),
    ask("the name in the config", "PUT /connectors/plain/config", {"name": "plain", **source("plain")}),
    ask("patch one key", "PATCH /connectors/plain/config", {"note": "patched"}),
    ask("patch without changes", "PATCH /connectors/plain/config", {}),
    ask("patch to remove a key", "PATCH /connectors/plain/config", {"note": None}),
    ask("patch to remove a missing key", "PATCH /connectors/plain/config", {"note": None}),
    ask("patch with numbers", "PATCH /connectors/plain/config", {"tasks.max": 3, "note": False}),
    ask("patch with an error", "PATCH /connectors/plain/config", {"tasks.max": "x"}),
    ask("patch to remove the class", "PATCH /connectors/plain/config", {"connector.class": None}),
    ask("read the patched config", "GET /connectors/plain/config"),
    ask("PUT creates", "PUT /connectors/put/config", source("put"), TASKS_LATER),
    ask(
        "another Host header",
        "PUT /connectors/host/config",
        source("host"),
        header("location", "Location"),
        TASKS_LATER,
        headers={"Host": "elsewhere.example:1"},
    ),
    ask("all names", "GET /connectors", None, LIST_ORDER),
    ask("delete the connector of the PUT", "DELETE /connectors/put"),
    ask("delete a deleted connector", "DELETE /connectors/put"),
    ask("delete the connector of the Host header", "DELETE /connectors/host"),
    ask("status of the deleted connector", "GET /connectors/put/status", until=status(404)),
    ask("status of the other deleted connector", "GET /connectors/host/status", until=status(404)),
    # A config change restarts the connector, which is UNASSIGNED meanwhile on both workers.
    ask("status after config changes", "GET /connectors/plain/status", until=states("STOPPED")),
    ask("all with infos", "GET /connectors?expand=info", None, LIST_ORDER),
    ask("all with statuses", "GET /connectors?expand=status", None, LIST_ORDER, until=has("trimmed")),
    ask("all with statuses and infos", "GET /connectors?expand=status&expand=info", None, LIST_ORDER),
    ask(
        "all with infos and statuses",
        "GET /connectors?expand=info&expand=status",
        None,
        LIST_ORDER,
    ),
    ask("all with progress", "GET /connectors?expand=progress", None, _PROGRESS, LIST_ORDER),
    ask(
        "all with progress and infos",
        "GET /connectors?expand=progress&expand=info",
        None,
        _PROGRESS,
        LIST_ORDER,
    ),
    ask("expanded by an unknown value", "GET /connectors?expand=none", None, LIST_ORDER),
    ask("expanded by an empty value", "GET /connectors?expand=", None, LIST_ORDER),
    ask("expanded twice", "GET /connectors?expand=info&expand=info", None, LIST_ORDER),
    ask(
        "patch the name",
        "PATCH /connectors/trimmed/config",
        {"name": "drifted"},
        whole("patch-name", 200, 400),
    ),
    ask("delete the trimmed connector", "DELETE /connectors/trimmed"),
    ask("delete the plain connector", "DELETE /connectors/plain"),
    ask("read the deleted connector", "GET /connectors/plain"),
    ask("config of the deleted connector", "GET /connectors/plain/config"),
    ask("tasks of the deleted connector", "GET /connectors/plain/tasks"),
]


STEPS = [
    *family("unknown connectors", _UNKNOWN_CONNECTOR_STEPS, _TASK_ID_STEPS, _TASK_RESTART_STEPS),
    *family("creating", _REJECTED_REQUEST_STEPS),
    *family("configs", _CONFIG_STEPS),
]
