"""Config providers and override policies in `plugin.path`: found by name, asked while the process comes and goes."""

from __future__ import annotations

import json
from typing import cast

import pytest

from kraal.config.clients.overrides import OverrideRequest
from kraal.core.errors import BadRequest, ConfigInvalid, PluginFailed, ProviderFailed, Unavailable
from kraal.java_plugins.catalog import parse_catalog
from kraal.java_plugins.connector import make_classes
from kraal.java_plugins.hosts import PluginHosts
from kraal.java_plugins.services import CALL_TIMEOUT_S, Asking, JavaPolicy, open_services
from kraal.plugins.config_providers import Providers
from kraal.plugins.registry import Registry
from kraal.plugins.validation.framework import WorkerDefaults
from kraal.plugins.validation.validate import describe_plugin, validate_connector
from kraal.plugins.worker_plugins import ProvidedPlugins
from tests.unit.java_plugins.catalogs import plugin
from tests.unit.java_plugins.fake_host import FakeHost, FakeHosts
from tests.unit.plugins.shipped import Worker

VAULT = "com.example.VaultConfigProvider"
POLICY = "com.example.StrictConnectorClientConfigOverridePolicy"
KAFKA = "org.apache.kafka.connect.connector.policy"
KEY = "connector.client.config.override.policy"
SERVICES = json.dumps(
    [
        plugin("com.example.Source", "source"),
        plugin(VAULT, "configprovider", keys=[]),
        plugin(POLICY, "connector_client_config_override_policy", keys=[]),
    ]
)
RAW = {
    "config.providers": "vault",
    "config.providers.vault.class": VAULT,
    "config.providers.vault.param.token": "t",
}
CONFIG: dict[str, str | None] = {"a": "${vault:p:k}", "b": "${vault:p:l}"}


class JavaError(Exception):
    """What py4j raises for something that Java has thrown."""

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
    host.services = [each for each in parse_catalog(SERVICES) if each.is_service]
    host.answers["configValues"] = json.dumps({"data": {"k": "a value"}, "ttl": 77})
    host.answers["checkOverrides"] = "[]"
    return host


def opened(host: FakeHost, raw: dict[str, str] = RAW, *, ends: bool = False) -> Providers:
    return open_services(raw, cast("PluginHosts", FakeHosts(host)), lambda: ends)[0]


@pytest.mark.parametrize("name", [VAULT, "VaultConfigProvider", "Vault"])
def test_a_provider_in_plugin_path_has_the_names_that_java_gives_it(host: FakeHost, name: str) -> None:
    host.up()
    resolved = opened(host, RAW | {"config.providers.vault.class": name}).resolve(CONFIG)
    assert (resolved.config, resolved.ttl_ms) == ({"a": "a value", "b": "${vault:p:l}"}, 77)
    [(method, number, class_name, params, path, keys)] = host.requests
    assert (method, class_name, path) == ("configValues", VAULT, "p")
    assert (number, json.loads(params), json.loads(keys)) == (1, {"token": "t"}, ["k", "l"])


def test_a_class_that_is_nowhere_ends_the_start_and_names_those_of_java(host: FakeHost) -> None:
    with pytest.raises(ConfigInvalid, match=f"available ConfigProviders are: {VAULT}, org") as caught:
        opened(host, RAW | {"config.providers.vault.class": "NoSuch"})
    assert str(caught.value).startswith(
        "Invalid value NoSuch for configuration config.providers.vault.class: "
    )
    assert host.closed


def test_a_worker_that_ends_before_its_plugins_are_known_misses_none() -> None:
    assert open_services(RAW, None, lambda: True) == (Providers(), None)


def test_kraal_s_own_provider_wins_over_one_of_the_same_name(host: FakeHost) -> None:
    name = "org.apache.kafka.common.config.provider.EnvVarConfigProvider"
    host.services = [
        each for each in parse_catalog(json.dumps([plugin(name, "configprovider")])) if each.is_service
    ]
    assert not opened(host, RAW | {"config.providers.vault.class": name}).is_remote("vault")


def test_a_connector_waits_until_the_process_is_up(host: FakeHost) -> None:
    host.while_waited = [lambda: None, lambda: None, host.up]
    assert opened(host).resolve(CONFIG).config["a"] == "a value"
    assert host.waited == 3


def test_ending_worker_fails_requests_without_waiting(host: FakeHost) -> None:
    with pytest.raises(Unavailable, match="it starts"):
        opened(host, ends=True).resolve(CONFIG)
    assert host.waited == 0


def test_a_request_waits_for_some_time(host: FakeHost) -> None:
    now = iter([0.0, 0.0, CALL_TIMEOUT_S - 1, CALL_TIMEOUT_S])
    asking = Asking(host, lambda: False, now.__next__)
    with pytest.raises(Unavailable, match="it starts"):
        asking.ask("any", within_s=CALL_TIMEOUT_S)
    assert host.waited == 2


def test_a_process_that_ends_while_it_is_asked_is_asked_again(host: FakeHost) -> None:
    host.up()
    host.down()
    host.while_waited = [host.up]
    assert opened(host).resolve_in_time(CONFIG).config["a"] == "a value"


@pytest.mark.parametrize(("text", "settings"), [("sealed", "sealed"), (None, "com.example.Sealed")])
def test_provider_error_names_the_request_and_includes_the_java_stack(
    host: FakeHost, text: str | None, settings: str
) -> None:
    host.up()
    host.answers["configValues"] = JavaError("com.example.Sealed", text)
    with pytest.raises(ProviderFailed) as caught:
        opened(host).resolve(CONFIG)
    assert str(caught.value) == f"The config provider vault could not read k, l at p: {settings}"
    assert caught.value.__cause__ is not None
    assert caught.value.__cause__.__notes__ == ["the stack of Java"]


def plugins_of(host: FakeHost) -> ProvidedPlugins:
    plugins = [each for each in parse_catalog(SERVICES) if not each.is_service]
    registry = Registry.of({}).with_java(make_classes(plugins, cast("PluginHosts", FakeHosts(host))))
    return ProvidedPlugins(registry, Worker(), opened(host))


def test_the_herder_never_waits_for_the_process(host: FakeHost) -> None:
    plugins = plugins_of(host)
    assert plugins.connector_type({"connector.class": "com.example.Source", "x": "${vault:p:k}"}) == "source"
    assert plugins.connector_type({"connector.class": "${vault:p:k}"}) == "unknown"
    assert plugins.connector_version({"connector.class": "${vault:p:k}"}) is None
    assert (host.requests, host.waited) == ([], 0)


@pytest.mark.parametrize("key", ["connector.class", "connector.plugin.version"])
def test_the_class_is_no_variable_of_such_a_provider(host: FakeHost, key: str) -> None:
    config = {"connector.class": "com.example.Source", key: "${vault:p:k}"}
    plugins = plugins_of(host)
    for resolve in (plugins.resolve, plugins.check):
        with pytest.raises(BadRequest, match=f"{key} must not have variables of the config provider vault"):
            resolve(config)


# --- Policies -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [POLICY, POLICY.rpartition(".")[2], "Strict"])
def test_a_policy_in_plugin_path_has_the_names_that_java_gives_it(host: FakeHost, name: str) -> None:
    _, policy = open_services({KEY: name}, cast("PluginHosts", FakeHosts(host)), lambda: False)
    assert isinstance(policy, JavaPolicy)


@pytest.mark.parametrize(
    "name", ["", "All", "org.apache.kafka.connect.connector.policy.NoneConnectorClientConfigOverridePolicy"]
)
def test_kraal_s_own_policies_stay(host: FakeHost, name: str) -> None:
    assert open_services({KEY: name}, cast("PluginHosts", FakeHosts(host)), lambda: False)[1] is None


@pytest.mark.parametrize("name", ["Lax", VAULT, "com.example.AllConnectorClientConfigOverridePolicy"])
def test_a_policy_that_is_nowhere_ends_the_start(host: FakeHost, name: str) -> None:
    with pytest.raises(ConfigInvalid) as caught:
        open_services({KEY: name}, cast("PluginHosts", FakeHosts(host)), lambda: False)
    assert str(caught.value) == (
        f"Invalid value {name} for configuration {KEY}: no such class is in plugin.path; available policies are: "
        f"All, None, Principal, Allowlist, {POLICY}"
    )
    assert host.closed


def strict_worker(host: FakeHost) -> WorkerDefaults:
    """Return the defaults of a worker whose policy is Java."""
    members = {"override_policy": JavaPolicy(Asking(host, lambda: False))}
    return cast("WorkerDefaults", type("StrictWorker", (Worker,), members)())


def test_a_policy_is_asked_about_each_client_of_a_connector(host: FakeHost) -> None:
    host.while_waited = [host.up]
    host.answers["validate"] = "[]"
    plugins = [each for each in parse_catalog(SERVICES) if not each.is_service]
    registry = Registry.of({}).with_java(make_classes(plugins, cast("PluginHosts", FakeHosts(host))))
    value_ = {
        "name": "linger.ms",
        "value": "7",
        "recommended_values": [],
        "errors": ["no", "never"],
        "visible": True,
    }
    host.answers["checkOverrides"] = json.dumps([value_])
    config: dict[str, str | None] = {
        "name": "c",
        "connector.class": "Source",
        "connector.plugin.version": "2.0",
        "producer.override.linger.ms": "7",
        "producer.override.batch.size": "many",
    }
    infos = validate_connector(registry, strict_worker(host), config)
    values = {each.value.name: each.value.errors for each in infos.configs if ".override." in each.value.name}
    assert values == {
        "producer.override.linger.ms": ("no", "never"),
        "producer.override.batch.size": (
            "Invalid value many for configuration batch.size: Not a number of type INT",
        ),
    }
    [(_, about, overrides)] = [each for each in host.requests if each[0] == "checkOverrides"]
    assert json.loads(about) == {
        "name": "c", "type": "source", "class": "com.example.Source", "version": "2.0", "client": "producer",
    }  # fmt: skip
    assert json.loads(overrides) == {"linger.ms": "7"}


def test_a_policy_that_throws_fails_the_validation(host: FakeHost) -> None:
    host.up()
    host.answers["checkOverrides"] = JavaError("com.example.Sealed", "it fails")
    policy = open_services({KEY: POLICY}, cast("PluginHosts", FakeHosts(host)), lambda: False)[1]
    assert policy is not None
    with pytest.raises(PluginFailed, match="it fails"):
        policy.validate(
            OverrideRequest(
                name="c", type="sink", class_name=None, version=None, client="consumer", overrides={}
            )
        )


def test_services_cannot_be_described(host: FakeHost) -> None:
    names = [name for each in host.services for name in each.service_names]
    registry = Registry.of({}).with_java({}, (), names)
    for name in (VAULT, "Strict"):
        with pytest.raises(BadRequest, match=f"Invalid plugin class {name}. Valid types are sink"):
            describe_plugin(registry, name)
