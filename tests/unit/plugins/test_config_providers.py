"""Tests for a worker's config providers: lookup, configuration, and resolution of connector and worker configs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import ClassVar

import pytest
from typing_extensions import override

from kraal.config.provider import ConfigData, ConfigProvider
from kraal.config.providers import EnvVarConfigProvider
from kraal.config.worker.standalone import load_standalone
from kraal.core.errors import ConfigInvalid, ProviderFailed
from kraal.core.secrets import MAX_SECRETS, secrets
from kraal.plugins.config_providers import (
    ProviderClasses,
    Providers,
    open_providers,
    resolve_worker,
)
from kraal.testing._simulation.worker import DEFAULTS

FILE_PROVIDER = "org.apache.kafka.common.config.provider.FileConfigProvider"
VAULT_PROVIDER = "com.example.VaultConfigProvider"


class Vault(ConfigProvider):
    """A provider whose values and TTLs depend on its parameters."""

    instances: ClassVar[list[Vault]] = []

    def __init__(self) -> None:
        self.params: Mapping[str, str] = {}
        self.requests: list[tuple[str, list[str]]] = []
        self.is_closed = False
        self.instances.append(self)

    @override
    def configure(self, params: Mapping[str, str]) -> None:
        if "refuse" in params:
            raise RuntimeError(params["refuse"])
        self.params = params

    @override
    def get(self, path: str, keys: Collection[str]) -> ConfigData:
        self.requests.append((path, sorted(keys)))
        if path == "broken":
            raise OSError("the vault is sealed")
        ttl = self.params.get(f"ttl.{path}")
        data = {key: f"{key} of {path or 'nowhere'} by {self.params.get('token')}" for key in keys}
        return ConfigData(data=data, ttl_ms=None if ttl is None else int(ttl))

    @override
    def close(self) -> None:
        self.is_closed = True


@pytest.fixture(autouse=True)
def _clear_instances() -> None:
    Vault.instances.clear()


CLASSES = ProviderClasses(
    {VAULT_PROVIDER: lambda: Vault, "a.SameConfigProvider": dict, "b.SameConfigProvider": dict}
)


def worker(**settings: str) -> dict[str, str]:
    return {
        "config.providers": "vault",
        "config.providers.vault.class": VAULT_PROVIDER,
        "config.providers.vault.param.token": "t",
        **{key.replace("__", "."): value for key, value in settings.items()},
    }


@pytest.mark.parametrize("name", [FILE_PROVIDER, "FileConfigProvider", "File"])
def test_shipped_providers_are_resolved_by_java_names(name: str, tmp_path: Path) -> None:
    (tmp_path / "p").write_text("k=a value")
    raw = {"config.providers": "x", "config.providers.x.class": name}
    providers = open_providers(raw, ProviderClasses.load())
    assert providers.resolve({"a": f"${{x:{tmp_path}/p:k}}"}).config == {"a": "a value"}


@pytest.mark.parametrize("name", ["Directory", "EnvVar", "DirectoryConfigProvider", "EnvVarConfigProvider"])
def test_other_shipped_providers_are_resolved_by_aliases(name: str) -> None:
    assert isinstance(ProviderClasses.load().make("k", name), ConfigProvider)


def test_unknown_provider_class_fails_startup() -> None:
    raw = {"config.providers": "x", "config.providers.x.class": "NoSuch"}
    with pytest.raises(ConfigInvalid) as error:
        open_providers(raw, ProviderClasses.load())
    assert str(error.value) == (
        "Invalid value NoSuch for configuration config.providers.x.class: Could not load config provider class or "
        "one of its dependencies, available ConfigProviders are: "
        "org.apache.kafka.common.config.provider.DirectoryConfigProvider, "
        "org.apache.kafka.common.config.provider.EnvVarConfigProvider, "
        "org.apache.kafka.common.config.provider.FileConfigProvider"
    )


@pytest.mark.parametrize(
    ("load", "reason"),
    [
        (lambda: 1 / 0, "it could not be loaded: ZeroDivisionError('division by zero')"),
        (lambda: dict, "<class 'dict'> is not a ConfigProvider"),
        (lambda: 5, "5 is not a ConfigProvider"),
    ],
)
def test_class_that_is_not_a_provider_fails_startup(load: Callable[[], object], reason: str) -> None:
    with pytest.raises(ConfigInvalid, match=r"Invalid value com\.x for configuration k: ") as error:
        ProviderClasses({"com.x": load}).make("k", "com.x")
    assert str(error.value).endswith(reason)


def test_ambiguous_provider_alias_is_not_resolved() -> None:
    with pytest.raises(ConfigInvalid, match="Invalid value Same"):
        CLASSES.make("k", "Same")


def test_rejected_provider_parameters_fail_startup() -> None:
    raw = worker(config__providers__vault__param__refuse="no such place")
    with pytest.raises(ConfigInvalid) as error:
        open_providers(raw, CLASSES)
    assert (
        str(error.value)
        == f"The config provider vault ({VAULT_PROVIDER}) cannot be configured: no such place"
    )


def test_provider_without_a_class_leaves_its_variables_unresolved(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        providers = open_providers({"config.providers": "x, x"}, CLASSES)
    assert providers.resolve({"a": "${x:y}"}).config == {"a": "${x:y}"}
    assert [record.getMessage() for record in caplog.records] == [
        "The config provider x has no config.providers.x.class; variables of this provider are not replaced"
    ]


def test_provider_is_called_once_per_path() -> None:
    providers = open_providers(worker(), CLASSES)
    config = {"a": "${vault:p:k}${vault:p:l}", "b": "${vault:p:k}", "c": "${vault:q:k}", "d": "${vault:k}"}
    resolved_config = providers.resolve({**config, "e": None}).config
    [vault] = Vault.instances
    assert vault.requests == [("p", ["k", "l"]), ("q", ["k"]), ("", ["k"])]
    assert resolved_config == {
        "a": "k of p by tl of p by t",
        "b": "k of p by t",
        "c": "k of q by t",
        "d": "k of nowhere by t",
        "e": None,
    }


def test_config_has_the_shortest_ttl_of_its_values() -> None:
    raw = worker() | {
        f"config.providers.vault.param.ttl.{path}": ttl
        for path, ttl in (("p", "70"), ("q", "9"), ("r", "-1"))
    }
    providers = open_providers(raw, CLASSES)
    assert providers.resolve({"a": "${vault:p:k}", "b": "${vault:q:k}", "c": "${vault:r:k}"}).ttl_ms == 9
    assert providers.resolve({"c": "${vault:r:k}"}).ttl_ms is None
    assert providers.resolve({"c": "nothing"}).ttl_ms is None


def test_provider_error_contains_the_keys_and_path() -> None:
    providers = open_providers(worker(), CLASSES)
    with pytest.raises(ProviderFailed) as error:
        providers.resolve({"a": "${vault:broken:k}"})
    assert str(error.value) == "The config provider vault could not read k at broken: the vault is sealed"


def test_provider_values_are_redacted() -> None:
    open_providers(worker(), CLASSES).resolve({"greeting": "${vault:p:k}"})
    assert secrets.scrub("it is k of p by t") == "it is [hidden]"


def test_close_closes_all_providers_even_if_one_raises(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Vault):
        @override
        def close(self) -> None:
            raise RuntimeError("no")

    vault = Vault()
    Providers({"b": Broken(), "v": vault}).close()
    assert vault.is_closed
    assert "Failed to close the config provider b" in caplog.text


def test_worker_config_is_resolved_except_plugin_path() -> None:
    raw = worker(group__id="${vault:p:g}", plugin__path="${vault:p:x}")
    config = resolve_worker(raw, CLASSES)
    assert config["group.id"] == "g of p by t"
    assert config["plugin.path"] == "${vault:p:x}"
    assert [vault.is_closed for vault in Vault.instances] == [True]


def test_worker_config_without_variables_creates_no_provider() -> None:
    resolve_worker(worker(), CLASSES)
    assert Vault.instances == []


def test_provider_parameters_can_use_another_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VAULT_TOKEN", "a token of the environment")
    raw = {
        "config.providers": "env,vault",
        "config.providers.env.class": "EnvVar",
        "config.providers.vault.class": VAULT_PROVIDER,
        "config.providers.vault.param.token": "${env:VAULT_TOKEN}",
    }
    env = "org.apache.kafka.common.config.provider.EnvVarConfigProvider"
    classes = ProviderClasses({VAULT_PROVIDER: lambda: Vault, env: lambda: EnvVarConfigProvider})
    providers = open_providers(resolve_worker(raw, classes), classes)
    assert providers.resolve({"a": "${vault:k}"}).config == {
        "a": "k of nowhere by a token of the environment"
    }


def test_secrets_in_the_worker_file_are_redacted() -> None:
    resolve_worker({"ssl.key.password": "written in the file", "group.id": "my group"}, CLASSES)
    assert secrets.scrub("written in the file, my group") == "[hidden], my group"


def test_worker_secrets_are_never_evicted_by_connector_secrets() -> None:
    raw = worker(group__id="${vault:p:g}")
    resolve_worker({**raw, "sasl.jaas.config": 'Login required password="written in the file";'}, CLASSES)
    secrets.add(*(f"token number {n}" for n in range(MAX_SECRETS + 1)))
    assert secrets.scrub("written in the file, g of p by t, token number 9") == "[hidden], [hidden], [hidden]"


def resolve_with_installed_providers(raw: Mapping[str, str]) -> Mapping[str, str]:
    return resolve_worker(raw, ProviderClasses.load())


def test_worker_file_with_variables_is_resolved_and_validated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KRAAL_BROKERS", "broker-1:9092")
    raw = {
        **DEFAULTS,
        "config.providers": "env",
        "config.providers.env.class": "EnvVarConfigProvider",
        "bootstrap.servers": "${env:KRAAL_BROKERS}",
        "poll.interval.ms": "${env:NOT_THERE}",
    }
    path = tmp_path / "worker.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in raw.items()))
    with pytest.raises(ConfigInvalid, match=r"Invalid value \$\{env:NOT_THERE\} for configuration poll"):
        load_standalone(path, resolve_variables=resolve_with_installed_providers)
    monkeypatch.setenv("NOT_THERE", "77")
    config = load_standalone(path, resolve_variables=resolve_with_installed_providers)
    assert (config.bootstrap_servers, config.raw["poll.interval.ms"]) == ("broker-1:9092", "77")
    assert config.warnings == ()
