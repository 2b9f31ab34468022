"""The actors' interface to a worker's plugins: create connectors, look up kinds and versions, validate configs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from kraal.config.clients.restrictions import check_urls
from kraal.config.connector.keys import CONNECTOR_VERSION, VERSION_SUFFIX
from kraal.config.connector.sink import SINK
from kraal.config.connector.source import SOURCE
from kraal.config.connector.topic_creation import read_rules
from kraal.config.key import Key
from kraal.config.named_plugins import named_plugins, select_plugin_keys
from kraal.config.secret_keys import secret_keys, secret_values
from kraal.config.values import invalid
from kraal.config.variables import ResolvedConfig, find_variables, is_only_variables
from kraal.core.errors import BadRequest, KraalError, PluginFailed, ProviderFailed
from kraal.core.ids import Config
from kraal.core.secrets import HIDDEN, secrets
from kraal.plugins.api import Connector, SourceTask
from kraal.plugins.config_providers import Providers, without_providers
from kraal.plugins.connector_parts import CONVERTERS
from kraal.plugins.registry import Registry
from kraal.plugins.validation.aliases import alias_keys
from kraal.plugins.validation.framework import WorkerDefaults, list_unused_keys
from kraal.plugins.validation.infos import ConfigInfo, ConfigInfos, with_replaced_errors
from kraal.plugins.validation.validate import check_plugin_matches, validate_connector, validate_for_rest

log = logging.getLogger(__name__)

_CLASS = "connector.class"


@dataclass(frozen=True, slots=True)
class WorkerPlugins:
    """The plugin registry with the defaults of one worker; thread-safe."""

    registry: Registry
    defaults: WorkerDefaults
    providers: Providers = field(default_factory=Providers)

    def resolve(self, config: Config) -> ResolvedConfig:
        """Resolve a connector or task config and register its secrets for redaction.

        Blocks as long as the config providers do. Raises ProviderFailed, and BadRequest if the class or the version is
        a variable of a provider in another process.
        """
        return self._resolve(config, self.providers.resolve)

    def resolve_with_timeout(self, config: Config) -> ResolvedConfig:
        """Like `resolve`, but raise Unavailable if a provider's process is down for longer than a request may wait."""
        return self._resolve(config, self.providers.resolve_with_timeout)

    def _resolve(self, config: Config, resolve: Callable[[Config], ResolvedConfig]) -> ResolvedConfig:
        for key in (_CLASS, CONNECTOR_VERSION):
            for variable in find_variables({key: config.get(key)}):
                if self.providers.is_remote(variable.provider):
                    raise BadRequest(
                        f"{key} must not have variables of the config provider {variable.provider}, whose class is "
                        "Java, because the worker needs the value without waiting; use a literal value, or a provider "
                        "in Python."
                    )
        resolved = resolve(config)
        secrets.add(*secret_values(resolved.config, declared_keys(self.registry, resolved.config)))
        return resolved

    def make(self, config: Mapping[str, str]) -> Connector:
        """Create the connector object that `connector.class` names.

        Raises BadRequest for an unknown class or version; ConfigInvalid for values of Connect's own keys that are no
        longer valid, for invalid topic creation rules, and for URLs that the operator does not allow.
        Source: Worker.startConnector (Kafka 4.4.0).
        """
        connector = self.registry.connector_class(config[_CLASS], config.get(CONNECTOR_VERSION))
        (SINK if connector.kind == "sink" else SOURCE).parse(config)
        check_urls(self.defaults.raw, config)
        is_exactly_once = self.defaults.exactly_once_sources
        plugin_keys = declared_keys(self.registry, config)
        if unused_keys := list_unused_keys(config, connector.kind, plugin_keys, exactly_once=is_exactly_once):
            log.warning(
                "Connector %s: these settings have no effect: %s", config.get("name"), ", ".join(unused_keys)
            )
        if connector.kind == "source" and self.defaults.topic_creation:
            read_rules(config)  # as in Java, which validates them only when connectors and tasks start
        return connector()

    def connector_type(self, config: Config) -> str:
        """Return `source` or `sink`; `unknown` if the class is not installed or cannot be imported."""
        connector_class = self._find_class(config)
        return "unknown" if connector_class is None else connector_class.kind

    def connector_version(self, config: Config) -> str | None:
        """Return the version of the plugin; None if the class is not installed or cannot be imported."""
        connector_class = self._find_class(config)
        return None if connector_class is None else connector_class.version

    def tracks_offsets(self, config: Config) -> bool:
        """Return whether a connector's source tasks may request the Kafka offsets of their records."""
        connector_class = self._find_class(config)
        if connector_class is None or not issubclass(connector_class.task_class, SourceTask):
            return False
        return connector_class.task_class.tracks_offsets(
            {key: value for key, value in config.items() if value is not None}
        )

    def check(self, config: Config) -> ConfigInfos:
        """Validate a connector config. Results and errors never contain values resolved by a provider.

        The connector's own `config.providers` are ignored. Variables that cannot be resolved are reported as errors of
        their keys. Raises BadRequest for an unknown class.
        """
        return self._check(
            config, lambda resolved: validate_connector(self.registry, self.defaults, resolved)
        )

    def check_for_rest(self, plugin: str, config: Config) -> ConfigInfos:
        """Handle `PUT /connector-plugins/{plugin}/config/validate`. Raises the same errors as `validate_for_rest`.

        The text of a PluginFailed begins with the class of the plugin's exception, as in Java, which reports the
        ExecutionException of its callback here.
        """
        check_plugin_matches(plugin, config)
        try:
            return self._check(
                config, lambda resolved: validate_for_rest(self.registry, self.defaults, plugin, resolved)
            )
        except PluginFailed as exc:
            exc.args = (secrets.scrub(exc.trace.partition("\n")[0]),)
            raise

    def _check(self, config: Config, check: Callable[[Config], ConfigInfos]) -> ConfigInfos:
        config = without_providers(config)
        resolved, provider_errors = self._resolve_partially(config)
        try:
            infos = check(resolved.config)
        except KraalError as exc:
            exc.args = (secrets.scrub(str(exc)),)
            raise
        infos = restore_variables(infos, resolved)
        return with_replaced_errors(infos, provider_errors, config) if provider_errors else infos

    def _resolve_partially(self, config: Config) -> tuple[ResolvedConfig, dict[str, str]]:
        """Resolve a config; also return the errors of keys that cannot be resolved.

        The values of such keys stay unchanged. Raises BadRequest if `connector.class` cannot be resolved.
        """
        try:
            return self.resolve_with_timeout(config), {}
        except ProviderFailed:
            pass
        errors: dict[str, str] = {}
        for key, text in config.items():
            try:
                self.providers.resolve_with_timeout({key: text})
            except ProviderFailed as exc:
                errors[key] = invalid(key, text, str(exc))
        if _CLASS in errors:
            raise BadRequest(errors[_CLASS])
        resolved = self.resolve_with_timeout({key: text for key, text in config.items() if key not in errors})
        return replace(resolved, raw=config, config={**config, **resolved.config}), errors

    def _find_class(self, config: Config) -> type[Connector] | None:
        try:
            names = {name: config[name] for name in (_CLASS, CONNECTOR_VERSION) if name in config}
            values = self.providers.resolve_locally(names).config
            return self.registry.connector_class(values.get(_CLASS) or "", values.get(CONNECTOR_VERSION))
        except KraalError:
            return None


def hidden_keys(registry: Registry, config: Config) -> frozenset[str]:
    """Return the keys of a config whose values are hidden: secrets, and all keys of plugins that are not installed."""
    plugins = named_plugins(config)
    missing_plugins = (plugin for plugin in plugins if not _is_installed(registry, plugin.plugin.strip()))
    keys = (select_plugin_keys(plugin.prefix, config, plugins) for plugin in missing_plugins)
    return secret_keys(config, declared_keys(registry, config)).union(*keys)


def _is_installed(registry: Registry, plugin: str) -> bool:
    try:
        return bool(registry.roles(plugin))
    except KraalError:
        return False


def declared_keys(registry: Registry, config: Config) -> list[Key]:
    """Return the keys declared by the plugins that a config names. Skips plugins that cannot be loaded."""
    keys: list[Key] = []
    for role in (_CLASS, *CONVERTERS):
        requirement = config.get(CONNECTOR_VERSION if role == _CLASS else role + VERSION_SUFFIX)
        try:
            plugin = registry.find((config.get(role) or "").strip(), requirement=requirement)
        except KraalError:
            continue
        prefix = "" if role == _CLASS else f"{role}."
        plugin_keys = () if plugin is None else plugin.config_def
        keys += [replace(key, name=prefix + key.name) for key in plugin_keys]
    return keys + alias_keys(registry, config)


def restore_variables(infos: ConfigInfos, resolved: ResolvedConfig) -> ConfigInfos:
    """Return the infos with the original variables in place of their resolved values.

    The errors of such a value are replaced with an error that does not contain the value. Secrets in other errors are
    masked.
    Source: AbstractHerder.redactResolvedValues (Kafka 4.4.0).
    """
    raw, values = resolved.raw, resolved.config
    variables = {name: text for name, text in raw.items() if text is not None and values[name] != text}
    configs = tuple(_restore_variables(info, variables) for info in infos.configs)
    count = sum(len(info.value.errors) for info in configs) if variables else infos.error_count
    return replace(infos, name=variables.get(_CLASS, infos.name), error_count=count, configs=configs)


def _restore_variables(info: ConfigInfo, variables: Mapping[str, str]) -> ConfigInfo:
    value = info.value
    if value.name not in variables:
        return replace(info, value=replace(value, errors=tuple(map(secrets.scrub, value.errors))))
    raw = variables[value.name]
    error = (
        f"Invalid value for configuration '{value.name}': "
        "the value resolved from the config provider reference failed validation"
    )
    return replace(
        info,
        value=replace(
            value,
            value=HIDDEN if value.value == HIDDEN and not is_only_variables(raw) else raw,
            recommended_values=(),
            errors=(error,) if value.errors else (),
        ),
    )
