"""Comparison of configs: the action required to apply a config, and diffs. Pure functions."""

from __future__ import annotations

import difflib
import json
from collections.abc import Collection
from enum import StrEnum

from kraal.config.hidden import hide_value
from kraal.core.ids import Config
from kraal.core.printable import printable

_CHANGED_MARK = " (changed)"
"""Appended to a hidden value that differs."""
_CONTEXT_LINES = 3


class Action(StrEnum):
    """Action on a connector, performed or planned."""

    CREATED = "created"
    CONFIGURED = "configured"
    UNCHANGED = "unchanged"
    DELETED = "deleted"
    FAILED = "failed"


def action_for(live_config: Config | None, target: Config) -> Action:
    """Return the action that applies a config; `live_config` is None if the connector does not exist."""
    if live_config is None:
        return Action.CREATED
    return Action.UNCHANGED if dict(live_config) == dict(target) else Action.CONFIGURED


def apply_patch(live_config: Config, changes: Config) -> dict[str, str | None]:
    """Return a config after a patch; null removes a key (KIP-477)."""
    return {
        key: value
        for key, value in {**live_config, **changes}.items()
        if value is not None or key not in changes
    }


def difference(
    before: tuple[str, Config | None], after: tuple[str, Config | None], secret_keys: Collection[str] = ()
) -> list[str]:
    """Return a unified diff of two configs with one line per key, sorted; empty if they are equal.

    `before` and `after` are pairs of a title and a config; the config is None if it does not exist. Secrets are hidden
    even if they differ.
    """
    old_config, new_config = before[1] or {}, after[1] or {}
    hidden_changes = {
        key
        for key in old_config.keys() & new_config.keys()
        if old_config[key] != new_config[key]
        and hide_value(key, old_config[key], secret_keys) == hide_value(key, new_config[key], secret_keys)
    }
    before_lines = [_line(key, old_config[key], secret_keys) for key in sorted(old_config)]
    after_lines = [
        _line(key, new_config[key], secret_keys) + (_CHANGED_MARK if key in hidden_changes else "")
        for key in sorted(new_config)
    ]
    from_title, to_title = (
        printable(title) if config is not None else "/dev/null" for title, config in (before, after)
    )
    return list(
        difflib.unified_diff(before_lines, after_lines, from_title, to_title, lineterm="", n=_CONTEXT_LINES)
    )


def changed_keys(
    before: Config | None, after: Config | None, secret_keys: Collection[str] = ()
) -> dict[str, dict[str, str | None]]:
    """Return the sorted keys that differ, with the values `before` and `after`; None for a missing key.

    Secrets are hidden, so both values of a secret may look equal.
    """
    old_config, new_config = before or {}, after or {}
    return {
        key: {
            "before": hide_value(key, old_config.get(key), secret_keys),
            "after": hide_value(key, new_config.get(key), secret_keys),
        }
        for key in sorted({*old_config, *new_config})
        if key not in old_config or key not in new_config or old_config[key] != new_config[key]
    }


def _line(key: str, value: str | None, secret_keys: Collection[str]) -> str:
    """Return `key: value` on one line."""
    text = hide_value(key, value, secret_keys)
    if text is None:
        return f"{printable(key)}: null"
    is_plain = printable(text) == text and text == text.strip() and text not in ("", "null")
    return f"{printable(key)}: {text if is_plain else printable(json.dumps(text, ensure_ascii=False))}"
