"""Validation of connector configs as in Connect, and descriptions of plugins' keys.

The result of `PUT /connector-plugins/{p}/config/validate` also decides whether a connector is created. It
covers the framework's keys with the worker's defaults, the keys of transforms by alias, the plugin's own keys, the
converters' keys, and client overrides under the policy. Validation does not access the network and collects all
errors. Source: AbstractHerder.validateConnectorConfig, ConnectorPluginsResource (Kafka 4.4.0).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import reduce

from kraal.config.clients.keys import Client, client_def
from kraal.config.clients.overrides import Allowlist, OverridePolicy, OverrideRequest, WorkerPolicy
from kraal.config.connector.auto_restart import supervision_keys
from kraal.config.connector.batches import batch_keys
from kraal.config.connector.java_plugins import java_keys
from kraal.config.connector.keys import (
    ADMIN_OVERRIDE,
    CONNECTOR,
    CONNECTOR_CLASS,
    CONNECTOR_VERSION,
    CONSUMER_OVERRIDE,
    HEADER_CONVERTER,
    KEY_CONVERTER,
    PRODUCER_OVERRIDE,
    VALUE_CONVERTER,
    VERSION_SUFFIX,
)
from kraal.config.connector.proof import proof_keys
from kraal.config.connector.sink import SINK, check_topics, has_dead_letter_topic
from kraal.config.connector.source import SOURCE, TOPIC_CREATION
from kraal.config.converter import CONVERTER_TYPE
from kraal.config.key import ConfigDef, ConfigValue, Key
from kraal.config.values import parse_value, trim
from kraal.core.errors import BadRequest, NotFound, PluginFailed
from kraal.core.ids import Config
from kraal.plugins.config_providers import ProviderClasses
from kraal.plugins.entries import CLASSPATH, Plugin, PluginKind
from kraal.plugins.java_chain import check_chain
from kraal.plugins.registry import Registry
from kraal.plugins.validation.aliases import check_aliases, with_aliases
from kraal.plugins.validation.framework import (
    WorkerDefaults,
    with_hidden_versions,
    with_version,
    with_worker,
)
from kraal.plugins.validation.infos import (
    ConfigInfos,
    ConfigKeyInfo,
    framework_infos,
    merge_infos,
    prefix_infos,
)
from kraal.plugins.validation.preflight import check_delivery, check_interval, check_sink_group
from kraal.plugins.validation.real_time import check_real_time
from kraal.plugins.validation.spark_cluster import add_cluster_errors
from kraal.plugins.versions import check_specification, is_invalid, mismatch

_NULL_VALUE_ERROR = "Null value can not be supplied as the configuration value."


def validate_connector(registry: Registry, worker: WorkerDefaults, config: Config) -> ConfigInfos:
    """Validate a connector's config.

    Raises BadRequest, with Connect's text, if the class is missing or unknown; PluginFailed if the plugin raises.
    """
    class_name = config.get(CONNECTOR_CLASS)
    if class_name is None:
        raise BadRequest("Connector config contains no connector type")
    plugin, requirement = registry.connector(class_name), config.get(CONNECTOR_VERSION)
    if error := mismatch(plugin.name, requirement, registry.versions(plugin.name)):
        return _report_mismatch(registry, class_name, plugin, config, error)
    plugin = registry.find(plugin.name, plugin.kind, requirement=requirement) or plugin
    connector = registry.connector_class(plugin.name, requirement)
    is_sink = plugin.kind is PluginKind.SINK
    base = with_worker(SINK if is_sink else SOURCE, registry, worker, config, plugin)
    keys = _with_own_keys(base, config)
    keys = with_aliases(keys, registry, config)
    values = {value.name: value for value in keys.validate(config, resolve=registry.resolve)}
    errors = _converter_errors(registry, config, values, plugin_location=plugin.location) + (
        check_topics(config) if is_sink else []
    )
    errors += [*check_aliases(registry, config), *check_real_time(registry, class_name, config, values)]
    errors += [*check_chain(registry, worker.raw, plugin, config)]
    for name, error in errors:
        values[name] = values[name].with_errors(error)
    if worker.group is not None and is_sink:
        check_sink_group(worker.group, config, values)
    elif worker.group is not None:
        check_delivery(connector, config, values, enabled=worker.exactly_once_sources)
        if worker.exactly_once_sources:
            check_interval(worker.raw, config, values)
    _add_null_errors(config, values)
    values.update((value.name, value) for value in connector.validate(config))
    add_cluster_errors(registry, worker.raw, connector, config, values)
    merged_keys = keys.merge(plugin.config_def)
    framework_part = framework_infos(
        class_name, {key.name: key for key in merged_keys}, values, merged_keys.groups
    )
    parts = [framework_part, *_validate_overrides(plugin, worker.override_policy, config)]
    parts += _validate_converters(registry, config, values, plugin_location=plugin.location)
    return merge_infos(class_name, parts)


def validate_for_rest(registry: Registry, worker: WorkerDefaults, plugin: str, config: Config) -> ConfigInfos:
    """Handle `PUT /connector-plugins/{plugin}/config/validate`.

    Raises BadRequest if the class in the body is missing, is unknown or differs from the class in the path. For the
    first two errors, Java returns 500.
    """
    check_plugin_matches(plugin, config)
    return validate_connector(registry, worker, config)


def check_plugin_matches(plugin: str, config: Config) -> None:
    """Raise BadRequest if the config's class is not the plugin in the path."""
    class_name = config.get(CONNECTOR_CLASS)
    if class_name is not None and not _short_name(class_name).endswith(_short_name(plugin)):
        raise BadRequest(f"Included connector type {class_name} does not match request type {plugin}")


def describe_plugin(registry: Registry, name: str, version: str | None = None) -> list[ConfigKeyInfo]:
    """Handle `GET /connector-plugins/{name}/config`: the plugin's own keys; for connectors, also the framework's.

    Raises NotFound for an unknown plugin; BadRequest for an unavailable version, or for a kind without config keys.
    """
    plugin = registry.find(name)
    if plugin is None:
        is_service_class = registry.is_service(name) or ProviderClasses.load().has(name)
        if is_service_class or OverridePolicy.parse_class(name) is not None:
            raise BadRequest(
                f"Invalid plugin class {name}. Valid types are sink, source, converter, header_converter, "
                "transformation, predicate."
            )
        raise NotFound(f"Unknown plugin {name}.")
    available = registry.versions(plugin.name)
    if version is not None and (error := mismatch(plugin.name, check_specification(version), available)):
        raise BadRequest(error)
    plugin = registry.find(plugin.name, plugin.kind, requirement=version) or plugin
    keys = list(plugin.config_def)
    if plugin.kind in {PluginKind.SINK, PluginKind.SOURCE}:
        base = with_version(SINK if plugin.kind is PluginKind.SINK else SOURCE, available)
        keys += [key for key in base if key.name not in plugin.config_def]
    return [ConfigKeyInfo(key) for key in keys]


def _with_own_keys(base: ConfigDef, config: Config) -> ConfigDef:
    """Add Kraal's own keys that are set in the config."""
    additions = (supervision_keys(config), java_keys(config), batch_keys(config, base), proof_keys(config))
    return reduce(ConfigDef.merge, additions, base)


def _add_null_errors(config: Config, values: dict[str, ConfigValue]) -> None:
    """Add an error to each key with a null value, even if the key is not declared."""
    for name in (name for name, value in config.items() if value is None):
        values[name] = values.get(name, ConfigValue(name=name)).with_errors(_NULL_VALUE_ERROR)


def _report_mismatch(
    registry: Registry, class_name: str, plugin: Plugin, config: Config, mismatch_error: str
) -> ConfigInfos:
    """Report that the required version is unavailable, without validating the plugin's own keys."""
    base = with_hidden_versions(with_version(CONNECTOR, registry.versions(plugin.name)))
    keys = _with_own_keys(base, config)
    values = {value.name: value for value in keys.validate(config, resolve=registry.resolve)}
    errors = _converter_errors(registry, config, values, plugin_location=plugin.location)
    for name, error in ((CONNECTOR_CLASS, mismatch_error), (CONNECTOR_VERSION, mismatch_error), *errors):
        values[name] = values[name].with_errors(error)
    _add_null_errors(config, values)
    return framework_infos(class_name, {key.name: key for key in keys}, values, keys.groups)


def _converter_errors(
    registry: Registry, config: Config, values: Mapping[str, ConfigValue], *, plugin_location: str
) -> list[tuple[str, str]]:
    """Return pairs of a key and its error, for invalid classes and versions of converters."""
    errors: list[tuple[str, str]] = []
    for key, kind, interface in (
        (KEY_CONVERTER, PluginKind.CONVERTER, "Converter"),
        (VALUE_CONVERTER, PluginKind.CONVERTER, "Converter"),
        (HEADER_CONVERTER, PluginKind.HEADER_CONVERTER, "HeaderConverter"),
    ):
        value = values[key]
        if not isinstance(value.value, str) or value.errors:
            continue
        name = config.get(key) or ""
        if name != trim(name):  # Java does not trim the class name
            errors.append((key, f"Failed to load class {name}: {name}"))
            continue
        try:
            plugin = registry.find(value.value, kind)
        except PluginFailed as exc:
            errors.append((key, f"Failed to load class {value.value}: {exc}"))
            continue
        requirement = config.get(key + VERSION_SUFFIX) if key in config else None
        if plugin is None:
            errors.append((key, f"Class class {value.value} does not implement the {interface} interface"))
        elif error := mismatch(
            plugin.name, requirement, registry.versions(plugin.name, location=plugin_location)
        ):
            keys = [key + VERSION_SUFFIX] if is_invalid(requirement or "") else [key, key + VERSION_SUFFIX]
            errors += [(invalid_key, error) for invalid_key in keys]
    return errors


def _validate_converters(
    registry: Registry, config: Config, values: Mapping[str, ConfigValue], *, plugin_location: str
) -> list[ConfigInfos]:
    """Validate the keys of each valid converter that the connector's config names."""
    parts = []
    for key, kind, role in (
        (HEADER_CONVERTER, PluginKind.HEADER_CONVERTER, "header"),
        (KEY_CONVERTER, PluginKind.CONVERTER, "key"),
        (VALUE_CONVERTER, PluginKind.CONVERTER, "value"),
    ):
        name = config.get(key)
        if name is None or values[key].errors:
            continue
        requirement = config.get(key + VERSION_SUFFIX)
        plugin = registry.find(name, kind, requirement=requirement, location=plugin_location)
        if plugin is not None:
            settings = _settings_with_prefix(config, f"{key}.")
            if settings.get(CONVERTER_TYPE) is None:
                settings[CONVERTER_TYPE] = role
            keys = {declared_key.name: declared_key for declared_key in plugin.config_def}
            parts.append(prefix_infos(keys, plugin.config_def.validate(settings), f"{key}."))
    return parts


def _validate_overrides(plugin: Plugin, policy: WorkerPolicy, config: Config) -> list[ConfigInfos]:
    """Validate the client overrides of the clients that the connector uses."""
    is_sink = plugin.kind is PluginKind.SINK
    has_dead_letters = is_sink and has_dead_letter_topic(config)
    creates_topics = not is_sink and any(name.startswith(TOPIC_CREATION) for name in config)
    clients: list[tuple[bool, Client, str]] = [
        (not is_sink or has_dead_letters, "producer", PRODUCER_OVERRIDE),
        (is_sink, "consumer", CONSUMER_OVERRIDE),
        (has_dead_letters or creates_topics, "admin", ADMIN_OVERRIDE),
    ]
    return [
        _validate_client(
            OverrideRequest(
                name=config.get("name"),
                type=plugin.kind,
                class_name=None if plugin.location == CLASSPATH else plugin.name,
                version=config.get(CONNECTOR_VERSION),
                client=client,
                overrides=_settings_with_prefix(config, prefix),
            ),
            policy,
            prefix,
        )
        for is_used, client, prefix in clients
        if is_used
    ]


def _validate_client(request: OverrideRequest, policy: WorkerPolicy, prefix: str) -> ConfigInfos:
    """Validate one client's overrides against the policy and the types of their keys.

    If a value has the wrong type, Java returns 500; Kraal reports an error of the key.
    """
    keys = {key.name: key for key in client_def(request.client)}
    parsed_values = {
        name: ConfigValue(name=name, value=value, errors=tuple(errors))
        for name, raw in request.overrides.items()
        for value, errors in [_parse_override(keys, name, raw)]
    }
    if isinstance(policy, OverridePolicy | Allowlist):
        reasons = {name: policy.rejection_reason(name) for name in parsed_values}
        values = [value.with_errors(*filter(None, [reasons[name]])) for name, value in parsed_values.items()]
    else:
        valid_overrides = {
            name: raw for name, raw in request.overrides.items() if not parsed_values[name].errors
        }
        values = [value for value in parsed_values.values() if value.errors]
        values += policy.validate(replace(request, overrides=valid_overrides))
    return prefix_infos(keys, values, prefix)


def _parse_override(keys: Mapping[str, Key], name: str, raw: str | None) -> tuple[object, list[str]]:
    """Parse an override by the type of the client's key; return the value and the errors."""
    if name not in keys:
        return raw, []
    try:
        return parse_value(name, raw, keys[name].type), []
    except ValueError as exc:
        return None, [str(exc)]


def _settings_with_prefix(config: Config, prefix: str) -> dict[str, str | None]:
    """Return the settings whose names start with `prefix`, by name without it; omit a name that equals `prefix`."""
    start = len(prefix)
    return {
        name[start:]: value for name, value in config.items() if name.startswith(prefix) and len(name) > start
    }


def _short_name(name: str) -> str:
    return name.removesuffix("Connector") or name
