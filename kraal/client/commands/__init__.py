"""The client's commands, for `kraal.cli` to offer beside its own; each is imported when it is used."""

from __future__ import annotations

from kraal.commands import Lazy

_HERE = "kraal.client.commands"

COMMANDS: dict[str, Lazy] = {
    "ls": Lazy(f"{_HERE}.reading", "ls"),
    "status": Lazy(f"{_HERE}.reading", "status"),
    "describe": Lazy(f"{_HERE}.reading", "describe"),
    "apply": Lazy(f"{_HERE}.changing", "apply_command"),
    "diff": Lazy(f"{_HERE}.changing", "diff"),
    "patch": Lazy(f"{_HERE}.changing", "patch"),
    "restart": Lazy(f"{_HERE}.states", "restart"),
    "pause": Lazy(f"{_HERE}.states", "pause"),
    "resume": Lazy(f"{_HERE}.states", "resume"),
    "stop": Lazy(f"{_HERE}.states", "stop"),
    "delete": Lazy(f"{_HERE}.changing", "delete"),
    "offsets": Lazy(f"{_HERE}.offsets", "offsets"),
    "topics": Lazy(f"{_HERE}.others", "topics"),
    "plugins": Lazy(f"{_HERE}.others", "plugins"),
    "assignments": Lazy(f"{_HERE}.assignments", "assignments"),
    "loggers": Lazy(f"{_HERE}.others", "loggers"),
    "completion": Lazy(f"{_HERE}.completion", "completion"),
}
"""By name, in the order in which help shows them."""
