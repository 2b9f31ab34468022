"""Display of a connector's config with masked secrets, and of differences between two configs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from kraal.config.hidden import HIDDEN, hide_value
from kraal.core.ids import Config, Json

PASSWORD: Final = "PASSWORD"  # noqa: S105 - the type of keys that are secrets


class Kind(StrEnum):
    """Kind of a cell's content."""

    VALUE = "value"
    EMPTY = "empty"
    NULL = "null"
    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class Cell:
    """Value of a key in a config, with masked secrets."""

    kind: Kind
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Key with its value."""

    key: str
    cell: Cell
    is_masked: bool
    """Whether the value contains a masked secret."""


class Change(StrEnum):
    """Change of a key between two configs."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"
    SAME = "same"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Key with its values in two configs."""

    key: str
    change: Change
    before: Cell
    after: Cell
    secret: bool
    """Whether two different values look the same because both are masked."""


def password_keys(keys: Json, prefix: str = "") -> frozenset[str]:
    """Return the keys of type PASSWORD in a response to `GET /connector-plugins/{plugin}/config`."""
    return frozenset(
        prefix + str(key_info.get("name"))
        for key_info in (keys if isinstance(keys, list) else [])
        if isinstance(key_info, dict) and key_info.get("type") == PASSWORD
    )


def parse_config(response: Json) -> dict[str, str | None]:
    """Parse a response to `GET …/config`, converting values to strings."""
    if not isinstance(response, dict):
        return {}
    return {key: value if value is None else _to_text(value) for key, value in response.items()}


def _to_text(value: Json) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else str(value)


def entries(config: Config, secret_keys: Collection[str] = ()) -> list[Entry]:
    """Return the entries of a config, sorted by key."""
    return [
        Entry(
            key=key,
            cell=_build_cell(config, key, secret_keys),
            is_masked=hide_value(key, value, secret_keys) != value,
        )
        for key, value in sorted(config.items())
    ]


def differences(before: Config, after: Config, secret_keys: Collection[str] = ()) -> list[Difference]:
    """Compare two configs; return all keys, sorted. Secrets are masked even if they have changed."""
    return [
        Difference(
            key=key,
            change=_classify_change(before, after, key),
            before=_build_cell(before, key, secret_keys),
            after=_build_cell(after, key, secret_keys),
            secret=_is_hidden_change(before, after, key, secret_keys),
        )
        for key in sorted({*before, *after})
    ]


def without_unchanged(all_differences: Sequence[Difference]) -> list[Difference]:
    """Return the differences without the unchanged keys."""
    return [difference for difference in all_differences if difference.change is not Change.SAME]


def history_differences(versions: Json) -> Iterator[list[Difference]]:
    """Yield the differences between each version and the next one, newest first, from a response to `GET …/configs`.

    The worker masks the secrets of all versions. A changed secret is therefore apparent only from the field `changed`
    of a version, which lists the keys that differ in the next version.
    """
    if not isinstance(versions, dict):
        return
    current, earlier_versions = versions.get("current"), versions.get("earlier")
    later_config: Mapping[str, str | None] = parse_config(
        current.get("config") if isinstance(current, dict) else None
    )
    for version in earlier_versions if isinstance(earlier_versions, list) else []:
        if isinstance(version, dict):
            config = parse_config(version.get("config"))
            changed_keys = version.get("changed")
            names = {str(name) for name in changed_keys} if isinstance(changed_keys, list) else set()
            yield [_mark_secret_change(difference, names) for difference in differences(config, later_config)]
            later_config = config


def _mark_secret_change(difference: Difference, changed_keys: Collection[str]) -> Difference:
    if difference.change is Change.SAME and difference.key in changed_keys:
        return Difference(
            key=difference.key,
            change=Change.CHANGED,
            before=difference.before,
            after=difference.after,
            secret=True,
        )
    return difference


def _classify_change(before: Config, after: Config, key: str) -> Change:
    if key not in before:
        return Change.ADDED
    if key not in after:
        return Change.REMOVED
    return Change.SAME if before[key] == after[key] else Change.CHANGED


def _build_cell(config: Config, key: str, secret_keys: Collection[str]) -> Cell:
    if key not in config:
        return Cell(Kind.ABSENT)
    text = hide_value(key, config[key], secret_keys)
    if text is None:
        return Cell(Kind.NULL)
    return Cell(Kind.VALUE if text else Kind.EMPTY, text)


def _is_hidden_change(before: Config, after: Config, key: str, secret_keys: Collection[str]) -> bool:
    if key not in before or key not in after or before[key] == after[key]:
        return False
    text = hide_value(key, after[key], secret_keys)
    return text == hide_value(key, before[key], secret_keys) and text is not None and HIDDEN in text
