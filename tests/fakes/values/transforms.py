"""A transform that executes commands in record values. Spark's Python processes can import this module."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from typing_extensions import override

from kraal.config.key import ConfigDef
from kraal.plugins.api import RetriableError, Transformation
from kraal.plugins.model.records import DataException, Header, Record
from kraal.plugins.model.schema import STRING
from kraal.plugins.registry import Registry
from kraal.plugins.transform_chain import Chain, Stage, make_chain
from kraal.transforms.regex_router import RegexRouter


class Moody(Transformation):
    """A transform that executes the command in a value (`drop`, `bad`, `route T`, `head`); it upper-cases other values.

    `busy N PATH` raises a RetriableError the first N times, counted in a file.
    """

    version: ClassVar[str] = "1.0"
    config_def: ClassVar[ConfigDef] = ConfigDef([])

    @override
    def configure(self, config: Mapping[str, str]) -> None: ...

    @override
    def apply(self, record: Record) -> Record | None:
        match str(record.value).split():
            case ["drop", *_]:
                return None
            case ["bad", *rest]:
                raise DataException(f"bad {' '.join(rest)}")
            case ["route", topic, *_]:
                return replace(record, topic=topic)
            case ["head", *_]:
                return replace(record, headers=(*record.headers, Header("h", STRING, "new")))
            case ["busy", times, path]:
                attempts = Path(path).read_text() if Path(path).exists() else ""
                Path(path).write_text(attempts + ".")
                if len(attempts) < int(times):
                    raise RetriableError("busy")
            case _:
                pass
        return replace(record, value=str(record.value).upper())


MOODY = "org.example.Moody"


ROUTER = "org.apache.kafka.connect.transforms.RegexRouter"


def make_test_chain(config: Mapping[str, str]) -> Chain:
    """Create the chain of a config: `transforms=moody`, `transforms=router` with its keys, or shipped transforms."""
    match config.get("transforms"):
        case "moody":
            return Chain((Stage(alias="moody", class_name=MOODY, transformation=Moody()),))
        case "router":
            router = RegexRouter()
            prefix = "transforms.router."
            router.configure({k.removeprefix(prefix): v for k, v in config.items() if k.startswith(prefix)})
            return Chain((Stage(alias="router", class_name=ROUTER, transformation=router),))
        case _:
            return make_chain(Registry.load(), config)
