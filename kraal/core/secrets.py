"""Registry of secret values, which are removed from logs, traces and errors.

Code that reads a secret must register it (`secrets.add`, or `secrets.pin` for the worker's own secrets), and code that
outputs a text must remove secrets from the text (`secrets.scrub`). Each process has one registry. Secrets are values of
type PASSWORD, values of keys with names such as `password` (`is_secret_name`), and all values that config providers
returned.

Short and common values must not make logs unreadable. Values of fewer than 4 characters are never hidden; values of
fewer than 8 are hidden only as separate words. Longer values are hidden anywhere, also in escaped form (JSON, Python's
`repr`, URLs). Words that are common in logs, such as `true` or `localhost`, are not secrets. In a value of several
lines, each line of 12 characters or more is also hidden separately.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterable, Iterator
from urllib.parse import quote, quote_plus

HIDDEN = "[hidden]"
"""Replacement for secrets; Connect's text for values of type PASSWORD."""

MIN_LENGTH = 4
"""Minimum length of hidden values."""
MIN_SUBSTRING_LENGTH = 8
"""Minimum length of values that are hidden anywhere, not only as separate words."""
MIN_LINE_LENGTH = 12
"""Minimum length of lines that are hidden separately."""
MAX_SECRETS = 5_000
"""Maximum number of stored values that are not pinned; the least recently used value is dropped first. Tokens that
change every minute reach this limit within days."""

_SECRET_NAME = re.compile(
    r"password|passphrase|passwd|secret|token|credential|authorization|key|jaas|(?:^|[._-])(?:pass|pwd|user\.info)$",
    re.IGNORECASE,
)
_NOT_SECRET_SUFFIX = re.compile(
    r"(?:^|[._-])(?:algorithms?|class|columns?|converter|deserializer|enabled?|fields?|file|format|ignore|location"
    r"|mode|ms|names?|path|provider|serializer|size|strategy|types?|ur[il]|version)$",
    re.IGNORECASE,
)
"""Suffixes of config keys whose values are not secret, such as `ssl.keystore.location`."""
_KEY_CONVERTER = re.compile(r"^key\.converter(?:\.|$)")
_OPTION = re.compile(r"(?<!\w)(\w++)\s*+=\s*+")
"""`++` does not backtrack, so each character is read at most twice."""
_OPTION_VALUE = re.compile(r"\"([^\"]*)\"|'([^']*)'|([^\s;\"']+)")
_SECRET_OPTION = re.compile(r"password|secret|token|key", re.IGNORECASE)
_COMMON_WORDS = frozenset(
    re.findall(
        r"\w+",
        "all connect connector debug disabled earliest enabled error false fatal file hidden host http https info json "
        "kafka kraal latest localhost none null plain plaintext running sasl_plaintext sasl_ssl sink source spark "
        "string task topic trace true warn warning worker",
    )
)


def is_secret_name(key: str) -> bool:
    """Return whether the name of a key indicates that its value is secret."""
    name = _KEY_CONVERTER.sub("", key)
    return _SECRET_NAME.search(name) is not None and _NOT_SECRET_SUFFIX.search(name) is None


def can_hide(value: str) -> bool:
    """Return whether a secret value can be hidden in texts, because it is neither short nor common."""
    text = value.strip()
    return len(text) >= MIN_LENGTH and text.lower() not in _COMMON_WORDS


class Secrets:
    """The secrets of a process. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pinned: set[str] = set()
        self._forms_by_value: dict[str, tuple[str, ...]] = {}
        """The forms of each value; values that are not pinned are ordered by last use, the most recent last."""
        self._values_by_form: dict[str, str] = {}
        """The value of each form; replaced, never mutated."""
        self._forms: tuple[str, ...] = ()
        """All forms, longest first; replaced, never mutated."""

    def pin(self, *values: str | None) -> None:
        """Register values, such as the worker's own, to hide until the process ends."""
        self._register(values, pinned=True)

    def add(self, *values: str | None) -> None:
        """Register values to hide. A value counts as used when it is registered again or hidden in a text."""
        self._register(values, pinned=False)

    def _register(self, values: Iterable[str | None], *, pinned: bool) -> None:
        hideable_values = [value for value in values if value is not None and can_hide(value)]
        with self._lock:
            if pinned:
                self._pinned.update(hideable_values)
            new_values = [value for value in hideable_values if value not in self._forms_by_value]
            for value in hideable_values:
                self._forms_by_value[value] = self._forms_by_value.pop(value, ()) or tuple(
                    dict.fromkeys(_forms(value))
                )
            if new_values:
                self._drop_least_recently_used()
                self._values_by_form = {
                    form: value for value, forms in self._forms_by_value.items() for form in forms
                }
                self._forms = tuple(sorted(self._values_by_form, key=lambda form: (-len(form), form)))

    def _drop_least_recently_used(self) -> None:
        unpinned_values = [value for value in self._forms_by_value if value not in self._pinned]
        for value in unpinned_values[: max(0, len(unpinned_values) - MAX_SECRETS)]:
            del self._forms_by_value[value]

    def clear(self) -> None:
        """Remove all values. For tests."""
        with self._lock:
            self._pinned.clear()
            self._forms_by_value.clear()
            self._values_by_form = {}
            self._forms = ()

    def scrub(self, text: str) -> str:
        """Replace each secret in a text by `[hidden]`."""
        # Separate searches are much faster than a combined expression, because matches are rare.
        for form in self._forms:
            if form in text:
                text = replace_value(form, HIDDEN, text)
                self._mark_used(form)
        return text

    def _mark_used(self, form: str) -> None:
        with self._lock:
            value = self._values_by_form.get(form)
            if value in self._forms_by_value:
                self._forms_by_value[value] = self._forms_by_value.pop(value)


secrets = Secrets()
"""The registry of this process."""


def replace_value(value: str, replacement: str, text: str) -> str:
    """Replace a value in a text: a long value anywhere, a short one only as a separate word."""
    if len(value) >= MIN_SUBSTRING_LENGTH:
        return text.replace(value, replacement)
    return re.sub(rf"(?<!\w){re.escape(value)}(?!\w)", lambda _: replacement, text)


def _secret_options(text: str) -> Iterator[str]:
    """Yield the values of options such as `password="…"` in a text."""
    position = 0
    while (option := _OPTION.search(text, position)) is not None:
        position = option.end()
        if _SECRET_OPTION.search(option[1]) and (value := _OPTION_VALUE.match(text, position)) is not None:
            position = value.end()
            yield next(group for group in value.groups() if group is not None)


def _forms(value: str) -> Iterator[str]:
    """Yield the value, its lines, and the secret values of its JAAS options, each also in escaped forms."""
    text = value.strip()
    parts = [text]
    if "\n" in text:
        parts += [line.strip() for line in text.splitlines() if len(line.strip()) >= MIN_LINE_LENGTH]
    parts += filter(can_hide, _secret_options(text))
    for part in parts:
        yield part
        yield repr(part)[1:-1]
        yield json.dumps(part)[1:-1]
        yield json.dumps(part, ensure_ascii=False)[1:-1]
        yield quote(part, safe="")
        yield quote_plus(part)
