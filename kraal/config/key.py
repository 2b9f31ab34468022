"""Config keys and definitions: one declaration defines parsing, checks, REST responses and the manual.

Validation collects all errors. `REQUIRED` marks keys without a default, because many defaults are null.
Source: Kafka's ConfigDef (4.3.0).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum, StrEnum
from typing import Final

from kraal.config.checks import Check, describe_valid_values, rule
from kraal.config.values import ConfigType, Password, Resolve, parse_value, render
from kraal.core.errors import ConfigInvalid, KraalError

__all__ = [
    "REQUIRED",
    "ConfigDef",
    "ConfigType",
    "ConfigValue",
    "Importance",
    "Key",
    "Password",
    "Recommendation",
    "Recommender",
    "Width",
    "in_group",
]


class Importance(StrEnum):
    """The importance of a key to users."""

    HIGH = "HIGH"
    MEDIUM = "MEDIUM"
    LOW = "LOW"


class Width(StrEnum):
    """The width of the key's field in a user interface."""

    NONE = "NONE"
    SHORT = "SHORT"
    MEDIUM = "MEDIUM"
    LONG = "LONG"


class _Required(Enum):
    """The type of `REQUIRED`."""

    REQUIRED = "REQUIRED"


REQUIRED: Final = _Required.REQUIRED
"""The value of `Key.default` for keys that must be set."""


@dataclass(frozen=True, slots=True)
class Recommendation:
    """A recommender's result for a key, given the values of the other keys."""

    values: tuple[str, ...] = ()
    visible: bool = True


Recommender = Callable[[str, Mapping[str, object]], Recommendation]
"""Receives the key's name and all parsed values. Raises ValueError with a message for the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A config key. `default` is a parsed value (lists are tuples, classes are full names) or `REQUIRED`.

    A key without a group has `order` -1 and `group` None. `source` is the class in Kafka that defines the key.
    """

    name: str
    type: ConfigType
    default: object = REQUIRED
    validator: Check | None = None
    importance: Importance = Importance.MEDIUM
    doc: str | None = ""
    """The description; None only for keys of Java plugins that declare null."""
    group: str | None = None
    order: int = -1
    width: Width = Width.NONE
    display_name: str | None = ""
    """The display name; empty to use the key's name, None only for keys of Java plugins that declare null."""
    dependents: tuple[str, ...] = ()
    recommender: Recommender | None = None
    source: str = ""
    no_effect: str = ""
    """The reason why the key has no effect, as the end of a sentence; empty if the key has an effect."""

    @property
    def documentation(self) -> str | None:
        """The key's description for users, with a note if the key has no effect; None if it has no description."""
        return f"{self.doc} Has no effect: {self.no_effect}." if self.no_effect else self.doc

    @property
    def valid_values(self) -> str:
        """The description of valid values; empty if the type alone defines them."""
        if self.validator is None and self.type is ConfigType.BOOLEAN:
            return "`true`, `false`"
        return describe_valid_values(self.validator)

    @property
    def required(self) -> bool:
        """Whether the key has no default and must be set."""
        return self.default is REQUIRED

    @property
    def default_text(self) -> str | None:
        """The default as in REST responses; None if the key is required or its default is null."""
        return None if self.required else render(self.default)

    @property
    def title(self) -> str | None:
        """The display name in REST responses; None if a plugin in Java declares null."""
        return self.name if self.display_name == "" else self.display_name


def in_group(group: str, *keys: Key) -> tuple[Key, ...]:
    """Return copies of the keys with this group, in display order."""
    return tuple(replace(key, group=group, order=order) for order, key in enumerate(keys))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigValue:
    """A key's value after validation; `value` is None if the text could not be parsed."""

    name: str
    value: object = None
    recommended: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    visible: bool = True

    def with_errors(self, *errors: str) -> ConfigValue:
        """Return a copy with additional errors."""
        return replace(self, errors=self.errors + errors)


class ConfigDef:
    """An ordered set of keys. Immutable: `merge` and `embed` return new definitions."""

    __slots__ = ("_keys",)

    def __init__(self, keys: Iterable[Key] = ()) -> None:
        """Collect the keys. Raises ValueError for a duplicate key."""
        self._keys: dict[str, Key] = {}
        for key in keys:
            if key.name in self._keys:
                raise ValueError(f"Configuration {key.name} is defined twice.")
            self._keys[key.name] = key

    def __iter__(self) -> Iterator[Key]:
        return iter(self._keys.values())

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, name: object) -> bool:
        return name in self._keys

    def __getitem__(self, name: str) -> Key:
        return self._keys[name]

    def get(self, name: str) -> Key | None:
        """Return the key with this name, or None."""
        return self._keys.get(name)

    @property
    def groups(self) -> tuple[str, ...]:
        """All groups, in the order of their first keys."""
        return tuple(dict.fromkeys(key.group for key in self if key.group is not None))

    def merge(self, other: Iterable[Key]) -> ConfigDef:
        """Return a definition with additional keys, which replace existing keys of the same name."""
        return ConfigDef({**self._keys, **{key.name: key for key in other}}.values())

    def embed(self, prefix: str, group: str, first_order: int, other: Iterable[Key]) -> ConfigDef:
        """Return a definition with additional keys under a prefix and a group, in display order from `first_order`.

        A key that already has a group gets the group `GROUP: KEY GROUP`. The checks and recommenders of the additional
        keys receive names without the prefix, and the recommenders receive only the settings with the prefix.
        Source: ConfigDef.embed.
        """
        return self.merge(
            replace(
                key,
                name=prefix + key.name,
                group=group if key.group is None else f"{group}: {key.group}",
                order=order,
                display_name=key.title,
                dependents=tuple(prefix + name for name in key.dependents),
                validator=key.validator and _unprefixed_check(prefix, key.validator),
                recommender=key.recommender and _unprefixed_recommender(prefix, key.recommender),
            )
            for order, key in enumerate(ConfigDef(other).in_display_order(), start=first_order)
        )

    def in_display_order(self) -> list[Key]:
        """Return the keys sorted by group, order, requirement (required first), importance and name.

        Keys without a group are first. Source: ConfigDef.sortedConfigs.
        """
        groups: dict[str | None, int] = {None: -1}
        groups |= {group: index for index, group in enumerate(self.groups)}
        importance = list(Importance)

        def sort_key(key: Key) -> tuple[int, int, bool, int, str]:
            return groups[key.group], key.order, not key.required, importance.index(key.importance), key.name

        return sorted(self, key=sort_key)

    def validate(self, raw: Mapping[str, str | None], *, resolve: Resolve | None = None) -> list[ConfigValue]:
        """Validate all keys in order and collect all errors.

        An absent key gets its default; an explicit null stays null. Undefined keys are ignored. `resolve` finds
        classes; without `resolve`, any class name is valid.
        """
        values = {key.name: _validate_key(key, raw, resolve) for key in self}
        parsed_values = {name: value.value for name, value in values.items()}
        for key in self:
            if key.recommender is not None:
                values[key.name] = _apply_recommender(key.recommender, values[key.name], parsed_values)
            for name in key.dependents:
                if name not in self._keys:
                    error = f"{name} is referred in the dependents, but not defined."
                    values[name] = ConfigValue(name=name, errors=(error,), visible=False)
        return list(values.values())

    def parse(self, raw: Mapping[str, str | None], *, resolve: Resolve | None = None) -> dict[str, object]:
        """Return the parsed values of all keys. Raises ConfigInvalid with all errors."""
        values = self.validate(raw, resolve=resolve)
        errors = [error for value in values for error in value.errors]
        if errors:
            raise ConfigInvalid("\n".join(errors), errors)
        return {value.name: value.value for value in values}


def _apply_recommender(
    recommender: Recommender, value: ConfigValue, parsed_values: Mapping[str, object]
) -> ConfigValue:
    """Call a recommender; an exception becomes an error of the key."""
    try:
        recommendation = recommender(value.name, parsed_values)
    except (ValueError, KraalError) as exc:
        return value.with_errors(str(exc))
    return replace(value, recommended=recommendation.values, visible=recommendation.visible)


def _unprefixed_check(prefix: str, check: Check) -> Check:
    @rule(describe_valid_values(check))
    def check_unprefixed(name: str, value: object) -> str | None:
        return check(name.removeprefix(prefix), value)

    return check_unprefixed


def _unprefixed_recommender(prefix: str, recommender: Recommender) -> Recommender:
    def recommend_unprefixed(name: str, values: Mapping[str, object]) -> Recommendation:
        unprefixed_values = {
            key.removeprefix(prefix): value for key, value in values.items() if key.startswith(prefix)
        }
        return recommender(name.removeprefix(prefix), unprefixed_values)

    return recommend_unprefixed


def _validate_key(key: Key, raw: Mapping[str, str | None], resolve: Resolve | None) -> ConfigValue:
    """Parse and check the value of a key, without calling the key's recommender.

    As in Connect, the check also runs, with null, if parsing fails. `tasks.max=zero` therefore has two errors.
    """
    errors: list[str] = []
    value: object = None
    if key.name in raw:
        try:
            value = parse_value(key.name, raw[key.name], key.type, resolve)
        except ValueError as exc:
            errors.append(str(exc))
    elif key.required:
        errors.append(f'Missing required configuration "{key.name}" which has no default value.')
    else:
        value = key.default
    if key.validator is not None and (error := key.validator(key.name, value)) is not None:
        errors.append(error)
    return ConfigValue(name=key.name, value=value, errors=tuple(errors))
