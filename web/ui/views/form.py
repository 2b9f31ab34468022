"""Form of a connector's config, built from a response to `PUT /connector-plugins/{plugin}/config/validate`.

Values come from the edited config, never from the response, which replaces missing values with defaults and exposes
secrets that are not of type PASSWORD. Source: ConfigInfos, ConfigKeyInfo, ConfigValueInfo (Kafka 4.4.0).
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import count
from typing import Any, Final
from urllib.parse import quote

from kraal.config.hidden import HIDDEN, is_secret
from kraal.core.ids import Config, Json
from web.ui.views.config import PASSWORD
from web.ui.views.texts import plain_text

VALUE_PREFIX: Final = "v."
"""Prefix of an input's name, before the percent-encoded key; browsers change line ends in unencoded names."""
MARK_PREFIX: Final = "m."
"""Prefix of a hidden input that distinguishes an empty value from a missing one."""
DROP_PREFIX: Final = "d."
"""Prefix of a checkbox that removes an unknown key."""
UNGROUPED_TITLE: Final = "Plugin"
"""Title of the group for keys without a group, most of which the plugin itself defines."""
_COMMON_GROUP: Final = "Common"
_MAX_OPEN_KEYS: Final = 12
"""Maximum number of a plugin's keys in an initially open group."""
_BOOLEANS: Final = ("true", "false")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
"""Unpaired surrogates, which cannot be encoded in UTF-8."""
_NUMERIC_TYPES: Final = ("INT", "LONG", "SHORT", "DOUBLE")


class Marker(StrEnum):
    """Marker of an empty input, which distinguishes an empty or null value from a missing key."""

    NONE = ""
    EMPTY = "empty"
    NULL = "null"


class Widget(StrEnum):
    """Kind of input for a value."""

    LINE = "line"
    LINES = "lines"
    """The value has several lines."""
    CHOICE = "choice"
    """True, false, or the default."""
    SECRET = "secret"  # noqa: S105 - a kind of input
    FIXED = "fixed"
    """Read-only value, which is shown and submitted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """Config key with its input."""

    key: str
    label: str
    id: str = ""
    """HTML id of the input."""
    type: str = ""
    importance: str = ""
    documentation: str = ""
    default: str | None = None
    recommended: tuple[str, ...] = ()
    required: bool = False
    widget: Widget = Widget.LINE
    value: str = ""
    """Typed or stored value; secrets of a stored value are masked."""
    is_set: bool = False
    marker: Marker = Marker.NONE
    has_stored_secret: bool = False
    """Whether the value contains the placeholder of a stored secret."""
    errors: tuple[str, ...] = ()
    is_defined: bool = True
    """Whether the worker has a definition of the key."""

    @property
    def inputs(self) -> dict[str, str]:
        """Names of the key's input elements."""
        key = quote(self.key, safe="", errors="surrogatepass")
        return {"value": VALUE_PREFIX + key, "mark": MARK_PREFIX + key, "drop": DROP_PREFIX + key}

    @property
    def is_numeric(self) -> bool:
        """Whether the type of the key is numeric. The value may nevertheless be a reference, such as `${env:TASKS}`."""
        return self.type in _NUMERIC_TYPES


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Keys of one group in the plugin's definition."""

    title: str
    fields: tuple[Field, ...]
    open: bool

    @property
    def error_count(self) -> int:
        """Number of fields with errors."""
        return sum(bool(field.errors) for field in self.fields)

    @property
    def value_count(self) -> int:
        """Number of fields with a value in the config."""
        return sum(field.is_set for field in self.fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """Form to edit a config. Every key of the config is in `groups` or `extras`."""

    groups: tuple[Group, ...]
    extras: tuple[Field, ...]
    """Keys without a definition, which the worker ignores or passes to the plugin."""
    problems: tuple[str, ...] = ()
    """Errors that belong to no field."""
    as_json: str = "{}"

    @property
    def error_count(self) -> int:
        """Number of fields with errors plus the number of other errors."""
        fields = sum(group.error_count for group in self.groups) + sum(
            bool(field.errors) for field in self.extras
        )
        return fields + len(self.problems)

    @property
    def invalid_fields(self) -> list[Field]:
        """Fields with errors, in order, for a list of links at the top."""
        fields = [field for group in self.groups for field in group.fields if field.errors]
        return fields + [field for field in self.extras if field.errors]


def parse_password_keys(response: Json) -> frozenset[str]:
    """Return the keys of type PASSWORD in a validation result, including their prefixes."""
    return frozenset(
        str(definition.get("name"))
        for definition, _ in _definitions(response)
        if definition.get("type") == PASSWORD
    )


def parse_errors(response: Json) -> dict[str, tuple[str, ...]]:
    """Return the errors in a validation result by key."""
    errors_by_key: dict[str, list[str]] = {}
    for _, value in _definitions(response):
        for error in _strings(value.get("errors")):
            errors_by_key.setdefault(str(value.get("name")), []).append(error)
    return {key: tuple(dict.fromkeys(errors)) for key, errors in errors_by_key.items()}


def build_form(
    response: Json,
    config: Config,
    *,
    errors: Mapping[str, Sequence[str]] | None = None,
    problems: Sequence[str] = (),
    fixed: Collection[str] = (),
) -> Form:
    """Build the form.

    `config` is the submitted config, or the stored one with masked secrets. `errors` overrides the errors in the
    response; an empty mapping hides them, as for a new form. `fixed` keys cannot be edited.
    """
    errors_by_key = {**(parse_errors(response) if errors is None else errors)}
    fields_by_title: dict[str, list[tuple[int, Field]]] = {title: [] for title in _group_titles(response)}
    defined_keys: set[str] = set()
    for definition, value in _definitions(response):
        key = str(value.get("name") or definition.get("name") or "")
        if not definition or key in defined_keys:
            continue
        defined_keys.add(key)
        field = _build_field(definition, value, config, tuple(errors_by_key.get(key, ())), fixed)
        if value.get("visible") is False and not (field.is_set or field.errors):
            continue
        title = str(definition.get("group") or UNGROUPED_TITLE)
        fields_by_title.setdefault(title, []).append((_key_order(definition), field))
    extras = {
        key: _build_extra(key, config, tuple(errors_by_key.get(key, ())))
        for key in config
        if key not in defined_keys
    }
    other_errors = [
        f"{key}: {error}"
        for key in errors_by_key
        if key not in defined_keys and key not in extras
        for error in errors_by_key[key]
    ]
    ids = count(1)
    groups = [
        (title, _with_ids(_sort_fields(fields), ids)) for title, fields in fields_by_title.items() if fields
    ]
    is_short = sum(len(fields) for title, fields in groups if title == UNGROUPED_TITLE) <= _MAX_OPEN_KEYS
    return Form(
        groups=tuple(
            Group(
                title=title, fields=fields, open=_is_open(fields) or (title == UNGROUPED_TITLE and is_short)
            )
            for title, fields in groups
        ),
        extras=_with_ids(extras.values(), ids),
        problems=(*problems, *other_errors),
        as_json=json_text(config),
    )


def validation_from_keys(keys: Json, config: Config) -> Json:
    """Build a validation result from `GET …/config`, for workers that refuse to validate a config."""
    infos: list[Json] = [
        {
            "definition": definition,
            "value": {
                "name": definition.get("name"),
                "value": config.get(str(definition.get("name"))),
                "visible": True,
            },
        }
        for definition in (keys if isinstance(keys, list) else [])
        if isinstance(definition, dict)
    ]
    groups = dict.fromkeys(
        str(definition["group"])
        for definition in (keys if isinstance(keys, list) else [])
        if isinstance(definition, dict) and definition.get("group")
    )
    return {"groups": list(groups), "configs": infos}


def json_text(config: Config) -> str:
    """Return a config as indented JSON."""
    text = json.dumps(dict(config), indent=2, ensure_ascii=False)
    return _SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _group_titles(response: Json) -> list[str]:
    """Return the titles of the groups in order. The group of ungrouped keys follows the group `Common`."""
    groups = response.get("groups") if isinstance(response, dict) else None
    titles = list(dict.fromkeys(_strings(groups)))
    if UNGROUPED_TITLE not in titles:
        titles.insert(1 if titles[:1] == [_COMMON_GROUP] else 0, UNGROUPED_TITLE)
    return titles


def _definitions(response: Json) -> Iterable[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Yield the definition (empty if there is none) and value of each key."""
    configs = response.get("configs") if isinstance(response, dict) else None
    for key_info in configs if isinstance(configs, list) else []:
        if isinstance(key_info, dict):
            definition, value = key_info.get("definition"), key_info.get("value")
            yield (
                definition if isinstance(definition, dict) else {},
                value if isinstance(value, dict) else {},
            )


def _build_field(
    definition: Mapping[str, Any],
    value: Mapping[str, Any],
    config: Config,
    errors: tuple[str, ...],
    fixed: Collection[str],
) -> Field:
    key = str(value.get("name") or definition.get("name") or "")
    text = config.get(key)
    kind = str(definition.get("type") or "")
    default = definition.get("default_value")
    is_password = kind == PASSWORD
    return Field(
        key=key,
        label=str(definition.get("display_name") or key),
        type=kind,
        importance=str(definition.get("importance") or ""),
        documentation=plain_text(definition.get("documentation")),
        default=None
        if default is None
        else HIDDEN
        if is_secret(key, str(default), [key] if is_password else ())
        else str(default),
        recommended=() if is_password else tuple(_strings(value.get("recommended_values"))),
        required=definition.get("required") is True,
        widget=_choose_widget(key, text, kind, fixed),
        value=text or "",
        is_set=key in config,
        marker=_choose_marker(config, key),
        has_stored_secret=HIDDEN in (text or ""),
        errors=errors,
    )


def _build_extra(key: str, config: Config, errors: tuple[str, ...]) -> Field:
    text = config.get(key)
    return Field(
        key=key,
        label=key,
        widget=_choose_widget(key, text, "", ()),
        value=text or "",
        is_set=True,
        marker=_choose_marker(config, key),
        has_stored_secret=HIDDEN in (text or ""),
        errors=errors,
        is_defined=False,
    )


def _choose_marker(config: Config, key: str) -> Marker:
    if key not in config or config[key]:
        return Marker.NONE
    return Marker.NULL if config[key] is None else Marker.EMPTY


def _choose_widget(key: str, text: str | None, kind: str, fixed: Collection[str]) -> Widget:
    if key in fixed:
        return Widget.FIXED
    if "\n" in (text or "") or "\r" in (text or ""):
        return Widget.LINES
    if kind == PASSWORD or is_secret(key, text):
        return Widget.SECRET
    if kind == "BOOLEAN" and (not text or text in _BOOLEANS):
        return Widget.CHOICE
    return Widget.LINE


def _is_open(fields: Iterable[Field]) -> bool:
    return any(field.errors or field.is_set or (field.required and field.default is None) for field in fields)


def _key_order(definition: Mapping[str, Any]) -> int:
    """Return a key's position in its group; keys without a position follow in the order of the response."""
    order = definition.get("order_in_group", definition.get("order"))
    return order if isinstance(order, int) and order >= 0 else 1_000_000


def _sort_fields(fields: Iterable[tuple[int, Field]]) -> list[Field]:
    return [field for _, field in sorted(fields, key=lambda item: item[0])]


def _with_ids(fields: Iterable[Field], ids: Iterator[int]) -> tuple[Field, ...]:
    return tuple(replace(field, id=f"f{next(ids)}") for field in fields)


def _strings(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
