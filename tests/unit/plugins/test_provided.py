from __future__ import annotations

import logging

import pytest

from kraal.config.standalone import parse_standalone
from kraal.plugins.provided import ProvidedPlugins
from kraal.testing.plugins import FAKE_SINK, FAKE_SOURCE
from kraal.testing.worker import DEFAULTS, fake_registry

PLUGINS = ProvidedPlugins(fake_registry(), parse_standalone(DEFAULTS))


def test_the_kind_of_a_config_follows_from_its_class() -> None:
    kinds = [PLUGINS.kind_of({"connector.class": c}) for c in (FAKE_SOURCE, FAKE_SINK, "no.such", None)]
    assert kinds == ["source", "sink", "unknown", "unknown"]


def test_keys_that_have_no_effect_yet_are_named_when_the_connector_starts(
    caplog: pytest.LogCaptureFixture,
) -> None:
    config = {"name": "n", "connector.class": FAKE_SOURCE, "errors.tolerance": "all", "tasks.max": "1"}
    with caplog.at_level(logging.WARNING):
        PLUGINS.make(config)
    assert [r.getMessage() for r in caplog.records] == [
        "connector n: these have no effect yet: errors.tolerance"
    ]
