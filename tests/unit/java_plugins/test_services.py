"""Tests for config providers and override policies in `plugin.path`: lookup by name, and calls during JVM restarts."""

from __future__ import annotations

import json
from typing import cast

import pytest

from kraal.config.clients.overrides import OverrideRequest
from kraal.core.errors import BadRequest, ConfigInvalid, PluginFailed, ProviderFailed, Unavailable
from kraal.java_plugins.catalog import parse_catalog
from kraal.java_plugins.connector import make_classes
from kraal.java_plugins.hosts import PluginHosts
from kraal.java_plugins.services import CALL_TIMEOUT_S, JavaPolicy, RetryingCaller, open_services
from kraal.plugins.config_providers import Providers
from kraal.plugins.registry import Registry
from kraal.plugins.validation.framework import WorkerDefaults
from kraal.plugins.validation.validate import describe_plugin, validate_connector
from kraal.plugins.worker_plugins import WorkerPlugins
from tests.unit.java_plugins.catalogs import plugin
from tests.unit.java_plugins.fake_host import FakeHost, FakeHosts
from tests.unit.plugins.shipped import Worker

VAULT = "com.example.VaultConfigProvider"
POLICY = "com.example.StrictConnectorClientConfigOverridePolicy"
POLICY_KEY = "connector.client.config.override.policy"
SERVICES = json.dumps(
    [
        plugin("com.example.Source", "source"),
        plugin(VAULT, "configprovider", keys=[]),
        plugin(POLICY, "connector_client_config_override_policy", keys=[]),
    ]
)
WORKER_PROPERTIES = {
    "config.providers": "vault",
    "config.providers.vault.class": VAULT,
    "config.providers.vault.param.token": "t",
}
CONFIG: dict[str, str | None] = {"a": "${vault:p:k}", "b": "${vault:p:l}"}


class JavaError(Exception):
    """A fake `Py4JJavaError`, which is also its own `java_exception`."""

    def __init__(self, name: str, text: str | None) -> None:
        super().__init__("the stack of Java")
        self.java_exception = self
        self._name, self._text = name, text

    def getClass(self) -> JavaError:  # noqa: N802 - Java's name
        return self

    def getName(self) -> str:  # noqa: N802 - Java's name
        return self._name

    def getMessage(self) -> str | None:  # noqa: N802 - Java's name
        return self._text


@pytest.fixture
def host() -> FakeHost:
    host = FakeHost()
    host.services = [java_plugin for java_plugin in parse_catalog(SERVICES) if java_plugin.is_service]
    host.results["configValues"] = json.dumps({"data": {"k": "a value"}, "ttl": 77})
    host.results["checkOverrides"] = "[]"
    return host


def open_test_providers(
    host: FakeHost, raw: dict[str, str] = WORKER_PROPERTIES, *, is_stopping: bool = False
) -> Providers:
    return open_services(raw, cast("PluginHosts", FakeHosts(host)), lambda: is_stopping)[0]


@pytest.mark.parametrize("name", [VAULT, "VaultConfigProvider", "Vault"])
def test_java_provider_is_resolved_by_full_name_and_aliases(host: FakeHost, name: str) -> None:
    host.up()
    resolution = open_test_providers(
        host, WORKER_PROPERTIES | {"config.providers.vault.class": name}
    ).resolve(CONFIG)
    assert (resolution.config, resolution.ttl_ms) == ({"a": "a value", "b": "${vault:p:l}"}, 77)
    [(method, number, class_name, params, path, keys)] = host.requests
    assert (method, class_name, path) == ("configValues", VAULT, "p")
    assert (number, json.loads(params), json.loads(keys)) == (1, {"token": "t"}, ["k", "l"])


def test_unknown_provider_class_fails_startup_and_lists_java_classes(host: FakeHost) -> None:
    with pytest.raises(ConfigInvalid, match=f"available ConfigProviders are: {VAULT}, org") as error:
        open_test_providers(host, WORKER_PROPERTIES | {"config.providers.vault.class": "NoSuch"})
    assert str(error.value).startswith(
        "Invalid value NoSuch for configuration config.providers.vault.class: "
    )
    assert host.closed


def test_stopping_worker_opens_no_providers() -> None:
    assert open_services(WORKER_PROPERTIES, None, lambda: True) == (Providers(), None)


def test_kraal_provider_takes_precedence_over_a_java_class_of_the_same_name(host: FakeHost) -> None:
    name = "org.apache.kafka.common.config.provider.EnvVarConfigProvider"
    host.services = [
        entry for entry in parse_catalog(json.dumps([plugin(name, "configprovider")])) if entry.is_service
    ]
    assert not open_test_providers(
        host, WORKER_PROPERTIES | {"config.providers.vault.class": name}
    ).is_remote("vault")


def test_resolve_waits_until_the_jvm_is_up(host: FakeHost) -> None:
    host.wait_actions = [lambda: None, lambda: None, host.up]
    assert open_test_providers(host).resolve(CONFIG).config["a"] == "a value"
    assert host.wait_count == 3


def test_stopping_worker_fails_requests_without_waiting(host: FakeHost) -> None:
    with pytest.raises(Unavailable, match="it starts"):
        open_test_providers(host, is_stopping=True).resolve(CONFIG)
    assert host.wait_count == 0


def test_ask_raises_unavailable_after_the_timeout(host: FakeHost) -> None:
    now = iter([0.0, 0.0, CALL_TIMEOUT_S - 1, CALL_TIMEOUT_S])
    caller = RetryingCaller(host, lambda: False, now.__next__)
    with pytest.raises(Unavailable, match="it starts"):
        caller.ask("any", timeout_s=CALL_TIMEOUT_S)
    assert host.wait_count == 2


def test_request_is_retried_after_a_jvm_exit(host: FakeHost) -> None:
    host.up()
    host.down()
    host.wait_actions = [host.up]
    assert open_test_providers(host).resolve_with_timeout(CONFIG).config["a"] == "a value"


@pytest.mark.parametrize(("text", "reason"), [("sealed", "sealed"), (None, "com.example.Sealed")])
def test_provider_error_contains_the_request_and_the_java_stack(
    host: FakeHost, text: str | None, reason: str
) -> None:
    host.up()
    host.results["configValues"] = JavaError("com.example.Sealed", text)
    with pytest.raises(ProviderFailed) as error:
        open_test_providers(host).resolve(CONFIG)
    assert str(error.value) == f"The config provider vault could not read k, l at p: {reason}"
    assert error.value.__cause__ is not None
    assert error.value.__cause__.__notes__ == ["the stack of Java"]


def make_plugins(host: FakeHost) -> WorkerPlugins:
    plugins = [java_plugin for java_plugin in parse_catalog(SERVICES) if not java_plugin.is_service]
    registry = Registry.of({}).with_java(make_classes(plugins, cast("PluginHosts", FakeHosts(host))))
    return WorkerPlugins(registry, Worker(), open_test_providers(host))


def test_type_and_version_lookups_do_not_wait_for_the_jvm(host: FakeHost) -> None:
    plugins = make_plugins(host)
    assert plugins.connector_type({"connector.class": "com.example.Source", "x": "${vault:p:k}"}) == "source"
    assert plugins.connector_type({"connector.class": "${vault:p:k}"}) == "unknown"
    assert plugins.connector_version({"connector.class": "${vault:p:k}"}) is None
    assert (host.requests, host.wait_count) == ([], 0)


@pytest.mark.parametrize("key", ["connector.class", "connector.plugin.version"])
def test_connector_class_must_not_use_variables_of_java_providers(host: FakeHost, key: str) -> None:
    config = {"connector.class": "com.example.Source", key: "${vault:p:k}"}
    plugins = make_plugins(host)
    for resolve in (plugins.resolve, plugins.check):
        with pytest.raises(BadRequest, match=f"{key} must not have variables of the config provider vault"):
            resolve(config)


# --- Policies -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [POLICY, POLICY.rpartition(".")[2], "Strict"])
def test_java_policy_is_resolved_by_full_name_and_aliases(host: FakeHost, name: str) -> None:
    _, policy = open_services({POLICY_KEY: name}, cast("PluginHosts", FakeHosts(host)), lambda: False)
    assert isinstance(policy, JavaPolicy)


@pytest.mark.parametrize(
    "name", ["", "All", "org.apache.kafka.connect.connector.policy.NoneConnectorClientConfigOverridePolicy"]
)
def test_builtin_policies_take_precedence(host: FakeHost, name: str) -> None:
    assert open_services({POLICY_KEY: name}, cast("PluginHosts", FakeHosts(host)), lambda: False)[1] is None


@pytest.mark.parametrize("name", ["Lax", VAULT, "com.example.AllConnectorClientConfigOverridePolicy"])
def test_unknown_policy_fails_startup(host: FakeHost, name: str) -> None:
    with pytest.raises(ConfigInvalid) as error:
        open_services({POLICY_KEY: name}, cast("PluginHosts", FakeHosts(host)), lambda: False)
    assert str(error.value) == (
        f"Invalid value {name} for configuration {POLICY_KEY}: no such class is in plugin.path; available policies "
        f"are: All, None, Principal, Allowlist, {POLICY}"
    )
    assert host.closed


def worker_with_java_policy(host: FakeHost) -> WorkerDefaults:
    """Return the defaults of a worker with a Java policy."""
    members = {"override_policy": JavaPolicy(RetryingCaller(host, lambda: False))}
    return cast("WorkerDefaults", type("StrictWorker", (Worker,), members)())


def test_java_policy_validates_each_client_of_a_connector(host: FakeHost) -> None:
    host.wait_actions = [host.up]
    host.results["validate"] = "[]"
    plugins = [java_plugin for java_plugin in parse_catalog(SERVICES) if not java_plugin.is_service]
    registry = Registry.of({}).with_java(make_classes(plugins, cast("PluginHosts", FakeHosts(host))))
    value_info = {
        "name": "linger.ms",
        "value": "7",
        "recommended_values": [],
        "errors": ["no", "never"],
        "visible": True,
    }
    host.results["checkOverrides"] = json.dumps([value_info])
    config: dict[str, str | None] = {
        "name": "c",
        "connector.class": "Source",
        "connector.plugin.version": "2.0",
        "producer.override.linger.ms": "7",
        "producer.override.batch.size": "many",
    }
    infos = validate_connector(registry, worker_with_java_policy(host), config)
    values = {info.value.name: info.value.errors for info in infos.configs if ".override." in info.value.name}
    assert values == {
        "producer.override.linger.ms": ("no", "never"),
        "producer.override.batch.size": (
            "Invalid value many for configuration batch.size: Not a number of type INT",
        ),
    }
    [(_, request, overrides)] = [call for call in host.requests if call[0] == "checkOverrides"]
    assert json.loads(request) == {
        "name": "c", "type": "source", "class": "com.example.Source", "version": "2.0", "client": "producer",
    }  # fmt: skip
    assert json.loads(overrides) == {"linger.ms": "7"}


def test_exception_of_a_policy_fails_the_validation(host: FakeHost) -> None:
    host.up()
    host.results["checkOverrides"] = JavaError("com.example.Sealed", "it fails")
    policy = open_services({POLICY_KEY: POLICY}, cast("PluginHosts", FakeHosts(host)), lambda: False)[1]
    assert policy is not None
    with pytest.raises(PluginFailed, match="it fails"):
        policy.validate(
            OverrideRequest(
                name="c", type="sink", class_name=None, version=None, client="consumer", overrides={}
            )
        )


def test_worker_plugins_cannot_be_described(host: FakeHost) -> None:
    names = [name for service in host.services for name in service.service_names]
    registry = Registry.of({}).with_java({}, (), names)
    for name in (VAULT, "Strict"):
        with pytest.raises(BadRequest, match=f"Invalid plugin class {name}. Valid types are sink"):
            describe_plugin(registry, name)
