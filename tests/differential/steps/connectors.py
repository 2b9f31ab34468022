"""`/connectors` and `/connectors/{c}`, its config and its tasks: create, read, change and delete."""

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

_LISTED = (missing_in_text("other-connectors"), own_plugins("own-plugins"))

_OWN_TEXT = in_standalone(error("unknown-in-standalone", 500, 404))

_UNKNOWN = [
    ask("GET of none", "GET /connectors/none"),
    ask("config of none", "GET /connectors/none/config"),
    ask("tasks of none", "GET /connectors/none/tasks"),
    ask("status of none", "GET /connectors/none/status"),
    ask("a task's status of none", "GET /connectors/none/tasks/0/status"),
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
    ask("restart of none", "POST /connectors/none/restart", None, _OWN_TEXT),
    ask("restart of none with tasks", "POST /connectors/none/restart?includeTasks=true"),
    ask("restart of what failed of none", "POST /connectors/none/restart?onlyFailed=true"),
    ask("restart of a task of none", "POST /connectors/none/tasks/0/restart", None, _OWN_TEXT),
    ask("DELETE of the offsets of none", "DELETE /connectors/none/offsets"),
    ask(
        "PATCH of the offsets of none",
        "PATCH /connectors/none/offsets",
        {"offsets": [{"partition": {"filename": "f"}, "offset": {"position": 1}}]},
    ),
]

_TASKS = ("1", "-1", "+1", "007", "%31")
_NO_TASKS = ("x", "1.0", "2147483648", "%20")
_TASK_IDS = [
    ask(f"status of task {task}", f"GET /connectors/none/tasks/{task}/status")
    for task in (*_TASKS, *_NO_TASKS)
]
_RESTARTS_OF_TASKS = [
    *(
        ask(f"restart of task {task}", f"POST /connectors/none/tasks/{task}/restart", None, _OWN_TEXT)
        for task in _TASKS
    ),
    *(ask(f"restart of task {task}", f"POST /connectors/none/tasks/{task}/restart") for task in _NO_TASKS),
]

_REFUSED = [
    ask("a name that is empty", "POST /connectors", creation("", source("x"))),
    ask("a name of blanks", "POST /connectors", creation("  ", source("x"))),
    ask("a name that is null", "POST /connectors", {"name": None, "config": source("x")}),
    ask("no name", "POST /connectors", {"config": source("x")}),
    ask("a name only in the config", "POST /connectors", {"config": {**source("x"), "name": "other"}}),
    ask("two names", "POST /connectors", creation("one", {**source("x"), "name": "two"})),
    ask("control characters in a name", "POST /connectors", creation("a\nb\u0001", source("x"))),
    ask("no class", "POST /connectors", creation("x", {"file": "f", "topic": "t"})),
    ask("an empty config", "POST /connectors", creation("x", {})),
    ask("a blank class", "POST /connectors", creation("x", {"connector.class": " "}), *_LISTED),
    ask("an unknown class", "POST /connectors", creation("x", {"connector.class": "none.Such"}), *_LISTED),
    ask(
        "a class that is a converter",
        "POST /connectors",
        creation("x", {"connector.class": "org.apache.kafka.connect.storage.StringConverter"}),
        *_LISTED,
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
        "a sink with both kinds of topics",
        "POST /connectors",
        creation("x", sink("x", "a", topics_regex="b")),
    ),
    ask(
        "a sink with a bad expression",
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
    ask("PUT of errors", "PUT /connectors/x/config", source("x", tasks_max="a")),
    ask("none of them is there", "GET /connectors"),
]

_NUMBERS = only_kraal_has("progress", "progress")

_CONFIGS = [
    ask("create one that does nothing", "POST /connectors", idle("plain")),
    ask("it is there", "GET /connectors/plain", until=status(200)),
    ask("its config", "GET /connectors/plain/config"),
    ask("its dead letters", "GET /connectors/plain/dead-letters", None, whole("dead-letters", 404, 404)),
    ask(
        "its dead letters again",
        "POST /connectors/plain/dead-letters/replay",
        {"limit": 1, "from": {"0": 17}},
        whole("dead-letters", 404, 404),
    ),
    ask("the plugins it names", "GET /connectors/plain/plugins", None, whole("plugins-it-names", 404, 200)),
    ask("its explanation", "GET /connectors/plain/explain", None, whole("explain", 404, 200)),
    ask("its history", "GET /connectors/plain/history", None, whole("history", 404, 200)),
    ask("its configs", "GET /connectors/plain/configs", None, whole("configs", 404, 200)),
    ask("its log lines", "GET /connectors/plain/logs", None, whole("logs", 404, 200)),
    ask("its tasks", "GET /connectors/plain/tasks"),
    ask("its status", "GET /connectors/plain/status", until=states("STOPPED")),
    ask("its status with numbers", "GET /connectors/plain/status?expand=progress", None, _NUMBERS),
    ask("its numbers of late", "GET /connectors/plain/series", None, whole("series", 404, 200)),
    ask("those since a time", "GET /connectors/plain/series?since_ms=1", None, whole("series", 404, 200)),
    ask("HEAD of it", "HEAD /connectors/plain"),
    ask("HEAD of its config", "HEAD /connectors/plain/config"),
    ask("a query that means nothing", "GET /connectors/plain?expand=status"),
    ask("create it again", "POST /connectors", idle("plain")),
    ask("create it again, with errors", "POST /connectors", creation("plain", {"connector.class": SOURCE})),
    ask("a name with blanks around", "POST /connectors", idle("  trimmed\t")),
    ask("is trimmed", "GET /connectors/trimmed", until=status(200)),
    ask(
        "values that are no texts",
        "PUT /connectors/plain/config",
        source("plain", tasks_max=2, flag=True, real=1.50, big=12345678901234567890),
    ),
    ask("become texts", "GET /connectors/plain/config"),
    ask("the same again", "PUT /connectors/plain/config", source("plain", tasks_max=2, flag=True)),
    ask("null values", "PUT /connectors/plain/config", source("plain", note=None)),
    ask("stay null", "GET /connectors/plain/config"),
    ask(
        "the name may be in the config", "PUT /connectors/plain/config", {"name": "plain", **source("plain")}
    ),
    ask("patch one key", "PATCH /connectors/plain/config", {"note": "patched"}),
    ask("patch nothing", "PATCH /connectors/plain/config", {}),
    ask("patch a key away", "PATCH /connectors/plain/config", {"note": None}),
    ask("patch away what is not there", "PATCH /connectors/plain/config", {"note": None}),
    ask("patch with numbers", "PATCH /connectors/plain/config", {"tasks.max": 3, "note": False}),
    ask("patch with an error", "PATCH /connectors/plain/config", {"tasks.max": "x"}),
    ask("patch the class away", "PATCH /connectors/plain/config", {"connector.class": None}),
    ask("its config afterwards", "GET /connectors/plain/config"),
    ask("PUT creates", "PUT /connectors/put/config", source("put"), TASKS_LATER),
    ask(
        "asked through another name",
        "PUT /connectors/host/config",
        source("host"),
        header("location", "Location"),
        TASKS_LATER,
        headers={"Host": "elsewhere.example:1"},
    ),
    ask("all names", "GET /connectors", None, LIST_ORDER),
    ask("delete what was put", "DELETE /connectors/put"),
    ask("delete it again", "DELETE /connectors/put"),
    ask("delete the other", "DELETE /connectors/host"),
    ask("its status goes", "GET /connectors/put/status", until=status(404)),
    ask("the other's, too", "GET /connectors/host/status", until=status(404)),
    # A config change restarts the connector, which is UNASSIGNED meanwhile on both workers.
    ask("the first one has settled", "GET /connectors/plain/status", until=states("STOPPED")),
    ask("all with infos", "GET /connectors?expand=info", None, LIST_ORDER),
    ask("all with states", "GET /connectors?expand=status", None, LIST_ORDER, until=has("trimmed")),
    ask("all with both", "GET /connectors?expand=status&expand=info", None, LIST_ORDER),
    ask(
        "all with both, the other way round",
        "GET /connectors?expand=info&expand=status",
        None,
        LIST_ORDER,
    ),
    ask("all with numbers", "GET /connectors?expand=progress", None, _NUMBERS, LIST_ORDER),
    ask(
        "all with numbers and infos",
        "GET /connectors?expand=progress&expand=info",
        None,
        _NUMBERS,
        LIST_ORDER,
    ),
    ask("expanded by what there is not", "GET /connectors?expand=none", None, LIST_ORDER),
    ask("expanded by nothing", "GET /connectors?expand=", None, LIST_ORDER),
    ask("expanded twice", "GET /connectors?expand=info&expand=info", None, LIST_ORDER),
    ask(
        "patch another name",
        "PATCH /connectors/trimmed/config",
        {"name": "drifted"},
        whole("patch-name", 200, 400),
    ),
    ask("delete the trimmed one", "DELETE /connectors/trimmed"),
    ask("delete the plain one", "DELETE /connectors/plain"),
    ask("it is gone", "GET /connectors/plain"),
    ask("its config is gone", "GET /connectors/plain/config"),
    ask("its tasks are gone", "GET /connectors/plain/tasks"),
]


STEPS = [
    *family("unknown connectors", _UNKNOWN, _TASK_IDS, _RESTARTS_OF_TASKS),
    *family("creating", _REFUSED),
    *family("configs", _CONFIGS),
]
