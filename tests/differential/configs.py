"""Configs that the script's connectors have."""

from __future__ import annotations

from typing import Any, Final

SOURCE: Final = "FileStreamSource"
SINK: Final = "FileStreamSink"
Config = dict[str, Any]


def source(name: str, /, **more: Any) -> Config:
    """A source that reads `NAME.in` of the worker's directory into the topic `NAME-TAG`."""
    return {"connector.class": SOURCE, "file": f"DIR/{name}.in", "topic": f"{name}-TAG", **_keys(more)}


def sink(name: str, topics: str, /, **more: Any) -> Config:
    """A sink that writes `NAME.out` of the worker's directory."""
    return {"connector.class": SINK, "file": f"DIR/{name}.out", "topics": topics, **_keys(more)}


def creation(name: str, config: Config, /, **more: Any) -> dict[str, Any]:
    """The body of `POST /connectors`."""
    return {"name": name, "config": config, **more}


def idle(name: str, /, **more: Any) -> dict[str, Any]:
    """The body that creates a connector which only is there: a stopped source."""
    return creation(name, source(name, **more), initial_state="STOPPED")


def _keys(more: Config) -> Config:
    """`tasks_max` is how Python spells `tasks.max`."""
    return {key.replace("_", "."): value for key, value in more.items()}
