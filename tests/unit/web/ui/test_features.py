"""Tests that a worker's features are detected from its OpenAPI document, which Java workers do not have."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from tests.unit.web.api import document
from web.settings import Settings
from web.ui.features import Features, detect_features

ROOT = {"version": "4.3.0", "commit": "abc", "kafka_cluster_id": "k"}
KRAAL_DOCUMENT = document(Settings(advertised_url="http://w:1/"))


def test_kraal_worker_has_additional_features() -> None:
    features = detect_features(ROOT, KRAAL_DOCUMENT)
    assert (
        features.kraal,
        features.supervision,
        features.assignments,
        features.versions,
        features.changes,
    ) == (True,) * 5
    assert (features.version, features.commit, features.kafka_cluster_id) == ("4.3.0", "abc", "k")


def test_java_worker_has_only_loggers_and_topics() -> None:
    features = detect_features(ROOT, None)
    flags = {feature.name for feature in fields(Features) if getattr(features, feature.name) is True}
    assert flags == {"loggers", "topics"}


def test_admin_flag_enables_features_missing_from_the_document() -> None:
    document_without_admin = document(Settings(advertised_url="http://w:1/", has_separate_admin=True))
    assert not detect_features(ROOT, document_without_admin).assignments
    assert detect_features(ROOT, document_without_admin, admin=True).assignments


@pytest.mark.parametrize(
    "feature", ["history", "configs", "logs", "dead_letters", "events", "series", "changes"]
)
def test_documented_path_is_a_feature(feature: str) -> None:
    path = {
        "history": "/connectors/{connector}/history",
        "configs": "/connectors/{connector}/configs",
        "logs": "/connectors/{connector}/logs",
        "dead_letters": "/connectors/{connector}/dead-letters",
        "events": "/events",
        "series": "/connectors/{connector}/series",
        "changes": "/changes",
    }[feature]
    assert getattr(detect_features(ROOT, {"paths": {path: {}}}), feature)
    assert not getattr(detect_features(ROOT, {"paths": {}}), feature)


@pytest.mark.parametrize("schema", [{"items": {"enum": ["status", "progress"]}}, {"enum": ["progress"]}])
def test_progress_value_of_expand_is_a_feature(schema: dict[str, Any]) -> None:
    paths = {"/connectors": {"get": {"parameters": [{"name": "x"}, {"name": "expand", "schema": schema}]}}}
    assert detect_features(ROOT, {"paths": paths}).progress


@pytest.mark.parametrize(
    "malformed", [[], "text", {"paths": []}, {"paths": {"/connectors": []}}, {"paths": None}]
)
def test_malformed_response_has_no_progress_feature(malformed: object) -> None:
    assert not detect_features(malformed, malformed).progress
