"""The config providers of a worker: discovery, configuration, and resolution of the variables in configs.

Classes come from entry points, like other plugins, and from `plugin.path`. Configs name a class by its full name, by
the last part of its name, or by the last part without the suffix `ConfigProvider`. The worker's own config is resolved
first, by providers that are configured with the raw config. The providers for connectors are configured with the
resolved config, so that the parameters of one provider may refer to values of another provider. Every value that a
provider returns is treated as a secret from then on.
Source: Plugins.newConfigProvider, WorkerConfigTransformer, ConfigTransformer (Kafka 4.4.0).
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from kraal.config.provider import ConfigData, ConfigProvider
from kraal.config.secret_keys import secret_values
from kraal.config.values import invalid, split_list
from kraal.config.variables import ResolvedConfig, Variable, find_variables
from kraal.config.worker.keys import WORKER
from kraal.core.errors import ConfigInvalid, KraalError, ProviderFailed
from kraal.core.ids import Config
from kraal.core.secrets import secrets
from kraal.plugins.entries import installed
from kraal.plugins.importing import IMPORT_LOCK

log = logging.getLogger(__name__)

PROVIDERS_GROUP: Final = "kraal.config_providers"
PROVIDERS: Final = "config.providers"
_SUFFIX: Final = "ConfigProvider"
_UNRESOLVED_KEYS: Final = ("plugin.path",)


class RemoteProvider(ConfigProvider):
    """A provider in another process.

    If the process is down, `get` blocks until the process is running again or the worker stops.
    """

    @abstractmethod
    def get_with_timeout(self, path: str, keys: Collection[str]) -> ConfigData:
        """Like `get`, but wait at most as long as a REST request may wait. Raises Unavailable."""


class ProviderClasses:
    """The classes of config providers, by full and short name; imported on first use."""

    def __init__(self, loaders: Mapping[str, Callable[[], object]]) -> None:
        """Initialize the classes; `loaders` maps each full class name to a function that loads the class."""
        self._loaders = dict(loaders)
        names_by_alias: dict[str, set[str]] = defaultdict(set)
        for name in self._loaders:
            simple_name = name.replace("$", ".").rpartition(".")[2]
            names_by_alias[simple_name].add(name)
            names_by_alias[simple_name.removesuffix(_SUFFIX) or simple_name].add(name)
        self._aliases = {alias: names.pop() for alias, names in names_by_alias.items() if len(names) == 1}

    @staticmethod
    def load() -> ProviderClasses:
        """Return the installed classes, without importing them."""
        return ProviderClasses({entry.name: entry.load for entry in installed(PROVIDERS_GROUP)})

    def with_classes(self, loaders: Mapping[str, Callable[[], object]]) -> ProviderClasses:
        """Return a copy with additional classes, by full name. Existing classes take precedence."""
        return ProviderClasses({**loaders, **self._loaders})

    def has(self, name: str) -> bool:
        """Return whether a provider class has this full or short name."""
        return name in self._loaders or name in self._aliases

    def make(self, key: str, name: str) -> ConfigProvider:
        """Create a provider of the class `name`, which is the value of the worker's key `key`. Raises ConfigInvalid."""
        load = self._loaders.get(name) or self._loaders.get(self._aliases.get(name, ""))
        if load is None:
            available = ", ".join(sorted(self._loaders))
            raise _config_invalid(
                invalid(
                    key,
                    name,
                    "Could not load config provider class or one of its dependencies, "
                    f"available ConfigProviders are: {available}",
                )
            )
        try:
            with IMPORT_LOCK:
                cls = load()
            provider = cls() if isinstance(cls, type) else None
        except Exception as exc:
            raise _config_invalid(invalid(key, name, f"it could not be loaded: {exc!r}")) from exc
        if not isinstance(provider, ConfigProvider):
            raise _config_invalid(invalid(key, name, f"{cls!r} is not a ConfigProvider"))
        return provider


@dataclass(frozen=True, slots=True)
class Providers:
    """Config providers by the names that variables use; thread-safe."""

    by_name: Mapping[str, ConfigProvider] = field(default_factory=dict)

    def resolve(self, config: Config) -> ResolvedConfig:
        """Resolve the variables of a config. Blocks as long as the providers do. Raises ProviderFailed."""
        return _resolve(config, self.by_name.get)

    def resolve_with_timeout(self, config: Config) -> ResolvedConfig:
        """Like `resolve`, but raise Unavailable if a provider's process is down for longer than a request may wait."""
        return _resolve(config, self.by_name.get, _get_with_timeout)

    def resolve_locally(self, config: Config) -> ResolvedConfig:
        """Resolve a config except variables whose providers run in other processes. Raises ProviderFailed."""
        return _resolve(config, lambda name: None if self.is_remote(name) else self.by_name.get(name))

    def is_remote(self, name: str) -> bool:
        """Return whether the provider runs in another process."""
        return isinstance(self.by_name.get(name), RemoteProvider)

    def close(self) -> None:
        """Close all providers, logging their errors."""
        for name, provider in self.by_name.items():
            try:
                provider.close()
            except Exception:
                log.exception("Failed to close the config provider %s", name)


def without_providers(config: Config) -> dict[str, str | None]:
    """Return a connector's config without its `config.providers` keys, because only the worker's providers are used.

    Source: AbstractHerder.removeCustomConfigProviders (Kafka 4.4.0).
    """
    return {key: text for key, text in config.items() if not f"{key}.".startswith(f"{PROVIDERS}.")}


def open_providers(worker: Mapping[str, str], classes: ProviderClasses) -> Providers:
    """Create the providers that a worker's config declares. Raises ConfigInvalid."""
    providers: dict[str, ConfigProvider] = {}
    for name in dict.fromkeys(split_list(worker.get(PROVIDERS, ""))):
        provider = _open(name, worker, classes)
        if provider is not None:
            providers[name] = provider
    return Providers(providers)


def list_used_providers(raw: Mapping[str, str]) -> dict[str, str]:
    """Return the classes of the providers that a worker's own config references, by the providers' names."""
    used_names = {variable.provider for variable in find_variables(_resolvable(raw))}
    declared_names = (name for name in split_list(raw.get(PROVIDERS, "")) if name in used_names)
    return {name: raw.get(f"{PROVIDERS}.{name}.class", "").strip() for name in declared_names}


def resolve_worker(raw: Mapping[str, str], classes: ProviderClasses) -> dict[str, str]:
    """Resolve a worker's config and register its secrets for redaction.

    Only referenced providers are created. Raises ConfigInvalid and ProviderFailed.
    """
    secrets.pin(*secret_values(raw, WORKER))
    declared_names = split_list(raw.get(PROVIDERS, ""))
    opened_providers: dict[str, ConfigProvider | None] = {}

    def open_provider(name: str) -> ConfigProvider | None:
        if name in declared_names and name not in opened_providers:
            opened_providers[name] = _open(name, raw, classes)
        return opened_providers.get(name)

    try:
        resolved_config = _resolve(_resolvable(raw), open_provider, register=secrets.pin).config
    finally:
        providers = {name: item for name, item in opened_providers.items() if item is not None}
        Providers(providers).close()
    config = {**raw, **{key: text for key, text in resolved_config.items() if text is not None}}
    secrets.pin(*secret_values(config, WORKER))
    return config


def _resolvable(raw: Mapping[str, str]) -> dict[str, str]:
    return {key: text for key, text in raw.items() if key not in _UNRESOLVED_KEYS}


def _open(name: str, worker: Mapping[str, str], classes: ProviderClasses) -> ConfigProvider | None:
    """Create and configure a provider; log a warning and return None if its class is not configured."""
    prefix = f"{PROVIDERS}.{name}."
    class_name = worker.get(f"{prefix}class")
    if class_name is None:
        log.warning(
            "The config provider %s has no %sclass; variables of this provider are not replaced", name, prefix
        )
        return None
    provider = classes.make(f"{prefix}class", class_name.strip())
    param_prefix = f"{prefix}param."
    params = {key[len(param_prefix) :]: text for key, text in worker.items() if key.startswith(param_prefix)}
    try:
        provider.configure(params)
    except Exception as exc:
        raise _config_invalid(
            f"The config provider {name} ({class_name}) cannot be configured: {exc}"
        ) from exc
    return provider


_Get = Callable[[ConfigProvider, str, list[str]], ConfigData]


def _get(provider: ConfigProvider, path: str, keys: list[str]) -> ConfigData:
    return provider.get(path, keys)


def _get_with_timeout(provider: ConfigProvider, path: str, keys: list[str]) -> ConfigData:
    return (provider.get_with_timeout if isinstance(provider, RemoteProvider) else provider.get)(path, keys)


def _resolve(
    config: Config,
    find_provider: Callable[[str], ConfigProvider | None],
    get: _Get = _get,
    register: Callable[..., None] = secrets.add,
) -> ResolvedConfig:
    """Resolve a config with one provider call per path, and register the values for redaction."""
    requests: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)
    for variable in find_variables(config):
        requests[variable.provider, variable.path][variable.key] = None
    values: dict[Variable, str] = {}
    ttls: list[int] = []
    for (name, path), keys in requests.items():
        config_provider = find_provider(name)
        if config_provider is None:
            continue
        config_data = _call_provider(name, config_provider, path, list(keys), get)
        values |= {Variable(name, path, key): text for key, text in config_data.data.items()}
        if config_data.ttl_ms is not None and config_data.ttl_ms >= 0:
            ttls.append(config_data.ttl_ms)
    register(*values.values())
    return ResolvedConfig.of(config, values, min(ttls, default=None))


def _call_provider(name: str, provider: ConfigProvider, path: str, keys: list[str], get: _Get) -> ConfigData:
    try:
        return get(provider, path, keys)
    except KraalError:
        raise
    except Exception as exc:
        location = f" at {path}" if path else ""
        raise ProviderFailed(
            f"The config provider {name} could not read {', '.join(keys)}{location}: {exc}"
        ) from exc


def _config_invalid(text: str) -> ConfigInvalid:
    return ConfigInvalid(text, [text])
