"""Commands of the client, imported on use, most of them from a module of the same name."""

from __future__ import annotations

from kraal.client.lazy import LazyCommand

_SUMMARIES = {
    "apply": "Create or update connectors from files.",
    "assignments": "Show workers and the connectors and tasks assigned to them.",
    "completion": "Print a shell completion script.",
    "delete": "Delete connectors but keep their offsets.",
    "describe": "Show all details of a connector.",
    "diff": "Show what `kraal apply` would change.",
    "explain": "Explain where a connector or task runs, and its state.",
    "ledger": "Show how many records the tasks of a connector have delivered.",
    "loggers": "Show and set log levels.",
    "ls": "List connectors.",
    "offsets": "Show and change the offsets of connectors.",
    "patch": "Change single keys of a connector config.",
    "pause": "Pause connectors.",
    "plugins": "List plugins and their keys; change the plugin lock.",
    "prove": "Prove that all records of a connector were delivered.",
    "restart": "Restart connectors and tasks.",
    "resume": "Resume paused or stopped connectors.",
    "status": "Show the status of connectors and tasks.",
    "stop": "Stop connectors and shut down their tasks.",
    "table": "Show the tables that a sink writes.",
    "top": "Show the record rates, backlogs, times and errors of tasks.",
    "topics": "Show or reset the topics that connectors use.",
    "wait": "Wait until connectors reach a state.",
}

_TARGET_STATES = frozenset({"pause", "resume", "stop"})

COMMANDS = {
    name: LazyCommand(
        "kraal.client.target_state" if name in _TARGET_STATES else f"{__name__}.{name}", name, summary
    )
    for name, summary in _SUMMARIES.items()
}
"""Commands by name."""
