"""Fixtures for tests of Java plugins: fake hosts, and a registry with the plugins of `CATALOG`."""

from __future__ import annotations

from typing import cast

import pytest

from kraal.java_plugins.catalog import parse_catalog
from kraal.java_plugins.connector import make_classes
from kraal.java_plugins.hosts import PluginHosts
from kraal.plugins.registry import Registry
from tests.unit.java_plugins.catalogs import CATALOG
from tests.unit.java_plugins.fake_host import FakeHost, FakeHosts


@pytest.fixture
def host() -> FakeHost:
    return FakeHost()


@pytest.fixture
def hosts(host: FakeHost) -> FakeHosts:
    return FakeHosts(host)


@pytest.fixture
def registry(hosts: FakeHosts) -> Registry:
    return Registry.of({}).with_java(make_classes(parse_catalog(CATALOG), cast("PluginHosts", hosts)))
