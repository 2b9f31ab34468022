"""Fakes of Connect's own plugins, with their names and keys but without behavior."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from typing_extensions import override

from kraal.config.clients.overrides import OverridePolicy
from kraal.config.key import ConfigDef
from kraal.connectors.file.config import FILE_SINK, FILE_SOURCE
from kraal.converters.json.config import JSON_CONVERTER
from kraal.converters.primitive.config import BYTE_ARRAY_CONVERTER, STRING_CONVERTER
from kraal.core.connect_version import CONNECT_VERSION
from kraal.plugins.api import (
    Connector,
    ConnectorContext,
    Converter,
    Predicate,
    SinkTask,
    SourceTask,
    Transformation,
)
from kraal.plugins.entries import PREDICATES_GROUP, TRANSFORMS_GROUP, installed
from kraal.plugins.registry import Registry

if TYPE_CHECKING:
    from kraal.plugins.model.schema import Schema

FILE_PACKAGE = "org.apache.kafka.connect.file"
SOURCE_CLASS = f"{FILE_PACKAGE}.FileStreamSourceConnector"
SINK_CLASS = f"{FILE_PACKAGE}.FileStreamSinkConnector"
JSON_CLASS = "org.apache.kafka.connect.json.JsonConverter"
STRING_CLASS = "org.apache.kafka.connect.storage.StringConverter"
SIMPLE_CONVERTERS = ("Boolean", "ByteArray", "Double", "Float", "Integer", "Long", "Short")


class FakeSource(Connector):
    """A file source that cannot be started."""

    kind: ClassVar[Literal["source", "sink"]] = "source"
    version: ClassVar[str] = CONNECT_VERSION
    config_def: ClassVar[ConfigDef] = FILE_SOURCE
    task_class: ClassVar[type[SourceTask | SinkTask]] = SourceTask

    @override
    def exactly_once_support(self, config: Mapping[str, str]) -> bool:
        return bool(FILE_SOURCE.parse(config)["file"])

    @override
    def start(self, config: Mapping[str, str], context: ConnectorContext) -> None:
        raise NotImplementedError

    @override
    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        raise NotImplementedError


class FakeSink(FakeSource):
    """A file sink that cannot be started."""

    kind: ClassVar[Literal["source", "sink"]] = "sink"
    config_def: ClassVar[ConfigDef] = FILE_SINK
    task_class: ClassVar[type[SourceTask | SinkTask]] = SinkTask


class FakeConverter(Converter):
    """A converter that only declares keys."""

    version: ClassVar[str] = CONNECT_VERSION
    config_def: ClassVar[ConfigDef] = BYTE_ARRAY_CONVERTER

    @override
    def configure(self, config: Mapping[str, str], *, is_key: bool) -> None:
        raise NotImplementedError

    @override
    def encode(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        raise NotImplementedError

    @override
    def decode(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        raise NotImplementedError

    @override
    def from_connect(self, topic: Any, value: Any, schema: Schema | None) -> Any:
        raise NotImplementedError

    @override
    def to_connect(self, topic: Any, value: Any) -> Any:
        raise NotImplementedError


class FakeJsonConverter(FakeConverter):
    """A converter with the keys of JsonConverter."""

    config_def: ClassVar[ConfigDef] = JSON_CONVERTER


class FakeStringConverter(FakeConverter):
    """A converter with the keys of StringConverter."""

    config_def: ClassVar[ConfigDef] = STRING_CONVERTER


def transforms() -> dict[str, type[Transformation | Predicate]]:
    """Return the shipped transforms and predicates of Connect, by name."""
    entries = (entry for group in (TRANSFORMS_GROUP, PREDICATES_GROUP) for entry in installed(group))
    return {entry.name: entry.load() for entry in entries if entry.name.startswith("org.apache.kafka.")}


def registry() -> Registry:
    """Return a registry with the plugins of Connect except MirrorMaker, all with the same version."""
    return Registry.of(
        {
            SOURCE_CLASS: FakeSource,
            SINK_CLASS: FakeSink,
            JSON_CLASS: FakeJsonConverter,
            STRING_CLASS: FakeStringConverter,
            **{
                f"org.apache.kafka.connect.converters.{name}Converter": FakeConverter
                for name in SIMPLE_CONVERTERS
            },
            **{
                name: type(cls.__name__, (cls,), {"version": CONNECT_VERSION})
                for name, cls in transforms().items()
            },
        }
    )


class Worker:
    """Default settings of a worker."""

    key_converter: ClassVar[str] = STRING_CLASS
    value_converter: ClassVar[str] = JSON_CLASS
    header_converter: ClassVar[str] = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
    override_policy: ClassVar[OverridePolicy] = OverridePolicy.NONE
    topic_creation: ClassVar[bool] = True
    exactly_once_sources: ClassVar[bool] = False
    group: ClassVar[str | None] = None
    raw: ClassVar[Mapping[str, str]] = {}
