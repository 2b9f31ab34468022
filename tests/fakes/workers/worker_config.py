"""A minimal config of a distributed worker, and the worker settings that validation uses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from kraal.config.clients.overrides import OverridePolicy
from kraal.config.worker.distributed import DistributedConfig, parse_distributed

STRING_CONVERTER: Final = "org.apache.kafka.connect.storage.StringConverter"
GROUP: Final[Mapping[str, str]] = {
    "group.id": "cluster",
    "config.storage.topic": "configs",
    "offset.storage.topic": "offsets",
    "status.storage.topic": "statuses",
}
MINIMAL_CONFIG: Final[Mapping[str, str]] = {
    "bootstrap.servers": "a:1, b:2",
    **GROUP,
    "key.converter": STRING_CONVERTER,
    "value.converter": STRING_CONVERTER,
    "listeners": "http://127.0.0.1:8083",
}


def distributed(**settings: str) -> DistributedConfig:
    """Parse the minimal config with additional settings; `_` in their names represents a dot."""
    return parse_distributed(
        {**MINIMAL_CONFIG, **{key.replace("_", "."): value for key, value in settings.items()}}
    )


@dataclass(frozen=True)
class Defaults:
    """Worker settings for validation (`WorkerDefaults`)."""

    key_converter: str = STRING_CONVERTER
    value_converter: str = STRING_CONVERTER
    header_converter: str = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
    override_policy: OverridePolicy = OverridePolicy.ALL
    topic_creation: bool = True
    exactly_once_sources: bool = False
    group: str | None = None
    raw: Mapping[str, str] = field(default_factory=dict)
