"""The least that the config of a distributed worker says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

STRING: Final = "org.apache.kafka.connect.storage.StringConverter"
GROUP: Final[Mapping[str, str]] = {
    "group.id": "cluster",
    "config.storage.topic": "configs",
    "offset.storage.topic": "offsets",
    "status.storage.topic": "statuses",
}
LEAST: Final[Mapping[str, str]] = {
    "bootstrap.servers": "a:1, b:2",
    **GROUP,
    "key.converter": STRING,
    "value.converter": STRING,
    "listeners": "http://127.0.0.1:8083",
}
