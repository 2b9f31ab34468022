"""What a form sends: the config as typed, with stored secrets put back, and whether the stored one has changed."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

from kraal.config.connector.json_fields import Number, config_text
from kraal.config.hidden import HIDDEN, hide, shown
from kraal.core.ids import Config
from web.ui.views.form import DROP, MARK, VALUE, Marker
from web.ui.views.initial_offsets import Start, pasted_start

NEW_KEY: Final = "new.key"
NEW_VALUE: Final = "new.value"
JSON: Final = "json"

CHANGED_SECRET: Final = (
    f"This value still contains {HIDDEN}. Leave the value as it was to keep the stored secret, "
    f"or replace {HIDDEN} by the secret."
)
NO_SECRET: Final = f"There is no stored secret to keep for this key; replace {HIDDEN} by the secret."
STATES: Final = ("RUNNING", "PAUSED", "STOPPED")
"""Initial states of a connector, the default first."""
NO_START: Final = Start()
_REQUEST: Final = {"name", "config", "initial_state", "initial_offsets"}
_TOO_DEEP: Final = "The JSON is nested too deeply."
_NOT_A_CONFIG: Final = "The JSON must be an object whose values are strings, numbers, booleans or null"


@dataclass(frozen=True, slots=True, kw_only=True)
class Posted:
    """A config as typed; `problem` is set when its JSON cannot be read, and `text` is that JSON."""

    config: dict[str, str | None]
    text: str = ""
    problem: str = ""
    initial_state: str = ""
    """Of a pasted request; empty if it has none."""
    start: Start = NO_START
    """Initial offsets of a pasted request."""


def read_post(pairs: Iterable[tuple[str, str]]) -> Posted:
    """Read the fields of a posted form, or the JSON if there is a field of that name."""
    fields = list(pairs)
    texts = [value for name, value in fields if name == JSON]
    return _read_json(_lines(texts[0])) if texts else Posted(config=_read_fields(fields))


def _read_fields(fields: Sequence[tuple[str, str]]) -> dict[str, str | None]:
    marks = {_key(name[len(MARK) :]): value for name, value in fields if name.startswith(MARK)}
    dropped = {_key(name[len(DROP) :]) for name, _ in fields if name.startswith(DROP)}
    config: dict[str, str | None] = {}
    for name, value in fields:
        if not name.startswith(VALUE):
            continue
        key, text = _key(name[len(VALUE) :]), _lines(value)
        mark = marks.get(key, Marker.NONE)
        if key not in dropped and (text or mark):
            config[key] = None if not text and mark == Marker.NULL else text
    keys = [value for name, value in fields if name == NEW_KEY]
    values = [_lines(value) for name, value in fields if name == NEW_VALUE]
    config.update({key.strip(): value for key, value in zip(keys, values, strict=False) if key.strip()})
    return config


def _key(quoted: str) -> str:
    """Return the key in the name of an input; what is no key is made one that no config has."""
    try:
        return unquote(quoted, errors="surrogatepass")
    except UnicodeDecodeError:
        return unquote(quoted)


def _lines(text: str) -> str:
    """Return a text with its own line ends: browsers send all of them as CR and LF."""
    return text.replace("\r\n", "\n")


def _from_browser(text: str) -> str:
    """Return what a browser sends of a value that it was shown: without single CRs, NULs and halves of surrogates."""
    return _lines(text).replace("\r", "\n").replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def _read_json(text: str) -> Posted:
    try:
        found = json.loads(
            text,
            parse_float=Number,
            parse_int=Number,
            parse_constant=Number,
            object_pairs_hook=_without_duplicates,
        )
    except RecursionError:
        return Posted(config={}, text=text, problem=_TOO_DEEP)
    except ValueError as exc:
        return Posted(config={}, text=text, problem=f"The JSON cannot be read: {exc}.")
    if not isinstance(found, dict):
        return Posted(config={}, text=text, problem=f"{_NOT_A_CONFIG}.")
    state, start = "", NO_START
    if set(found) <= _REQUEST and isinstance(found.get("config"), dict):
        state = str(found.get("initial_state") or "").upper()
        if state and state not in STATES:
            return Posted(config={}, text=text, problem=f"initial_state must be one of {', '.join(STATES)}.")
        try:
            start = pasted_start(found.get("initial_offsets"))
        except RecursionError:
            return Posted(config={}, text=text, problem=_TOO_DEEP)
        except ValueError as exc:
            return Posted(config={}, text=text, problem=str(exc))
        found = {**({"name": found["name"]} if "name" in found else {}), **found["config"]}
    nested = next((key for key, value in found.items() if isinstance(value, dict | list)), None)
    if nested is not None:
        return Posted(config={}, text=text, problem=f"{_NOT_A_CONFIG}, but {nested!r} is none of these.")
    config = {key: config_text(value) for key, value in found.items()}
    return Posted(config=config, text=text, initial_state=state, start=start)


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make an object. Raises ValueError for a key that is there twice, of which one value would be lost."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {key!r} is there twice")
        found[key] = value
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """A config with its stored secrets; `errors` by key where there is no secret to put back."""

    config: dict[str, str | None]
    errors: dict[str, tuple[str, ...]]


def restore(
    typed: Config, stored: Config | None, declared: Collection[str] = (), *, exact: bool = False
) -> Restored:
    """Replace the placeholders of secrets by the stored values; `stored` is None for a new connector.

    `exact`: it was typed as JSON, in which line ends are as they were meant.
    A value is put back only under its own key, and only if it was left as the form showed it.
    """
    config: dict[str, str | None] = {}
    errors: dict[str, tuple[str, ...]] = {}
    for key, value in typed.items():
        config[key] = value
        before = (stored or {}).get(key)
        if not exact and before is not None and _from_browser(before) == value:
            config[key] = before
        if value is None or HIDDEN not in value or value == before:
            continue
        if before and value in _masks(key, before, declared):
            config[key] = before
        else:
            errors[key] = (CHANGED_SECRET if before and value != HIDDEN else NO_SECRET,)
    return Restored(config=config, errors=errors)


def _masks(key: str, value: str, declared: Collection[str]) -> set[str | None]:
    """Return the texts by which a form may have shown a value with a secret."""
    return {HIDDEN, shown(key, value, declared), shown(key, value)}


class Seals:
    """Tells whether a stored config is still the one that a form was made of. Any thread.

    A seal has two parts: an HMAC of the whole config with a key of this process, and a plain digest of the config with
    its secrets masked. Another worker behind the same address has another key: it compares the second part only, and
    then misses only a change of nothing but a secret, which the form does not overwrite unless it was typed anew.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._own = hashlib.sha256(b"process" + key).hexdigest()[:16]

    def seal(self, config: Config, declared: Collection[str]) -> str:
        """Return the seal of a config, which tells nothing about its secrets; `declared` as in `hide`."""
        return f"{self._own}.{self._secret(config)}.{_masked_digest(config, declared)}"

    def holds(self, seal: str, config: Config, declared: Collection[str]) -> bool:
        """Tell whether a config is the one of the seal."""
        own, _, rest = seal.partition(".")
        secret, _, masked = rest.partition(".")
        if own == self._own:
            return hmac.compare_digest(secret.encode(), self._secret(config).encode())
        return hmac.compare_digest(masked.encode(), _masked_digest(config, declared).encode())

    def _secret(self, config: Config) -> str:
        return hmac.new(self._key, _bytes(config), hashlib.sha256).hexdigest()


def _masked_digest(config: Config, declared: Collection[str]) -> str:
    return hashlib.sha256(_bytes(hide(config, declared))).hexdigest()


def typed_digest(typed: Config) -> str:
    """Return a digest of a config as typed: the changes that a page showed are those of this config."""
    return hashlib.sha256(_bytes(typed)).hexdigest()


def _bytes(config: Config) -> bytes:
    return json.dumps(sorted(config.items())).encode()
