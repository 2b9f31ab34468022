"""Tests that third-party transforms of a Java source produce the same records as on a Java worker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import pytest

from kraal.testing import ProcessCluster
from tests.fakes.workers.java_worker import MixedCluster
from tests.integration.java_plugins.flows import RUNNING, TRANSFORMS_PACKAGE, unique_name
from tests.integration.java_plugins.kafka_tests import MONITORABLE_SOURCE

_KAFKA: Final = "org.apache.kafka.connect.transforms"

Step = tuple[str, Mapping[str, str]]


def key_and_value_steps(name: str, **settings: str) -> list[Step]:
    """Return the key variant and the value variant of a transform."""
    return [
        (f"{TRANSFORMS_PACKAGE}.{name}${target}", {_key(key): text for key, text in settings.items()})
        for target in ("Key", "Value")
    ]


def _key(name: str) -> str:
    return name.replace("_", ".")


HOIST_STEPS: Final = [(f"{_KAFKA}.HoistField${target}", {"field": "theText"}) for target in ("Key", "Value")]
CHAINS: Final[dict[str, Sequence[Step]]] = {
    "names": [
        *HOIST_STEPS,
        *key_and_value_steps("PatternRename", field_pattern="^the", field_replacement="inner"),
        *key_and_value_steps("ChangeCase", **{"from": "LOWER_CAMEL", "to": "UPPER_UNDERSCORE"}),
        (f"{TRANSFORMS_PACKAGE}.ChangeTopicCase", {"from": "LOWER_HYPHEN", "to": "LOWER_UNDERSCORE"}),
    ],
    "nested": [
        *HOIST_STEPS,
        *((f"{_KAFKA}.HoistField${target}", {"field": "outer"}) for target in ("Key", "Value")),
        *key_and_value_steps(
            "ExtractNestedField",
            input_outer_field_name="outer",
            input_inner_field_name="theText",
            output_field_name="found",
        ),
    ],
    "json": [
        *HOIST_STEPS,
        *key_and_value_steps("ToJSON", output_schema_type="BYTES", schemas_enable="true"),
        *key_and_value_steps("BytesToString", charset="UTF-8"),
    ],
    "timestamp": [
        *HOIST_STEPS,
        (f"{_KAFKA}.InsertField$Value", {"static.field": "at", "static.value": "1700000000000"}),
        (f"{_KAFKA}.Cast$Value", {"spec": "at:int64"}),
        (f"{TRANSFORMS_PACKAGE}.ExtractTimestamp$Value", {"field.name": "at"}),
    ],
}


def make_config(chain: Sequence[Step]) -> dict[str, str]:
    """Return the config of a chain of transforms."""
    config = {"transforms": ",".join(f"t{number}" for number in range(len(chain)))}
    for number, (name, settings) in enumerate(chain):
        config[f"transforms.t{number}.type"] = name
        config |= {f"transforms.t{number}.{key}": text for key, text in settings.items()}
    return config


@pytest.mark.parametrize("chain", CHAINS)
def test_transformed_records_match_java(
    cluster: ProcessCluster, java_cluster: MixedCluster, chain: str
) -> None:
    def run_source(tested_cluster: ProcessCluster) -> list[object]:
        name, worker = unique_name("transformed"), tested_cluster.alive[0]
        topic = name.replace("-", "_") if chain == "names" else name
        config = make_config(CHAINS[chain]) | {
            "connector.class": MONITORABLE_SOURCE,
            "topic": name,
            "max.messages": "10",
            "key.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        }
        tested_cluster.create(name, config)
        worker.wait_for_states(name, RUNNING)
        worker.wait_until("all records arrived", lambda: len(tested_cluster.records(topic)) == 10)
        records = [
            (
                str(record.key).replace(name, ""),
                str(record.value).replace(name, ""),
                record.timestamp_ms if chain == "timestamp" else None,
            )
            for record in tested_cluster.records(topic)
        ]
        tested_cluster.delete(name)
        return [*records]

    actual = run_source(cluster)
    assert actual == run_source(java_cluster)
    assert chain != "timestamp" or {record[2] for record in actual} == {1700000000000}  # type: ignore[index]
