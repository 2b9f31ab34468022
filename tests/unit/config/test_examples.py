"""Tests that examples/distributed.properties and the examples in docs/security.md are valid worker configs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kraal.config.properties_file import parse_properties
from kraal.config.worker.distributed import load_distributed, parse_distributed
from kraal.config.worker.distributed_keys import DISTRIBUTED, TOPIC_PREFIXES
from kraal.plugins.registry import Registry
from tests.fakes.kafka.certificates import make_authority

ROOT = Path(__file__).parent.parent.parent.parent
EXAMPLE = ROOT / "examples/distributed.properties"
PAGE = (ROOT / "docs/security.md").read_text(encoding="utf-8")
REST_EXAMPLES, KAFKA_EXAMPLES = (
    re.findall(r"```properties\n(.*?)```", part, re.DOTALL) for part in PAGE.split("\n## Kafka\n")
)
JAAS, USERS = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
KEYS_WITHOUT_DEFAULT = {
    "rest.advertised.host.name",
    "rest.advertised.port",
    "static.connectors",
    "static.tasks",
}


def test_example_file_causes_no_warnings() -> None:
    config = load_distributed(EXAMPLE, resolve=Registry.load().resolve)
    assert config.warnings == ()
    assert config.raw["key.converter.schemas.enable"] == "true"


def test_defaults_in_example_file_are_correct() -> None:
    examples = dict(re.findall(r"^#([a-z][\w.]*)=(.*)$", EXAMPLE.read_text(encoding="utf-8"), re.MULTILINE))
    declared_defaults = {name: DISTRIBUTED[name].default_text for name in examples if name in DISTRIBUTED}
    assert {name: examples[name] for name in declared_defaults if name not in KEYS_WITHOUT_DEFAULT} == {
        name: text for name, text in declared_defaults.items() if name not in KEYS_WITHOUT_DEFAULT
    }
    assert {name for name in examples if name not in DISTRIBUTED} == {
        "spark.master",
        "producer.compression.type",
        "consumer.max.poll.records",
    }


def test_example_file_contains_important_cluster_keys() -> None:
    text = EXAMPLE.read_text(encoding="utf-8")
    important_keys = {
        key.name
        for key in DISTRIBUTED
        if key.source == "DistributedConfig"
        and (key.importance == "HIGH" or key.name.startswith(TOPIC_PREFIXES))
    }
    assert {name for name in important_keys if f"{name}=" not in text} == set()


@pytest.mark.parametrize("block", REST_EXAMPLES, ids=range(len(REST_EXAMPLES)))
def test_rest_examples_are_valid(block: str, tmp_path: Path) -> None:
    root = make_authority()
    root.trust_store(tmp_path / "trust.p12", "secret")
    root.issue_certificate("server").key_store(tmp_path / "rest.p12", "secret")
    (tmp_path / "jaas.conf").write_text(JAAS.replace("/etc/kraal", str(tmp_path)))
    (tmp_path / "users.properties").write_text(USERS)
    raw = parse_properties(block.replace("/etc/kraal", str(tmp_path)), "the page", "example")
    example_settings = parse_properties(EXAMPLE.read_text(encoding="utf-8"), EXAMPLE, "example")
    config = parse_distributed({**example_settings, **raw})
    assert config.warnings == ()
    assert (config.basic_auth is not None) is ("rest.extension.classes" in raw)
    assert config.advertised_url.startswith("https:") is ("listeners" in raw)


@pytest.mark.parametrize("block", KAFKA_EXAMPLES, ids=range(len(KAFKA_EXAMPLES)))
def test_kafka_examples_are_valid(block: str, tmp_path: Path) -> None:
    root = make_authority()
    root.trust_store(tmp_path / "trust.p12", "secret")
    root.issue_certificate("client").key_store(tmp_path / "client.p12", "secret")
    raw = parse_properties(block.replace("/etc/kraal", str(tmp_path)), "the page", "example")
    example_settings = parse_properties(EXAMPLE.read_text(encoding="utf-8"), EXAMPLE, "example")
    config = parse_distributed({**example_settings, **raw})
    providers = {name for name in raw if name.startswith("config.providers")}
    assert config.client == {name: value for name, value in raw.items() if name not in providers}
    assert config.warnings == ()
