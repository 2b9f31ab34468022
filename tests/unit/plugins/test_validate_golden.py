"""What `validate` and `config` answer, against what Java Connect 4.3.0 did (all but the documentation)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kraal.config.overrides import OverridePolicy
from kraal.errors import KraalError
from kraal.plugins.validate import describe_plugin, validate_for_rest
from tests.unit.plugins.shipped import registry

GOLDEN = Path(__file__).parents[2] / "golden" / "rest" / "4.3.0"
DESCRIBED = sorted(GOLDEN.glob("validate-config-of-*.json"))
# Java answers 500 to an override of the wrong type; here it is an error of its key.
BETTER = {GOLDEN / "validate-source-override-bad-number.json"}
VALIDATED = sorted(set(GOLDEN.glob("validate-s*.json")) - BETTER)


@dataclass(frozen=True)
class Worker:
    """The worker that was asked."""

    key_converter: str = "org.apache.kafka.connect.storage.StringConverter"
    value_converter: str = "org.apache.kafka.connect.storage.StringConverter"
    header_converter: str = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
    override_policy: OverridePolicy = OverridePolicy.ALL


def comparable(body: dict[str, Any]) -> dict[str, Any]:
    """Remove what may differ: documentation, hash order, lists of transforms, the engine's regex detail."""
    configs = []
    for config in body["configs"]:
        definition, value = config["definition"], dict(config["value"])
        if definition is not None:
            definition = {key: text for key, text in definition.items() if key != "documentation"}
        if value["name"].endswith(".type") and value["name"].startswith(("transforms.", "predicates.")):
            value["recommended_values"] = []
        value["errors"] = [error.partition("Invalid regex: ")[0] for error in value["errors"]]
        configs.append({"definition": definition, "value": value})
    is_part = [config["value"]["name"].count(".") and order(config) for config in configs]
    framework = [config for config, part in zip(configs, is_part, strict=True) if not part]
    parts = [config for config, part in zip(configs, is_part, strict=True) if part]
    parts.sort(key=lambda config: str(config["value"]["name"]))
    groups = body["groups"][:7] + sorted(body["groups"][7:])
    return {**body, "groups": groups, "configs": framework + parts}


def order(config: dict[str, Any]) -> bool:
    """Tell whether the key is a client's or a converter's own, which Java lists in hash order."""
    name = config["value"]["name"]
    return ".override." in name or (".converter." in name and not name.endswith(".plugin.version"))


@pytest.mark.parametrize("path", VALIDATED, ids=[path.stem for path in VALIDATED])
def test_validate_answers_as_java_does(path: Path) -> None:
    golden = json.loads(path.read_text("utf-8"))
    worker = Worker(override_policy=OverridePolicy(golden["policy"]))
    infos = validate_for_rest(registry(), worker, golden["plugin"], golden["request"])
    assert json.loads(json.dumps(comparable(infos.to_json()))) == comparable(golden["body"])
    assert list(infos.to_json()) == list(golden["body"])
    assert list(infos.configs[-1].to_json()) == list(golden["body"]["configs"][0])


def test_an_override_of_the_wrong_type_is_an_error_of_its_key() -> None:
    golden = json.loads((GOLDEN / "validate-source-override-bad-number.json").read_text("utf-8"))
    infos = validate_for_rest(registry(), Worker(), golden["plugin"], golden["request"])
    assert infos.errors == ("Invalid value many for configuration batch.size: Not a number of type INT",)
    assert golden["body"]["message"].endswith(infos.errors[0])


@pytest.mark.parametrize("path", DESCRIBED, ids=[path.stem for path in DESCRIBED])
def test_config_describes_as_java_does(path: Path) -> None:
    golden = json.loads(path.read_text("utf-8"))
    infos = [info.to_json() for info in describe_plugin(registry(), golden["plugin"])]
    assert [list(info)[:5] for info in infos] == [list(info)[:5] for info in golden["body"]]
    assert all(info.pop("documentation") for info in infos)
    assert infos == golden["body"]


@pytest.mark.parametrize(
    ("config", "status", "text"),
    [
        pytest.param(
            {"connector.class": "Nope"},
            500,
            "org.apache.kafka.connect.runtime.rest.errors.BadRequestException: Failed to find any class that "
            "implements Connector and which name matches Nope, available connectors are: PluginDesc{klass="
            "class org.apache.kafka.connect.file.FileStreamSinkConnector, name='org.apache.kafka.connect."
            "file.FileStreamSinkConnector', version='4.3.0', encodedVersion=4.3.0, type=sink, "
            "typeName='sink', location='classpath'}, PluginDesc{klass=class ",
            id="unknown class",
        ),
        pytest.param(
            {},
            500,
            "org.apache.kafka.connect.runtime.rest.errors.BadRequestException: "
            "Connector config {} contains no connector type",
            id="no class",
        ),
        pytest.param(
            {"connector.class": "FileStreamSource"},
            400,
            "Included connector type FileStreamSource does not match request type Nope",
            id="another class than the path's",
        ),
    ],
)
def test_validate_refuses(config: dict[str, str | None], status: int, text: str) -> None:
    with pytest.raises(KraalError) as raised:
        validate_for_rest(registry(), Worker(), "Nope", config)
    assert raised.value.status == status
    assert str(raised.value).startswith(text)
