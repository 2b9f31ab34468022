"""Tests for adapters of Java plugins to Kraal's plugin API, from the catalog to the registry."""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from kraal.config.key import ConfigDef, ConfigType
from kraal.core.errors import BadRequest, PluginFailed
from kraal.core.offsets import SourcePartition
from kraal.java_plugins.catalog import RETENTION_S, compute_digest, parse_catalog, read_cached, store_catalog
from kraal.java_plugins.connector import JavaConnector
from kraal.java_plugins.jvm import PluginsUnavailable
from kraal.plugins.entries import PluginKind
from kraal.plugins.registry import Registry
from kraal.plugins.transform_chain import make_chain
from kraal.plugins.validation.infos import ConfigKeyInfo
from tests.unit.java_plugins.catalogs import CATALOG, key, plugin
from tests.unit.java_plugins.fake_host import FakeHost, FakeHosts


class Context:
    """A connector context that records requests to the runtime."""

    def __init__(self) -> None:
        self.reconfiguration_count = 0
        self.errors: list[BaseException] = []

    def request_task_reconfiguration(self) -> None:
        """Count the request."""
        self.reconfiguration_count += 1

    def raise_error(self, error: BaseException) -> None:
        """Record the error."""
        self.errors.append(error)


def start_connector(host: FakeHost, registry: Registry) -> tuple[JavaConnector, Context]:
    host.up()
    connector, context = registry.connector_class("OldSource")(), Context()
    assert isinstance(connector, JavaConnector)
    connector.start({"name": "c", "connector.class": "OldSource"}, context)
    return connector, context


def test_plugins_are_listed_with_all_their_versions(registry: Registry) -> None:
    listing = [
        (entry.name, entry.kind, entry.version) for entry in registry.plugins() if "example" in entry.name
    ]
    assert listing == [
        ("com.example.Broken", PluginKind.SINK, "2.0"),
        ("com.example.OldSource", PluginKind.SOURCE, "1.0"),
        ("com.example.OldSource", PluginKind.SOURCE, "2.0"),
        ("com.example.Change", PluginKind.TRANSFORMATION, "1.0"),
        ("com.example.Change", PluginKind.TRANSFORMATION, "2.0"),
        ("com.example.Both", PluginKind.CONVERTER, "1.0"),
        ("com.example.Both", PluginKind.CONVERTER, "2.0"),
        ("com.example.Both", PluginKind.HEADER_CONVERTER, "2.0"),
    ]
    assert {registry.runtime(name) for name, *_ in listing} == {"java"}
    assert registry.resolve("OldSource") == "com.example.OldSource"
    task = registry.connector_class("com.example.OldSource").task_class
    assert task.class_name == "com.example.Task"


def test_keys_have_the_declarations_of_the_catalog(registry: Registry) -> None:
    (size,) = registry.connector("com.example.OldSource").config_def
    assert (size.type, size.default, size.documentation) == (ConfigType.INT, 5, "How many.")


def test_null_attributes_of_keys_stay_null_in_responses() -> None:
    """ConfigDef.ConfigKey may have a null documentation and a null displayName (AbstractHerder.convertConfigKey)."""
    declared_key = key("size", documentation=None, display_name=None)
    (converter,) = parse_catalog(json.dumps([plugin("com.example.Null", "converter", keys=[declared_key])]))
    (size,) = converter.config_def
    embedded_def = ConfigDef().embed("value.converter.", "Converter", 0, converter.config_def)
    for config_key in (size, embedded_def["value.converter.size"]):
        info = ConfigKeyInfo(config_key).to_json()
        assert (info["documentation"], info["display_name"]) == (None, None)


def test_validation_uses_declared_keys_while_the_jvm_is_down(registry: Registry) -> None:
    (value,) = registry.connector_class("OldSource").validate({"size": "many"})
    assert value.errors == ("Invalid value many for configuration size: Not a number of type INT",)


def test_validation_calls_the_java_connector_when_the_jvm_is_up(host: FakeHost, registry: Registry) -> None:
    host.up()
    info = {
        "name": "size",
        "value": "0",
        "recommended_values": ["1"],
        "errors": ["too small"],
        "visible": True,
    }
    host.results["validate"] = json.dumps([info])
    (value,) = registry.connector_class("OldSource").validate({"size": "0", "none": None})
    assert host.requests == [("validate", "com.example.OldSource", None, '{"size": "0"}')]
    assert (value.value, value.recommended, value.errors) == ("0", ("1",), ("too small",))


def test_connector_starts_creates_task_configs_and_stops(host: FakeHost, registry: Registry) -> None:
    connector, _ = start_connector(host, registry)
    host.results["taskConfigs"] = json.dumps({"configs": [{"a": "b", "c": None}]})
    assert connector.task_configs(1) == [{"a": "b"}]
    connector.stop()
    assert [request[:2] for request in host.requests] == [
        ("startConnector", "c"),
        ("taskConfigs", "c"),
        ("stopConnector", "c"),
    ]
    assert host.listeners == {}


def test_failed_start_raises_the_java_stack_trace(host: FakeHost, registry: Registry) -> None:
    host.results["startConnector"] = "java.lang.Error: no\n\tat x"
    with pytest.raises(PluginFailed, match="no") as error:
        start_connector(host, registry)
    assert error.value.trace == "java.lang.Error: no\n\tat x"


def test_connector_events_are_forwarded_to_the_runtime(host: FakeHost, registry: Registry) -> None:
    _, context = start_connector(host, registry)
    host.emit(1, "reconfigure")
    host.emit(1, "raised", "java.lang.Error: late")
    assert context.reconfiguration_count == 1
    (error,) = context.errors
    assert isinstance(error, PluginFailed)
    assert error.trace == "java.lang.Error: late"
    assert host.requests[-1] == ("stopConnector", "c", 1)
    assert host.listeners == {}


def test_late_error_of_a_previous_start_does_not_affect_the_current_start(
    host: FakeHost, registry: Registry
) -> None:
    connector, context = start_connector(host, registry)
    earlier_listener = host.listeners[1]
    connector.stop()
    connector.stop()
    connector.start({"name": "c"}, context)
    earlier_listener.event({"what": "raised", "detail": "java.lang.Error: late"})
    assert list(host.listeners) == [2]
    connector.stop()
    assert host.requests[-1] == ("stopConnector", "c", 2)


def test_connector_restarts_in_a_new_jvm(host: FakeHost, registry: Registry) -> None:
    _, context = start_connector(host, registry)
    host.down()
    assert context.reconfiguration_count == 1, (
        "the runtime requests task configs, which fails with the reason"
    )
    host.up()
    assert [request[0] for request in host.requests] == ["startConnector", "startConnector"]
    assert context.reconfiguration_count == 2


def test_connector_starts_when_the_jvm_comes_up(host: FakeHost, registry: Registry) -> None:
    connector, context = registry.connector_class("OldSource")(), Context()
    with pytest.raises(PluginsUnavailable):
        connector.start({"name": "c"}, context)
    with pytest.raises(PluginsUnavailable):
        connector.task_configs(1)
    host.up()
    assert [request[0] for request in host.requests] == ["startConnector"]
    assert context.reconfiguration_count == 1


def test_stopped_connector_does_not_restart(host: FakeHost, registry: Registry) -> None:
    connector, _ = start_connector(host, registry)
    host.down()
    connector.stop()
    host.up()
    assert [request[0] for request in host.requests] == ["startConnector"]


def test_failed_stop_raises_the_java_error(host: FakeHost, registry: Registry) -> None:
    connector, _ = start_connector(host, registry)
    host.results["stopConnector"] = "java.lang.Error: still busy"
    with pytest.raises(PluginFailed, match="still busy"):
        connector.stop()


def test_alter_offsets_calls_the_java_connector(host: FakeHost, registry: Registry) -> None:
    host.up()
    host.results["alterOffsets"] = True
    partition = SourcePartition.of({"file": "x"})
    connector = registry.connector_class("OldSource")()
    assert connector.alter_offsets({}, {partition: {"position": 3}})
    assert host.requests[-1][-1] == '[[{"file": "x"}, {"position": 3}]]'
    host.results["alterOffsets"] = RuntimeError("not so")
    with pytest.raises(ValueError, match="not so"):
        connector.alter_offsets({}, {partition: None})


@pytest.mark.parametrize(
    ("response", "is_supported"), [("SUPPORTED", True), ("UNSUPPORTED", False), (None, None)]
)
def test_java_connector_determines_exactly_once_support(
    host: FakeHost, registry: Registry, response: str | None, *, is_supported: bool | None
) -> None:
    host.up()
    host.results |= {"exactlyOnceSupport": response, "transactionBoundaries": response}
    connector: Any = registry.connector_class("OldSource")()
    assert connector.exactly_once_support({}) is is_supported
    assert connector.can_define_transaction_boundaries({}) is bool(is_supported)


def test_java_transform_cannot_be_instantiated_in_python(registry: Registry) -> None:
    with pytest.raises(BadRequest, match=r"com\.example\.Change is a Java plugin, which only the JVM"):
        make_chain(registry, {"transforms": "x", "transforms.x.type": "com.example.Change"})


def test_cached_catalog_is_used_until_a_file_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KRAAL_CACHE", str(tmp_path / "cache"))
    jar = tmp_path / "plugins" / "a" / "a.jar"
    jar.parent.mkdir(parents=True)
    jar.write_bytes(b"1")
    path = [str(tmp_path / "plugins")]
    first_digest = compute_digest(path, "hybrid_warn")
    assert read_cached(first_digest) is None
    store_catalog(first_digest, CATALOG)
    plugins = read_cached(compute_digest(path, "hybrid_warn"))
    assert plugins is not None
    assert [entry.class_name for entry in plugins] == [entry["class"] for entry in json.loads(CATALOG)]
    assert compute_digest(path, "service_load") != first_digest
    jar.write_bytes(b"22")
    assert read_cached(compute_digest(path, "hybrid_warn")) is None


def test_unwritable_cache_is_logged_and_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "cache").touch()
    monkeypatch.setenv("KRAAL_CACHE", str(tmp_path / "cache"))
    store_catalog("digest", CATALOG)
    assert "Failed to cache the list of Java plugins" in caplog.text
    assert read_cached("digest") is None


def test_unused_catalogs_are_removed_after_the_retention_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KRAAL_CACHE", str(tmp_path))
    for name in ("unused", "used"):
        store_catalog(name, CATALOG)
        expired_mtime_s = time.time() - RETENTION_S - 60
        os.utime(tmp_path / "plugins" / f"{name}.json", (expired_mtime_s, expired_mtime_s))
        if name == "used":
            assert read_cached(name)
    store_catalog("new", CATALOG)
    assert sorted(path.stem for path in (tmp_path / "plugins").iterdir()) == ["new", "used"]


def with_own_jvm(hosts: FakeHosts, registry: Registry) -> tuple[JavaConnector, FakeHost, dict[str, str]]:
    """Return a connector with a dedicated JVM, the host of that JVM, which is up, and the config of the connector."""
    connector, config = registry.connector_class("OldSource")(), {"name": "c", "plugins.jvm": "own"}
    assert isinstance(connector, JavaConnector)
    host = hosts.acquire("c", config)
    host.up()
    return connector, host, config


def test_connector_with_a_dedicated_jvm_uses_it_from_start_to_stop(
    hosts: FakeHosts, registry: Registry
) -> None:
    hosts.shared.up()
    connector, own_host, config = with_own_jvm(hosts, registry)
    own_host.results["taskConfigs"] = json.dumps({"configs": []})
    connector.start(config, Context())
    connector.task_configs(1)
    assert hosts.released_hosts == []
    connector.stop()
    connector.stop()
    assert [request[0] for request in own_host.requests] == ["startConnector", "taskConfigs", "stopConnector"]
    assert (hosts.shared.requests, hosts.released_hosts) == ([], [own_host])


@pytest.mark.parametrize("failing_step", ["start", "raised", "stop"])
def test_failed_connector_releases_its_jvm_once(
    hosts: FakeHosts, registry: Registry, failing_step: str
) -> None:
    connector, own_host, config = with_own_jvm(hosts, registry)
    own_host.results[f"{failing_step}Connector"] = "java.lang.Error: no"
    with suppress(PluginFailed):
        connector.start(config, Context())
        if failing_step == "raised":
            listener = own_host.listeners[1]
            for _ in range(2):
                listener.event({"what": "raised", "detail": "java.lang.Error: late"})
    with suppress(PluginFailed):
        connector.stop()
    assert hosts.released_hosts == [own_host]


def test_stop_during_a_start_is_not_reported_as_an_error(host: FakeHost, registry: Registry) -> None:
    connector, context = registry.connector_class("OldSource")(), Context()
    with pytest.raises(PluginsUnavailable):
        connector.start({"name": "c"}, context)
    host.pending_work = []
    host.up()
    host.results["startConnector"] = "The connector was stopped before it had started"
    (restart,) = host.pending_work
    ask = host.ask

    def stop_during_start(method: str, *arguments: object) -> Any:
        if method == "startConnector":
            connector.stop()
        return ask(method, *arguments)

    host.ask = stop_during_start  # type: ignore[method-assign]
    restart()
    assert context.errors == []
    assert [request[0] for request in host.requests] == ["stopConnector", "startConnector"]


def test_hung_connector_can_be_stopped_with_its_stop_function(
    hosts: FakeHosts, registry: Registry, caplog: pytest.LogCaptureFixture
) -> None:
    connector, own_host, config = with_own_jvm(hosts, registry)
    connector.start(config, Context())
    own_host.results["stopConnector"] = "java.lang.Error: still busy"
    hosts.stops["c"]()
    assert "Failed to stop the connector c: java.lang.Error: still busy" in caplog.text
    assert (hosts.released_hosts, hosts.stops) == ([own_host], {})


def test_second_start_stops_the_first_and_releases_its_jvm(hosts: FakeHosts, registry: Registry) -> None:
    connector, own_host, config = with_own_jvm(hosts, registry)
    connector.start(config, Context())
    connector.start(config, Context())
    assert [request[:3] for request in own_host.requests] == [
        ("startConnector", "c", 1),
        ("stopConnector", "c", 1),
        ("startConnector", "c", 2),
    ]
    assert hosts.released_hosts == [own_host]
    connector.stop()
    assert hosts.released_hosts == [own_host, own_host]
