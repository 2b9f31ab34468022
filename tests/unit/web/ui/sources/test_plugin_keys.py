"""Which values of a config are secrets, as its plugins declare them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.web.ui.fake_source import CALLER, FakeSource
from web.ui.sources.api import Refused
from web.ui.sources.plugin_keys import declared_secrets

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
KEYS = [{"name": "pin", "type": "PASSWORD"}]
SALT = [{"name": "salt", "type": "PASSWORD"}]


async def secrets_of(sink: Any, cast: Any) -> frozenset[str]:
    source = FakeSource({"/connector-plugins/Sink/config": sink, "/connector-plugins/Cast/config": cast})
    return await declared_secrets(source, CALLER, CONFIG)


async def test_plugins_declare_their_secrets() -> None:
    assert await secrets_of(KEYS, SALT) == {"pin", "transforms.a.salt"}
    assert await secrets_of(KEYS, []) == {"pin"}


async def test_all_values_of_an_unknown_plugin_are_secrets_but_not_those_of_connect_and_others() -> None:
    unknown = Refused(404, "Unknown plugin Cast.")
    assert await secrets_of(KEYS, unknown) == {"pin", "transforms.a.salt"}
    assert await secrets_of(unknown, []) == {"pin"}
    assert await secrets_of(unknown, unknown) == {"pin", "transforms.a.salt"}


async def test_a_worker_that_tells_no_plugins_keys_declares_none() -> None:
    older = Refused(404, "HTTP 404 Not Found")
    assert await secrets_of(older, older) == frozenset()


@pytest.mark.parametrize("status", [409, 500, 503])
async def test_all_values_are_secrets_while_the_worker_cannot_tell(status: int) -> None:
    busy = Refused(status, "The worker is too busy")
    assert await secrets_of(KEYS, busy) == {"pin", "transforms.a.salt"}
    assert await secrets_of(busy, SALT) == {"pin", "transforms.a.salt"}
