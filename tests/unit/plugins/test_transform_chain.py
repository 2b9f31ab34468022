"""Tests for a chain of transforms: order, predicates, dropped records and failures (Kafka's TransformationChain)."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any, ClassVar

import pytest
from typing_extensions import override

from kraal.config.key import ConfigDef
from kraal.plugins.api import Predicate, Transformation
from kraal.plugins.model.records import DataException, Record
from kraal.plugins.registry import Registry
from kraal.plugins.transform_chain import Chain, ChainInvalid, StageFailed, make_chain


class Append(Transformation):
    """A transform that appends its text to the value, drops the record or fails."""

    version: ClassVar[str] = "1"
    config_def: ClassVar[ConfigDef] = ConfigDef()
    configs: ClassVar[list[Mapping[str, str]]] = []

    @override
    def configure(self, config: Mapping[str, str]) -> None:
        Append.configs.append(dict(config))
        if config.get("text") == "refuse":
            raise ValueError("not that")
        self._text = config.get("text", "")

    @override
    def apply(self, record: Record) -> Record | None:
        if self._text == "drop":
            return None
        if self._text == "fail":
            raise DataException("no more")
        return Record(topic=record.topic, value=f"{record.value}{self._text}")


class IsTopic(Predicate):
    """A predicate that is true for one topic."""

    version: ClassVar[str] = "1"
    config_def: ClassVar[ConfigDef] = ConfigDef()

    @override
    def configure(self, config: Mapping[str, str]) -> None:
        self._topic = config["topic"]

    @override
    def test(self, record: Record) -> bool:
        if self._topic == "fail":
            raise LookupError("which?")
        return record.topic == self._topic


REGISTRY = Registry.of({"x.Append": Append, "x.IsTopic": IsTopic})


def chain(aliases: str, **keys: str) -> Chain:
    """Create a chain with the default types; underscores in key names represent periods."""
    config = {"transforms": aliases, "predicates": "p"}
    config |= {f"transforms.{alias}.type": "x.Append" for alias in aliases.split(",") if alias}
    config |= {"predicates.p.type": "x.IsTopic", "predicates.p.topic": "here"}
    return make_chain(REGISTRY, config | {name.replace("_", "."): text for name, text in keys.items()})


def transformed_value(chain: Chain, topic: str = "here") -> Any:
    result = chain.apply(Record(topic=topic, value="-"))
    return None if result is None else result.value


def test_transforms_are_applied_in_the_order_of_the_config() -> None:
    assert transformed_value(chain("b,a", transforms_a_text="A", transforms_b_text="B")) == "-BA"


def test_empty_chain_returns_records_unchanged() -> None:
    chain = make_chain(REGISTRY, {"name": "c"})
    record = Record(topic="t")
    assert chain.apply(record) is record
    assert not chain


def test_dropped_record_skips_later_transforms() -> None:
    assert transformed_value(chain("a,b", transforms_a_text="drop", transforms_b_text="fail")) is None


@pytest.mark.parametrize(
    ("negate", "topic", "expected"),
    [
        (None, "here", "-A"),
        (None, "there", "-"),
        ("false", "here", "-A"),
        ("TRUE", "here", "-"),
        ("true", "there", "-A"),
    ],
)
def test_transform_applies_to_records_matched_by_its_predicate(
    negate: str | None, topic: str, expected: str
) -> None:
    keys = {} if negate is None else {"transforms_a_negate": f"{negate} "}
    assert (
        transformed_value(chain("a", transforms_a_text="A", transforms_a_predicate="p ", **keys), topic)
        == expected
    )


def test_transform_is_configured_with_its_own_keys_only() -> None:
    Append.configs.clear()
    chain(
        "a",
        transforms_a_text="A",
        transforms_a_predicate="p",
        transforms_a_negate="true",
        transforms_ab_text="x",
    )
    assert [set(config) for config in Append.configs] == [{"type", "text"}]


def test_failure_contains_the_transform_alias_and_class() -> None:
    with pytest.raises(StageFailed) as error:
        transformed_value(chain("a,b", transforms_b_text="fail"))
    for failure in (error.value, pickle.loads(pickle.dumps(error.value))):  # noqa: S301 - our own
        assert (failure.alias, failure.class_name, str(failure)) == ("b", "x.Append", "no more")
        assert failure.java_class == "org.apache.kafka.connect.errors.DataException"


def test_predicate_failure_is_attributed_to_its_transform() -> None:
    with pytest.raises(StageFailed) as error:
        transformed_value(chain("a", transforms_a_predicate="p", predicates_p_topic="fail"))
    assert (error.value.class_name, error.value.java_class) == ("x.Append", "builtins.LookupError")


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        pytest.param(
            {"transforms_a_type": "Nope"},
            "transforms.a.type: Class Nope could not be found",
            id="unknown class",
        ),
        pytest.param(
            {"transforms_a_type": "x.IsTopic"},
            "transforms.a.type: Class x.IsTopic",
            id="predicate as transform",
        ),
        pytest.param({"transforms_a_text": "refuse"}, "transforms.a: not that", id="rejected parameters"),
        pytest.param(
            {"transforms_a_predicate": "q"},
            "Unknown configuration 'predicates.q.plugin.version'",
            id="unknown predicate",
        ),
        pytest.param(
            {"transforms_a_predicate": "p", "predicates_p_type": "x.Append"},
            "predicates.p.type: Class x.Append",
            id="predicate of another kind",
        ),
    ],
)
def test_invalid_transform_config_is_rejected(keys: dict[str, str], expected: str) -> None:
    with pytest.raises(ChainInvalid) as error:
        chain("a", **keys)
    assert str(error.value).startswith(expected)
