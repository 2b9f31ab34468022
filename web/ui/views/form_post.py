"""Submitted forms: parsing, restoring stored secrets, and detecting changes of the stored config."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

from kraal.config.connector.json_fields import Number, config_text
from kraal.config.hidden import HIDDEN, hide, hide_value
from kraal.core.ids import Config
from web.ui.views.form import DROP_PREFIX, MARK_PREFIX, VALUE_PREFIX, Marker
from web.ui.views.initial_offsets import InitialOffsets, parse_pasted_offsets

NEW_KEY: Final = "new.key"
NEW_VALUE: Final = "new.value"
JSON_FIELD: Final = "json"

CHANGED_SECRET_ERROR: Final = (
    f"This value still contains {HIDDEN}. Leave the value unchanged to keep the stored secret, "
    f"or replace {HIDDEN} with the secret."
)
NO_SECRET_ERROR: Final = f"There is no stored secret to keep for this key; replace {HIDDEN} with the secret."
INITIAL_STATES: Final = ("RUNNING", "PAUSED", "STOPPED")
"""Initial states of a connector, default first."""
NO_INITIAL_OFFSETS: Final = InitialOffsets()
_REQUEST_FIELDS: Final = {"name", "config", "initial_state", "initial_offsets"}
_NESTING_ERROR: Final = "The JSON is nested too deeply."
_NOT_A_CONFIG_ERROR: Final = "The JSON must be an object whose values are strings, numbers, booleans or null"


@dataclass(frozen=True, slots=True, kw_only=True)
class PostedConfig:
    """A submitted config. If its JSON is invalid, `text` is the JSON and `problem` the error."""

    config: dict[str, str | None]
    text: str = ""
    problem: str = ""
    initial_state: str = ""
    """Initial state in a pasted request; empty if there is none."""
    initial_offsets: InitialOffsets = NO_INITIAL_OFFSETS
    """Initial offsets in a pasted request."""


def read_post(pairs: Iterable[tuple[str, str]]) -> PostedConfig:
    """Parse a posted form: the JSON in the field `json` if there is one, otherwise the fields."""
    fields = list(pairs)
    texts = [value for name, value in fields if name == JSON_FIELD]
    return _read_json(_normalize_line_ends(texts[0])) if texts else PostedConfig(config=_read_fields(fields))


def _read_fields(fields: Sequence[tuple[str, str]]) -> dict[str, str | None]:
    marks = {
        _decode_key(name[len(MARK_PREFIX) :]): value for name, value in fields if name.startswith(MARK_PREFIX)
    }
    removed_keys = {
        _decode_key(name[len(DROP_PREFIX) :]) for name, _ in fields if name.startswith(DROP_PREFIX)
    }
    config: dict[str, str | None] = {}
    for name, value in fields:
        if not name.startswith(VALUE_PREFIX):
            continue
        key, text = _decode_key(name[len(VALUE_PREFIX) :]), _normalize_line_ends(value)
        mark = marks.get(key, Marker.NONE)
        if key not in removed_keys and (text or mark):
            config[key] = None if not text and mark == Marker.NULL else text
    keys = [value for name, value in fields if name == NEW_KEY]
    values = [_normalize_line_ends(value) for name, value in fields if name == NEW_VALUE]
    config.update({key.strip(): value for key, value in zip(keys, values, strict=False) if key.strip()})
    return config


def _decode_key(quoted_key: str) -> str:
    """Decode the key in an input's name; invalid bytes become replacement characters."""
    try:
        return unquote(quoted_key, errors="surrogatepass")
    except UnicodeDecodeError:
        return unquote(quoted_key)


def _normalize_line_ends(text: str) -> str:
    """Normalize line ends, because browsers send CR LF."""
    return text.replace("\r\n", "\n")


def _as_submitted(text: str) -> str:
    """Return a value as a browser submits it, without lone CRs, NULs and lone surrogates."""
    return (
        _normalize_line_ends(text)
        .replace("\r", "\n")
        .replace("\0", "\ufffd")
        .encode("utf-8", "replace")
        .decode()
    )


def _read_json(text: str) -> PostedConfig:
    try:
        content = json.loads(
            text,
            parse_float=Number,
            parse_int=Number,
            parse_constant=Number,
            object_pairs_hook=_without_duplicates,
        )
    except RecursionError:
        return PostedConfig(config={}, text=text, problem=_NESTING_ERROR)
    except ValueError as exc:
        return PostedConfig(config={}, text=text, problem=f"The JSON cannot be read: {exc}.")
    if not isinstance(content, dict):
        return PostedConfig(config={}, text=text, problem=f"{_NOT_A_CONFIG_ERROR}.")
    state, initial_offsets = "", NO_INITIAL_OFFSETS
    if set(content) <= _REQUEST_FIELDS and isinstance(content.get("config"), dict):
        state = str(content.get("initial_state") or "").upper()
        if state and state not in INITIAL_STATES:
            return PostedConfig(
                config={}, text=text, problem=f"initial_state must be one of {', '.join(INITIAL_STATES)}."
            )
        try:
            initial_offsets = parse_pasted_offsets(content.get("initial_offsets"))
        except RecursionError:
            return PostedConfig(config={}, text=text, problem=_NESTING_ERROR)
        except ValueError as exc:
            return PostedConfig(config={}, text=text, problem=str(exc))
        content = {**({"name": content["name"]} if "name" in content else {}), **content["config"]}
    nested_key = next((key for key, value in content.items() if isinstance(value, dict | list)), None)
    if nested_key is not None:
        return PostedConfig(
            config={}, text=text, problem=f"{_NOT_A_CONFIG_ERROR}; {nested_key!r} has another type of value."
        )
    config = {key: config_text(value) for key, value in content.items()}
    return PostedConfig(config=config, text=text, initial_state=state, initial_offsets=initial_offsets)


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object. Raises ValueError for a duplicate key, which would lose a value."""
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise ValueError(f"duplicate key {key!r}")
        result[key] = value
    return result


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredConfig:
    """A config with restored secrets. `errors` has the errors of placeholders that cannot be replaced, by key."""

    config: dict[str, str | None]
    errors: dict[str, tuple[str, ...]]


def restore(
    typed_config: Config,
    stored_config: Config | None,
    secret_keys: Collection[str] = (),
    *,
    exact: bool = False,
) -> RestoredConfig:
    """Replace the placeholders of secrets with the stored values; `stored_config` is None for a new connector.

    `exact` must be set if the config was submitted as JSON, in which browsers do not change the line ends of values.
    A stored value is restored only for its own key, and only if the user has not changed the masked value.
    """
    config: dict[str, str | None] = {}
    errors: dict[str, tuple[str, ...]] = {}
    for key, value in typed_config.items():
        config[key] = value
        stored_value = (stored_config or {}).get(key)
        if not exact and stored_value is not None and _as_submitted(stored_value) == value:
            config[key] = stored_value
        if value is None or HIDDEN not in value or value == stored_value:
            continue
        if stored_value and value in _masked_forms(key, stored_value, secret_keys):
            config[key] = stored_value
        else:
            errors[key] = (CHANGED_SECRET_ERROR if stored_value and value != HIDDEN else NO_SECRET_ERROR,)
    return RestoredConfig(config=config, errors=errors)


def _masked_forms(key: str, value: str, secret_keys: Collection[str]) -> set[str | None]:
    """Return the possible masked forms of a value that contains a secret."""
    return {HIDDEN, hide_value(key, value, secret_keys), hide_value(key, value)}


class Seals:
    """Seals that detect whether the stored config has changed since a form was rendered. Thread-safe.

    A seal consists of an HMAC of the complete config, with a key of this process, and a plain digest of the config with
    masked secrets. Another worker behind the same address has a different key and compares only the digest. That
    worker misses changes that affect only a secret, which the form does not overwrite unless the user retypes it.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._process_id = hashlib.sha256(b"process" + key).hexdigest()[:16]

    def seal(self, config: Config, secret_keys: Collection[str]) -> str:
        """Return the seal of a config, which reveals no secrets. `secret_keys` are the keys of type PASSWORD."""
        return f"{self._process_id}.{self._keyed_digest(config)}.{_masked_digest(config, secret_keys)}"

    def matches(self, seal: str, config: Config, secret_keys: Collection[str]) -> bool:
        """Return whether a config matches the seal."""
        process_id, _, digests = seal.partition(".")
        keyed_digest, _, masked_digest = digests.partition(".")
        if process_id == self._process_id:
            return hmac.compare_digest(keyed_digest.encode(), self._keyed_digest(config).encode())
        return hmac.compare_digest(masked_digest.encode(), _masked_digest(config, secret_keys).encode())

    def _keyed_digest(self, config: Config) -> str:
        return hmac.new(self._key, _canonical_bytes(config), hashlib.sha256).hexdigest()


def _masked_digest(config: Config, secret_keys: Collection[str]) -> str:
    return hashlib.sha256(_canonical_bytes(hide(config, secret_keys))).hexdigest()


def typed_digest(typed_config: Config) -> str:
    """Return a digest of a submitted config, which identifies the changes shown on a page."""
    return hashlib.sha256(_canonical_bytes(typed_config)).hexdigest()


def _canonical_bytes(config: Config) -> bytes:
    return json.dumps(sorted(config.items())).encode()
