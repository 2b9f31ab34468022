"""Table of the client's commands for `kraal.cli.main`; each is imported when it is used."""

from __future__ import annotations

from kraal.client.commands.lazy import Lazy

_HERE = "kraal.client.commands"

COMMANDS: dict[str, Lazy] = {
    "ls": Lazy(f"{_HERE}.ls", "ls"),
    "status": Lazy(f"{_HERE}.status", "status"),
    "describe": Lazy(f"{_HERE}.describe", "describe"),
    "apply": Lazy(f"{_HERE}.apply", "apply_command"),
    "diff": Lazy(f"{_HERE}.diff", "diff"),
    "patch": Lazy(f"{_HERE}.patch", "patch"),
    "restart": Lazy(f"{_HERE}.restart", "restart"),
    "pause": Lazy(f"{_HERE}.target_state", "pause"),
    "resume": Lazy(f"{_HERE}.target_state", "resume"),
    "stop": Lazy(f"{_HERE}.target_state", "stop"),
    "delete": Lazy(f"{_HERE}.delete", "delete"),
    "offsets": Lazy(f"{_HERE}.offsets", "offsets"),
    "topics": Lazy(f"{_HERE}.topics", "topics"),
    "plugins": Lazy(f"{_HERE}.plugins", "plugins"),
    "assignments": Lazy(f"{_HERE}.assignments", "assignments"),
    "loggers": Lazy(f"{_HERE}.loggers", "loggers"),
    "completion": Lazy(f"{_HERE}.completion", "completion"),
}
"""Commands by name, in the order in which `--help` lists them."""
