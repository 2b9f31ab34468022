"""Tests for `kraal plugins`."""

from __future__ import annotations

import json

from kraal.testing._simulation.plugins import FAKE_SOURCE
from tests.fakes.workers.connect import Connect
from tests.unit.client.conftest import Kraal


def test_plugins_and_keys_are_listed(kraal: Kraal, worker: Connect) -> None:
    assert kraal.out("plugins").splitlines()[0].split() == ["CLASS", "TYPE", "VERSION"]
    assert "StringConverter" not in kraal.out("plugins")
    assert "StringConverter" in kraal.out("plugins", "--all")
    lines = kraal.out("plugins", FAKE_SOURCE).splitlines()
    assert ["tasks.max", "INT", "HIGH", "1"] in [line.split() for line in lines]
    assert "documentation" in json.loads(kraal.out("plugins", FAKE_SOURCE, "-o", "json"))[0]
    assert "Unknown plugin x." in kraal.error("plugins", "x")
    del worker
