"""The REST representation of config keys and values: Connect's JSON objects, with fields in Connect's order.

Source: ConfigInfos, ConfigInfo, ConfigKeyInfo, ConfigValueInfo (Kafka 4.4.0).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from kraal.config.key import ConfigValue, Key
from kraal.config.values import render
from kraal.core.errors import ConfigInvalid
from kraal.core.ids import Config, Json


@dataclass(frozen=True, slots=True)
class ConfigKeyInfo:
    """The declaration of a config key; the prefix is added to its name."""

    key: Key
    prefix: str = ""

    def to_json(self) -> dict[str, Json]:
        """Return the JSON object."""
        key = self.key
        return {
            "name": self.prefix + key.name,
            "type": str(key.type),
            "required": key.required,
            "default_value": key.default_text,
            "importance": str(key.importance),
            "documentation": key.documentation,
            "group": key.group,
            "order_in_group": key.order,
            "width": str(key.width),
            "display_name": key.title,
            "dependents": list(key.dependents),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigValueInfo:
    """The value of a config key, with its errors."""

    name: str
    value: str | None
    recommended_values: tuple[str, ...]
    errors: tuple[str, ...]
    visible: bool

    @staticmethod
    def of(value: ConfigValue, prefix: str = "") -> ConfigValueInfo:
        """Return the info of a validated value."""
        return ConfigValueInfo(
            name=prefix + value.name,
            value=render(value.value),
            recommended_values=value.recommended,
            errors=value.errors,
            visible=value.visible,
        )

    def to_json(self) -> dict[str, Json]:
        """Return the JSON object."""
        return {
            "name": self.name,
            "value": self.value,
            "recommended_values": list(self.recommended_values),
            "errors": list(self.errors),
            "visible": self.visible,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigInfo:
    """A key and its value; an unknown key has no definition."""

    definition: ConfigKeyInfo | None
    value: ConfigValueInfo

    def to_json(self) -> dict[str, Json]:
        """Return the JSON object."""
        return {
            "definition": None if self.definition is None else self.definition.to_json(),
            "value": self.value.to_json(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigInfos:
    """The result of validating a connector's config. `name` is the class as written in the config."""

    name: str
    error_count: int
    groups: tuple[str, ...]
    configs: tuple[ConfigInfo, ...]

    @property
    def errors(self) -> tuple[str, ...]:
        """All error messages, in order."""
        return tuple(error for config in self.configs for error in config.value.errors)

    def to_json(self) -> dict[str, Json]:
        """Return the JSON object."""
        return {
            "name": self.name,
            "error_count": self.error_count,
            "groups": list(self.groups),
            "configs": [config.to_json() for config in self.configs],
        }


def framework_infos(
    name: str, keys: Mapping[str, Key], values: Mapping[str, ConfigValue], groups: Iterable[str]
) -> ConfigInfos:
    """Join keys with their values, undeclared keys first. `error_count` is the number of messages.

    Source: AbstractHerder.generateResult.
    """
    undeclared_infos = [
        ConfigInfo(definition=None, value=ConfigValueInfo.of(value))
        for key_name, value in values.items()
        if key_name not in keys
    ]
    declared_infos = [
        ConfigInfo(definition=ConfigKeyInfo(key), value=ConfigValueInfo.of(values[key.name]))
        for key in keys.values()
        if key.name in values
    ]
    count = sum(len(value.errors) for value in values.values())
    return ConfigInfos(
        name=name, error_count=count, groups=tuple(groups), configs=(*undeclared_infos, *declared_infos)
    )


def prefix_infos(keys: Mapping[str, Key], values: Iterable[ConfigValue], prefix: str) -> ConfigInfos:
    """Join the keys of one plugin or client with their values, under a prefix. `error_count` is the number of keys.

    Source: AbstractHerder.prefixedConfigInfos.
    """
    value_list = tuple(values)
    configs = [
        ConfigInfo(
            definition=ConfigKeyInfo(keys[value.name], prefix) if value.name in keys else None,
            value=ConfigValueInfo.of(value, prefix),
        )
        for value in value_list
    ]
    groups = (keys[value.name].group for value in value_list if value.name in keys)
    return ConfigInfos(
        name="",
        error_count=sum(bool(value.errors) for value in value_list),
        groups=tuple(dict.fromkeys(group for group in groups if group is not None)),
        configs=tuple(configs),
    )


def merge_infos(name: str, parts: Iterable[ConfigInfos]) -> ConfigInfos:
    """Merge infos, summing error counts and removing duplicate groups. Source: AbstractHerder.mergeConfigInfos."""
    infos = tuple(parts)
    return ConfigInfos(
        name=name,
        error_count=sum(part.error_count for part in infos),
        groups=tuple(dict.fromkeys(group for part in infos for group in part.groups)),
        configs=tuple(config for part in infos for config in part.configs),
    )


def with_replaced_errors(infos: ConfigInfos, errors: Mapping[str, str], config: Config) -> ConfigInfos:
    """Replace the infos of the keys in `errors` with infos that contain the error and the value in `config`."""
    unchanged_infos = tuple(info for info in infos.configs if info.value.name not in errors)
    definitions = {info.value.name: info.definition for info in infos.configs}
    error_infos = tuple(
        ConfigInfo(
            definition=definitions.get(name),
            value=ConfigValueInfo(
                name=name, value=config.get(name), recommended_values=(), errors=(error,), visible=True
            ),
        )
        for name, error in errors.items()
    )
    replaced_count = sum(len(info.value.errors) for info in infos.configs if info.value.name in errors)
    count = max(0, infos.error_count - replaced_count) + len(error_infos)
    return replace(infos, error_count=count, configs=(*error_infos, *unchanged_infos))


def raise_if_invalid(infos: ConfigInfos) -> None:
    """Raise ConfigInvalid, with Connect's text, if there are errors.

    Source: AbstractHerder.maybeAddConfigErrors.
    """
    if not infos.error_count:
        return
    count, lines = infos.error_count, "".join(f"\n{error}" for error in infos.errors)
    raise ConfigInvalid(
        f"Connector configuration is invalid and contains the following {count} error(s):{lines}\n"
        "You can also find the above list of errors at the endpoint "
        "`/connector-plugins/{connectorType}/config/validate`",
        infos.errors,
    )
