"""Configs of the script's connectors."""

from __future__ import annotations

from typing import Any, Final

SOURCE: Final = "FileStreamSource"
SINK: Final = "FileStreamSink"
Config = dict[str, Any]


def source(name: str, /, **extra: Any) -> Config:
    """Return the config of a source that copies `NAME.in` in the worker's directory to the topic `NAME-TAG`."""
    return {
        "connector.class": SOURCE,
        "file": f"DIR/{name}.in",
        "topic": f"{name}-TAG",
        **_to_config_keys(extra),
    }


def sink(name: str, topics: str, /, **extra: Any) -> Config:
    """Return the config of a sink that writes to `NAME.out` in the worker's directory."""
    return {"connector.class": SINK, "file": f"DIR/{name}.out", "topics": topics, **_to_config_keys(extra)}


def creation(name: str, config: Config, /, **extra: Any) -> dict[str, Any]:
    """Return the body of `POST /connectors`."""
    return {"name": name, "config": config, **extra}


def idle(name: str, /, **extra: Any) -> dict[str, Any]:
    """Return the body of `POST /connectors` that creates a stopped source."""
    return creation(name, source(name, **extra), initial_state="STOPPED")


def _to_config_keys(keywords: Config) -> Config:
    """Convert names of arguments such as `tasks_max` to config keys such as `tasks.max`."""
    return {key.replace("_", "."): value for key, value in keywords.items()}
