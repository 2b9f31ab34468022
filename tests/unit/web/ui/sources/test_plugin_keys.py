"""Tests for secret keys declared by the plugins of a config."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.web.ui.fake_source import CALLER, FakeSource
from web.ui.sources.api import RequestRejected
from web.ui.sources.plugin_keys import fetch_secret_keys

CONFIG = {
    "name": "c",
    "connector.class": "Sink",
    "pin": "4711",
    "tasks.max": "1",
    "topics": "t",
    "errors.tolerance": "all",
    "transforms": "a",
    "transforms.a.type": "Cast",
    "transforms.a.salt": "x",
}
SINK_KEYS = [{"name": "pin", "type": "PASSWORD"}]
CAST_KEYS = [{"name": "salt", "type": "PASSWORD"}]


async def fetch_secrets(sink: Any, cast: Any) -> frozenset[str]:
    source = FakeSource({"/connector-plugins/Sink/config": sink, "/connector-plugins/Cast/config": cast})
    return await fetch_secret_keys(source, CALLER, CONFIG)


async def test_plugins_declare_their_secrets() -> None:
    assert await fetch_secrets(SINK_KEYS, CAST_KEYS) == {"pin", "transforms.a.salt"}
    assert await fetch_secrets(SINK_KEYS, []) == {"pin"}


async def test_values_of_an_unknown_plugin_are_secrets() -> None:
    unknown_plugin = RequestRejected(404, "Unknown plugin Cast.")
    assert await fetch_secrets(SINK_KEYS, unknown_plugin) == {"pin", "transforms.a.salt"}
    assert await fetch_secrets(unknown_plugin, []) == {"pin"}
    assert await fetch_secrets(unknown_plugin, unknown_plugin) == {"pin", "transforms.a.salt"}


async def test_worker_without_plugin_keys_declares_no_secrets() -> None:
    unknown_endpoint = RequestRejected(404, "HTTP 404 Not Found")
    assert await fetch_secrets(unknown_endpoint, unknown_endpoint) == frozenset()


@pytest.mark.parametrize("status", [409, 500, 503])
async def test_plugin_values_are_secrets_while_keys_are_unavailable(status: int) -> None:
    rejection = RequestRejected(status, "The worker is too busy")
    assert await fetch_secrets(SINK_KEYS, rejection) == {"pin", "transforms.a.salt"}
    assert await fetch_secrets(rejection, CAST_KEYS) == {"pin", "transforms.a.salt"}
