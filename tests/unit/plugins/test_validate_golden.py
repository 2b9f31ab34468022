"""Tests that validation responses match those of Java Connect, except for the documentation."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest

from kraal.config.clients.overrides import OverridePolicy
from kraal.core.connect_version import CONNECT_VERSION
from kraal.core.errors import KraalError
from kraal.plugins.validation.validate import validate_for_rest
from tests.differential.older_connect import MISSING_KEYS, as_current
from tests.fakes.workers.worker_config import Defaults
from tests.unit.golden_rest import recorded
from tests.unit.plugins.shipped import registry

RECORDED_REQUESTS = recorded("validate")
OLDER_VERSION = "4.3.0"
KEY_ERRORS = {
    "validate-source-override-bad-number": [
        "Invalid value many for configuration batch.size: Not a number of type INT",
    ],
    "validate-sink-nulls": [
        "Configuration 'topics' values must not be null.",
        "Must configure one of topics or topics.regex",
        "Null value can not be supplied as the configuration value.",
        "Invalid value null for configuration topics.regex: Invalid regex: it is empty",
        "Must configure one of topics or topics.regex",
        "Null value can not be supplied as the configuration value.",
        "Null value can not be supplied as the configuration value.",
    ],
    "validate-sink-everything-wrong": [
        "Consumer group golden-config conflicts with Connect worker group golden-config",
        "Invalid value  for configuration name: String may not be empty",
        "Invalid value 1.0 for configuration tasks.max: Not a number of type INT",
        "Invalid value null for configuration tasks.max: Value must be non-null",
        "Invalid value Nope for configuration key.converter: Class Nope could not be found.",
        "Configuration 'topics' values must not be empty.",
        "topics and topics.regex are mutually exclusive options, but both are set.",
        "The DLQ topic 'b' may not be included in the list of topics ('topics=[a, b]') consumed by the connector",
        "Invalid value [ for configuration topics.regex: Invalid regex: unterminated character set at position 0",
        "topics and topics.regex are mutually exclusive options, but both are set.",
        "Invalid value x for configuration errors.deadletterqueue.topic.replication.factor: Not a number of type SHORT",
        (
            "Invalid value x for configuration errors.deadletterqueue.context.headers.enable: "
            "Expected value to be either true or false"
        ),
        "Invalid value x for configuration schemas.enable: Expected value to be either true or false",
    ],
}
"""Requests for which Java returns 500, with the key errors that Kraal reports."""


def cases(*, is_rejected: bool, version: str = CONNECT_VERSION) -> dict[str, Any]:
    """Return the validation requests that Java accepted or, if `is_rejected`, those that it rejected."""
    return {
        name: golden
        for name, golden in recorded("validate", version=version).items()
        if not name.startswith("validate-config-of-")
        and name not in KEY_ERRORS
        and (golden["status"] != 200) is is_rejected
    }


ACCEPTED_REQUESTS, REJECTED_REQUESTS = cases(is_rejected=False), cases(is_rejected=True)
JAVA_BAD_REQUEST = "org.apache.kafka.connect.runtime.rest.errors.BadRequestException: "
MIRROR_PLUGIN = re.compile(r", PluginDesc\{klass=class org\.apache\.kafka\.connect\.mirror\.[^}]*\}")
"""Pattern for the descriptions of connectors that exist only in Java."""


def worker_defaults(golden: Mapping[str, Any]) -> Defaults:
    """Return the settings of the worker that handled a recorded request."""
    group = golden.get("group", "golden-config") if golden.get("mode") != "standalone" else None
    return Defaults(override_policy=OverridePolicy(golden["policy"]), group=group)


def normalize(body: dict[str, Any]) -> dict[str, Any]:
    """Remove permitted differences: documentation, hash order, regex error details, errors of unlisted predicates."""
    configs, count = [], body["error_count"]
    for config in body["configs"]:
        definition, value = config["definition"], dict(config["value"])
        if definition is not None:
            definition = {key: text for key, text in definition.items() if key != "documentation"}
        value["errors"] = [error.partition("Invalid regex: ")[0] for error in value["errors"]]
        errors = [error for error in value["errors"] if ": not in predicates, which names: " not in error]
        count -= len(value["errors"]) - len(errors)
        value["errors"] = errors
        configs.append({"definition": definition, "value": value})
    part_flags = [config["value"]["name"].count(".") and is_unordered(config) for config in configs]
    framework = [config for config, is_part in zip(configs, part_flags, strict=True) if not is_part]
    parts = [config for config, is_part in zip(configs, part_flags, strict=True) if is_part]
    parts.sort(key=lambda config: str(config["value"]["name"]))
    groups = body["groups"][:7] + sorted(body["groups"][7:])
    return {**body, "error_count": count, "groups": groups, "configs": framework + parts}


def remove_newer_keys(body: dict[str, Any], request: Mapping[str, Any]) -> dict[str, Any]:
    """Remove the transform keys that Connect 4.3 lacks from a validated config."""
    newer_keys = {
        f"{name.removesuffix('type')}{key}"
        for name, class_name in request.items()
        for plugin, keys in MISSING_KEYS.items()
        if name.startswith("transforms.") and class_name in (plugin, plugin.rpartition(".")[2])
        for key in keys
    }
    removed_definitions = [
        info["definition"] for info in body["configs"] if info["value"]["name"] in newer_keys
    ]

    def renumber(config: dict[str, Any]) -> dict[str, Any]:
        definition = config["definition"]
        if definition is None:
            return config
        preceding_definitions = [
            other
            for other in removed_definitions
            if other["group"] == definition["group"]
            and other["order_in_group"] < definition["order_in_group"]
        ]
        order_in_group = definition["order_in_group"] - len(preceding_definitions)
        return {**config, "definition": {**definition, "order_in_group": order_in_group}}

    configs = [renumber(info) for info in body["configs"] if info["value"]["name"] not in newer_keys]
    return {**body, "configs": configs}


def is_unordered(config: dict[str, Any]) -> bool:
    """Return whether the key belongs to a client or converter, whose keys Java lists in hash order."""
    name = config["value"]["name"]
    return ".override." in name or (".converter." in name and not name.endswith(".plugin.version"))


@pytest.mark.parametrize("golden", ACCEPTED_REQUESTS.values(), ids=ACCEPTED_REQUESTS)
def test_validation_response_matches_connect(golden: Any) -> None:
    infos = validate_for_rest(registry(), worker_defaults(golden), golden["plugin"], golden["request"])
    assert json.loads(json.dumps(normalize(infos.to_json()))) == normalize(golden["body"])
    assert list(infos.to_json()) == list(golden["body"])
    assert list(infos.configs[-1].to_json()) == list(golden["body"]["configs"][0])


def test_validation_differs_from_connect_4_3_only_in_missing_keys() -> None:
    for golden in cases(is_rejected=False, version=OLDER_VERSION).values():
        infos = validate_for_rest(registry(), worker_defaults(golden), golden["plugin"], golden["request"])
        body = remove_newer_keys(infos.to_json(), golden["request"])
        assert json.loads(json.dumps(normalize(body))) == normalize(golden["body"])
    for golden in cases(is_rejected=True, version=OLDER_VERSION).values():
        with pytest.raises(KraalError) as error:
            validate_for_rest(registry(), worker_defaults(golden), golden["plugin"], golden["request"])
        text = golden["body"]["message"].removeprefix(JAVA_BAD_REQUEST if golden["status"] == 500 else "")
        assert str(error.value) == MIRROR_PLUGIN.sub("", as_current(text))


@pytest.mark.parametrize("case", KEY_ERRORS)
def test_requests_that_fail_in_connect_return_errors_of_keys(case: str) -> None:
    golden = RECORDED_REQUESTS[case]
    infos = validate_for_rest(registry(), worker_defaults(golden), golden["plugin"], golden["request"])
    assert golden["status"] == 500
    assert sorted(infos.errors) == sorted(KEY_ERRORS[case])


@pytest.mark.parametrize("golden", REJECTED_REQUESTS.values(), ids=REJECTED_REQUESTS)
def test_rejected_validation_has_connect_text(golden: Any) -> None:
    """If Java returns 500 with the name of its exception before the text, Kraal returns 400 with the text alone."""
    with pytest.raises(KraalError) as error:
        validate_for_rest(registry(), worker_defaults(golden), golden["plugin"], golden["request"])
    assert (golden["status"], error.value.status) in {(400, 400), (500, 400)}
    text = golden["body"]["message"].removeprefix(JAVA_BAD_REQUEST if golden["status"] == 500 else "")
    assert str(error.value) == MIRROR_PLUGIN.sub("", text)


@pytest.mark.parametrize(
    ("config", "status", "text"),
    [
        pytest.param(
            {"connector.class": "Nope"},
            400,
            "Failed to find any class that implements Connector and which name matches Nope, available "
            "connectors are: PluginDesc{klass="
            "class org.apache.kafka.connect.file.FileStreamSinkConnector, name='org.apache.kafka.connect."
            "file.FileStreamSinkConnector', version='4.4.0', encodedVersion=4.4.0, type=sink, "
            "typeName='sink', location='classpath'}, PluginDesc{klass=class ",
            id="unknown class",
        ),
        pytest.param(
            {},
            400,
            "Connector config contains no connector type",
            id="no class",
        ),
        pytest.param(
            {"connector.class": "FileStreamSource"},
            400,
            "Included connector type FileStreamSource does not match request type Nope",
            id="class differs from path",
        ),
    ],
)
def test_invalid_validation_request_is_rejected(
    config: dict[str, str | None], status: int, text: str
) -> None:
    with pytest.raises(KraalError) as error:
        validate_for_rest(registry(), Defaults(), "Nope", config)
    assert error.value.status == status
    assert str(error.value).startswith(text)
